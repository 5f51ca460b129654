//! What the engine runs. The priors are estimates of a device across a bus: dear for a batch as such, cheap for each
//! operation in it; the router corrects them by measuring.

use ciphermill_contract::capability::Cost;
use ciphermill_contract::suite::lists;
use ciphermill_contract::suite::{Digest, Mac};
use ciphermill_contract::{Capability, Suite};

/// Bytes of input of one operation at most: what is longer is better off where it is.
pub(crate) const INPUT_LEN_MAX: usize = 16 << 20;

/// Digests whose kernels there are.
const DIGESTS: [Suite; 6] = [
    Suite::Digest(Digest::Md5),
    Suite::Digest(Digest::Sha1),
    Suite::Digest(Digest::Sha224),
    Suite::Digest(Digest::Sha256),
    Suite::Digest(Digest::Sha384),
    Suite::Digest(Digest::Sha512),
];

/// HMAC over them.
const HMACS: [Suite; 6] = [
    Suite::Mac(Mac::Hmac(Digest::Md5)),
    Suite::Mac(Mac::Hmac(Digest::Sha1)),
    Suite::Mac(Mac::Hmac(Digest::Sha224)),
    Suite::Mac(Mac::Hmac(Digest::Sha256)),
    Suite::Mac(Mac::Hmac(Digest::Sha384)),
    Suite::Mac(Mac::Hmac(Digest::Sha512)),
];

/// Nanoseconds for a launch with its two copies; an operation with its share of packing on one core; a byte on the link.
const fn prior(op_ns: f64, byte_ns: f64) -> Cost {
    Cost::new(60_000.0, op_ns, byte_ns)
}

const fn group(suites: &'static [Suite], prior: Cost) -> Capability {
    Capability::new(suites, prior).lanes(u16::MAX).input_len_max(INPUT_LEN_MAX)
}

/// Everything that the engine runs, on every device alike.
pub const CAPABILITIES: &[Capability] = &[
    group(&lists::AES_ECB, prior(12.0, 0.08)),
    group(&lists::AES_CBC, prior(12.0, 0.08)),
    group(&lists::AES_CTR, prior(12.0, 0.08)),
    group(&lists::DES, prior(12.0, 0.08)),
    group(&lists::TRIPLE_DES, prior(12.0, 0.1)),
    group(&DIGESTS, prior(12.0, 0.05)),
    group(&HMACS, prior(14.0, 0.05)),
];
