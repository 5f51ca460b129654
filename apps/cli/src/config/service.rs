//! The section `[service]`: who may use the service of this machine, and what clients may have.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ciphermill_channel::{DATA_LEN_MAX, DATA_LEN_MIN};
use ciphermill_keys::keystore::{Keystore, MasterSecret};
use ciphermill_service::{Access, Limits, Options, Rules, UserRules, Vault, cores_of};
use serde::Deserialize;

/// Who may connect as the file system sees it: the owner alone, or everybody, of whom the service takes those that it is told.
const OWN: u32 = 0o600;
const SHARED: u32 = 0o666;

/// Shares that make a difference and can be told apart, and operations a second that there may be.
const WEIGHTS: RangeInclusive<f64> = 0.001..=1000.0;
const RATES: RangeInclusive<f64> = 0.001..=1e12;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServiceSection {
    /// The socket that clients connect to.
    pub socket: Option<PathBuf>,
    /// Threads that run requests.
    pub workers: Option<u16>,
    /// Cores of each pool of workers, as lists of the kernel's form (`0-7,16`).
    pub pools: Vec<String>,
    /// How long a worker looks for requests before it sleeps, in microseconds.
    pub spin_us: Option<u64>,
    /// How long operations wait for those of other clients at most, in microseconds.
    pub window_us: Option<u64>,
    /// The file that control operations are written to, relative to the configuration file.
    pub audit: Option<PathBuf>,
    /// What opens the keystore, whose keys clients may use by name; without either the service has no keystore.
    pub passphrase_file: Option<PathBuf>,
    pub master_key_file: Option<PathBuf>,
    pub access: AccessSection,
    /// Who may use a key of the keystore besides the service's own user and root.
    pub keys: BTreeMap<String, AccessSection>,
    pub limits: LimitsSection,
    /// Shares and rates by a user's name or number, …
    pub users: BTreeMap<String, RulesSection>,
    /// … and by a group's, for users that have none of their own.
    pub groups: BTreeMap<String, RulesSection>,
}

/// Who is let in besides the service's own user and root: [`Access`] has the rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AccessSection {
    /// Names or numbers of users.
    pub users: Vec<Account>,
    /// Names or numbers of groups.
    pub groups: Vec<Account>,
    /// Everybody on this machine.
    pub all: bool,
    /// Units of systemd.
    pub units: Vec<String>,
    /// Programs, by their whole paths.
    pub executables: Vec<PathBuf>,
}

/// A user or a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Account {
    Number(u32),
    Name(String),
}

/// What holds for a user; what is absent is not limited.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RulesSection {
    /// Share of the workers' time beside others.
    pub weight: Option<f64>,
    /// Operations a second of all connections together, …
    pub ops_per_second: Option<f64>,
    /// … and of these, those with public keys.
    pub public_key_ops_per_second: Option<f64>,
    /// Bytes of requests that workers have or are next for.
    pub bytes_in_flight: Option<u64>,
}

/// What is absent is as the service has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSection {
    pub clients: Option<usize>,
    pub clients_of_user: Option<usize>,
    pub channels: Option<usize>,
    pub channel_bytes: Option<usize>,
    pub client_bytes: Option<usize>,
    pub keys: Option<usize>,
    pub audit_bytes: Option<u64>,
}

impl ServiceSection {
    /// What the service is opened with. `base` is the folder that files are named from.
    pub(crate) fn options(&self, base: &Path) -> Result<Options> {
        let default = Options::default();
        let time = |us: Option<u64>, default| us.map_or(default, Duration::from_micros);
        if self.workers == Some(0) {
            bail!("service.workers: must be at least 1");
        }
        Ok(Options {
            workers: self.workers.map_or(default.workers, usize::from),
            pools: self.pools()?,
            spin: time(self.spin_us, default.spin),
            window_max: time(self.window_us, default.window_max),
            limits: self.limits.limits()?,
            access: self.access.access("service.access")?,
            rules: self.rules()?,
            audit: self.audit.as_deref().map(|path| base.join(path)),
        })
    }

