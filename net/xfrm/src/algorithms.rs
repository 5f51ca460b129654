//! What the kernel's crypto API calls algorithms, and what it does where a request leaves something open.

use rustix::io::Errno;

use crate::refusal::Refusal;

/// Short names that old programs write, and what they stand for.
const SHORT: &[(&str, &str)] = &[
    ("cipher_null", "ecb(cipher_null)"),
    ("digest_null", "digest_null"),
    ("des", "cbc(des)"),
    ("des3_ede", "cbc(des3_ede)"),
    ("cast5", "cbc(cast5)"),
    ("blowfish", "cbc(blowfish)"),
    ("aes", "cbc(aes)"),
    ("serpent", "cbc(serpent)"),
    ("camellia", "cbc(camellia)"),
    ("twofish", "cbc(twofish)"),
    ("md5", "hmac(md5)"),
    ("sha1", "hmac(sha1)"),
    ("sha256", "hmac(sha256)"),
    ("ripemd160", "hmac(rmd160)"),
];

/// MACs and how many bits of them are sent where no length is said. SHA-256 has 96 here, which no RFC says: RFC 4868 has 128,
/// and daemons therefore say it.
const ICV_BITS: &[(&str, u32)] = &[
    ("digest_null", 0),
    ("hmac(md5)", 96),
    ("hmac(sha1)", 96),
    ("hmac(sha256)", 96),
    ("hmac(sha384)", 192),
    ("hmac(sha512)", 256),
    ("hmac(rmd160)", 96),
    ("hmac(sm3)", 256),
    ("xcbc(aes)", 96),
    ("cmac(aes)", 96),
];

/// A name as the crypto API has it.
pub(crate) fn full_name(name: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, full)| full)
}

/// How many bits of a MAC are sent where no length is said.
pub(crate) fn default_icv_bits(name: &str) -> Result<u32, Refusal> {
    let known = ICV_BITS.iter().find(|(mac, _)| *mac == name).map(|(_, bits)| *bits);
    known.ok_or(Refusal::new(Errno::NOSYS, "a MAC that is not known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_and_lengths() {
        assert_eq!(full_name("sha1"), "hmac(sha1)");
        assert_eq!(full_name("rfc4106(gcm(aes))"), "rfc4106(gcm(aes))");
        assert_eq!(default_icv_bits(full_name("sha256")), Ok(96));
        assert_eq!(default_icv_bits("hmac(whirlpool)").map_err(|refusal| refusal.errno), Err(Errno::NOSYS));
    }
}
