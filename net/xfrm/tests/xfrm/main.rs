//! Messages, the server, and `ip xfrm` with the preloaded library.
#![allow(clippy::expect_used, reason = "in tests")]

mod client;
mod codec;
mod iproute;
mod server;
mod strategies;
