//! A record: methods run one after the other under one watch.

use std::thread;

use chrono::{SecondsFormat, Utc};
use ciphermill_report::{Machine, RECORD_FORMAT, Record, Section};
use ciphermill_tuning::Host;

use super::Watch;
use crate::LabError;
use crate::method::{Method, Options, Progress};

/// Why a quick record is not to be quoted.
const QUICK: &str = "this was a quick run, with few sizes and short timings; try it without --quick";

/// The stack of a measuring thread: as large as a main thread's.
const STACK_LEN: usize = 8 << 20;

/// What a method does, once.
pub type Measuring<'w> = Box<dyn FnOnce(Progress<'_>) -> Result<Section, LabError> + Send + 'w>;

/// A method that is ready to run.
pub struct Work<'w> {
    /// Its name.
    pub name: &'static str,
    /// What it does, once.
    pub run: Measuring<'w>,
}

/// Hears how measuring goes.
pub trait Listener: Send {
    /// What a method measures now. An error ends the measuring: the user asked for an end.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    fn measuring(&mut self, method: &str, what: &str) -> Result<(), LabError>;

    /// A method has ended, well or not.
    fn ended(&mut self, section: &Section);
}

/// A record, and what went wrong on the way to it.
#[derive(Debug)]
pub struct Recorded {
    /// The record. What failed has a section that says so.
    pub record: Record,
    /// What failed, by the method's name.
    pub failed: Vec<(&'static str, LabError)>,
    /// The user asked for an end: some methods have not been run, and the record says which.
    pub interrupted: bool,
}

impl<'w> Work<'w> {
    /// A method of the registry with these options.
    pub fn of(method: &'static Method, options: &'w Options) -> Work<'w> {
        Work { name: method.name, run: Box::new(move |progress| (method.run)(options, progress)) }
    }
}

/// Runs methods and watches the machine meanwhile. A method that fails does not take the others' results with it.
///
/// `command` is the command line that makes the record again. Each method runs on a thread of its own, so that pinning ends
/// with it.
pub fn record(works: Vec<Work<'_>>, options: &Options, command: String, listener: &mut dyn Listener) -> Recorded {
    let made = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut watch = Watch::start(options.core);
    let (mut sections, mut failed, mut interrupted) = (Vec::new(), Vec::new(), false);
    for Work { name, run } in works {
        let section = if interrupted {
            unmeasured(name, "interrupted before it began")
        } else {
            match attended(run, name, &mut watch, listener) {
                Ok(section) => answered(section, options),
                Err(LabError::Interrupted) => {
                    interrupted = true;
                    unmeasured(name, "interrupted")
                }
                Err(error) => {
                    let section = unmeasured(name, &error.to_string());
                    failed.push((name, error));
                    section
                }
            }
        };
        listener.ended(&section);
        sections.push(section);
    }
    let mut environment = watch.finish();
    environment.warnings.extend(options.quick.then(|| QUICK.to_owned()));
    let record = Record { format: RECORD_FORMAT, made, command, machine: machine(), environment, sections };
    Recorded { record, failed, interrupted }
}

/// This machine, as a record names it.
pub fn machine() -> Machine {
    let Host { cpu, cores, features, optimised } = Host::here();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let os = format!("{} {}", std::env::consts::OS, release.trim());
    Machine { cpu, cores, features, os, ciphermill: env!("CARGO_PKG_VERSION").to_owned(), optimised }
}

/// Runs one method on a thread of its own. A panic there is an error here.
fn attended(
    run: Measuring<'_>,
    name: &str,
    watch: &mut Watch,
    listener: &mut dyn Listener,
) -> Result<Section, LabError> {
    let measure = || {
        watch.attend(|watch| {
            run(&mut |what| {
                listener.measuring(name, what)?;
                watch.look_now_and_then();
                Ok(())
            })
        })
    };
    let ended = thread::scope(|scope| {
        let builder = thread::Builder::new().name(format!("lab {name}")).stack_size(STACK_LEN);
        let spawned = builder.spawn_scoped(scope, measure);
        spawned.map(thread::ScopedJoinHandle::join)
    });
    match ended {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(LabError::Defect { method: name.to_owned() }),
        Err(error) => Err(LabError::Parameters(format!("no thread to measure on: {error}"))),
    }
}

/// The section, with every engine and suite that was asked for and is nowhere in it said to be missing: a method that has no
/// use for one must not look as if it had measured it.
fn answered(mut section: Section, options: &Options) -> Section {
    let suites = options.suites.iter().map(ToString::to_string);
    let asked = options.engines.iter().map(|engine| engine.split(':').next().unwrap_or(engine).to_owned());
    for name in asked.chain(suites) {
        if !mentions(&section, &name) {
            section.lacks(name, "the method does not measure it");
        }
    }
    section
}

