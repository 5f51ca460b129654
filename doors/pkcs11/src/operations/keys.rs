//! What makes keys: generation, wrapping, derivation, encapsulation, and random bytes. Objects are made of them elsewhere.

use ciphermill::{GeneratedPair, Mill};
use ciphermill_contract::suite::{Agreement, Digest, KeyPair, Mac};
use ciphermill_contract::{Direction, KeyForm, Suite};
use cryptoki_sys::{
    CKR_BUFFER_TOO_SMALL, CKR_DATA_INVALID, CKR_ENCRYPTED_DATA_INVALID, CKR_ENCRYPTED_DATA_LEN_RANGE,
    CKR_KEY_SIZE_RANGE, CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID,
    CKR_TEMPLATE_INCOMPLETE, CKR_WRAPPED_KEY_INVALID, CKR_WRAPPED_KEY_LEN_RANGE,
};
use zeroize::Zeroizing;

use crate::key::{Key, KeyShape, KeyValue};
use crate::mechanisms::{Concatenated, Ecdh, Hkdf, Mechanism, Parameter, What};
use crate::operations::digest::Hasher;
use crate::operations::{Buffers, Cipher, Step, random, run};
use crate::rv::{Asked, Result, Rv, fail};
use crate::session::Steps;

/// Bytes of a secret key at most.
pub(crate) const SECRET_LEN_MAX: usize = 512;

