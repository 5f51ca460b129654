//! Suites by name and by number, and the lengths that they take.

use std::ffi::c_char;
use std::sync::LazyLock;

use ciphermill::contract::limits::SUITE_ORDINALS_MAX;
use ciphermill::contract::suite::Ff1;
use ciphermill::contract::suite::rules::Lengths;
use ciphermill::contract::{Direction, Suite};

use crate::entry::entry;
use crate::failure::{CIPHERMILL_REFUSED, Failure, ciphermill_status};
use crate::foreign;

/// A suite: what is done to an operation. Numbers come from ciphermill_suite_by_name and are good for as long as the library
/// is loaded; another version may number suites otherwise. Zero is no suite.
pub type ciphermill_suite = u64;

/// Which way a suite runs: CIPHERMILL_ENCRYPT or CIPHERMILL_DECRYPT.
pub type ciphermill_direction = u32;

/// Encrypt, seal, digest, compute a tag, sign, agree, encapsulate, generate.
pub const CIPHERMILL_ENCRYPT: ciphermill_direction = 0;
/// Decrypt, open, verify a tag or signature, decapsulate.
pub const CIPHERMILL_DECRYPT: ciphermill_direction = 1;

/// The lengths in bytes that are allowed: from `min` to `max` in steps of `step`, but for `gaps`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_lengths {
    /// The smallest.
    pub min: usize,
    /// The largest.
    pub max: usize,
    /// The distance between neighbours, at least one.
    pub step: usize,
    /// Lengths below 32 that are not allowed all the same: bit n stands for n bytes.
    pub gaps: usize,
}

/// What a suite takes and gives in one direction. Lengths are in bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_suite_info {
    /// Symmetric keys; for key pairs an upper bound, their encodings vary.
    pub key: ciphermill_lengths,
    /// Initialisation vectors, nonces, tweaks, counter blocks.
    pub iv: ciphermill_lengths,
    /// Tags, digests, signatures, ciphertexts of a KEM, generated public keys.
    pub tag: ciphermill_lengths,
    /// Additional authenticated data, or FF1's tweak.
    pub aad: ciphermill_lengths,
    /// Inputs.
    pub input: ciphermill_lengths,
    /// The key length used when nobody says otherwise, zero for key pairs and suites without keys.
    pub default_key_len: usize,
    /// The same of IVs.
    pub default_iv_len: usize,
    /// The same of tags: the full one.
    pub default_tag_len: usize,
    /// The cipher's block, one where there is none.
    pub block_len: usize,
    /// One if operations name a key, else zero.
    pub needs_key: u32,
    /// One if mills run it only when opened with `legacy`, else zero.
    pub is_legacy: u32,
    /// One if its keys are pairs or exponents, else zero.
    pub is_public_key: u32,
    /// Zero.
    pub reserved: u32,
}

/// Suites by ordinal.
static SUITES: LazyLock<Vec<Option<Suite>>> = LazyLock::new(|| {
    let mut suites = vec![None; SUITE_ORDINALS_MAX];
    for suite in Suite::all() {
        suites[suite.ordinal()] = Some(suite);
    }
    suites
});

/// The ordinal and one in the lower half, FF1's radix in the upper.
fn number(suite: Suite) -> ciphermill_suite {
    let radix = if let Suite::Fpe(ff1) = suite { ff1.radix } else { 0 };
    u64::from(radix) << 32 | (suite.ordinal() as u64 + 1)
}

/// The suite with a number.
#[inline]
pub(crate) fn of_number(number: ciphermill_suite) -> Result<Suite, Failure> {
    let (ordinal, radix) = ((number as u32).wrapping_sub(1), (number >> 32) as u32);
    match SUITES.get(ordinal as usize).copied().flatten() {
        Some(Suite::Fpe(ff1)) if (Ff1 { radix, ..ff1 }).radix_is_valid() => Ok(Suite::Fpe(Ff1 { radix, ..ff1 })),
        Some(suite) if radix == 0 && !matches!(suite, Suite::Fpe(_)) => Ok(suite),
        _ => Err(Failure::misuse(format!("there is no suite number {number:#x}"))),
    }
}

/// The direction with a number.
#[inline]
pub(crate) fn direction(number: ciphermill_direction) -> Result<Direction, Failure> {
    match number {
        CIPHERMILL_ENCRYPT => Ok(Direction::Encrypt),
        CIPHERMILL_DECRYPT => Ok(Direction::Decrypt),
        _ => Err(Failure::misuse(format!("there is no direction {number}"))),
    }
}

