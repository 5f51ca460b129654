//! Fault injection on every write path: each command that changes files is run again and again, and each time one of its
//! system calls fails, is delayed, or is where the process dies. Afterwards either the old state or the new one opens.
//!
//! `cargo test -p ciphermill-cli --test faults` tries a sample; with `FAULTS=all` in the environment every call with every
//! action; with `FAULTS=SCENARIO;SCENARIO` all of these; of a single one each run is printed.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod config;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod copies;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod driver;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod folders;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod keystore;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod openssl;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod outputs;
mod pkcs11;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod records;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod reports;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tables;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod verdict;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    use std::io::Write;

    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == ciphermill_faults::HOLD => {
            let error = ciphermill_faults::hold(args).expect_err("replaces this process");
            eprintln!("cannot be held for tracing: {error}");
            std::process::ExitCode::FAILURE
        }
        Some(first) if first == keystore::CHANGE_SECRET_AND_GO_ON => match keystore::change_secret_and_go_on() {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "{error}");
                std::process::ExitCode::FAILURE
            }
        },
        // The test runner's way to ask for names.
        Some(first) if first == "--list" => std::process::ExitCode::SUCCESS,
        _ => driver::main(),
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("not run: fault injection reads system calls of Linux on x86-64");
}
