//! The shim's surface, as `shim.h` and `native.h` declare it.

use std::ffi::{c_char, c_int};
use std::mem::{offset_of, size_of};

use ciphermill_contract::Op;

/// `CM_WINDOW_MAX`: operations that one call takes at most.
pub(super) const WINDOW_MAX: usize = 255;

/// `enum cm_kind`.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Kind {
    Cipher = 0,
    Gcm,
    Ccm,
    ChaCha20Poly1305,
    Hmac,
    Sha,
    Cmac,
    Gmac,
    Poly1305,
    Chain,
}

/// `enum cm_cipher`.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Cipher {
    AesEcb = 0,
    AesCbc,
    AesCtr,
    DesCbc,
    TripleDesCbc,
}

/// `enum cm_status`, the part that is told or comes back.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Status {
    Pending = 0,
    Done = 1,
    AuthFailed = 2,
    Fault = 3,
    Skipped = 5,
}

/// `struct cm_program`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Program {
    pub(super) kind: u8,
    pub(super) cipher: u8,
    pub(super) digest: u8,
    pub(super) digest_len: u8,
    pub(super) cipher_key_len: u8,
    pub(super) decrypt: u8,
}

/// `struct cm_queue`, opaque.
#[repr(C)]
pub(super) struct Queue {
    private: [u8; 0],
}

/// `struct cm_key`, opaque.
#[repr(C)]
pub(super) struct Key {
    private: [u8; 0],
}

/// `enum cm_interface`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Interface {
    Jobs = 0,
    Filled,
    Prefilled,
    TwoBursts,
    Direct,
}

/// `struct cm_way`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Way {
    pub(super) interface: Interface,
    pub(super) unchecked: bool,
    pub(super) undrained: bool,
    pub(super) reserved: u8,
    pub(super) burst: u32,
}

/// `struct cm_native`, opaque.
#[repr(C)]
pub(super) struct Native {
    private: [u8; 0],
}

// The shim reads operations through a structure of its own; these are the places that it reads.
const _: () = assert!(
    size_of::<Op>() == 64
        && offset_of!(Op, iv) == 8
        && offset_of!(Op, input) == 24
        && offset_of!(Op, output) == 32
        && offset_of!(Op, tag) == 36
        && offset_of!(Op, aad) == 40
        && offset_of!(Op, tag_len) == 60
        && offset_of!(Op, iv_len) == 62
);
const _: () = assert!(size_of::<Program>() == 6 && size_of::<Way>() == 8);

unsafe extern "C" {
    pub(super) fn cm_queue_open(error: *mut c_int) -> *mut Queue;
    pub(super) fn cm_queue_close(queue: *mut Queue);
    pub(super) fn cm_arch_name(queue: *const Queue) -> *const c_char;
    pub(super) fn cm_version() -> *const c_char;
    pub(super) fn cm_error_text(error: c_int) -> *const c_char;
    pub(super) fn cm_key_new(
        queue: *mut Queue,
        program: *const Program,
        cipher_key: *const u8,
        mac_key: *const u8,
    ) -> *mut Key;
    pub(super) fn cm_key_free(key: *mut Key);
    pub(super) fn cm_window(program: *const Program) -> usize;
    pub(super) fn cm_run(
        queue: *mut Queue,
        program: *const Program,
        arena: *mut u8,
        ops: *const Op,
        keys: *const *const Key,
        status: *mut u8,
        count: usize,
    );
    pub(super) fn cm_native_new(
        program: *const Program,
        arena: *mut u8,
        ops: *const Op,
        keys: *const *const Key,
        count: usize,
    ) -> *mut Native;
    pub(super) fn cm_native_free(native: *mut Native);
    pub(super) fn cm_native_has(native: *const Native, way: *const Way) -> c_int;
    pub(super) fn cm_native_restart(native: *mut Native) -> c_int;
    pub(super) fn cm_native_run(native: *mut Native, way: *const Way) -> c_int;
    pub(super) fn cm_native_collect(native: *mut Native);
}
