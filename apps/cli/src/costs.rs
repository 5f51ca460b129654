//! The file of measured costs in the user's cache folder: written by `tune`, read by every command that opens a mill.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use ciphermill::{Costs, MeasuredCost, SIZE_CLASSES};
use ciphermill_contract::Cost;
use ciphermill_tuning::Host;
use serde::{Deserialize, Serialize};

use crate::config::user_folder;

/// The file's name.
const FILE_NAME: &str = "costs.json";

/// The version of its form.
const FORMAT: u32 = 2;

/// What the figures depend on besides engines: measured elsewhere they mean nothing here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fingerprint {
    pub cpu: String,
    pub cores: usize,
    pub features: Vec<String>,
    /// Whether the program was built with optimisation.
    pub optimised: bool,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub format: u32,
    pub machine: Fingerprint,
    /// When it was last written, in seconds since 1970.
    pub written_unix_s: u64,
    pub wakeup_ns: Option<f64>,
    pub costs: Vec<Entry>,
}

/// One suite and direction on one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub engine: String,
    pub version: String,
    pub kernel: String,
    pub suite: String,
    pub direction: String,
    pub batch_ns: f64,
    pub op_ns: f64,
    pub byte_ns: f64,
    /// Operations that are paid for together; one where it is left out.
    #[serde(default)]
    pub step: u16,
    pub spread: f64,
    /// How many times as long batches of each class of sizes took as the three terms say.
    pub class_factors: [f64; SIZE_CLASSES],
}

/// What has become of reading the file.
#[derive(Debug)]
pub(crate) enum Kept {
    /// There is none.
    Nothing,
    /// It is of this machine.
    Here(Costs),
    /// It is not, or not of this form; what differs.
    Elsewhere(String),
    /// It is no such file; what is wrong with it.
    Damaged(String),
    /// It may be sound, but cannot be read; why.
    Unreadable(String),
}

impl Fingerprint {
    /// That of this machine and build.
    pub(crate) fn here() -> Fingerprint {
        let Host { cpu, cores, features, optimised } = Host::here();
        Fingerprint { cpu, cores, features, optimised }
    }

    /// What differs from `here`, in words.
    fn difference(&self, here: &Fingerprint) -> Option<String> {
        if self.cpu != here.cpu {
            Some(format!("it was measured on another processor ({})", self.cpu))
        } else if self.features != here.features {
            Some("it was measured on a processor with other instructions".to_owned())
        } else if self.cores != here.cores {
            Some(format!("it was measured with {} cores, there are {}", self.cores, here.cores))
        } else if self.optimised != here.optimised {
            let build = |optimised| if optimised { "a release build" } else { "a debug build" };
            Some(format!("it was measured by {}, this is {}", build(self.optimised), build(here.optimised)))
        } else {
            None
        }
    }
}

impl Record {
    /// A record of these costs.
    pub(crate) fn of(costs: &Costs, machine: Fingerprint) -> Record {
        let written_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let costs_of = costs.iter().map(Entry::of).collect();
        Record { format: FORMAT, machine, written_unix_s, wakeup_ns: costs.measured_wakeup_ns(), costs: costs_of }
    }

    fn costs(&self) -> Result<Costs> {
        let mut costs = Costs::new();
        if let Some(wakeup_ns) = self.wakeup_ns {
            costs.set_wakeup_ns(figure("wakeup_ns", wakeup_ns)?);
        }
        for entry in &self.costs {
            costs.insert(entry.cost().with_context(|| format!("{} {}", entry.suite, entry.direction))?);
        }
        Ok(costs)
    }
}

impl Entry {
    fn of(cost: &MeasuredCost) -> Entry {
        Entry {
            engine: cost.engine.clone(),
            version: cost.version.clone(),
            kernel: cost.kernel.clone(),
            suite: cost.suite.to_string(),
            direction: cost.direction.to_string(),
            batch_ns: rounded(cost.cost.batch_ns),
            op_ns: rounded(cost.cost.op_ns),
            byte_ns: rounded(cost.cost.byte_ns),
            step: cost.step,
            spread: rounded(cost.spread),
            class_factors: cost.factors.map(rounded),
        }
    }

