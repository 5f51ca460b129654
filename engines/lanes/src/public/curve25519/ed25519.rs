//! Ed25519's keys and operations (RFC 8032, 5.1), side by side: hashing, multiples of points and their encoding. Only the few
//! products of scalars are computed one after the other.
//!
//! Verification is the contract's strict one ([`strict`]); that with the cofactor is [`super::cofactored`]'s.
//!
//! *Faults.* Nonces depend on key and message alone, so that a signature with a fault and a good one of the same message give the key
//! away: both have the same nonce and different hashes, or the other way round. A verification before a signature leaves would
//! not find a nonce that a bit has flipped in, and would take twice the time of what is done: each signature is computed twice, in
//! different lanes, the second time by the negatives of nonce and key from other entries of the base point's table, and leaves only
//! if both agree. What is kept of a key is kept twice for that, its public half as two products. What has the same effect on
//! both computations is not found, nor is a prefix or a seed that had changed when the key was prepared: the signatures of
//! those are good ones of other nonces or other keys.

use std::sync::OnceLock;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Digest;
use ciphermill_contract::suite::acceptance::ed25519 as strict;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use curve25519_dalek::scalar::Scalar;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::super::fault::spoil_scalars;
use super::super::isa::PublicKernel;
use super::super::room::Room;
use super::super::{count_lanes, groups};
use super::base::{self, BaseProduct, Digits};
use super::combine::{self, PublicPoints, Unpacking, Verification};
use super::{FLIGHT_GROUPS, bytes_of, words_of};
use crate::declassify::declassify;
use crate::hash;
use crate::select::Kernels;
use crate::work::{Scratch, Work};

/// Bytes of a seed, a public key and each half of a signature.
const LEN: usize = 32;

/// A public key and, for signing, its private half.
pub(super) struct Key {
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
    /// Its negative, and the public key as the negative of that one's product: what the second computation works with.
    negative: Scalar,
    encoding: [u8; LEN],
    /// What is hashed before the message.
    prefix: [u8; LEN],
}

