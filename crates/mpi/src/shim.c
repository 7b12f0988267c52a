/* The C side of the binding: what of MPI is a macro, has an implementation's own type, or needs a status.
 *
 * Handles cross as 64-bit numbers that hold their bytes. Requests lie one behind the other in memory that the
 * caller gives, 8 bytes for each, and are named by their index. Every function returns an MPI error code. */

#define _GNU_SOURCE /* for the cores of a process */

#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Comm) <= 8, "a communicator crosses as 64 bits");
_Static_assert(sizeof(MPI_Win) <= 8, "a window crosses as 64 bits");
_Static_assert(sizeof(MPI_Request) <= 8, "a request has 64 bits");
_Static_assert(sizeof(MPI_Fint) == 4, "a Fortran handle has 32 bits");

#define TRY(call)                                                                                                    \
    do {                                                                                                             \
        int code_ = (call);                                                                                          \
        if (code_ != MPI_SUCCESS) return code_;                                                                      \
    } while (0)

static MPI_Comm comm_of(uint64_t handle) {
    MPI_Comm comm;
    memcpy(&comm, &handle, sizeof comm);
    return comm;
}

static uint64_t of_comm(MPI_Comm comm) {
    uint64_t handle = 0;
    memcpy(&handle, &comm, sizeof comm);
    return handle;
}

static MPI_Win window_of(uint64_t handle) {
    MPI_Win window;
    memcpy(&window, &handle, sizeof window);
    return window;
}

