//! Calls of the C library with whatever structures a program may pass. Pointers are null, or lead into a buffer whose end no
//! length reaches beyond, unless it is one that no memory has: what is left cannot be checked by anybody.
#![allow(unsafe_code, reason = "calls of the C interface")]

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

use ciphermill_c::*;
use ciphermill_contract::Suite;

use crate::reader::Reader;

/// Bytes of each buffer, and of what must stay as it is behind it.
const LEN: usize = 1024;
const BEHIND: usize = 64;

/// A mill with the reference engine, a key in it, and all suites.
struct Opened {
    mill: usize,
    key: ciphermill_key,
    suites: Vec<ciphermill_suite>,
}

static OPENED: LazyLock<Opened> = LazyLock::new(|| {
    let options = ciphermill_options {
        engines: c"reference".as_ptr(),
        workers: CIPHERMILL_NONE,
        legacy: 1,
        ..ciphermill_options::default()
    };
    let (mut mill, mut key, bytes) = (null_mut(), NO_KEY, [7; 16]);
    // SAFETY: valid pointers with their lengths.
    unsafe {
        assert_eq!(ciphermill_mill_open(&mut mill, &options), CIPHERMILL_OK);
        let imported = ciphermill_key_import(mill, &mut key, CIPHERMILL_KEY_SECRET, bytes.as_ptr(), 16, null());
        assert_eq!(imported, CIPHERMILL_OK);
    }
    let number = |suite: Suite| {
        let (mut number, name) = (0, CString::new(suite.to_string()).expect("a name"));
        // SAFETY: valid pointers.
        assert_eq!(unsafe { ciphermill_suite_by_name(&mut number, name.as_ptr()) }, CIPHERMILL_OK);
        number
    };
    let is_quick = |suite: &Suite| !suite.is_public_key() && !matches!(suite, Suite::Generate(_));
    Opened { mill: mill as usize, key, suites: Suite::all().filter(is_quick).map(number).collect() }
});

const NO_KEY: ciphermill_key = ciphermill_key { slot: 0, generation: 0 };

/// A caller's memory.
#[repr(align(64))]
struct Memory([u8; LEN + BEHIND]);

impl Memory {
    fn new(from: &mut Reader<'_>) -> Box<Memory> {
        let mut memory = Box::new(Memory([from.byte(); LEN + BEHIND]));
        let count = usize::from(from.byte());
        let bytes = from.bytes(count);
        memory.0[..bytes.len()].copy_from_slice(bytes);
        memory.0[LEN..].fill(0xa5);
        memory
    }

    fn at(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        assert!(self.0[LEN..].iter().all(|byte| *byte == 0xa5), "written beyond the end");
    }
}

/// A pointer and a length of items of `size` bytes: within the memory, null, misaligned, or of a length that nothing has.
fn place(from: &mut Reader<'_>, memory: &mut Memory, size: usize) -> (*mut u8, usize) {
    let offset = usize::from(from.word()) % (LEN + 1);
    let offset = if from.byte() & 7 == 0 { offset } else { offset & !63 };
    let fits = (LEN - offset) / size;
    match from.byte() {
        0 => (null_mut(), fits),
        1 => (memory.at(), usize::MAX / size),
        2 => (memory.at(), usize::MAX),
        3 => (null_mut(), 0),
        len => (memory.at().wrapping_add(offset), usize::from(len).min(fits)),
    }
}

fn suite(from: &mut Reader<'_>) -> ciphermill_suite {
    if from.byte() & 15 == 0 {
        u64::from(from.word()) | u64::from(from.word()) << 32
    } else {
        from.pick(&OPENED.suites)
    }
}

/// # Panics
/// When a call panics, returns what is no status, or writes where it must not.
pub fn run(bytes: &[u8]) {
    let mut from = Reader(bytes);
    let (mut one, mut two, mut three) = (Memory::new(&mut from), Memory::new(&mut from), Memory::new(&mut from));
    let mut memories = [&mut *one, &mut *two, &mut *three];
    while !from.is_empty() {
        let status = match from.byte() % 6 {
            0 => batch(&mut from, &mut memories),
            1 => columns(&mut from, &mut memories),
            2 => message(&mut from, &mut memories),
            3 => digests(&mut from, &mut memories),
            4 => parts(&mut from, &mut memories),
            _ => texts(&mut from, &mut memories),
        };
        assert!((CIPHERMILL_OK..=CIPHERMILL_TOO_SHORT).contains(&status) && status != CIPHERMILL_PANICKED, "{status}");
    }
}

