//! Calls of ciphers in any order, with arguments that are right, wrong or missing: ours say what those of `default` say, in value, bytes and
//! reason.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

mod support;

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use foreign_types::ForeignTypeRef;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl_sys::{EVP_CIPHER, EVP_CIPHER_CTX};
use support::pair::Random;

unsafe extern "C" {
    fn EVP_CipherInit_ex2(
        context: *mut EVP_CIPHER_CTX,
        cipher: *const EVP_CIPHER,
        key: *const u8,
        iv: *const u8,
        encrypt: c_int,
        params: *const c_void,
    ) -> c_int;
    fn EVP_Cipher(context: *mut EVP_CIPHER_CTX, out: *mut u8, input: *const u8, len: c_uint) -> c_int;
    fn EVP_CIPHER_CTX_ctrl(context: *mut EVP_CIPHER_CTX, what: c_int, number: c_int, data: *mut c_void) -> c_int;
    fn EVP_CIPHER_CTX_get_updated_iv(context: *mut EVP_CIPHER_CTX, iv: *mut c_void, len: usize) -> c_int;
    fn EVP_CIPHER_CTX_get_num(context: *const EVP_CIPHER_CTX) -> c_int;
}

/// Controls of `openssl/evp.h`.
const SET_IV_LEN: c_int = 0x9;
const GET_TAG: c_int = 0x10;
const SET_TAG: c_int = 0x11;
const SET_IV_FIXED: c_int = 0x12;
const IV_GEN: c_int = 0x13;
const TLS1_AAD: c_int = 0x16;
const SET_IV_INV: c_int = 0x18;

/// Room behind what is read or written.
const ROOM: usize = 256;

/// Bytes of the longest IV that GCM takes.
const IV_ROOM: usize = 128;

/// Bytes of the longest key, that of AES-256-XTS.
const KEY_ROOM: usize = 64;

/// Where a part's output goes.
#[derive(Clone, Copy, Debug)]
enum Output {
    Elsewhere,
    InPlace,
    /// So many bytes before the input, which it overlaps.
    Before(usize),
    /// Nowhere, as for additional data.
    None,
}

/// Bytes, told by their number alone.
#[derive(Clone)]
struct Bytes(Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.0 == other.0
    }
}

/// One call.
#[derive(Clone, Debug)]
enum Call {
    Begin {
        key: Option<Bytes>,
        iv: Option<Bytes>,
        encrypt: c_int,
    },
    Update {
        input: Bytes,
        output: Output,
    },
    /// A part of no bytes that lies nowhere.
    Nothing,
    /// `EVP_Cipher`, which OpenSSL leaves unchecked.
    Unchecked {
        input: Bytes,
    },
    Finish,
    Control {
        what: c_int,
        number: c_int,
        data: Option<Bytes>,
    },
    KeyLen(usize),
    Padding(bool),
    Place,
    Copy,
}

/// What a call has answered.
#[derive(Debug, PartialEq)]
struct Said {
    result: c_int,
    bytes: Bytes,
    reason: Option<String>,
}

impl Said {
    fn of(result: c_int, bytes: Vec<u8>) -> Said {
        let reason = ErrorStack::get().errors().last().and_then(|error| error.reason().map(str::to_owned));
        let is_done = result > 0;
        Said { result, bytes: Bytes(if is_done { bytes } else { Vec::new() }), reason: reason.filter(|_| !is_done) }
    }
}

fn pointer(bytes: &Option<Bytes>) -> *const u8 {
    bytes.as_ref().map_or(ptr::null(), |bytes| bytes.0.as_ptr())
}

