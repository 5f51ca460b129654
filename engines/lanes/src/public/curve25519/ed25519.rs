//! Ed25519's keys and operations (RFC 8032, 5.1), side by side: hashing, multiples of points and their encoding. Only the few
//! products of scalars are computed one after the other.
//!
//! Verification is the contract's strict one ([`strict`]).

use std::sync::OnceLock;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Digest;
use ciphermill_contract::suite::acceptance::ed25519 as strict;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use curve25519_dalek::scalar::Scalar;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::super::isa::PublicKernel;
use super::super::room::Room;
use super::super::{count_lanes, groups};
use super::base::{self, BaseProduct, Digits};
use super::combine::{self, PublicPoints, Unpacking, Verification};
use super::{FLIGHT_GROUPS, bytes_of, words_of};
use crate::hash;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// Bytes of a seed, a public key and each half of a signature.
const LEN: usize = 32;

/// A public key and, for signing, its private half.
struct Key {
    encoding: [u8; LEN],
    /// The points for verification. A private key's are unpacked when it first verifies.
    points: OnceLock<PublicPoints>,
    private: Option<PrivateKey>,
}

/// What comes of a seed (RFC 8032, 5.1.5).
#[derive(Zeroize, ZeroizeOnDrop)]
struct PrivateKey {
    /// The clamped scalar, modulo the order.
    scalar: Scalar,
    /// What is hashed before the message.
    prefix: [u8; LEN],
}

impl Key {
    fn points(&self, kernel: PublicKernel) -> Option<&PublicPoints> {
        if self.points.get().is_none() {
            let points = unpack(kernel, &self.encoding)?;
            return Some(self.points.get_or_init(|| points));
        }
        self.points.get()
    }
}

/// The points of an encoding, if there is one with its `y`.
fn unpack(kernel: PublicKernel, encoding: &[u8; LEN]) -> Option<PublicPoints> {
    let mut one = [Unpacking { encoding: words_of(encoding)?, points: None }];
    combine::unpack(kernel, &mut Room::default(), &mut one);
    one[0].points
}

/// Prepares a seed or a public key, whose encoding and order the contract has looked at.
pub(super) fn prepare(kernels: &Kernels, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let bytes = <&[u8; LEN]>::try_from(key.bytes).map_err(|_| KeyProblem::Length)?;
    let key = if key.form == KeyForm::Public {
        let points = unpack(kernels.public, bytes).ok_or(KeyProblem::Encoding)?;
        Key { encoding: *bytes, points: OnceLock::from(points), private: None }
    } else {
        private_key(kernels, bytes).ok_or(KeyProblem::Encoding)?
    };
    Ok(PreparedKey::for_suite(suite, key))
}

/// The key of a seed.
fn private_key(kernels: &Kernels, seed: &[u8; LEN]) -> Option<Key> {
    let mut private = expanded(kernels, core::slice::from_ref(seed));
    let encoding = encodings(kernels.public, &mut Room::default(), &private).pop()?;
    Some(Key { encoding, points: OnceLock::new(), private: private.pop() })
}

/// What comes of seeds (RFC 8032, 5.1.5).
fn expanded(kernels: &Kernels, seeds: &[[u8; LEN]]) -> Vec<PrivateKey> {
    let messages: Vec<&[u8]> = seeds.iter().map(|seed| seed.as_slice()).collect();
    let hashed = Zeroizing::new(hash::digests(kernels.hash, Digest::Sha512, &messages));
    let one = |hash: &hash::Tag| {
        let (mut scalar, mut prefix) = (Zeroizing::new([0; LEN]), [0; LEN]);
        scalar.copy_from_slice(&hash[..LEN]);
        prefix.copy_from_slice(&hash[LEN..]);
        scalar[0] &= 248;
        scalar[LEN - 1] = scalar[LEN - 1] & 127 | 64;
        let private = PrivateKey { scalar: Scalar::from_bytes_mod_order(*scalar), prefix };
        prefix.zeroize();
        private
    };
    hashed.iter().map(one).collect()
}

/// The public keys of seeds.
pub(super) fn public_of(kernels: &Kernels, room: &mut Room, seeds: &[[u8; LEN]]) -> Vec<[u8; LEN]> {
    encodings(kernels.public, room, &expanded(kernels, seeds))
}

fn encodings(kernel: PublicKernel, room: &mut Room, private: &[PrivateKey]) -> Vec<[u8; LEN]> {
    let mut products: Vec<BaseProduct> =
        private.iter().map(|key| BaseProduct { scalar: digits(&key.scalar), encoding: [0; 4] }).collect();
    base::multiply(kernel, room, &mut products);
    products.iter().map(|product| bytes_of(&product.encoding)).collect()
}

fn digits(scalar: &Scalar) -> Digits {
    Digits::of(words(scalar))
}

