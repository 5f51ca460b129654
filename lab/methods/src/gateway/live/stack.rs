//! The gateways that are compared: one file of definitions for all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::LabError;

const DEFINITIONS: &str = include_str!("../../../definitions/gateways.toml");

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definitions {
    /// The gateways, in the order in which they are measured.
    pub gateway: Vec<Stack>,
    text: BTreeMap<String, Text>,
}

/// A gateway: what is started, and how it is known to be ready. Words between @ are filled in for each side.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// What it is called.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The program and its arguments; none where the kernel is all that is measured.
    #[serde(default)]
    pub program: Vec<String>,
    /// Environment variables.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether the kernel of each gateway forwards packets to and from it.
    #[serde(default)]
    pub forwards: bool,
    /// Whether packets may be read between the gateways. What says no and lets them be read is not measured.
    #[serde(default)]
    pub clear: bool,
    /// Octets of the longest packet that it takes.
    pub packet_len_max: Option<usize>,
    /// What has to be installed.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Its suites: our name of each, and its own.
    pub suites: BTreeMap<String, String>,
    /// The texts that are written to files before it starts.
    #[serde(default)]
    pub files: Vec<String>,
    /// The path that is there once it listens.
    pub ready: Option<String>,
    /// What is done then, on both sides, step by step.
    #[serde(default)]
    pub after: Vec<Step>,
}

/// A program or a file that has to be there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// A program, found in PATH.
    pub program: Option<String>,
    /// A file.
    pub file: Option<PathBuf>,
    /// How to get it.
    pub how: String,
}

/// What is done once a gateway listens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The side; both, west first, where none is named.
    pub side: Option<String>,
    /// A program and its arguments, which ends without an error.
    #[serde(default)]
    pub run: Vec<String>,
    /// A socket that a text is sent to, whose answer says that there was no error.
    pub socket: Option<String>,
    /// The name of that text.
    pub send: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    path: String,
    text: String,
}

impl Definitions {
    /// The gateways that the lab knows.
    ///
    /// # Errors
    /// [`LabError::Definitions`] where the file breaks its own rules.
    pub fn read() -> Result<Definitions, LabError> {
        Definitions::parse(DEFINITIONS)
    }

    fn parse(text: &str) -> Result<Definitions, LabError> {
        let definitions: Definitions =
            toml::from_str(text).map_err(|error| LabError::Definitions(format!("gateways.toml: {error}")))?;
        for stack in &definitions.gateway {
            definitions.check(stack).map_err(|why| LabError::Definitions(format!("gateway {}: {why}", stack.name)))?;
        }
        Ok(definitions)
    }

    fn check(&self, stack: &Stack) -> Result<(), String> {
        if stack.suites.is_empty() {
            return Err("no suite".to_owned());
        }
        for step in &stack.after {
            let is_run = !step.run.is_empty();
            if is_run == step.socket.is_some() || step.socket.is_some() != step.send.is_some() {
                return Err("a step either runs a program or sends a text to a socket".to_owned());
            }
            if step.side.as_deref().is_some_and(|side| side != "west" && side != "east") {
                return Err("a side is west or east".to_owned());
            }
        }
        let sent = stack.after.iter().filter_map(|step| step.send.as_ref());
        match stack.files.iter().chain(sent).find(|name| !self.text.contains_key(*name)) {
            Some(name) => Err(format!("there is no text {name}")),
            None => Ok(()),
        }
    }

    /// A text, filled in.
    ///
    /// # Errors
    /// No text of this name, or a word without a value.
    pub(super) fn text(&self, name: &str, words: &Words) -> Result<String, LabError> {
        words.fill(&self.named(name)?.text)
    }

    /// Where a text is written to.
    ///
    /// # Errors
    /// As [`Definitions::text`].
    pub(super) fn path(&self, name: &str, words: &Words) -> Result<PathBuf, LabError> {
        words.fill(&self.named(name)?.path).map(PathBuf::from)
    }

