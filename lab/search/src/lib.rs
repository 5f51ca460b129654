//! The search for a rate that is carried with a given loss.
//!
//! A search decides which rate is offered next and what the answers mean; who offers packets and counts what comes back is a
//! [`Trial`]. There is no clock, no thread and no I/O here, so that searches are tested on devices that are formulas.
//!
//! * [`rfc2544`] has tests of RFC 2544, section 26: loss rates and back-to-back bursts.
//! * [`mlr`] is the Multiple Loss Ratio search (draft-ietf-bmwg-mlrsearch-15): the rates of several tolerated losses at once, each
//!   confirmed by many short trials.
//!
//! Whatever a search finds comes with the trials that it made, in their order, so that a report can print what a figure rests on.

pub mod mlr;
pub mod rfc2544;
mod trial;

pub use trial::{Burst, Outcome, Range, SearchError, Trial, Tried};
