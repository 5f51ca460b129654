//! `ciphermill openssl`: the provider in the configuration of OpenSSL's programs.

mod check;
mod program;
mod reference;
mod settings;

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use ciphermill_cli::whole;
use settings::Settings;

use crate::args::{InstallArgs, OpensslCommand};
use crate::config::Config;
use crate::output::{after_change, say, tell};

/// The first line of what `install` writes, by which it knows its own files.
const MARK: &str = "# Written by `ciphermill openssl install`; `ciphermill openssl uninstall` removes it.";

/// Runs a command; `config` reads the configuration where it is needed.
pub(crate) fn run(
    command: &OpensslCommand,
    config: impl FnOnce() -> anyhow::Result<Config>,
) -> anyhow::Result<ExitCode> {
    match command {
        OpensslCommand::Install(args) => install(args)?,
        OpensslCommand::Uninstall { place } => uninstall(&place.file)?,
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
    let module = module(args.module.as_deref())?;
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
        is_ours(file, "is there, and `ciphermill openssl install` has not written it; --force replaces it")?;
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
        "{MARK}\n# All that the included file says stays in force; what follows joins its sections.\n{include}{added}"
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

/// The provider's library: what was named, or one that lies where builds and packages put it. Never one of the folder that the command
/// happens to run in, since other users' programs are going to load it.
fn module(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        let found = fs::canonicalize(path).with_context(|| format!("cannot read the provider {}", path.display()))?;
        ensure!(found.is_file(), "{}: is not a file, and the provider is a library", found.display());
        return Ok(found);
    }
    let program = env::current_exe().and_then(fs::canonicalize).context("cannot tell where this program lies")?;
    let folder = whole::folder_of(&program);
    let places = ["ciphermill.so", "libciphermill_openssl.so", "../lib/ciphermill.so", "../openssl/ciphermill.so"];
    let places = places.map(|place| folder.join(place));
    if let Some(found) = places.iter().find(|path| path.is_file()) {
        return Ok(fs::canonicalize(found)?);
    }
    let looked = places.map(|path| path.display().to_string()).join(", ");
    bail!("there is no provider (`make openssl` builds one; --module names it); looked at {looked}")
}

/// Fails for a file that is there and not ours.
fn is_ours(path: &Path, rule: &str) -> anyhow::Result<()> {
    match fs::read(path) {
        Ok(bytes) if bytes.starts_with(MARK.as_bytes()) => Ok(()),
        Ok(_) => bail!("{}: {rule}", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
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
    for path in module.ancestors() {
        let needed = if path == module { 0o004 } else { 0o001 };
        if fs::metadata(path).is_ok_and(|data| data.permissions().mode() & needed == 0) {
            tell(format_args!(
                "ciphermill: {}: other users cannot get at it, so that their programs will not load {}",
                path.display(),
                module.display()
            ));
        }
    }
}

fn uninstall(file: &Path) -> anyhow::Result<()> {
    is_ours(file, "was not written by `ciphermill openssl install`, and stays")?;
    fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    let removed = "removed; take OPENSSL_CONF out of the settings of programs that name it, and restart them";
    after_change(say(format!("{}: {removed}", file.display())))
}
