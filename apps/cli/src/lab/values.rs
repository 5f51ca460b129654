//! `ciphermill-lab values`: what a peer reaches on values from standard input. `ciphermill demo` sets it beside its own.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use ciphermill_lab::engines::open;
use ciphermill_lab::short::measure;
use ciphermill_lab::timing::Budget;
use ciphermill_lab::workload::Workload;
use ciphermill_report::Section;

use crate::args::ValuesArgs;
use crate::output;

/// Bytes of values at most.
const INPUT_LEN_MAX: u64 = 1 << 30;

pub(crate) fn run(args: &ValuesArgs) -> anyhow::Result<ExitCode> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(INPUT_LEN_MAX).read_to_end(&mut bytes).context("cannot read standard input")?;
    let values = split(&bytes)?;
    let (peer, reference) = (open(&args.engine)?, open("reference")?);
    let workload = Workload::of_values(args.suite, values.into_iter(), args.aad.as_bytes(), 1)?;
    let budget = Budget { time: Duration::from_millis(300), rounds_min: 3, ..Budget::default() };
    let rows = measure(&workload, &[peer], reference.as_ref(), budget, &mut Section::default())?;
    let Some(row) = rows.first() else { bail!("{} does not run {}", args.engine, args.suite) };
    output::json(&serde_json::json!({
        "suite": row.suite,
        "values_per_s": 1e9 / row.ns_per_op,
        "mb_per_s": row.mb_per_s,
    }))?;
    Ok(ExitCode::SUCCESS)
}

/// The values, each behind its length.
fn split(mut bytes: &[u8]) -> anyhow::Result<Vec<&[u8]>> {
    let mut values = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*len) as usize;
        let Some((value, rest)) = rest.split_at_checked(len) else {
            bail!("standard input ends within value {}", values.len() + 1);
        };
        values.push(value);
        bytes = rest;
    }
    if !bytes.is_empty() {
        bail!("standard input ends within the length of value {}", values.len() + 1);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_or_the_end_is_named() {
        assert_eq!(split(b"\x02\0\0\0ab\0\0\0\0").expect("whole"), [&b"ab"[..], b""]);
        assert!(split(b"\x02\0\0\0a").is_err() && split(b"\x02\0").is_err());
    }
}
