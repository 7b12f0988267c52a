//! Compiles the C side of the binding with the MPI's own compiler, and links what that compiler would link. Without
//! the feature `engine` there is nothing to do, and no MPI is needed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "engine")]
    engine::build();
}

#[cfg(feature = "engine")]
mod engine {
    use std::process::Command;

    const WAY_OUT: &str = "install an MPI (Debian: apt-get install libopenmpi-dev openmpi-bin, or libmpich-dev mpich), \
                           or set MPICC to the compiler of the one you have, or build without the feature";

    pub fn build() {
        println!("cargo:rerun-if-changed=src/shim.c");
        println!("cargo:rerun-if-env-changed=MPICC");
        println!("cargo:rerun-if-env-changed=PATH");
        let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_string());
        let shown = match Command::new(&compiler).arg("-show").output() {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
            Ok(output) => return refuse(&compiler, &String::from_utf8_lossy(&output.stderr)),
            Err(error) => return refuse(&compiler, &error.to_string()),
        };
        let mut build = cc::Build::new();
        build.compiler(&compiler).file("src/shim.c").std("c11").warnings_into_errors(true);
        if let Err(error) = build.try_compile("shardweave_mpi_shim") {
            return refuse(&compiler, &error.to_string());
        }
        link(&shown);
    }

    /// Says what a wrapper compiler says of libraries to cargo: it prints the command that it would run.
    fn link(shown: &str) {
        let mut words = shown.split_whitespace().peekable();
        while let Some(word) = words.next() {
            if let Some(folder) = word.strip_prefix("-L") {
                println!("cargo:rustc-link-search=native={folder}");
            } else if let Some(library) = word.strip_prefix("-l") {
                println!("cargo:rustc-link-lib={library}");
            } else if word.starts_with("-Wl,") && word.contains("rpath") {
                // In two words on some systems: `-Wl,-rpath -Wl,FOLDER`.
                println!("cargo:rustc-link-arg={word}");
                if word.ends_with("rpath") {
                    let folder = words.next_if(|next| next.starts_with("-Wl,"));
                    folder.inspect(|folder| println!("cargo:rustc-link-arg={folder}"));
                }
            }
        }
    }

    fn refuse(compiler: &str, why: &str) {
        let why = why.trim().lines().next().unwrap_or("it says nothing");
        println!(
            "cargo::error=Shardweave with MPI (feature `mpi`) needs an MPI, and its compiler `{compiler}` does not do: {why}"
        );
        println!("cargo::error={WAY_OUT}");
    }
}
