//! ML-KEM (FIPS 203): hashing and drawing across operations and keys, arithmetic of one after the other.
//!
//! Permutations of Keccak for an encapsulation with ML-KEM-768, of which lanes share one: 36 for a key that is used for the first
//! time (27 of its matrix, 9 of its hash), 1 for the secret and 7 for the noise. Decapsulation adds 9 for the secret of a
//! damaged ciphertext.

use ciphermill_contract::suite::{Digest, Kem};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::kem_ring::{POLY_LEN, Poly, Set, decode, decrypt, encrypt, generate, sample_matrix, sample_noise};
use crate::hash;
use crate::hash::sponge::Seed;
use crate::select::Kernels;

/// Bytes of seeds, messages and secrets.
pub(super) const LEN: usize = 32;

/// The parameter set of a KEM (FIPS 203, table 2).
pub(super) const fn set_of(kem: Kem) -> Set {
    match kem {
        Kem::MlKem512 => Set { k: 2, eta: 3, u_bits: 10, v_bits: 4 },
        Kem::MlKem768 => Set { k: 3, eta: 2, u_bits: 10, v_bits: 4 },
        Kem::MlKem1024 => Set { k: 4, eta: 2, u_bits: 11, v_bits: 5 },
    }
}

/// A public key with what every encapsulation needs of it.
#[derive(Default)]
pub(crate) struct PublicKey {
    /// Transformed, as the encoding has it.
    t: Vec<Poly>,
    /// By rows.
    matrix: Vec<Poly>,
    /// Of the encoding.
    hash: [u8; LEN],
}

/// What comes of a seed `d ‖ z`.
pub(super) struct PrivateKey {
    secret: Secret,
    /// What damaged ciphertexts' secrets are made of.
    z: Zeroizing<[u8; LEN]>,
    /// The other half, for the second encryption.
    pub(super) public: PublicKey,
}

/// The transformed secret vector.
#[derive(ZeroizeOnDrop)]
struct Secret(Vec<Poly>);

/// The matrices of seeds, by rows (FIPS 203, algorithm 13, lines 3 to 7).
fn matrices(kernels: &Kernels, k: usize, seeds: &[&[u8]]) -> Vec<Poly> {
    let mut all = Vec::with_capacity(seeds.len() * k * k);
    for seed in seeds {
        for row in 0..k as u8 {
            all.extend((0..k as u8).map(|column| Seed::new(seed, &[column, row])));
        }
    }
    let mut polys = vec![Poly::default(); all.len()];
    sample_matrix(kernels.lattice, &all, &mut polys);
    polys
}

/// Noise of several seeds, `count` polynomials each, the first `wide` of them `eta` wide (FIPS 203, 4.1: PRF).
fn noise(kernels: &Kernels, set: Set, wide: usize, count: usize, seeds: &[&[u8]]) -> Zeroizing<Vec<Poly>> {
    let mut polys = Zeroizing::new(vec![Poly::default(); seeds.len() * count]);
    let draw = |eta, numbers: core::ops::Range<usize>, polys: &mut [Poly]| {
        let numbered =
            |seed: &&[u8]| numbers.clone().map(|number| Seed::new(seed, &[number as u8])).collect::<Vec<_>>();
        let all: Zeroizing<Vec<Seed>> = Zeroizing::new(seeds.iter().flat_map(numbered).collect());
        sample_noise(kernels.lattice, eta, &all, polys);
    };
    if set.eta == 2 {
        draw(2, 0..count, &mut polys);
        return polys;
    }
    let mut parts = Zeroizing::new(vec![Poly::default(); seeds.len() * wide.max(count - wide)]);
    for (eta, numbers) in [(set.eta, 0..wide), (2, wide..count)] {
        if numbers.is_empty() {
            continue;
        }
        let len = numbers.len();
        draw(eta, numbers.clone(), &mut parts[..seeds.len() * len]);
        for (to, from) in polys.chunks_mut(count).zip(parts.chunks(len)) {
            to[numbers.clone()].copy_from_slice(from);
        }
    }
    polys
}

