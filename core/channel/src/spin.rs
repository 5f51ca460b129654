//! How long it pays to look for something before sleeping, by whether that has paid of late.

use std::time::Duration;

/// The smallest share of the time that is allowed, as its inverse. When that does not pay either, …
const SMALLEST: u32 = 8;

/// … once in so many times all of what is allowed is tried: what has changed since would not be seen in less.
const TRIED: u32 = 64;

/// A share of the time that is allowed, which doubles when what was looked for came in time and is halved when it did not: where cores are
/// short, or nothing comes, looking takes them from those who would bring it.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    /// The share's inverse, a power of two.
    part: u32,
    left_out: u32,
}

impl Spin {
    /// All of what is allowed.
    pub fn new() -> Spin {
        Spin { part: 1, left_out: 0 }
    }

    /// How long to look this time, of so much that is allowed.
    pub fn time(&mut self, allowed: Duration) -> Duration {
        if self.part <= SMALLEST {
            return allowed / self.part;
        }
        self.left_out = (self.left_out + 1) % TRIED;
        if self.left_out == 0 { allowed } else { Duration::ZERO }
    }

    /// It came in time.
    pub fn paid(&mut self) {
        self.part = if self.part > SMALLEST { 1 } else { (self.part / 2).max(1) };
    }

    /// It did not come in time.
    pub fn did_not_pay(&mut self) {
        self.part = (self.part * 2).min(2 * SMALLEST);
    }
}

impl Default for Spin {
    fn default() -> Spin {
        Spin::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_grows_with_luck_and_shrinks_without() {
        let allowed = Duration::from_micros(64);
        let mut spin = Spin::new();
        assert_eq!(spin.time(allowed), allowed);
        spin.did_not_pay();
        assert_eq!(spin.time(allowed), allowed / 2);
        (0..10).for_each(|_| spin.did_not_pay());
        let tried: Vec<_> = (0..640).map(|_| spin.time(allowed)).filter(|time| !time.is_zero()).collect();
        assert_eq!(tried, [allowed; 10], "now and then all of it is tried");
        spin.paid();
        assert_eq!(spin.time(allowed), allowed);
        assert_eq!(spin.time(Duration::ZERO), Duration::ZERO);
    }
}