/* A communicator of ours returns its errors. */
static int ours(MPI_Comm comm, uint64_t *handle) {
    *handle = of_comm(comm);
    return MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* ---- The library ---- */

int sw_state(int *initialized, int *finalized) {
    TRY(MPI_Initialized(initialized));
    return MPI_Finalized(finalized);
}

/* 0: calls come from one thread only; 1: from one at a time; 2: from any. */
static int level_of(int threads) {
    return threads >= MPI_THREAD_MULTIPLE ? 2 : threads >= MPI_THREAD_SERIALIZED ? 1 : 0;
}

int sw_begin(int wanted, int *level) {
    int given;
    TRY(MPI_Init_thread(NULL, NULL, wanted == 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &given));
    *level = level_of(given);
    return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

int sw_threads(int *level) {
    int given;
    TRY(MPI_Query_thread(&given));
    *level = level_of(given);
    return MPI_SUCCESS;
}

int sw_end(void) { return MPI_Finalize(); }

int sw_abort(uint64_t comm, int status) { return MPI_Abort(comm_of(comm), status); }

/* What is registered for the end of a process could wait for a call that is under way. */
void sw_end_process(int status) { _exit(status); }

/* The text of an error code, ended by a zero. */
void sw_text(int code, char *text, int bytes) {
    char whole[MPI_MAX_ERROR_STRING + 1] = "an error without a text";
    int length;
    MPI_Error_string(code, whole, &length);
    strncpy(text, whole, (size_t)bytes - 1);
    text[bytes - 1] = 0;
}

/* ---- Communicators ---- */

uint64_t sw_world(void) { return of_comm(MPI_COMM_WORLD); }

int sw_from_fortran(int32_t fortran, uint64_t *comm, int *none) {
    MPI_Comm given = MPI_Comm_f2c(fortran);
    *comm = of_comm(given);
    /* Open MPI gives a null pointer for a number that it has not given. */
    *none = given == MPI_COMM_NULL || *comm == 0;
    return MPI_SUCCESS;
}

int32_t sw_to_fortran(uint64_t comm) { return MPI_Comm_c2f(comm_of(comm)); }

int sw_rank(uint64_t comm, int *rank, int *ranks) {
    TRY(MPI_Comm_rank(comm_of(comm), rank));
    return MPI_Comm_size(comm_of(comm), ranks);
}

int sw_greatest_tag(uint64_t comm, int *tag) {
    int *value, there;
    TRY(MPI_Comm_get_attr(comm_of(comm), MPI_TAG_UB, &value, &there));
    *tag = there ? *value : 32767;
    return MPI_SUCCESS;
}

int sw_duplicate(uint64_t comm, uint64_t *made) {
    MPI_Comm copy;
    TRY(MPI_Comm_dup(comm_of(comm), &copy));
    return ours(copy, made);
}

int sw_split_by_host(uint64_t comm, int key, uint64_t *made) {
    MPI_Comm host;
    TRY(MPI_Comm_split_type(comm_of(comm), MPI_COMM_TYPE_SHARED, key, MPI_INFO_NULL, &host));
    return ours(host, made);
}

int sw_group(uint64_t comm, int members, const int *ranks, int tag, uint64_t *made) {
    MPI_Group all, some;
    MPI_Comm group;
    TRY(MPI_Comm_group(comm_of(comm), &all));
    TRY(MPI_Group_incl(all, members, ranks, &some));
    TRY(MPI_Comm_create_group(comm_of(comm), some, tag, &group));
    TRY(MPI_Group_free(&some));
    TRY(MPI_Group_free(&all));
    return ours(group, made);
}

int sw_free(uint64_t comm) {
    MPI_Comm freed = comm_of(comm);
    return MPI_Comm_free(&freed);
}

/* ---- What is started ---- */

typedef struct {
    void *start;
    int count;
} Bytes;

/* Bytes of each member of a group: how many, and how far from the start. */
typedef struct {
    void *start;
    const int *counts;
    const int *starts;
} Parts;

typedef struct {
    void *requests;
    int at;
} Slot;

static MPI_Request *request_at(Slot slot) { return (MPI_Request *)slot.requests + slot.at; }

int sw_send(Bytes bytes, int to, int tag, uint64_t comm, Slot slot) {
    return MPI_Isend(bytes.start, bytes.count, MPI_BYTE, to, tag, comm_of(comm), request_at(slot));
}

int sw_receive(Bytes bytes, int from, int tag, uint64_t comm, Slot slot) {
    return MPI_Irecv(bytes.start, bytes.count, MPI_BYTE, from, tag, comm_of(comm), request_at(slot));
}

int sw_broadcast(Bytes bytes, int root, uint64_t comm, Slot slot) {
    return MPI_Ibcast(bytes.start, bytes.count, MPI_BYTE, root, comm_of(comm), request_at(slot));
}

int sw_all_gather(Bytes own, Parts all, uint64_t comm, Slot slot) {
    return MPI_Iallgatherv(own.start, own.count, MPI_BYTE, all.start, all.counts, all.starts, MPI_BYTE, comm_of(comm),
                           request_at(slot));
}

int sw_all_to_all(Parts sent, Parts got, uint64_t comm, Slot slot) {
    return MPI_Ialltoallv(sent.start, sent.counts, sent.starts, MPI_BYTE, got.start, got.counts, got.starts, MPI_BYTE,
                          comm_of(comm), request_at(slot));
}

/* `all` is the root's alone. */
int sw_gather(Bytes own, Parts all, int root, uint64_t comm, Slot slot) {
    return MPI_Igatherv(own.start, own.count, MPI_BYTE, all.start, all.counts, all.starts, MPI_BYTE, root,
                        comm_of(comm), request_at(slot));
}

/* The same. */
int sw_scatter(Parts all, Bytes own, int root, uint64_t comm, Slot slot) {
    return MPI_Iscatterv(all.start, all.counts, all.starts, MPI_BYTE, own.start, own.count, MPI_BYTE, root,
                         comm_of(comm), request_at(slot));
}

/* Puts the least in the place of each number; numbers with the highest bit are below zero. */
int sw_least(uint64_t *numbers, int count, uint64_t comm, Slot slot) {
    return MPI_Iallreduce(MPI_IN_PLACE, numbers, count, MPI_INT64_T, MPI_MIN, comm_of(comm), request_at(slot));
}

/* Whether all of a few requests from `first` on have ended. `wanted`: how many bytes each has to bring, -1 for any
 * number. `wrong`: the first that brought another number, -1 if none did. */
enum { SW_FEW = 64 };

int sw_test(void *requests, int first, int count, const int *wanted, int *ended, int *wrong) {
    MPI_Status statuses[SW_FEW];
    *wrong = -1;
    int code = MPI_Testall(count, (MPI_Request *)requests + first, ended, statuses);
    if (code != MPI_SUCCESS) {
        for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; i++) {
            int error = statuses[i].MPI_ERROR;
            if (error != MPI_SUCCESS && error != MPI_ERR_PENDING) return error;
        }
        return code;
    }
    for (int i = 0; *ended && i < count; i++) {
        int bytes;
        if (wanted[i] < 0) continue;
        TRY(MPI_Get_count(&statuses[i], MPI_BYTE, &bytes));
        if (bytes != wanted[i] && *wrong < 0) *wrong = i;
    }
    return MPI_SUCCESS;
}

/* Whether one request, which stays, has ended. */
int sw_has_ended(const void *requests, int at, int *ended) {
    return MPI_Request_get_status(((const MPI_Request *)requests)[at], ended, MPI_STATUS_IGNORE);
}

/* ---- Notes: messages of few bytes ---- */

/* Sends bytes that stay for ever. */
int sw_note(const void *bytes, int count, uint64_t comm, int to, int tag) {
    MPI_Request request;
    TRY(MPI_Isend(bytes, count, MPI_BYTE, to, tag, comm_of(comm), &request));
    return MPI_Request_free(&request);
}

/* Takes a note, if there is one, of at most so many bytes as it says, and says how many it had; -1 if there is none. */
int sw_take_note(void *bytes, int most, uint64_t comm, int *count, int *from, int *tag) {
    int there;
    MPI_Status status;
    *count = -1;
    TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_of(comm), &there, &status));
    if (!there) return MPI_SUCCESS;
    *from = status.MPI_SOURCE;
    *tag = status.MPI_TAG;
    TRY(MPI_Recv(bytes, most, MPI_BYTE, *from, *tag, comm_of(comm), &status));
    return MPI_Get_count(&status, MPI_BYTE, count);
}

