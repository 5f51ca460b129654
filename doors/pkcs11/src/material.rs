//! Keys as attributes, and as the contract has them: numbers and points of templates become DER and back.

use ciphermill::Mill;
use ciphermill_contract::suite::acceptance::der::{self, curve_key};
use ciphermill_contract::suite::{AesSize, Curve, DhGroup, Kem, MlDsaSet, RsaSize};
use ciphermill_contract::{KeyForm, KeyMaterial};
use ciphermill_pairs::der::{
    BIT_STRING, Elements, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, RsaParts, SEQUENCE, ec, element, only, rsa, trimmed,
};
use ciphermill_pairs::dh;
use ciphermill_pairs::rsa::{Known, completed};
use cryptoki_sys::*;
use zeroize::Zeroizing;

use crate::attributes::Attributes;
use crate::attributes::Template;
use crate::key::{Key, KeyShape, KeyValue};
use crate::rv::{Result, Rv, fail};

const PRINTABLE_STRING: u8 = 0x13;

/// Algorithms of RFC 8410, 3: 1.3.101 and a number.
const X25519_NAME: &[u8] = &[0x2b, 0x65, 110];
const X448_NAME: &[u8] = &[0x2b, 0x65, 111];
const ED25519_NAME: &[u8] = &[0x2b, 0x65, 112];

const UNCOMPRESSED: u8 = 4;

/// The attributes that are a key's own bytes, which sensitive keys keep to themselves.
pub(crate) const SECRETS: [CK_ATTRIBUTE_TYPE; 8] = [
    CKA_VALUE,
    CKA_PRIVATE_EXPONENT,
    CKA_PRIME_1,
    CKA_PRIME_2,
    CKA_EXPONENT_1,
    CKA_EXPONENT_2,
    CKA_COEFFICIENT,
    CKA_SEED,
];

/// What an OCTET STRING holds.
pub(crate) fn octets(bytes: &[u8]) -> Option<&[u8]> {
    only(bytes, OCTET_STRING)
}

fn rsa_size(modulus: &[u8]) -> Result<RsaSize> {
    RsaSize::ALL.into_iter().find(|size| size.len() == trimmed(modulus).len()).ok_or(Rv(CKR_KEY_SIZE_RANGE))
}

/// The kind of key that `CKA_EC_PARAMS` names: by an object identifier, or by a name.
fn curve_of(parameters: &[u8]) -> Result<KeyShape> {
    if let Some(name) = only(parameters, OBJECT_IDENTIFIER) {
        return match name {
            X25519_NAME => Ok(KeyShape::X25519),
            X448_NAME => Ok(KeyShape::X448),
            ED25519_NAME => Ok(KeyShape::Ed25519),
            // edwards25519 and curve25519 of the project GNU, which older clients give.
            [0x2b, 6, 1, 4, 1, 0xda, 0x47, 15, 1] => Ok(KeyShape::Ed25519),
            [0x2b, 6, 1, 4, 1, 0x97, 0x55, 1, 5, 1] => Ok(KeyShape::X25519),
            name => {
                let curve = Curve::ALL.into_iter().find(|curve| der::curve_name(*curve) == name);
                curve.map(KeyShape::Ec).ok_or(Rv(CKR_CURVE_NOT_SUPPORTED))
            }
        };
    }
    match only(parameters, PRINTABLE_STRING) {
        Some(b"edwards25519") => Ok(KeyShape::Ed25519),
        Some(b"curve25519") => Ok(KeyShape::X25519),
        Some(b"curve448") => Ok(KeyShape::X448),
        Some(_) => fail(CKR_CURVE_NOT_SUPPORTED),
        None if only(parameters, SEQUENCE).is_some() => fail(CKR_CURVE_NOT_SUPPORTED),
        None => fail(CKR_ATTRIBUTE_VALUE_INVALID),
    }
}

/// `CKA_EC_PARAMS` of a kind of key.
fn curve_parameters(shape: KeyShape) -> Option<Zeroizing<Vec<u8>>> {
    Some(match shape {
        KeyShape::Ec(curve) => element(OBJECT_IDENTIFIER, der::curve_name(curve)),
        KeyShape::Ed25519 => element(OBJECT_IDENTIFIER, ED25519_NAME),
        KeyShape::X25519 => element(OBJECT_IDENTIFIER, X25519_NAME),
        KeyShape::X448 => element(OBJECT_IDENTIFIER, X448_NAME),
        _ => return None,
    })
}

