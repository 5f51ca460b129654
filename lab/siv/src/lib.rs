//! The crate `aes-siv` in a loop of its own, behind C's calling convention.
//!
//! What that crate can do depends on the processor that it is built for, more than other peers' code does, and a program
//! has it built for any. So it is built twice: with the lab, and by `make lab` as a shared library for the processor at
//! hand, which `ciphermill-peers` loads. Both are measured, and the faster one is what ours is compared with.
#![allow(unsafe_code, reason = "exports functions, and works on the memory that callers name")]

use std::ptr;
use std::slice;

use aes::{Aes128, Aes256};
use aes_siv::KeyInit;
use aes_siv::siv::CmacSiv;

/// The schedules of a key.
pub enum Siv {
    /// A key of 32 bytes.
    Aes128(CmacSiv<Aes128>),
    /// A key of 64 bytes.
    Aes256(CmacSiv<Aes256>),
}

/// A message, from input to output; all addresses are the caller's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// From [`ciphermill_siv_new`].
    pub siv: *mut Siv,
    /// The first component of the additional data.
    pub aad: *const u8,
    /// Its bytes.
    pub aad_len: usize,
    /// The last component; none if it is empty.
    pub nonce: *const u8,
    /// Its bytes.
    pub nonce_len: usize,
    /// The message.
    pub input: *const u8,
    /// Where as many bytes go to.
    pub output: *mut u8,
    /// The bytes of both.
    pub len: usize,
    /// Sixteen bytes: written, or compared with.
    pub tag: *mut u8,
}

/// What a build may need of its processor, a bit each in [`ciphermill_siv_needs`].
pub const FEATURES: [&str; 6] = ["aes", "avx2", "avx512f", "avx512vl", "vaes", "vpclmulqdq"];

/// The [`FEATURES`] that this code was built to use: bit 0 for the first.
#[unsafe(no_mangle)]
pub extern "C" fn ciphermill_siv_needs() -> u32 {
    let needs = [
        cfg!(target_feature = "aes"),
        cfg!(target_feature = "avx2"),
        cfg!(target_feature = "avx512f"),
        cfg!(target_feature = "avx512vl"),
        cfg!(target_feature = "vaes"),
        cfg!(target_feature = "vpclmulqdq"),
    ];
    needs.iter().enumerate().fold(0, |bits, (index, needed)| bits | u32::from(*needed) << index)
}

/// Makes the schedules of a key of 32 or 64 bytes; null for other lengths.
///
/// # Safety
/// `len` bytes can be read at `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_siv_new(key: *const u8, len: usize) -> *mut Siv {
    // SAFETY: the caller's promise.
    let key = unsafe { slice::from_raw_parts(key, len) };
    let siv = match len {
        32 => CmacSiv::new_from_slice(key).ok().map(Siv::Aes128),
        64 => CmacSiv::new_from_slice(key).ok().map(Siv::Aes256),
        _ => None,
    };
    siv.map_or(ptr::null_mut(), |siv| Box::into_raw(Box::new(siv)))
}

/// Frees what [`ciphermill_siv_new`] of the same library made.
///
/// # Safety
/// It did make it, and it is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_siv_free(siv: *mut Siv) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(siv) });
}

/// Seals all messages, or opens them; whether every tag was right.
///
/// # Safety
/// There are `count` messages; each one's key was made by [`ciphermill_siv_new`] of the same library and is used by no
/// other thread, its places hold as many bytes as it says, and its output lies apart from its input.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_siv_run(messages: *const Message, count: usize, seals: bool) -> bool {
    // SAFETY: the caller's promise.
    let messages = unsafe { slice::from_raw_parts(messages, count) };
    let mut right = true;
    for message in messages {
        // SAFETY: the caller's promise, for each message.
        right &= unsafe { one(message, seals) };
    }
    right
}

/// # Safety
/// As [`ciphermill_siv_run`], for one message.
unsafe fn one(message: &Message, seals: bool) -> bool {
    // SAFETY: the caller's promise; input and output do not touch.
    let (siv, aad, nonce, data, tag) = unsafe {
        ptr::copy_nonoverlapping(message.input, message.output, message.len);
        (
            &mut *message.siv,
            slice::from_raw_parts(message.aad, message.aad_len),
            slice::from_raw_parts(message.nonce, message.nonce_len),
            slice::from_raw_parts_mut(message.output, message.len),
            &mut *message.tag.cast::<[u8; 16]>(),
        )
    };
    let headers = [aad, nonce];
    let headers = &headers[..if nonce.is_empty() { 1 } else { 2 }];
    if seals {
        let made = match siv {
            Siv::Aes128(siv) => siv.encrypt_inout_detached(headers, data.into()),
            Siv::Aes256(siv) => siv.encrypt_inout_detached(headers, data.into()),
        };
        return made.map(|made| tag.copy_from_slice(&made)).is_ok();
    }
    let expected = (*tag).into();
    match siv {
        Siv::Aes128(siv) => siv.decrypt_inout_detached(headers, data.into(), &expected).is_ok(),
        Siv::Aes256(siv) => siv.decrypt_inout_detached(headers, data.into(), &expected).is_ok(),
    }
}