/// Whether any figure, line, cell or note of what is missing names it.
fn mentions(section: &Section, name: &str) -> bool {
    let measured = section.measurements.iter().map(|measurement| &measurement.name);
    let cells = section.tables.iter().flat_map(|table| table.rows.iter().flatten().map(|cell| &cell.text));
    let heads = section.tables.iter().flat_map(|table| table.columns.iter().map(|column| &column.name));
    let lines = section.plots.iter().flat_map(|plot| plot.series.iter().map(|series| &series.name));
    let titles = section.tables.iter().map(|table| &table.title).chain(section.plots.iter().map(|plot| &plot.title));
    let maps = section.maps.iter().flat_map(|map| {
        let rows = map.rows.iter().map(|row| &row.name);
        let details = map.rows.iter().flat_map(|row| row.cells.iter().flatten()).map(|cell| &cell.detail);
        let heads = map.groups.iter().flat_map(|group| [&group.name].into_iter().chain(&group.columns));
        [&map.title].into_iter().chain(rows).chain(details).chain(heads)
    });
    let missing = section.missing.iter().map(|missing| &missing.what);
    // `openssl` is not named by `openssl-context`, nor `aes-128-cbc` by `aes-128-cbc+hmac-sha1`.
    let inside = |c: char| c.is_ascii_alphanumeric() || "-+_".contains(c);
    let named = |text: &String| text.split(|c| !inside(c)).any(|word| word == name);
    measured.chain(cells).chain(heads).chain(lines).chain(titles).chain(maps).chain(missing).any(named)
}

