//! CBC, ECB and XTS beside those of `default`, call by call: the same bytes, the same lengths, the same refusals.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

mod support;

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foreign_types::ForeignTypeRef;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;

use support::pair::{Pair, Random, begin, fetch};

#[repr(C)]
struct Param {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

unsafe extern "C" {
    fn EVP_Cipher(context: *mut openssl_sys::EVP_CIPHER_CTX, out: *mut u8, input: *const u8, len: c_uint) -> c_int;
    fn EVP_CIPHER_CTX_get0_cipher(context: *const openssl_sys::EVP_CIPHER_CTX) -> *const openssl_sys::EVP_CIPHER;
    fn EVP_CIPHER_get_flags(cipher: *const openssl_sys::EVP_CIPHER) -> c_ulong;
    fn EVP_CIPHER_CTX_set_params(context: *mut openssl_sys::EVP_CIPHER_CTX, params: *const Param) -> c_int;
    fn EVP_CIPHER_CTX_get_params(context: *mut openssl_sys::EVP_CIPHER_CTX, params: *mut Param) -> c_int;
}

/// With IV and padding, or padding alone.
const BLOCKS: [(&str, usize, usize); 6] = [
    ("AES-128-CBC", 16, 16),
    ("AES-192-CBC", 24, 16),
    ("AES-256-CBC", 32, 16),
    ("AES-128-ECB", 16, 0),
    ("AES-192-ECB", 24, 0),
    ("AES-256-ECB", 32, 0),
];

const XTS: [(&str, usize); 2] = [("AES-128-XTS", 32), ("AES-256-XTS", 64)];

/// Loads the provider, and keeps other tests from counting messages meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    support::load();
    one
}

/// Parts that were in the mill.
fn parts() -> u64 {
    support::count(c"ciphermill-messages")
}

fn codes(stack: &ErrorStack) -> Vec<c_ulong> {
    stack.errors().iter().map(openssl::error::Error::code).collect()
}

/// An update with as much room as it may need: what came out, or the errors.
fn updated(context: &mut CipherCtx, input: &[u8]) -> Result<Vec<u8>, Vec<c_ulong>> {
    let mut output = vec![0; input.len() + 16];
    let len = context.cipher_update(input, Some(&mut output)).map_err(|stack| codes(&stack))?;
    output.truncate(len);
    Ok(output)
}

fn finished(context: &mut CipherCtx) -> Result<Vec<u8>, Vec<c_ulong>> {
    let mut output = vec![0; 32];
    let len = context.cipher_final(&mut output).map_err(|stack| codes(&stack))?;
    output.truncate(len);
    Ok(output)
}

/// The IV that was given last, as it is told.
fn first_iv(context: &mut CipherCtx, len: usize) -> (c_int, Vec<u8>) {
    let mut iv = vec![0; len];
    let end = Param { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 };
    let data = iv.as_mut_ptr().cast();
    let mut params = [Param { key: c"iv".as_ptr(), data_type: 5, data, data_size: len, return_size: 0 }, end];
    // SAFETY: a context with a cipher, and a parameter with room for its IV.
    let done = unsafe { EVP_CIPHER_CTX_get_params(context.as_ptr(), params.as_mut_ptr()) };
    (done, iv)
}

/// An update from one place of a buffer to another, with room for a block behind it.
fn moved(context: &mut CipherCtx, buffer: &mut [u8], (from, to): (usize, usize), len: usize) -> Option<usize> {
    assert!(from + len <= buffer.len() && to + len + 16 <= buffer.len());
    let mut written = 0;
    // SAFETY: places within the buffer, as was asserted.
    let done = unsafe {
        let start = buffer.as_mut_ptr();
        openssl_sys::EVP_CipherUpdate(context.as_ptr(), start.add(to), &mut written, start.add(from), len as c_int)
    };
    // Errors that nobody looks at would be found behind the next call.
    ErrorStack::get();
    (done == 1).then_some(written as usize)
}

#[test]
fn whatever_is_called_says_what_default_says() {
    let _alone = alone();
    let (mut random, before) = (Random(11), parts());
    for round in 0..400 {
        let (name, key_len, iv_len) = BLOCKS[round % BLOCKS.len()];
        let (key, iv) = (random.bytes(key_len), random.bytes(iv_len));
        let iv = (iv_len != 0).then_some(&iv[..]);
        let encrypt = random.below(3) == 0;
        let mut pair = Pair::new(name, encrypt, Some(&key), iv);
        if random.below(2) == 0 {
            pair.padding(false);
        }
        for _ in 0..random.below(16) {
            match random.below(16) {
                0 => pair.copy(),
                1 => {
                    let iv = random.bytes(iv_len);
                    pair.begin(encrypt, None, (iv_len != 0).then_some(&iv[..]));
                }
                2 => pair.begin(encrypt, Some(&random.bytes(key_len)), None),
                3 => pair.begin(encrypt, Some(&key), None),
                // Another direction without a key for it, and back.
                4 => pair.begin(random.below(2) == 0, None, None),
                5 => pair.padding(random.below(2) == 0),
                6 => pair.place(),
                7 => {
                    pair.both("final", finished).ok();
                }
                8 => {
                    assert!(pair.both("nothing", |context| updated(context, b"")).is_ok());
                }
                9 => {
                    pair.both("IV", |context| first_iv(context, iv_len));
                }
                _ => {
                    let len = random.part_len();
                    let input = random.bytes(len);
                    pair.both("update", |context| updated(context, &input)).ok();
                }
            }
        }
        pair.place();
        pair.both("final", finished).ok();
    }
    assert!(parts() > before + 400, "parts were in the mill");
}

