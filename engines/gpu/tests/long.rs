//! What the conformance suite does not reach: batches of several shares, long messages in parts, batches handed over,
//! and several queues at work under the same keys.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Mac, Mode, StreamCipher};
use ciphermill_contract::{Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, QueueHint, Span, Suite};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;

/// Bytes that repeat nowhere near a block's length.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Runs messages of these lengths, one behind the other and in place, and gives the arena.
fn run(engine: &dyn Engine, suite: Suite, direction: Direction, lens: &[usize], iv: &[u8], data: &[u8]) -> Vec<u8> {
    let (material, key_len) = (noise(128), suite.default_key_len());
    let keys = [&material[..key_len], &material[64..64 + key_len]];
    let prepared = keys.map(|key| engine.prepare(&KeyMaterial::secret(key), suite).expect("a good key"));
    let mut at = 0;
    let mut ops = Vec::new();
    for (index, len) in lens.iter().enumerate() {
        let name = KeyId { slot: index as u32 % 2, generation: 1 };
        ops.push(Op::in_place(name, Span::new(at as u32, *len as u32)).with_iv(iv));
        at += len;
    }
    let mut arena = data[..at].to_vec();
    let own: Vec<_> = (0..ops.len()).map(|index| Some(&prepared[index % 2])).collect();
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("a good batch");
    queue.run(&mut batch.attach_keys(&own).expect("as many keys as operations"));
    assert!(ops.iter().all(|op| op.status == OpStatus::Done), "{suite} {direction}");
    arena
}

fn agrees(gpu: &Gpu, suite: Suite, lens: &[usize], iv: &[u8]) {
    let data = noise(lens.iter().sum());
    let oracle = Reference::new();
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let got = run(gpu, suite, direction, lens, iv, &data);
        assert!(
            got == run(&oracle, suite, direction, lens, iv, &data),
            "{suite} {direction} differs from the reference"
        );
    }
}

#[test]
fn long_messages_in_parts_agree_with_the_reference() {
    let Some(gpu) = common::device() else { return };
    let aes = |mode| Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), mode);
    // Parts have 1,024 bytes: whole ones, a last one that is short, and messages too short for parts between them.
    let lens = [70_000, 2048, 2064, 16, 3072 + 16, 0, 40_000];
    agrees(gpu, aes(Mode::Cbc), &lens, &[3; 16]);
    agrees(gpu, aes(Mode::Ecb), &lens, &[]);
    // Data units that steal; a rest stays with the block before it, in a part of its own or not.
    agrees(gpu, aes(Mode::Xts), &[70_001, 16, 3072 + 15, 3072 + 17, 31, 2049, 4096, 150_000], &[0xc3; 16]);
    // A counter that goes round within a message.
    let lens = [70_001, 2049, 5, 4097];
    agrees(gpu, aes(Mode::Ctr), &lens, &[0xff; 16]);
    agrees(gpu, aes(Mode::Ctr), &lens, &[9; 12]);
    agrees(gpu, Suite::Stream(StreamCipher::ChaCha20), &lens, &[9; 12]);
    let mut iv = [7; 16];
    iv[..4].copy_from_slice(&0x00ff_fff0u32.to_le_bytes());
    agrees(gpu, Suite::Stream(StreamCipher::ChaCha20), &lens, &iv);
    agrees(gpu, Suite::Cipher(BlockCipher::Des, Mode::Cbc), &[9_000 - 8, 64], &[5; 8]);
    // The table-driven ciphers: a counter of 64 bits that goes round, one of 32 behind a nonce, iterations of SEAL.
    let old = |cipher, mode| Suite::Cipher(cipher, mode);
    agrees(gpu, old(BlockCipher::Blowfish, Mode::Ctr), &[4097, 40], &[0xff; 8]);
    agrees(gpu, old(BlockCipher::Blowfish, Mode::Ctr), &[4097, 40], &[7; 4]);
    agrees(gpu, old(BlockCipher::Khufu, Mode::Cbc), &[4096 + 8, 40], &[7; 8]);
    agrees(gpu, Suite::Stream(StreamCipher::Seal3), &[65_536, 2049, 3, 4096 + 3], &[9; 4]);
}

