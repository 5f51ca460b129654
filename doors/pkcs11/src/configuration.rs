//! Which keystores are tokens, and which engines run operations: from the environment or a file.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ciphermill::Mill;
use ciphermill_keys::keystore::MasterSecret;
use ciphermill_memory::SecretBytes;
use ciphermill_token::{Host, OpenToken, PinSource, SectionError, TokenSection, pin_from_variable, pin_of};
use serde::Deserialize;

/// A file of configuration, or the path of one: beside the user's, then the machine's.
const FILE_VARIABLE: &str = "CIPHERMILL_PKCS11_CONF";
/// Keystores, separated by colons, instead of a file's.
const KEYSTORES_VARIABLE: &str = "CIPHERMILL_PKCS11_KEYSTORES";
/// Where a machine's configuration lies.
const MACHINE_FILE: &str = "/etc/ciphermill/pkcs11.toml";

/// Bytes of a file of configuration.
const FILE_LEN_MAX: u64 = 1 << 20;

/// What a module is opened with.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configuration {
    /// Keystores, each of which is a slot, in this order.
    #[serde(default)]
    pub(crate) keystores: Vec<PathBuf>,
    /// Engines by name, as `ciphermill engines` lists them; none named stands for those of this processor.
    #[serde(default)]
    pub(crate) engines: Vec<String>,
    /// Tokens of other modules, which the metaslot shows beside the first keystore.
    #[serde(default, rename = "token")]
    tokens: Vec<TokenSection>,
    /// The program that runs their modules, and its arguments; none named stands for the one beside this module.
    #[serde(default)]
    host: Vec<String>,
    /// The folder that names of files begin at.
    #[serde(skip)]
    folder: PathBuf,
}

/// Why a configuration cannot be used.
#[derive(Debug)]
pub(crate) struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SectionError> for Problem {
    fn from(error: SectionError) -> Problem {
        Problem(error.to_string())
    }
}

impl Configuration {
    /// Reads the file that `CIPHERMILL_PKCS11_CONF` names, or else the user's or the machine's; `CIPHERMILL_PKCS11_KEYSTORES` takes the
    /// place of its keystores. Without any there is one slot, whose token lies among the user's data.
    ///
    /// Programs with another user's rights listen to the machine's file alone.
    ///
    /// # Errors
    /// A file that was named but is not there, is too long, or does not say what a configuration says.
    pub(crate) fn read() -> Result<Configuration, Problem> {
        let named = variable(FILE_VARIABLE).map(PathBuf::from);
        let home = variable("HOME").map(PathBuf::from);
        let user =
            |xdg: &str, below: &str| variable(xdg).map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(below)));
        let mut configuration = match named {
            Some(file) => from_file(&file)?,
            None => {
                let own = user("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("ciphermill/pkcs11.toml"));
                let file = [own, Some(PathBuf::from(MACHINE_FILE))].into_iter().flatten().find(|file| file.exists());
                file.map_or_else(|| Ok(Configuration::default()), |file| from_file(&file))?
            }
        };
        if let Some(keystores) = variable(KEYSTORES_VARIABLE) {
            configuration.keystores = keystores.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
        }
        if configuration.keystores.is_empty() {
            let folder = user("XDG_DATA_HOME", ".local/share").unwrap_or_else(|| PathBuf::from("/var/lib"));
            configuration.keystores.push(folder.join("ciphermill/token.keystore"));
        }
        Ok(configuration)
    }

    /// Whether tokens of other modules are attached.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Opens the tokens. One that does not open is left out, with a line on standard error: what else there is works without it.
    pub(crate) fn open_tokens(&self) -> Vec<OpenToken> {
        let open = |section: &TokenSection| {
            let opened = self.open_token(section);
            opened.map_err(|problem| eprintln!("ciphermill-pkcs11: token `{}`: {problem}", section.name)).ok()
        };
        self.tokens.iter().filter_map(open).collect()
    }

    fn open_token(&self, section: &TokenSection) -> Result<OpenToken, Problem> {
        let problem = |error: &dyn fmt::Display| Problem(error.to_string());
        let pin = match section.pin().map_err(|error| problem(&error))? {
            PinSource::Nowhere => None,
            PinSource::File(file) => Some(pin_in(&self.folder.join(file))?),
            // Whoever starts a program with another user's rights could try PINs with it.
            PinSource::Variable(_) if is_of_another() => {
                return Err(Problem("pin_env: not for programs with another user's rights".to_owned()));
            }
            PinSource::Variable(name) => Some(pin_from_variable(name).map_err(|error| problem(&error))?),
            PinSource::Key(_) => {
                return Err(Problem("pin_key: the keystore is closed when tokens are opened".to_owned()));
            }
        };
        let opening = section.opening(&self.folder, pin, || self.host())?;
        ciphermill_token::open(opening).map_err(|error| problem(&error))
    }

    /// The program that runs a token's module in a process of its own.
    fn host(&self) -> Result<Host, Problem> {
        Ok(match &self.host[..] {
            [program, arguments @ ..] => Host { program: self.folder.join(program), arguments: arguments.to_vec() },
            [] => Host { program: beside_module("ciphermill-token-host")?, arguments: Vec::new() },
        })
    }

    /// Opens a mill without threads of its own: applications that load modules fork, confine themselves and count their threads. Tokens are
    /// driven by threads, since they may hang.
    ///
    /// # Errors
    /// A name that no engine has; those of [`ciphermill::MillBuilder::open`].
    pub(crate) fn open_mill(&self, tokens: &[OpenToken]) -> Result<Mill, Problem> {
        let of_processor = ["lanes", "library", "reference"].map(str::to_owned);
        let names = if self.engines.is_empty() { &of_processor[..] } else { &self.engines };
        let mut engines: Vec<_> = tokens.iter().map(OpenToken::engine).collect();
        for name in names {
            match ciphermill_engines::open(name) {
                Some(Ok(engine)) => engines.push(engine),
                Some(Err(error)) => return Err(Problem(format!("engine `{name}`: {error}"))),
                None => return Err(Problem(format!("there is no engine `{name}`"))),
            }
        }
        // What is legacy is the application's choice: it names mechanisms.
        Mill::builder().engines(engines).workers(0).legacy(true).open().map_err(|error| Problem(error.to_string()))
    }
}

