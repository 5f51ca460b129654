//! Serves a PKCS#11 token to the program that has started this one, over standard input: what [`ciphermill_token::Host`] names where a
//! program has no such command of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    match ciphermill_token::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("ciphermill-token-host: {words}");
            ExitCode::FAILURE
        }
    }
}
