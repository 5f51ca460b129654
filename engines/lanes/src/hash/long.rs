//! Outputs of SHAKE that are longer than what lanes hand over: one message after the other, in plain registers. Callers who ask
//! for them draw key streams and masks rather than digests, so that the output costs more than the message.

use ciphermill_contract::limits::TAG_LEN_MAX;
use zeroize::Zeroize;

use super::algorithms::{Algorithm, STATE_MAX, Sponge, State, Variant, permute};
use super::portable::Scalar;
use super::vector::{Isa, Words};
use crate::work::Work;

/// A word of the state.
type Word = <Scalar as Isa>::W64;

/// Ends the pending operations of SHAKE that ask for more bytes than the variant's digest has; leaves the others.
pub(super) fn run<const RATE: usize>(work: &mut Work<'_>, variant: Variant) {
    let usual = <Sponge<RATE> as Algorithm>::WORD * variant.words;
    let mut output = Vec::new();
    for index in 0..work.len() {
        let len = work.tag_len(index);
        if len <= usual || !work.is_pending(index) {
            continue;
        }
        output.resize(TAG_LEN_MAX, 0);
        let output = &mut output[..len.min(TAG_LEN_MAX)];
        squeeze::<RATE>(absorb::<RATE>(work.input(index), variant.pad), output);
        work.finish(index, &[], output);
    }
    output.zeroize();
}

/// The state behind a message and its padding, before the last permutation (FIPS 202, 4 and 5.1).
fn absorb<const RATE: usize>(message: &[u8], pad: u8) -> State<Word> {
    let mut state = [Word::splat(Scalar, 0); STATE_MAX];
    let (blocks, rest) = message.as_chunks::<RATE>();
    for block in blocks {
        add(&mut state, block);
        permute(Scalar, &mut state);
    }
    let mut last = [0; RATE];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = pad;
    last[RATE - 1] |= 0x80;
    add(&mut state, &last);
    last.zeroize();
    state
}

fn add<const RATE: usize>(state: &mut State<Word>, block: &[u8; RATE]) {
    for (to, word) in state.iter_mut().zip(block.as_chunks().0) {
        *to = to.xor(Word::splat(Scalar, u64::from_le_bytes(*word)));
    }
}

fn squeeze<const RATE: usize>(mut state: State<Word>, output: &mut [u8]) {
    for block in output.chunks_mut(RATE) {
        permute(Scalar, &mut state);
        for (to, word) in block.chunks_mut(8).zip(state) {
            let mut bytes = [0; 8];
            // SAFETY: a word has eight bytes.
            unsafe { word.store(bytes.as_mut_ptr()) };
            to.copy_from_slice(&bytes[..to.len()]);
        }
    }
}
