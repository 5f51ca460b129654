//! What the link between this machine and its device carries: the measure that copy-bound suites are held to.

use std::time::Duration;

use crate::device::{Device, Result, Ways};

/// Lengths of copies that are measured, in bytes: a small share, an ordinary one, and one beside which the set-up is
/// nothing.
const LENS: [usize; 3] = [64 << 10, 1 << 20, 16 << 20];

/// Bytes that a turn copies each way, and copies at least.
const TURN_LEN: usize = 64 << 20;
const TURN_COPIES_MIN: usize = 8;

/// Turns of a measurement, of which the median counts, after one that does not.
const TURNS: usize = 5;

/// What the link carries in copies of one length, from and to pinned memory; in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRate {
    /// Bytes of a copy.
    pub copy_len: usize,
    /// To the device, with nothing coming back.
    pub to_device: f64,
    /// From the device, with nothing going there.
    pub from_device: f64,
    /// Both ways at the same time, each of them: what a batch that goes there and comes back can reach at most.
    pub both_ways: f64,
}

/// Measures the link of an idle device.
pub(crate) fn measure(device: &dyn Device) -> Result<Vec<LinkRate>> {
    let link = device.link()?;
    let rate = |copy_len: usize| {
        let copies = (TURN_LEN / copy_len).clamp(TURN_COPIES_MIN, 64);
        let bytes = (copy_len * copies) as f64;
        let rate = |ways| -> Result<f64> {
            let times = link.time_copies(ways, copy_len, copies, 1 + TURNS)?;
            Ok(bytes / median(&times).as_secs_f64().max(1e-9))
        };
        let (to_device, from_device) = (rate(Ways::In)?, rate(Ways::Out)?);
        Ok(LinkRate { copy_len, to_device, from_device, both_ways: rate(Ways::Both)? })
    };
    LENS.into_iter().map(rate).collect()
}

/// The median of all turns but the first.
fn median(times: &[Duration]) -> Duration {
    let mut times = times.get(1..).unwrap_or_default().to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_turn_does_not_count() {
        let times = [900, 5, 1, 4, 2, 3].map(Duration::from_millis);
        assert_eq!(median(&times), Duration::from_millis(3));
        assert_eq!(median(&[]), Duration::ZERO);
    }
}
