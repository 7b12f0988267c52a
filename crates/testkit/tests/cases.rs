//! Every file of `cases/` comes out as it says.

use shardweave_testkit::sources::hosts_of_cases;
use shardweave_testkit::{Meshes, run_case_file};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

macro_rules! files {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let outcome = run_case_file(&folder().join(concat!(stringify!($name), ".weave")), Meshes::AsWritten);
                assert!(outcome.failures.is_empty(), "{outcome}");
                assert!(outcome.runs > 0);
            }
        )*

        const FILES: &[&str] = &[$(stringify!($name)),*];
    };
}

files! {
    blocks linear pieces meshes collectives views windows propagate stream overlap loans documents numbers norms errors
}

/// The cases of loans have some.
#[test]
fn what_is_called_lent_is_lent() {
    let mut programs = 0;
    for (name, host) in hosts_of_cases().into_iter().filter(|(name, _)| name.starts_with("loans.weave")) {
        let is_lent = host.buffers.values().any(|buffer| buffer.lender.is_some());
        assert!(is_lent || host.devices == 1, "{name}\n{host}");
        programs += usize::from(is_lent);
    }
    assert!(programs > 40, "{programs}");
}

/// On meshes whose axes have size 1 nothing moves, and every value is right.
#[test]
fn cc15_every_case_on_one_device() {
    for file in FILES {
        let outcome = run_case_file(&folder().join(format!("{file}.weave")), Meshes::OfOneDevice);
        assert!(outcome.failures.is_empty(), "{outcome}");
    }
}

#[test]
fn no_file_is_forgotten() {
    let entries = std::fs::read_dir(folder()).expect("the folder of cases is there");
    let found: BTreeSet<String> = entries
        .map(|entry| entry.expect("its entries can be read").path())
        .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, FILES.iter().map(|name| name.to_string()).collect());
}