/// Makes a call with a context.
fn make(call: &Call, context: &mut CipherCtx) -> Said {
    let raw = context.as_ptr();
    match call {
        Call::Begin { key, iv, encrypt } => {
            // SAFETY: keys and IVs are as long as any that the context may read.
            let result =
                unsafe { EVP_CipherInit_ex2(raw, ptr::null(), pointer(key), pointer(iv), *encrypt, ptr::null()) };
            Said::of(result, Vec::new())
        }
        Call::Update { input, output } => update(raw, &input.0, *output),
        Call::Nothing => {
            let mut len = -1;
            // SAFETY: nothing is read or written.
            let result = unsafe { openssl_sys::EVP_CipherUpdate(raw, ptr::null_mut(), &mut len, ptr::null(), 0) };
            Said::of(result, len.to_le_bytes().to_vec())
        }
        Call::Unchecked { input: Bytes(input) } => {
            let mut out = vec![0; input.len() + ROOM];
            // Some modes read a whole block where the last one is a part: what follows the input has to be the same for both.
            let room = [input.as_slice(), &[0; ROOM]].concat();
            // SAFETY: more bytes than these may be read and written.
            let result = unsafe { EVP_Cipher(raw, out.as_mut_ptr(), room.as_ptr(), input.len() as c_uint) };
            out.truncate(usize::try_from(result).unwrap_or(0));
            Said::of(result, out)
        }
        Call::Finish => {
            let (mut out, mut len) = (vec![0; ROOM], 0);
            // SAFETY: there is room for a block.
            let result = unsafe { openssl_sys::EVP_CipherFinal(raw, out.as_mut_ptr(), &mut len) };
            out.truncate(len as usize);
            Said::of(result, out)
        }
        Call::Control { what, number, data } => {
            let mut data = data.clone().map(|data| data.0);
            let place = data.as_mut().map_or(ptr::null_mut(), |data| data.as_mut_ptr().cast());
            // SAFETY: the data is longer than what the control reads or writes.
            let result = unsafe { EVP_CIPHER_CTX_ctrl(raw, *what, *number, place) };
            Said::of(result, data.unwrap_or_default())
        }
        Call::KeyLen(len) => Said::of(c_int::from(context.set_key_length(*len).is_ok()), Vec::new()),
        Call::Padding(is_there) => {
            context.set_padding(*is_there);
            Said::of(1, Vec::new())
        }
        Call::Place => {
            let mut iv = vec![0; 16];
            // SAFETY: there is room for the IV.
            let (result, number) = unsafe {
                (EVP_CIPHER_CTX_get_updated_iv(raw, iv.as_mut_ptr().cast(), iv.len()), EVP_CIPHER_CTX_get_num(raw))
            };
            iv.push(number as u8);
            Said::of(result, iv)
        }
        Call::Copy => {
            let mut copy = CipherCtx::new().expect("a context");
            let result = copy.copy(context).is_ok();
            if result {
                *context = copy;
            }
            Said::of(c_int::from(result), Vec::new())
        }
    }
}

fn update(raw: *mut EVP_CIPHER_CTX, input: &[u8], output: Output) -> Said {
    let shift = match output {
        Output::Before(shift) => shift,
        _ => 0,
    };
    let mut room = vec![0; shift + input.len() + ROOM];
    room[shift..shift + input.len()].copy_from_slice(input);
    let mut elsewhere = vec![0; input.len() + ROOM];
    let place = room.as_mut_ptr();
    let out = match output {
        Output::Elsewhere => elsewhere.as_mut_ptr(),
        Output::InPlace | Output::Before(_) => place,
        Output::None => ptr::null_mut(),
    };
    let mut len = 0;
    // SAFETY: as many bytes may be read and written, at places that are apart, the same, or overlap.
    let result = unsafe { openssl_sys::EVP_CipherUpdate(raw, out, &mut len, place.add(shift), input.len() as c_int) };
    let written = match output {
        Output::Elsewhere => elsewhere,
        Output::InPlace | Output::Before(_) => room,
        Output::None => Vec::new(),
    };
    let mut bytes = written.get(..len as usize).unwrap_or_default().to_vec();
    bytes.extend(len.to_le_bytes());
    Said::of(result, bytes)
}

fn bytes(random: &mut Random, len: usize) -> Bytes {
    Bytes(random.bytes(len))
}

/// Lengths of parts, most of them where something ends.
fn part_len(random: &mut Random) -> usize {
    match random.below(5) {
        0 => 0,
        1 => random.of(&[1, 15, 16, 17, 31, 32, 127, 128, 511, 512, 513]),
        2 => random.below(100),
        3 => 16 * random.below(40),
        _ => random.below(5000),
    }
}

/// What a cipher makes of parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Counter,
    Gcm,
    /// Whole blocks, the last ones held back.
    Blocks,
}

/// The next call. Of what GCM draws at random when it encrypts nothing is compared, so that those calls are left out.
fn next_call(random: &mut Random, mode: Mode, encrypts: bool) -> Call {
    let is_gcm = mode == Mode::Gcm;
    match random.below(24) {
        // A block that is held back would be written over what is not read yet.
        // Nor has it a place where there is none.
        8 | 17..24 if mode == Mode::Blocks => {
            let len = part_len(random);
            match random.below(8) {
                0 => Call::Padding(random.below(2) == 0),
                _ => Call::Update { input: bytes(random, len), output: Output::Elsewhere },
            }
        }
        0 | 1 => Call::Begin {
            key: (random.below(3) == 0).then(|| bytes(random, KEY_ROOM)),
            iv: (random.below(4) != 0).then(|| bytes(random, IV_ROOM)),
            encrypt: -1,
        },
        // The other direction begins with an IV of its own.
        2 if !is_gcm || encrypts => Call::Begin {
            key: (random.below(2) == 0).then(|| bytes(random, KEY_ROOM)),
            iv: Some(bytes(random, IV_ROOM)),
            encrypt: random.of(&[0, 1, -1]),
        },
        3 | 4 => Call::Copy,
        5 | 6 => Call::Finish,
        7 => Call::Place,
        8 => Call::Nothing,
        9 => {
            let len = part_len(random);
            Call::Unchecked { input: bytes(random, len) }
        }
        10 => Call::KeyLen(random.of(&[0, 1, 16, 24, 32, 33, 1000])),
        11 | 12 => Call::Control {
            what: random.of(&[GET_TAG, SET_TAG]),
            number: random.of(&[-1, 0, 1, 4, 12, 15, 16, 17]),
            data: (random.below(5) != 0).then(|| bytes(random, ROOM)),
        },
        13 => Call::Control {
            what: SET_IV_LEN,
            number: random.of(&[-1, 0, 1, 7, 8, 12, 12, 12, 16, 128, 1000]),
            data: None,
        },
        14 => Call::Control { what: SET_IV_FIXED, number: -1, data: Some(bytes(random, ROOM)) },
        15 => Call::Control {
            what: random.of(&[IV_GEN, SET_IV_INV]),
            number: random.of(&[0, 8]),
            data: Some(bytes(random, ROOM)),
        },
        16 => Call::Control { what: TLS1_AAD, number: random.of(&[0, 12, 13, 14]), data: Some(bytes(random, ROOM)) },
        _ => {
            let len = part_len(random);
            let output = match random.below(6) {
                0 => Output::InPlace,
                1 => Output::Before(random.of(&[1, 16, 100])),
                2 if is_gcm => Output::None,
                _ => Output::Elsewhere,
            };
            let output = if mode == Mode::Blocks { Output::Elsewhere } else { output };
            Call::Update { input: bytes(random, len), output }
        }
    }
}

