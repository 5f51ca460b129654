//! Folders of tables from outside; rekeying that is killed again and again.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Place, json};

const KEY: [&str; 2] = ["--master-key-file", "mk"];

/// Times that a run is killed.
const KILLS: usize = 200;

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(KEY).collect()
}

/// A key, and a folder `clear` of so many tables, protected as `safe`.
fn protected(count: usize) -> Place {
    let place = Place::new();
    place.write("mk", [0x42; 32]);
    let narrowed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(place.path("mk"), narrowed).expect("narrowed");
    place.ok(with(&["keys", "generate", "default"]));
    for number in 0..count {
        let folder = place.path("clear").join(format!("day={}", number % 3));
        std::fs::create_dir_all(&folder).expect("made");
        let rows: String = (0..30 + 10 * number).map(|row| format!("{row},name {number} {row}\n")).collect();
        std::fs::write(folder.join(format!("{number}.csv")), format!("id,name\n{rows}")).expect("written");
    }
    place.ok(with(&["protect", "clear", "safe", "--column", "name=deterministic", "--quiet"]));
    place
}

/// All files of a folder, if it is there: their content and which file it is.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, u64)> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    folders.retain(|folder| folder.exists());
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
                let inode = path.metadata().expect("it is there").ino();
                found.insert(name, (std::fs::read(path).expect("a file"), inode));
            }
        }
    }
    found
}

/// The content of a folder's tables.
fn tables(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let tables = files(folder).into_iter().filter(|(name, _)| name.ends_with(".csv"));
    tables.map(|(name, (content, _))| (name, content)).collect()
}

fn copy(from: &Path, to: &Path) {
    for (name, (content, _)) in files(from) {
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, content).expect("written");
    }
}

/// The tables of which a journal says that they are done.
fn done(folder: &Path) -> Vec<String> {
    let journal = std::fs::read_to_string(folder.join("_ciphermill.journal")).unwrap_or_default();
    let lines = journal.lines().filter_map(|line| line.split_once(' '));
    let parsed = lines.filter_map(|(_, line)| serde_json::from_str::<serde_json::Value>(line).ok());
    parsed.filter_map(|line| Some(line["done"]["path"].as_str()?.to_owned())).collect()
}

#[test]
fn a_folder_goes_through_all_commands() {
    let place = protected(7);
    let found = json(&place.ok(with(&["inspect", "safe", "--verify", "--json"])));
    assert_eq!(found["tables"].as_object().expect("tables").len(), 7);
    assert_eq!((found["signature"]["result"].as_str(), found["unfinished"].as_bool()), (Some("verified"), Some(false)));
    place.ok(with(&["keys", "rotate", "default"]));
    let summary = json(&place.ok(with(&["rekey", "safe", "--in-place", "--verify", "--json"])));
    assert_eq!((summary["tables"].as_u64(), summary["key_version"].as_u64()), (Some(7), Some(2)));
    let again = place.ok(with(&["rekey", "safe", "--in-place"]));
    assert_eq!(again, "rekey: nothing to do, 7 tables done before\n");
    let summary = place.ok(with(&["unprotect", "safe/day=1/*.csv", "part"]));
    assert!(summary.contains("unprotect: 2 tables, 110 rows"), "{summary}");
    place.ok(with(&["unprotect", "safe", "back", "--quiet"]));
    assert_eq!(tables(&place.path("back")), tables(&place.path("clear")));

    place.fails(1, &["back: is not empty"], with(&["unprotect", "safe", "back"]));
    place.fails(1, &["only folders are rekeyed in place"], with(&["rekey", "safe/day=1/1.csv", "--in-place"]));
    place.fails(2, &["--in-place", "OUTPUT"], with(&["rekey", "safe", "other", "--in-place"]));
    place.fails(2, &["OUTPUT"], with(&["rekey", "safe"]));
    std::fs::write(place.path("safe/day=0/3.csv"), "id,name\n").expect("written");
    place.fails(1, &["day=0/3.csv"], with(&["unprotect", "safe", "never"]));
    let ran = place.run(with(&["inspect", "safe"]));
    assert!(ran.code == Some(1) && ran.out.contains("day=0/3.csv: hash: "), "{}", ran.out);
}

/// Runs a command over and over and kills it at random moments, until it comes to its end. Says how often it was killed when it
/// had done a part.
fn until_done(place: &Place, args: &[&str], folder: &str, moments: &mut Moments) -> usize {
    let folder = place.path(folder);
    let mut gone_on = 0;
    loop {
        let before = files(&folder);
        let done_before = done(&folder);
        gone_on += usize::from(!done_before.is_empty());
        let mut child = place.command(with(args)).spawn().expect("starts");
        let ended = match moments.next() {
            Some(moment) => {
                std::thread::sleep(moment);
                child.try_wait().expect("it is ours")
            }
            None => Some(child.wait().expect("it ends")),
        };
        if ended.is_none() {
            child.kill().expect("it runs");
            child.wait().expect("it is ours");
            moments.kills += 1;
        }
        let after = files(&folder);
        for name in done_before {
            assert!(after[&name].1 == before[&name].1, "{name} was done twice");
        }
        if let Some(status) = ended {
            assert!(status.success(), "{status}");
            return gone_on;
        }
        // Killed when all was done.
        if args.contains(&"other")
            && after.contains_key("_ciphermill.json")
            && !after.contains_key("_ciphermill.journal")
        {
            return gone_on;
        }
    }
}

/// Moments within the time that a run takes, spread as a linear congruential generator has it.
struct Moments {
    time: Duration,
    state: u64,
    kills: usize,
}

impl Moments {
    fn next(&mut self) -> Option<Duration> {
        if self.kills >= KILLS {
            return None;
        }
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(self.time.mul_f64((self.state >> 40) as f64 / f64::from(1 << 24)))
    }
}

#[test]
fn rekeying_that_is_killed_200_times_ends_with_the_same_tables() {
    let place = protected(24);
    place.ok(with(&["keys", "rotate", "default"]));
    let begun = Instant::now();
    place.ok(with(&["rekey", "safe", "whole", "--quiet"]));
    let time = begun.elapsed().mul_f64(1.1);
    let wanted = tables(&place.path("whole"));
    assert_ne!(wanted, tables(&place.path("safe")));
    let mut moments = Moments { time, state: 0x5eed, kills: 0 };
    let (mut rounds, mut gone_on) = (0, 0);
    while moments.kills < KILLS {
        copy(&place.path("safe"), &place.path("live"));
        gone_on += until_done(&place, &["rekey", "live", "--in-place", "--quiet"], "live", &mut moments);
        gone_on += until_done(&place, &["rekey", "safe", "other", "--quiet"], "other", &mut moments);
        rounds += 1;
        for folder in ["live", "other"] {
            assert_eq!(tables(&place.path(folder)), wanted, "{folder}");
            let others = files(&place.path(folder)).into_keys().filter(|name| !name.ends_with(".csv"));
            assert_eq!(others.collect::<Vec<_>>(), ["_ciphermill.json"], "{folder}");
            place.ok(with(&["unprotect", folder, "back", "--quiet"]));
            assert_eq!(tables(&place.path("back")), tables(&place.path("clear")));
            for made in [folder, "back"] {
                std::fs::remove_dir_all(place.path(made)).expect("removed");
            }
        }
    }
    eprintln!("{KILLS} kills, {rounds} rounds, {gone_on} runs went on where one had stopped");
    assert!(gone_on >= KILLS / 20, "only {gone_on} runs were killed between two tables");
}
