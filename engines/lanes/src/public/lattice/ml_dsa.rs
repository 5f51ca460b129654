//! ML-DSA (FIPS 204), hedged and with an empty context: hashing and drawing across operations, keys and polynomials, arithmetic of
//! one operation after the other.
//!
//! Permutations of Keccak for a verification with ML-DSA-65, of which lanes share one: 165 for a key that is used for the first
//! time (150 of its matrix, 15 of its hash), 1 and more for the message, 1 for the challenge and 7 for its comparison.

use ciphermill_contract::suite::{Digest, MlDsaSet};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::dsa_kernels::{
    STRETCHED, Secrets, Set, T1_LEN, commit, generate, open_public, respond, sample_challenges, sample_masks,
    sample_matrix, sample_secrets, stretch, verify,
};
use super::dsa_ring::{Gamma2, Poly};
use crate::hash;
use crate::hash::sponge::Seed;
use crate::select::Kernels;

/// Bytes of seeds.
pub(super) const LEN: usize = 32;

/// Bytes of the hashes of keys and messages.
const HASH_LEN: usize = 64;

/// Attempts at a signature; fewer than one in 2^256 needs more (FIPS 204, appendix C).
const ATTEMPTS_MAX: usize = 814;

/// The parameters of a set (FIPS 204, table 1).
pub(super) const fn set_of(set: MlDsaSet) -> Set {
    match set {
        MlDsaSet::MlDsa44 => {
            Set { k: 4, l: 4, eta: 2, tau: 39, gamma1_bits: 17, gamma2: Gamma2::Narrow, omega: 80, challenge_len: 32 }
        }
        MlDsaSet::MlDsa65 => {
            Set { k: 6, l: 5, eta: 4, tau: 49, gamma1_bits: 19, gamma2: Gamma2::Wide, omega: 55, challenge_len: 48 }
        }
        MlDsaSet::MlDsa87 => {
            Set { k: 8, l: 7, eta: 2, tau: 60, gamma1_bits: 19, gamma2: Gamma2::Wide, omega: 75, challenge_len: 64 }
        }
    }
}

/// A public key with what every verification needs of it.
pub(crate) struct PublicKey {
    /// By rows.
    matrix: Vec<Poly>,
    /// `-t1 · 2^d`, transformed.
    t: Vec<Poly>,
    /// Of the encoding: `tr`.
    hash: [u8; HASH_LEN],
}

impl Default for PublicKey {
    fn default() -> PublicKey {
        PublicKey { matrix: Vec::new(), t: Vec::new(), hash: [0; HASH_LEN] }
    }
}

/// What comes of a seed.
pub(super) struct PrivateKey {
    secrets: Wiped,
    t0: Wiped,
    /// What masks are drawn from: `K`.
    seed: Zeroizing<[u8; LEN]>,
    /// The other half.
    pub(super) public: PublicKey,
}

/// Transformed polynomials that are wiped.
#[derive(ZeroizeOnDrop)]
struct Wiped(Vec<Poly>);

/// The matrix of a seed, by rows (FIPS 204, algorithm 32). It fills lanes by itself.
fn draw_matrix(kernels: &Kernels, set: Set, seed: &[u8], matrix: &mut Vec<Poly>) {
    let (rows, columns) = (set.k as u8, set.l as u8);
    let seeds: Vec<Seed> =
        (0..rows).flat_map(|row| (0..columns).map(move |column| Seed::new(seed, &[column, row]))).collect();
    matrix.resize(seeds.len(), Poly::default());
    sample_matrix(kernels.lattice, &seeds, matrix);
}

/// Expands public keys, of the right length each.
pub(super) fn expand(kernels: &Kernels, set: Set, encoded: &[&[u8]], keys: &mut [PublicKey]) {
    let hashes = hash::digests(kernels.hash, Digest::Shake256, encoded);
    for ((encoded, hash), key) in encoded.iter().zip(&hashes).zip(keys) {
        let (seed, t1) = encoded.split_at(LEN);
        draw_matrix(kernels, set, seed, &mut key.matrix);
        key.t.resize(set.k, Poly::default());
        open_public(kernels.lattice, t1, &mut key.t);
        key.hash = hash_of(hash);
    }
}

