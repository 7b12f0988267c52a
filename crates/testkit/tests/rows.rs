//! What the field has tripped over is listed by ids, `s` for scenarios and `c` for cases that users
//! reported. Each id has a case in `cases/` that claims something of its plan, or a test whose name
//! starts with it (`sj1_...`), so that none is lost.

use shardweave_testkit::case::{Case, CaseFile, What};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rows, by their letters.
const ROWS: &[(&str, &[u32])] = &[
    ("sA", &[1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 19, 20, 22, 24, 26, 27, 32]),
    ("sB", &[1, 2, 4, 5, 6, 8, 10, 11, 12, 13]),
    ("sC", &[1, 2, 3, 4, 5, 7, 13, 15, 16, 18, 25]),
    ("sD", &[1, 2, 3, 8]),
    ("sE", &[1, 2, 3, 4, 8, 11]),
    ("sF", &[1, 2, 3, 4, 5, 6, 7, 11, 15]),
    ("sG", &[1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 18, 19, 22, 26, 28, 29]),
    ("sH", &[1, 9, 10]),
    ("sI", &[1, 2, 5]),
    ("sJ", &[1, 5, 6]),
    ("cA", &[1, 2, 3, 4, 6, 8, 9, 11, 13, 14, 15, 16, 17]),
    ("cB", &[1, 3, 5, 6, 7]),
    ("cC", &[2, 3, 4, 5, 7, 8, 10, 12, 13, 14, 15, 16]),
    ("cD", &[2, 5, 7]),
    ("cE", &[2, 3, 5, 6]),
    ("cF", &[2, 3, 4, 5, 6, 8, 10, 12]),
    ("cG", &[2, 4, 5]),
    ("cH", &[1, 2, 4, 5, 6]),
    ("cI", &[8, 9, 10]),
];

/// Rows that have to hold on any number of devices: they run on 1, 2, 3, 4 and 8.
const ON_ANY_NUMBER: &[&str] = &[
    "sA1", "sA3", "sA4", "sA5", "sA6", "sA7", "sA8", "sA9", "sA10", "sA12", "sA14", "sA27", "sA32", "sC1",
    "sC2", "sC3", "sC4", "sC5", "sC7", "sC15", "sE1", "sE2", "sE3", "sE8", "sF3", "sF4", "sF6", "sI1", "sI2",
    "sI5", "cB1", "cG5",
];

fn rows() -> BTreeSet<String> {
    ROWS.iter().flat_map(|(letters, numbers)| numbers.iter().map(move |n| format!("{letters}{n}"))).collect()
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn texts(folder: &Path, extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("its entries can be read").path()) {
        if path.is_dir() {
            found.extend(texts(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(std::fs::read_to_string(&path).expect("it is a text"));
        }
    }
    found
}

/// The cases of each id; `-` stands for none.
fn cases() -> BTreeMap<String, Vec<Case>> {
    let mut by_id: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for text in texts(&crates().join("testkit/cases"), "weave") {
        for case in CaseFile::parse(&text).expect("it is well formed").cases {
            for id in case.ids.split(',').filter(|id| *id != "-") {
                by_id.entry(id.to_string()).or_default().push(case.clone());
            }
        }
    }
    by_id
}

/// The ids with which the name of a test starts: `sj6` and `cf10` of `sj6_cf10_a_failure_stops_all`.
fn ids_of(test: &str) -> impl Iterator<Item = &str> {
    let is_id = |part: &&str| {
        let number = part.trim_start_matches(|c: char| c.is_ascii_lowercase());
        part.len() == number.len() + 2 && number.parse::<u32>().is_ok() && part.starts_with(['s', 'c'])
    };
    test.split('_').take_while(is_id)
}

/// The ids, in lower case, that tests written in Rust are named by.
fn tests() -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for text in texts(&crates(), "rs") {
        let names =
            text.split("#[test]\n").skip(1).filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
        names.for_each(|name| ids.extend(ids_of(name).map(str::to_string)));
    }
    ids
}

fn claims_something(case: &Case) -> bool {
    !case.errors.is_empty() || case.claims.iter().any(|claim| matches!(claim.what, What::Collectives(_)))
}

#[test]
fn every_row_has_a_test_that_counts() {
    let (cases, tests) = (cases(), tests());
    let tested = |row: &String| {
        tests.contains(&row.to_lowercase())
            || cases.get(row).is_some_and(|all| all.iter().any(claims_something))
    };
    let lost: Vec<String> = rows().into_iter().filter(|row| !tested(row)).collect();
    assert!(lost.is_empty(), "no test for {lost:?}");
}

#[test]
fn rows_for_any_number_of_devices_run_on_1_2_3_4_and_8() {
    let cases = cases();
    for row in ON_ANY_NUMBER {
        let of_row = cases.get(*row).unwrap_or_else(|| panic!("{row} has no case"));
        let enough = of_row.iter().any(|case| {
            let mut variables = case.variables.iter();
            variables.any(|(name, values)| name == "D" && [1, 2, 3, 4, 8].iter().all(|n| values.contains(n)))
        });
        assert!(enough, "{row} does not run on all numbers of devices");
    }
}

#[test]
fn every_id_is_that_of_a_row() {
    let rows = rows();
    let unknown: Vec<String> = cases().into_keys().filter(|id| !rows.contains(id)).collect();
    assert!(unknown.is_empty(), "no rows {unknown:?}");
    let lower: BTreeSet<String> = rows.iter().map(|row| row.to_lowercase()).collect();
    let unknown: Vec<String> = tests().into_iter().filter(|id| !lower.contains(id)).collect();
    assert!(unknown.is_empty(), "no rows {unknown:?}");
}