const DH_GROUPS: [DhGroup; 10] = [
    DhGroup::Ffdhe2048,
    DhGroup::Ffdhe3072,
    DhGroup::Ffdhe4096,
    DhGroup::Modp1024,
    DhGroup::Modp1536,
    DhGroup::Modp2048,
    DhGroup::Modp3072,
    DhGroup::Modp4096,
    DhGroup::Modp6144,
    DhGroup::Modp8192,
];

/// The group of a prime and base, which is one that suites have.
fn group_of(prime: &[u8], base: &[u8]) -> Result<DhGroup> {
    let group = DH_GROUPS.into_iter().find(|group| dh::prime(*group) == trimmed(prime));
    group.filter(|_| trimmed(base) == [2]).ok_or(Rv(CKR_DOMAIN_PARAMS_INVALID))
}

fn group_in(attributes: &Attributes) -> Result<DhGroup> {
    group_of(part(attributes, CKA_PRIME)?, part(attributes, CKA_BASE)?)
}

fn part(attributes: &Attributes, kind: CK_ATTRIBUTE_TYPE) -> Result<&[u8]> {
    attributes.get(kind).ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))
}

fn kem_of(number: CK_ULONG) -> Result<Kem> {
    Ok(match number {
        CKP_ML_KEM_512 => Kem::MlKem512,
        CKP_ML_KEM_768 => Kem::MlKem768,
        CKP_ML_KEM_1024 => Kem::MlKem1024,
        _ => return fail(CKR_ATTRIBUTE_VALUE_INVALID),
    })
}

fn ml_dsa_of(number: CK_ULONG) -> Result<MlDsaSet> {
    Ok(match number {
        CKP_ML_DSA_44 => MlDsaSet::MlDsa44,
        CKP_ML_DSA_65 => MlDsaSet::MlDsa65,
        CKP_ML_DSA_87 => MlDsaSet::MlDsa87,
        _ => return fail(CKR_ATTRIBUTE_VALUE_INVALID),
    })
}

/// The kind of pair that a mechanism makes of the public key's template.
///
/// # Errors
/// `CKR_TEMPLATE_INCOMPLETE`; `CKR_KEY_SIZE_RANGE`, `CKR_CURVE_NOT_SUPPORTED`, `CKR_ATTRIBUTE_VALUE_INVALID`.
pub(crate) fn pair_of(mechanism: CK_MECHANISM_TYPE, template: &Template) -> Result<KeyShape> {
    let given = |kind| template.get(kind).ok_or(Rv(CKR_TEMPLATE_INCOMPLETE));
    let number = |kind| -> Result<CK_ULONG> {
        let bytes = given(kind)?.try_into().or(fail(CKR_ATTRIBUTE_VALUE_INVALID))?;
        Ok(CK_ULONG::from_ne_bytes(bytes))
    };
    match mechanism {
        CKM_RSA_PKCS_KEY_PAIR_GEN => {
            let bits = number(CKA_MODULUS_BITS)?;
            if template.get(CKA_PUBLIC_EXPONENT).is_some_and(|exponent| trimmed(exponent) != [1, 0, 1]) {
                return fail(CKR_ATTRIBUTE_VALUE_INVALID);
            }
            let size = RsaSize::ALL.into_iter().find(|size| size.bits() as CK_ULONG == bits);
            size.map(KeyShape::Rsa).ok_or(Rv(CKR_KEY_SIZE_RANGE))
        }
        CKM_EC_KEY_PAIR_GEN | CKM_EC_EDWARDS_KEY_PAIR_GEN | CKM_EC_MONTGOMERY_KEY_PAIR_GEN => {
            match (mechanism, curve_of(given(CKA_EC_PARAMS)?)?) {
                (CKM_EC_KEY_PAIR_GEN, shape @ KeyShape::Ec(_))
                | (CKM_EC_EDWARDS_KEY_PAIR_GEN, shape @ KeyShape::Ed25519)
                | (CKM_EC_MONTGOMERY_KEY_PAIR_GEN, shape @ (KeyShape::X25519 | KeyShape::X448)) => Ok(shape),
                _ => fail(CKR_CURVE_NOT_SUPPORTED),
            }
        }
        CKM_DH_PKCS_KEY_PAIR_GEN => group_of(given(CKA_PRIME)?, given(CKA_BASE)?).map(KeyShape::Dh),
        CKM_ML_KEM_KEY_PAIR_GEN => Ok(KeyShape::MlKem(kem_of(number(CKA_PARAMETER_SET)?)?)),
        CKM_ML_DSA_KEY_PAIR_GEN => Ok(KeyShape::MlDsa(ml_dsa_of(number(CKA_PARAMETER_SET)?)?)),
        _ => fail(CKR_MECHANISM_INVALID),
    }
}

