//! What is derived of keys: agreements, HKDF, the pseudorandom function of TLS, and keys made of keys. Objects are made of it elsewhere.

use std::sync::Arc;

use ciphermill::Mill;
use ciphermill_contract::suite::{Agreement, BlockCipher, Curve, Digest, Mac, Mode};
use ciphermill_contract::{Direction, KeyForm, Suite};
use cryptoki_sys::{
    CKR_CURVE_NOT_SUPPORTED, CKR_DATA_INVALID, CKR_GENERAL_ERROR, CKR_KEY_SIZE_RANGE, CKR_KEY_TYPE_INCONSISTENT,
    CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID, CKR_TEMPLATE_INCOMPLETE, CKR_TEMPLATE_INCONSISTENT,
};
use zeroize::Zeroizing;

use crate::key::{Key, KeyShape, KeyValue};
use crate::mechanisms::{
    Cipher, Concatenated, Ecdh, Hkdf, KeyBlock, MASTER_LEN, Mechanism, Parameter, Premaster, Prf, Salt, Tls, What,
};
use crate::operations::digest::Hasher;
use crate::operations::{Buffers, run};
use crate::rv::{Asked, Result, Rv, fail};

/// Bytes of a secret key at most.
pub(crate) const SECRET_LEN_MAX: usize = 512;

