//! ML-DSA (FIPS 204), hedged, with an empty context: the keys' expansion, the hash of the message, and the hints, which
//! signatures list and the device has as bits. Everything else is the device's (`kernels/lattice/ml_dsa.cl`).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::MlDsaSet;
use ciphermill_contract::{KeyForm, KeyMaterial, OpStatus, Reason};
use ml_dsa::{ExpandedSigningKey, MlDsa44, MlDsa65, MlDsa87, MlDsaParams, Seed};
use shake::{ExtendableOutput, Shake128, Shake256, Update, XofReader};
use zeroize::{Zeroize, Zeroizing};

use super::super::around::{Around, Out, Shape, View};
use super::put_word;
use super::ring::{self, N, Poly, Q};
use crate::device::GROUP;
use crate::form::Form;
use crate::keys::Halves;
use crate::program::Program;

/// Bytes of mu, the hash of the message, of the hash of the public key, and of the seed rho''.
const HASH_LEN: usize = 64;

/// Bytes of the seeds rho and K, and of a signature's randomness.
const SEED_LEN: usize = 32;

/// Bits that t1 has dropped, d.
const DROPPED: u32 = 13;

/// Bytes of the hints of a polynomial on the device, a bit a coefficient.
const HINTS_LEN: usize = N / 8;

/// Bytes of a block of SHAKE128.
const BLOCK_LEN: usize = 168;

/// What a parameter set says (FIPS 204, table 1).
#[derive(Clone, Copy)]
struct Numbers {
    k: usize,
    l: usize,
    eta: u32,
    omega: usize,
    /// Bits of a coefficient of z.
    z_bits: usize,
    challenge_len: usize,
}

fn numbers(set: MlDsaSet) -> Numbers {
    match set {
        MlDsaSet::MlDsa44 => Numbers { k: 4, l: 4, eta: 2, omega: 80, z_bits: 18, challenge_len: 32 },
        MlDsaSet::MlDsa65 => Numbers { k: 6, l: 5, eta: 4, omega: 55, z_bits: 20, challenge_len: 48 },
        MlDsaSet::MlDsa87 => Numbers { k: 8, l: 7, eta: 2, omega: 75, z_bits: 20, challenge_len: 64 },
    }
}

impl Numbers {
    /// Bytes of a signature before its hints: the challenge and z.
    fn answer_len(&self) -> usize {
        self.challenge_len + self.l * self.z_bits * N / 8
    }
}

/// The host's half of a key: the hash of the public key, and the private seed K.
pub(in crate::public) struct DsaKey {
    public_hash: [u8; HASH_LEN],
    private_seed: Option<Zeroizing<[u8; SEED_LEN]>>,
}

impl DsaKey {
    /// The hash of a message under a context, of at most 255 bytes as the contract has looked at (FIPS 204, algorithms 2 and 7).
    fn message_hash(&self, op: &View<'_>) -> [u8; HASH_LEN] {
        hash(&[&self.public_hash, &[0, op.aad.len() as u8], op.aad, op.input])
    }
}

/// SHAKE256 of parts one behind the other.
fn hash(parts: &[&[u8]]) -> [u8; HASH_LEN] {
    let mut hasher = Shake256::default();
    parts.iter().for_each(|part| hasher.update(part));
    let mut out = [0; HASH_LEN];
    hasher.finalize_xof().read(&mut out);
    out
}

/// Prepares a seed or a public key. Any bytes of the right length are a public key.
///
/// # Errors
/// `Length`.
pub(in crate::public) fn prepare(key: &KeyMaterial<'_>, set: MlDsaSet) -> Result<Halves, KeyProblem> {
    let numbers = numbers(set);
    if key.form != KeyForm::Private {
        if key.bytes.len() != set.public_len() {
            return Err(KeyProblem::Length);
        }
        let host = DsaKey { public_hash: hash(&[key.bytes]), private_seed: None };
        return Ok(Halves { device: form(&numbers, key.bytes, None), host: Some(Box::new(host)) });
    }
    let (public, private) = match set {
        MlDsaSet::MlDsa44 => expand::<MlDsa44>(key.bytes),
        MlDsaSet::MlDsa65 => expand::<MlDsa65>(key.bytes),
        MlDsaSet::MlDsa87 => expand::<MlDsa87>(key.bytes),
    }?;
    // Rho, K, the hash of the public key, then polynomials (FIPS 204, algorithm 24).
    let (seeds, rest) = private.split_at(2 * SEED_LEN);
    let (public_hash, polys) = rest.split_at(HASH_LEN);
    let mut host = DsaKey { public_hash: [0; HASH_LEN], private_seed: None };
    host.public_hash.copy_from_slice(public_hash);
    host.private_seed.insert(Zeroizing::default()).copy_from_slice(&seeds[SEED_LEN..]);
    Ok(Halves { device: form(&numbers, &public, Some(polys)), host: Some(Box::new(host)) })
}