fn key_type(shape: KeyShape) -> CK_KEY_TYPE {
    match shape {
        KeyShape::Aes(_) => CKK_AES,
        KeyShape::AesXts(_) => CKK_AES_XTS,
        KeyShape::Des => CKK_DES,
        KeyShape::TripleDes => CKK_DES3,
        KeyShape::ChaCha20 => CKK_CHACHA20,
        KeyShape::Poly1305 => CKK_POLY1305,
        KeyShape::Bytes => CKK_GENERIC_SECRET,
        KeyShape::Rsa(_) => CKK_RSA,
        KeyShape::Ec(_) => CKK_EC,
        KeyShape::Ed25519 => CKK_EC_EDWARDS,
        KeyShape::X25519 | KeyShape::X448 => CKK_EC_MONTGOMERY,
        KeyShape::Dh(_) => CKK_DH,
        KeyShape::MlKem(_) => CKK_ML_KEM,
        KeyShape::MlDsa(_) => CKK_ML_DSA,
    }
}

/// Both keys of a generated pair, and what their objects have to have.
///
/// # Errors
/// `CKR_DEVICE_MEMORY`.
pub(crate) fn of_pair(
    mill: &Mill,
    shape: KeyShape,
    private: &[u8],
    public: &[u8],
) -> Result<[(Attributes, Option<Key>); 2]> {
    let key = Key { shape, value: KeyValue::new(mill, KeyForm::Private, private)? };
    Ok([of_public(mill, shape, public)?, (of_private(shape, public)?, Some(key))])
}

/// What the object of a private key has to have whose public half this is.
///
/// # Errors
/// `CKR_GENERAL_ERROR` for what is no public half of that kind.
pub(crate) fn of_private(shape: KeyShape, public: &[u8]) -> Result<Attributes> {
    let mut attributes = Attributes::default();
    attributes.set_number(CKA_CLASS, CKO_PRIVATE_KEY);
    describe(&mut attributes, shape);
    if let KeyShape::Rsa(_) = shape {
        let (modulus, exponent) = rsa_public(public).ok_or(Rv(CKR_GENERAL_ERROR))?;
        attributes.set(CKA_MODULUS, modulus);
        attributes.set(CKA_PUBLIC_EXPONENT, exponent);
    }
    Ok(attributes)
}

/// What the object of a secret key has to have, but for the length of one that may have any.
pub(crate) fn of_secret(shape: KeyShape) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.set_number(CKA_CLASS, CKO_SECRET_KEY);
    describe(&mut attributes, shape);
    if let KeyShape::Aes(size) = shape {
        attributes.set_number(CKA_VALUE_LEN, size.key_len() as CK_ULONG);
    }
    attributes
}

/// A public key, and what its object has to have; no key for one that no operation takes.
///
/// # Errors
/// `CKR_GENERAL_ERROR` for what is no public key of that kind; `CKR_DEVICE_MEMORY`.
pub(crate) fn of_public(mill: &Mill, shape: KeyShape, public: &[u8]) -> Result<(Attributes, Option<Key>)> {
    let mut of_public = Attributes::default();
    of_public.set_number(CKA_CLASS, CKO_PUBLIC_KEY);
    describe(&mut of_public, shape);
    match shape {
        KeyShape::Rsa(_) => {
            let (modulus, exponent) = rsa_public(public).ok_or(Rv(CKR_GENERAL_ERROR))?;
            of_public.set(CKA_MODULUS, modulus);
            of_public.set(CKA_PUBLIC_EXPONENT, exponent);
            of_public.set_number(CKA_MODULUS_BITS, 8 * modulus.len() as CK_ULONG);
        }
        KeyShape::Ec(curve) => {
            let found = curve_key(curve, &KeyMaterial::public(public)).ok().and_then(|key| key.point);
            of_public.set(CKA_EC_POINT, &element(OCTET_STRING, found.ok_or(Rv(CKR_GENERAL_ERROR))?));
        }
        KeyShape::Ed25519 | KeyShape::X25519 | KeyShape::X448 => {
            of_public.set(CKA_EC_POINT, &element(OCTET_STRING, public));
        }
        _ => of_public.set(CKA_VALUE, public),
    }
    // Agreements take no public key.
    let takes_public = !matches!(shape, KeyShape::X25519 | KeyShape::X448 | KeyShape::Dh(_));
    let value = takes_public.then(|| KeyValue::new(mill, KeyForm::Public, public)).transpose()?;
    Ok((of_public, value.map(|value| Key { shape, value })))
}