fn words(scalar: &Scalar) -> [u64; 4] {
    words_of(scalar.as_bytes()).unwrap_or_default()
}

/// Runs a batch of signatures or verifications.
pub(super) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    let most = usize::from(kernels.public.lanes()) * FLIGHT_GROUPS;
    groups::<Key>(work, most, |work, group| match work.direction() {
        Direction::Encrypt => sign(kernels, work, scratch, group),
        Direction::Decrypt => verify(kernels, work, scratch, group),
    });
}

/// The hashes of messages with something before them, modulo the order.
fn scalars(kernels: &Kernels, messages: &[(&[u8], &[u8])]) -> Zeroizing<Vec<Scalar>> {
    let hashed = Zeroizing::new(hash::digests_with_heads(kernels.hash, Digest::Sha512, messages));
    Zeroizing::new(hashed.iter().map(Scalar::from_bytes_mod_order_wide).collect())
}

/// What a signature's second hash begins with: `R` and the public key.
fn head(r: &[u8], key: &Key) -> [u8; 2 * LEN] {
    let mut head = [0; 2 * LEN];
    head[..LEN].copy_from_slice(r);
    head[LEN..].copy_from_slice(&key.encoding);
    head
}

/// Signs (RFC 8032, 5.1.6).
fn sign(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch, group: &[(usize, &Key)]) {
    let mut signers = Vec::with_capacity(group.len());
    for (index, key) in group {
        match &key.private {
            Some(private) => signers.push((*index, *key, private)),
            None => work.fail(*index, OpStatus::Refused(Reason::KeyUnsuitable)),
        }
    }
    if signers.is_empty() {
        return;
    }
    let messages: Vec<(&[u8], &[u8])> =
        signers.iter().map(|(index, _, private)| (&private.prefix[..], work.input(*index))).collect();
    let nonces = scalars(kernels, &messages);
    let mut products: Vec<BaseProduct> =
        nonces.iter().map(|nonce| BaseProduct { scalar: digits(nonce), encoding: [0; 4] }).collect();
    base::multiply(kernels.public, &mut scratch.room, &mut products);
    count_lanes(kernels.public, &mut scratch.occupancy, products.len());
    let heads: Vec<[u8; 2 * LEN]> =
        signers.iter().zip(&products).map(|((_, key, _), product)| head(&bytes_of(&product.encoding), key)).collect();
    let messages: Vec<(&[u8], &[u8])> =
        signers.iter().zip(&heads).map(|((index, ..), head)| (&head[..], work.input(*index))).collect();
    let challenges = scalars(kernels, &messages);
    for (i, (index, _, private)) in signers.into_iter().enumerate() {
        let s = nonces[i] + challenges[i] * private.scalar;
        let mut signature = heads[i];
        signature[LEN..].copy_from_slice(s.as_bytes());
        work.finish(index, &[], &signature);
    }
}

/// Verifies (RFC 8032, 5.1.7): whether `[S] B - [k] A` is encoded as `R` is.
fn verify(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch, group: &[(usize, &Key)]) {
    let mut signed: Vec<(usize, &Key, [u8; 2 * LEN])> = Vec::with_capacity(group.len());
    for (index, key) in group {
        match <[u8; 2 * LEN]>::try_from(work.tag_bytes(*index)) {
            Ok(signature) if strict::is_strict(&signature) => signed.push((*index, key, signature)),
            _ => work.fail(*index, OpStatus::AuthFailed),
        }
    }
    let heads: Vec<[u8; 2 * LEN]> = signed.iter().map(|(_, key, signature)| head(&signature[..LEN], key)).collect();
    let messages: Vec<(&[u8], &[u8])> =
        signed.iter().zip(&heads).map(|((index, ..), head)| (&head[..], work.input(*index))).collect();
    let challenges = scalars(kernels, &messages);
    let mut all = Vec::with_capacity(signed.len());
    let mut places = Vec::with_capacity(signed.len());
    for ((index, key, signature), k) in signed.iter().zip(challenges.iter()) {
        let (Some(points), Some(r), Some(s)) =
            (key.points(kernels.public), words_of(&signature[..LEN]), words_of(&signature[LEN..]))
        else {
            work.fail(*index, OpStatus::EngineFault);
            continue;
        };
        places.push((*index, r));
        all.push(Verification { key: points, s: Digits::of(s), k: words(k), r: [0; 4] });
    }
    combine::combine(kernels.public, &mut scratch.room, &mut all);
    count_lanes(kernels.public, &mut scratch.occupancy, all.len());
    for ((index, r), verification) in places.into_iter().zip(&all) {
        if r == verification.r {
            work.done_with(index, 0);
        } else {
            work.fail(index, OpStatus::AuthFailed);
        }
    }
}
