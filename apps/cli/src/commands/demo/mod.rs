//! `ciphermill demo`: the main job on generated data. A TPC-H customer table is protected and brought back, the result
//! is compared with the original, and where the lab is there, the speed is set beside OpenSSL, one call for each of the
//! same values.

mod customers;
mod peers;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use ciphermill::Mill;
use ciphermill_keys::keystore::{Keystore, MasterSecret};
use ciphermill_table::{ColumnSpec, ColumnSummary, Position, ProtectJob, RootKey, Summary, UnprotectJob};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::args::DemoArgs;
use crate::commands::input::load_root;
use crate::commands::lab;
use crate::config::Config;
use crate::output::{self, say, short};
use crate::{interrupt, metrics_socket, mills};
use peers::Comparison;

/// What is done with which column of the customer table.
const COLUMNS: [&str; 4] = ["c_name=deterministic", "c_address=random", "c_phone=ff1:sep=-", "c_acctbal=random"];

/// The largest scale that TPC-H defines (specification 3, section 4.1.3).
const SCALE_MAX: f64 = 100_000.0;

/// The name of the key in the demonstration's own keystore.
const KEY_NAME: &str = "demo";

#[derive(Serialize)]
struct DemoJson<'a> {
    rows: u64,
    equal: bool,
    protect_seconds: f64,
    unprotect_seconds: f64,
    columns: &'a [ColumnRow],
}

#[derive(Serialize)]
struct ColumnRow {
    column: String,
    method: &'static str,
    suite: String,
    engine: String,
    operations: u64,
    values_per_s: f64,
    mb_per_s: f64,
    openssl: Option<Comparison>,
}

/// Runs the demonstration; fails when the table that comes back differs from the original.
pub(crate) fn run(args: &DemoArgs, config: &Config) -> anyhow::Result<ExitCode> {
    ensure!(args.scale > 0.0 && args.scale <= SCALE_MAX, "--scale must be above 0 and at most {SCALE_MAX}");
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
    let original = args.dir.join("customer.parquet");
    let safe = args.dir.join("customer-protected.parquet");
    let back = args.dir.join("customer-restored.parquet");
    let tell = |text: String| if args.json { Ok(()) } else { say(text) };

    let started = Instant::now();
    let rows = customers::write(&original, args.scale)?;
    tell(format!(
        "made {} with {rows} TPC-H customers in {:.1} s",
        original.display(),
        started.elapsed().as_secs_f64()
    ))?;

    let mill = mills::open_for_tables(None, &config.only_disabled())?;
    let root = demo_key(&args.dir, &mill)?;
    let cancel = interrupt::watch()?;
    let _served = metrics_socket::serve(args.metrics.metrics_socket.as_deref(), &mill)?;
    let mut protect = ProtectJob::new(&original, &safe);
    for column in COLUMNS {
        protect = protect.column(ColumnSpec::parse(column)?);
    }
    protect.force = true;
    protect.cancel = cancel.clone();
    let protected = with_bar("protect", rows, |show| Ok(ciphermill_table::protect(&protect, &mill, &root, show)?))?;
    tell(line("protected", &safe, &protected))?;

    let mut unprotect = UnprotectJob::new(&safe, &back);
    unprotect.force = true;
    unprotect.cancel = cancel;
    let restored =
        with_bar("unprotect", rows, |show| Ok(ciphermill_table::unprotect(&unprotect, &mill, &root, show)?))?;
    tell(line("restored", &back, &restored))?;

    if let Some(difference) = customers::first_difference(&original, &back)? {
        bail!("{} differs from {}: {difference}", back.display(), original.display());
    }
    tell(format!("compared {} with the original: equal\n", back.display()))?;

    let has_lab = lab::is_there();
    let columns: Vec<ColumnRow> = protected
        .columns
        .iter()
        .map(|column| Ok(row(column, if has_lab { peers::compare(&original, column)? } else { None })))
        .collect::<anyhow::Result<_>>()?;
    if args.json {
        output::json(&DemoJson {
            rows,
            equal: true,
            protect_seconds: protected.total.as_secs_f64(),
            unprotect_seconds: restored.total.as_secs_f64(),
            columns: &columns,
        })?;
    } else {
        print(&columns, has_lab)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A keystore of the demonstration's own, made anew on each run, and its key.
fn demo_key(folder: &Path, mill: &Mill) -> anyhow::Result<RootKey> {
    let path = folder.join("demo-keystore");
    if path.exists() {
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    let mut bytes = Zeroizing::new([0u8; 32]);
    getrandom::fill(bytes.as_mut()).context("the operating system gave no random bytes")?;
    let secret = MasterSecret::Passphrase(Zeroizing::new(hex::encode(bytes.as_ref())));
    let mut keystore = Keystore::create(&path, &secret)?;
    crate::commands::keys::generate_root(&mut keystore, KEY_NAME, "made by `ciphermill demo`, of no further use")?;
    let version = keystore.current(KEY_NAME)?.version;
    load_root(&keystore, mill, KEY_NAME, version)
}

fn with_bar(
    what: &'static str,
    rows: u64,
    job: impl FnOnce(&dyn ciphermill_table::Progress) -> anyhow::Result<Summary>,
) -> anyhow::Result<Summary> {
    let bar = output::bar(Some(rows), "rows", false).with_message(what);
    let result = job(&|position: &Position| bar.set_position(position.rows));
    bar.finish_and_clear();
    result
}

fn line(done: &str, path: &Path, summary: &Summary) -> String {
    format!(
        "{done} {} in {:.2} s, {:.2} s of it in the mill: {} values, {} operations",
        path.display(),
        summary.total.as_secs_f64(),
        summary.in_mill.as_secs_f64(),
        summary.values,
        summary.processed
    )
}

fn row(column: &ColumnSummary, openssl: Option<Comparison>) -> ColumnRow {
    let seconds = column.in_mill.as_secs_f64().max(1e-9);
    ColumnRow {
        column: column.name.clone(),
        method: column.method,
        suite: column.suite.to_string(),
        engine: column.engines.join(", "),
        operations: column.processed,
        values_per_s: column.processed as f64 / seconds,
        mb_per_s: column.bytes as f64 / seconds / 1e6,
        openssl,
    }
}

fn print(columns: &[ColumnRow], has_lab: bool) -> anyhow::Result<()> {
    let head = ["column", "method", "suite", "engine", "values/s", "MB/s", "OpenSSL", "values/s", "MB/s"];
    let shown = if has_lab { &head[..] } else { &head[..6] };
    let mut table = output::table(shown, 4);
    for row in columns {
        let openssl = match &row.openssl {
            Some(peer) => [peer.suite.clone(), short(peer.values_per_s), format!("{:.1}", peer.mb_per_s)],
            None => ["has none".to_owned(), "-".to_owned(), "-".to_owned()],
        };
        let own = [
            row.column.clone(),
            row.method.to_owned(),
            row.suite.clone(),
            row.engine.clone(),
            short(row.values_per_s),
            format!("{:.1}", row.mb_per_s),
        ];
        table.add_row(own.into_iter().chain(openssl).take(shown.len()));
    }
    say(table)?;
    if !has_lab {
        return say("The batches of the run above, through the mill on one core, key handling and routing included.\n\
                    `make lab` builds the lab, which sets OpenSSL beside them.");
    }
    say("Left: the batches of the run above, through the mill on one core, key handling and routing included.\n\
         Right: the same values through OpenSSL on one core, a call for each, a context kept for the key; its nearest\n\
         suite where it has no GCM-SIV.")
}