/// Key type and parameters.
fn describe(attributes: &mut Attributes, shape: KeyShape) {
    attributes.set_number(CKA_KEY_TYPE, key_type(shape));
    if let Some(parameters) = curve_parameters(shape) {
        attributes.set(CKA_EC_PARAMS, &parameters);
    }
    match shape {
        KeyShape::MlKem(kem) => attributes.set_number(
            CKA_PARAMETER_SET,
            match kem {
                Kem::MlKem512 => CKP_ML_KEM_512,
                Kem::MlKem768 => CKP_ML_KEM_768,
                Kem::MlKem1024 => CKP_ML_KEM_1024,
            },
        ),
        KeyShape::MlDsa(set) => attributes.set_number(
            CKA_PARAMETER_SET,
            match set {
                MlDsaSet::MlDsa44 => CKP_ML_DSA_44,
                MlDsaSet::MlDsa65 => CKP_ML_DSA_65,
                MlDsaSet::MlDsa87 => CKP_ML_DSA_87,
            },
        ),
        KeyShape::Dh(group) => {
            attributes.set(CKA_PRIME, dh::prime(group));
            attributes.set(CKA_BASE, &[2]);
        }
        _ => {}
    }
}

/// Modulus and exponent of a SubjectPublicKeyInfo of RSA.
fn rsa_public(info: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut outer = Elements::of(only(info, SEQUENCE)?);
    outer.next()?;
    let bits = outer.tagged(BIT_STRING)?;
    let mut numbers = Elements::of(only(bits.strip_prefix(&[0])?, SEQUENCE)?);
    let mut number = || numbers.tagged(INTEGER).map(trimmed);
    Some((number()?, number()?))
}

/// The numbers of a private key of RSA in PKCS#8, in the order of RFC 8017, A.1.2, from the modulus on.
fn rsa_private(info: &[u8]) -> Option<[&[u8]; 8]> {
    let mut outer = Elements::of(only(info, SEQUENCE)?);
    let inner = outer.nth(2).filter(|(tag, _)| *tag == OCTET_STRING)?.1;
    let mut numbers = Elements::of(only(inner, SEQUENCE)?);
    numbers.tagged(INTEGER)?;
    let mut found: [&[u8]; 8] = [&[]; 8];
    for place in &mut found {
        *place = trimmed(numbers.tagged(INTEGER)?);
    }
    Some(found)
}

/// The value of an attribute that lies in the key itself.
pub(crate) fn value_of(key: &Key, kind: CK_ATTRIBUTE_TYPE) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = key.value.bytes();
    let owned = |bytes: &[u8]| Some(Zeroizing::new(bytes.to_vec()));
    match (key.value.form(), key.shape) {
        (KeyForm::Secret, _) => owned(bytes).filter(|_| kind == CKA_VALUE),
        (KeyForm::Private, KeyShape::Rsa(_)) => {
            let at = match kind {
                CKA_MODULUS => 0,
                CKA_PUBLIC_EXPONENT => 1,
                CKA_PRIVATE_EXPONENT => 2,
                CKA_PRIME_1 => 3,
                CKA_PRIME_2 => 4,
                CKA_EXPONENT_1 => 5,
                CKA_EXPONENT_2 => 6,
                CKA_COEFFICIENT => 7,
                _ => return None,
            };
            rsa_private(bytes).and_then(|numbers| owned(numbers[at]))
        }
        (KeyForm::Private, KeyShape::Ec(curve)) if kind == CKA_VALUE => {
            curve_key(curve, &KeyMaterial::private(bytes)).ok()?.scalar.and_then(owned)
        }
        (KeyForm::Private, KeyShape::MlKem(_) | KeyShape::MlDsa(_)) => owned(bytes).filter(|_| kind == CKA_SEED),
        (KeyForm::Private, _) => owned(bytes).filter(|_| kind == CKA_VALUE),
        _ => None,
    }
}

