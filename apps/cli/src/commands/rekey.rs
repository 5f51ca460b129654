//! `ciphermill rekey`.

use std::process::ExitCode;

use anyhow::bail;
use ciphermill::Mill;
use ciphermill_table::{ColumnSpec, NoProgress, Position, Rekey, RootKey, UnprotectJob, is_folder};

use super::input::{Input, load_root};
use super::protect::{report, say_findings, show};
use crate::args::RekeyArgs;
use crate::config::Config;
use crate::{interrupt, metrics_socket, mills, output, secret};

/// Protects a protected table under another key, version or method.
pub(crate) fn rekey(args: &RekeyArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let output = args.output.as_ref().unwrap_or(&args.input);
    let mut job = UnprotectJob::new(&args.input, output);
    job.manifest = args.manifest.clone();
    job.allow_changed = args.allow_changed;
    job.force = args.common.force;
    job.threads = args.common.threads.map(usize::from);
    let columns = args.columns.iter().map(|column| ColumnSpec::parse(column)).collect::<Result<Vec<_>, _>>()?;
    if args.in_place && !is_folder(&args.input) {
        bail!("{}: only folders are rekeyed in place; name an output", args.input.display());
    }
    let protected = Input::open(&job)?;
    let keystore = secret::open(&args.keystore, config)?;
    let keys = protected.keys();
    let named = match &args.key {
        Some(name) => Some(name),
        None => keys.first().map(|key| &key.name).filter(|name| keys.iter().all(|key| key.name == **name)),
    };
    let Some(name) = named else {
        bail!("{}: its tables are under several keys; name one (--key)", args.input.display())
    };
    let version = keystore.root_for_protection(name, args.key_version)?.version;
    let is_same = keys.iter().all(|key| (&key.name, key.version) == (name, version));
    if is_same && columns.is_empty() && !args.in_place {
        bail!(
            "{} is under version {version} of the key `{name}` already; make another (ciphermill keys rotate {name}), or name \
             another key (--key) or other methods (--column)",
            args.input.display()
        );
    }
    let mill = mills::open_for_tables(args.common.engine.as_deref(), config)?;
    let roots = protected.roots(&job, &keystore, &mill)?;
    let to = Rekey { root: load_root(&keystore, &mill, name, version)?, columns };
    drop(keystore);
    job.cancel = interrupt::watch()?;
    let _served = metrics_socket::serve(args.common.metrics.metrics_socket.as_deref(), &mill)?;
    let quiet = args.common.quiet || args.common.json;
    let bar = output::bar(Some(protected.rows()), "rows", quiet).with_message("rekey");
    let watch = |position: &Position| show(&bar, position);
    let summary = match protected {
        Input::Table(protected) => ciphermill_table::rekey(*protected, &job, &mill, &roots[0], &to, &watch),
        Input::Folder(folder) => ciphermill_table::rekey_folder(*folder, &job, &mill, &roots, &to, &watch),
    };
    bar.finish_and_clear();
    let summary = summary?;
    say_findings(&summary);
    if args.verify {
        let check = UnprotectJob { cancel: job.cancel.clone(), ..UnprotectJob::new(output, "") };
        verify(&check, &mill, &to.root)?;
    }
    output::after_change(report("rekey", &summary, &to.root, &args.common, output))
}

/// Reads the new tables and authenticates every value.
fn verify(job: &UnprotectJob, mill: &Mill, root: &RootKey) -> anyhow::Result<()> {
    let problem = match Input::open(job)? {
        Input::Table(protected) => {
            ciphermill_table::inspect(*protected, job, Some((mill, root)), &NoProgress)?.problem()
        }
        Input::Folder(folder) => {
            let roots = std::slice::from_ref(root);
            ciphermill_table::inspect_folder(&folder, job, Some((mill, roots)), &NoProgress)?.problem()
        }
    };
    match problem {
        Some(problem) => bail!("{} is in effect, but did not verify: {problem}", job.input.display()),
        None => Ok(()),
    }
}
