//! Every kernel compiles for an NVIDIA GPU, without one: NVRTC makes machine code for `sm_90`, and what it says of
//! registers, stack, spills and instructions is held to the record in `kernels/counts.toml`, which ratchets down only.
//!
//! `make gpu-kernels` gets NVRTC and runs this. Where the library is missing the test says that it did not run.
//! `KERNEL_COUNTS=update` writes the record anew; figures that have grown need a reason in the commit.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::collections::BTreeMap;
use std::io::Write as _;

use ciphermill_contract::error::{Error, Fault, FaultKind};
use ciphermill_gpu::{Compiled, PROGRAMS, Program};
use serde::{Deserialize, Serialize};

const ARCHITECTURE: &str = "sm_90";

/// Bytes of an instruction on this architecture.
const INSTRUCTION_LEN: u64 = 16;

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/counts.toml");

/// What the compiler made of one kernel.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
struct Counts {
    /// Registers of a work item.
    registers: u64,
    /// Bytes of its stack: arrays that did not fit registers.
    stack: u64,
    /// Bytes of spilled registers, stored and loaded.
    spills: u64,
    /// Bytes of local memory of a group.
    shared: u64,
    /// Instructions in its code.
    instructions: u64,
}

/// By program and kernel.
type Record = BTreeMap<String, Counts>;

/// Past the test harness, which would keep it to itself.
fn say(what: &str) {
    // A log that cannot be written to is no reason to fail.
    let _ = writeln!(std::io::stderr(), "gpu: {what}");
}

#[test]
fn kernels_keep_to_their_counts() {
    let compiled: Vec<(Program, Result<Compiled, Error>)> = std::thread::scope(|scope| {
        let compilers: Vec<_> =
            PROGRAMS.iter().map(|program| (program, scope.spawn(|| program.compiled_for(ARCHITECTURE)))).collect();
        compilers.into_iter().map(|(program, one)| (*program, one.join().expect("no panic"))).collect()
    });
    let absent = |outcome: &Result<Compiled, Error>| {
        matches!(outcome, Err(Error::EngineFault(Fault { kind: FaultKind::Unavailable, .. })))
    };
    if compiled.iter().any(|(_, outcome)| absent(outcome)) {
        say("NOT RUN: there is no NVRTC here, so no kernel was compiled for CUDA (make gpu-kernels gets it)");
        return;
    }
    let mut now = Record::new();
    for (program, outcome) in compiled {
        let compiled = outcome.unwrap_or_else(|error| panic!("{}: {error}", program.name()));
        for kernel in program.kernels() {
            now.insert(format!("{}.{kernel}", program.name()), counts(&compiled, kernel));
        }
    }
    for (name, counts) in &now {
        say(&format!("{name}: {counts:?}"));
        assert_eq!((counts.spills, counts.stack), (0, 0), "{name} does not fit its registers");
    }
    if std::env::var("KERNEL_COUNTS").as_deref() == Ok("update") {
        let text = toml::to_string(&now).expect("plain numbers");
        let head =
            "# What NVRTC makes of every kernel for sm_90, written by `KERNEL_COUNTS=update make gpu-kernels`.\n\n";
        std::fs::write(RECORD, head.to_owned() + &text).expect("the record can be written");
        return;
    }
    let kept: Record = toml::from_str(&std::fs::read_to_string(RECORD).expect("the record is there")).expect("TOML");
    assert_eq!(
        kept.keys().collect::<Vec<_>>(),
        now.keys().collect::<Vec<_>>(),
        "the record names the kernels there are"
    );
    for (name, now) in &now {
        let kept = kept[name];
        let grown = now.registers > kept.registers || now.instructions > kept.instructions || now.shared > kept.shared;
        assert!(!grown, "{name} has grown: {now:?}, the record says {kept:?}");
    }
}

/// Reads a kernel's figures from the compiler's log and its code.
fn counts(compiled: &Compiled, kernel: &str) -> Counts {
    let start = compiled.log.find(&format!("Compiling entry function '{kernel}'")).expect("the log names every kernel");
    let own = &compiled.log[start..];
    let own = &own[..own[1..].find("Compiling entry").map_or(own.len(), |end| end + 1)];
    // The number in front of a word of the log.
    let before = |what: &str| {
        let number = own.find(what).map(|at| own[..at].trim_end().rsplit(|c: char| !c.is_ascii_digit()).next());
        number.flatten().and_then(|digits| digits.parse::<u64>().ok())
    };
    let said = |what: &str| before(what).unwrap_or_else(|| panic!("the log says `{what}` of {kernel}: {own}"));
    Counts {
        registers: said("registers"),
        stack: said("bytes stack frame"),
        spills: said("bytes spill stores") + said("bytes spill loads"),
        shared: before("bytes smem").unwrap_or(0),
        instructions: section_len(&compiled.code, &format!(".text.{kernel}")) / INSTRUCTION_LEN,
    }
}

/// The length of a section of an ELF file of 64 bits, little-endian.
fn section_len(elf: &[u8], name: &str) -> u64 {
    let number = |at: usize, len: usize| {
        let mut bytes = [0u8; 8];
        bytes[..len].copy_from_slice(&elf[at..at + len]);
        u64::from_le_bytes(bytes)
    };
    assert_eq!(&elf[..5], b"\x7fELF\x02", "an ELF file of 64 bits");
    let (table, entry_len) = (number(0x28, 8) as usize, number(0x3a, 2) as usize);
    let (count, names) = (number(0x3c, 2) as usize, number(0x3e, 2) as usize);
    let header = |index: usize| table + index * entry_len;
    let names_at = number(header(names) + 0x18, 8) as usize;
    let name_of = |index: usize| {
        let start = names_at + number(header(index), 4) as usize;
        let len = elf[start..].iter().position(|byte| *byte == 0).expect("names end");
        &elf[start..start + len]
    };
    let section = (0..count).find(|index| name_of(*index) == name.as_bytes());
    number(header(section.expect("the kernel has code")) + 0x20, 8)
}
