//! ESP in bursts: packets as columnar batches.
