//! Prints what the link to a device carries: `cargo run --release --example link -- cuda`. Without a name, the best
//! device that is not software.

use std::io::Write as _;

use ciphermill_gpu::Gpu;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = match std::env::args().nth(1) {
        Some(name) => Gpu::open(&name)?,
        None => Gpu::new()?,
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:>12} {:>14} {:>14} {:>14}", "bytes a copy", "to, GB/s", "from, GB/s", "both, GB/s each")?;
    for rate in gpu.link_rates()? {
        let [to, from, both] = [rate.to_device, rate.from_device, rate.both_ways].map(|rate| rate / 1e9);
        writeln!(out, "{:>12} {to:>14.2} {from:>14.2} {both:>14.2}", rate.copy_len)?;
    }
    Ok(())
}