    /// The keystore at `path`, opened, and whose its keys are; `None` where nothing is said to open it. `base` is the folder that files
    /// are named from.
    pub(crate) fn vault(&self, path: impl FnOnce() -> Result<PathBuf>, base: &Path) -> Result<Option<Vault>> {
        let secret = match (&self.passphrase_file, &self.master_key_file) {
            (None, None) if self.keys.is_empty() => return Ok(None),
            (None, None) => bail!("service.keys: nothing opens the keystore; passphrase_file or master_key_file does"),
            (Some(_), Some(_)) => bail!("service: of passphrase_file and master_key_file there must be one"),
            (Some(file), None) => MasterSecret::passphrase_file(base.join(file))?,
            (None, Some(file)) => MasterSecret::KeyFile(base.join(file)),
        };
        let grants = self.grants()?.into_iter().collect();
        Ok(Some(Vault::new(Keystore::open(path()?, &secret)?, grants)))
    }

    /// Who may use which key.
    pub(crate) fn grants(&self) -> Result<Vec<(String, Access)>> {
        let grant = |(name, section): (&String, &AccessSection)| {
            Ok((name.clone(), section.access(&format!("service.keys.{name}"))?))
        };
        self.keys.iter().map(grant).collect()
    }

    /// The cores of each pool.
    fn pools(&self) -> Result<Vec<Vec<usize>>> {
        let pool = |list: &String| {
            let cores = cores_of(list).filter(|cores| !cores.is_empty());
            cores.with_context(|| format!("service.pools: {list:?} is no list of cores such as \"0-7,16\""))
        };
        self.pools.iter().map(pool).collect()
    }

    /// Shares and rates of users.
    fn rules(&self) -> Result<UserRules> {
        let mut rules = UserRules::default();
        for (user, section) in &self.users {
            let place = format!("service.users.{user}");
            if rules.users.insert(user_number(user, &place)?, section.rules(&place)?).is_some() {
                bail!("{place}: another section is for the same user");
            }
        }
        for (group, section) in &self.groups {
            let place = format!("service.groups.{group}");
            if rules.groups.insert(group_number(group, &place)?, section.rules(&place)?).is_some() {
                bail!("{place}: another section is for the same group");
            }
        }
        Ok(rules)
    }

    /// The mode of the socket. The service itself looks at who connects in any case.
    pub(crate) fn mode(&self) -> u32 {
        let AccessSection { users, groups, all, units, executables } = &self.access;
        let only_own = !all && users.is_empty() && groups.is_empty() && units.is_empty() && executables.is_empty();
        if only_own { OWN } else { SHARED }
    }
}

impl AccessSection {
    /// `place` is how errors call this section.
    fn access(&self, place: &str) -> Result<Access> {
        let mut access = Access { all: self.all, ..Access::default() };
        for user in &self.users {
            access.users.push(match user {
                Account::Number(number) => *number,
                Account::Name(name) => user_named(name, &format!("{place}.users"))?,
            });
        }
        for group in &self.groups {
            access.groups.push(match group {
                Account::Number(number) => *number,
                Account::Name(name) => group_named(name, &format!("{place}.groups"))?,
            });
        }
        for unit in &self.units {
            let is_one =
                [".service", ".scope", ".slice"].iter().any(|kind| unit.len() > kind.len() && unit.ends_with(kind));
            if !is_one || unit.contains('/') || unit.contains("@.") {
                bail!(
                    "{place}.units: `{unit}` is no service, scope or slice, as in `nginx.service`, `nginx@1.service`"
                );
            }
            access.units.push(unit.clone());
        }
        for executable in &self.executables {
            if !executable.is_absolute() {
                bail!("{place}.executables: `{}` must be a whole path", executable.display());
            }
            access.executables.push(executable.clone());
        }
        Ok(access)
    }
}