/* ---- Shared memory ---- */

/* A bit for each core that this process may use, in 16 numbers; none where the system does not say it. */
void sw_cores(uint64_t *mask) {
    memset(mask, 0, 16 * sizeof *mask);
#ifdef __linux__
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    for (int core = 0; core < 1024 && core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &cores)) mask[core / 64] |= (uint64_t)1 << core % 64;
    }
#endif
}

/* Where processes share memory: which place that is, and how many bytes can still be had there; as many as there can be
 * where that is not known. */
void sw_room(uint64_t *place, uint64_t *bytes) {
    struct stat which;
    struct statvfs room;
    *place = stat("/dev/shm", &which) == 0 ? (uint64_t)which.st_dev : 0;
    *bytes = statvfs("/dev/shm", &room) == 0 ? (uint64_t)room.f_bavail * room.f_frsize : UINT64_MAX;
}

/* `there` is 0 if the memory could not be mapped here: Open MPI 4.1 says that all went well then, gives no address, and
 * leaves the others waiting. */
int sw_share(uint64_t comm, uint64_t bytes, uint64_t *made, int *there) {
    MPI_Info info;
    MPI_Win window;
    void *own = NULL;
    TRY(MPI_Info_create(&info));
    /* Each rank's bytes in pages of their own. */
    TRY(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
    int code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, comm_of(comm), &own, &window);
    TRY(MPI_Info_free(&info));
    TRY(code);
    *there = own != NULL;
    *made = 0;
    memcpy(made, &window, sizeof window);
    return MPI_SUCCESS;
}

int sw_open(uint64_t window) {
    TRY(MPI_Win_set_errhandler(window_of(window), MPI_ERRORS_RETURN));
    /* From here on loads and stores are allowed. Who may touch what is settled by atomics in that memory. */
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, window_of(window));
}

int sw_part(uint64_t window, int rank, void **start, uint64_t *bytes) {
    MPI_Aint size;
    int unit;
    TRY(MPI_Win_shared_query(window_of(window), rank, &size, &unit, start));
    *bytes = (uint64_t)size;
    return MPI_SUCCESS;
}

int sw_unshare(uint64_t window) {
    MPI_Win freed = window_of(window);
    /* One that could not be opened is freed all the same: that takes all ranks. */
    int code = MPI_Win_unlock_all(freed);
    TRY(MPI_Win_free(&freed));
    return code;
}
