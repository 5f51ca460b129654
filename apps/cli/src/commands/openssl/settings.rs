//! What a configuration of OpenSSL says of providers (config(5)), and what has to be added for ours.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

/// The section of what stands before any other.
const DEFAULT: &str = "default";

/// Files within files.
const INCLUDES_MAX: usize = 16;

/// A configuration, as far as it names sections and gives them values. Of two values with one name the last counts, and sections with
/// one name are one.
#[derive(Debug, Default)]
pub(super) struct Settings {
    path: PathBuf,
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

impl Settings {
    /// Reads a file and what it includes.
    pub(super) fn read(path: &Path) -> anyhow::Result<Settings> {
        let mut settings = Settings { path: path.to_owned(), ..Settings::default() };
        let mut section = DEFAULT.to_owned();
        settings.add(path, &mut section, 0)?;
        Ok(settings)
    }

    fn add(&mut self, path: &Path, section: &mut String, depth: usize) -> anyhow::Result<()> {
        ensure!(depth < INCLUDES_MAX, "{}: more than {INCLUDES_MAX} files include each other", path.display());
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut whole = String::new();
        for line in text.lines() {
            // A line goes on where its last character is a backslash that stands alone.
            let slashes = line.len() - line.trim_end_matches('\\').len();
            if slashes % 2 == 1 {
                whole.push_str(&line[..line.len() - 1]);
                continue;
            }
            whole.push_str(line);
            self.line(&std::mem::take(&mut whole), path, section, depth)?;
        }
        self.line(&whole, path, section, depth)
    }

    fn line(&mut self, line: &str, path: &Path, section: &mut String, depth: usize) -> anyhow::Result<()> {
        let line = without_comment(line).trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.trim().clone_into(section);
            self.sections.entry(section.clone()).or_default();
        } else if let Some(rest) = line.strip_prefix(".include") {
            let included = Path::new(rest.trim_start().trim_start_matches('=').trim());
            ensure!(
                included.is_absolute(),
                "{}: `{line}` is relative, so that it means another file in each program's folder; only absolute paths are followed",
                path.display()
            );
            for file in files_of(included) {
                self.add(&file, section, depth + 1)?;
            }
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('.')) {
            let (within, name) = name.trim().split_once("::").unwrap_or((section.as_str(), name.trim()));
            let values = self.sections.entry(within.trim().to_owned()).or_default();
            values.insert(name.trim().to_owned(), unquoted(value.trim()));
        }
        Ok(())
    }

    /// A value that has to be known; one that is made of variables is not.
    fn value(&self, section: &str, name: &str) -> anyhow::Result<Option<&str>> {
        let value = self.sections.get(section).and_then(|values| values.get(name));
        if let Some(value) = value.filter(|value| value.contains('$')) {
            bail!(
                "{}: `{name} = {value}` in section [{section}] is made of variables, which `ciphermill openssl` does not follow; \
                 give the value itself there, or another file with --extends",
                self.path.display()
            );
        }
        Ok(value.map(String::as_str))
    }