    fn named(&self, name: &str) -> Result<&Text, LabError> {
        self.text.get(name).ok_or_else(|| LabError::Definitions(format!("gateways.toml: there is no text {name}")))
    }
}

impl Stack {
    /// What of its needs is not there, with how to get it; `None` if all are.
    pub(super) fn lacks(&self) -> Option<String> {
        let is_there = |need: &Need| {
            need.program.as_ref().is_none_or(|program| is_in_path(program))
                && need.file.as_ref().is_none_or(|file| file.exists())
        };
        let need = self.needs.iter().find(|need| !is_there(need))?;
        let file = need.file.as_ref().map(|file| file.display().to_string());
        Some(format!("no {}: {}", need.program.clone().or(file).unwrap_or_default(), need.how))
    }

    /// Whether it takes packets of so many octets.
    pub(super) fn takes(&self, packet_len: usize) -> bool {
        self.packet_len_max.is_none_or(|max| packet_len <= max)
    }
}

fn is_in_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    // Daemons lie where an ordinary user's path does not lead.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&folders).chain(more).any(|folder| folder.join(program).is_file())
}

/// What is filled in.
#[derive(Default)]
pub(super) struct Words(BTreeMap<&'static str, zeroize::Zeroizing<String>>);

impl Words {
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.insert(name, value.into().into());
    }

    pub(super) fn set_path(&mut self, name: &'static str, value: &Path) {
        self.set(name, value.display().to_string());
    }

    /// A text with values in the place of its words.
    ///
    /// # Errors
    /// [`LabError::Definitions`] for a word that has no value.
    pub(super) fn fill(&self, text: &str) -> Result<String, LabError> {
        let mut filled = String::with_capacity(text.len());
        for (number, part) in text.split('@').enumerate() {
            if number % 2 == 0 {
                filled.push_str(part);
                continue;
            }
            let value = self.0.get(part);
            let value =
                value.ok_or_else(|| LabError::Definitions(format!("gateways.toml: nothing is called @{part}@")))?;
            filled.push_str(value);
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(name: &str) -> (Definitions, Stack) {
        let definitions = Definitions::read().expect("sound");
        let found = definitions.gateway.iter().find(|stack| stack.name == name).expect("there").clone();
        (definitions, found)
    }

    fn words() -> Words {
        let mut words = Words::default();
        for name in ["own", "peer", "own_network", "peer_network", "suite", "secret", "key_out", "key_in", "spi_out"] {
            words.set(name, format!("<{name}>"));
        }
        for name in ["spi_in", "private", "peer_public", "folder", "program", "peer_side"] {
            words.set(name, format!("<{name}>"));
        }
        words.set("side", "west");
        words
    }

    #[test]
    fn every_word_of_every_gateway_has_a_value() {
        let (definitions, words) = (Definitions::read().expect("sound"), words());
        for stack in &definitions.gateway {
            for name in &stack.files {
                let text = definitions.text(name, &words).expect("filled");
                assert!(!text.contains('@'), "{text}");
                assert!(definitions.path(name, &words).expect("a path").starts_with("<folder>"));
            }
            let sent = stack.after.iter().filter_map(|step| step.send.as_ref());
            sent.for_each(|name| assert!(!definitions.text(name, &words).expect("filled").is_empty()));
            let run = stack.after.iter().flat_map(|step| &step.run);
            let texts = stack.program.iter().chain(run).chain(stack.environment.values()).chain(&stack.ready);
            texts.for_each(|text| assert!(!words.fill(text).expect("filled").contains('@')));
        }
    }

    #[test]
    fn the_gateways_are_those_that_are_compared() {
        let definitions = Definitions::read().expect("sound");
        let names: Vec<&str> = definitions.gateway.iter().map(|stack| stack.name.as_str()).collect();
        let wanted = ["forwarder", "ciphermill", "ciphermill-lanes", "ciphermill-library", "strongswan-libipsec"];
        assert_eq!(names[..5], wanted);
        assert_eq!(names[5..], ["boringtun", "wireguard-go"]);
        let clear: Vec<&Stack> = definitions.gateway.iter().filter(|stack| stack.clear).collect();
        assert_eq!((clear.len(), clear[0].name.as_str()), (1, "forwarder"));
    }

    #[test]
    fn our_own_file_names_transform_networks_and_keys() {
        let (definitions, ours) = stack("ciphermill");
        let text = definitions.text("ciphermill", &words()).expect("filled");
        for needle in ["\"<suite>\"", "local = \"<own>\"", "remote = \"<peer>\"", "[\"<own_network>\"]", "west.keys"] {
            assert!(text.contains(needle), "{needle} in {text}");
        }
        let keys = definitions.text("ciphermill-keys", &words()).expect("filled");
        assert_eq!(keys, "<key_out>\n<key_in>\n");
        assert!(ours.program.contains(&"--lab-static-keys".to_owned()));
        for suite in ours.suites.values() {
            assert!(suite.parse::<ciphermill_esp::Transform>().is_ok(), "{suite}");
        }
        let engine = |name: &str| stack(name).1.program.last().cloned();
        assert_eq!(engine("ciphermill-lanes").as_deref(), Some("lanes"));
        assert_eq!(engine("ciphermill-library").as_deref(), Some("library"));
    }

    #[test]
    fn strongswan_has_its_esp_in_user_space_and_in_udp() {
        let (definitions, swan) = stack("strongswan-libipsec");
        let charon = definitions.text("charon", &words()).expect("filled");
        let load = charon.lines().find(|line| line.contains("load =")).expect("a list of plugins");
        assert!(load.find("kernel-libipsec") < load.find("kernel-netlink") && load.contains("kernel-libipsec"));
        let connection = definitions.text("swanctl", &words()).expect("filled");
        for needle in
            ["encap = yes", "esp_proposals = <suite>", "local_ts = <own_network>", "\"<secret>\"", "auth = psk"]
        {
            assert!(connection.contains(needle), "{needle}");
        }
        assert!(!swan.takes(1500) && swan.takes(1400));
    }

    #[test]
    fn wireguard_is_told_its_peer() {
        let (definitions, _) = stack("boringtun");
        let text = definitions.text("wireguard", &words()).expect("filled");
        assert!(text.starts_with("set=1\n") && text.ends_with("\n\n"));
        for needle in ["private_key=<private>", "public_key=<peer_public>", "endpoint=<peer>:51820"] {
            assert!(text.contains(needle), "{needle}");
        }
    }

    #[test]
    fn what_is_wrong_with_definitions_is_said() {
        let with = |more: &str| {
            let text = format!("[[gateway]]\nname = \"a\"\nabout = \"b\"\nsuites = {{ x = \"y\" }}\n{more}\n[text]\n");
            Definitions::parse(&text).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(with(""), Ok(()));
        let wrong = |more: &str, why: &str| assert!(with(more).is_err_and(|said| said.contains(why)), "{why}");
        wrong("files = [\"none\"]", "there is no text none");
        wrong("after = [{ socket = \"s\" }]", "either runs a program or sends");
        wrong("after = [{ run = [\"a\"], side = \"left\" }]", "west or east");
        wrong("colour = 1", "unknown field");
        let missing = Words::default().fill("a @b@ c").expect_err("no value");
        assert!(missing.to_string().contains("@b@"), "{missing}");
    }

    #[test]
    fn what_is_not_installed_is_named_with_how_to_get_it() {
        let (_, mut one) = stack("boringtun");
        one.needs = vec![Need { program: Some("no-such-gateway".to_owned()), file: None, how: "make it".to_owned() }];
        assert_eq!(one.lacks().as_deref(), Some("no no-such-gateway: make it"));
        one.needs = vec![Need { program: Some("sh".to_owned()), file: Some("/dev/null".into()), how: String::new() }];
        assert_eq!(one.lacks(), None);
    }
}
