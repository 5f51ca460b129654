//! Key pairs, from AWS-LC's generator.

use aws_lc_sys as sys;
use ciphermill_contract::suite::{Curve, KeyPair, RsaSize};
use ciphermill_contract::{CheckedBatch, OpBuffers};
use ciphermill_pairs::der::{self, Pair, RsaParts};
use ciphermill_pairs::rsa::EXPONENT;

use super::ec::nid;
use super::lattice::{kem_from_seed, kem_nid, ml_dsa_from_seed, ml_dsa_nid};
use crate::ffi::{Owned, Wiped, done_if};

/// Bytes of X25519's scalars, Ed25519's seeds and their public keys.
const LEN: usize = 32;

/// Bytes of the longest modulus.
const MODULUS_MAX: usize = RsaSize::Rsa4096.len();

/// Runs a batch: private keys are outputs, public keys tags.
pub(super) fn run(batch: &mut CheckedBatch<'_>, pair: KeyPair) {
    batch.process(|op| {
        let done = match pair {
            KeyPair::Rsa(size) => rsa(size).and_then(|pair| put(op, &pair)),
            KeyPair::Ec(curve) => ec(curve).and_then(|pair| put(op, &pair)),
            KeyPair::X25519 => x25519(op),
            KeyPair::Ed25519 => ed25519(op),
            KeyPair::MlKem(kem) => from_seed(op, |seed| kem_from_seed(kem_nid(kem), seed)),
            KeyPair::MlDsa(set) => from_seed(op, |seed| ml_dsa_from_seed(ml_dsa_nid(set), seed)),
            KeyPair::X448 => None,
        };
        done_if(done.is_some())
    });
}

fn put(op: &mut OpBuffers<'_>, pair: &Pair) -> Option<()> {
    op.data.get_mut(..pair.private.len())?.copy_from_slice(&pair.private);
    op.tag.get_mut(..pair.public.len())?.copy_from_slice(&pair.public);
    op.output_len = pair.private.len();
    Some(())
}

/// Writes a number, zeros before it.
fn write(number: *const sys::BIGNUM, out: &mut [u8]) -> Option<()> {
    // SAFETY: the number is null or whole, as the key that it belongs to; pointer and length are the slice's.
    let done = !number.is_null() && unsafe { sys::BN_bn2bin_padded(out.as_mut_ptr(), out.len(), number) } == 1;
    done.then_some(())
}

/// FIPS 186-5, A.1.3, as AWS-LC has it: primes at random.
fn rsa(size: RsaSize) -> Option<Pair> {
    // SAFETY: a new key and a new number have no other owner.
    let (key, exponent) = unsafe { (Owned::new(sys::RSA_new())?, Owned::new(sys::BN_new())?) };
    // SAFETY: key and number are whole; there is no callback.
    let generated = unsafe {
        sys::BN_set_u64(exponent.as_ptr(), EXPONENT.into()) == 1
            && sys::RSA_generate_key_ex(key.as_ptr(), size.bits() as i32, exponent.as_ptr(), core::ptr::null_mut()) == 1
    };
    if !generated {
        return None;
    }
    let mut numbers = [core::ptr::null(); 3];
    let mut halves = [core::ptr::null(); 5];
    let [n, e, d] = &mut numbers;
    let [p, q, dp, dq, inverse] = &mut halves;
    // SAFETY: the key is whole, and its numbers live as long.
    unsafe {
        sys::RSA_get0_key(key.as_ptr(), n, e, d);
        sys::RSA_get0_factors(key.as_ptr(), p, q);
        sys::RSA_get0_crt_params(key.as_ptr(), dp, dq, inverse);
    }
    let len = size.len();
    let mut modulus = [0; MODULUS_MAX];
    let mut private = Wiped([0; MODULUS_MAX]);
    write(numbers[0], &mut modulus[..len])?;
    write(numbers[2], &mut private.0[..len])?;
    let mut parts = [(); 5].map(|()| Wiped([0; MODULUS_MAX / 2]));
    for (part, number) in parts.iter_mut().zip(halves) {
        write(number, &mut part.0[..len / 2])?;
    }
    let parts = RsaParts {
        modulus: &modulus[..len],
        exponent: &EXPONENT.to_be_bytes(),
        private: &private.0[..len],
        halves: parts.each_ref().map(|part| &part.0[..len / 2]),
    };
    Some(der::rsa(size, &parts))
}

fn ec(curve: Curve) -> Option<Pair> {
    let nid = nid(curve)?;
    // SAFETY: a new key has no other owner.
    let key = unsafe { Owned::new(sys::EC_KEY_new_by_curve_name(nid)) }?;
    // SAFETY: the key is whole and has a group.
    if unsafe { sys::EC_KEY_generate_key(key.as_ptr()) } != 1 {
        return None;
    }
    let mut scalar = Wiped([0; Curve::P521.order_len()]);
    let scalar = scalar.0.get_mut(..curve.order_len())?;
    // SAFETY: the key is whole and private.
    write(unsafe { sys::EC_KEY_get0_private_key(key.as_ptr()) }, scalar)?;
    let mut point = [0; 1 + 2 * Curve::P521.field_len()];
    let point = point.get_mut(..1 + 2 * curve.field_len())?;
    // SAFETY: the key is whole; group and point live as long; pointer and length are the slice's.
    let written = unsafe {
        sys::EC_POINT_point2oct(
            sys::EC_KEY_get0_group(key.as_ptr()),
            sys::EC_KEY_get0_public_key(key.as_ptr()),
            sys::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED,
            point.as_mut_ptr(),
            point.len(),
            core::ptr::null_mut(),
        )
    };
    (written == point.len()).then(|| der::ec(curve, scalar, &point[1..]))
}

fn x25519(op: &mut OpBuffers<'_>) -> Option<()> {
    let (private, public) = (op.data.first_chunk_mut::<LEN>()?, op.tag.first_chunk_mut::<LEN>()?);
    // SAFETY: both have 32 bytes.
    unsafe { sys::X25519_keypair(public.as_mut_ptr(), private.as_mut_ptr()) };
    Some(())
}

fn ed25519(op: &mut OpBuffers<'_>) -> Option<()> {
    let (seed, public) = (op.data.first_chunk_mut::<LEN>()?, op.tag.first_chunk_mut::<LEN>()?);
    let mut private = Wiped([0; 2 * LEN]);
    // SAFETY: pointer and length are the seed's; the three have 32, 64 and 32 bytes, as the functions want.
    unsafe {
        if sys::RAND_bytes(seed.as_mut_ptr(), LEN) != 1 {
            return None;
        }
        sys::ED25519_keypair_from_seed(public.as_mut_ptr(), private.0.as_mut_ptr(), seed.as_ptr());
    }
    Some(())
}

/// A pair whose private key is a random seed as long as the output.
fn from_seed(op: &mut OpBuffers<'_>, make: impl FnOnce(&[u8]) -> Option<Owned<sys::EVP_PKEY>>) -> Option<()> {
    // SAFETY: pointer and length are the slice's.
    if unsafe { sys::RAND_bytes(op.data.as_mut_ptr(), op.data.len()) } != 1 {
        return None;
    }
    let key = make(op.data)?;
    let mut written = op.tag_written;
    let public = op.tag.get_mut(..written)?;
    // SAFETY: the key is whole; pointer and length are the slice's.
    let code = unsafe { sys::EVP_PKEY_get_raw_public_key(key.as_ptr(), public.as_mut_ptr(), &mut written) };
    (code == 1 && written == public.len()).then_some(())
}