fn mill() -> *mut ciphermill_mill {
    OPENED.mill as *mut ciphermill_mill
}

fn batch(from: &mut Reader<'_>, memories: &mut [&mut Memory; 3]) -> ciphermill_status {
    let which = usize::from(from.byte() % 2);
    let (ops, ops_len) = place(from, memories[0], size_of::<ciphermill_op>());
    let (arena, arena_len) = place(from, memories[which], 1);
    let batch = ciphermill_batch {
        suite: suite(from),
        ops: ops.cast(),
        ops_len,
        arena,
        arena_len,
        direction: u32::from(from.byte() % 3),
        reserved: 0,
    };
    let mut options = ciphermill_run_options::default();
    options.engines = u32::from(from.byte() & 1) * u32::from(from.word());
    // SAFETY: an open handle, and memory as `place` says.
    unsafe { ciphermill_run(mill(), null_mut(), &batch, &options) }
}

fn columns(from: &mut Reader<'_>, memories: &mut [&mut Memory; 3]) -> ciphermill_status {
    // What has no length of its own is as long as `count` says.
    let count = usize::from(from.byte() % 8);
    let start = |from: &mut Reader<'_>, memory: &mut Memory| match from.byte() {
        0 => null_mut(),
        at => memory.at().wrapping_add(usize::from(at & 3) * 64),
    };
    let extents = |from: &mut Reader<'_>, memory: &mut Memory| ciphermill_extents {
        kind: u32::from(from.byte() % 4),
        reserved: 0,
        offsets: start(from, memory).cast_const().cast(),
        len: usize::from(from.byte()),
        stride: usize::from(from.word()),
    };
    let which = usize::from(from.byte() % 3);
    let (input, input_len) = place(from, memories[0], 1);
    let (output, output_len) = place(from, memories[which], 1);
    let (aad, aad_len) = place(from, memories[2], 1);
    let (inputs, outputs, aads) = (extents(from, memories[2]), extents(from, memories[2]), extents(from, memories[2]));
    let mut columns = ciphermill_columns {
        suite: suite(from),
        direction: u32::from(from.byte() % 3),
        data: u32::from(from.byte() % 4),
        count,
        input,
        input_len,
        inputs,
        output,
        output_len,
        outputs,
        keys: &OPENED.key,
        keys_len: usize::from(from.byte() & 1),
        iv_kind: u32::from(from.byte() % 6),
        aad_kind: u32::from(from.byte() % 4),
        iv_len: usize::from(from.byte() % 32),
        aad,
        aad_len,
        aads,
        tag_len: usize::from(from.byte() % 72),
        tag_kind: u32::from(from.byte() % 5),
        ..ciphermill_columns::default()
    };
    columns.statuses = start(from, memories[1]);
    columns.ivs = start(from, memories[2]);
    columns.tags = start(from, memories[2]);
    // SAFETY: an open handle, and memory as said.
    unsafe { ciphermill_run_columns(mill(), null_mut(), &columns, null()) }
}

fn message(from: &mut Reader<'_>, memories: &mut [&mut Memory; 3]) -> ciphermill_status {
    let which = [0; 3].map(|_| usize::from(from.byte() % 3));
    let (iv, iv_len) = place(from, memories[2], 1);
    let (aad, aad_len) = place(from, memories[2], 1);
    let (input, input_len) = place(from, memories[which[0]], 1);
    let (output, output_len) = place(from, memories[which[1]], 1);
    let (tag, tag_len) = place(from, memories[which[2]], 1);
    let mut message =
        ciphermill_message { iv, iv_len, aad, aad_len, input, input_len, output, output_len, tag, tag_len };
    let (suite, direction) = (suite(from), u32::from(from.byte() % 3));
    let key = if from.byte() & 7 == 0 { NO_KEY } else { OPENED.key };
    let mut bound = null_mut();
    // SAFETY: an open handle, and memory as `place` says.
    unsafe {
        if from.byte() & 1 == 0 {
            return ciphermill_run_one(mill(), &mut message, suite, direction, key);
        }
        let opened = ciphermill_bound_open(mill(), &mut bound, suite, direction, key);
        if opened != CIPHERMILL_OK {
            return opened;
        }
        let status = ciphermill_bound_run(bound, &mut message);
        assert_eq!(ciphermill_bound_close(bound), CIPHERMILL_OK);
        status
    }
}

