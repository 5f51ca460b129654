//! The command's configuration and policy files: any text is read or refused, and what is read can be used.

use std::sync::LazyLock;

// The files name these.
use {anyhow as _, ciphermill_service as _, serde as _, toml as _, uzers as _};

#[path = "../../apps/cli/src/config.rs"]
#[allow(dead_code, reason = "the command uses the rest")]
mod config;
#[path = "../../apps/cli/src/policy.rs"]
#[allow(dead_code, reason = "the command uses the rest")]
mod policy;
#[path = "../../apps/cli/src/rules.rs"]
mod rules;

/// Engines that rules may name.
const ENGINES: [&str; 3] = ["lanes", "library", "gpu"];

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(crate::keystore::folder);

/// The first byte decides which of the two files the rest is.
///
/// # Panics
/// When a configuration that was read has no policy, a rule that is added and taken out again changes the others, or a column of a policy file is not spelled back to the same thing.
pub fn run(bytes: &[u8]) {
    let Some((pick, text)) = bytes.split_first() else { return };
    let path = FOLDER.path().join("file.toml");
    std::fs::write(&path, text).expect("written");
    if pick & 1 == 0 {
        if let Ok(config) = config::Config::load(Some(&path), &ENGINES) {
            config.policy().expect("checked when it was read");
            // Names of users that there are not are refused here.
            if let Ok(options) = config.service.options(config.folder()) {
                assert!(options.workers > 0);
            }
            change_rules(&std::fs::read_to_string(&path).expect("it was read"), &config);
        }
    } else if let Ok(policy) = policy::TablePolicy::read(&path) {
        assert!(!policy.columns.is_empty());
        for column in &policy.columns {
            crate::columns::run(column.to_string().as_bytes());
        }
    }
}

/// Adds a rule to a configuration and takes it out.
fn change_rules(text: &str, config: &config::Config) {
    let rules = |text: &str| {
        let read = config::Config::parse(text, std::path::Path::new("file.toml"), &ENGINES).expect("checked");
        read.disabled.rules().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let before: Vec<String> = config.disabled.rules().iter().map(ToString::to_string).collect();
    let new = "lanes:hmac-sha256";
    if before.iter().any(|rule| rule == new) {
        return;
    }
    let Ok(added) = rules::with(text, new) else { return };
    assert_eq!(rules(&added).split_last(), Some((&new.to_owned(), &before[..])));
    let removed = rules::without(&added, |rule| rule == new).expect("it was put there");
    assert_eq!(rules(&removed), before);
}

/// Inputs to begin with: every entry of both files.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let config = "0[policy]\nlegacy = true\nengines = [\"library\", \"lanes\"]\ndisabled = [\n  \"gpu\", # why\n  \"lanes:des-*\"\n]\n\
        [trust]\nwitness_every = 64\n\
        witness_ops_max = 8\nstall_factor = 3\nstall_min_ms = 5\nquarantine_min_ms = 1\nquarantine_max_ms = 10\n\
        [keystore]\npath = \"keys\"\nkey = \"customers\"\n\
        [service]\nworkers = 2\naudit = \"log\"\n[service.access]\nusers = [\"root\", 12]\ngroups = [0]\nall = false\n\
        units = [\"nginx.service\"]\nexecutables = [\"/usr/sbin/nginx\"]\n[service.limits]\nkeys = 5\naudit_bytes = 1000\n\
        [service.users.root]\nweight = 4.0\nops_per_second = 100\n[service.groups.0]\npublic_key_ops_per_second = 2.5\n\
        bytes_in_flight = 7\n[[token]]\nname = \"hsm\"\nmodule = \"hsm.so\"\nlabel = \"web\"\npin_env = \"PIN\"\ncopies = true\n\
        process = false\npatience_ms = 500\n";
    let policy = "1key = \"customers\"\nbind-row = \"id\"\nbind-table = \"people\"\n[columns.email]\n\
        method = \"deterministic\"\nas-text = true\nbind = false\n[columns.\"phone number\"]\nmethod = \"ff1\"\n\
        preset = \"phone\"\nkeep-last = 2\non-bad = \"null\"\n";
    [config, policy].map(|text| text.as_bytes().to_vec()).to_vec()
}
