//! Which keystores are tokens, and which engines run operations: from the environment or a file.

use std::fmt;
use std::path::{Path, PathBuf};

use ciphermill::Mill;
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
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configuration {
    /// Keystores, each of which is a slot, in this order.
    #[serde(default)]
    pub(crate) keystores: Vec<PathBuf>,
    /// Engines by name, as `ciphermill engines` lists them; none named stands for those of this processor.
    #[serde(default)]
    pub(crate) engines: Vec<String>,
}

/// Why a configuration cannot be used.
#[derive(Debug)]
pub(crate) struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
                file.map_or_else(
                    || Ok(Configuration { keystores: Vec::new(), engines: Vec::new() }),
                    |file| from_file(&file),
                )?
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

    /// Opens a mill without threads of its own: applications that load modules fork, confine themselves and count their threads.
    ///
    /// # Errors
    /// A name that no engine has; those of [`ciphermill::MillBuilder::open`].
    pub(crate) fn open_mill(&self) -> Result<Mill, Problem> {
        let of_processor = ["lanes", "library", "reference"].map(str::to_owned);
        let names = if self.engines.is_empty() { &of_processor[..] } else { &self.engines };
        let mut engines = Vec::new();
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
    toml::from_str(&text).map_err(|error| problem(error.to_string()))
}

/// A variable of the environment, which programs with another user's rights do not listen to.
fn variable(name: &str) -> Option<String> {
    // SAFETY: a number of the process.
    let is_of_another = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if is_of_another { None } else { std::env::var(name).ok().filter(|value| !value.is_empty()) }
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
        let configuration = Configuration { keystores: Vec::new(), engines: vec!["steam".to_owned()] };
        let problem = configuration.open_mill().err().expect("no such engine").to_string();
        assert!(problem.contains("steam"), "{problem}");
    }
}