/// How a walk has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Alike,
    /// Ours refused what `default` does, since a message's IV may not be used on.
    Refused,
}

fn open(name: &str, provider: &str, encrypts: bool) -> CipherCtx {
    let cipher = Cipher::fetch(None, name, Some(&format!("provider={provider}"))).expect("a cipher");
    let mut context = CipherCtx::new().expect("a context");
    let cipher = Some(&*cipher);
    let begun =
        if encrypts { context.encrypt_init(cipher, None, None) } else { context.decrypt_init(cipher, None, None) };
    begun.expect("begun");
    context
}

/// Some calls, one after the other. In counter mode the answers are the same. A message of GCM in the mill may be refused where it is
/// misused, without a reason, and that is the end; what is not refused is right.
fn walk(name: &str, mode: Mode, seed: u64) -> Ended {
    let mut random = Random(seed);
    let encrypts = random.below(2) == 0;
    let (mut theirs, mut ours) = (open(name, "default", encrypts), open(name, "ciphermill", encrypts));
    let (key, iv) = (bytes(&mut random, KEY_ROOM), bytes(&mut random, IV_ROOM));
    // With an IV, since GCM would draw one; now and then without a key, which XTS of OpenSSL 3.0 does not survive.
    let has_key = name.ends_with("XTS") || random.below(8) != 0;
    let first = Call::Begin { key: has_key.then_some(key), iv: Some(iv), encrypt: -1 };
    let mut calls = vec![first];
    for step in 0..20 {
        let call = calls[step].clone();
        let (by_default, by_us) = (make(&call, &mut theirs), make(&call, &mut ours));
        if mode == Mode::Gcm && by_us.result <= 0 {
            return if by_default.result > 0 { Ended::Refused } else { Ended::Alike };
        }
        assert_eq!(by_us, by_default, "{name}, seed {seed}, encrypts: {encrypts}, calls: {calls:?}");
        calls.push(next_call(&mut random, mode, encrypts));
    }
    Ended::Alike
}

/// Walks of each test.
const WALKS: u64 = 6000;

#[test]
fn counter_mode_answers_as_default_whatever_it_is_asked() {
    support::load();
    for seed in 0..WALKS {
        walk(["AES-128-CTR", "AES-192-CTR", "AES-256-CTR"][(seed % 3) as usize], Mode::Counter, seed);
    }
    assert!(support::count(c"ciphermill-messages") > 100, "messages were in the mill");
}

#[test]
fn modes_of_blocks_answer_as_default_whatever_they_are_asked() {
    support::load();
    let names = ["AES-128-CBC", "AES-256-CBC", "AES-128-ECB", "AES-192-ECB", "AES-128-XTS", "AES-256-XTS"];
    for seed in 0..WALKS {
        walk(names[(seed % 6) as usize], Mode::Blocks, seed);
    }
    assert!(support::count(c"ciphermill-messages") > 100, "messages were in the mill");
}

#[test]
fn gcm_answers_as_default_or_refuses_whatever_it_is_asked() {
    support::load();
    let names = ["AES-128-GCM", "AES-192-GCM", "AES-256-GCM"];
    let walks = (0..WALKS).map(|seed| walk(names[(seed % 3) as usize], Mode::Gcm, seed));
    let refused = walks.filter(|ended| *ended == Ended::Refused).count();
    assert!(refused < WALKS as usize / 10, "ours refused what `default` does in {refused} of {WALKS} walks");
    assert!(support::count(c"ciphermill-messages") > 100, "messages were in the mill");
}
