//! Gives an IKE daemon the gateway for its kernel.
