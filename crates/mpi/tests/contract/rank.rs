//! What one rank does in the tests of `contract.rs`: the first argument says which case, `--serialized` and the like
//! how the engine is made. A rank whose check fails panics, and so ends all.

mod exchanges;
mod failing;
mod shared;
mod told;

use shardweave_mpi::{Mpi, MpiOptions, Threads, Transport};
use shardweave_runtime::engine::Engine;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    // One write, so that lines of several ranks do not mix.
    print!("{}", format_args!("pid {}\n", std::process::id()));
    let mut options = MpiOptions::default();
    if has("--serialized") {
        options.threads = Threads::OneAtATime;
    }
    if has("--messages") {
        options.transport = Transport::Messages;
    }
    let limit = args.iter().find_map(|arg| arg.strip_prefix("--limit="));
    if let Some(limit) = limit {
        options.limit = limit.parse().expect("a number of bytes");
    }
    if has("--timeout") {
        options.timeout = Some(failing::TIMEOUT);
    }
    if args[0] == "absent" {
        return failing::a_rank_does_not_begin(options);
    }
    let first = options.clone().init().expect("MPI begins");
    // The one that ends MPI is dropped last.
    let (_kept, mpi) = match has("--joined") {
        true => {
            let joined = options.from_fortran(first.to_fortran()).expect("there is a communicator");
            (Some(first), joined)
        }
        false => (None, first),
    };
    match args[0].as_str() {
        "place" => place(&mpi, has("--messages")),
        "twice" => twice(),
        "forms" => exchanges::in_every_form(&mpi),
        "streams" => exchanges::on_streams_of_two_threads(&mpi),
        "order" => exchanges::in_order_with_others(&mpi),
        "shared" => shared::seen_by_all_of_the_host(&mpi),
        "dropped" => shared::dropped_in_any_order(&mpi),
        "given_back" => shared::given_back(&mpi),
        "refused" => shared::refused_by_all(&mpi),
        "outlives" => shared::outlives_the_engine(mpi),
        "told" => told::all_tell_all(&mpi),
        "gathered" => told::much_is_gathered(&mpi),
        "late" => failing::a_rank_is_late(&mpi, &args[1]),
        "astray" => failing::a_rank_goes_its_own_way(mpi, &args[1]),
        "endless" => failing::a_rank_does_not_end(mpi),
        "slow" => failing::a_rank_is_slow_but_comes(&mpi),
        "abort" => failing::a_rank_aborts(&mpi),
        "panic" => failing::a_rank_panics(&mpi),
        "dies" => failing::a_rank_dies(&mpi),
        "short" => failing::a_message_is_too_short(&mpi),
        other => panic!("no case `{other}`"),
    }
}

fn place(mpi: &Mpi, messages: bool) {
    let place = mpi.place();
    assert!(place.rank < place.ranks());
    let expected: Vec<u32> = (0..place.ranks() as u32).map(|rank| if messages { rank } else { 0 }).collect();
    assert_eq!(place.hosts, expected, "the tests run on one host");
    // Whether they share memory or not, they have one machine and its cores together.
    assert_eq!(place.machines, vec![0; place.ranks()]);
    assert!(place.cores[0] >= 1 && place.cores == vec![place.cores[0]; place.ranks()], "{:?}", place.cores);
    // All ranks are different ones.
    let told = mpi.tell_all(&[place.rank as u8]).expect("all tell");
    assert_eq!(told, (0..place.ranks() as u8).map(|rank| vec![rank]).collect::<Vec<_>>());
}

fn twice() {
    let error = Mpi::init().err().expect("MPI begins once").to_string();
    assert!(error.contains("begin only once") && error.contains("from_fortran"), "{error}");
    let error = Mpi::from_fortran(-7654).err().expect("there is no such communicator").to_string();
    assert!(error.contains("-7654"), "{error}");
}