/// The key that complete attributes are, if operations can take it, and the attributes without what lies in the key then.
///
/// # Errors
/// `CKR_TEMPLATE_INCOMPLETE` for missing parts; `CKR_KEY_SIZE_RANGE`, `CKR_CURVE_NOT_SUPPORTED`, `CKR_DOMAIN_PARAMS_INVALID` for what no suite
/// has; `CKR_ATTRIBUTE_VALUE_INVALID` for parts that are no key.
pub(crate) fn key_of(mill: &Mill, mut attributes: Attributes) -> Result<(Attributes, Option<Key>)> {
    let class = attributes.number(CKA_CLASS).ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?;
    let kind = attributes.number(CKA_KEY_TYPE);
    let (shape, form, bytes) = match (class, kind) {
        (CKO_SECRET_KEY, Some(kind)) => secret(&mut attributes, kind)?,
        (CKO_PRIVATE_KEY, Some(kind)) => private(&mut attributes, kind)?,
        (CKO_PUBLIC_KEY, Some(kind)) => match public(&mut attributes, kind)? {
            Some(found) => found,
            None => return Ok((attributes, None)),
        },
        _ => return Ok((attributes, None)),
    };
    let key = Key { shape, value: KeyValue::new(mill, form, &bytes)? };
    if form != KeyForm::Public {
        for kind in SECRETS {
            attributes.remove(kind);
        }
    }
    Ok((attributes, Some(key)))
}

type Found = (KeyShape, KeyForm, Zeroizing<Vec<u8>>);

fn secret(attributes: &mut Attributes, kind: CK_KEY_TYPE) -> Result<Found> {
    let mut bytes = Zeroizing::new(part(attributes, CKA_VALUE)?.to_vec());
    if attributes.checked_number(CKA_VALUE_LEN)?.is_some_and(|len| len != bytes.len() as CK_ULONG) {
        return fail(CKR_TEMPLATE_INCONSISTENT);
    }
    let shape = match (kind, bytes.len()) {
        (_, 0) => return fail(CKR_ATTRIBUTE_VALUE_INVALID),
        (CKK_AES, 16) => KeyShape::Aes(AesSize::Aes128),
        (CKK_AES, 24) => KeyShape::Aes(AesSize::Aes192),
        (CKK_AES, 32) => KeyShape::Aes(AesSize::Aes256),
        (CKK_AES_XTS, 32) => KeyShape::AesXts(AesSize::Aes128),
        (CKK_AES_XTS, 64) => KeyShape::AesXts(AesSize::Aes256),
        (CKK_DES, 8) => KeyShape::Des,
        (CKK_DES2, 16) => {
            // The first key again (SP 800-67, 3.1, keying option 2).
            bytes.extend_from_within(..8);
            KeyShape::TripleDes
        }
        (CKK_DES3, 24) => KeyShape::TripleDes,
        (CKK_CHACHA20, 32) => KeyShape::ChaCha20,
        (CKK_POLY1305, 32) => KeyShape::Poly1305,
        (CKK_AES | CKK_AES_XTS | CKK_DES | CKK_DES2 | CKK_DES3 | CKK_CHACHA20 | CKK_POLY1305, _) => {
            return fail(CKR_KEY_SIZE_RANGE);
        }
        (CKK_GENERIC_SECRET | CKK_HKDF | CKK_MD5_HMAC | CKK_SHA_1_HMAC | CKK_SHA224_HMAC | CKK_SHA256_HMAC, _)
        | (CKK_SHA384_HMAC | CKK_SHA512_HMAC | CKK_SHA512_224_HMAC | CKK_SHA512_256_HMAC | CKK_SHA3_224_HMAC, _)
        | (CKK_SHA3_256_HMAC | CKK_SHA3_384_HMAC | CKK_SHA3_512_HMAC, _) => KeyShape::Bytes,
        _ => return fail(CKR_ATTRIBUTE_VALUE_INVALID),
    };
    attributes.set_number(CKA_VALUE_LEN, bytes.len() as CK_ULONG);
    Ok((shape, KeyForm::Secret, bytes))
}

fn private(attributes: &mut Attributes, kind: CK_KEY_TYPE) -> Result<Found> {
    let (shape, bytes) = match kind {
        CKK_RSA => rsa_private_of(attributes)?,
        CKK_EC | CKK_EC_EDWARDS | CKK_EC_MONTGOMERY => {
            let shape = curve_of(part(attributes, CKA_EC_PARAMS)?)?;
            let value = part(attributes, CKA_VALUE)?;
            if key_type(shape) != kind {
                return fail(CKR_CURVE_NOT_SUPPORTED);
            }
            match shape {
                KeyShape::Ec(curve) => (shape, ec_private(curve, value)?),
                KeyShape::X448 => (shape, exactly(value, 56)?),
                _ => (shape, exactly(value, 32)?),
            }
        }
        CKK_DH => (KeyShape::Dh(group_in(attributes)?), Zeroizing::new(part(attributes, CKA_VALUE)?.to_vec())),
        CKK_ML_KEM => {
            let kem = kem_of(attributes.checked_number(CKA_PARAMETER_SET)?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?)?;
            (KeyShape::MlKem(kem), exactly(part(attributes, CKA_SEED)?, 64)?)
        }
        CKK_ML_DSA => {
            let set = ml_dsa_of(attributes.checked_number(CKA_PARAMETER_SET)?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?)?;
            (KeyShape::MlDsa(set), exactly(part(attributes, CKA_SEED)?, 32)?)
        }
        _ => return fail(CKR_ATTRIBUTE_VALUE_INVALID),
    };
    Ok((shape, KeyForm::Private, bytes))
}

