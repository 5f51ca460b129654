//! The search for small networks of gates for the S-boxes of DES, and the Rust file made of them. It goes on from the
//! networks that are kept, for `--seconds N`; without, it writes the file anew.

mod best;
mod network;
mod render;
mod rng;
mod search;
mod shelf;
mod start;
mod straight;
mod support;
mod tables;
mod walk;

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use rng::Rng;
use search::search;
use shelf::Shelf;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = match words.as_slice() {
        [] => 0,
        [name, number] if name == "--seconds" => number.parse().with_context(|| format!("--seconds {number}"))?,
        _ => bail!("the only option is --seconds N"),
    };
    let shelf = &Shelf::open()?;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| -> Result<()> {
        let rngs = (0..threads).map(|thread| Rng::new(RandomState::new().hash_one(thread)));
        let workers = rngs.map(|rng| scope.spawn(move || search(shelf, rng, deadline)));
        for worker in workers.collect::<Vec<_>>() {
            worker.join().map_err(|_| anyhow::anyhow!("a search thread panicked"))??;
        }
        Ok(())
    })?;
    shelf.write()
}