/// Whether all coefficients of a public key are reduced (FIPS 203, 7.2).
pub(super) fn is_reduced(kernels: &Kernels, set: Set, encoded: &[u8]) -> bool {
    let mut t = vec![Poly::default(); set.k];
    encoded.len() == POLY_LEN * set.k + LEN && decode(kernels.lattice, &encoded[..POLY_LEN * set.k], &mut t)
}

/// Expands public keys whose length and coefficients have been looked at.
pub(super) fn expand(kernels: &Kernels, set: Set, encoded: &[&[u8]], keys: &mut [PublicKey]) {
    let seeds: Vec<&[u8]> = encoded.iter().map(|encoded| &encoded[POLY_LEN * set.k..]).collect();
    let all = matrices(kernels, set.k, &seeds);
    let hashes = hash::digests(kernels.hash, Digest::Sha3_256, encoded);
    for (((encoded, matrix), hash), key) in encoded.iter().zip(all.chunks(set.k * set.k)).zip(&hashes).zip(keys) {
        key.matrix.clear();
        key.matrix.extend_from_slice(matrix);
        key.t.resize(set.k, Poly::default());
        key.hash.copy_from_slice(&hash[..LEN]);
        decode(kernels.lattice, &encoded[..POLY_LEN * set.k], &mut key.t);
    }
}

/// What comes of seeds `d ‖ z`, one behind the other (FIPS 203, algorithm 13).
struct Generated {
    matrices: Vec<Poly>,
    /// For each seed the transformed secret vector, and the errors.
    secrets: Zeroizing<Vec<Poly>>,
    t: Vec<Poly>,
    /// Encapsulation keys.
    encoded: Vec<Vec<u8>>,
}

fn generate_all(kernels: &Kernels, set: Set, seeds: &[&[u8; 2 * LEN]]) -> Generated {
    let k = set.k;
    let tail = [k as u8];
    let halves: Vec<(&[u8], &[u8])> = seeds.iter().map(|seed| (&seed[..LEN], &tail[..])).collect();
    let hashed = Zeroizing::new(hash::digests_with_heads(kernels.hash, Digest::Sha3_512, &halves));
    let rhos: Vec<&[u8]> = hashed.iter().map(|hash| &hash[..LEN]).collect();
    let sigmas: Vec<&[u8]> = hashed.iter().map(|hash| &hash[LEN..2 * LEN]).collect();
    let matrices = matrices(kernels, k, &rhos);
    let mut secrets = noise(kernels, set, 2 * k, 2 * k, &sigmas);
    let mut t = vec![Poly::default(); seeds.len() * k];
    let one = |(((rho, matrix), secrets), t): (((&&[u8], &[Poly]), &mut [Poly]), &mut [Poly])| {
        let mut encoded = vec![0; POLY_LEN * k + LEN];
        encoded[POLY_LEN * k..].copy_from_slice(rho);
        generate(kernels.lattice, set, matrix, secrets, t, &mut encoded);
        encoded
    };
    let all = rhos.iter().zip(matrices.chunks(k * k)).zip(secrets.chunks_mut(2 * k)).zip(t.chunks_mut(k));
    let encoded = all.map(one).collect();
    Generated { matrices, secrets, t, encoded }
}

/// The key pairs of seeds `d ‖ z` (FIPS 203, algorithm 16).
pub(super) fn key_pairs(kernels: &Kernels, set: Set, seeds: &[&[u8; 2 * LEN]]) -> Vec<PrivateKey> {
    let k = set.k;
    let all = generate_all(kernels, set, seeds);
    let encoded: Vec<&[u8]> = all.encoded.iter().map(|encoded| &encoded[..]).collect();
    let hashes = hash::digests(kernels.hash, Digest::Sha3_256, &encoded);
    let polys = all.matrices.chunks(k * k).zip(all.secrets.chunks(2 * k)).zip(all.t.chunks(k));
    let pair =
        |((seed, hash), ((matrix, secrets), t)): ((&&[u8; 2 * LEN], &hash::Tag), ((&[Poly], &[Poly]), &[Poly]))| {
            let mut public = PublicKey { t: t.to_vec(), matrix: matrix.to_vec(), hash: [0; LEN] };
            public.hash.copy_from_slice(&hash[..LEN]);
            let mut z = Zeroizing::new([0; LEN]);
            z.copy_from_slice(&seed[LEN..]);
            PrivateKey { secret: Secret(secrets[..k].to_vec()), z, public }
        };
    seeds.iter().zip(&hashes).zip(polys).map(pair).collect()
}