fn user_named(name: &str, place: &str) -> Result<u32> {
    Ok(uzers::get_user_by_name(name).with_context(|| format!("{place}: there is no user `{name}`"))?.uid())
}

fn group_named(name: &str, place: &str) -> Result<u32> {
    Ok(uzers::get_group_by_name(name).with_context(|| format!("{place}: there is no group `{name}`"))?.gid())
}

/// A section is called by a number or a name.
fn user_number(text: &str, place: &str) -> Result<u32> {
    text.parse().or_else(|_| user_named(text, place))
}

fn group_number(text: &str, place: &str) -> Result<u32> {
    text.parse().or_else(|_| group_named(text, place))
}

impl RulesSection {
    /// `place` is how errors call this section.
    fn rules(&self, place: &str) -> Result<Rules> {
        let weight = self.weight.unwrap_or(1.0);
        if !WEIGHTS.contains(&weight) {
            bail!("{place}.weight: must be {} to {}", WEIGHTS.start(), WEIGHTS.end());
        }
        for (name, rate) in
            [("ops_per_second", self.ops_per_second), ("public_key_ops_per_second", self.public_key_ops_per_second)]
        {
            if rate.is_some_and(|rate| !RATES.contains(&rate)) {
                bail!(
                    "{place}.{name}: must be {} to {}; service.access keeps somebody out",
                    RATES.start(),
                    RATES.end()
                );
            }
        }
        if self.bytes_in_flight == Some(0) {
            bail!("{place}.bytes_in_flight: must be at least 1");
        }
        Ok(Rules {
            weight,
            ops_per_second: self.ops_per_second,
            public_key_ops_per_second: self.public_key_ops_per_second,
            bytes_in_flight: self.bytes_in_flight,
        })
    }
}