/// A private key of RSA of all its numbers, or of the primes or the exponents alone, of which the others are computed (PKCS#11 3.2, 6.1.3: which
/// parts are wanted is each token's business). Those that are given have to be those that are computed.
fn rsa_private_of(attributes: &mut Attributes) -> Result<(KeyShape, Zeroizing<Vec<u8>>)> {
    let exponent = part(attributes, CKA_PUBLIC_EXPONENT)?;
    let (modulus, private) = (attributes.get(CKA_MODULUS), attributes.get(CKA_PRIVATE_EXPONENT));
    let primes = attributes.get(CKA_PRIME_1).zip(attributes.get(CKA_PRIME_2));
    let halves = [CKA_PRIME_1, CKA_PRIME_2, CKA_EXPONENT_1, CKA_EXPONENT_2, CKA_COEFFICIENT];
    let given = halves.map(|kind| attributes.get(kind));
    if let (Some(modulus), Some(private), [Some(p), Some(q), Some(dp), Some(dq), Some(inverse)]) =
        (modulus, private, given)
    {
        let size = rsa_size(modulus)?;
        let parts = RsaParts { modulus, exponent, private, halves: [p, q, dp, dq, inverse] };
        return Ok((KeyShape::Rsa(size), rsa(size, &parts).private));
    }
    let size = match (modulus, primes) {
        (Some(modulus), _) => rsa_size(modulus)?,
        (None, Some((p, _))) => {
            let wanted = 2 * trimmed(p).len();
            RsaSize::ALL.into_iter().find(|size| size.len() == wanted).ok_or(Rv(CKR_KEY_SIZE_RANGE))?
        }
        (None, None) => return fail(CKR_TEMPLATE_INCOMPLETE),
    };
    if primes.is_none() && private.is_none() {
        return fail(CKR_TEMPLATE_INCOMPLETE);
    }
    let known = Known { modulus, private, primes: primes.map(|(p, q)| [p, q]) };
    let pair = completed(size, exponent, known).or(fail(CKR_ATTRIBUTE_VALUE_INVALID))?;
    let numbers = rsa_private(&pair.private).ok_or(Rv(CKR_GENERAL_ERROR))?;
    let computed = numbers.iter().skip(3);
    // With the primes their order is known.
    if primes.is_some()
        && given.iter().zip(computed).any(|(given, made)| given.is_some_and(|given| trimmed(given) != *made))
    {
        return fail(CKR_ATTRIBUTE_VALUE_INVALID);
    }
    let modulus = numbers[0].to_vec();
    attributes.set(CKA_MODULUS, &modulus);
    Ok((KeyShape::Rsa(size), pair.private))
}

fn exactly(bytes: &[u8], len: usize) -> Result<Zeroizing<Vec<u8>>> {
    if bytes.len() == len { Ok(Zeroizing::new(bytes.to_vec())) } else { fail(CKR_ATTRIBUTE_VALUE_INVALID) }
}

/// A private key on a curve of its scalar alone; its public half is nothing that signing or agreeing needs.
fn ec_private(curve: Curve, scalar: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let scalar = trimmed(scalar);
    let Some(zeros) = curve.order_len().checked_sub(scalar.len()).filter(|_| !scalar.is_empty()) else {
        return fail(CKR_ATTRIBUTE_VALUE_INVALID);
    };
    let mut padded = Zeroizing::new(vec![0; zeros]);
    padded.extend_from_slice(scalar);
    // RFC 5915, 3: version 1 and the scalar, within PKCS#8.
    let mut key = Zeroizing::new(element(INTEGER, &[1]).to_vec());
    key.extend_from_slice(&element(OCTET_STRING, &padded));
    let mut algorithm = element(OBJECT_IDENTIFIER, der::EC_PUBLIC_KEY).to_vec();
    algorithm.extend_from_slice(&element(OBJECT_IDENTIFIER, der::curve_name(curve)));
    Ok(pkcs8(&algorithm, &element(SEQUENCE, &key)))
}

/// PKCS#8 of version 1 (RFC 5208, 5).
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut contents = Zeroizing::new(element(INTEGER, &[0]).to_vec());
    contents.extend_from_slice(&element(SEQUENCE, algorithm));
    contents.extend_from_slice(&element(OCTET_STRING, key));
    element(SEQUENCE, &contents)
}

