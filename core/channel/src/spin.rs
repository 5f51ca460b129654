//! How long it pays to look for something before sleeping, by whether that has paid of late.

use std::time::Duration;

/// The shortest time that is tried.
const MIN: Duration = Duration::from_micros(2);

/// A time that doubles when what was looked for came in time, and is halved when it did not: where cores are short, or nothing comes, looking
/// takes them from those who would bring it.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    max: Duration,
    now: Duration,
    /// Times that were left out since looking last failed at the shortest time.
    left_out: u32,
}

/// Of so many times one is tried when looking does not pay.
const TRIED: u32 = 16;

impl Spin {
    /// The longest time at first. With [`Duration::ZERO`] nobody ever looks.
    pub fn new(max: Duration) -> Spin {
        Spin { max, now: max, left_out: 0 }
    }

    /// The longest time.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// How long to look this time.
    pub fn time(&mut self) -> Duration {
        if self.now > MIN.min(self.max) || self.max.is_zero() {
            return self.now;
        }
        self.left_out = (self.left_out + 1) % TRIED;
        if self.left_out == 0 { self.now } else { Duration::ZERO }
    }

    /// It came in time.
    pub fn paid(&mut self) {
        self.now = self.now.saturating_mul(2).min(self.max);
    }

    /// It did not come in time.
    pub fn did_not_pay(&mut self) {
        self.now = (self.now / 2).max(MIN).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_grows_with_luck_and_shrinks_without() {
        let max = Duration::from_micros(60);
        let mut spin = Spin::new(max);
        assert_eq!(spin.time(), max);
        (0..10).for_each(|_| spin.did_not_pay());
        let tried = (0..160).filter(|_| spin.time() > Duration::ZERO).count();
        assert_eq!(tried, 10, "now and then the shortest time is tried");
        (0..10).for_each(|_| spin.paid());
        assert_eq!(spin.time(), max);
    }

    #[test]
    fn without_a_time_nobody_looks() {
        let mut spin = Spin::new(Duration::ZERO);
        spin.paid();
        assert_eq!(spin.time(), Duration::ZERO);
        spin.did_not_pay();
        assert_eq!(spin.time(), Duration::ZERO);
    }
}
