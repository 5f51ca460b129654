//! Batches in arenas that the device copies from and to by itself give the same as those that are packed: through every way
//! that data can lie, and under faults of the batch's own.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Digest, Mac, Mode, StreamCipher};
use ciphermill_contract::{Batch, Direction, Engine, KeyId, KeyMaterial, Op, QueueHint, Span, Suite};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;

const AES: Suite = Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Cbc);
const GCM: Suite = Suite::Aead(Aead::AesGcm(AesSize::Aes128));

/// Messages and their length: enough for several shares where they are copied as they lie.
const COUNT: usize = 20_000;
const LEN: usize = 64;

/// Operations as they lie in an arena: inputs from `input` on, each `stride` behind the one before, outputs at the same
/// distance from `output` on, tags behind everything.
struct Lie {
    input: usize,
    output: usize,
    stride: usize,
    len: usize,
}

fn ops(suite: Suite, lie: &Lie) -> (Vec<Op>, usize) {
    let iv_len = suite.iv_len().min;
    let tag_len = suite.tag_len(Direction::Encrypt).max.min(32);
    let tags_at = lie.input.max(lie.output) + lie.stride * COUNT;
    let op = |index: usize| {
        let name = if suite.needs_key() { KeyId { slot: index as u32 % 2, generation: 1 } } else { KeyId::NONE };
        let input = Span::new((lie.input + index * lie.stride) as u32, lie.len as u32);
        let iv: Vec<u8> = (0..iv_len).map(|at| (index >> (8 * (at % 4))) as u8).collect();
        let mut op = Op::in_place(name, input).with_iv(&iv);
        op.output = (lie.output + index * lie.stride) as u32;
        op.with_tag((tags_at + index * tag_len) as u32, tag_len as u16)
    };
    ((0..COUNT).map(op).collect(), tags_at + COUNT * tag_len)
}

fn run(engine: &dyn Engine, suite: Suite, direction: Direction, ops: &mut [Op], arena: &mut [u8]) {
    let material: Vec<u8> = (0..64).collect();
    let keyed = |from: usize| {
        let bytes = &material[from..from + suite.default_key_len()];
        engine.prepare(&KeyMaterial::secret(bytes), suite).expect("a good key")
    };
    let prepared = if suite.needs_key() { vec![keyed(0), keyed(32)] } else { Vec::new() };
    let keys: Vec<_> = (0..ops.len()).map(|index| prepared.get(index % 2)).collect();
    let mut batch = Batch::new(suite, direction, ops, arena).check().expect("a good batch");
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    match suite.needs_key() {
        true => queue.run(&mut batch.attach_keys(&keys).expect("as many keys as operations")),
        false => queue.run(&mut batch),
    }
}

/// Runs the same in an arena of the device's and through the reference; gives the arena.
fn agrees(gpu: &Gpu, suite: Suite, lie: &Lie) {
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        if !suite.has_direction(direction) {
            continue;
        }
        let (mut own, len) = ops(suite, lie);
        let mut arena = gpu.pinned_arena(len).expect("memory");
        assert!(arena.bytes().iter().all(|byte| *byte == 0), "nothing of those before is left");
        let noise = (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8);
        arena.bytes_mut().iter_mut().zip(noise).for_each(|(place, byte)| *place = byte);
        let (mut expected_ops, mut expected) = (own.clone(), arena.bytes().to_vec());
        run(gpu, suite, direction, &mut own, arena.bytes_mut());
        run(&Reference::new(), suite, direction, &mut expected_ops, &mut expected);
        assert_eq!(own, expected_ops, "{suite} {direction}");
        assert!(arena.bytes() == expected, "{suite} {direction} differs from the reference");
    }
}

#[test]
fn data_that_lie_as_kernels_want_them_agree_with_the_reference() {
    let Some(gpu) = common::device() else { return };
    let in_place = Lie { input: 0, output: 0, stride: LEN, len: LEN };
    let apart = Lie { input: 16, output: COUNT * LEN + 64, stride: LEN, len: LEN };
    agrees(gpu, AES, &in_place);
    agrees(gpu, AES, &apart);
    agrees(gpu, Suite::Stream(StreamCipher::ChaCha20), &apart);
    // Tags go through the staging buffer, and where they are verified the data do as well.
    agrees(gpu, GCM, &in_place);
    let hashed = Lie { input: 0, output: COUNT * LEN, stride: LEN, len: LEN };
    agrees(gpu, Suite::Digest(Digest::Sha256), &hashed);
    agrees(gpu, Suite::Mac(Mac::Hmac(Digest::Sha1)), &hashed);
}

#[test]
fn data_that_lie_otherwise_are_packed_and_agree_as_well() {
    let Some(gpu) = common::device() else { return };
    for lie in [
        Lie { input: 3, output: 3, stride: LEN, len: LEN },
        Lie { input: 0, output: 0, stride: LEN + 16, len: LEN },
        Lie { input: 0, output: 0, stride: 64, len: 48 },
    ] {
        agrees(gpu, AES, &lie);
    }
    agrees(gpu, Suite::Stream(StreamCipher::ChaCha20), &Lie { input: 0, output: 0, stride: 61, len: 61 });
}

#[test]
fn the_link_is_measured() {
    let Some(gpu) = common::device() else { return };
    let rates = gpu.link_rates().expect("copies");
    assert!(rates.len() > 1);
    for rate in rates {
        common::say(&format!("{rate:?}"));
        // Slower than this no link is, nor faster.
        for bytes_per_second in [rate.to_device, rate.from_device, rate.both_ways] {
            assert!((1e6..1e13).contains(&bytes_per_second), "{rate:?}");
        }
    }
}
