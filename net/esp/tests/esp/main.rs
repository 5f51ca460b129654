//! ESP through a mill with the reference engine: every transform there and back, the RFCs' own packets, and what hostile peers send.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests may stop at once, as tests do")]

mod anything;
mod ends;
mod faults;
mod forge;
mod hostile;
mod leads;
mod lives;
mod misuse;
mod path;
mod random;
mod scapy;
mod trips;
mod vectors;