fn digests(from: &mut Reader<'_>, memories: &mut [&mut Memory; 3]) -> ciphermill_status {
    let mut starts = [null(); 4];
    let mut lens = [0; 4];
    for (start, len) in starts.iter_mut().zip(&mut lens) {
        let (at, bytes) = place(from, memories[0], 1);
        (*start, *len) = (at.cast_const(), bytes);
    }
    let which = usize::from(from.byte() % 2);
    let (digests, digests_len) = place(from, memories[which], 1);
    let (suite, count) = (suite(from), usize::from(from.byte() % 5));
    let mut digest = null_mut();
    // SAFETY: open handles, and memory as `place` says.
    unsafe {
        if from.byte() & 1 == 0 {
            let (starts, lens) = (starts.as_ptr(), lens.as_ptr());
            return ciphermill_digest_many(mill(), digests, digests_len, suite, starts, lens, count);
        }
        let begun = ciphermill_digest_init(mill(), &mut digest, suite);
        if begun != CIPHERMILL_OK {
            return begun;
        }
        for (start, len) in starts.iter().zip(lens) {
            ciphermill_digest_update(digest, *start, len);
        }
        let status = ciphermill_digest_final(digest, digests, digests_len);
        assert_eq!(ciphermill_digest_close(digest), CIPHERMILL_OK);
        status
    }
}

/// A message in parts, whose calls come in any order; the last answer counts.
fn parts(from: &mut Reader<'_>, memories: &mut [&mut Memory; 3]) -> ciphermill_status {
    let (suite, direction) = (suite(from), u32::from(from.byte() % 3));
    let key = if from.byte() & 7 == 0 { NO_KEY } else { OPENED.key };
    let open = if from.byte() & 1 == 0 { ciphermill_multi_part_open } else { ciphermill_multi_part_open_unverified };
    let mut parts = null_mut();
    // SAFETY: open handles, and memory as `place` says.
    unsafe {
        let mut status = open(mill(), &mut parts, suite, direction, key);
        if status != CIPHERMILL_OK {
            return status;
        }
        for _ in 0..from.byte() % 8 {
            let which = usize::from(from.byte() % 3);
            let (first, first_len) = place(from, memories[0], 1);
            let (second, second_len) = place(from, memories[which], 1);
            status = match from.byte() % 5 {
                0 => ciphermill_multi_part_begin(parts, first, first_len),
                1 => ciphermill_multi_part_absorb(parts, first, first_len),
                2 => ciphermill_multi_part_transform(parts, second, first, first_len.min(second_len)),
                3 => ciphermill_multi_part_finish(parts, first, first_len),
                _ => {
                    let mut copy = null_mut();
                    let copied = ciphermill_multi_part_copy(parts, &mut copy);
                    if copied == CIPHERMILL_OK {
                        assert_eq!(ciphermill_multi_part_close(std::mem::replace(&mut parts, copy)), CIPHERMILL_OK);
                    }
                    copied
                }
            };
        }
        assert_eq!(ciphermill_multi_part_close(parts), CIPHERMILL_OK);
        status
    }
}

fn texts(from: &mut Reader<'_>, memories: &mut [&mut Memory; 3]) -> ciphermill_status {
    let len = usize::from(from.byte() % 40);
    let name: Vec<u8> = from.bytes(len).iter().copied().filter(|byte| *byte != 0).collect();
    let (name, mut found, mut key) = (CString::new(name).unwrap_or_default(), 0, NO_KEY);
    let (at, mut room) = place(from, memories[1], 1);
    let number = suite(from);
    // SAFETY: an open handle, and memory as `place` says.
    unsafe {
        match from.byte() % 4 {
            0 => ciphermill_suite_by_name(&mut found, name.as_ptr()),
            // Only what is written is as long as said.
            1 if room <= LEN => ciphermill_suite_name(at.cast(), &mut room, number),
            2 if room <= LEN => ciphermill_reason_text(at.cast(), &mut room, from.byte()),
            _ => {
                let form = u32::from(from.byte() % 4);
                let imported = ciphermill_key_import(mill(), &mut key, form, at, room, null());
                if imported == CIPHERMILL_OK {
                    assert_eq!(ciphermill_key_destroy(mill(), key), CIPHERMILL_OK);
                }
                imported
            }
        }
    }
}

/// Inputs to begin with: one for each kind of call.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    (0..6_u8)
        .map(|call| {
            let mut seed = vec![0, 64];
            seed.extend([0; 64]);
            seed.extend([0, 0, 0, 0, call]);
            seed.extend((1..60).map(|byte| byte * 4 + call));
            seed
        })
        .collect()
}