#[test]
fn messages_are_opened_and_wrong_padding_is_refused() {
    let _alone = alone();
    let (mut random, before) = (Random(12), parts());
    let mut refused = 0;
    for round in 0..200 {
        let (name, key_len, iv_len) = BLOCKS[round % BLOCKS.len()];
        let (key, iv) = (random.bytes(key_len), random.bytes(iv_len));
        let iv = (iv_len != 0).then_some(&iv[..]);
        let padded = random.below(4) != 0;
        let len = random.part_len();
        let text = random.bytes(if padded { len } else { len / 16 * 16 });
        let mut pair = Pair::new(name, true, Some(&key), iv);
        pair.padding(padded);
        let mut sealed = pair.both("sealed", |context| updated(context, &text)).expect("taken");
        sealed.extend(pair.both("sealed", finished).expect("padded"));
        let broken = random.below(3) == 0 && !sealed.is_empty();
        if broken {
            *sealed.last_mut().expect("a block") ^= 1;
        }
        pair.begin(false, Some(&key), iv);
        pair.padding(padded);
        let (mut opened, mut at) = (Vec::new(), 0);
        while at < sealed.len() {
            let here = (1 + random.part_len()).min(sealed.len() - at);
            if random.below(4) == 0 {
                pair.copy();
            }
            opened.extend(pair.both("opened", |context| updated(context, &sealed[at..at + here])).expect("taken"));
            at += here;
        }
        match pair.both("end", finished) {
            Ok(end) => {
                opened.extend(end);
                assert!(broken || opened == text);
            }
            Err(_) => {
                assert!(broken && padded);
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "padding was wrong");
    assert!(parts() > before + 200, "parts were in the mill");
}

#[test]
fn buffers_may_be_the_same_or_overlap() {
    let _alone = alone();
    let mut random = Random(13);
    for round in 0..120 {
        let (name, key_len, iv_len) = BLOCKS[round % BLOCKS.len()];
        let (key, iv) = (random.bytes(key_len), random.bytes(iv_len));
        let mut pair = Pair::new(name, round % 2 == 0, Some(&key), (iv_len != 0).then_some(&iv[..]));
        pair.padding(random.below(2) == 0);
        // The second part may follow bytes that were held back, so that even one place is two that overlap.
        for _ in 0..2 {
            let len = [0, 15, 16, 64, 96, 1000, 4096, 70_000][random.below(8)];
            let buffer = random.bytes(len + 300);
            let places = [(0, 0), (0, 0), (0, 16), (16, 0), (0, 7), (7, 0), (200, 0), (0, 200)][random.below(8)];
            pair.both("moved", |context| {
                let mut buffer = buffer.clone();
                let written = moved(context, &mut buffer, places, len);
                // What lies behind is nobody's.
                buffer.truncate(places.1 + written.unwrap_or(0));
                (written, buffer)
            });
        }
        pair.place();
    }
}

#[test]
fn long_parts_are_in_the_mill_and_ends_are_not() {
    let _alone = alone();
    let own = |name: &str, key_len, encrypt, len: usize, places| {
        let key: Vec<u8> = (0..key_len).collect();
        let mut context = CipherCtx::new().expect("a context");
        let iv = (!name.ends_with("ECB")).then_some(&[1; 16][..]);
        begin(&mut context, Some(&fetch(name, "ciphermill")), encrypt, Some(&key), iv).expect("begun");
        let mut buffer = vec![5; 300_000];
        let before = parts();
        moved(&mut context, &mut buffer, places, len).expect("taken");
        parts() - before
    };
    for (name, key_len) in BLOCKS.map(|(name, key_len, _)| (name, key_len as u8)) {
        for encrypt in [false, true] {
            let is_own = u64::from(!encrypt || name.ends_with("ECB"));
            // A block before the middle, one in it, one behind it.
            for (len, count) in [(47, 0), (48, is_own), (1000, is_own), (100_000, is_own)] {
                let counts =
                    [(0, 0), (0, 150_000), (0, len / 2)].map(|places| own(name, key_len, encrypt, len, places));
                // In place, apart, overlapping.
                assert_eq!(counts, [count, count, 0], "{name}, {len} bytes");
            }
        }
    }
}

#[test]
fn one_call_is_left_to_default() {
    let _alone = alone();
    let mut random = Random(14);
    for (name, key_len, iv_len) in BLOCKS {
        let (key, iv) = (random.bytes(key_len), random.bytes(iv_len));
        let mut pair = Pair::new(name, false, Some(&key), (iv_len != 0).then_some(&iv[..]));
        let input = random.bytes(4096);
        for _ in 0..3 {
            pair.both("update", |context| updated(context, &input)).expect("taken");
            pair.both("call", |context| {
                let mut out = vec![0; input.len()];
                // SAFETY: as many bytes in both buffers.
                let done =
                    unsafe { EVP_Cipher(context.as_ptr(), out.as_mut_ptr(), input.as_ptr(), input.len() as c_uint) };
                (done, out)
            });
            pair.place();
        }
    }
}

#[test]
fn records_of_tls_are_left_to_default() {
    let _alone = alone();
    let mut random = Random(15);
    for len in [16 + 20, 100, 3000, 16_384] {
        let (key, iv, text) = (random.bytes(16), random.bytes(16), random.bytes(len));
        let mut pair = Pair::new("AES-128-CBC", true, Some(&key), Some(&iv));
        pair.both("parameters", set_tls);
        let sealed = pair.both("sealed", |context| in_place(context, &text)).expect("sealed");
        assert_eq!(sealed.len() % 16, 0);
        pair.begin(false, Some(&key), Some(&iv));
        let opened = pair.both("opened", |context| in_place(context, &sealed)).expect("opened");
        // Without explicit IV, MAC and padding; nothing is moved.
        assert_eq!(opened.len(), len - 16 - 20);
        assert!(pair.both("once more", |context| updated(context, &sealed)).is_err());
    }
}

fn set_tls(context: &mut CipherCtx) -> c_int {
    let (mut version, mut mac_len) = (0x0303 as c_uint, 20_usize);
    let number =
        |key: *const c_char, data: *mut c_void, data_size| Param { key, data_type: 2, data, data_size, return_size: 0 };
    let params = [
        number(c"tls-version".as_ptr(), ptr::from_mut(&mut version).cast(), size_of::<c_uint>()),
        number(c"tls-mac-size".as_ptr(), ptr::from_mut(&mut mac_len).cast(), size_of::<usize>()),
        number(ptr::null(), ptr::null_mut(), 0),
    ];
    // SAFETY: a context with a cipher, and numbers that outlive the call.
    unsafe { EVP_CIPHER_CTX_set_params(context.as_ptr(), params.as_ptr()) }
}

fn in_place(context: &mut CipherCtx, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = [bytes, &[0; 16]].concat();
    let len = moved(context, &mut buffer, (0, 0), bytes.len())?;
    buffer.truncate(len);
    Some(buffer)
}

#[test]
fn data_units_say_what_default_says() {
    let _alone = alone();
    let (mut random, before) = (Random(16), parts());
    for round in 0..200 {
        let (name, key_len) = XTS[round % 2];
        let (key, iv) = (random.bytes(key_len), random.bytes(16));
        let encrypt = random.below(2) == 0;
        // Some without an IV, which is refused.
        let mut pair = Pair::new(name, encrypt, Some(&key), (random.below(8) != 0).then_some(&iv[..]));
        for _ in 0..random.below(12) {
            match random.below(12) {
                0 => pair.copy(),
                1 | 2 => pair.begin(encrypt, None, Some(&random.bytes(16))),
                3 => pair.begin(encrypt, Some(&random.bytes(key_len)), None),
                4 => pair.begin(random.below(2) == 0, None, None),
                5 => {
                    // Of halves that are the same; the key before stays.
                    let half = random.bytes(key_len / 2);
                    pair.begin(encrypt, Some(&half.repeat(2)), Some(&iv));
                }
                6 => pair.place(),
                7 => {
                    let len = 16 + random.below(3000);
                    let text = random.bytes(len);
                    pair.both("in place", |context| in_place(context, &text));
                }
                8 => {
                    pair.both("final", finished).ok();
                }
                _ => {
                    // Also shorter than a block.
                    let len = random.part_len();
                    let input = random.bytes(len);
                    pair.both("unit", |context| updated(context, &input)).ok();
                }
            }
        }
    }
    assert!(parts() > before + 200, "data units were in the mill");
}

#[test]
fn what_is_told_of_a_cipher_is_what_default_tells() {
    let _alone = alone();
    for name in BLOCKS.map(|(name, ..)| name).into_iter().chain(XTS.map(|(name, _)| name)) {
        let told = |provider| {
            let cipher = fetch(name, provider);
            let mut context = CipherCtx::new().expect("a context");
            let (key, iv): (Vec<u8>, _) = ((0..cipher.key_length() as u8).collect(), vec![0; cipher.iv_length()]);
            begin(&mut context, Some(&cipher), true, Some(&key), (!iv.is_empty()).then_some(&iv[..])).expect("begun");
            // SAFETY: a context with a cipher.
            let flags = unsafe { EVP_CIPHER_get_flags(EVP_CIPHER_CTX_get0_cipher(context.as_ptr())) };
            (cipher.nid(), cipher.key_length(), cipher.iv_length(), cipher.block_size(), flags)
        };
        assert_eq!(told("ciphermill"), told("default"), "{name}");
    }
}
