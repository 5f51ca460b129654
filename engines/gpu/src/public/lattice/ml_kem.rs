//! ML-KEM (FIPS 203): the keys' expansion, and the random message that encapsulation begins with. Everything else is the
//! device's (`kernels/lattice/ml_kem.cl`).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Kem;
use ciphermill_contract::{KeyForm, KeyMaterial, OpStatus, Reason};
#[allow(deprecated)] // The one way to the secret vector without working it out anew.
use ml_kem::ExpandedKeyEncoding;
use ml_kem::kem::{DecapsulationKey, EncapsulationKey, Kem as KemSet};
use ml_kem::{KeyInit, MlKem512, MlKem768, MlKem1024, TryKeyInit};
use sha3::{Digest as _, Sha3_256};
use shake::{ExtendableOutput, Shake128, Update, XofReader};
use zeroize::{Zeroize, Zeroizing};

use super::super::around::{Around, Out, Shape, View};
use super::put_word;
use crate::device::GROUP;
use crate::form::Form;
use crate::keys::Halves;
use crate::program::Program;

/// The modulus.
const Q: u32 = 3329;

/// The inverse of 128 modulo q, which the transform back wants of a product (FIPS 203, algorithm 10).
const INVERSE_128: u32 = 3303;

/// Bytes of a polynomial as keys encode it: twelve bits a coefficient.
const ENCODED_LEN: usize = 384;

/// Bytes of a block of SHAKE128.
const BLOCK_LEN: usize = 168;

/// Bytes of the shared secret, of the random message, and of z.
const SECRET_LEN: usize = 32;

/// The host's half of a key: whether there is a decapsulation key on the device.
pub(in crate::public) struct KemKey {
    is_private: bool,
}

/// Prepares a seed `d ‖ z` or an encapsulation key.
///
/// # Errors
/// `Length`; `Encoding` when a coefficient of an encapsulation key is not reduced (FIPS 203, 7.2).
pub(in crate::public) fn prepare(key: &KeyMaterial<'_>, kem: Kem) -> Result<Halves, KeyProblem> {
    let is_private = key.form == KeyForm::Private;
    let device = if is_private {
        let expanded = match kem {
            Kem::MlKem512 => expand::<MlKem512>(key.bytes),
            Kem::MlKem768 => expand::<MlKem768>(key.bytes),
            Kem::MlKem1024 => expand::<MlKem1024>(key.bytes),
        }?;
        // The secret vector, the encapsulation key, its hash, z (FIPS 203, algorithm 16).
        let (secret, rest) = expanded.split_at(ENCODED_LEN * rank(kem));
        let (public, rest) = rest.split_at(kem.public_len());
        let (hash, z) = rest.split_at(32);
        form(kem, public, hash, Some((secret, z)))
    } else {
        if key.bytes.len() != kem.public_len() {
            return Err(KeyProblem::Length);
        }
        match kem {
            Kem::MlKem512 => check::<MlKem512>(key.bytes),
            Kem::MlKem768 => check::<MlKem768>(key.bytes),
            Kem::MlKem1024 => check::<MlKem1024>(key.bytes),
        }?;
        form(kem, key.bytes, &Sha3_256::digest(key.bytes), None)
    };
    Ok(Halves { device, host: Some(Box::new(KemKey { is_private })) })
}