fn hash_of(tag: &hash::Tag) -> [u8; HASH_LEN] {
    let mut hash = [0; HASH_LEN];
    hash.copy_from_slice(&tag[..HASH_LEN]);
    hash
}

/// What comes of a seed (FIPS 204, algorithm 6).
struct Generated<'s> {
    /// Its hash: the seeds of the matrix, of the secrets and of masks.
    stretched: &'s [u8; STRETCHED],
    /// Memory that the next one uses unless it is taken.
    matrix: &'s mut Vec<Poly>,
    /// Transformed: `s1` and `s2`.
    secrets: &'s [Poly],
    /// Transformed.
    t0: &'s [Poly],
    encoded: Vec<u8>,
}

fn generate_all(kernels: &Kernels, set: Set, seeds: &[&[u8; LEN]], mut each: impl FnMut(Generated<'_>)) {
    let polys = set.k + set.l;
    let tail = [set.k as u8, set.l as u8];
    let seeds: Zeroizing<Vec<Seed>> = Zeroizing::new(seeds.iter().map(|seed| Seed::new(&seed[..], &tail)).collect());
    let mut all = Zeroizing::new(vec![[0; STRETCHED]; seeds.len()]);
    stretch(kernels.lattice, &seeds, &mut all);
    let numbered = |stretched: &[u8; STRETCHED]| {
        (0..polys as u16).map(|number| Seed::new(&stretched[LEN..3 * LEN], &number.to_le_bytes())).collect::<Vec<_>>()
    };
    let numbered: Zeroizing<Vec<Seed>> = Zeroizing::new(all.iter().flat_map(numbered).collect());
    let mut drawn = Zeroizing::new(vec![Poly::default(); numbered.len()]);
    sample_secrets(kernels.lattice, set.eta, &numbered, &mut drawn);
    let (mut matrix, mut t0) = (Vec::new(), Zeroizing::new(vec![Poly::default(); set.k]));
    for (stretched, secrets) in all.iter().zip(drawn.chunks_mut(polys)) {
        draw_matrix(kernels, set, &stretched[..LEN], &mut matrix);
        let mut encoded = vec![0; LEN + T1_LEN * set.k];
        encoded[..LEN].copy_from_slice(&stretched[..LEN]);
        generate(kernels.lattice, set, &matrix, secrets, &mut t0, &mut encoded[LEN..]);
        each(Generated { stretched, matrix: &mut matrix, secrets, t0: &t0, encoded });
    }
}

/// The key pairs of seeds.
pub(super) fn key_pairs(kernels: &Kernels, set: Set, seeds: &[&[u8; LEN]]) -> Vec<PrivateKey> {
    let (mut pairs, mut encoded) = (Vec::with_capacity(seeds.len()), Vec::with_capacity(seeds.len()));
    generate_all(kernels, set, seeds, |one| {
        let mut t = vec![Poly::default(); set.k];
        open_public(kernels.lattice, &one.encoded[LEN..], &mut t);
        let mut seed = Zeroizing::new([0; LEN]);
        seed.copy_from_slice(&one.stretched[3 * LEN..]);
        let public = PublicKey { matrix: core::mem::take(one.matrix), t, hash: [0; HASH_LEN] };
        pairs.push(PrivateKey { secrets: Wiped(one.secrets.to_vec()), t0: Wiped(one.t0.to_vec()), seed, public });
        encoded.push(one.encoded);
    });
    let encoded: Vec<&[u8]> = encoded.iter().map(|encoded| &encoded[..]).collect();
    for (pair, hash) in pairs.iter_mut().zip(hash::digests(kernels.hash, Digest::Shake256, &encoded)) {
        pair.public.hash = hash_of(&hash);
    }
    pairs
}

/// The public keys of seeds: key generation without what the private operation needs.
pub(super) fn public_keys(kernels: &Kernels, set: Set, seeds: &[&[u8; LEN]]) -> Vec<Vec<u8>> {
    let mut all = Vec::with_capacity(seeds.len());
    generate_all(kernels, set, seeds, |one| all.push(one.encoded));
    all
}

/// What is signed: a context string of at most 255 bytes, and a message.
#[derive(Clone, Copy, Default)]
pub(super) struct Message<'a> {
    pub(super) context: &'a [u8],
    pub(super) bytes: &'a [u8],
}

