//! Elliptic curves where the conformance suite does not reach: the first and last scalars of the group, points with a zero
//! coordinate or of small order, peers off the curve, and many keys in one batch, against the reference.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::{Agreement, Curve, Signature};
use ciphermill_contract::{
    Batch, Direction, Engine, KeyForm, KeyId, KeyMaterial, Op, OpStatus, QueueHint, Reason, Span, Suite,
};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::pkcs8::{EncodePrivateKey, EncodePublicKey};
use p256::{FieldBytes, ProjectivePoint, Scalar, SecretKey};

const ECDSA: Suite = Suite::Sign(Signature::Ecdsa(Curve::P256));
const ECDH: Suite = Suite::Agree(Agreement::Ecdh(Curve::P256));
const X25519: Suite = Suite::Agree(Agreement::X25519);

const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);

/// One operation: a key's number, input and tag.
type Job = (usize, Vec<u8>, Vec<u8>);

/// Runs jobs in one batch and gives status, output and tag of each.
fn run(
    engine: &dyn Engine,
    suite: Suite,
    direction: Direction,
    keys: &[KeyMaterial<'_>],
    jobs: &[Job],
) -> Vec<(OpStatus, Vec<u8>, Vec<u8>)> {
    let prepared: Vec<_> = engine.prepare_many(keys, suite).into_iter().map(|key| key.expect("a good key")).collect();
    let (mut ops, mut arena) = (Vec::new(), Vec::new());
    for (key, input, tag) in jobs {
        let name = KeyId { slot: *key as u32, generation: 1 };
        let span = Span::new(arena.len() as u32, input.len() as u32);
        arena.extend_from_slice(input);
        let output = arena.len() as u32;
        arena.resize(arena.len() + suite.output_len(direction, input.len(), 0), 0x55);
        let op = Op::in_place(name, span).with_output(output);
        let tag_at = arena.len() as u32;
        arena.extend_from_slice(tag);
        ops.push(if tag.is_empty() { op } else { op.with_tag(tag_at, tag.len() as u16) });
    }
    let own: Vec<_> = jobs.iter().map(|(key, ..)| Some(&prepared[*key])).collect();
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("a good batch");
    queue.run(&mut batch.attach_keys(&own).expect("as many keys as operations"));
    let ends = ops.iter().map(|op| {
        let len = if op.status.is_done() { op.output_len } else { suite.output_len(direction, 0, 0) as u32 };
        let output = &arena[op.output as usize..(op.output + len) as usize];
        (op.status, output.to_vec(), arena[op.tag_span().range()].to_vec())
    });
    ends.collect()
}

/// The scalars at both ends of the group, where formulas have their exceptions, and some between.
fn scalars() -> Vec<Scalar> {
    let small = |number: u64| Scalar::from(number);
    let half = -(Scalar::ONE) * Option::<Scalar>::from(small(2).invert()).expect("two has an inverse");
    let mut scalars: Vec<Scalar> = (1..8).map(small).collect();
    scalars.extend((1..8).map(|number| -small(number)));
    scalars.extend([
        half,
        half + Scalar::ONE,
        small(1 << 63) * small(1 << 63) * small(1 << 63),
        half * half * small(5),
    ]);
    scalars
}

fn secret(scalar: Scalar) -> SecretKey {
    SecretKey::from_bytes(&scalar.to_bytes()).expect("not zero")
}

fn pkcs8(scalar: Scalar) -> Vec<u8> {
    secret(scalar).to_pkcs8_der().expect("a key has an encoding").as_bytes().to_vec()
}

fn point(scalar: Scalar) -> Vec<u8> {
    (ProjectivePoint::GENERATOR * scalar).to_affine().to_sec1_point(false).as_bytes().to_vec()
}

/// The point whose x is zero; its y is the square root of b.
fn point_over_zero() -> Vec<u8> {
    let compressed = [&[2u8][..], &[0; 32]].concat();
    let point = p256::PublicKey::from_sec1_bytes(&compressed).expect("b is a square");
    point.as_affine().to_sec1_point(false).as_bytes().to_vec()
}

fn agrees(gpu: &Gpu, suite: Suite, keys: &[Vec<u8>], peers: &[Vec<u8>]) -> Vec<(OpStatus, Vec<u8>, Vec<u8>)> {
    let keys: Vec<_> = keys.iter().map(|key| KeyMaterial { form: KeyForm::Private, bytes: key }).collect();
    let jobs: Vec<Job> = (0..keys.len() * peers.len())
        .map(|index| (index % keys.len(), peers[index / keys.len()].clone(), Vec::new()))
        .collect();
    let got = run(gpu, suite, Direction::Encrypt, &keys, &jobs);
    let expected = run(&Reference::new(), suite, Direction::Encrypt, &keys, &jobs);
    for ((index, got), expected) in got.iter().enumerate().zip(&expected) {
        assert_eq!(got, expected, "{suite}: key {}, peer {}", index % keys.len(), index / keys.len());
    }
    got
}

#[test]
fn edges_of_the_group_agree_with_the_reference() {
    let Some(gpu) = common::device() else { return };
    let keys: Vec<_> = scalars().into_iter().map(pkcs8).collect();
    let peers = [point(Scalar::ONE), point(-Scalar::from(3u64)), point_over_zero()];
    let ends = agrees(gpu, ECDH, &keys, &peers);
    assert!(ends.iter().all(|(status, ..)| status.is_done()));
}

#[test]
fn peers_off_the_curve_are_refused() {
    let Some(gpu) = common::device() else { return };
    let good = point(Scalar::from(5u64));
    let changed = |at: usize, by: u8| {
        let mut point = good.clone();
        point[at] ^= by;
        point
    };
    // Off the curve, on its twist, beyond the prime, the point at infinity's bytes, another encoding.
    let beyond = [&[4u8][..], &[0xff; 32], &good[33..]].concat();
    let peers = [changed(64, 1), changed(1, 0x80), beyond, vec![0; 65], changed(0, 6), good.clone()];
    let ends = agrees(gpu, ECDH, &[pkcs8(Scalar::from(9u64))], &peers);
    for (status, output, _) in &ends[..5] {
        assert_eq!((*status, &output[..]), (BAD_PUBLIC_VALUE, &[0; 32][..]));
    }
    assert!(ends[5].0.is_done());
}

#[test]
fn coordinates_of_every_kind_agree_with_the_reference() {
    let Some(gpu) = common::device() else { return };
    let from = |first: u8, middle: u8, last: u8| [&[first][..], &[middle; 30], &[last]].concat();
    // Small orders (0, 1, p - 1 and what is the same modulo p), those that are not canonical, bit 255 set, and others.
    let peers = [
        from(0, 0, 0),
        from(1, 0, 0),
        from(0xec, 0xff, 0x7f),
        from(0xed, 0xff, 0x7f),
        from(0xee, 0xff, 0x7f),
        from(0xef, 0xff, 0x7f),
        from(0xff, 0xff, 0xff),
        from(9, 0, 0),
        from(9, 0, 0x80),
        from(0x2d, 0x5a, 0x33),
    ];
    let keys = [from(0, 0, 0), from(0xff, 0xff, 0xff), from(0x77, 0x11, 0x40)];
    let ends = agrees(gpu, X25519, &keys, &peers);
    let refused = ends.iter().filter(|(status, ..)| *status == BAD_PUBLIC_VALUE).count();
    assert_eq!(refused, 5 * keys.len(), "the first five have a small order");
}

#[test]
fn signatures_of_many_keys_verify_and_changed_ones_do_not() {
    let Some(gpu) = common::device() else { return };
    let scalars = scalars();
    let private: Vec<_> = scalars.iter().copied().map(pkcs8).collect();
    let keys: Vec<_> = private.iter().map(|key| KeyMaterial { form: KeyForm::Private, bytes: key }).collect();
    let jobs: Vec<Job> = (0..100).map(|index| (index % keys.len(), vec![index as u8; index], vec![0; 64])).collect();
    let signed = run(gpu.as_ref(), ECDSA, Direction::Encrypt, &keys, &jobs);
    assert!(signed.iter().all(|(status, ..)| status.is_done()));
    let again = run(gpu.as_ref(), ECDSA, Direction::Encrypt, &keys, &jobs[..1]);
    assert_ne!(again[0].2, signed[0].2, "nonces are fresh");

    // Every third is changed: a bit of r, of s or of the message, or r is zero.
    let mut checks = Vec::new();
    for (index, ((key, message, _), (_, _, tag))) in jobs.iter().zip(signed).enumerate() {
        let (mut message, mut tag) = (message.clone(), tag);
        match index % 12 {
            0 => tag[31 - index % 7] ^= 1,
            3 => tag[63 - index % 7] ^= 0x10,
            6 => message.push(0),
            9 => tag[..32].fill(0),
            _ => {}
        }
        checks.push((*key, message, tag));
    }
    let public: Vec<_> = scalars
        .iter()
        .map(|scalar| secret(*scalar).public_key().to_public_key_der().expect("a key has an encoding").into_vec())
        .collect();
    let keys: Vec<_> = public.iter().map(|key| KeyMaterial { form: KeyForm::Public, bytes: key }).collect();
    for engine in [gpu.as_ref() as &dyn Engine, &Reference::new()] {
        let ends = run(engine, ECDSA, Direction::Decrypt, &keys, &checks);
        for (index, (status, ..)) in ends.iter().enumerate() {
            let expected = if index % 3 == 0 { OpStatus::AuthFailed } else { OpStatus::Done };
            assert_eq!(*status, expected, "{}: signature {index}", engine.info().name);
        }
    }
}

#[test]
fn signatures_made_for_the_exceptions_are_judged_as_the_reference_does() {
    let Some(gpu) = common::device() else { return };
    // With Q = d G, r and s are chosen so that u1 G = ± u2 Q, or one of u1 and u2 is one end of the group's numbers.
    let message = b"anything".to_vec();
    let z = {
        use p256::elliptic_curve::ops::Reduce;
        use sha2::Digest;
        Scalar::reduce(&sha2::Sha256::digest(&message))
    };
    let inverse = |scalar: Scalar| Option::<Scalar>::from(scalar.invert()).expect("not zero");
    let d = Scalar::from(7u64);
    let signature = |r: Scalar, s: Scalar| [r.to_bytes(), s.to_bytes()].concat();
    let mut tags = vec![signature(z * inverse(d), Scalar::from(3u64)), signature(-z * inverse(d), Scalar::from(3u64))];
    for end in scalars() {
        // u1 = z / s, then u2 = r / s.
        tags.push(signature(Scalar::from(5u64), z * inverse(end)));
        tags.push(signature(end * Scalar::from(11u64), Scalar::from(11u64)));
    }
    // And good ones, with nonces from both ends.
    for nonce in scalars() {
        let x = FieldBytes::try_from(&point(nonce)[1..33]).expect("32 bytes");
        let r = {
            use p256::elliptic_curve::ops::Reduce;
            Scalar::reduce(&x)
        };
        tags.push(signature(r, inverse(nonce) * (z + r * d)));
    }
    let key = pkcs8(d);
    let keys = [KeyMaterial { form: KeyForm::Private, bytes: &key }];
    let jobs: Vec<Job> = tags.into_iter().map(|tag| (0, message.clone(), tag)).collect();
    let got = run(gpu.as_ref(), ECDSA, Direction::Decrypt, &keys, &jobs);
    assert_eq!(got, run(&Reference::new(), ECDSA, Direction::Decrypt, &keys, &jobs));
    assert_eq!(got.iter().filter(|(status, ..)| status.is_done()).count(), scalars().len());
}
