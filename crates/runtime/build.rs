//! Links the system's OpenBLAS where the feature `blas` asks for it, and says what to do where there is
//! none.

use std::path::PathBuf;

/// Where systems keep libraries.
const PLACES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/opt/homebrew/opt/openblas/lib",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=OPENBLAS_LIB_DIR");
    if std::env::var_os("CARGO_FEATURE_BLAS").is_none() {
        return;
    }
    let given = std::env::var_os("OPENBLAS_LIB_DIR").map(PathBuf::from);
    let places = given.into_iter().chain(PLACES.map(PathBuf::from));
    let has = |place: &PathBuf| {
        ["libopenblas.so", "libopenblas.a", "libopenblas.dylib"].iter().any(|name| place.join(name).exists())
    };
    let Some(place) = places.into_iter().find(has) else {
        println!(
            "cargo::error=the feature `blas` needs OpenBLAS, which is in none of {PLACES:?}: install it \
             (Debian: apt-get install libopenblas-dev), or set OPENBLAS_LIB_DIR to the folder of libopenblas.so, \
             or build without the feature"
        );
        return;
    };
    println!("cargo:rustc-link-search=native={}", place.display());
    println!("cargo:rustc-link-lib=openblas");
}
