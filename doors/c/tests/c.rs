//! The library as C programs see it: the examples are compiled and run, the layout is asserted, C++ takes the header, and
//! nothing but the interface is exported.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where cargo puts what it has built for this test.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A folder with the shared library under the names that linkers and loaders look for.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let library = built().join("libciphermill_c.so");
    assert!(library.exists(), "{} was not built", library.display());
    for name in ["libciphermill.so", "libciphermill.so.0"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
    }
    folder
}

fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("not run: there is no {program}");
    }
    there
}

fn succeeded(output: Output, what: &str) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{what}: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Compiles a program and runs it; returns what it said.
fn run(compiler: &[&str], source: &Path) -> String {
    let folder = installed();
    let program = folder.path().join("program");
    let compiled = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-D_GNU_SOURCE", "-O1"])
        .arg("-I")
        .arg(here("include"))
        .arg(source)
        .arg("-L")
        .arg(folder.path())
        .args(["-lciphermill", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    succeeded(compiled, &format!("{compiler:?} {}", source.display()));
    let ran = Command::new(&program).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    succeeded(ran, &source.display().to_string())
}

const C: [&str; 2] = ["cc", "-std=c11"];

#[test]
fn short_operations_run_in_a_batch() {
    let said = run(&C, &here("examples/short_ops.c"));
    assert!(said.contains("256 sealed by ") && said.contains("255 opened, 1 failed"), "{said}");
}

#[test]
fn a_column_is_sealed_and_opened() {
    let said = run(&C, &here("examples/column.c"));
    assert!(said.contains("3 values opened: annbobchristine"), "{said}");
}

#[test]
fn batches_come_back_to_an_epoll_loop() {
    let said = run(&C, &here("examples/epoll.c"));
    assert_eq!(said.lines().filter(|line| line.ends_with(": 64 digests")).count(), 8, "{said}");
}

#[test]
fn a_c_program_gets_errors_and_never_dies() {
    run(&C, &here("tests/hostile.c"));
}

#[test]
fn the_layout_is_the_same_in_c_and_in_cpp() {
    run(&C, &here("tests/layout.c"));
    if has("c++") {
        run(&["c++", "-std=c++11", "-x", "c++"], &here("tests/layout.c"));
    }
}

#[test]
fn the_library_exports_its_interface_alone() {
    if !has("nm") {
        return;
    }
    let library = built().join("libciphermill_c.so");
    let symbols = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let symbols = succeeded(symbols, "nm");
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(names.contains(&"ciphermill_run"), "{names:?}");
    let others: Vec<&&str> = names.iter().filter(|name| !name.starts_with("ciphermill_")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn the_shared_library_says_its_name() {
    if !has("readelf") {
        return;
    }
    let read = Command::new("readelf").args(["-d"]).arg(built().join("libciphermill_c.so")).output().unwrap();
    assert!(succeeded(read, "readelf").contains("[libciphermill.so.0]"));
}
