//! The Multiple Loss Ratio search of draft-ietf-bmwg-mlrsearch-15, whose sections are named beside what follows them.
//!
//! RFC 2544 asks for the highest rate without loss and believes one trial. Software loses a packet now and then for reasons that have
//! nothing to do with the rate, and then a single trial decides about the result. Here several losses are tolerated at once, each
//! a [`Goal`]; a rate is decided about by many short trials, of which a share may exceed the loss; and trials serve all goals.
//!
//! The draft lays down what the trials at a rate say ([`classify`]), which bounds count, and what rate is reported
//! ([`conditional_throughput`]). Which rate is tried next is left open, and is as follows:
//!
//! 1. A trial at the greatest rate, and one at the rate that came through it: an overloaded device shows what it can do.
//! 2. Three phases, with one trial a rate, then some, then as many as the goals want. In each, the goals take turns, smallest loss
//!    first, until the bounds of all are as close as they ask. What an earlier phase took for a bound is tried first, the lower
//!    one before the upper one; if it does not hold, the search moves on in steps that double, and where it has both bounds it
//!    goes on between them, at their geometric mean.
//!
//! Where it differs from the package MLRsearch 1.2.1, which its authors publish: rates are not rounded to a grid of widths; there
//! is no warm-up trial; the trial at the greatest rate is followed by one at the rate that came through, not by two; early phases
//! want less time at a rate than the last one, but no coarser width. Bounds agree within the width, and so do the rates reported.
//! Where the draft differs from itself: the words of its section 6.2 take the share of the time that was measured, the code of its
//! appendix B that of the goal's sum of durations. Package and this search follow the code, which is the more careful. In its example
//! (appendix C.3, points 5 and 6) a rate is called a lower bound that its rule and its code make an upper one; so do both.

mod goal;
mod load;
mod search;

pub use goal::Goal;
pub use load::{Class, classify, conditional_throughput};
pub use search::{Found, GoalResult, Standing, TRIALS_MAX, search, search_within};