/// Bytes of a head that [`hash::digests_with_heads`] takes: less than a block.
const HEAD_MAX: usize = 135;

/// What is hashed before a message.
struct Head {
    bytes: Vec<u8>,
    /// The context and the message, where the head has no room for the context: that is rare, and worth a copy.
    joined: Vec<u8>,
}

impl Head {
    /// The hash of the key, and that the message itself is signed, under this context (FIPS 204, algorithms 2 and 3).
    fn new((key, message): &(&PublicKey, Message<'_>)) -> Head {
        let mut bytes = [&key.hash[..], &[0, message.context.len() as u8]].concat();
        if bytes.len() + message.context.len() > HEAD_MAX {
            return Head { bytes, joined: [message.context, message.bytes].concat() };
        }
        bytes.extend_from_slice(message.context);
        Head { bytes, joined: Vec::new() }
    }
}

/// The hashes of messages under their keys: `mu` (FIPS 204, algorithm 7, line 6).
fn message_hashes(kernels: &Kernels, messages: &[(&PublicKey, Message<'_>)]) -> Vec<hash::Tag> {
    let heads: Vec<Head> = messages.iter().map(Head::new).collect();
    let both: Vec<(&[u8], &[u8])> = heads
        .iter()
        .zip(messages)
        .map(|(head, (_, message))| {
            (&head.bytes[..], if head.joined.is_empty() { message.bytes } else { &head.joined[..] })
        })
        .collect();
    hash::digests_with_heads(kernels.hash, Digest::Shake256, &both)
}

/// The challenges of commitments, as their polynomials are drawn from them.
fn challenges(kernels: &Kernels, hashes: &[&hash::Tag], commitments: &[Vec<u8>]) -> Vec<hash::Tag> {
    let both: Vec<(&[u8], &[u8])> =
        hashes.iter().zip(commitments).map(|(hash, high)| (&hash[..HASH_LEN], &high[..])).collect();
    hash::digests_with_heads(kernels.hash, Digest::Shake256, &both)
}

/// The polynomials of challenges.
fn challenge_polys(kernels: &Kernels, set: Set, challenges: &[&[u8]]) -> Vec<Poly> {
    let seeds: Vec<Seed> = challenges.iter().map(|challenge| Seed::new(challenge, &[])).collect();
    let mut polys = vec![Poly::default(); seeds.len()];
    sample_challenges(kernels.lattice, set.tau, &seeds, &mut polys);
    polys
}

/// Key, message and signature of the set's length.
pub(super) type Signed<'a> = (&'a PublicKey, Message<'a>, &'a [u8]);

/// Which signatures are valid (FIPS 204, algorithm 8).
pub(super) fn verify_all(kernels: &Kernels, set: Set, all: &[Signed<'_>]) -> Vec<bool> {
    let messages: Vec<_> = all.iter().map(|(key, message, _)| (*key, *message)).collect();
    let hashes = message_hashes(kernels, &messages);
    let given: Vec<&[u8]> = all.iter().map(|(.., signature)| &signature[..set.challenge_len]).collect();
    let polys = challenge_polys(kernels, set, &given);
    let mut commitments = vec![vec![0; set.k * set.gamma2.high_len()]; all.len()];
    let mut valid = Vec::with_capacity(all.len());
    for (((key, _, signature), poly), high) in all.iter().zip(&polys).zip(&mut commitments) {
        let (key, response) = ((&key.matrix[..], &key.t[..]), &signature[set.challenge_len..]);
        valid.push(verify(kernels.lattice, set, key, poly, response, high));
    }
    let again = challenges(kernels, &hashes.iter().collect::<Vec<_>>(), &commitments);
    for ((valid, given), again) in valid.iter_mut().zip(&given).zip(&again) {
        *valid &= **given == again[..set.challenge_len];
    }
    valid
}

/// A signature that is being made.
pub(super) struct Signing<'k> {
    key: &'k PrivateKey,
    /// Of the message: `mu`.
    hash: hash::Tag,
    /// What its masks are drawn from.
    seed: Zeroizing<[u8; HASH_LEN]>,
    mask: Zeroizing<Vec<Poly>>,
    w: Zeroizing<Vec<Poly>>,
    /// Empty if there were too many attempts.
    pub(super) signature: Vec<u8>,
    is_done: bool,
}

impl Drop for Signing<'_> {
    fn drop(&mut self) {
        self.hash.zeroize();
    }
}

/// Signs messages (FIPS 204, algorithms 2 and 7), each with 32 random bytes. Those whose attempt is rejected share the next one's
/// lanes.
pub(super) fn sign_all<'k>(
    kernels: &Kernels,
    set: Set,
    all: &[(&'k PrivateKey, Message<'_>)],
    random: &[[u8; LEN]],
    signature_len: usize,
) -> Vec<Signing<'k>> {
    let messages: Vec<_> = all.iter().map(|(key, message)| (&key.public, *message)).collect();
    let hashes = message_hashes(kernels, &messages);
    let head = |((key, _), random): (&(&PrivateKey, Message<'_>), &[u8; LEN])| {
        let mut head = [0; 2 * LEN];
        head[..LEN].copy_from_slice(&key.seed[..]);
        head[LEN..].copy_from_slice(random);
        head
    };
    let heads: Zeroizing<Vec<[u8; 2 * LEN]>> = Zeroizing::new(all.iter().zip(random).map(head).collect());
    let seeded: Vec<(&[u8], &[u8])> =
        heads.iter().zip(&hashes).map(|(head, hash)| (&head[..], &hash[..HASH_LEN])).collect();
    let seeds = Zeroizing::new(hash::digests_with_heads(kernels.hash, Digest::Shake256, &seeded));
    let start = |(((key, _), hash), seed): ((&(&'k PrivateKey, Message<'_>), &hash::Tag), &hash::Tag)| Signing {
        key,
        hash: *hash,
        seed: Zeroizing::new(hash_of(seed)),
        mask: Zeroizing::new(vec![Poly::default(); set.l]),
        w: Zeroizing::new(vec![Poly::default(); set.k]),
        signature: vec![0; signature_len],
        is_done: false,
    };
    let mut signings: Vec<Signing<'k>> = all.iter().zip(&hashes).zip(seeds.iter()).map(start).collect();
    for number in 0..ATTEMPTS_MAX {
        let mut pending: Vec<&mut Signing<'k>> = signings.iter_mut().filter(|signing| !signing.is_done).collect();
        if pending.is_empty() {
            return signings;
        }
        attempt(kernels, set, number, &mut pending);
    }
    signings.iter_mut().filter(|signing| !signing.is_done).for_each(|signing| signing.signature.clear());
    signings
}

