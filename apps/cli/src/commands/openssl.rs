//! `ciphermill openssl`: the provider in the configuration of OpenSSL's programs.

mod check;
mod program;
mod reference;
mod settings;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use ciphermill_cli::whole;
use settings::Settings;

use super::installed::{self, Installed, Library, is_same};
use crate::args::{InstallArgs, OpensslCommand};
use crate::config::Config;
use crate::output::{after_change, say, tell};

/// What `install` writes.
const FILES: Installed = Installed("openssl");

const PROVIDER: Library = Library {
    noun: "provider",
    made_by: "make openssl",
    places: &["ciphermill.so", "libciphermill_openssl.so", "../lib/ciphermill.so", "../openssl/ciphermill.so"],
};

/// Runs a command; `config` reads the configuration where it is needed.
pub(crate) fn run(
    command: &OpensslCommand,
    config: impl FnOnce() -> anyhow::Result<Config>,
) -> anyhow::Result<ExitCode> {
    match command {
        OpensslCommand::Install(args) => install(args)?,
        OpensslCommand::Uninstall { place } => FILES
            .remove(&place.file, "take OPENSSL_CONF out of the settings of programs that name it, and restart them")?,
        OpensslCommand::Reference { name, version, keystore } => {
            reference::print(name, *version, keystore, &config()?)?
        }
        OpensslCommand::Check { place } => check::run(&place.file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn install(args: &InstallArgs) -> anyhow::Result<()> {
    let file = &args.place.file;
    let machine = program::machine_file()?;
    // A machine may have OpenSSL and no configuration; a file that was asked for has to be there.
    let base = match &args.extends {
        Some(path) => Some(fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()))?),
        None => machine.exists().then(|| machine.clone()),
    };
    let module = PROVIDER.find(args.module.as_deref())?;
    let content = content(base.as_deref(), &provider_section(&module, args)?)?;
    if args.print {
        return say(content.trim_end());
    }
    for other in [Some(machine.as_path()), base.as_deref()].into_iter().flatten() {
        ensure!(
            !is_same(file, other),
            "{}: this file is what the new one includes, and is never changed; name another with --file",
            file.display()
        );
    }
    if !args.force {
        FILES.may_replace(file)?;
    }
    try_out(&content, file)?;
    whole::write(file, content.as_bytes())?;
    warn(file, base.as_deref(), &module);
    let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    let written =
        format!("{}: written; programs load the provider with OPENSSL_CONF={}", file.display(), path.display());
    after_change(say(written))
}

/// Has OpenSSL load a configuration before it stands where programs find it.
fn try_out(content: &str, name: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().join("openssl.cnf");
    whole::write(&path, content.as_bytes())?;
    program::loads(&path, name).context("nothing was written")
}

/// What the provider is told.
fn provider_section(module: &Path, args: &InstallArgs) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut section = vec![("activate", "1".to_owned()), ("module", plain(module)?.to_owned())];
    let files = [
        ("keystore", &args.keystore),
        ("passphrase-file", &args.passphrase_file),
        ("master-key-file", &args.master_key_file),
    ];
    for (name, path) in files.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?))) {
        // Programs start in any folder.
        let found = fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()))?;
        section.push((name, plain(&found)?.to_owned()));
    }
    Ok(section)
}

/// What the file says.
fn content(base: Option<&Path>, section: &[(&str, String)]) -> anyhow::Result<String> {
    let (settings, include) = match base {
        Some(path) => (Settings::read(path)?, format!(".include {}\n", plain(path)?)),
        None => (Settings::default(), String::new()),
    };
    let added = settings.addition(section)?;
    Ok(format!(
        "{}\n# All that the included file says stays in force; what follows joins its sections.\n{include}{added}",
        FILES.mark()
    ))
}

/// A path as a configuration can have it, where some characters have a meaning.
fn plain(path: &Path) -> anyhow::Result<&str> {
    let text = path.to_str().filter(|text| {
        let has_meaning = |character: char| character.is_control() || "$#\\\"'`".contains(character);
        !text.contains(has_meaning) && text.trim() == *text
    });
    text.with_context(|| {
        format!("{}: has a character that means something else in a configuration of OpenSSL", path.display())
    })
}

/// Says what is done as was asked and may yet not be what is wanted.
fn warn(file: &Path, base: Option<&Path>, module: &Path) {
    if let Some(set) = env::var_os("OPENSSL_CONF").filter(|set| !set.is_empty()).map(PathBuf::from)
        && ![Some(file), base].into_iter().flatten().any(|known| is_same(&set, known))
    {
        tell(format_args!(
            "ciphermill: OPENSSL_CONF names {} here, which is not included; --extends {} builds upon it",
            set.display(),
            set.display()
        ));
    }
    installed::warn_unreachable(module);
}
