//! How one CBC operation computes many: by breaking its chaining (Lindemann and Smith 2001, experiment 3).
//!
//! The paper's software stood beside the chip while it ran, and combined each operation's first block with the block that
//! the chip was about to chain it to. An engine of ours takes a whole message at once, so the correction has to be made
//! before or after. When decrypting it can: the chip's chaining value at an operation's first block is the ciphertext
//! block before it, which is known. When encrypting it is an output that there is not yet.

use crate::ladder::definitions::BLOCK;

/// Turns the decryption of a concatenation under an IV of zero into the decryptions of its parts under their own IVs.
/// `parts` holds their IVs and lengths, whole blocks, in order; what lies behind the last is left alone.
pub(crate) fn break_chaining(
    ciphertext: &[u8],
    plaintext: &mut [u8],
    parts: impl Iterator<Item = ([u8; BLOCK], usize)>,
) {
    let mut chained_to = [0; BLOCK];
    let mut start = 0;
    for (iv, len) in parts {
        let first = plaintext.iter_mut().skip(start).take(BLOCK.min(len));
        for ((byte, chained), own) in first.zip(chained_to).zip(iv) {
            *byte ^= chained ^ own;
        }
        start += len;
        if let Some(last) = start.checked_sub(BLOCK).and_then(|at| ciphertext.get(at..start)) {
            chained_to.copy_from_slice(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::{Batch, Direction, KeyId, Op, Span};
    use proptest::prelude::*;

    use super::*;
    use crate::workload::Parameters;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Random batches under one key: the corrected decryption of the concatenation is the reference's decryption of
        /// each operation under its own IV.
        #[test]
        fn parts_come_out_as_if_alone(seed: u64, ops in 1usize..60, blocks_max in 1usize..12) {
            let reference = crate::engines::open("reference").expect("always there");
            let suite = "des-cbc".parse().expect("a suite");
            let parameters = Parameters { ops, keys: 1, len_min: 8, len_max: 8 * blocks_max, seed, ..Parameters::default() };
            let workload = parameters.workload(suite, Direction::Decrypt, reference.as_ref()).expect("a workload");
            let expected = crate::contest::expected(&workload, reference.as_ref()).expect("runs");
            let prepared = workload.prepare(reference.as_ref()).expect("the key suits");

            let ciphertext: Vec<u8> = workload.ops.iter().flat_map(|op| &workload.arena[op.input.range()]).copied().collect();
            let mut plaintext = ciphertext.clone();
            let whole = Span::new(0, plaintext.len() as u32);
            let mut one = [Op::in_place(KeyId { slot: 0, generation: 1 }, whole).with_iv(&[0; BLOCK])];
            let batch = Batch::new(suite, Direction::Decrypt, &mut one, &mut plaintext);
            let keys = [prepared.first()];
            let mut checked = batch.check().expect("right");
            let mut keyed = checked.attach_keys(&keys).expect("one each");
            reference.queue(Default::default()).expect("opens").run(&mut keyed);
            prop_assert!(one[0].status.is_done());

            let parts = workload.ops.iter().map(|op| {
                let iv = <[u8; BLOCK]>::try_from(&op.iv[..BLOCK]).expect("8 bytes");
                (iv, op.input.len as usize)
            });
            break_chaining(&ciphertext, &mut plaintext, parts);
            let wanted: Vec<u8> = expected
                .ops
                .iter()
                .flat_map(|op| &expected.arena[op.output as usize..][..op.output_len as usize])
                .copied()
                .collect();
            prop_assert_eq!(plaintext, wanted);
        }
    }
}
