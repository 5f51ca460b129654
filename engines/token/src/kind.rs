//! What a suite's keys are on a token: their types, what they may do, and the templates of copies (PKCS#11 3.1, 6.1.2, 6.1.3, 6.3.3 to
//! 6.3.6 and 6.13.2).

use core::fmt;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{
    Aead, AesSize, Agreement, BlockCipher, Curve, Mac, Mode, PublicEncryption, RsaSize, Signature,
};
use ciphermill_contract::{Direction, KeyMaterial, Suite};
use ciphermill_pairs::der::trimmed;
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_KEY_TYPE, CK_OBJECT_HANDLE, CK_ULONG, CKA_CLASS, CKA_DECRYPT, CKA_DERIVE, CKA_EC_PARAMS,
    CKA_EC_POINT, CKA_ENCRYPT, CKA_EXTRACTABLE, CKA_KEY_TYPE, CKA_MODULUS, CKA_PRIVATE, CKA_SENSITIVE, CKA_SIGN,
    CKA_TOKEN, CKA_VALUE, CKA_VALUE_LEN, CKA_VERIFY, CKK_AES, CKK_EC, CKK_EC_EDWARDS, CKK_GENERIC_SECRET, CKK_RSA,
    CKK_SHA224_HMAC, CKK_SHA256_HMAC, CKK_SHA384_HMAC, CKK_SHA512_HMAC, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY,
    CKO_SECRET_KEY,
};

use crate::failure::Failure;
use crate::session::{Attribute, Session};
use crate::{curve, material, numbers, public};

pub(crate) const YES: &[u8] = &[1];
pub(crate) const NO: &[u8] = &[0];

/// The names of Ed25519 in `CKA_EC_PARAMS`: its object identifier (RFC 8410, 3), and the string of 6.3.5. Tokens take one of them.
pub(crate) const EDWARDS_NAMES: [&[u8]; 2] = [&[0x06, 3, 0x2b, 0x65, 0x70], b"\x13\x0cedwards25519"];

/// The kind of a key, as far as its attributes follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rsa(RsaSize),
    Ec(Curve),
    Edwards,
    Aes(AesSize),
    /// The key of an HMAC.
    Generic,
}

/// The keys that an administrator's commands know.
const RSA_SIZES: [RsaSize; 4] = [RsaSize::Rsa1024, RsaSize::Rsa2048, RsaSize::Rsa3072, RsaSize::Rsa4096];
const CURVES: [Curve; 3] = [Curve::P256, Curve::P384, Curve::P521];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Rsa(size) => write!(f, "rsa-{}", size.bits()),
            Kind::Ec(curve) => write!(f, "ec-{curve}"),
            Kind::Edwards => f.write_str("ed25519"),
            Kind::Aes(size) => write!(f, "aes-{}", 8 * size.key_len()),
            Kind::Generic => f.write_str("generic"),
        }
    }
}

/// Which part of a key an operation works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// The private or secret key.
    Own,
    /// The public key.
    Public,
}

impl Half {
    /// The part that a suite works with in a direction.
    pub(crate) fn of(suite: Suite, direction: Direction) -> Half {
        match (suite, direction) {
            (Suite::Sign(_), Direction::Decrypt) | (Suite::PublicEncrypt(_), Direction::Encrypt) => Half::Public,
            _ => Half::Own,
        }
    }
}

