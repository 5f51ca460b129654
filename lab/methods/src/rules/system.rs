//! What the system tells of itself: processor time, who lost a core, who else ran. Linux's files below `/proc` and `/sys`;
//! elsewhere nothing is told, and [`None`] says so.

use std::fs::read_to_string;

/// Processor time in the system's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Spent on programs and the kernel.
    pub(super) busy: u64,
    /// Spent on nothing.
    pub(super) idle: u64,
    /// Wanted, and given to others by a hypervisor.
    pub(super) steal: u64,
}

/// What was counted up to a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    /// All cores together.
    pub(super) all: Option<Ticks>,
    /// Each core by itself: its number and its ticks.
    pub(super) cores: Vec<(usize, Ticks)>,
    /// This process, with the children that it has waited for.
    pub(super) process: Option<u64>,
}

/// What was counted of one thread up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadMoment {
    /// Ticks of its process.
    pub(super) process: Option<u64>,
    /// Its own ticks.
    pub(super) thread: Option<u64>,
    /// How often it lost its core against its will.
    pub(super) preemptions: Option<u64>,
}

impl Moment {
    /// Now.
    pub(super) fn now() -> Moment {
        let stat = read_to_string("/proc/stat").unwrap_or_default();
        Moment { all: all(&stat), cores: cores(&stat), process: process_ticks() }
    }

    /// The ticks of one core.
    pub(super) fn core(&self, core: usize) -> Option<Ticks> {
        self.cores.iter().find(|(number, _)| *number == core).map(|(_, ticks)| *ticks)
    }
}

impl ThreadMoment {
    /// Now, of the calling thread.
    pub(super) fn now() -> ThreadMoment {
        let status = read_to_string("/proc/thread-self/status").unwrap_or_default();
        let stat = read_to_string("/proc/thread-self/stat").unwrap_or_default();
        ThreadMoment {
            process: process_ticks(),
            // Children are the process's, whichever of its threads has waited for them.
            thread: spent(&stat, 2),
            preemptions: preemptions(&status),
        }
    }
}

impl Ticks {
    /// What has been added since `earlier`.
    pub(super) fn since(self, earlier: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// All of them: the time that has passed.
    pub(super) fn total(self) -> u64 {
        self.busy + self.idle + self.steal
    }

    /// The share that was given to others of what was wanted.
    pub(super) fn steal_share(self) -> f64 {
        let wanted = self.busy + self.steal;
        if wanted == 0 { 0.0 } else { self.steal as f64 / wanted as f64 }
    }
}

fn process_ticks() -> Option<u64> {
    spent(&read_to_string("/proc/self/stat").ok()?, 4)
}

/// `user nice system idle iowait irq softirq steal`; what guests use is within `user`.
fn ticks(fields: &str) -> Option<Ticks> {
    let fields: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else { return None };
    Some(Ticks { busy: user + nice + system + irq + softirq, idle: idle + iowait, steal })
}

fn all(stat: &str) -> Option<Ticks> {
    stat.lines().find_map(|line| line.strip_prefix("cpu ")).and_then(ticks)
}

fn cores(stat: &str) -> Vec<(usize, Ticks)> {
    let core = |line: &str| {
        let (number, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
        Some((number.parse().ok()?, ticks(fields)?))
    };
    stat.lines().filter_map(core).collect()
}

/// The sum of the first `of` times in a `stat` file of a process or thread: its own in user mode and in the kernel, then its
/// waited-for children's.
fn spent(stat: &str, of: usize) -> Option<u64> {
    // The name before may hold spaces and brackets; after it the state is field 3, user time field 14.
    let (_, fields) = stat.rsplit_once(')')?;
    let times: Vec<u64> = fields.split_whitespace().skip(11).take(of).map_while(|time| time.parse().ok()).collect();
    (times.len() == of).then(|| times.iter().sum())
}

fn preemptions(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")).and_then(|n| n.trim().parse().ok())
}

/// Cores that share `core`'s execution units.
pub(super) fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let listed = read_to_string(path).unwrap_or_default();
    list(&listed).into_iter().filter(|sibling| *sibling != core).collect()
}

/// The numbers of a list like `0,4-6`.
fn list(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

/// The rule by which the system sets a core's clock: `performance`, `powersave`. Most virtual machines do not tell.
pub(super) fn governor(core: usize) -> Option<String> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
    Some(read_to_string(path).ok()?.trim().to_owned())
}

/// Threads that ran or wanted to run, the average over the last minute.
pub(super) fn load_average() -> Option<f64> {
    read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  40 2 20 900 10 1 2 25 7 0\ncpu0 10 1 5 400 5 0 1 20 0 0\ncpu1 30 1 15 500 5 1 1 5 7 0\nintr 5\n";

    #[test]
    fn processor_time_is_read_in_all_and_by_core() {
        let ticks = all(STAT).expect("all cores");
        assert_eq!(ticks, Ticks { busy: 65, idle: 910, steal: 25 });
        assert_eq!(ticks.total(), 1000);
        let moment = Moment { all: Some(ticks), cores: cores(STAT), process: None };
        assert_eq!(moment.cores.len(), 2);
        assert_eq!(moment.core(1), Some(Ticks { busy: 48, idle: 505, steal: 5 }));
        assert_eq!(moment.core(2), None);
        assert_eq!(all("cpu 1 2 3\n"), None);
        assert_eq!(all(""), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_what_was_wanted() {
        let before = Ticks { busy: 100, idle: 50, steal: 10 };
        let after = Ticks { busy: 190, idle: 950, steal: 20 };
        let passed = after.since(before);
        assert_eq!(passed, Ticks { busy: 90, idle: 900, steal: 10 });
        assert_eq!(passed.steal_share(), 0.1);
        assert_eq!(Ticks::default().steal_share(), 0.0);
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let stat = "77 (a) b (c)) R 1 1 1 0 -1 4194304 101 0 0 0 30 12 5 3 20 0 1 0 3611345";
        assert_eq!(spent(stat, 2), Some(42));
        assert_eq!(spent(stat, 4), Some(50));
        assert_eq!(spent("77 (a) R 1", 2), None);
        assert_eq!(spent("", 2), None);
        assert_eq!(preemptions("x:\t1\nnonvoluntary_ctxt_switches:\t17\n"), Some(17));
        assert_eq!(preemptions("voluntary_ctxt_switches:\t17\n"), None);
    }

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(list("0,4-6\n"), [0, 4, 5, 6]);
        assert_eq!(list("3"), [3]);
        assert!(list("").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_system_tells() {
        let moment = Moment::now();
        assert!(moment.all.is_some_and(|ticks| ticks.total() > 0));
        assert!(!moment.cores.is_empty() && moment.process.is_some());
        let thread = ThreadMoment::now();
        assert!(thread.thread <= thread.process && thread.preemptions.is_some());
        assert!(load_average().is_some());
    }
}