fn public(attributes: &mut Attributes, kind: CK_KEY_TYPE) -> Result<Option<Found>> {
    let (shape, bytes) = match kind {
        CKK_RSA => {
            let modulus = trimmed(part(attributes, CKA_MODULUS)?).to_vec();
            let size = rsa_size(&modulus)?;
            let parts = RsaParts {
                modulus: &modulus,
                exponent: part(attributes, CKA_PUBLIC_EXPONENT)?,
                private: &[1],
                halves: [&[1]; 5],
            };
            let bytes = rsa(size, &parts).public;
            attributes.set_number(CKA_MODULUS_BITS, size.bits() as CK_ULONG);
            (KeyShape::Rsa(size), bytes)
        }
        CKK_EC | CKK_EC_EDWARDS | CKK_EC_MONTGOMERY => {
            let shape = curve_of(part(attributes, CKA_EC_PARAMS)?)?;
            let given = part(attributes, CKA_EC_POINT)?;
            let point = octets(given).unwrap_or(given).to_vec();
            if key_type(shape) != kind {
                return fail(CKR_CURVE_NOT_SUPPORTED);
            }
            attributes.set(CKA_EC_POINT, &element(OCTET_STRING, &point));
            match shape {
                KeyShape::Ec(curve) => match point.split_first() {
                    Some((&UNCOMPRESSED, coordinates)) if coordinates.len() == 2 * curve.field_len() => {
                        (shape, ec(curve, &vec![1; curve.order_len()], coordinates).public)
                    }
                    _ => return fail(CKR_ATTRIBUTE_VALUE_INVALID),
                },
                KeyShape::Ed25519 => (shape, exactly(&point, 32)?.to_vec()),
                // Agreements take no public key: the object is there to be read.
                _ => return Ok(None),
            }
        }
        CKK_DH => {
            group_in(attributes)?;
            part(attributes, CKA_VALUE)?;
            return Ok(None);
        }
        CKK_ML_KEM => {
            let kem = kem_of(attributes.checked_number(CKA_PARAMETER_SET)?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?)?;
            (KeyShape::MlKem(kem), exactly(part(attributes, CKA_VALUE)?, kem.public_len())?.to_vec())
        }
        CKK_ML_DSA => {
            let set = ml_dsa_of(attributes.checked_number(CKA_PARAMETER_SET)?.ok_or(Rv(CKR_TEMPLATE_INCOMPLETE))?)?;
            (KeyShape::MlDsa(set), exactly(part(attributes, CKA_VALUE)?, set.public_len())?.to_vec())
        }
        _ => return fail(CKR_ATTRIBUTE_VALUE_INVALID),
    };
    Ok(Some((shape, KeyForm::Public, Zeroizing::new(bytes))))
}

/// A private key in PKCS#8, as it is wrapped (PKCS#11 3.2, 6.7).
///
/// # Errors
/// `CKR_KEY_NOT_WRAPPABLE` for keys that have no such form.
pub(crate) fn to_pkcs8(key: &Key) -> Result<Zeroizing<Vec<u8>>> {
    let name = match key.shape {
        KeyShape::Rsa(_) | KeyShape::Ec(_) => return Ok(Zeroizing::new(key.value.bytes().to_vec())),
        KeyShape::Ed25519 => ED25519_NAME,
        KeyShape::X25519 => X25519_NAME,
        KeyShape::X448 => X448_NAME,
        _ => return fail(CKR_KEY_NOT_WRAPPABLE),
    };
    // RFC 8410, 7: an OCTET STRING within the OCTET STRING.
    Ok(pkcs8(&element(OBJECT_IDENTIFIER, name), &element(OCTET_STRING, key.value.bytes())))
}

/// The key of a PKCS#8, and what its object has to have.
///
/// # Errors
/// `CKR_WRAPPED_KEY_INVALID` for what is none, or none that suites have.
pub(crate) fn from_pkcs8(mill: &Mill, info: &[u8]) -> Result<(Attributes, Key)> {
    let (shape, bytes) = parse_pkcs8(info).ok_or(Rv(CKR_WRAPPED_KEY_INVALID))?;
    let key = Key { shape, value: KeyValue::new(mill, KeyForm::Private, &bytes)? };
    let mut attributes = Attributes::default();
    attributes.set_number(CKA_CLASS, CKO_PRIVATE_KEY);
    describe(&mut attributes, shape);
    for kind in [CKA_MODULUS, CKA_PUBLIC_EXPONENT] {
        if let Some(value) = value_of(&key, kind) {
            attributes.set(kind, &value);
        }
    }
    Ok((attributes, key))
}

