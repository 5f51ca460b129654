//! The search for small networks of gates for the S-boxes of DES, and the Rust file made of them: takes
//! `[--seconds N] [--seed N] [--threads N] [--family ternary|binary]`.

mod network;
mod render;
mod rng;
mod search;
mod start;
mod straight;
mod support;
mod tables;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use network::{Best, Family, Network};
use rng::Rng;
use search::search;
use tables::BOXES;

/// The root of the repository, from which the two files are named.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The networks, one line each.
const DATA: &str = "tools/sboxes/best.txt";

/// The file generated from them.
const GENERATED: &str = "engines/lanes/src/des/sboxes.rs";

struct Options {
    seconds: u64,
    seed: u64,
    threads: u64,
    families: Vec<Family>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self { seconds: 0, seed: 1, threads: 1, families: Family::ALL.to_vec() };
        for pair in words.chunks(2) {
            let [name, value] = pair else {
                bail!("{} needs a value", pair[0]);
            };
            let number = || value.parse::<u64>().with_context(|| format!("{name} {value}"));
            match *name {
                "--seconds" => options.seconds = number()?,
                "--seed" => options.seed = number()?,
                "--threads" => options.threads = number()?,
                "--family" => {
                    options.families.retain(|family| family.name() == *value);
                    if options.families.is_empty() {
                        bail!("--family is ternary or binary");
                    }
                }
                _ => bail!("unknown option {name}"),
            }
        }
        Ok(options)
    }
}

/// Searches for `--seconds` and writes the data and the generated file; without seconds it writes the file anew.
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::parse(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    let root = PathBuf::from(ROOT);
    let kept = std::fs::read_to_string(root.join(DATA)).unwrap_or_default();
    let shelf = Shelf::new(root, Best::parse(&kept).context(DATA)?);
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..options.threads)
            .map(|thread| {
                let (shelf, families) = (&shelf, &options.families);
                let rng = Rng::new(options.seed.wrapping_mul(0x1_0000).wrapping_add(thread));
                scope.spawn(move || search(shelf, families, rng, deadline))
            })
            .collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a search thread panicked"))??;
        }
        Ok(())
    })?;
    shelf.write()?;
    if !shelf.best.lock().unwrap_or_else(PoisonError::into_inner).is_complete() {
        bail!("some S-boxes have no network yet: search with --seconds");
    }
    println!("sboxes: {GENERATED} written");
    Ok(())
}

/// The best networks so far, on disk as soon as they are found.
struct Shelf {
    root: PathBuf,
    best: Mutex<Best>,
    /// What the best networks cost: what cannot cost less need not ask for the lock.
    costs: [[AtomicUsize; BOXES]; 2],
}

impl Shelf {
    fn new(root: PathBuf, best: Best) -> Self {
        let cost_of = |family: Family, index: usize| {
            best.of(family)[index].as_ref().map_or(usize::MAX, |kept| straight::cost(family, kept, index, usize::MAX))
        };
        let costs = Family::ALL.map(|family| std::array::from_fn(|index| AtomicUsize::new(cost_of(family, index))));
        Self { root, best: Mutex::new(best), costs }
    }

    fn network(&self, family: Family, index: usize) -> Option<Network> {
        self.best.lock().unwrap_or_else(PoisonError::into_inner).of(family)[index].clone()
    }

    /// Keeps a network if it costs less than the one kept so far.
    fn offer(&self, family: Family, index: usize, network: &Network, rng: &mut Rng) -> Result<()> {
        let kept_cost = &self.costs[usize::from(family == Family::Binary)][index];
        let before = kept_cost.load(Ordering::Relaxed);
        let cost = straight::cost(family, network, index, before);
        if cost >= before {
            return Ok(());
        }
        network.verify(family, index)?;
        {
            let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
            if kept_cost.load(Ordering::Relaxed) <= cost {
                return Ok(());
            }
            best.of_mut(family)[index] = Some(network.scheduled(rng));
            kept_cost.store(cost, Ordering::Relaxed);
            println!("{} s{}: {cost} gates", family.name(), index + 1);
        }
        self.write()
    }

    /// Writes the data, and the generated file when no network is missing.
    fn write(&self) -> Result<()> {
        let best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        replace(&self.root.join(DATA), &best.to_text())?;
        if best.is_complete() {
            replace(&self.root.join(GENERATED), &render::render(&best)?)?;
        }
        Ok(())
    }
}

/// Writes a file in one step, so that nobody reads half of it, and not at all if it would stay the same.
fn replace(path: &Path, text: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text)?;
    std::fs::rename(&draft, path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_file_holds_the_kept_networks() {
        let root = Path::new(ROOT);
        let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("is checked in");
        let best = Best::parse(&read(DATA)).expect("all networks are correct");
        let rendered = render::render(&best).expect("complete");
        // Not assert_eq: it would print both files.
        assert!(read(GENERATED) == rendered, "{GENERATED} is stale: run `tools/sboxes`");
    }

    #[test]
    fn a_wrong_network_is_refused() {
        let kept = std::fs::read_to_string(Path::new(ROOT).join(DATA)).expect("is checked in");
        let line = kept.lines().next().expect("a network");
        let (head, last_table) = line.rsplit_once(' ').expect("gates");
        let flipped = u8::from_str_radix(&last_table[..2], 16).expect("a table") ^ 0xff;
        assert!(Best::parse(line).is_ok());
        assert!(Best::parse(&format!("{head} {flipped:02x}{}", &last_table[2..])).is_err());
    }

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let options = Options::parse(&["--seconds", "7", "--seed", "3", "--family", "binary"]).expect("options");
        assert_eq!((options.seconds, options.seed, options.threads), (7, 3, 1));
        assert_eq!(options.families, [Family::Binary]);
        for bad in [&["--seconds"][..], &["--seconds", "x"], &["--family", "x"], &["--other", "1"]] {
            assert!(Options::parse(bad).is_err());
        }
    }
}
