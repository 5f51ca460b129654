//! The best networks so far, and the text in which they are kept.

use anyhow::{Context, Result};

use crate::network::{Family, Network};
use crate::straight;
use crate::tables::BOXES;

/// A network, and how many operations it costs.
pub(crate) struct Kept {
    pub(crate) network: Network,
    pub(crate) cost: usize,
}

/// The best network known for each S-box: of all S-boxes by family.
pub(crate) struct Best(Vec<Kept>);

impl Best {
    pub(crate) fn of(&self, family: Family) -> &[Kept] {
        &self.0[family as usize * BOXES..][..BOXES]
    }

    pub(crate) fn of_mut(&mut self, family: Family) -> &mut [Kept] {
        &mut self.0[family as usize * BOXES..][..BOXES]
    }

    /// One line each.
    pub(crate) fn to_text(&self) -> String {
        let line =
            |((family, index), kept): (_, &Kept)| format!("{} {}\n", title(family, index), kept.network.to_text());
        boxes().zip(&self.0).map(line).collect()
    }

    /// Reads what `to_text` wrote, and believes nothing of it: every network is verified.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let mut read = |(family, index)| -> Result<Kept> {
            let title = title(family, index);
            let network = lines.next().and_then(|line| line.strip_prefix(&title)?.strip_prefix(' '));
            let network = Network::parse(network.with_context(|| format!("no line for {title}"))?)?;
            network.verify(family, index)?;
            Ok(Kept { cost: straight::cost(family, &network, index, usize::MAX), network })
        };
        Ok(Self(boxes().map(&mut read).collect::<Result<_>>()?))
    }
}

/// The S-boxes of both families in their order.
fn boxes() -> impl Iterator<Item = (Family, usize)> {
    Family::ALL.into_iter().flat_map(|family| (0..BOXES).map(move |index| (family, index)))
}

/// How a line begins.
fn title(family: Family, index: usize) -> String {
    format!("{} s{}", family.name(), index + 1)
}
