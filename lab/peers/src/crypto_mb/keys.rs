//! Keys in the library's form: little-endian words. They are parsed with OpenSSL and converted once.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Curve, RsaSize, Signature};
use ciphermill_contract::{Error, KeyForm, KeyMaterial, Result, Suite};
use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::ec::EcGroup;
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey};
use openssl::rsa::Rsa;
use zeroize::Zeroizing;

use crate::openssl::public::{EcPair, Pair, fault, unreadable};

/// The public exponent that the library has a function for (F4).
const F4: u32 = 65537;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// A number, the lowest word first; wiped, since most of them are secret.
pub(super) type Words = Zeroizing<Vec<u64>>;

/// What a key became.
pub(super) enum Key {
    Rsa(RsaKey),
    Curve(CurveKey),
    X25519(Zeroizing<[u8; 32]>),
    Ed25519 { seed: Option<Zeroizing<[u8; 32]>>, public: [u8; 32] },
}

/// An RSA key.
pub(super) struct RsaKey {
    pub(super) modulus: Words,
    /// The same, big-endian.
    pub(super) modulus_bytes: Vec<u8>,
    /// The public exponent, where it is not 65,537: as long as the modulus, as the library's function for other ones has it.
    pub(super) exponent: Option<Words>,
    pub(super) private: Option<CrtKey>,
}

/// The private half, for the Chinese remainder theorem (RFC 8017, 3.2): five numbers half as long as the modulus.
pub(super) struct CrtKey {
    pub(super) p: Words,
    pub(super) q: Words,
    pub(super) dp: Words,
    pub(super) dq: Words,
    pub(super) inverse: Words,
}

/// A key on a curve.
pub(super) struct CurveKey {
    pub(super) scalar: Option<Words>,
    pub(super) x: Words,
    pub(super) y: Words,
}

/// What is compared with on a curve: big-endian, as long as a field element.
pub(super) struct CurveParams {
    pub(super) prime: Vec<u8>,
    pub(super) order: Vec<u8>,
}

impl Key {
    /// Parses a key of one of the suites that the peer claims.
    ///
    /// # Errors
    /// `Refused`: what the contract says of the key, or `Encoding` when OpenSSL does not read it.
    pub(super) fn parse(key: &KeyMaterial<'_>, suite: Suite) -> Result<Key> {
        suite.check_key(key)?;
        match suite {
            Suite::Sign(Signature::Rsa(size, ..)) => rsa(key, size).map(Key::Rsa).map_err(unreadable(suite)),
            Suite::Sign(Signature::Ecdsa(curve)) | Suite::Agree(Agreement::Ecdh(curve)) => {
                let pair = EcPair::parse(key, suite, curve)?;
                curve_key(&pair, curve).map(Key::Curve).map_err(fault)
            }
            Suite::Agree(Agreement::X25519) => Ok(Key::X25519(raw(key, suite)?)),
            Suite::Sign(Signature::Ed25519) => edwards(key, suite),
            _ => Err(Error::key(suite, KeyProblem::Form)),
        }
    }
}

fn rsa(key: &KeyMaterial<'_>, size: RsaSize) -> std::result::Result<RsaKey, ErrorStack> {
    let (len, Pair { private, public }) = (size.len(), Pair::of_der(key)?);
    let public = public.rsa()?;
    let private = private.map(|private| private.rsa()).transpose()?;
    let is_usual = *public.e() == *BigNum::from_u32(F4)?;
    Ok(RsaKey {
        modulus: number(public.n(), len)?,
        modulus_bytes: public.n().to_vec_padded(int(len))?,
        exponent: if is_usual { None } else { Some(number(public.e(), len)?) },
        private: private.map(|private| crt(&private, len / 2)).transpose()?,
    })
}

fn crt(key: &Rsa<openssl::pkey::Private>, len: usize) -> std::result::Result<CrtKey, ErrorStack> {
    // The contract's shape of a private key has all of them.
    let part = |part: Option<&BigNumRef>| number(part.ok_or_else(ErrorStack::get)?, len);
    Ok(CrtKey {
        p: part(key.p())?,
        q: part(key.q())?,
        dp: part(key.dmp1())?,
        dq: part(key.dmq1())?,
        inverse: part(key.iqmp())?,
    })
}

fn curve_key(pair: &EcPair, curve: Curve) -> std::result::Result<CurveKey, ErrorStack> {
    let (len, group) = (curve.field_len(), pair.public.group());
    let (mut x, mut y, mut context) = (BigNum::new()?, BigNum::new()?, BigNumContext::new()?);
    pair.public.public_key().affine_coordinates(group, &mut x, &mut y, &mut context)?;
    let scalar = pair.private.as_ref().map(|private| number(private.private_key(), len));
    Ok(CurveKey { scalar: scalar.transpose()?, x: number(&x, len)?, y: number(&y, len)? })
}

fn edwards(key: &KeyMaterial<'_>, suite: Suite) -> Result<Key> {
    let bytes = raw(key, suite)?;
    if key.form == KeyForm::Public {
        return Ok(Key::Ed25519 { seed: None, public: *bytes });
    }
    let public = PKey::private_key_from_raw_bytes(&bytes[..], Id::ED25519).and_then(|pair| pair.raw_public_key());
    let public = public.map_err(unreadable(suite))?;
    let public = public.try_into().map_err(|_| Error::key(suite, KeyProblem::Length))?;
    Ok(Key::Ed25519 { seed: Some(bytes), public })
}

fn raw(key: &KeyMaterial<'_>, suite: Suite) -> Result<Zeroizing<[u8; 32]>> {
    key.bytes.try_into().map(Zeroizing::new).map_err(|_| Error::key(suite, KeyProblem::Length))
}

/// The prime and the order of a curve, from OpenSSL.
pub(super) fn curve_params(curve: Curve) -> std::result::Result<CurveParams, ErrorStack> {
    let nid = match curve {
        Curve::P384 => Nid::SECP384R1,
        _ => Nid::X9_62_PRIME256V1,
    };
    let (group, mut context) = (EcGroup::from_curve_name(nid)?, BigNumContext::new()?);
    let (mut prime, mut a, mut b, mut order) = (BigNum::new()?, BigNum::new()?, BigNum::new()?, BigNum::new()?);
    group.components_gfp(&mut prime, &mut a, &mut b, &mut context)?;
    group.order(&mut order, &mut context)?;
    let bytes = |number: &BigNumRef| number.to_vec_padded(int(curve.field_len()));
    Ok(CurveParams { prime: bytes(&prime)?, order: bytes(&order)? })
}

/// A number of `len` bytes at most.
fn number(number: &BigNumRef, len: usize) -> std::result::Result<Words, ErrorStack> {
    let bytes = Zeroizing::new(number.to_vec_padded(int(len))?);
    let mut words = Zeroizing::new(vec![0; len.div_ceil(WORD)]);
    read(&bytes, &mut words);
    Ok(words)
}

/// Reads big-endian bytes into as many words as they are.
pub(super) fn read(bytes: &[u8], words: &mut [u64]) {
    for (word, chunk) in words.iter_mut().zip(bytes.rchunks(WORD)) {
        *word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
}

fn int(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}
