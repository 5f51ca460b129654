//! RustCrypto's own crates as an engine, as a program would use them one value at a time: `aes-siv` for AES-SIV, `fpe`
//! for FF1. Schedules are made when a key is prepared; `aes-siv` works on one object for a key and queue, `fpe` takes
//! and returns a vector of numerals for every value, which its interface asks for.

use std::fmt;

use aes::{Aes128, Aes192, Aes256};
use aes_siv::KeyInit;
use aes_siv::siv::CmacSiv;
use ciphermill_contract::engine::Kernel;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, AesSize, lists};
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm,
    KeyMaterial, OpStatus, PreparedKey, QueueHint, Reason, Result, Suite,
};
use fpe::ff1::{FF1, FlexibleNumeralString};
use zeroize::Zeroizing;

use crate::ops::{self, RawOp};
use crate::token::{Cells, QUEUES_MAX, Token};

/// What these crates run here: SIV with the key sizes that `aes-siv` has, and FF1.
pub const CAPABILITIES: &[Capability] = &[
    Capability::new(SIV, Cost::new(50.0, 180.0, 2.0)),
    Capability::new(&lists::FF1, Cost::new(50.0, 2500.0, 20.0)).variable_time(),
];

const SIV: &[Suite] = &[Suite::Aead(Aead::AesSiv(AesSize::Aes128)), Suite::Aead(Aead::AesSiv(AesSize::Aes256))];

/// The peer.
pub struct RustCrypto {
    info: EngineInfo,
}

impl fmt::Debug for RustCrypto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RustCrypto")
    }
}

/// SIV under one key.
enum Siv {
    Aes128(CmacSiv<Aes128>),
    Aes256(CmacSiv<Aes256>),
}

/// FF1 under one key and radix.
enum Ff1 {
    Aes128(FF1<Aes128>),
    Aes192(FF1<Aes192>),
    Aes256(FF1<Aes256>),
}

/// What a key became.
enum State {
    Siv { suite: Suite, key: Zeroizing<Vec<u8>>, cells: Cells<Siv> },
    Fpe { suite: Suite, radix: u32, ff1: Box<Ff1> },
}

impl RustCrypto {
    /// Opens the peer; it needs nothing of the machine.
    pub fn new() -> RustCrypto {
        let info = EngineInfo {
            name: "rustcrypto",
            kind: EngineKind::Peer,
            version: "aes-siv 0.8, fpe 0.7".to_owned(),
            parallelism: QUEUES_MAX,
            kernels: vec![Kernel { family: "", name: "rustcrypto".to_owned() }],
        };
        RustCrypto { info }
    }
}

impl Default for RustCrypto {
    fn default() -> RustCrypto {
        RustCrypto::new()
    }
}

impl Engine for RustCrypto {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        if key.form != KeyForm::Secret {
            return Err(Error::key(suite, KeyProblem::Form));
        }
        let wrong_length = || Error::key(suite, KeyProblem::Length);
        let state = match suite {
            Suite::Aead(Aead::AesSiv(_)) if SIV.contains(&suite) => {
                siv(suite, key.bytes).ok_or_else(wrong_length)?;
                State::Siv { suite, key: Zeroizing::new(key.bytes.to_vec()), cells: Cells::new() }
            }
            Suite::Fpe(parameters) => {
                if !suite.key_len().contains(key.bytes.len()) {
                    return Err(wrong_length());
                }
                let (bytes, radix) = (key.bytes, parameters.radix);
                let ff1 = match parameters.size {
                    AesSize::Aes128 => FF1::new(bytes, radix).map(Ff1::Aes128),
                    AesSize::Aes192 => FF1::new(bytes, radix).map(Ff1::Aes192),
                    AesSize::Aes256 => FF1::new(bytes, radix).map(Ff1::Aes256),
                };
                let ff1 = ff1.map_err(|_| Error::key(suite, KeyProblem::Parameters))?;
                State::Fpe { suite, radix, ff1: Box::new(ff1) }
            }
            _ => return Err(Error::key(suite, KeyProblem::Parameters)),
        };
        Ok(PreparedKey::new(state))
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(Queue { token: Token::take()? }))
    }
}

fn siv(suite: Suite, key: &[u8]) -> Option<Siv> {
    match suite {
        Suite::Aead(Aead::AesSiv(AesSize::Aes128)) => CmacSiv::new_from_slice(key).ok().map(Siv::Aes128),
        Suite::Aead(Aead::AesSiv(AesSize::Aes256)) => CmacSiv::new_from_slice(key).ok().map(Siv::Aes256),
        _ => None,
    }
}

