//! What processors and processes have spent, as the kernel counts it (`proc(5)`).

use std::fs;
use std::io;

/// Ticks of a second in `/proc`: the kernel's USER_HZ, which x86-64 and AArch64 have in common.
const TICKS_PER_S: f64 = 100.0;

/// Seconds by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// In programs.
    pub user_s: f64,
    /// In the kernel, for programs.
    pub system_s: f64,
    /// In the kernel, for packets and timers that came.
    pub soft_s: f64,
}

impl Spent {
    /// All kinds together.
    #[must_use]
    pub fn all_s(&self) -> f64 {
        self.user_s + self.system_s + self.soft_s
    }

    pub(super) fn minus(&self, before: &Spent) -> Spent {
        let part = |now: f64, before: f64| (now - before).max(0.0);
        Spent {
            user_s: part(self.user_s, before.user_s),
            system_s: part(self.system_s, before.system_s),
            soft_s: part(self.soft_s, before.soft_s),
        }
    }

    pub(super) fn times(&self, factor: f64) -> Spent {
        Spent { user_s: self.user_s * factor, system_s: self.system_s * factor, soft_s: self.soft_s * factor }
    }
}

/// What a process has spent until now, its threads together.
///
/// # Errors
/// No such process, or a file that is not as the manual page says.
pub(super) fn of_process(id: u32) -> io::Result<Spent> {
    let path = format!("/proc/{id}/stat");
    parse_process(&fs::read_to_string(&path)?).ok_or_else(|| unreadable(&path))
}

/// What a core has spent until now, whoever ran there.
///
/// # Errors
/// No such core, or a file that is not as the manual page says.
pub(super) fn of_core(core: usize) -> io::Result<Spent> {
    parse_core(&fs::read_to_string("/proc/stat")?, core).ok_or_else(|| unreadable("/proc/stat"))
}

fn unreadable(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} is not as it should be"))
}

/// Fields 14 and 15. A program's name may have spaces and parentheses, so fields are counted behind the last one.
fn parse_process(text: &str) -> Option<Spent> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / TICKS_PER_S);
    Some(Spent { user_s: seconds()?, system_s: seconds()?, soft_s: 0.0 })
}

/// user, nice, system, idle, iowait, irq, softirq. Hard interrupts count as the soft ones that they lead to.
fn parse_core(text: &str, core: usize) -> Option<Spent> {
    let name = format!("cpu{core} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks = line.split_ascii_whitespace().map(|field| field.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    let [user, nice, system, _, _, irq, soft, ..] = *ticks.as_slice() else { return None };
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_S;
    Some(Spent { user_s: seconds(user + nice), system_s: seconds(system), soft_s: seconds(irq + soft) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_whatever_they_are_called() {
        let text = "17 (a) b (c) S 1 17 17 0 -1 4194560 9 0 0 0 250 1025 0 0 20 0 3 0 8 9 10";
        assert_eq!(parse_process(text), Some(Spent { user_s: 2.5, system_s: 10.25, soft_s: 0.0 }));
        assert_eq!(parse_process("17 (a) S 1 2 3"), None);
        assert_eq!(parse_process("17"), None);
        assert!(of_process(std::process::id()).is_ok());
        assert!(of_process(u32::MAX).is_err());
    }

    #[test]
    fn cores_are_told_apart() {
        let text = "cpu  1 2 3 4 5 6 7 8 0 0\ncpu1 100 50 300 4 5 6 194 8 0 0\ncpu10 1 1 1 1 1 1 1 1 0 0\nintr 1\n";
        assert_eq!(parse_core(text, 1), Some(Spent { user_s: 1.5, system_s: 3.0, soft_s: 2.0 }));
        assert_eq!(parse_core(text, 10).map(|spent| spent.all_s()), Some(0.05));
        assert_eq!(parse_core(text, 2), None);
        assert_eq!(parse_core("cpu0 1 x 3 4 5 6 7", 0), None);
        assert!(of_core(0).is_ok());
    }

    #[test]
    fn what_was_spent_is_a_difference() {
        let before = Spent { user_s: 1.0, system_s: 2.0, soft_s: 3.0 };
        let after = Spent { user_s: 1.5, system_s: 2.0, soft_s: 2.5 };
        assert_eq!(after.minus(&before), Spent { user_s: 0.5, system_s: 0.0, soft_s: 0.0 });
        assert_eq!(after.times(2.0).all_s(), 12.0);
    }
}
