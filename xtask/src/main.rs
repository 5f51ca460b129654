//! The checks that keep the house in order, run as `cargo xtask NAME`.
//!
//! `layers` compares the dependencies of the workspace with the floors and looks for circles within crates, `tidy` looks
//! for what no lint does, `docs` follows the paths and links that the documents name, `kernels` generates constants and
//! networks for the device, `man` writes manual pages of the C library, `tests` runs the tests of all crates side by side.
mod circles;
mod docs;
mod files;
mod kernels;
mod layers;
mod man;
mod sources;
mod test_programs;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  layers [--update] dependencies between crates go downwards only, and imports within a crate not in circles;
                    --update lowers the counts of known circles, never raises them
  tidy              white space, files that are too long, files that nothing compiles
  docs              paths and links in the documents resolve, and the manual's contents have all of its pages
  kernels [--check] generate what the device kernels take from the specifications: constants, S-boxes, wiring
  man FOLDER        write a manual page for each function of the C library's header
  tests [NAME [ARGUMENTS]]
                    run the tests of the workspace, as many programs at a time as there are cores, four at most; or the
                    integration tests of this name alone, with these arguments";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["layers"] => layers(false),
        ["layers", "--update"] => layers(true),
        ["tidy"] => tidy::run(),
        ["docs"] => docs::run(),
        ["kernels"] => kernels::run(false),
        ["kernels", "--check"] => kernels::run(true),
        ["man", folder] => man::run(folder.as_ref()),
        ["tests"] => test_programs::all(),
        ["tests", name, arguments @ ..] => test_programs::named(name, arguments),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("{} finding(s)", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn layers(update: bool) -> anyhow::Result<Vec<String>> {
    let mut findings = layers::run()?;
    findings.extend(circles::run(update)?);
    Ok(findings)
}