/// The key pair of a seed, as FIPS 204 encodes both.
fn expand<P: MlDsaParams>(seed: &[u8]) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), KeyProblem> {
    let mut seed = Seed::try_from(seed).map_err(|_| KeyProblem::Length)?;
    let private = Box::new(ExpandedSigningKey::<P>::from_seed(&seed));
    seed.as_mut_slice().zeroize();
    #[allow(deprecated)] // The one way to the secret vectors without working them out anew.
    let mut bytes = private.to_expanded();
    let expanded = Zeroizing::new(bytes.as_slice().to_vec());
    bytes.as_mut_slice().zeroize();
    Ok((private.verifying_key().encode().as_slice().to_vec(), expanded))
}

/// A key as the kernels read it; `private` are the encodings of s1, s2 and t0.
fn form(numbers: &Numbers, public: &[u8], private: Option<&[u8]>) -> Form {
    let Numbers { k, l, eta, .. } = *numbers;
    let polys = k * (l + 1) + if private.is_some() { l + 2 * k } else { 0 };
    // Room for all of it at once, so that no copy is left behind.
    let mut form = Zeroizing::new(Vec::with_capacity(16 + 4 * N * polys));
    [k as u32, 0, 0, 0].into_iter().for_each(|word| put_word(&mut form, word));
    let (rho, t1) = public.split_at(SEED_LEN);
    for row in 0..k {
        (0..l).for_each(|column| put(&mut form, &matrix(rho, row as u8, column as u8)));
    }
    // Negated, so that the kernel adds.
    put_encoded(&mut form, t1, 10, |bits| (Q - (bits << DROPPED)) % Q);
    let Some(private) = private else { return form };
    let eta_bits = if eta == 2 { 3 } else { 4 };
    let (small, t0) = private.split_at((k + l) * N * eta_bits / 8);
    put_encoded(&mut form, small, eta_bits, |bits| (Q + eta - bits) % Q);
    put_encoded(&mut form, t0, DROPPED as usize, |bits| (Q + (1 << (DROPPED - 1)) - bits) % Q);
    form
}

/// Polynomials that are encoded with as many bits a coefficient go to the device, transformed.
fn put_encoded(form: &mut Vec<u8>, encoded: &[u8], bits: usize, value: impl Fn(u32) -> u32) {
    for encoded in encoded.chunks_exact(N * bits / 8) {
        let mut poly = Zeroizing::new([0; N]);
        for (number, coefficient) in poly.iter_mut().enumerate() {
            *coefficient = value(bits_at(encoded, number * bits, bits));
        }
        ring::transform(&mut poly);
        put(form, &poly);
    }
}

/// A number of a few bits that begins at a bit (FIPS 204, algorithms 18 and 19).
fn bits_at(bytes: &[u8], at: usize, bits: usize) -> u32 {
    let near = bytes[at / 8..].iter().take(4).rev().fold(0, |near, byte| near << 8 | u32::from(*byte));
    near >> (at % 8) & ((1 << bits) - 1)
}

fn put(form: &mut Vec<u8>, poly: &Poly) {
    poly.iter().for_each(|coefficient| put_word(form, ring::for_device(*coefficient)));
}

/// A polynomial of the matrix: what the public seed says, by rejection (FIPS 204, algorithms 30 and 32).
fn matrix(rho: &[u8], row: u8, column: u8) -> Poly {
    let mut stream = Shake128::default().chain(rho).chain([column, row]).finalize_xof();
    let (mut poly, mut filled, mut block) = ([0; N], 0, [0; BLOCK_LEN]);
    while filled < N {
        stream.read(&mut block);
        let numbers = block.chunks_exact(3).map(|bytes| bits_at(bytes, 0, 23));
        for (place, number) in poly[filled..].iter_mut().zip(numbers.filter(|number| *number < Q)) {
            *place = number;
            filled += 1;
        }
    }
    poly
}

/// The list of hints in a signature (FIPS 204, algorithm 20) of hints of a bit each; `None` when there are too many.
fn list_hints(bits: &[u8], omega: usize, list: &mut [u8]) -> Option<()> {
    let (mut count, (places, ends)) = (0, list.split_at_mut_checked(omega)?);
    for (poly, end) in bits.chunks_exact(HINTS_LEN).zip(ends) {
        for place in (0..=u8::MAX).filter(|place| poly[usize::from(place / 8)] >> (place % 8) & 1 == 1) {
            *places.get_mut(count)? = place;
            count += 1;
        }
        *end = u8::try_from(count).ok()?;
    }
    Some(())
}

/// The way back (FIPS 204, algorithm 21), onto zeros; `None` for a list that no signer makes.
fn unlist_hints(list: &[u8], omega: usize, bits: &mut [u8]) -> Option<()> {
    let (mut start, (places, ends)) = (0, list.split_at_checked(omega)?);
    for (poly, end) in bits.chunks_exact_mut(HINTS_LEN).zip(ends) {
        let own = places.get(start..usize::from(*end))?;
        if own.windows(2).any(|pair| pair[0] >= pair[1]) {
            return None;
        }
        own.iter().for_each(|place| poly[usize::from(place / 8)] |= 1 << (place % 8));
        start = usize::from(*end);
    }
    places[start..].iter().all(|place| *place == 0).then_some(())
}