/// The section of a method that measured nothing.
fn unmeasured(name: &str, why: &str) -> Section {
    let mut section = Section::new(name, name, "");
    section.lacks(format!("`{name}`"), why);
    section.conclusions.push(format!("Nothing was measured: {why}."));
    section
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engines::ABSENT;
    use crate::method::METHODS;
    use crate::timing::Budget;
    use ciphermill_report::{Better, Estimate, Map, MapCell, MapGroup};

    /// Writes everything down, and asks for an end when it hears `stop_at`.
    #[derive(Default)]
    struct Notes {
        heard: Vec<String>,
        stop_at: Option<&'static str>,
    }

    impl Listener for Notes {
        fn measuring(&mut self, method: &str, what: &str) -> Result<(), LabError> {
            self.heard.push(format!("{method}: {what}"));
            if self.stop_at == Some(what) { Err(LabError::Interrupted) } else { Ok(()) }
        }

        fn ended(&mut self, section: &Section) {
            self.heard.push(format!("{} ended", section.method));
        }
    }

    fn good(progress: Progress<'_>) -> Result<Section, LabError> {
        progress("the good")?;
        let mut section = Section::new("good", "Good", "nobody");
        section.measured("a", 1.0, "ns/op", 0.0, Better::Less);
        Ok(section)
    }

    fn work(name: &'static str, run: fn(Progress<'_>) -> Result<Section, LabError>) -> Work<'static> {
        Work { name, run: Box::new(run) }
    }

    fn works() -> Vec<Work<'static>> {
        vec![
            work("bad", |_| Err(LabError::Parameters("no luck".to_owned()))),
            work("worse", |_| panic!("a defect, on purpose")),
            work("good", good),
        ]
    }

    #[test]
    fn failures_do_not_take_the_others_with_them() {
        let mut notes = Notes::default();
        let recorded = record(works(), &Options::default(), "ciphermill lab all".to_owned(), &mut notes);
        assert!(!recorded.interrupted);
        let failed: Vec<_> = recorded.failed.iter().map(|(name, error)| format!("{name}: {error}")).collect();
        assert_eq!(failed.len(), 2);
        assert_eq!(failed[0], "bad: no luck");
        assert!(failed[1].contains("defect"), "{}", failed[1]);
        let [bad, worse, good] = &recorded.record.sections[..] else { panic!("{recorded:?}") };
        assert_eq!(bad.missing[0].why, "no luck");
        assert!(worse.missing[0].why.contains("worse") && worse.measurements.is_empty());
        assert_eq!(good.measurements.len(), 1);
        assert_eq!(notes.heard, ["bad ended", "worse ended", "good: the good", "good ended"]);
        assert_eq!((recorded.record.format, recorded.record.command.as_str()), (RECORD_FORMAT, "ciphermill lab all"));
        assert!(recorded.record.made.ends_with('Z') && recorded.record.made.len() == 20, "{}", recorded.record.made);
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured_and_says_what_was_not() {
        let stopped = |progress: Progress<'_>| progress("the end").map(|()| Section::default());
        let works = vec![work("good", good), work("long", stopped), work("late", good)];
        let mut notes = Notes { stop_at: Some("the end"), ..Notes::default() };
        let recorded = record(works, &Options::default(), String::new(), &mut notes);
        assert!(recorded.interrupted && recorded.failed.is_empty());
        let [good, long, late] = &recorded.record.sections[..] else { panic!("{recorded:?}") };
        assert!(good.missing.is_empty() && good.measurements.len() == 1);
        assert_eq!(long.missing[0].why, "interrupted");
        assert_eq!(late.missing[0].why, "interrupted before it began");
    }

    #[test]
    fn what_was_asked_for_and_not_measured_is_said() {
        let mut section = Section::new("good", "Good", "nobody");
        section.measured("aes-128-cbc/encrypt/openssl-context", 1.0, "ns/op", 0.0, Better::Less);
        section.lacks("ipsec-mb", "not installed");
        let names = ["openssl-context", "openssl", "ipsec-mb", "lanes:des=avx2"].map(str::to_owned);
        let suites = ["aes-128-cbc", "3des-cbc"].map(|name| name.parse().expect("a suite"));
        let options = Options { engines: names.to_vec(), suites: suites.to_vec(), ..Options::default() };
        let answered = answered(section, &options);
        let missing: Vec<_> = answered.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(missing, ["ipsec-mb", "openssl", "lanes", "3des-cbc"]);
    }

    #[test]
    fn what_a_map_names_is_not_missing() {
        let mut section = Section::new("grid", "Grid", "nobody");
        let groups = vec![MapGroup::new("8 operations a batch", vec!["16 B".to_owned()])];
        let mut map = Map::new("Ratios", "suite", groups);
        let ratio = Estimate { value: 1.1, interval: [1.1, 1.1] };
        map.row("aes-128-cbc encrypt", [Some(MapCell::new(ratio, "lanes 12.3 ns, ipsec-mb 14.1 ns"))]);
        section.maps.push(map);
        let named = ["aes-128-cbc", "lanes", "ipsec-mb"].into_iter().all(|name| mentions(&section, name));
        assert!(named && !mentions(&section, "openssl") && !mentions(&section, "aes"));
    }

    /// A peer that a machine lacks is a line of the record, whether the method measures engines by name or not.
    #[test]
    fn a_missing_engine_is_said() {
        let options = Options {
            quick: true,
            engines: vec!["library".to_owned(), ABSENT.to_owned()],
            suites: vec!["aes-128-cbc".parse().expect("a suite")],
            budget: Budget { time: Duration::ZERO, rounds_min: 1, rounds_max: 1 },
            ..Options::default()
        };
        let measures = |method: &&Method| ["short", "principles"].contains(&method.name);
        for method in METHODS.iter().filter(measures) {
            let recorded = record(vec![Work::of(method, &options)], &options, String::new(), &mut Notes::default());
            assert!(recorded.failed.is_empty(), "{}: {:?}", method.name, recorded.failed);
            let missing = &recorded.record.sections[0].missing;
            assert!(missing.iter().any(|missing| missing.what.contains(ABSENT)), "{}: {missing:?}", method.name);
        }
    }

    #[test]
    fn a_quick_record_says_so() {
        let quick = Options { quick: true, ..Options::default() };
        let warned = |options| {
            let recorded = record(vec![work("good", good)], options, String::new(), &mut Notes::default());
            recorded.record.environment.warnings.iter().any(|warning| warning.contains("quick run"))
        };
        assert!(warned(&quick) && !warned(&Options::default()));
    }

    #[test]
    fn pinning_ends_with_the_method() {
        let cores = || core_affinity::get_core_ids().map_or(0, |ids| ids.len());
        let before = cores();
        let Some(core) = core_affinity::get_core_ids().and_then(|ids| ids.first().copied()) else { return };
        let pinned = Work {
            name: "pinned",
            run: Box::new(move |_| {
                crate::short::pin(Some(core.id))?;
                assert_eq!(cores(), 1);
                Ok(Section::default())
            }),
        };
        let recorded = record(vec![pinned], &Options::default(), String::new(), &mut Notes::default());
        assert!(recorded.failed.is_empty(), "{:?}", recorded.failed);
        assert_eq!(cores(), before);
    }
}
