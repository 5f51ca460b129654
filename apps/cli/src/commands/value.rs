//! `ciphermill value`: single values as a column's, for a query's `WHERE`. They come on standard input, a line each, never
//! on the command line, which others can see.

use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use arrow_schema::DataType;
use ciphermill_contract::Direction;
use ciphermill_table::{ColumnSpec, OPS_PER_RUN, RECORD_LEN_MAX, Values};

use crate::args::ValueArgs;
use crate::commands::input::load_root;
use crate::commands::protect::key_name;
use crate::config::Config;
use crate::{mills, secret};

/// Bytes of standard input that are read at a time.
const BUFFER_LEN: usize = 1 << 20;

/// Runs the command.
pub(crate) fn run(args: &ValueArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let spec = ColumnSpec::parse(&args.column)?;
    let data_type = parse_type(&args.data_type)?;
    let name = key_name(args.key.as_deref(), config);
    let keystore = secret::open(&args.keystore, config)?;
    let version = match args.key_version {
        Some(version) => version,
        None => keystore.current(name)?.version,
    };
    let mill = mills::open(args.engine.as_deref(), config)?;
    let root = load_root(&keystore, &mill, name, version)?;
    drop(keystore);
    let direction = if args.decrypt { Direction::Decrypt } else { Direction::Encrypt };
    let source = Path::new("standard input");
    let mut values = Values::open(&spec, &data_type, direction, args.encoding.into(), source, &mill, &root)?;
    let mut reader = BufReader::with_capacity(BUFFER_LEN, stdin().lock());
    let (mut text, mut ends, mut out) = (Vec::new(), Vec::new(), Vec::new());
    while read_batch(&mut reader, &mut text, &mut ends)? {
        let mut start = 0;
        let lines = ends.iter().map(|end| {
            let line = &text[start..*end];
            start = *end;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            line.strip_suffix(b"\r").unwrap_or(line)
        });
        let lines: Vec<&[u8]> = lines.collect();
        out.clear();
        values.run(&lines, &mut out)?;
        let mut stdout = stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads lines until a batch is full or no more are there at once, so that whoever sends one line gets an answer to it.
/// `false` when there are none left.
fn read_batch(reader: &mut BufReader<impl Read>, text: &mut Vec<u8>, ends: &mut Vec<usize>) -> anyhow::Result<bool> {
    text.clear();
    ends.clear();
    while ends.len() < OPS_PER_RUN && text.len() < BUFFER_LEN {
        let before = text.len();
        let limit = RECORD_LEN_MAX as u64 + 1;
        let read = reader.take(limit).read_until(b'\n', text).context("cannot read standard input")?;
        if text.len() - before > RECORD_LEN_MAX {
            bail!("standard input: a line has more than {RECORD_LEN_MAX} bytes");
        }
        if read == 0 {
            break;
        }
        ends.push(text.len());
        if reader.buffer().is_empty() {
            break;
        }
    }
    Ok(!ends.is_empty())
}

fn parse_type(name: &str) -> anyhow::Result<DataType> {
    Ok(match name {
        "text" => DataType::Utf8,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        other => bail!("--type {other}: there are text and int8 to int64, uint8 to uint64"),
    })
}
