/* What a C program would call for the same: the MPI functions themselves, waited for by MPI. */

#include <mpi.h>

static MPI_Comm comm;
static int rank, ranks;

int direct_begin(int fortran) {
    int code = MPI_Comm_dup(MPI_Comm_f2c(fortran), &comm);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_rank(comm, &rank);
    return MPI_Comm_size(comm, &ranks);
}

int direct_end(void) { return MPI_Comm_free(&comm); }

/* Sends to the next rank, receives from the one before. */
int direct_messages(const char *sent, char *got, int bytes) {
    MPI_Request requests[2];
    MPI_Irecv(got, bytes, MPI_BYTE, (rank + ranks - 1) % ranks, 1, comm, &requests[0]);
    MPI_Isend(sent, bytes, MPI_BYTE, (rank + 1) % ranks, 1, comm, &requests[1]);
    return MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* All get so many bytes of each. */
int direct_all_gather(const char *sent, char *got, int bytes) {
    int counts[64], starts[64];
    for (int i = 0; i < ranks; i++) counts[i] = bytes, starts[i] = i * bytes;
    return MPI_Allgatherv(sent, bytes, MPI_BYTE, got, counts, starts, MPI_BYTE, comm);
}

/* Each sends so many bytes to each. */
int direct_all_to_all(const char *sent, char *got, int bytes) {
    int counts[64], starts[64];
    for (int i = 0; i < ranks; i++) counts[i] = bytes, starts[i] = i * bytes;
    return MPI_Alltoallv(sent, counts, starts, MPI_BYTE, got, counts, starts, MPI_BYTE, comm);
}

/* Of two ranks that have eight blocks of so many bytes each, the first gets 5 blocks and the second 11. */
int direct_redistribute(const char *sent, char *got, int bytes) {
    static const int blocks[2][2] = {{4, 4}, {1, 7}};
    int gives[2], takes[2], from[2] = {0, 0}, to[2] = {0, 0};
    for (int i = 0; i < 2; i++) gives[i] = blocks[rank][i] * bytes, takes[i] = blocks[i][rank] * bytes;
    from[1] = gives[0], to[1] = takes[0];
    return MPI_Alltoallv(sent, gives, from, MPI_BYTE, got, takes, to, MPI_BYTE, comm);
}

/* The sum of so many bytes of floats of all ranks, on all. */
int direct_all_reduce(const char *sent, char *got, int bytes) {
    return MPI_Allreduce(sent, got, bytes / 4, MPI_FLOAT, MPI_SUM, comm);
}

/* The sum of what all ranks have, so many bytes of it on each. */
int direct_reduce_scatter(const char *sent, char *got, int bytes) {
    int counts[64];
    for (int i = 0; i < ranks; i++) counts[i] = bytes / 4;
    return MPI_Reduce_scatter(sent, got, counts, MPI_FLOAT, MPI_SUM, comm);
}

/* The messages of `direct_messages` in parts, for a program that does something else meanwhile. */
static MPI_Request under_way[2];

int direct_start(const char *sent, char *got, int bytes) {
    MPI_Irecv(got, bytes, MPI_BYTE, (rank + ranks - 1) % ranks, 2, comm, &under_way[0]);
    return MPI_Isend(sent, bytes, MPI_BYTE, (rank + 1) % ranks, 2, comm, &under_way[1]);
}

/* Lets MPI go on. */
int direct_look(const char *sent, char *got, int bytes) {
    int ended;
    return MPI_Testall(2, under_way, &ended, MPI_STATUSES_IGNORE);
}

int direct_finish(const char *sent, char *got, int bytes) {
    return MPI_Waitall(2, under_way, MPI_STATUSES_IGNORE);
}
