//! No target: writes the seeds of all targets to the folder that `CIPHERMILL_FUZZ_SEEDS` names, and ends.
#![no_main]

fn write() {
    let written = match std::env::var_os("CIPHERMILL_FUZZ_SEEDS") {
        Some(folder) => ciphermill_fuzz::seeds::write(folder.as_ref()),
        None => Err(std::io::Error::other("CIPHERMILL_FUZZ_SEEDS is not set")),
    };
    if let Err(error) = &written {
        eprintln!("seeds: {error}");
    }
    std::process::exit(i32::from(written.is_err()));
}

// The instrumented crates link with libFuzzer alone, whose `main` calls this first.
libfuzzer_sys::fuzz_target!(init: write(), |_bytes: &[u8]| {});