impl Key {
    pub(super) fn points(&self, kernel: PublicKernel) -> Option<&PublicPoints> {
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

/// The key of a seed (RFC 8032, 5.1.5).
fn private_key(kernels: &Kernels, seed: &[u8; LEN]) -> Option<Key> {
    let expanded = expanded(kernels, core::slice::from_ref(seed));
    let (scalar, prefix) = expanded.first()?;
    let mut private = PrivateKey { scalar: *scalar, negative: -scalar, encoding: [0; LEN], prefix: *prefix };
    let of = |scalar: &Scalar| BaseProduct { scalar: digits(scalar), encoding: [0; 4] };
    let mut public = [of(&private.scalar), of(&private.negative)];
    base::multiply(kernels.public, &mut Room::default(), &mut public);
    private.encoding = bytes_of(&negated(public[1].encoding));
    Some(Key { encoding: bytes_of(&public[0].encoding), points: OnceLock::new(), private: Some(private) })
}

/// What comes of seeds (RFC 8032, 5.1.5): scalars, and what is hashed before messages.
fn expanded(kernels: &Kernels, seeds: &[[u8; LEN]]) -> Zeroizing<Vec<(Scalar, [u8; LEN])>> {
    let messages: Vec<&[u8]> = seeds.iter().map(|seed| seed.as_slice()).collect();
    let hashed = Zeroizing::new(hash::digests(kernels.hash, Digest::Sha512, &messages));
    let one = |hash: &hash::Tag| {
        let (mut scalar, mut prefix) = (Zeroizing::new([0; LEN]), [0; LEN]);
        scalar.copy_from_slice(&hash[..LEN]);
        prefix.copy_from_slice(&hash[LEN..]);
        scalar[0] &= 248;
        scalar[LEN - 1] = scalar[LEN - 1] & 127 | 64;
        (Scalar::from_bytes_mod_order(*scalar), prefix)
    };
    Zeroizing::new(hashed.iter().map(one).collect())
}

/// The public keys of seeds.
pub(super) fn public_of(kernels: &Kernels, room: &mut Room, seeds: &[[u8; LEN]]) -> Vec<[u8; LEN]> {
    let keys = expanded(kernels, seeds);
    let mut products: Vec<BaseProduct> =
        keys.iter().map(|(scalar, _)| BaseProduct { scalar: digits(scalar), encoding: [0; 4] }).collect();
    base::multiply(kernels.public, room, &mut products);
    products.iter().map(|product| bytes_of(&product.encoding)).collect()
}

/// The encoding of a point's negative. Zero, whose sign would be wrong, is the `x` of nothing that this is asked for.
fn negated(mut encoding: [u64; 4]) -> [u64; 4] {
    encoding[3] ^= 1 << 63;
    encoding
}

fn digits(scalar: &Scalar) -> Digits {
    Digits::of(words(scalar))
}

pub(super) fn words(scalar: &Scalar) -> [u64; 4] {
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
fn head(r: &[u8], key: &[u8; LEN]) -> [u8; 2 * LEN] {
    let mut head = [0; 2 * LEN];
    head[..LEN].copy_from_slice(r);
    head[LEN..].copy_from_slice(key);
    head
}

/// A message to be signed.
struct Signer<'k> {
    key: &'k Key,
    private: &'k PrivateKey,
    message: &'k [u8],
}

/// Signs.
fn sign(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch, group: &[(usize, &Key)]) {
    for (index, _) in group.iter().filter(|(_, key)| key.private.is_none()) {
        work.fail(*index, OpStatus::Refused(Reason::KeyUnsuitable));
    }
    let (places, signers): (Vec<usize>, Vec<Signer<'_>>) = group
        .iter()
        .filter_map(|(index, key)| {
            let private = key.private.as_ref()?;
            Some((*index, Signer { key, private, message: work.input(*index) }))
        })
        .unzip();
    if signers.is_empty() {
        return;
    }
    let signatures = signatures(kernels, &mut scratch.room, &signers);
    count_lanes(kernels.public, &mut scratch.occupancy, 2 * signers.len());
    for (index, signature) in places.into_iter().zip(signatures) {
        match signature {
            Some(signature) => work.finish(index, &[], &signature),
            None => work.fail(index, OpStatus::EngineFault),
        }
    }
}

/// Signatures (RFC 8032, 5.1.6), each computed twice; `None` where there was a fault. Computation `n + i` is the second of the `i`-th of
/// `n` messages, by negatives.
fn signatures(kernels: &Kernels, room: &mut Room, signers: &[Signer<'_>]) -> Vec<Option<[u8; 2 * LEN]>> {
    let twice = || signers.iter().map(|signer| (signer, false)).chain(signers.iter().map(|signer| (signer, true)));
    let messages: Vec<(&[u8], &[u8])> =
        twice().map(|(signer, _)| (&signer.private.prefix[..], signer.message)).collect();
    let mut nonces = scalars(kernels, &messages);
    nonces[signers.len()..].iter_mut().for_each(|nonce| *nonce = -*nonce);
    spoil_scalars(&mut nonces);
    let mut products: Vec<BaseProduct> =
        nonces.iter().map(|nonce| BaseProduct { scalar: digits(nonce), encoding: [0; 4] }).collect();
    base::multiply(kernels.public, room, &mut products);
    let heads: Vec<[u8; 2 * LEN]> = twice()
        .zip(&products)
        .map(|((signer, is_negative), product)| match is_negative {
            false => head(&bytes_of(&product.encoding), &signer.key.encoding),
            true => head(&bytes_of(&negated(product.encoding)), &signer.private.encoding),
        })
        .collect();
    let messages: Vec<(&[u8], &[u8])> =
        twice().zip(&heads).map(|((signer, _), head)| (&head[..], signer.message)).collect();
    let mut challenges = scalars(kernels, &messages);
    spoil_scalars(&mut challenges);
    let mut sums = Zeroizing::new(Vec::with_capacity(nonces.len()));
    for ((signer, is_negative), (nonce, challenge)) in twice().zip(nonces.iter().zip(challenges.iter())) {
        sums.push(match is_negative {
            false => nonce + challenge * signer.private.scalar,
            true => -(nonce + challenge * signer.private.negative),
        });
    }
    spoil_scalars(&mut sums);
    let both = heads.iter().zip(sums.iter()).map(|(head, s)| {
        let mut signature = Zeroizing::new([0; 2 * LEN]);
        signature[..LEN].copy_from_slice(&head[..LEN]);
        signature[LEN..].copy_from_slice(s.as_bytes());
        signature
    });
    let both: Vec<Zeroizing<[u8; 2 * LEN]>> = both.collect();
    let (first, second) = both.split_at(signers.len());
    let agreed = |(first, second): (&Zeroizing<[u8; 2 * LEN]>, &Zeroizing<[u8; 2 * LEN]>)| {
        let agree = first.iter().zip(second.iter()).fold(0, |any, (one, other)| any | (one ^ other)) == 0;
        declassify(agree).then(|| **first)
    };
    first.iter().zip(second).map(agreed).collect()
}

/// A signature to be verified.
pub(super) struct Signed<'k> {
    pub(super) index: usize,
    pub(super) key: &'k Key,
    pub(super) signature: [u8; 2 * LEN],
    /// The hash of `R`, the public key and the message.
    pub(super) k: Scalar,
}

impl Signed<'_> {
    /// `R`, as encoded.
    pub(super) fn r(&self) -> [u64; 4] {
        words_of(&self.signature[..LEN]).unwrap_or_default()
    }

    /// `S`, as encoded: below the order.
    pub(super) fn s(&self) -> [u8; LEN] {
        let mut s = [0; LEN];
        s.copy_from_slice(&self.signature[LEN..]);
        s
    }
}

/// The signatures of a group that are encoded as they must be, with their hashes; the others have failed.
pub(super) fn signed<'k>(kernels: &Kernels, work: &mut Work<'_>, group: &[(usize, &'k Key)]) -> Vec<Signed<'k>> {
    let mut all: Vec<Signed<'k>> = Vec::with_capacity(group.len());
    for (index, key) in group {
        match <[u8; 2 * LEN]>::try_from(work.tag_bytes(*index)) {
            Ok(signature) if strict::is_strict(&signature) => {
                all.push(Signed { index: *index, key, signature, k: Scalar::ZERO });
            }
            _ => work.fail(*index, OpStatus::AuthFailed),
        }
    }
    let heads: Vec<[u8; 2 * LEN]> =
        all.iter().map(|signed| head(&signed.signature[..LEN], &signed.key.encoding)).collect();
    let messages: Vec<(&[u8], &[u8])> =
        all.iter().zip(&heads).map(|(signed, head)| (&head[..], work.input(signed.index))).collect();
    let challenges = scalars(kernels, &messages);
    all.iter_mut().zip(challenges.iter()).for_each(|(signed, k)| signed.k = *k);
    all
}

/// Verifies (RFC 8032, 5.1.7): whether `[S] B - [k] A` is encoded as `R` is.
fn verify(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch, group: &[(usize, &Key)]) {
    let signed = signed(kernels, work, group);
    let mut all = Vec::with_capacity(signed.len());
    let mut places = Vec::with_capacity(signed.len());
    for signed in &signed {
        let Some(key) = signed.key.points(kernels.public) else {
            work.fail(signed.index, OpStatus::EngineFault);
            continue;
        };
        places.push((signed.index, signed.r()));
        all.push(Verification {
            key,
            s: Digits::of(words_of(&signed.s()).unwrap_or_default()),
            k: words(&signed.k),
            r: [0; 4],
        });
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

#[cfg(test)]
mod tests {
    use ciphermill_contract::suite::Signature;
    use ciphermill_vectors::keys::pairs;

    use super::super::super::fault::{Fault, with_fault};
    use super::*;

    const SUITE: Suite = Suite::Sign(Signature::Ed25519);

    /// Stages of one vector of operations: the nonces; the digits and the points of both computations; all points divided; the second
    /// hashes and the sums.
    const STAGES: usize = 8;

    fn every_kernel() -> impl Iterator<Item = Kernels> {
        PublicKernel::NAMES.iter().filter_map(|name| Kernels::choose(&[&format!("public={name}")]).ok())
    }

    fn key(kernels: &Kernels) -> Key {
        private_key(kernels, pairs(&SUITE.to_string())[0].private.as_slice().try_into().expect("a seed"))
            .expect("a key")
    }

    fn signed(kernels: &Kernels, keys: &[Key], messages: &[Vec<u8>]) -> Vec<Option<[u8; 2 * LEN]>> {
        let signer = |(key, message)| {
            let key: &Key = key;
            let message: &Vec<u8> = message;
            Signer { key, private: key.private.as_ref().expect("a private key"), message }
        };
        let signers: Vec<Signer<'_>> = keys.iter().zip(messages).map(signer).collect();
        signatures(kernels, &mut Room::default(), &signers)
    }

    /// Bits that flip in any stage of any lane: that lane has no signature, the others have theirs.
    #[test]
    fn a_fault_in_a_lane_gives_no_signature() {
        for kernels in every_kernel() {
            let lanes = usize::from(kernels.public.lanes());
            let keys: Vec<Key> = (0..lanes).map(|_| key(&kernels)).collect();
            let messages: Vec<Vec<u8>> = (0..lanes).map(|index| vec![index as u8; 5 * index]).collect();
            let good = signed(&kernels, &keys, &messages);
            assert!(good.iter().all(Option::is_some));
            for stage in 0..STAGES {
                for lane in 0..lanes {
                    for (limb, bits) in [(0, 1), (4, 16), (7, 4)] {
                        let fault = Fault { stage, lane, limb, bits };
                        let (outcome, passed) = with_fault(fault, || signed(&kernels, &keys, &messages));
                        assert_eq!(passed, STAGES);
                        for (index, (outcome, good)) in outcome.iter().zip(&good).enumerate() {
                            assert_eq!(outcome.is_none(), index == lane, "stage {stage}, lane {lane}, limb {limb}");
                            assert!(index == lane || outcome == good);
                        }
                    }
                }
            }
        }
    }

    /// Bits that flip in what is kept of a key, but for the prefix, of which another nonce comes.
    #[test]
    fn a_key_that_has_changed_signs_nothing() {
        let kernels = Kernels::choose(&[]).expect("the preferred ones");
        let spoils: [fn(&mut Key, &mut PrivateKey); 4] = [
            |key, _| key.encoding[3] ^= 8,
            |_, private| private.encoding[31] ^= 1,
            |_, private| private.scalar += Scalar::from(1u64 << 40),
            |_, private| private.negative += Scalar::ONE,
        ];
        for spoil in spoils {
            let mut key = key(&kernels);
            let mut private = key.private.take().expect("a private key");
            spoil(&mut key, &mut private);
            key.private = Some(private);
            assert_eq!(signed(&kernels, &[key], &[vec![1, 2, 3]]), [None]);
        }
    }
}
