//! Columns in parts: kernels look up operations of a part by the whole's offsets, in a stretch of the buffers.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::columns::{ColumnData, Extents, IvColumn, PreparedColumn, TagColumn};
use ciphermill_contract::{
    ColumnBatch, ColumnStatus, Direction, Engine, KeyId, KeyMaterial, QueueHint, Suite, suite::rules::Lengths,
};
use ciphermill_lanes::Lanes;

const COUNT: usize = 700;
const KEY: KeyId = KeyId { slot: 1, generation: 1 };

/// Offsets of `COUNT` operations of unequal lengths and so many bytes more each, behind a gap.
fn offsets(more: usize) -> Vec<i64> {
    (0..=COUNT).scan(5, |at, n| Some(std::mem::replace(at, *at + (n % 4 * 16 + more) as i64))).collect()
}

/// Seals values of a suite, nonces before and tags behind, or IVs that are counted, in so many parts; then opens them, with
/// the tag of every fiftieth wrong. Returns all bytes and statuses.
fn outcome(suite: Suite, counts: &[usize]) -> (Vec<u8>, Vec<u8>, Vec<ColumnStatus>) {
    let lanes = Lanes::new().expect("opens");
    let Lengths { min: key_len, .. } = suite.key_len();
    let prepared = lanes.prepare(&KeyMaterial::secret(&vec![9; key_len]), suite).expect("takes the key");
    let mut queue = lanes.queue(QueueHint::default()).expect("opens");
    let (iv_len, tag_len) = (suite.default_iv_len(), suite.default_tag_len());
    let first = [vec![3; iv_len.saturating_sub(4)], vec![0, 0, 1, 200]].concat();
    let inline = if tag_len != 0 { iv_len } else { 0 };
    let (clear, sealed) = (offsets(0), offsets(inline + tag_len));
    let mut data: Vec<u8> = (0..clear[COUNT] as usize + 5).map(|at| (at % 253) as u8).collect();
    let mut cipher: Vec<u8> = (0..sealed[COUNT] as usize + 5).map(|at| (at % 241) as u8).collect();
    let mut statuses = vec![ColumnStatus::PENDING; COUNT];
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        statuses.fill(ColumnStatus::PENDING);
        statuses[COUNT / 2 - 3] = ColumnStatus::LEFT_OUT;
        let (input, inputs, output, outputs) = match direction {
            Direction::Encrypt => (&data, &clear, &mut cipher, &sealed),
            Direction::Decrypt => {
                let tags = (0..COUNT).step_by(50).filter(|_| tag_len != 0).map(|n| sealed[n] as usize);
                tags.for_each(|at| cipher[at] ^= 1);
                (&cipher, &sealed, &mut data, &clear)
            }
        };
        let (inputs, outputs) = (Extents::LargeOffsets(inputs), Extents::LargeOffsets(outputs));
        let batch =
            ColumnBatch::new(suite, direction, ColumnData::Separate { input, inputs, output, outputs }, &mut statuses);
        let batch = match (iv_len, tag_len) {
            (0, len) => batch.with_tags(TagColumn::Before { len }),
            (_, 0) => batch.with_ivs(IvColumn::Counter(&first)),
            (iv, len) => batch.with_ivs(IvColumn::Inline { len: iv }).with_tags(TagColumn::After { len }),
        };
        let mut columns = batch.with_key(KEY).check().expect("keeps the rules");
        let mut columns = columns.attach_keys(PreparedColumn::One(&prepared)).expect("one for all");
        let ran = columns.in_parts(counts, |parts| {
            parts.into_iter().rev().for_each(|mut part| queue.run_columns(&mut part));
        });
        assert_eq!(ran, Some(()));
    }
    (data, cipher, statuses)
}

#[test]
fn parts_give_what_the_whole_gives() {
    let (lanes, mut seen) = (Lanes::new().expect("opens"), 0);
    for name in ["aes-128-gcm", "aes-256-siv", "aes-128-ctr", "chacha20-poly1305", "aes-128-cbc", "3des-cbc"] {
        let suite: Suite = name.parse().expect("a suite");
        // Without instructions for AES, those are not claimed.
        if !lanes.capabilities().iter().any(|own| own.suites.contains(&suite)) {
            println!("{name} is not run here");
            continue;
        }
        seen += 1;
        let whole = outcome(suite, &[COUNT]);
        let failed = whole.2.iter().filter(|status| **status == ColumnStatus::AUTH_FAILED).count();
        let is_sealed = suite.default_tag_len() != 0;
        assert_eq!(failed, if is_sealed { COUNT / 50 } else { 0 }, "{name}");
        assert_eq!(whole.2.iter().filter(|status| status.is_done()).count(), COUNT - 1 - failed, "{name}");
        for counts in [&[1, COUNT - 1][..], &[349, 0, 351], &[100, 200, 300, 99, 1]] {
            assert!(outcome(suite, counts) == whole, "{name} in {counts:?}");
        }
    }
    assert!(seen >= 2, "ChaCha20-Poly1305 and 3DES need no instructions of their own");
}