/// The same attempt at several signatures.
fn attempt(kernels: &Kernels, set: Set, number: usize, pending: &mut [&mut Signing<'_>]) {
    let first = number * set.l;
    let numbered = |signing: &&mut Signing<'_>| {
        let of = |column| Seed::new(&signing.seed[..], &((first + column) as u16).to_le_bytes());
        (0..set.l).map(of).collect::<Vec<_>>()
    };
    let seeds: Zeroizing<Vec<Seed>> = Zeroizing::new(pending.iter().flat_map(numbered).collect());
    let mut masks = Zeroizing::new(vec![Poly::default(); seeds.len()]);
    sample_masks(kernels.lattice, set.gamma1_bits, &seeds, &mut masks);
    let mut commitments = Zeroizing::new(vec![vec![0; set.k * set.gamma2.high_len()]; pending.len()]);
    for ((signing, mask), high) in pending.iter_mut().zip(masks.chunks(set.l)).zip(commitments.iter_mut()) {
        signing.mask.copy_from_slice(mask);
        commit(kernels.lattice, set, &signing.key.public.matrix, mask, &mut signing.w, high);
    }
    let hashes: Vec<&hash::Tag> = pending.iter().map(|signing| &signing.hash).collect();
    let all = challenges(kernels, &hashes, &commitments);
    let polys = challenge_polys(kernels, set, &all.iter().map(|all| &all[..set.challenge_len]).collect::<Vec<_>>());
    for ((signing, challenge), poly) in pending.iter_mut().zip(&all).zip(&polys) {
        let (head, response) = signing.signature.split_at_mut(set.challenge_len);
        let key = Secrets { secrets: &signing.key.secrets.0, t0: &signing.key.t0.0 };
        signing.is_done = respond(kernels.lattice, set, key, poly, &signing.mask, &signing.w, response);
        head.copy_from_slice(&challenge[..set.challenge_len]);
    }
}