/// Random bytes for a secret key.
///
/// # Errors
/// `CKR_KEY_SIZE_RANGE` for none and for more than [`SECRET_LEN_MAX`]; those of the mill.
pub(crate) fn generate_secret(mill: &Mill, len: usize) -> Result<Zeroizing<Vec<u8>>> {
    if !(1..=SECRET_LEN_MAX).contains(&len) {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    let mut key = Zeroizing::new(vec![0; len]);
    random(mill, &mut key)?;
    Ok(key)
}

/// A key pair.
///
/// # Errors
/// Those of the mill.
pub(crate) fn generate_pair(mill: &Mill, pair: KeyPair) -> Result<GeneratedPair> {
    Ok(mill.generate_pair(pair)?)
}

/// Encrypts the bytes of a key. `aad` is for AEADs, and joins that of the mechanism.
///
/// # Errors
/// `CKR_MECHANISM_INVALID` for additional data with mechanisms that take none; those of [`Cipher`].
pub(crate) fn wrap(mechanism: &Mechanism, wrapping: &Key, plain: &[u8]) -> Result<Vec<u8>> {
    let mut cipher = Cipher::init(mechanism, Direction::Encrypt, wrapping.clone())?;
    let mut wrapped = vec![0; Steps::len(&cipher, Step::OneShot, plain.len())];
    let len = cipher.step(Step::OneShot, plain, &mut wrapped).map_err(|rv| match rv {
        // What the mechanism does not take of a key.
        Rv(cryptoki_sys::CKR_DATA_LEN_RANGE) => Rv(CKR_KEY_SIZE_RANGE),
        rv => rv,
    })?;
    wrapped.truncate(len);
    Ok(wrapped)
}

/// Decrypts the bytes of a key.
///
/// # Errors
/// `CKR_WRAPPED_KEY_INVALID`, `CKR_WRAPPED_KEY_LEN_RANGE`; those of [`Cipher`].
pub(crate) fn unwrap(mechanism: &Mechanism, unwrapping: &Key, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let mut cipher = Cipher::init(mechanism, Direction::Decrypt, unwrapping.clone())?;
    let mut plain = Zeroizing::new(vec![0; Steps::len(&cipher, Step::OneShot, wrapped.len())]);
    let len = cipher.step(Step::OneShot, wrapped, &mut plain).map_err(|rv| match rv {
        Rv(CKR_ENCRYPTED_DATA_LEN_RANGE) => Rv(CKR_WRAPPED_KEY_LEN_RANGE),
        Rv(CKR_ENCRYPTED_DATA_INVALID | CKR_DATA_INVALID) => Rv(CKR_WRAPPED_KEY_INVALID),
        rv => rv,
    })?;
    plain.truncate(len);
    Ok(plain)
}

/// Derives bytes from a key: as many as are wanted, or as many as there are. `salt` is the key that HKDF's parameter names.
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`, `CKR_MECHANISM_PARAM_INVALID`; `CKR_KEY_SIZE_RANGE` where more are wanted than there are;
/// `CKR_TEMPLATE_INCOMPLETE` where the template must say how many; those of the mill.
pub(crate) fn derive(
    mechanism: &Mechanism,
    base: &Key,
    wanted: Option<usize>,
    salt: Option<&Key>,
) -> Result<Zeroizing<Vec<u8>>> {
    let derived = match (mechanism.what, &mechanism.parameter) {
        (What::Ecdh, Parameter::Ecdh(ecdh)) => {
            let secret = agree_on_curve(base, &ecdh.public)?;
            match ecdh.kdf {
                None => secret,
                Some(digest) => x963(base.value.mill(), digest, &secret, ecdh, wanted)?,
            }
        }
        (What::Dh, Parameter::Bytes(public)) => match base.shape {
            KeyShape::Dh(group) => {
                let Some(zeros) = group.len().checked_sub(public.len()) else {
                    return fail(CKR_MECHANISM_PARAM_INVALID);
                };
                let mut padded = vec![0; zeros];
                padded.extend_from_slice(public);
                agree(Agreement::Dh(group), base, &padded)?
            }
            _ => return fail(CKR_KEY_TYPE_INCONSISTENT),
        },
        (What::Hkdf, Parameter::Hkdf(parameter)) => hkdf(base, parameter, salt, wanted)?,
        (What::Concatenate(order), Parameter::Bytes(data)) => {
            let base = secret_bytes(base)?;
            Zeroizing::new(match order {
                Concatenated::BaseAndData => [base, data].concat(),
                Concatenated::DataAndBase => [data, base].concat(),
            })
        }
        (What::XorData, Parameter::Bytes(data)) => {
            let both = secret_bytes(base)?.iter().zip(data.iter());
            Zeroizing::new(both.map(|(byte, other)| byte ^ other).collect())
        }
        (What::Extract, Parameter::Bit(at)) => {
            let base = secret_bytes(base)?;
            let len = wanted.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
            extract(base, *at, len)?
        }
        _ => return fail(CKR_MECHANISM_INVALID),
    };
    cut(mechanism, derived, wanted)
}

/// The bytes that are wanted of those that there are. Of an agreement those at the end count (PKCS#11 3.2, 6.3.20), of all else the first.
fn cut(mechanism: &Mechanism, mut derived: Zeroizing<Vec<u8>>, wanted: Option<usize>) -> Result<Zeroizing<Vec<u8>>> {
    let Some(wanted) = wanted else { return Ok(derived) };
    let Some(too_many) = derived.len().checked_sub(wanted).filter(|_| wanted != 0) else {
        return fail(CKR_KEY_SIZE_RANGE);
    };
    let from_the_end = match (mechanism.what, &mechanism.parameter) {
        (What::Ecdh, Parameter::Ecdh(ecdh)) => ecdh.kdf.is_none(),
        (What::Dh, _) => true,
        _ => false,
    };
    if from_the_end {
        Ok(Zeroizing::new(derived[too_many..].to_vec()))
    } else {
        derived.truncate(wanted);
        Ok(derived)
    }
}

fn secret_bytes(key: &Key) -> Result<&[u8]> {
    if key.value.form() == KeyForm::Secret { Ok(key.value.bytes()) } else { fail(CKR_KEY_TYPE_INCONSISTENT) }
}

/// Bits of a key from one on, and round again (PKCS#11 3.2, 6.41.8).
fn extract(base: &[u8], at: usize, len: usize) -> Result<Zeroizing<Vec<u8>>> {
    let bits = base.len() * 8;
    if at >= bits {
        return fail(CKR_MECHANISM_PARAM_INVALID);
    }
    if len > base.len() {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    let bit = |number: usize| base[number / 8] >> (7 - number % 8) & 1;
    let byte = |first: usize| (0..8).fold(0, |byte, next| byte << 1 | bit((at + first * 8 + next) % bits));
    Ok(Zeroizing::new((0..len).map(byte).collect()))
}

fn agree(agreement: Agreement, base: &Key, public: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let suite = Suite::Agree(agreement);
    if !suite.input_len(Direction::Encrypt).contains(public.len()) {
        return fail(CKR_MECHANISM_PARAM_INVALID);
    }
    let len = suite.output_len(Direction::Encrypt, public.len(), 0);
    let mut data = Zeroizing::new(vec![0; len.max(public.len())]);
    data[..public.len()].copy_from_slice(public);
    let buffers = Buffers { data: &mut data, input_len: public.len(), ..Buffers::default() };
    let id = base.value.id()?;
    match run(base.value.mill(), (suite, Direction::Encrypt), id, Asked::Other, buffers) {
        Ok(done) => data.truncate(done.output_len),
        // A public value that is none.
        Err(Rv(CKR_DATA_INVALID)) => return fail(CKR_MECHANISM_PARAM_INVALID),
        Err(rv) => return Err(rv),
    }
    Ok(data)
}

/// The secret shared with the owner of a public value, which may be wrapped in an OCTET STRING.
fn agree_on_curve(base: &Key, public: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let agreement = match base.shape {
        KeyShape::Ec(curve) => Agreement::Ecdh(curve),
        KeyShape::X25519 => Agreement::X25519,
        KeyShape::X448 => Agreement::X448,
        _ => return fail(CKR_KEY_TYPE_INCONSISTENT),
    };
    let wanted = agreement.public_len();
    let raw = if public.len() == wanted { public } else { crate::material::octets(public).unwrap_or(public) };
    agree(agreement, base, raw)
}

/// The derivation of ANSI X9.63 (SEC 1, 3.6.1).
fn x963(mill: &Mill, digest: Digest, secret: &[u8], ecdh: &Ecdh, wanted: Option<usize>) -> Result<Zeroizing<Vec<u8>>> {
    let wanted = wanted.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
    if wanted > SECRET_LEN_MAX {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    let mut derived = Zeroizing::new(Vec::with_capacity(wanted + digest.len()));
    for counter in 1_u32.. {
        if derived.len() >= wanted {
            break;
        }
        let mut hasher = Hasher::of(mill, digest)?;
        hasher.update(secret)?;
        hasher.update(&counter.to_be_bytes())?;
        hasher.update(&ecdh.shared)?;
        derived.extend_from_slice(&Zeroizing::new(hasher.finish()?));
    }
    derived.truncate(wanted);
    Ok(derived)
}

/// HMAC over parts.
fn hmac(mill: &Mill, digest: Digest, key: &[u8], parts: &[&[u8]]) -> Result<Zeroizing<Vec<u8>>> {
    // HMAC fills keys up with zeros, so that an empty one is one zero.
    let key = KeyValue::new(mill, KeyForm::Secret, if key.is_empty() { &[0] } else { key })?;
    let mut data = Zeroizing::new(parts.concat());
    let mut mac = Zeroizing::new(vec![0; digest.len()]);
    let input_len = data.len();
    let buffers = Buffers { data: &mut data, input_len, tag: &mut mac, ..Buffers::default() };
    run(mill, (Suite::Mac(Mac::Hmac(digest)), Direction::Encrypt), key.id()?, Asked::Other, buffers)?;
    Ok(mac)
}

/// HKDF (RFC 5869), either step or both (PKCS#11 3.2, 6.62).
fn hkdf(base: &Key, parameter: &Hkdf, salt: Option<&Key>, wanted: Option<usize>) -> Result<Zeroizing<Vec<u8>>> {
    use crate::mechanisms::Salt;
    let (mill, digest) = (base.value.mill(), parameter.digest);
    let base = secret_bytes(base)?;
    let mut key = Zeroizing::new(base.to_vec());
    if parameter.extract {
        let zeros = vec![0; digest.len()];
        let salt = match (&parameter.salt, salt) {
            (Salt::Zeros, _) => &zeros,
            (Salt::Data(data), _) => data.as_slice(),
            (Salt::Key(_), Some(key)) => secret_bytes(key)?,
            (Salt::Key(_), None) => return fail(CKR_MECHANISM_PARAM_INVALID),
        };
        key = hmac(mill, digest, salt, &[base])?;
    }
    if !parameter.expand {
        return Ok(key);
    }
    let wanted = wanted.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
    if wanted > 255 * digest.len() || wanted > SECRET_LEN_MAX {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    let mut derived = Zeroizing::new(Vec::with_capacity(wanted + digest.len()));
    let mut last = Zeroizing::new(Vec::new());
    for counter in 1..=u8::MAX {
        if derived.len() >= wanted {
            break;
        }
        last = hmac(mill, digest, &key, &[&last, &parameter.info, &[counter]])?;
        derived.extend_from_slice(&last);
    }
    derived.truncate(wanted);
    Ok(derived)
}

/// Bytes of what [`encapsulate`] makes.
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`.
pub(crate) fn encapsulated_len(key: &Key) -> Result<usize> {
    match key.shape {
        KeyShape::MlKem(kem) => Ok(kem.ciphertext_len()),
        _ => fail(CKR_KEY_TYPE_INCONSISTENT),
    }
}

/// A shared secret, and what the owner of the private key makes it of (FIPS 203, 7.2).
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`; `CKR_BUFFER_TOO_SMALL`; those of the mill.
pub(crate) fn encapsulate(key: &Key, to: &mut [u8]) -> Result<Zeroizing<Vec<u8>>> {
    let KeyShape::MlKem(kem) = key.shape else { return fail(CKR_KEY_TYPE_INCONSISTENT) };
    let Some(tag) = to.get_mut(..kem.ciphertext_len()) else { return fail(CKR_BUFFER_TOO_SMALL) };
    let mut secret = Zeroizing::new(vec![0; 32]);
    let buffers = Buffers { data: &mut secret, tag, ..Buffers::default() };
    run(key.value.mill(), (Suite::Kem(kem), Direction::Encrypt), key.value.id()?, Asked::Other, buffers)?;
    Ok(secret)
}

/// The shared secret of what was encapsulated (FIPS 203, 7.3).
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`; `CKR_WRAPPED_KEY_LEN_RANGE`; those of the mill.
pub(crate) fn decapsulate(key: &Key, encapsulated: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let KeyShape::MlKem(kem) = key.shape else { return fail(CKR_KEY_TYPE_INCONSISTENT) };
    if encapsulated.len() != kem.ciphertext_len() {
        return fail(CKR_WRAPPED_KEY_LEN_RANGE);
    }
    let (mut secret, mut tag) = (Zeroizing::new(vec![0; 32]), encapsulated.to_vec());
    let buffers = Buffers { data: &mut secret, tag: &mut tag, ..Buffers::default() };
    run(key.value.mill(), (Suite::Kem(kem), Direction::Decrypt), key.value.id()?, Asked::Open, buffers)?;
    Ok(secret)
}