/// Long messages with additional data and tags, one behind the other: the operations, and the arena.
fn authenticated(engine: &dyn Engine, suite: Suite, direction: Direction, lens: &[usize], arena: &mut [u8]) -> Vec<Op> {
    let key = noise(suite.default_key_len());
    let key = engine.prepare(&KeyMaterial::secret(&key), suite).expect("a good key");
    let name = KeyId { slot: 0, generation: 1 };
    // The additional data of all of them are at the arena's start, of lengths that differ.
    let mut at = AAD_LEN;
    let mut ops = Vec::new();
    for (index, len) in lens.iter().enumerate() {
        let op = Op::in_place(name, Span::new(at as u32, *len as u32)).with_iv(&[index as u8; 12]);
        let aad_len = if suite.aad_len().contains(AAD_LEN) { AAD_LEN - 7 * index } else { 0 };
        ops.push(op.with_tag((at + len) as u32, 16).with_aad(0, aad_len as u16));
        at += len + 16;
    }
    let own = vec![Some(&key); ops.len()];
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let mut batch = Batch::new(suite, direction, &mut ops, arena).check().expect("a good batch");
    queue.run(&mut batch.attach_keys(&own).expect("as many keys as operations"));
    ops
}

const AAD_LEN: usize = 100;

#[test]
fn long_messages_are_authenticated_in_parts() {
    let Some(gpu) = common::device() else { return };
    let gcm = Suite::Aead(Aead::AesGcm(AesSize::Aes128));
    // Whole parts, short last ones, and messages of one part; more than a share, which has a megabyte at least.
    let lens = [70_001, 40, 2049, 0, 700_000, 4096, 3072 + 16, 450_000];
    let plain = noise(AAD_LEN + lens.iter().sum::<usize>() + 16 * lens.len());
    for suite in [gcm, Suite::Mac(Mac::Gmac(AesSize::Aes256))] {
        let (mut sealed, mut expected) = (plain.clone(), plain.clone());
        let done = authenticated(gpu.as_ref(), suite, Direction::Encrypt, &lens, &mut sealed);
        assert!(done.iter().all(|op| op.status == OpStatus::Done), "{suite}");
        authenticated(&Reference::new(), suite, Direction::Encrypt, &lens, &mut expected);
        assert!(sealed == expected, "{suite} differs from the reference");
        let mut opened = sealed.clone();
        let done = authenticated(gpu.as_ref(), suite, Direction::Decrypt, &lens, &mut opened);
        assert!(done.iter().all(|op| op.status == OpStatus::Done), "{suite}");
        let first = done[0].input.range();
        assert!(suite != gcm || opened[first.clone()] == plain[first.clone()]);
        // One bit of one part, and nothing comes out of any of the message's; the others are not concerned.
        let mut tampered = sealed.clone();
        tampered[first.start + 69_000] ^= 1;
        let done = authenticated(gpu.as_ref(), suite, Direction::Decrypt, &lens, &mut tampered);
        assert_eq!(done[0].status, OpStatus::AuthFailed, "{suite}");
        assert!(done[1..].iter().all(|op| op.status == OpStatus::Done), "{suite}");
        assert!(suite != gcm || tampered[first.clone()].iter().all(|byte| *byte == 0));
        assert!(tampered[first.end..] == opened[first.end..], "{suite}");
    }
}

#[test]
fn batches_of_several_shares_agree_with_the_reference() {
    let Some(gpu) = common::device() else { return };
    // Six megabytes, in shares of one.
    let lens: Vec<usize> = (0..6000).map(|index| 16 * (index % 128)).collect();
    agrees(gpu, Suite::Cipher(BlockCipher::Aes(AesSize::Aes256), Mode::Cbc), &lens, &[1; 16]);
}

#[test]
fn queues_share_keys_while_others_come_and_go() {
    let Some(gpu) = common::device() else { return };
    let suite = Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Cbc);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Each call prepares its keys and drops them: their places are wiped and taken again meanwhile.
                for turn in 0..4 {
                    agrees(gpu, suite, &[16 * (turn + 1), 160, 32], &[2; 16]);
                }
            });
        }
    });
}