/// The encapsulation keys of seeds `d ‖ z`: key generation without what the private operation needs.
pub(super) fn public_keys(kernels: &Kernels, set: Set, seeds: &[&[u8; 2 * LEN]]) -> Vec<Vec<u8>> {
    generate_all(kernels, set, seeds).encoded
}

/// An encapsulation: message and ciphertext belong to the operation alone.
pub(super) struct Encapsulation<'k> {
    pub(super) key: &'k PublicKey,
    pub(super) message: [u8; LEN],
    pub(super) ciphertext: Vec<u8>,
    pub(super) secret: [u8; LEN],
}

impl Drop for Encapsulation<'_> {
    fn drop(&mut self) {
        self.message.zeroize();
        self.secret.zeroize();
    }
}

impl<'k> Encapsulation<'k> {
    pub(super) fn new(key: &'k PublicKey, message: &[u8; LEN], ciphertext_len: usize) -> Encapsulation<'k> {
        Encapsulation { key, message: *message, ciphertext: vec![0; ciphertext_len], secret: [0; LEN] }
    }
}

/// Encapsulates messages (FIPS 203, algorithm 17).
pub(super) fn encapsulate(kernels: &Kernels, set: Set, all: &mut [Encapsulation<'_>]) {
    let messages: Vec<(&[u8], &[u8])> = all.iter().map(|one| (&one.message[..], &one.key.hash[..])).collect();
    let hashed = Zeroizing::new(hash::digests_with_heads(kernels.hash, Digest::Sha3_512, &messages));
    let coins: Vec<&[u8]> = hashed.iter().map(|hash| &hash[LEN..2 * LEN]).collect();
    let count = 2 * set.k + 1;
    let drawn = noise(kernels, set, set.k, count, &coins);
    for ((one, hash), noise) in all.iter_mut().zip(hashed.iter()).zip(drawn.chunks(count)) {
        one.secret.copy_from_slice(&hash[..LEN]);
        let key = (&one.key.matrix[..], &one.key.t[..]);
        encrypt(kernels.lattice, set, key, &one.message, noise, &mut one.ciphertext);
    }
}

/// The shared secrets of ciphertexts, which have the set's length (FIPS 203, algorithm 18).
///
/// A ciphertext that the second encryption does not give again has a secret that nobody else knows; which of the two it is shows
/// neither in a branch nor in an address.
pub(super) fn decapsulate(kernels: &Kernels, set: Set, all: &[(&PrivateKey, &[u8])]) -> Zeroizing<Vec<[u8; LEN]>> {
    let mut again: Vec<Encapsulation<'_>> =
        all.iter().map(|(key, ciphertext)| Encapsulation::new(&key.public, &[0; LEN], ciphertext.len())).collect();
    for (one, (key, ciphertext)) in again.iter_mut().zip(all) {
        decrypt(kernels.lattice, set, &key.secret.0, ciphertext, &mut one.message);
    }
    encapsulate(kernels, set, &mut again);
    let rejected: Vec<(&[u8], &[u8])> = all.iter().map(|(key, ciphertext)| (&key.z[..], *ciphertext)).collect();
    let rejected = Zeroizing::new(hash::digests_with_heads(kernels.hash, Digest::Shake256, &rejected));
    let mut secrets = Zeroizing::new(Vec::with_capacity(all.len()));
    for ((one, rejected), (_, ciphertext)) in again.iter().zip(rejected.iter()).zip(all) {
        let difference = one.ciphertext.iter().zip(*ciphertext).fold(0, |all, (a, b)| all | (a ^ b));
        // All ones where nothing differs.
        let is_same = core::hint::black_box((u16::from(difference).wrapping_sub(1) >> 8) as u8);
        let mut secret = [0; LEN];
        for (at, byte) in secret.iter_mut().enumerate() {
            *byte = (one.secret[at] & is_same) | (rejected[at] & !is_same);
        }
        secrets.push(secret);
        secret.zeroize();
    }
    secrets
}
