//! Section 26.2: at which rates latency is measured, for how long, and how often.

use std::time::Duration;

/// A rate at which latency is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyPoint {
    /// The rate, in packets a second.
    pub rate_pps: f64,
    /// How long the stream is.
    pub stream: Duration,
    /// After how much of it the packet goes out whose latency counts. Those that measure every packet count from here on.
    pub after: Duration,
    /// How many times it is repeated; the mean is reported.
    pub repeats: u32,
}

/// Latency at a throughput, as the RFC has it: a stream of 120 s, half of it before the packet that counts, 20 times.
#[must_use]
pub const fn latency_at(throughput_pps: f64) -> LatencyPoint {
    LatencyPoint {
        rate_pps: throughput_pps,
        stream: Duration::from_secs(120),
        after: Duration::from_secs(60),
        repeats: 20,
    }
}

/// Latency at shares of a rate, each in one stream: at 10, 50 and 90 % of the partial-drop rate, say, since a device at its limit
/// shows how long its queues are and not how fast it is. Half of a stream is left for it to settle.
#[must_use]
pub fn latency_shares(rate_pps: f64, shares: &[f64], stream: Duration) -> Vec<LatencyPoint> {
    let point = |share: &f64| LatencyPoint { rate_pps: rate_pps * share, stream, after: stream / 2, repeats: 1 };
    shares.iter().map(point).collect()
}
