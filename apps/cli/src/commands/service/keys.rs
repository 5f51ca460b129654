//! `ciphermill service keys`: keys of the service's keystore, and who may use them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use ciphermill_channel::Ask;
use serde::Deserialize;

use super::ask;
use crate::args::AskArgs;
use crate::output::{self, say};

/// A key, as the service tells of it.
#[derive(Deserialize)]
struct Row {
    name: String,
    version: u32,
    suites: Suites,
    directions: String,
    operations_max: Option<u64>,
    operations_left: Option<u64>,
    expires_unix_s: Option<u64>,
    /// For root and the service's own user.
    access: Option<Grant>,
}

/// `"any"`, or a list of names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Suites {
    Any(String),
    Listed(Vec<String>),
}

/// Who may use a key besides root and the service's own user.
#[derive(Deserialize)]
struct Grant {
    users: Vec<u32>,
    groups: Vec<u32>,
    all: bool,
    units: Vec<String>,
    executables: Vec<PathBuf>,
}

pub(super) fn run(args: &AskArgs) -> anyhow::Result<ExitCode> {
    let text = ask(&args.socket, &Ask::Keys)?;
    if args.json {
        say(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Row> = serde_json::from_str(&text).context("the service's answer is no list of keys")?;
    let is_told_who = rows.iter().any(|row| row.access.is_some());
    let mut head = vec!["key", "version", "for", "directions", "expires", "operations left"];
    head.extend(is_told_who.then_some("for whom"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut table = output::table(&head, head.len());
    for row in rows {
        let suites = match row.suites {
            Suites::Any(word) => format!("{word} suite"),
            Suites::Listed(names) => names.join(", "),
        };
        let left = row.operations_left.or(row.operations_max);
        let cells = [
            row.name,
            row.version.to_string(),
            suites,
            row.directions,
            row.expires_unix_s.map_or_else(|| "-".to_owned(), |second| expiry(second, now)),
            left.map_or_else(|| "-".to_owned(), |left| left.to_string()),
        ];
        table.add_row(cells.into_iter().chain(row.access.map(|grant| grant.text())));
    }
    say(table)?;
    Ok(ExitCode::SUCCESS)
}

/// How long a key may still be used.
fn expiry(second: u64, now: u64) -> String {
    match second.saturating_sub(now) {
        0 => "has expired".to_owned(),
        left if left >= 2 * 86_400 => format!("in {} days", left / 86_400),
        left if left >= 2 * 3600 => format!("in {} hours", left / 3600),
        left => format!("in {left} s"),
    }
}

impl Grant {
    fn text(&self) -> String {
        let user = |uid: &u32| match uzers::get_user_by_uid(*uid) {
            Some(user) => format!("user {}", user.name().display()),
            None => format!("user {uid}"),
        };
        let group = |gid: &u32| match uzers::get_group_by_gid(*gid) {
            Some(group) => format!("group {}", group.name().display()),
            None => format!("group {gid}"),
        };
        let named = self.users.iter().map(user).chain(self.groups.iter().map(group));
        let people: Vec<String> = self.all.then(|| "everybody".to_owned()).into_iter().chain(named).collect();
        let programs: Vec<String> = self.executables.iter().map(|path| path.display().to_string()).collect();
        let units = (!self.units.is_empty()).then(|| format!("in {}", self.units.join(" or ")));
        let programs = (!programs.is_empty()).then(|| format!("running {}", programs.join(" or ")));
        let places: Vec<String> = units.into_iter().chain(programs).collect();
        match (people.is_empty(), places.is_empty()) {
            (true, true) => "nobody else".to_owned(),
            (true, false) => format!("anybody {}", places.join(" and ")),
            (false, true) => people.join(", "),
            (false, false) => format!("{}: {}", people.join(", "), places.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_key_s_time_is_said() {
        let said = [1000, 1059, 1000 + 7200, 1000 + 30 * 86_400].map(|second| expiry(second, 1000));
        assert_eq!(said, ["has expired", "in 59 s", "in 2 hours", "in 30 days"]);
    }

    #[test]
    fn a_grant_names_all_that_it_lets_in() {
        let grant = |users: &[u32], groups: &[u32], all, units: &[&str]| {
            let units = units.iter().map(|unit| (*unit).to_owned()).collect();
            Grant { users: users.to_vec(), groups: groups.to_vec(), all, units, executables: Vec::new() }.text()
        };
        assert_eq!(grant(&[], &[], false, &[]), "nobody else");
        assert_eq!(grant(&[0, 4_000_000_001], &[0], true, &[]), "everybody, user root, user 4000000001, group root");
        assert_eq!(grant(&[], &[], false, &["a.service", "b.slice"]), "anybody in a.service or b.slice");
        assert_eq!(grant(&[0], &[], false, &["a.service"]), "user root: in a.service");
        let executables = vec![PathBuf::from("/bin/a")];
        let both = Grant { users: vec![], groups: vec![], all: false, units: vec!["a.scope".to_owned()], executables };
        assert_eq!(both.text(), "anybody in a.scope and running /bin/a");
    }
}
