//! Both equations on signatures that tell them apart, many together, against another implementation's group.

use ciphermill_contract::suite::{Signature as Scheme, lists};
use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, OpStatus, Span, Suite};
use curve25519_dalek::constants::{ED25519_BASEPOINT_TABLE, EIGHT_TORSION};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;

use super::super::super::isa::PublicKernel;
use super::super::{prepare, run};
use super::*;
use crate::hash;

const LEN: usize = 32;

/// A message, its signature and whether each equation holds.
struct Made {
    public: [u8; LEN],
    message: Vec<u8>,
    signature: [u8; 2 * LEN],
    is_strict: bool,
    holds: bool,
}

/// A signature under a key with a part of small order, with a commitment that has one too, and with a wrong `S` by request.
fn made(kernels: &Kernels, number: u64, key: u64, (of_key, of_r): (usize, usize), is_wrong: bool) -> Made {
    let secret = Scalar::from(0x1234_5678_9abc_def0 ^ key << 7) * Scalar::from(0x0fed_cba9_8765_4321u64);
    let nonce = Scalar::from(3 + number) * Scalar::from(0xfeed_f00d_dead_beefu64);
    let public = &secret * ED25519_BASEPOINT_TABLE + EIGHT_TORSION[of_key];
    let r = &nonce * ED25519_BASEPOINT_TABLE + EIGHT_TORSION[of_r];
    let (public_bytes, r_bytes) = (public.compress().to_bytes(), r.compress().to_bytes());
    let message = number.to_le_bytes()[..number as usize % 9].to_vec();
    let all = [&r_bytes[..], &public_bytes, &message].concat();
    let hashed = hash::digests(kernels.hash, ciphermill_contract::suite::Digest::Sha512, &[&all]);
    let k = Scalar::from_bytes_mod_order_wide(&hashed[0]);
    let mut s = nonce + k * secret;
    if is_wrong {
        s += Scalar::from(number + 1);
    }
    let residue: EdwardsPoint = &s * ED25519_BASEPOINT_TABLE - k * public - r;
    let mut signature = [0; 2 * LEN];
    signature[..LEN].copy_from_slice(&r_bytes);
    signature[LEN..].copy_from_slice(s.as_bytes());
    let (is_strict, holds) = (residue == EdwardsPoint::default(), residue.is_small_order());
    Made { public: public_bytes, message, signature, is_strict, holds }
}

/// What lanes say of signatures in one batch. Not through the engine, which has every family's kernels to be compiled.
fn verdicts(kernels: &Kernels, suite: Suite, all: &[Made]) -> Vec<OpStatus> {
    let mut keys: Vec<([u8; LEN], _)> = Vec::new();
    let mut of = Vec::new();
    for made in all {
        let known = keys.iter().position(|(public, _)| *public == made.public);
        of.push(known.unwrap_or_else(|| {
            let prepared = prepare(kernels, &KeyMaterial::public(&made.public), suite).expect("a key");
            keys.push((made.public, prepared));
            keys.len() - 1
        }));
    }
    let prepared: Vec<_> = of.iter().map(|key| Some(&keys[*key].1)).collect();
    let (mut arena, mut ops) = (Vec::new(), Vec::new());
    for made in all {
        let input = Span::new(arena.len() as u32, made.message.len() as u32);
        arena.extend_from_slice(&made.message);
        let tag = arena.len() as u32;
        arena.extend_from_slice(&made.signature);
        let key = KeyId { slot: 1, generation: 1 };
        ops.push(Op { key, input, output: input.offset, tag, tag_len: 64, ..Op::default() });
    }
    let mut batch = Batch::new(suite, Direction::Decrypt, &mut ops, &mut arena).check().expect("no rule is broken");
    let mut with_keys = batch.attach_keys(&prepared).expect("as many");
    run(kernels, &mut Work::new(&mut with_keys), &mut Scratch::default());
    ops.iter().map(|op| op.status).collect()
}

fn every_kernel() -> impl Iterator<Item = Kernels> {
    PublicKernel::NAMES.iter().filter_map(|name| Kernels::choose(&[&format!("public={name}")]).ok())
}

fn compare(all_of: impl Fn(&Kernels) -> Vec<Made>) {
    for kernels in every_kernel() {
        let all = all_of(&kernels);
        let status = |good: bool| if good { OpStatus::Done } else { OpStatus::AuthFailed };
        let strict: Vec<OpStatus> = all.iter().map(|made| status(made.is_strict)).collect();
        let cofactored: Vec<OpStatus> = all.iter().map(|made| status(made.holds)).collect();
        assert_eq!(verdicts(&kernels, lists::ED25519[0], &all), strict, "{kernels:?}");
        let suite = Suite::Sign(Scheme::Ed25519Cofactored);
        assert_eq!(verdicts(&kernels, suite, &all), cofactored, "{kernels:?}");
    }
}

#[test]
fn parts_of_small_order_are_taken_with_the_cofactor_only() {
    compare(|kernels| {
        let all: Vec<Made> = (0..8usize)
            .flat_map(|of_key| (0..8usize).map(move |of_r| (of_key, of_r)))
            .zip(0..)
            .map(|(parts, number)| made(kernels, number, 1, parts, false))
            .collect();
        assert!(all.iter().all(|made| made.holds));
        let strict = all.iter().filter(|made| made.is_strict).count();
        assert!(strict > 0 && strict < all.len(), "{strict} tell nothing apart");
        all
    });
}

#[test]
fn wrong_ones_are_found_among_many_of_one_key() {
    for count in [1, 7, 8, 9, 40, 128, 200] {
        for wrong in [0, count / 2, count - 1] {
            compare(|kernels| (0..count).map(|number| made(kernels, number, 1, (0, 0), number == wrong)).collect());
        }
    }
}

#[test]
fn keys_of_different_numbers_of_signatures_side_by_side() {
    // Key `n` of every `n`-th signature that no other takes, most of them good ones.
    compare(|kernels| {
        (0..100)
            .map(|number| {
                let key = (2..9).find(|n| number % n == 0).unwrap_or(number);
                made(kernels, number, key, (number as usize % 3, 0), number % 13 == 5)
            })
            .collect()
    });
}

/// Two residues that cancel out, as they would without random multipliers.
#[test]
fn residues_that_cancel_out_are_wrong() {
    compare(|kernels| {
        let mut pair: Vec<Made> = (0..2).map(|number| made(kernels, number, 1, (0, 0), false)).collect();
        for (made, by) in pair.iter_mut().zip([Scalar::ONE, -Scalar::ONE]) {
            let s: Option<Scalar> =
                Scalar::from_canonical_bytes(made.signature[LEN..].try_into().expect("as long")).into();
            made.signature[LEN..].copy_from_slice((s.expect("below the order") + by).as_bytes());
            (made.is_strict, made.holds) = (false, false);
        }
        pair
    });
}