/// A queue: works on the caller's thread.
struct Queue {
    token: Token,
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction, token) = (batch.suite(), batch.direction(), &mut self.token);
        ops::for_each(batch, |op| one(token, op, suite, direction).unwrap_or(OpStatus::EngineFault));
    }
}

#[inline]
fn one(token: &mut Token, op: &mut RawOp<'_>, wanted: Suite, direction: Direction) -> Option<OpStatus> {
    let state = op.key?.state::<State>()?;
    match state {
        State::Siv { suite, key, cells } if *suite == wanted => {
            let siv = cells.reach(token, direction, || siv(wanted, key))?;
            Some(seal_or_open(siv, op, direction))
        }
        State::Fpe { suite, radix, ff1 } if *suite == wanted => Some(permute(ff1, op, *radix, direction)),
        _ => None,
    }
}

fn seal_or_open(siv: &mut Siv, op: &mut RawOp<'_>, direction: Direction) -> OpStatus {
    if !std::ptr::eq(op.src, op.dst) {
        // SAFETY: both places hold `len` bytes and do not touch, as `RawOp` says of places that are not the same.
        unsafe { std::ptr::copy_nonoverlapping(op.src, op.dst, op.len) };
    }
    // SAFETY: `dst` holds `len` bytes that nothing else refers to while this operation runs.
    let data = unsafe { std::slice::from_raw_parts_mut(op.dst, op.len) };
    let Ok(tag) = <&mut [u8; 16]>::try_from(&mut *op.tag) else { return OpStatus::EngineFault };
    // The reference's order: the additional data are one component, the IV, when present, the last one.
    let headers = [op.aad, &op.iv[..op.iv_len]];
    let headers = &headers[..if op.iv_len == 0 { 1 } else { 2 }];
    match direction {
        Direction::Encrypt => {
            let sealed = match siv {
                Siv::Aes128(siv) => siv.encrypt_inout_detached(headers, data.into()),
                Siv::Aes256(siv) => siv.encrypt_inout_detached(headers, data.into()),
            };
            sealed.map_or(OpStatus::EngineFault, |made| {
                tag.copy_from_slice(&made);
                OpStatus::Done
            })
        }
        Direction::Decrypt => {
            let expected = (*tag).into();
            let opened = match siv {
                Siv::Aes128(siv) => siv.decrypt_inout_detached(headers, data.into(), &expected),
                Siv::Aes256(siv) => siv.decrypt_inout_detached(headers, data.into(), &expected),
            };
            if opened.is_ok() { OpStatus::Done } else { OpStatus::AuthFailed }
        }
    }
}

fn permute(ff1: &Ff1, op: &mut RawOp<'_>, radix: u32, direction: Direction) -> OpStatus {
    // SAFETY: `len` bytes may be read; the output, if it is the same place, is written below only.
    let input = unsafe { std::slice::from_raw_parts(op.src, op.len) };
    let numerals: Vec<u16> = input.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    if numerals.iter().any(|numeral| u32::from(*numeral) >= radix) {
        return OpStatus::BadInput(Reason::NumeralOutOfRange);
    }
    let numerals = FlexibleNumeralString::from(numerals);
    let permuted = match (ff1, direction) {
        (Ff1::Aes128(ff1), Direction::Encrypt) => ff1.encrypt(op.aad, &numerals),
        (Ff1::Aes192(ff1), Direction::Encrypt) => ff1.encrypt(op.aad, &numerals),
        (Ff1::Aes256(ff1), Direction::Encrypt) => ff1.encrypt(op.aad, &numerals),
        (Ff1::Aes128(ff1), Direction::Decrypt) => ff1.decrypt(op.aad, &numerals),
        (Ff1::Aes192(ff1), Direction::Decrypt) => ff1.decrypt(op.aad, &numerals),
        (Ff1::Aes256(ff1), Direction::Decrypt) => ff1.decrypt(op.aad, &numerals),
    };
    let Ok(permuted) = permuted else { return OpStatus::EngineFault };
    let permuted: Vec<u16> = permuted.into();
    for (index, numeral) in permuted.iter().enumerate().take(op.len / 2) {
        let bytes = numeral.to_le_bytes();
        // SAFETY: `dst` holds `len` bytes, and pair `index` ends within them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), op.dst.add(2 * index), 2) };
    }
    OpStatus::Done
}
