//! `ciphermill pkcs11`: the module in the configuration of p11-kit, and whether it works.

mod check;
mod trial;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use ciphermill_cli::whole;
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};

use super::installed::{self, Installed, Library};
use crate::args::{ModuleArgs, Pkcs11Command};
use crate::output::{after_change, say, tell};

/// What `install` writes.
const FILES: Installed = Installed("pkcs11");

const MODULE: Library = Library {
    noun: "module",
    made_by: "make pkcs11",
    places: &[
        "libciphermill-pkcs11.so",
        "libciphermill_pkcs11.so",
        "../lib/libciphermill-pkcs11.so",
        "../pkcs11/libciphermill-pkcs11.so",
    ],
};

/// What the module says of who made it, in `C_GetInfo`.
const MANUFACTURER: &str = "Ciphermill";

/// Runs a command.
pub(crate) fn run(command: &Pkcs11Command) -> anyhow::Result<ExitCode> {
    match command {
        Pkcs11Command::Install(args) => install(args)?,
        Pkcs11Command::Uninstall { place } => {
            FILES.remove(&place.file, "tokens stay where they are, and programs that run keep the module")?
        }
        Pkcs11Command::Check(args) => return check::run(&args.place.file, args.module.as_deref()),
        Pkcs11Command::Trial { module } => trial::run(module)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn install(args: &ModuleArgs) -> anyhow::Result<()> {
    let file = &args.place.file;
    let module = MODULE.find(args.module.as_deref())?;
    let content = content(&module)?;
    if args.print {
        return say(content.trim_end());
    }
    // The other files of its folders p11-kit leaves unread, with a word in its log.
    ensure!(
        file.extension().is_some_and(|extension| extension == "module"),
        "{}: p11-kit reads files alone whose names end in .module",
        file.display()
    );
    if !args.force {
        FILES.may_replace(file)?;
    }
    // What programs could not load is not written; their tokens are nothing to an administrator, so that it is not initialised.
    let _module = load(&module).context("nothing was written")?;
    whole::write(file, content.as_bytes())?;
    installed::warn_unreachable(&module);
    if whole::folder_of(file).file_name().is_none_or(|name| name != "modules") {
        tell(format_args!("ciphermill: {}: p11-kit looks at folders with the name `modules`", file.display()));
    }
    after_change(say(format!("{}: written; p11-kit loads {}", file.display(), module.display())))
}

/// What the file says, in the form of pkcs11.conf(5).
fn content(module: &Path) -> anyhow::Result<String> {
    let path = module.to_str().filter(|text| !text.contains(char::is_control) && text.trim() == *text);
    let path =
        path.with_context(|| format!("{}: a path that p11-kit would read otherwise, or not at all", module.display()))?;
    // It stands for no certificates that programs ought to trust.
    Ok(format!("{}\nmodule: {path}\ntrust-policy: no\n", FILES.mark()))
}

/// The module that a file of `install` names.
fn named_by(file: &Path) -> anyhow::Result<PathBuf> {
    let text = std::fs::read_to_string(file).with_context(|| {
        format!("cannot read {}; `ciphermill pkcs11 install` writes it, --module names a module", file.display())
    })?;
    let path = text.lines().find_map(|line| line.strip_prefix("module:"));
    let path = path.with_context(|| format!("{}: names no module", file.display()))?;
    Ok(PathBuf::from(path.trim()))
}

/// Loads a module and finds its functions, as programs do.
fn load(module: &Path) -> anyhow::Result<Pkcs11> {
    Pkcs11::new(module).with_context(|| format!("{}: cannot be loaded as a module of PKCS#11", module.display()))
}

/// The same, initialised. Only ours is: with tokens of others nothing is tried.
fn open(module: &Path) -> anyhow::Result<Pkcs11> {
    let opened = load(module)?;
    opened
        .initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK))
        .with_context(|| format!("{}: cannot be initialised; its log says why", module.display()))?;
    let info = opened.get_library_info()?;
    ensure!(
        info.manufacturer_id().trim_end() == MANUFACTURER,
        "{}: is a module of `{}`, and not Ciphermill's",
        module.display(),
        crate::output::printable(info.manufacturer_id().trim_end())
    );
    Ok(opened)
}
