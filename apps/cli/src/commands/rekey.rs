//! `ciphermill rekey`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use ciphermill_table::{
    Check, ColumnSpec, ManifestKey, NoProgress, Position, Protected, Rekey, UnprotectJob, manifest_path,
};

use super::protect::{load_root, report, say_findings, show};
use crate::args::RekeyArgs;
use crate::config::Config;
use crate::{interrupt, metrics_socket, mills, output, secret};

/// Protects a protected table under another key, version or method.
pub(crate) fn rekey(args: &RekeyArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut job = UnprotectJob::new(&args.input, &args.output);
    job.manifest = args.manifest.clone();
    job.allow_changed = args.allow_changed;
    job.force = args.common.force;
    job.threads = args.common.threads.map(usize::from);
    let columns = args.columns.iter().map(|column| ColumnSpec::parse(column)).collect::<Result<Vec<_>, _>>()?;
    let protected = Protected::open(&job)?;
    let ManifestKey { name: old, version: old_version, .. } = protected.manifest().root_key.clone();
    let rows = protected.manifest().rows;
    let keystore = secret::open(&args.keystore, config)?;
    let name = args.key.as_deref().unwrap_or(&old);
    let version = keystore.root_for_protection(name, args.key_version)?.version;
    if (name, version) == (old.as_str(), old_version) && columns.is_empty() {
        bail!(
            "{} is under version {version} of the key `{name}` already; make another (ciphermill keys rotate {name}), or name \
             another key (--key) or other methods (--column)",
            args.input.display()
        );
    }
    let mill = mills::open_for_tables(args.common.engine.as_deref(), config)?;
    let root = load_root(&keystore, &mill, &old, old_version)
        .with_context(|| format!("the key that the manifest of {} names", job.input.display()))?;
    let to = Rekey { root: load_root(&keystore, &mill, name, version)?, columns };
    drop(keystore);
    job.cancel = interrupt::watch()?;
    let _served = metrics_socket::serve(args.common.metrics.metrics_socket.as_deref(), &mill)?;
    let bar = output::bar(Some(rows), "rows", args.common.quiet || args.common.json).with_message("rekey");
    let watch = |position: &Position| show(&bar, position);
    let summary = ciphermill_table::rekey(protected, &job, &mill, &root, &to, &watch);
    bar.finish_and_clear();
    let summary = summary?;
    say_findings(&summary);
    if args.verify {
        let check = UnprotectJob { cancel: job.cancel.clone(), ..UnprotectJob::new(&args.output, "") };
        let found = Protected::open(&check)
            .and_then(|protected| ciphermill_table::inspect(protected, &check, Some((&mill, &to.root)), &NoProgress))?;
        for (what, check) in [("hash", &found.hash), ("signature", &found.signature), ("values", &found.values)] {
            if let Check::Failed(problem) = check {
                let manifest = manifest_path(&args.output);
                bail!(
                    "{} is in effect with {}, but its {what} did not verify: {problem}",
                    args.output.display(),
                    manifest.display()
                );
            }
        }
    }
    output::after_change(report("rekey", &summary, &to.root, &args.common, &args.output))
}