    fn cost(&self) -> Result<MeasuredCost> {
        let cost = Cost::new(
            figure("batch_ns", self.batch_ns)?,
            figure("op_ns", self.op_ns)?,
            figure("byte_ns", self.byte_ns)?,
        );
        if let Some(factor) = self.class_factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
            bail!("class_factors: {factor} is no factor");
        }
        Ok(MeasuredCost {
            engine: self.engine.clone(),
            version: self.version.clone(),
            kernel: self.kernel.clone(),
            suite: self.suite.parse()?,
            direction: self.direction.parse()?,
            cost,
            step: self.step.max(1),
            spread: figure("spread", self.spread)?,
            factors: self.class_factors,
        })
    }
}

/// Four digits: more than any measurement is worth, and fewer than the file would have.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn figure(name: &str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { bail!("{name}: {value} is no figure") }
}

/// Where the file is; `None` without a home folder.
pub(crate) fn path() -> Option<PathBuf> {
    user_folder("XDG_CACHE_HOME", ".cache").map(|folder| folder.join(FILE_NAME))
}

/// Reads the user's file.
pub(crate) fn load() -> Kept {
    path().map_or(Kept::Nothing, |path| read(&path, &Fingerprint::here()))
}

/// What a mill is opened with: the file's costs when they are of this machine. What is wrong with the file is said once.
pub(crate) fn in_force() -> Costs {
    let path = path().unwrap_or_default();
    match load() {
        Kept::Here(costs) => return costs,
        Kept::Nothing => tracing::debug!("no measured costs: `ciphermill tune` measures them"),
        Kept::Elsewhere(why) => tracing::debug!(path = %path.display(), why, "measured costs are not used"),
        Kept::Damaged(why) => tracing::warn!(path = %path.display(), why, "measured costs are damaged and not used"),
        Kept::Unreadable(why) => tracing::warn!(path = %path.display(), why, "measured costs cannot be read"),
    }
    Costs::new()
}

/// What a user has to know of the file in one line; `None` when there is none.
pub(crate) fn note() -> Option<String> {
    let path = path()?.display().to_string();
    match load() {
        Kept::Nothing => None,
        Kept::Here(costs) => Some(format!("{} measured costs are in force, from {path}", costs.len())),
        Kept::Elsewhere(why) => Some(format!("the measured costs in {path} are not used: {why}")),
        Kept::Damaged(why) => Some(format!("the measured costs in {path} are damaged and not used: {why}")),
        Kept::Unreadable(why) => Some(format!("the measured costs in {path} cannot be read: {why}")),
    }
}

fn read(path: &Path, here: &Fingerprint) -> Kept {
    /// The fields that every form has.
    #[derive(Deserialize)]
    struct Form {
        format: u32,
    }
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Kept::Nothing,
        Err(error) => return Kept::Unreadable(error.to_string()),
    };
    match serde_json::from_str::<Form>(&text) {
        Err(error) => return Kept::Damaged(error.to_string()),
        Ok(form) if form.format != FORMAT => {
            return Kept::Elsewhere(format!("its form is number {}, this program's is {FORMAT}", form.format));
        }
        Ok(_) => {}
    }
    let record: Record = match serde_json::from_str(&text) {
        Ok(record) => record,
        Err(error) => return Kept::Damaged(error.to_string()),
    };
    if let Some(difference) = record.machine.difference(here) {
        return Kept::Elsewhere(difference);
    }
    match record.costs() {
        Ok(costs) => Kept::Here(costs),
        Err(error) => Kept::Damaged(format!("{error:#}")),
    }
}

/// The file's path, with its folder made, before minutes are spent on what goes in there.
pub(crate) fn place() -> Result<PathBuf> {
    let path = path().context("there is no home folder to keep measured costs in; XDG_CACHE_HOME can name one")?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {} {RULE}", folder.display()))?;
    Ok(path)
}

/// Why a file is written there.
const RULE: &str = "(measured costs are kept in the user's cache folder; XDG_CACHE_HOME can name another)";