/// The key pair of a seed, as FIPS 203 encodes a decapsulation key.
#[allow(deprecated)]
fn expand<K>(seed: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyProblem>
where
    K: KemSet,
    DecapsulationKey<K>: KeyInit + ExpandedKeyEncoding,
{
    let private = DecapsulationKey::<K>::new_from_slice(seed).map_err(|_| KeyProblem::Length)?;
    let mut bytes = private.to_expanded_bytes();
    let expanded = Zeroizing::new(bytes.as_slice().to_vec());
    bytes.as_mut_slice().zeroize();
    Ok(expanded)
}

/// Whether bytes are an encapsulation key.
fn check<K>(bytes: &[u8]) -> Result<(), KeyProblem>
where
    K: KemSet,
    EncapsulationKey<K>: TryKeyInit,
{
    EncapsulationKey::<K>::new_from_slice(bytes).map(|_| ()).map_err(|_| KeyProblem::Encoding)
}

/// The dimension of a parameter set's vectors, k.
fn rank(kem: Kem) -> usize {
    match kem {
        Kem::MlKem512 => 2,
        Kem::MlKem768 => 3,
        Kem::MlKem1024 => 4,
    }
}

/// A key as the kernels read it; `private` is the encoded secret vector, and z.
fn form(kem: Kem, public: &[u8], hash: &[u8], private: Option<(&[u8], &[u8])>) -> Form {
    let k = rank(kem);
    // Room for all of it at once, so that no copy is left behind.
    let mut form = Zeroizing::new(Vec::with_capacity(16 + 512 * k * (k + 2) + 2 * SECRET_LEN));
    [k as u32, 0, 0, 0].into_iter().for_each(|word| put_word(&mut form, word));
    let (t, rho) = public.split_at(ENCODED_LEN * k);
    for row in 0..k {
        (0..k).for_each(|column| put_matrix(&mut form, rho, row as u8, column as u8));
    }
    put_encoded(&mut form, t);
    form.extend_from_slice(hash);
    if let Some((secret, z)) = private {
        put_encoded(&mut form, secret);
        form.extend_from_slice(z);
    }
    form
}

/// Two coefficients of twelve bits, of three bytes (FIPS 203, algorithm 6).
fn pair(bytes: &[u8]) -> [u32; 2] {
    let [a, b, c] = [0, 1, 2].map(|at| u32::from(bytes[at]));
    [a | (b & 15) << 8, b >> 4 | c << 4]
}

/// A coefficient as the device multiplies with it.
fn put(form: &mut Vec<u8>, coefficient: u32) {
    // Below the modulus, which has twelve bits.
    form.extend_from_slice(&((coefficient * INVERSE_128 % Q) as u16).to_le_bytes());
}

fn put_encoded(form: &mut Vec<u8>, encoded: &[u8]) {
    encoded.chunks_exact(3).flat_map(pair).for_each(|coefficient| put(form, coefficient));
}

/// A polynomial of the transposed matrix: what the public seed says, by rejection (FIPS 203, algorithms 7 and 14).
fn put_matrix(form: &mut Vec<u8>, rho: &[u8], row: u8, column: u8) {
    let mut stream = Shake128::default().chain(rho).chain([row, column]).finalize_xof();
    let (mut block, mut left) = ([0; BLOCK_LEN], 256);
    while left > 0 {
        stream.read(&mut block);
        for coefficient in block.chunks_exact(3).flat_map(pair).filter(|coefficient| *coefficient < Q).take(left) {
            put(form, coefficient);
            left -= 1;
        }
    }
}

/// Encapsulation.
pub(in crate::public) struct Encapsulate(pub(in crate::public) Kem);

/// Decapsulation.
pub(in crate::public) struct Decapsulate(pub(in crate::public) Kem);

impl Around for Encapsulate {
    type Key = KemKey;
    type Kept = ();

    fn shape(&self) -> Shape {
        Shape {
            program: Program::MlKem,
            kernel: "encapsulate",
            items: GROUP,
            input_len: SECRET_LEN,
            output_len: SECRET_LEN + self.0.ciphertext_len(),
            scratch_words: 0,
            host_ns: 700,
        }
    }

    /// The random message.
    fn before(&self, _op: &View<'_>, _key: &KemKey, _kept: &mut (), place: &mut [u8]) -> Result<(), OpStatus> {
        getrandom::fill(place).map_err(|_| OpStatus::EngineFault)
    }

    fn after(&self, _op: &View<'_>, _key: &KemKey, _kept: &mut (), result: &[u8], out: &mut Out<'_>) -> OpStatus {
        let (secret, ciphertext) = result.split_at(SECRET_LEN);
        let Some(room) = out.tag.get_mut(..ciphertext.len()) else { return OpStatus::EngineFault };
        room.copy_from_slice(ciphertext);
        put_secret(secret, out)
    }
}

impl Around for Decapsulate {
    type Key = KemKey;
    type Kept = ();

    fn shape(&self) -> Shape {
        Shape {
            program: Program::MlKem,
            kernel: "decapsulate",
            items: GROUP,
            input_len: self.0.ciphertext_len(),
            output_len: SECRET_LEN,
            scratch_words: 0,
            host_ns: 200,
        }
    }

    fn before(&self, op: &View<'_>, key: &KemKey, _kept: &mut (), place: &mut [u8]) -> Result<(), OpStatus> {
        if !key.is_private {
            return Err(OpStatus::Refused(Reason::KeyUnsuitable));
        }
        // The contract has checked the length.
        let ciphertext = op.tag.get(..place.len()).ok_or(OpStatus::EngineFault)?;
        place.copy_from_slice(ciphertext);
        Ok(())
    }

    fn after(&self, _op: &View<'_>, _key: &KemKey, _kept: &mut (), result: &[u8], out: &mut Out<'_>) -> OpStatus {
        put_secret(result, out)
    }
}

fn put_secret(secret: &[u8], out: &mut Out<'_>) -> OpStatus {
    let Some(room) = out.data.get_mut(..secret.len()) else { return OpStatus::EngineFault };
    room.copy_from_slice(secret);
    OpStatus::Done
}