fn from_file(file: &Path) -> Result<Configuration, Problem> {
    let problem = |text: String| Problem(format!("{}: {text}", file.display()));
    let len = std::fs::metadata(file).map_err(|error| problem(error.to_string()))?.len();
    if len > FILE_LEN_MAX {
        return Err(problem(format!("it has {len} bytes, at most are {FILE_LEN_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| problem(error.to_string()))?;
    let mut configuration: Configuration = toml::from_str(&text).map_err(|error| problem(error.to_string()))?;
    let engines: Vec<&str> = ciphermill_engines::names().collect();
    ciphermill_token::check(&configuration.tokens, &engines).map_err(|error| problem(error.to_string()))?;
    configuration.folder = file.parent().map(Path::to_owned).unwrap_or_default();
    Ok(configuration)
}

/// The PIN in a file that others than its owner must not be able to read.
fn pin_in(file: &Path) -> Result<SecretBytes, Problem> {
    match MasterSecret::passphrase_file(file).map_err(|error| Problem(format!("pin_file: {error}")))? {
        MasterSecret::Passphrase(text) => Ok(pin_of(text.as_bytes())?),
        MasterSecret::KeyFile(_) | MasterSecret::Environment(_) => unreachable!("a passphrase was read"),
    }
}

/// A program beside this module, wherever the application has loaded it from.
fn beside_module(program: &str) -> Result<PathBuf, Problem> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here: fn(&str) -> Result<PathBuf, Problem> = beside_module;
    // SAFETY: any address may be asked about; the answer's name lives as long as the module, which is never unloaded (build.rs).
    let name = unsafe {
        if libc::dladdr(here as *const std::ffi::c_void, &raw mut found) == 0 || found.dli_fname.is_null() {
            return Err(Problem(
                "host: must name the program, since this module does not know where it lies".to_owned(),
            ));
        }
        std::ffi::CStr::from_ptr(found.dli_fname)
    };
    let module = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let folder = std::fs::canonicalize(module).ok().and_then(|module| Some(module.parent()?.to_owned()));
    let program = folder.unwrap_or_default().join(program);
    if program.exists() {
        Ok(program)
    } else {
        Err(Problem(format!(
            "{}: is not there; `host` names another program, and `process = false` does without",
            program.display()
        )))
    }
}

/// A variable of the environment, which programs with another user's rights do not listen to.
fn variable(name: &str) -> Option<String> {
    if is_of_another() { None } else { std::env::var(name).ok().filter(|value| !value.is_empty()) }
}

/// Whether the program runs with another user's rights.
fn is_of_another() -> bool {
    // SAFETY: a number of the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_keystores_and_engines_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pkcs11.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).expect("a file");
            from_file(&file)
        };
        let good = read("keystores = [\"/a\", \"/b\"]\nengines = [\"library\"]\n").expect("a configuration");
        assert_eq!(good.keystores, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(good.engines, ["library"]);
        let bad = read("keystore = \"/a\"\n").expect_err("an unknown name").to_string();
        assert!(bad.contains("pkcs11.toml") && bad.contains("keystore"), "{bad}");
        assert!(from_file(&folder.path().join("none")).is_err());
    }

    #[test]
    fn engines_that_there_are_not_are_named() {
        let configuration = Configuration { engines: vec!["steam".to_owned()], ..Configuration::default() };
        let problem = configuration.open_mill(&[]).err().expect("no such engine").to_string();
        assert!(problem.contains("steam"), "{problem}");
    }
}