fn parse_pkcs8(info: &[u8]) -> Option<(KeyShape, Zeroizing<Vec<u8>>)> {
    // Bytes behind it are those that a cipher without padding filled up with.
    let mut elements = Elements::of(info);
    let contents = elements.tagged(SEQUENCE)?;
    let info = &info[..info.len() - elements.rest().len()];
    let mut outer = Elements::of(contents);
    let algorithm = outer.nth(1).filter(|(tag, _)| *tag == SEQUENCE)?.1;
    let inner = outer.tagged(OCTET_STRING)?;
    let mut names = Elements::of(algorithm);
    let name = names.tagged(OBJECT_IDENTIFIER)?;
    let raw = |len: usize| octets(inner).filter(|raw| raw.len() == len).map(|raw| Zeroizing::new(raw.to_vec()));
    match name {
        der::RSA_ENCRYPTION => {
            let size = rsa_size(rsa_private(info)?[0]).ok()?;
            Some((KeyShape::Rsa(size), Zeroizing::new(info.to_vec())))
        }
        der::EC_PUBLIC_KEY => {
            let curve_name = names.tagged(OBJECT_IDENTIFIER)?;
            let curve = Curve::ALL.into_iter().find(|curve| der::curve_name(*curve) == curve_name)?;
            Some((KeyShape::Ec(curve), Zeroizing::new(info.to_vec())))
        }
        ED25519_NAME => Some((KeyShape::Ed25519, raw(32)?)),
        X25519_NAME => Some((KeyShape::X25519, raw(32)?)),
        X448_NAME => Some((KeyShape::X448, raw(56)?)),
        _ => None,
    }
}

/// The kind of a key of the keystore that nobody has described: by what its bytes are.
pub(crate) fn found_in_keystore(mill: &Mill, form: KeyForm, bytes: &[u8]) -> Result<Option<(Attributes, Key)>> {
    match form {
        KeyForm::Private => Ok(from_pkcs8(mill, bytes).ok()),
        KeyForm::Secret => {
            let mut attributes = Attributes::default();
            attributes.set_number(CKA_CLASS, CKO_SECRET_KEY);
            let kind = if matches!(bytes.len(), 16 | 24 | 32) { CKK_AES } else { CKK_GENERIC_SECRET };
            attributes.set_number(CKA_KEY_TYPE, kind);
            attributes.set(CKA_VALUE, bytes);
            let (attributes, key) = key_of(mill, attributes)?;
            Ok(key.map(|key| (attributes, key)))
        }
        _ => Ok(None),
    }
}

/// What the key of an object is whose bytes lie elsewhere.
pub(crate) fn shape_of(attributes: &Attributes) -> Option<KeyShape> {
    let kind = attributes.number(CKA_KEY_TYPE)?;
    let set = attributes.number(CKA_PARAMETER_SET);
    Some(match kind {
        CKK_RSA => KeyShape::Rsa(rsa_size(attributes.get(CKA_MODULUS)?).ok()?),
        CKK_EC | CKK_EC_EDWARDS | CKK_EC_MONTGOMERY => curve_of(attributes.get(CKA_EC_PARAMS)?).ok()?,
        CKK_DH => KeyShape::Dh(group_in(attributes).ok()?),
        CKK_ML_KEM => KeyShape::MlKem(kem_of(set?).ok()?),
        CKK_ML_DSA => KeyShape::MlDsa(ml_dsa_of(set?).ok()?),
        CKK_AES => KeyShape::Aes(match attributes.number(CKA_VALUE_LEN)? {
            16 => AesSize::Aes128,
            24 => AesSize::Aes192,
            _ => AesSize::Aes256,
        }),
        CKK_AES_XTS => KeyShape::AesXts(match attributes.number(CKA_VALUE_LEN)? {
            32 => AesSize::Aes128,
            _ => AesSize::Aes256,
        }),
        CKK_POLY1305 => KeyShape::Poly1305,
        CKK_DES => KeyShape::Des,
        CKK_DES2 | CKK_DES3 => KeyShape::TripleDes,
        CKK_CHACHA20 => KeyShape::ChaCha20,
        _ => KeyShape::Bytes,
    })
}

/// Adds what of a key's object lies in the key.
pub(crate) fn add_values(attributes: &mut Attributes, key: &Key) {
    for kind in SECRETS {
        if let Some(value) = value_of(key, kind) {
            attributes.set(kind, &value);
        }
    }
}