/// Finds a suite by its name, as in "aes-128-gcm", "hmac-sha256", "ed25519"; `ciphermill engines` and docs/engines.md list
/// them. Reading a name takes microseconds: do it once.
///
/// # Errors
/// CIPHERMILL_REFUSED for an unknown name; the text has the one that is nearest.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_suite_by_name(
    suite: *mut ciphermill_suite,
    name: *const c_char,
) -> ciphermill_status {
    entry(|| {
        let place = foreign::place(suite, "suite")?;
        // SAFETY: a text of the caller's.
        let name = unsafe { foreign::text(name, "name") }?;
        let found: Suite = name.parse().map_err(|unknown| Failure::new(CIPHERMILL_REFUSED, format!("{unknown}")))?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(number(found)) };
        Ok(())
    })
}

/// Writes a suite's name, NUL at the end, to `name`. `name_len` is the room there in bytes; on return the bytes that the name
/// needs, NUL included.
///
/// # Errors
/// CIPHERMILL_MISUSE for a number that is no suite's; CIPHERMILL_TOO_SHORT.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_suite_name(
    name: *mut c_char,
    name_len: *mut usize,
    suite: ciphermill_suite,
) -> ciphermill_status {
    entry(|| {
        let suite = of_number(suite)?;
        // SAFETY: checked there; the caller's to be written.
        unsafe { foreign::put_text(name, name_len, &suite.to_string()) }
    })
}

/// Tells which lengths a suite takes in a direction, and what else it needs.
///
/// # Errors
/// CIPHERMILL_MISUSE for numbers that are no suite's or direction's; CIPHERMILL_REFUSED for a direction that the suite does
/// not have.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_suite_describe(
    info: *mut ciphermill_suite_info,
    suite: ciphermill_suite,
    direction: ciphermill_direction,
) -> ciphermill_status {
    entry(|| {
        let place = foreign::place(info, "info")?;
        let (suite, way) = (of_number(suite)?, self::direction(direction)?);
        if !suite.has_direction(way) {
            return Err(Failure::new(CIPHERMILL_REFUSED, format!("{suite} has no direction `{way}`")));
        }
        let lengths = |Lengths { min, max, step, gaps }| ciphermill_lengths { min, max, step, gaps: gaps as usize };
        let described = ciphermill_suite_info {
            key: lengths(suite.key_len()),
            iv: lengths(suite.iv_len()),
            tag: lengths(suite.tag_len(way)),
            aad: lengths(suite.aad_len()),
            input: lengths(suite.input_len(way)),
            default_key_len: suite.default_key_len(),
            default_iv_len: suite.default_iv_len(),
            default_tag_len: suite.default_tag_len(),
            block_len: suite.block_len(),
            needs_key: u32::from(suite.needs_key()),
            is_legacy: u32::from(suite.is_legacy()),
            is_public_key: u32::from(suite.is_public_key()),
            reserved: 0,
        };
        // SAFETY: the caller's to be written.
        unsafe { place.put(described) };
        Ok(())
    })
}

/// Tells the room that the output of an input of `input_len` bytes needs, in bytes: what an operation wrote of it is in
/// its `output_len` afterwards. Zero for digests, MACs and signatures, whose results are tags. Random bytes have as many as
/// are asked for.
///
/// # Errors
/// CIPHERMILL_MISUSE for numbers that are no suite's or direction's.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_suite_output_len(
    output_len: *mut usize,
    suite: ciphermill_suite,
    direction: ciphermill_direction,
    input_len: usize,
) -> ciphermill_status {
    entry(|| {
        let place = foreign::place(output_len, "output_len")?;
        let (suite, way) = (of_number(suite)?, self::direction(direction)?);
        let len = if suite.input_len(way).contains(input_len) { suite.output_len(way, input_len, 0) } else { 0 };
        // SAFETY: the caller's to be written.
        unsafe { place.put(len) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_comes_back_from_its_number_and_no_other_number_is_one() {
        let mut seen = std::collections::BTreeSet::new();
        for suite in Suite::all() {
            assert_eq!(of_number(number(suite)).ok(), Some(suite));
            seen.insert(number(suite));
        }
        for wrong in [0, SUITE_ORDINALS_MAX as u64 + 1, u64::MAX, 1 << 32] {
            assert!(!seen.contains(&wrong));
            assert!(of_number(wrong).is_err(), "{wrong:#x}");
        }
        let radix_7: Suite = "ff1-aes-256-radix-7".parse().unwrap();
        assert_eq!(of_number(number(radix_7)).ok(), Some(radix_7));
        assert!(of_number(number(radix_7) & 0xffff_ffff).is_err(), "radix 0");
        let gcm: Suite = "aes-128-gcm".parse().unwrap();
        assert!(of_number(number(gcm) | 10 << 32).is_err(), "a radix where there is none");
    }
}