    /// Names of the providers that are activated.
    fn activated(&self, providers: &str) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for name in self.sections.get(providers).into_iter().flat_map(BTreeMap::keys) {
            let Some(section) = self.value(providers, name)? else { continue };
            // In 3.0 the name alone counts, whatever its value.
            if self.value(section, "activate")?.is_some() {
                found.push(self.value(section, "identity")?.unwrap_or(name).to_owned());
            }
        }
        Ok(found)
    }

    /// The lines that add our provider with what its section says, to stand after all of this configuration.
    pub(super) fn addition(&self, own: &[(&str, String)]) -> anyhow::Result<String> {
        if let Some(section) = self.sections.keys().find(|section| section.starts_with("ciphermill")) {
            bail!("{}: has a section [{section}], so that it loads the provider already", self.path.display());
        }
        let mut text = String::new();
        let mut lines = |section: &str, assigned: &[(&str, &str)]| {
            // Writing into a text does not fail.
            let _ = write!(text, "\n[{section}]\n");
            for (name, value) in assigned {
                let _ = writeln!(text, "{name} = {value}");
            }
        };
        let init = self.value(DEFAULT, "openssl_conf")?;
        if init.is_none() {
            lines(DEFAULT, &[("openssl_conf", "ciphermill_init")]);
        }
        let init = init.unwrap_or("ciphermill_init");
        let (providers, algorithms) = (self.value(init, "providers")?, self.value(init, "alg_section")?);
        // OpenSSL's generator would take its cipher from the provider that is preferred, which does nothing better with a few bytes.
        let random = self.value(init, "random")?.is_none().then_some("ciphermill_random");
        let missing = [
            providers.is_none().then_some(("providers", "ciphermill_providers")),
            algorithms.is_none().then_some(("alg_section", "ciphermill_algorithms")),
            random.map(|section| ("random", section)),
        ];
        let missing: Vec<_> = missing.into_iter().flatten().collect();
        if !missing.is_empty() {
            lines(init, &missing);
        }
        let providers = providers.unwrap_or("ciphermill_providers");
        let algorithms = algorithms.unwrap_or("ciphermill_algorithms");
        let properties = self.properties(algorithms)?;
        let default = self.default_to_activate(providers)?;
        let mut entries = vec![("ciphermill", "ciphermill_provider")];
        if default == Some("ciphermill_default") {
            entries.insert(0, ("default", "ciphermill_default"));
        }
        lines(providers, &entries);
        if let Some(section) = default {
            lines(section, &[("activate", "1")]);
        }
        let own: Vec<_> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        lines("ciphermill_provider", &own);
        if let Some(section) = random {
            lines(section, &[("properties", "provider=default")]);
        }
        lines(algorithms, &[("default_properties", &properties)]);
        Ok(text)
    }

    /// The section where `default` has to be activated: OpenSSL does that by itself only where no provider is.
    fn default_to_activate(&self, providers: &str) -> anyhow::Result<Option<&str>> {
        let activated = self.activated(providers)?;
        if activated.iter().any(|name| name == "default") {
            return Ok(None);
        }
        ensure!(
            activated.is_empty(),
            "{}: section [{providers}] activates {} without `default`, beside which the provider works; activate `default` there, \
             or give another file with --extends",
            self.path.display(),
            activated.join(", ")
        );
        Ok(Some(self.value(providers, "default")?.unwrap_or("ciphermill_default")))
    }

    /// The properties by which algorithms are chosen, ours joined to those that are there.
    fn properties(&self, algorithms: &str) -> anyhow::Result<String> {
        let own = "?provider=ciphermill";
        let there = self.value(algorithms, "default_properties")?.unwrap_or_default();
        let has_fips_mode =
            self.value(algorithms, "fips_mode")?.is_some_and(|mode| !["no", "off", "false", "0"].contains(&mode));
        ensure!(
            !has_fips_mode && !there.contains("fips=yes"),
            "{}: section [{algorithms}] asks for validated algorithms (fips=yes), and the provider has none",
            self.path.display()
        );
        ensure!(
            !there.contains("provider"),
            "{}: `default_properties = {there}` in section [{algorithms}] prefers a provider, and two cannot be preferred",
            self.path.display()
        );
        Ok(if there.is_empty() { own.to_owned() } else { format!("{there},{own}") })
    }
}

/// The files that an `.include` names: itself, or those of a folder that are called `.cnf` or `.conf`; none where there is nothing.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return if path.exists() { vec![path.to_owned()] } else { Vec::new() };
    };
    let entries = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "cnf" || end == "conf")).collect();
    files.sort();
    files
}

/// The part of a line before `#`, unless that is within quotation marks or after a backslash.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, character) in line.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if quote == Some(character) => quote = None,
            '"' | '\'' | '`' if quote.is_none() => quote = Some(character),
            '#' if quote.is_none() => return &line[..at],
            _ => {}
        }
    }
    line
}