/// Writes a record beside `path`, for its owner only, and renames it, so that nobody ever reads half a file.
pub(crate) fn store(path: &Path, record: &Record) -> Result<()> {
    let beside = path.with_extension(format!("json.{}", std::process::id()));
    let write = || -> Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(serde_json::to_string(record)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        Ok(())
    };
    let written = write();
    if written.is_err() {
        // It may never have been made; what is said is why it could not be written.
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("cannot write {} {RULE}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use ciphermill_contract::Direction;

    use super::*;

    fn here() -> Fingerprint {
        Fingerprint { cpu: "Abacus 9000".to_owned(), cores: 2, features: vec!["beads".to_owned()], optimised: true }
    }

    fn costs() -> Costs {
        let mut costs = Costs::new();
        costs.set_wakeup_ns(51_230.0);
        for (kernel, suite) in [("vaes512", "aes-128-gcm"), ("vaes256", "aes-128-gcm"), ("vaes512", "ff1-aes-256")] {
            costs.insert(MeasuredCost {
                engine: "lanes".to_owned(),
                version: "0.1.0".to_owned(),
                kernel: kernel.to_owned(),
                suite: suite.parse().expect("a suite"),
                direction: Direction::Decrypt,
                cost: Cost::new(210.0, 11.25, 0.125),
                step: 8,
                spread: 0.04,
                factors: [1.5; SIZE_CLASSES],
            });
        }
        costs
    }

    fn written(change: impl FnOnce(String) -> String) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE_NAME);
        store(&path, &Record::of(&costs(), here())).expect("writes");
        let text = fs::read_to_string(&path).expect("reads");
        fs::write(&path, change(text)).expect("writes");
        (folder, path)
    }

    #[test]
    fn what_is_stored_comes_back() {
        let (folder, path) = written(|text| text);
        let Kept::Here(back) = read(&path, &here()) else { panic!("it was written here") };
        assert_eq!(back.iter().collect::<Vec<_>>(), costs().iter().collect::<Vec<_>>());
        assert_eq!(back.measured_wakeup_ns(), Some(51_230.0));
        assert_eq!(fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left beside it");
        assert!(matches!(read(&folder.path().join("nothing"), &here()), Kept::Nothing));
    }

    #[test]
    fn another_machine_or_form_is_told_and_not_used() {
        let (_folder, path) = written(|text| text);
        let others = [
            Fingerprint { cpu: "Slide Rule".to_owned(), ..here() },
            Fingerprint { cores: 64, ..here() },
            Fingerprint { features: Vec::new(), ..here() },
            Fingerprint { optimised: false, ..here() },
        ];
        let reasons = others.map(|other| match read(&path, &other) {
            Kept::Elsewhere(why) => why,
            kept => panic!("{kept:?}"),
        });
        for (reason, word) in
            reasons.iter().zip(["Abacus 9000", "2 cores, there are 64", "instructions", "debug build"])
        {
            assert!(reason.contains(word), "{reason}");
        }
        let (_folder, path) = written(|text| text.replacen("\"format\":2", "\"format\":3,\"more\":{}", 1));
        assert!(matches!(read(&path, &here()), Kept::Elsewhere(why) if why.contains("number 3")));
    }

    #[test]
    fn a_damaged_file_is_told_and_not_used() {
        type Change = fn(String) -> String;
        let changes: [(Change, &str); 6] = [
            (|text| text[..text.len() / 2].to_owned(), "EOF"),
            (|_| String::new(), "EOF"),
            (|text| text.replacen("aes-128-gcm", "aes-128-gcn", 1), "aes-128-gcn"),
            (|text| text.replacen("210.0", "-210.0", 1), "batch_ns: -210"),
            (|text| text.replacen("1.5,", "0.0,", 1), "class_factors: 0"),
            (|text| text.replacen("\"spread\"", "\"spred\"", 1), "spred"),
        ];
        for (change, word) in changes {
            let (_folder, path) = written(change);
            match read(&path, &here()) {
                Kept::Damaged(why) => assert!(why.contains(word), "{why}"),
                kept => panic!("{word}: {kept:?}"),
            }
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let error = store(Path::new("/proc/nowhere/costs.json"), &Record::of(&costs(), here())).expect_err("no");
        let said = format!("{error:#}");
        assert!(said.contains("/proc/nowhere/costs.json") && said.contains("XDG_CACHE_HOME"), "{said}");
    }
}