impl LimitsSection {
    fn limits(&self) -> Result<Limits> {
        let default = Limits::default();
        let limits = Limits {
            clients: self.clients.unwrap_or(default.clients),
            clients_of_user: self.clients_of_user.unwrap_or(default.clients_of_user),
            channels: self.channels.unwrap_or(default.channels),
            channel_bytes: self.channel_bytes.unwrap_or(default.channel_bytes),
            client_bytes: self.client_bytes.unwrap_or(default.client_bytes),
            keys: self.keys.unwrap_or(default.keys),
            audit_bytes: self.audit_bytes.unwrap_or(default.audit_bytes),
        };
        if !(DATA_LEN_MIN..=DATA_LEN_MAX).contains(&limits.channel_bytes) {
            bail!("service.limits.channel_bytes: must be {DATA_LEN_MIN} to {DATA_LEN_MAX}");
        }
        if limits.client_bytes < limits.channel_bytes {
            bail!("service.limits.client_bytes: must be at least channel_bytes, which is {}", limits.channel_bytes);
        }
        if [limits.clients, limits.clients_of_user, limits.channels].contains(&0) {
            bail!("service.limits: clients, clients_of_user and channels must be at least 1");
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Result<Options> {
        toml::from_str::<ServiceSection>(text)?.options(Path::new("/base"))
    }

    #[test]
    fn what_is_said_is_in_force_and_the_rest_as_the_service_has_it() {
        let options =
            section("workers = 3\nspin_us = 7\naccess.users = [12, \"root\"]\nlimits.keys = 5").expect("valid");
        let default = Options::default();
        assert_eq!((options.workers, options.spin, options.limits.keys), (3, Duration::from_micros(7), 5));
        assert!(options.access.users == [12, 0] && !options.access.all);
        assert_eq!((options.window_max, options.limits.clients), (default.window_max, default.limits.clients));
    }

    #[test]
    fn rules_are_read_by_names_and_numbers() {
        let text = "[users.root]\nweight = 4\nops_per_second = 100000\nbytes_in_flight = 5\n\
                    [users.12]\n[groups.0]\npublic_key_ops_per_second = 2.5";
        let rules = section(text).expect("valid").rules;
        let root = Rules { weight: 4.0, ops_per_second: Some(1e5), bytes_in_flight: Some(5), ..Rules::default() };
        assert_eq!((rules.users[&0], rules.users[&12]), (root, Rules::default()));
        assert_eq!(rules.groups[&0].public_key_ops_per_second, Some(2.5));
    }

    #[test]
    fn places_are_read_beside_people() {
        let text = "access.units = [\"nginx.service\", \"user-12.slice\"]\naccess.executables = [\"/usr/sbin/nginx\"]";
        let access = section(text).expect("valid").access;
        assert_eq!(access.units, ["nginx.service", "user-12.slice"]);
        assert_eq!(access.executables, [PathBuf::from("/usr/sbin/nginx")]);
        assert!(access.users.is_empty() && access.groups.is_empty() && !access.all);
    }

    #[test]
    fn a_keystore_is_opened_by_one_secret_and_only_if_something_is_said_of_it() {
        let vault = |text: &str| {
            let section: ServiceSection = toml::from_str(text).expect("valid");
            section.vault(|| Ok(PathBuf::from("/nowhere/keystore")), Path::new("/nowhere"))
        };
        assert!(vault("").expect("nothing is said").is_none());
        for (text, said) in [
            ("keys.payments.users = [12]", "service.keys"),
            ("passphrase_file = \"a\"\nmaster_key_file = \"b\"", "there must be one"),
            ("passphrase_file = \"a\"", "/nowhere/a"),
        ] {
            let Err(error) = vault(text) else { panic!("{text} is not refused") };
            assert!(format!("{error:#}").contains(said), "{text}: {error:#}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_name() {
        for (text, said) in [
            ("workers = 0", "service.workers"),
            ("pools = [\"0-3\", \"x\"]", "service.pools"),
            ("pools = [\"\"]", "service.pools"),
            ("access.users = [\"nobody at all\"]", "service.access.users"),
            ("access.groups = [\"nobody at all\"]", "service.access.groups"),
            ("access.units = [\"nginx\"]", "service.access.units"),
            ("access.units = [\"system.slice/nginx.service\"]", "service.access.units"),
            ("access.units = [\"getty@.service\"]", "service.access.units"),
            ("access.units = [\".service\"]", "service.access.units"),
            ("access.executables = [\"nginx\"]", "service.access.executables"),
            ("users.1.weight = 0", "service.users.1.weight"),
            ("users.1.weight = nan", "service.users.1.weight"),
            ("users.1.ops_per_second = 0", "service.users.1.ops_per_second"),
            ("users.1.public_key_ops_per_second = -1.5", "service.users.1.public_key_ops_per_second"),
            ("users.1.bytes_in_flight = 0", "service.users.1.bytes_in_flight"),
            ("users.1.rate = 1", "rate"),
            ("users.\"nobody at all\".weight = 1", "service.users.nobody at all: there is no user"),
            ("groups.\"nobody at all\".weight = 1", "service.groups.nobody at all: there is no group"),
            ("users.0.weight = 1\nusers.root.weight = 2", "the same user"),
            ("limits.channel_bytes = 1", "service.limits.channel_bytes"),
            ("limits.client_bytes = 100000", "service.limits.client_bytes"),
            ("limits.clients = 0", "service.limits"),
            ("worker = 1", "worker"),
        ] {
            let error = format!("{:#}", section(text).expect_err(text));
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_socket_is_for_the_owner_unless_others_are_named() {
        let mode = |text: &str| toml::from_str::<ServiceSection>(text).expect("valid").mode();
        assert_eq!(mode(""), 0o600);
        for text in [
            "access.all = true",
            "access.users = [12]",
            "access.groups = [12]",
            "access.units = [\"nginx.service\"]",
            "access.executables = [\"/usr/sbin/nginx\"]",
        ] {
            assert_eq!(mode(text), 0o666, "{text}");
        }
    }
}
