//! AES key wrap, KW and KWP (NIST SP 800-38F; RFC 3394, RFC 5649).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::KeyWrap;
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use subtle::{Choice, ConstantTimeEq, ConstantTimeLess};
use zeroize::Zeroizing;

use crate::block::{Aes, aes};
use crate::engine::state;

/// Bytes of half a block, which keys are taken apart into.
const HALF: usize = 8;

/// KW's initial value (SP 800-38F, 6.2; RFC 3394, 2.2.3.1).
const KW_START: [u8; HALF] = [0xa6; HALF];

/// The first half of KWP's (SP 800-38F, 6.3; RFC 5649, 3); the key's length is the other.
const KWP_START: [u8; 4] = [0xa6, 0x59, 0x59, 0xa6];

/// The key that keys are wrapped by.
pub(crate) struct WrapKey(Aes);

impl WrapKey {
    /// # Errors
    /// `Length` when the bytes are not a key of the suite's size.
    pub(crate) fn new(wrap: KeyWrap, bytes: &[u8]) -> Result<WrapKey, KeyProblem> {
        let (KeyWrap::Kw(size) | KeyWrap::Kwp(size)) = wrap;
        aes(size, bytes).map(WrapKey)
    }

    /// W (SP 800-38F, 6.1, algorithm 1) in place: `halves` are the initial value and the padded key.
    fn wrap(&self, halves: &mut [[u8; HALF]]) {
        let Some((first, rest)) = halves.split_first_mut() else { return };
        let mut count = 0u64;
        for _ in 0..6 {
            for half in rest.iter_mut() {
                count += 1;
                let mut block = Zeroizing::new([0; 2 * HALF]);
                block[..HALF].copy_from_slice(first);
                block[HALF..].copy_from_slice(half);
                self.0.encrypt(&mut block);
                first.copy_from_slice(&block[..HALF]);
                half.copy_from_slice(&block[HALF..]);
                add(first, count);
            }
        }
    }

    /// The inverse of W (algorithm 2) in place.
    fn unwrap(&self, halves: &mut [[u8; HALF]]) {
        let Some((first, rest)) = halves.split_first_mut() else { return };
        let mut count = 6 * rest.len() as u64;
        for _ in 0..6 {
            for half in rest.iter_mut().rev() {
                let mut block = Zeroizing::new([0; 2 * HALF]);
                add(first, count);
                block[..HALF].copy_from_slice(first);
                block[HALF..].copy_from_slice(half);
                self.0.decrypt(&mut block);
                first.copy_from_slice(&block[..HALF]);
                half.copy_from_slice(&block[HALF..]);
                count -= 1;
            }
        }
    }

    /// Of KWP, an initial value and a key of half a block are one block by themselves (algorithm 5, step 5).
    fn one_block(&self, direction: Direction, halves: &mut [[u8; HALF]; 2]) {
        let mut block = Zeroizing::new(*halves.as_flattened().first_chunk().unwrap_or(&[0; 2 * HALF]));
        match direction {
            Direction::Encrypt => self.0.encrypt(&mut block),
            Direction::Decrypt => self.0.decrypt(&mut block),
        }
        halves.as_flattened_mut().copy_from_slice(block.as_slice());
    }

    fn run(&self, direction: Direction, halves: &mut [[u8; HALF]]) {
        match (<&mut [[u8; HALF]; 2]>::try_from(&mut *halves), direction) {
            (Ok(block), _) => self.one_block(direction, block),
            (Err(_), Direction::Encrypt) => self.wrap(halves),
            (Err(_), Direction::Decrypt) => self.unwrap(halves),
        }
    }
}

/// Adds a step's number to half a block, bit by bit.
fn add(half: &mut [u8; HALF], count: u64) {
    *half = (u64::from_be_bytes(*half) ^ count).to_be_bytes();
}

/// KW's initial value: the operation's IV, or the default one where it has none.
fn kw_start(iv: &[u8]) -> [u8; HALF] {
    iv.try_into().unwrap_or(KW_START)
}

/// Wraps or unwraps one operation's key.
pub(crate) fn process(wrap: KeyWrap, direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let Some(key) = state::<WrapKey>(buffers) else { return OpStatus::EngineFault };
    match direction {
        Direction::Encrypt => seal(key, wrap, buffers),
        Direction::Decrypt => open(key, wrap, buffers),
    }
}

fn seal(key: &WrapKey, wrap: KeyWrap, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let len = buffers.input_len;
    let data = &mut *buffers.data;
    if data.len() != len.next_multiple_of(HALF) + HALF {
        return OpStatus::EngineFault;
    }
    data.copy_within(..len, HALF);
    data[HALF + len..].fill(0);
    let (halves, _) = data.as_chunks_mut::<HALF>();
    halves[0] = match wrap {
        KeyWrap::Kw(_) => kw_start(buffers.iv),
        KeyWrap::Kwp(_) => kwp_start(len as u32),
    };
    key.run(Direction::Encrypt, halves);
    OpStatus::Done
}

fn open(key: &WrapKey, wrap: KeyWrap, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let (halves, _) = buffers.data.as_chunks_mut::<HALF>();
    key.run(Direction::Decrypt, halves);
    let Some((first, rest)) = halves.split_first() else { return OpStatus::EngineFault };
    let (is_right, len) = match wrap {
        KeyWrap::Kw(_) => (first.ct_eq(&kw_start(buffers.iv)), rest.len() * HALF),
        KeyWrap::Kwp(_) => padded_len(first, rest),
    };
    if !bool::from(is_right) {
        return OpStatus::AuthFailed;
    }
    buffers.data.copy_within(HALF..HALF + len, 0);
    buffers.output_len = len;
    OpStatus::Done
}

fn kwp_start(len: u32) -> [u8; HALF] {
    let mut start = [0; HALF];
    start[..4].copy_from_slice(&KWP_START);
    start[4..].copy_from_slice(&len.to_be_bytes());
    start
}

/// Whether the initial value is right, the length in it fits and the padding is of zeros (algorithm 6, steps 6 to 9), and that
/// length. Which of them is wrong shows in no branch.
fn padded_len(first: &[u8; HALF], rest: &[[u8; HALF]]) -> (Choice, usize) {
    let len = u64::from_be_bytes(*first) as u32;
    let room = (rest.len() * HALF) as u32;
    let mut is_right = first[..4].ct_eq(&KWP_START) & !room.ct_lt(&len) & (room - HALF as u32).ct_lt(&len);
    let padding = rest.last().map_or(&[][..], |last| last.as_slice());
    for (at, byte) in (room - HALF as u32..).zip(padding) {
        is_right &= at.ct_lt(&len) | byte.ct_eq(&0);
    }
    (is_right, (len as usize).min(room as usize))
}
