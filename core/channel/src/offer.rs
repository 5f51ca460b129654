//! What a service says that it runs, and what that costs.

use ciphermill_contract::{Cost, Directions, Suite};

/// Bytes of an offer in a message.
pub(crate) const OFFER_LEN: usize = 2 + 1 + 2 + 6 * 8;

/// One suite that a service runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The suite, in its canonical form.
    pub suite: Suite,
    /// The directions in which it runs.
    pub directions: Directions,
    /// Operations that are paid for together ([`ciphermill_contract::Capability::step`]).
    pub step: u16,
    /// What many operations cost inside the service, predicted, in nanoseconds.
    pub many: Cost,
    /// What one costs alone.
    pub alone: Cost,
}

impl Offer {
    pub(crate) fn to_bytes(self) -> [u8; OFFER_LEN] {
        let mut bytes = [0; OFFER_LEN];
        bytes[..2].copy_from_slice(&(self.suite.ordinal() as u16).to_le_bytes());
        bytes[2] = self.directions.bits();
        bytes[3..5].copy_from_slice(&self.step.to_le_bytes());
        let terms = [self.many, self.alone].map(|cost| [cost.batch_ns, cost.op_ns, cost.byte_ns]);
        for (bytes, term) in bytes[5..].chunks_exact_mut(8).zip(terms.as_flattened()) {
            bytes.copy_from_slice(&term.to_le_bytes());
        }
        bytes
    }

    /// `None` for a suite that this side does not know: a service may be younger than its client.
    pub(crate) fn from_bytes(bytes: &[u8; OFFER_LEN]) -> Option<Offer> {
        let term = |at: usize| {
            let mut term = [0; 8];
            term.copy_from_slice(&bytes[5 + 8 * at..13 + 8 * at]);
            Some(f64::from_le_bytes(term)).filter(|term| term.is_finite() && *term >= 0.0)
        };
        Some(Offer {
            suite: Suite::of_ordinal(u16::from_le_bytes([bytes[0], bytes[1]]).into())?,
            directions: Directions::from_bits(bytes[2])?,
            step: u16::from_le_bytes([bytes[3], bytes[4]]).max(1),
            many: Cost::new(term(0)?, term(1)?, term(2)?),
            alone: Cost::new(term(3)?, term(4)?, term(5)?),
        })
    }
}