/// Derives bytes from a key: as many as are wanted, or as many as there are. `other` is the key that the parameter names.
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT`, `CKR_MECHANISM_PARAM_INVALID`; `CKR_KEY_SIZE_RANGE` where more are wanted than there are;
/// `CKR_TEMPLATE_INCOMPLETE` where the template must say how many; those of the mill.
pub(crate) fn derive(
    mechanism: &Mechanism,
    base: &Key,
    wanted: Option<usize>,
    other: Option<&Key>,
) -> Result<Zeroizing<Vec<u8>>> {
    let derived = match (mechanism.what, &mechanism.parameter) {
        (What::Ecdh | What::EcdhCofactor, Parameter::Ecdh(ecdh)) => {
            let secret = agree_on_curve(base, &ecdh.public, mechanism.what == What::EcdhCofactor)?;
            match ecdh.kdf {
                None => secret,
                Some(digest) => x963(base.value.mill(), digest, &secret, ecdh, wanted)?,
            }
        }
        (What::Dh, Parameter::Bytes(public)) => agree_in_group(base, public)?,
        (What::Hkdf, Parameter::Hkdf(parameter)) => hkdf(base, parameter, other, wanted)?,
        (What::ConcatenateKey, Parameter::Key(_)) => {
            let other = other.ok_or(Rv(CKR_MECHANISM_PARAM_INVALID))?;
            Zeroizing::new([secret_bytes(base)?, secret_bytes(other)?].concat())
        }
        (What::EncryptData(cipher, mode), Parameter::EncryptData(iv, data)) => {
            // The data are the parameter's: too few of them for the key are its fault.
            if wanted.is_some_and(|len| data.len() < len) {
                return fail(CKR_MECHANISM_PARAM_INVALID);
            }
            encrypt_data(base, cipher, mode, iv, data)?
        }
        (What::Tls(what), Parameter::Prf(parameter)) => tls(base, what, parameter, wanted)?,
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
        (What::Ecdh | What::EcdhCofactor, Parameter::Ecdh(ecdh)) => ecdh.kdf.is_none(),
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

pub(super) fn agree(agreement: Agreement, base: &Key, public: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
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

/// The secret shared with the owner of a public value of the same group, which may come without the zeros before it.
fn agree_in_group(base: &Key, public: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let KeyShape::Dh(group) = base.shape else { return fail(CKR_KEY_TYPE_INCONSISTENT) };
    let Some(zeros) = group.len().checked_sub(public.len()) else { return fail(CKR_MECHANISM_PARAM_INVALID) };
    let mut padded = vec![0; zeros];
    padded.extend_from_slice(public);
    agree(Agreement::Dh(group), base, &padded)
}

/// The secret shared with the owner of a public value, which may be wrapped in an OCTET STRING. With the cofactor it is another one only on
/// the binary curves, which are refused then.
fn agree_on_curve(base: &Key, public: &[u8], with_cofactor: bool) -> Result<Zeroizing<Vec<u8>>> {
    let agreement = match base.shape {
        KeyShape::Ec(curve) if with_cofactor && cofactor(curve) != 1 => return fail(CKR_CURVE_NOT_SUPPORTED),
        KeyShape::Ec(curve) => Agreement::Ecdh(curve),
        KeyShape::X25519 if !with_cofactor => Agreement::X25519,
        KeyShape::X448 if !with_cofactor => Agreement::X448,
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

/// HMAC under one key.
struct Hmac {
    digest: Digest,
    key: Arc<KeyValue>,
}

impl Hmac {
    fn new(mill: &Mill, digest: Digest, key: &[u8]) -> Result<Hmac> {
        // HMAC fills keys up with zeros, so that an empty one is one zero.
        let key = KeyValue::new(mill, KeyForm::Secret, if key.is_empty() { &[0] } else { key })?;
        Ok(Hmac { digest, key })
    }

    /// The MAC of parts that follow each other.
    fn of(&self, parts: &[&[u8]]) -> Result<Zeroizing<Vec<u8>>> {
        let mut data = Zeroizing::new(parts.concat());
        let mut mac = Zeroizing::new(vec![0; self.digest.len()]);
        let input_len = data.len();
        let buffers = Buffers { data: &mut data, input_len, tag: &mut mac, ..Buffers::default() };
        let what = (Suite::Mac(Mac::Hmac(self.digest)), Direction::Encrypt);
        run(self.key.mill(), what, self.key.id()?, Asked::Other, buffers)?;
        Ok(mac)
    }
}

/// The pseudorandom function of TLS 1.2, `len` bytes of it (RFC 5246, 5: `P_hash` over label and seed).
///
/// # Errors
/// `CKR_KEY_TYPE_INCONSISTENT` for keys that are no secrets; those of the mill.
pub(crate) fn prf(secret: &Key, digest: Digest, label: &[u8], seed: &[u8], len: usize) -> Result<Zeroizing<Vec<u8>>> {
    let hmac = Hmac::new(secret.value.mill(), digest, secret_bytes(secret)?)?;
    let mut derived = Zeroizing::new(Vec::with_capacity(len + digest.len()));
    let mut a = hmac.of(&[label, seed])?;
    while derived.len() < len {
        derived.extend_from_slice(&hmac.of(&[&a, label, seed])?);
        a = hmac.of(&[&a])?;
    }
    derived.truncate(len);
    Ok(derived)
}

/// A master secret, or what is exported of one.
fn tls(base: &Key, what: Tls, parameter: &Prf, wanted: Option<usize>) -> Result<Zeroizing<Vec<u8>>> {
    let len = match (what, wanted) {
        (Tls::Exporter, Some(wanted)) if wanted <= SECRET_LEN_MAX => wanted,
        (Tls::Exporter, Some(_)) => return fail(CKR_KEY_SIZE_RANGE),
        (Tls::Exporter, None) => return fail(CKR_TEMPLATE_INCOMPLETE),
        (_, None | Some(MASTER_LEN)) => MASTER_LEN,
        (_, Some(_)) => return fail(CKR_TEMPLATE_INCONSISTENT),
    };
    // RFC 5246, 7.4.7.1: the secret that is encrypted with RSA is as long as a master secret.
    let fixed = matches!(what, Tls::Master(Premaster::Rsa) | Tls::ExtendedMaster(Premaster::Rsa) | Tls::Exporter);
    if fixed && secret_bytes(base)?.len() != MASTER_LEN {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    prf(base, parameter.digest, &parameter.label, &parameter.seed, len)
}

/// The keys of a connection: MAC keys and keys, the client's first, and both IVs.
///
/// # Errors
/// `CKR_KEY_SIZE_RANGE` for what is no master secret; those of the mill.
pub(crate) fn key_block(master: &Key, block: &KeyBlock) -> Result<[Zeroizing<Vec<u8>>; 6]> {
    if secret_bytes(master)?.len() != MASTER_LEN {
        return fail(CKR_KEY_SIZE_RANGE);
    }
    let lens = [block.mac_len, block.mac_len, block.key_len, block.key_len, block.iv_len, block.iv_len];
    let prf = self::prf(master, block.prf.digest, &block.prf.label, &block.prf.seed, lens.iter().sum())?;
    let mut rest = prf.as_slice();
    let mut pieces: [Zeroizing<Vec<u8>>; 6] = Default::default();
    for (piece, len) in pieces.iter_mut().zip(lens) {
        let (first, behind) = rest.split_at_checked(len).ok_or(Rv(CKR_GENERAL_ERROR))?;
        *piece = Zeroizing::new(first.to_vec());
        rest = behind;
    }
    Ok(pieces)
}

/// What a key encrypts of data of whole blocks.
fn encrypt_data(base: &Key, cipher: Cipher, mode: Mode, iv: &[u8], data: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let cipher = match (cipher, base.shape) {
        (Cipher::Aes, KeyShape::Aes(size)) => BlockCipher::Aes(size),
        (Cipher::Des, KeyShape::Des) => BlockCipher::Des,
        (Cipher::TripleDes, KeyShape::TripleDes) => BlockCipher::TripleDes,
        _ => return fail(CKR_KEY_TYPE_INCONSISTENT),
    };
    let mut encrypted = Zeroizing::new(data.to_vec());
    let buffers = Buffers { iv, data: &mut encrypted, input_len: data.len(), ..Buffers::default() };
    let what = (Suite::Cipher(cipher, mode), Direction::Encrypt);
    run(base.value.mill(), what, base.value.id()?, Asked::Other, buffers)?;
    Ok(encrypted)
}

/// HKDF (RFC 5869), either step or both (PKCS#11 3.2, 6.62).
fn hkdf(base: &Key, parameter: &Hkdf, salt: Option<&Key>, wanted: Option<usize>) -> Result<Zeroizing<Vec<u8>>> {
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
        key = Hmac::new(mill, digest, salt)?.of(&[base])?;
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
    let hmac = Hmac::new(mill, digest, &key)?;
    for counter in 1..=u8::MAX {
        if derived.len() >= wanted {
            break;
        }
        last = hmac.of(&[&last, &parameter.info, &[counter]])?;
        derived.extend_from_slice(&last);
    }
    derived.truncate(wanted);
    Ok(derived)
}

/// Points of a curve for each of its generator's multiples.
fn cofactor(curve: Curve) -> u32 {
    ciphermill_pairs::curves::parameters(curve).map_or(1, |parameters| parameters.cofactor)
}
