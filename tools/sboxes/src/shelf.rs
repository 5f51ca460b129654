//! The best networks as all threads of the search share them, on disk as soon as they are found.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::best::Best;
use crate::network::{Family, Network};
use crate::render::render;
use crate::rng::Rng;
use crate::straight;

/// The networks, one line each, relative to the repository.
const DATA: &str = "tools/sboxes/best.txt";

/// The file generated from them.
const GENERATED: &str = "engines/lanes/src/des/sboxes.rs";

/// What all threads of the search improve.
pub(crate) struct Shelf(Mutex<Best>);

impl Shelf {
    pub(crate) fn open() -> Result<Self> {
        let kept = std::fs::read_to_string(place(DATA)).context(DATA)?;
        Ok(Self(Mutex::new(Best::parse(&kept).context(DATA)?)))
    }

    fn best(&self) -> MutexGuard<'_, Best> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn network(&self, family: Family, index: usize) -> Network {
        self.best().of(family)[index].network.clone()
    }

    /// Keeps a network if it costs less than the one kept so far.
    pub(crate) fn offer(&self, family: Family, index: usize, network: &Network, rng: &mut Rng) -> Result<()> {
        let before = self.best().of(family)[index].cost;
        let cost = straight::cost(family, network, index, before);
        if cost >= before {
            return Ok(());
        }
        network.verify(family, index)?;
        {
            let mut best = self.best();
            let kept = &mut best.of_mut(family)[index];
            if kept.cost <= cost {
                return Ok(());
            }
            (kept.network, kept.cost) = (network.scheduled(rng), cost);
            println!("{} s{}: {cost} gates", family.name(), index + 1);
        }
        self.write()
    }

    /// Writes the data and the generated file.
    pub(crate) fn write(&self) -> Result<()> {
        let best = self.best();
        for (path, text) in [(DATA, best.to_text()), (GENERATED, render(&best)?)] {
            // In one step, so that nobody reads half of it.
            let draft = place(path) + ".tmp";
            std::fs::write(&draft, text).with_context(|| draft.clone())?;
            std::fs::rename(&draft, place(path)).context(path)?;
        }
        Ok(())
    }
}

/// Where a file of the repository lies.
fn place(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_file_holds_the_kept_networks() {
        let rendered =
            render(&Shelf::open().expect("all networks are correct").best()).expect("and so are their programs");
        // Not assert_eq: it would print both files.
        assert!(std::fs::read_to_string(place(GENERATED)).expect("is checked in") == rendered, "{GENERATED} is stale");
    }

    #[test]
    fn a_wrong_or_missing_network_is_refused() {
        let kept = std::fs::read_to_string(place(DATA)).expect("is checked in");
        let (line, others) = kept.split_once('\n').expect("networks");
        let (head, last_table) = line.rsplit_once(' ').expect("gates");
        let flipped = u8::from_str_radix(&last_table[..2], 16).expect("a table") ^ 0xff;
        assert!(Best::parse(&kept).is_ok());
        assert!(Best::parse(others).is_err());
        assert!(Best::parse(&format!("{head} {flipped:02x}{}\n{others}", &last_table[2..])).is_err());
    }
}
