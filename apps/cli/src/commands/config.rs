//! `ciphermill config`: which settings are in force.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use ciphermill_service::{Access, Options, Rules};
use ciphermill_token::{PinSource, TokenPlace};

use crate::config::{Config, FILE_NAME};
use crate::output::say;
use crate::policy::TablePolicy;

/// Checks a policy file of `protect`, and prints what it says as the arguments that say the same.
pub(crate) fn check_policy(path: &Path) -> anyhow::Result<ExitCode> {
    let policy = TablePolicy::read(path)?;
    say(format!("# {}: valid", path.display()))?;
    if let Some(key) = &policy.key {
        say(format!("--key {key}"))?;
    }
    if let Some(binding) = &policy.bind_row {
        say(format!("--bind-row {}", binding.column))?;
        if !binding.table.is_empty() {
            say(format!("--bind-table {}", binding.table))?;
        }
    }
    if policy.no_header {
        say("--no-header")?;
    }
    for column in &policy.columns {
        say(format!("--column {column}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the settings in the form of a configuration file, each with what it means.
pub(crate) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    match &config.path {
        Some(path) => say(format!("# from {}", path.display()))?,
        None => say(format!("# defaults; there is no {FILE_NAME} here or in the user's configuration folder"))?,
    }
    let policy = config.policy()?;
    let kinds: Vec<String> = ciphermill_contract::EngineKind::ALL
        .iter()
        .filter(|kind| policy.engines.contains(**kind))
        .map(|kind| format!("\"{kind}\""))
        .collect();
    say("\n[policy]")?;
    say("# Broken, undersized or variable-time suites (DES, 3DES, RC4, Blowfish, MD5, RSA-1024 ...).")?;
    say(format!("legacy = {}", policy.legacy))?;
    say("# Kinds of engines that may be used.")?;
    say(format!("engines = [{}]", kinds.join(", ")))?;
    say("# Engines, suites, and suites of an engine that are disabled: \"gpu\", \"rc4\", \"lanes:des-cbc\".")?;
    let rules: Vec<String> = config.disabled.rules().iter().map(|rule| format!("\"{rule}\"")).collect();
    say(format!("disabled = [{}]", rules.join(", ")))?;
    let trust = policy.trust;
    say("\n[trust]")?;
    say(
        "# One of so many batches is recomputed on another engine and compared, and at most so many of its operations.",
    )?;
    say(format!("witness_every = {}\nwitness_ops_max = {}", trust.witness_every, trust.witness_ops_max))?;
    say("# A device is left when it takes so many times the predicted time, and at least so many milliseconds.")?;
    say(format!("stall_factor = {}\nstall_min_ms = {}", trust.stall_factor, trust.stall_min.as_millis()))?;
    say("# The first quarantine of an engine that failed, and the longest; each is twice as long as the one before.")?;
    say(format!("quarantine_min_ms = {}", trust.quarantine_min.as_millis()))?;
    say(format!("quarantine_max_ms = {}", trust.quarantine_max.as_millis()))?;
    say("\n[keystore]")?;
    say("# Where keys are kept, wrapped under a master key.")?;
    say(format!("path = {:?}", config.keystore_path()?))?;
    say("# The key that `protect` uses when --key does not name one.")?;
    say(format!("key = {:?}", config.keystore.key.as_deref().unwrap_or("default")))?;
    service(config)?;
    tokens(config)?;
    Ok(ExitCode::SUCCESS)
}

fn tokens(config: &Config) -> anyhow::Result<()> {
    for section in &config.tokens {
        say("\n[[token]]")?;
        say(
            "# A PKCS#11 token that is an engine: its name, the vendor's module, and which of the module's tokens it is.",
        )?;
        say(format!("name = {:?}\nmodule = {:?}", section.name, section.module))?;
        match section.place()? {
            TokenPlace::Slot(slot) => say(format!("slot = {slot}"))?,
            TokenPlace::Label(label) => say(format!("label = {label:?}"))?,
        }
        let pin = match section.pin()? {
            PinSource::Nowhere => None,
            PinSource::File(file) => Some(format!("pin_file = {file:?}")),
            PinSource::Variable(variable) => Some(format!("pin_env = {variable:?}")),
            PinSource::Key(key) => Some(format!("pin_key = {key:?}")),
        };
        if let Some(pin) = pin {
            say("# Where the PIN is: in a file, an environment variable or the keystore.")?;
            say(pin)?;
        }
        say("# Whether keys may be copied to it for a session, and whether the module runs in a process of its own.")?;
        say(format!("copies = {}\nprocess = {}", section.copies, section.process))?;
        say(
            "# Milliseconds that it has for a call in a process of its own, before that process is ended and started again.",
        )?;
        say(format!("sessions = {}", section.sessions()?.unwrap_or(1)))?;
        say(format!("patience_ms = {}", section.patience()?.unwrap_or(ciphermill_token::PATIENCE).as_millis()))?;
    }
    Ok(())
}

fn lists(access: &Access) -> String {
    let Access { users, groups, all, units, executables } = access;
    format!("users = {users:?}\ngroups = {groups:?}\nall = {all}\nunits = {units:?}\nexecutables = {executables:?}")
}

fn rules_of(rules: &Rules) -> String {
    let Rules { weight, ops_per_second, public_key_ops_per_second, bytes_in_flight } = rules;
    let rate = |name: &str, rate: &Option<f64>| rate.map(|rate| format!("{name} = {rate:?}"));
    let lines = [
        Some(format!("weight = {weight:?}")),
        rate("ops_per_second", ops_per_second),
        rate("public_key_ops_per_second", public_key_ops_per_second),
        bytes_in_flight.map(|bytes| format!("bytes_in_flight = {bytes}")),
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn service(config: &Config) -> anyhow::Result<()> {
    let Options { workers, pools: _, spin, window_max, limits, access, rules, audit } =
        config.service.options(config.folder())?;
    say("\n[service]")?;
    if let Some(socket) = &config.service.socket {
        say("# The socket that clients connect to.")?;
        say(format!("socket = {socket:?}"))?;
    }
    say("# Threads that run requests, in all pools together.")?;
    say(format!("workers = {workers}"))?;
    say("# Cores of each pool of workers, as lists; without any there is a pool for each node of memory (NUMA).")?;
    say(format!("pools = {:?}", config.service.pools))?;
    say(
        "# How long a worker looks for requests before it sleeps, and how long operations wait for those of other clients at most.",
    )?;
    say(format!("spin_us = {}\nwindow_us = {}", spin.as_micros(), window_max.as_micros()))?;
    if let Some(audit) = audit {
        say("# The file that control operations are written to, a line of JSON each.")?;
        say(format!("audit = {audit:?}"))?;
    }
    for (name, file) in
        [("passphrase_file", &config.service.passphrase_file), ("master_key_file", &config.service.master_key_file)]
    {
        if let Some(file) = file {
            say("# What opens the keystore, whose keys clients may use by name.")?;
            say(format!("{name} = {file:?}"))?;
        }
    }
    say("\n[service.access]")?;
    say("# Who may connect, by number or name, besides the service's own user and root; and whether everybody may.")?;
    say("# units (of systemd) and executables say from where: each that lists anything must list the process's own.")?;
    say("# Where no user or group is listed beside them, it may be anybody's. A slice stands for all that is in it.")?;
    say("# Programs of other users are seen by a service with CAP_SYS_PTRACE alone.")?;
    say(lists(&access))?;
    for (name, grant) in config.service.grants()? {
        say(format!("\n[service.keys.{name:?}]"))?;
        say("# Who may use this key of the keystore by its name, by the same rule.")?;
        say(lists(&grant))?;
    }
    for (kind, of_kind) in [("users", &rules.users), ("groups", &rules.groups)] {
        let sorted: BTreeMap<_, _> = of_kind.iter().collect();
        for (number, rules) in sorted {
            say(format!("\n[service.{kind}.{number}]"))?;
            say(
                "# The share of the workers' time beside others', whose is 1; and what all connections of the user may have",
            )?;
            say("# together: operations a second, of these with public keys, bytes under way. What is beyond waits.")?;
            say(rules_of(rules))?;
        }
    }
    say("\n[service.limits]")?;
    say("# Connections in all and of one user; channels, their bytes, the bytes of all, and keys of a connection.")?;
    say(format!("clients = {}\nclients_of_user = {}", limits.clients, limits.clients_of_user))?;
    say(format!("channels = {}\nchannel_bytes = {}", limits.channels, limits.channel_bytes))?;
    say(format!("client_bytes = {}\nkeys = {}", limits.client_bytes, limits.keys))?;
    say("# Bytes of the audit log, which is moved to FILE.1 before it has more; 0 for any number.")?;
    say(format!("audit_bytes = {}", limits.audit_bytes))?;
    Ok(())
}