fn unquoted(value: &str) -> String {
    value.chars().filter(|character| !matches!(character, '"' | '\'' | '`' | '\\')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Settings {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("openssl.cnf");
        fs::write(&path, text.replace("HERE", &folder.path().display().to_string())).expect("written");
        fs::create_dir(folder.path().join("more")).expect("a folder");
        fs::write(folder.path().join("more/other.txt"), "[init]\nproviders = wrong\n").expect("written");
        fs::write(folder.path().join("more/more.cnf"), "[init]\nalg_section = algs\n").expect("written");
        Settings::read(&path).expect("read")
    }

    fn section() -> [(&'static str, String); 2] {
        [("activate", "1".to_owned()), ("module", "/m.so".to_owned())]
    }

    fn added(text: &str) -> String {
        read(text).addition(&section()).expect("an addition")
    }

    fn refused(text: &str) -> String {
        read(text).addition(&section()).expect_err("refused").to_string()
    }

    #[test]
    fn sections_merge_and_the_last_value_counts() {
        let settings = read("a = 1 # one\n[x]\nb = 2\n[y]\nb=3\n[ x ]\nb = \\\n 4\nz::c = 'five # six'\na = \"\"\n");
        assert_eq!(settings.value("default", "a").expect("plain"), Some("1"));
        assert_eq!(settings.value("x", "b").expect("plain"), Some("4"));
        assert_eq!(settings.value("y", "b").expect("plain"), Some("3"));
        assert_eq!(settings.value("z", "c").expect("plain"), Some("five # six"));
        assert_eq!(settings.value("x", "a").expect("plain"), Some(""));
    }

    #[test]
    fn an_empty_file_gets_everything() {
        assert_eq!(
            added(""),
            "\n[default]\nopenssl_conf = ciphermill_init\n\
             \n[ciphermill_init]\nproviders = ciphermill_providers\nalg_section = ciphermill_algorithms\nrandom = ciphermill_random\n\
             \n[ciphermill_providers]\ndefault = ciphermill_default\nciphermill = ciphermill_provider\n\
             \n[ciphermill_default]\nactivate = 1\n\
             \n[ciphermill_provider]\nactivate = 1\nmodule = /m.so\n\
             \n[ciphermill_random]\nproperties = provider=default\n\
             \n[ciphermill_algorithms]\ndefault_properties = ?provider=ciphermill\n"
        );
    }

    #[test]
    fn what_is_there_is_built_upon() {
        let text = added(
            "openssl_conf = init\n[init]\nssl_conf = ssl\nrandom = rand\nproviders = sect\n.include HERE/more\n[sect]\ndefault = d\nlegacy = l\n\
             [d]\nactivate = 1\n[l]\nactivate = 1\n[algs]\ndefault_properties = ?fast=yes\n",
        );
        assert_eq!(
            text,
            "\n[sect]\nciphermill = ciphermill_provider\n\
             \n[ciphermill_provider]\nactivate = 1\nmodule = /m.so\n\
             \n[algs]\ndefault_properties = ?fast=yes,?provider=ciphermill\n"
        );
    }

    #[test]
    fn a_default_that_is_named_and_not_activated_is_activated_where_it_stands() {
        let text = added(
            "openssl_conf = init\n[init]\nproviders = sect\n[sect]\ndefault = default_sect\n[default_sect]\n# activate = 1\n",
        );
        assert!(text.contains("\n[default_sect]\nactivate = 1\n"), "{text}");
        assert!(!text.contains("ciphermill_default"), "{text}");
    }

    #[test]
    fn what_cannot_be_built_upon_is_refused_by_its_rule() {
        let init = "openssl_conf = i\n[i]\nproviders = p\nalg_section = a\n";
        for (rest, words) in [
            ("[p]\nfips = f\n[f]\nactivate = 1\n", "activates fips without `default`"),
            ("[a]\ndefault_properties = fips=yes\n", "validated algorithms"),
            ("[a]\nfips_mode = yes\n", "validated algorithms"),
            ("[a]\ndefault_properties = ?provider=other\n", "prefers a provider"),
            ("[a]\ndefault_properties = $mine\n", "made of variables"),
            ("[ciphermill_provider]\n", "loads the provider already"),
        ] {
            let said = refused(&format!("{init}{rest}"));
            assert!(said.contains(words) && said.contains("openssl.cnf: "), "{said}");
        }
    }

    #[test]
    fn includes_are_absolute_and_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("round.cnf");
        fs::write(&path, format!(".include = {}\n", path.display())).expect("written");
        assert!(Settings::read(&path).expect_err("endless").to_string().contains("include each other"));
        fs::write(&path, ".include more.cnf\n").expect("written");
        assert!(Settings::read(&path).expect_err("relative").to_string().contains("only absolute paths"));
        fs::write(&path, ".include /nowhere/at-all.cnf\n").expect("written");
        Settings::read(&path).expect("what is not there is passed over, as by OpenSSL");
    }
}