/// Verification.
pub(in crate::public) struct Verify(pub(in crate::public) MlDsaSet);

/// Signing.
pub(in crate::public) struct Sign(pub(in crate::public) MlDsaSet);

impl Around for Verify {
    type Key = DsaKey;
    type Kept = ();

    fn shape(&self) -> Shape {
        let numbers = numbers(self.0);
        Shape {
            program: Program::MlDsa,
            kernel: "dsa_verify",
            items: GROUP,
            input_len: HASH_LEN + numbers.answer_len() + HINTS_LEN * numbers.k,
            output_len: 4,
            scratch_words: 0,
            host_ns: 2500,
        }
    }

    fn before(&self, op: &View<'_>, key: &DsaKey, _kept: &mut (), place: &mut [u8]) -> Result<(), OpStatus> {
        let numbers = numbers(self.0);
        let (hash, rest) = place.split_at_mut(HASH_LEN);
        let (answer, hints) = rest.split_at_mut(numbers.answer_len());
        // The contract has checked the length.
        let (own, list) = op.tag.split_at_checked(answer.len()).ok_or(OpStatus::EngineFault)?;
        answer.copy_from_slice(own);
        unlist_hints(list, numbers.omega, hints).ok_or(OpStatus::AuthFailed)?;
        hash.copy_from_slice(&key.message_hash(op));
        Ok(())
    }

    fn after(&self, _op: &View<'_>, _key: &DsaKey, _kept: &mut (), result: &[u8], _out: &mut Out<'_>) -> OpStatus {
        if result == 1u32.to_le_bytes() { OpStatus::Done } else { OpStatus::AuthFailed }
    }
}

impl Around for Sign {
    type Key = DsaKey;
    type Kept = ();

    fn shape(&self) -> Shape {
        let numbers = numbers(self.0);
        Shape {
            program: Program::MlDsa,
            kernel: "dsa_sign",
            items: GROUP,
            input_len: 2 * HASH_LEN,
            output_len: 4 + numbers.answer_len() + HINTS_LEN * numbers.k,
            scratch_words: 0,
            host_ns: 4000,
        }
    }

    /// The message's hash and the seed of the masks (FIPS 204, algorithm 7), with randomness.
    fn before(&self, op: &View<'_>, key: &DsaKey, _kept: &mut (), place: &mut [u8]) -> Result<(), OpStatus> {
        let seed = key.private_seed.as_ref().ok_or(OpStatus::Refused(Reason::KeyUnsuitable))?;
        let mut random = Zeroizing::new([0; SEED_LEN]);
        getrandom::fill(&mut *random).map_err(|_| OpStatus::EngineFault)?;
        let message = key.message_hash(op);
        let masks = Zeroizing::new(hash(&[&**seed, &*random, &message]));
        let (first, second) = place.split_at_mut(HASH_LEN);
        first.copy_from_slice(&message);
        second.copy_from_slice(&*masks);
        Ok(())
    }

    fn after(&self, _op: &View<'_>, _key: &DsaKey, _kept: &mut (), result: &[u8], out: &mut Out<'_>) -> OpStatus {
        let numbers = numbers(self.0);
        let (is_done, rest) = result.split_at(4);
        let (answer, hints) = rest.split_at(numbers.answer_len());

        // There may be more room than the signature takes.
        let room = out.tag.get_mut(..self.0.signature_len()).filter(|_| is_done == 1u32.to_le_bytes());
        let Some((first, list)) = room.map(|room| room.split_at_mut(answer.len())) else {
            return OpStatus::EngineFault;
        };
        first.copy_from_slice(answer);
        list_hints(hints, numbers.omega, list).map_or(OpStatus::EngineFault, |()| OpStatus::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_go_to_lists_and_back() {
        // Places 3 and 200 of the first polynomial, none of the second, 255 of the third.
        let list = [3, 200, 255, 0, 0, 2, 2, 3];
        let mut bits = [0; 3 * HINTS_LEN];
        assert_eq!(unlist_hints(&list, 5, &mut bits), Some(()));
        assert_eq!((bits[0], bits[25], bits[3 * HINTS_LEN - 1]), (8, 1, 128));
        let mut again = [0; 8];
        assert_eq!(list_hints(&bits, 5, &mut again), Some(()));
        assert_eq!(again, list);
        assert_eq!(list_hints(&bits, 2, &mut [0; 5]), None, "more hints than there is room for");
        for wrong in [
            [200, 3, 255, 0, 0, 2, 2, 3],
            [3, 3, 255, 0, 0, 2, 2, 3],
            [3, 200, 255, 0, 1, 2, 2, 3],
            [3, 200, 255, 0, 0, 2, 1, 3],
            [3, 200, 255, 0, 0, 2, 2, 6],
        ] {
            assert_eq!(unlist_hints(&wrong, 5, &mut [0; 3 * HINTS_LEN]), None, "{wrong:?}");
        }
    }
}