impl Kind {
    /// None for suites that no token is asked for.
    pub(crate) fn of(suite: Suite) -> Option<Kind> {
        Some(match suite {
            Suite::Sign(Signature::Rsa(size, ..)) => Kind::Rsa(size),
            Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve))
            | Suite::Agree(Agreement::Ecdh(curve)) => Kind::Ec(curve),
            Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => Kind::Edwards,
            Suite::PublicEncrypt(encryption) => Kind::Rsa(encryption.size()),
            Suite::Cipher(BlockCipher::Aes(size), Mode::Ecb | Mode::Cbc | Mode::Ctr)
            | Suite::Aead(Aead::AesGcm(size))
            | Suite::Mac(Mac::Cmac(size)) => Kind::Aes(size),
            Suite::Mac(Mac::Hmac(_)) => Kind::Generic,
            _ => return None,
        })
    }

    /// Whether there is no public half.
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Kind::Aes(_) | Kind::Generic)
    }

    /// The class of the private or secret key.
    pub(crate) fn class(self) -> [u8; size_of::<CK_ULONG>()] {
        if self.is_secret() { CKO_SECRET_KEY.to_ne_bytes() } else { CKO_PRIVATE_KEY.to_ne_bytes() }
    }

    /// The key types that serve it; copies have the first.
    pub(crate) fn key_types(self) -> &'static [CK_KEY_TYPE] {
        match self {
            Kind::Rsa(_) => &[CKK_RSA],
            Kind::Ec(_) => &[CKK_EC],
            Kind::Edwards => &[CKK_EC_EDWARDS],
            Kind::Aes(_) => &[CKK_AES],
            Kind::Generic => &[CKK_GENERIC_SECRET, CKK_SHA224_HMAC, CKK_SHA256_HMAC, CKK_SHA384_HMAC, CKK_SHA512_HMAC],
        }
    }

    /// The kind of a key on a token, if it is one that engines work with.
    pub(crate) fn of_object(session: &Session, object: CK_OBJECT_HANDLE) -> Option<Kind> {
        match session.number(object, CKA_KEY_TYPE)? {
            CKK_RSA => {
                let modulus = session.attribute(object, CKA_MODULUS).ok()?;
                let len = trimmed(&modulus).len();
                RSA_SIZES.into_iter().find(|size| size.len() == len).map(Kind::Rsa)
            }
            CKK_EC => {
                let parameters = session.attribute(object, CKA_EC_PARAMS).ok()?;
                CURVES.into_iter().find(|curve| *parameters == material::curve_parameters(*curve)).map(Kind::Ec)
            }
            CKK_EC_EDWARDS => {
                let parameters = session.attribute(object, CKA_EC_PARAMS).ok()?;
                EDWARDS_NAMES.contains(&parameters.as_slice()).then_some(Kind::Edwards)
            }
            CKK_AES => {
                let len = session.number(object, CKA_VALUE_LEN)?;
                let sizes = [AesSize::Aes128, AesSize::Aes192, AesSize::Aes256];
                sizes.into_iter().find(|size| size.key_len() as CK_ULONG == len).map(Kind::Aes)
            }
            kind if Kind::Generic.key_types().contains(&kind) => Some(Kind::Generic),
            _ => None,
        }
    }

    pub(crate) fn key_type(self) -> [u8; size_of::<CK_ULONG>()] {
        self.key_types().first().copied().unwrap_or(CKK_GENERIC_SECRET).to_ne_bytes()
    }

    /// The public half of a private key in the contract's form; none for secret keys. Points are computed, since keys need not have them.
    ///
    /// # Errors
    /// `Encoding` for scalars out of range, and numbers or halves that do not belong together.
    pub(crate) fn public_half(self, key: &KeyMaterial<'_>) -> Result<Option<Vec<u8>>, KeyProblem> {
        let public = match self {
            Kind::Rsa(size) => {
                numbers::belong_together(key)?;
                let numbers = material::rsa_numbers(key)?;
                let [(_, modulus), (_, exponent), ..] = numbers[..] else { return Err(KeyProblem::Encoding) };
                public::rsa(size, modulus, exponent)
            }
            Kind::Ec(curve) => {
                let parts = material::curve_key(curve, key)?;
                let point =
                    parts.scalar.and_then(|scalar| curve::point_of(curve, scalar)).ok_or(KeyProblem::Encoding)?;
                let said = parts.point.map(|said| curve::uncompressed(curve, said));
                if said.is_some_and(|said| said.as_ref() != Some(&point)) {
                    return Err(KeyProblem::Encoding);
                }
                public::curve(curve, &point)
            }
            Kind::Edwards => {
                let seed = key.bytes.first_chunk().ok_or(KeyProblem::Length)?;
                Some(ed25519_dalek::SigningKey::from_bytes(seed).verifying_key().to_bytes().to_vec())
            }
            Kind::Aes(_) | Kind::Generic => return Ok(None),
        };
        public.map(Some).ok_or(KeyProblem::Parameters)
    }

    /// Looks at what a public key means, beyond its shape.
    ///
    /// # Errors
    /// `Encoding` for points off their curve.
    pub(crate) fn check_public(self, key: &KeyMaterial<'_>) -> Result<(), KeyProblem> {
        let is_sound = match self {
            Kind::Ec(curve) => {
                material::curve_key(curve, key)?.point.is_some_and(|point| curve::uncompressed(curve, point).is_some())
            }
            Kind::Edwards => {
                let bytes = key.bytes.first_chunk().ok_or(KeyProblem::Length)?;
                ed25519_dalek::VerifyingKey::from_bytes(bytes).is_ok()
            }
            Kind::Rsa(_) | Kind::Aes(_) | Kind::Generic => true,
        };
        if is_sound { Ok(()) } else { Err(KeyProblem::Encoding) }
    }

    /// Makes a session object of a private or secret key that serves the suite and is not given out again.
    pub(crate) fn copy_own(self, session: &Session, suite: Suite, bytes: &[u8]) -> Result<CK_OBJECT_HANDLE, Failure> {
        let (class, key_type) = (self.class(), self.key_type());
        let mut template: Vec<Attribute<'_>> = vec![
            (CKA_CLASS, &class),
            (CKA_KEY_TYPE, &key_type),
            (CKA_TOKEN, NO),
            (CKA_PRIVATE, YES),
            (CKA_SENSITIVE, YES),
            (CKA_EXTRACTABLE, NO),
        ];
        template.extend(own_uses(suite).iter().map(|kind| (*kind, YES)));
        if self == Kind::Edwards {
            template.push((CKA_VALUE, bytes));
            return create_edwards(session, template);
        }
        self.with_own_attributes(&KeyMaterial::private(bytes), |parts| {
            Ok(session.create(&[&template[..], parts].concat())?)
        })
    }

    /// What an object of a private or secret key says of the key itself, but for the curve of an Edwards key.
    pub(crate) fn with_own_attributes<T>(
        self,
        key: &KeyMaterial<'_>,
        work: impl FnOnce(&[Attribute<'_>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self {
            Kind::Rsa(_) => work(&material::rsa_numbers(key).map_err(Failure::Key)?),
            Kind::Ec(curve) => {
                let scalar = material::curve_key(curve, key).map(|parts| parts.scalar).map_err(Failure::Key)?;
                let scalar = scalar.ok_or(Failure::Key(KeyProblem::Encoding))?;
                work(&[(CKA_EC_PARAMS, &material::curve_parameters(curve)), (CKA_VALUE, scalar)])
            }
            Kind::Edwards | Kind::Aes(_) | Kind::Generic => work(&[(CKA_VALUE, key.bytes)]),
        }
    }

    /// What an object of a public key says of the key itself, but for the curve of an Edwards key.
    pub(crate) fn with_public_attributes<T>(
        self,
        key: &[u8],
        work: impl FnOnce(&[Attribute<'_>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self {
            Kind::Rsa(_) => work(&public::rsa_numbers(key).map_err(Failure::Key)?),
            Kind::Ec(curve) => {
                let parts = material::curve_key(curve, &KeyMaterial::public(key)).map_err(Failure::Key)?;
                let point = parts.point.and_then(|point| curve::uncompressed(curve, point));
                let point = public::point_attribute(&point.ok_or(Failure::Key(KeyProblem::Encoding))?);
                work(&[(CKA_EC_PARAMS, &material::curve_parameters(curve)), (CKA_EC_POINT, &point)])
            }
            Kind::Edwards => work(&[(CKA_EC_POINT, &public::point_attribute(key))]),
            Kind::Aes(_) | Kind::Generic => Err(Failure::Key(KeyProblem::Form)),
        }
    }

    /// Makes a session object of a public key, in the contract's form, that serves the suite.
    pub(crate) fn copy_public(self, session: &Session, suite: Suite, key: &[u8]) -> Result<CK_OBJECT_HANDLE, Failure> {
        let (class, key_type) = (CKO_PUBLIC_KEY.to_ne_bytes(), self.key_type());
        let used_for = if let Suite::PublicEncrypt(_) = suite { CKA_ENCRYPT } else { CKA_VERIFY };
        let template: Vec<Attribute<'_>> =
            vec![(CKA_CLASS, &class), (CKA_KEY_TYPE, &key_type), (CKA_TOKEN, NO), (CKA_PRIVATE, NO), (used_for, YES)];
        self.with_public_attributes(key, |parts| {
            let template = [&template[..], parts].concat();
            if self == Kind::Edwards { create_edwards(session, template) } else { Ok(session.create(&template)?) }
        })
    }
}

/// What the private or secret key of a suite must be allowed to.
pub(crate) fn own_uses(suite: Suite) -> &'static [CK_ATTRIBUTE_TYPE] {
    match suite {
        // One of the two is enough (see `operation::encryption`).
        Suite::PublicEncrypt(PublicEncryption::RsaRaw(_)) => &[CKA_SIGN, CKA_DECRYPT],
        Suite::PublicEncrypt(_) => &[CKA_DECRYPT],
        Suite::Agree(_) => &[CKA_DERIVE],
        Suite::Cipher(..) | Suite::Aead(_) => &[CKA_ENCRYPT, CKA_DECRYPT],
        _ => &[CKA_SIGN],
    }
}

/// With the name of the curve that the token takes.
fn create_edwards<'a>(session: &Session, mut template: Vec<Attribute<'a>>) -> Result<CK_OBJECT_HANDLE, Failure> {
    let [first, second] = EDWARDS_NAMES;
    template.push((CKA_EC_PARAMS, first));
    session.create(&template).or_else(|_| {
        template.pop();
        template.push((CKA_EC_PARAMS, second));
        Ok(session.create(&template)?)
    })
}
