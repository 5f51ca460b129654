//! Private keys on their way from `default` into the mill.

use std::ffi::{c_int, c_void};

use ciphermill_contract::suite::{Agreement, Curve, Kem, MlDsaSet, PublicEncryption, RsaSize, Signature};
use ciphermill_contract::{KeyForm, KeyId, KeyMaterial, Suite};
use ciphermill_keys::{KeyPolicy, SuiteSet};
use ciphermill_pairs::der;
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::dispatch::{KeyManagement, Object};
use crate::ffi::{Param, selection};
use crate::guard::guarded;
use crate::params::Params;

/// Types of keys, as OpenSSL tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyType {
    Rsa,
    RsaPss,
    Ec,
    X25519,
    X448,
    Ed25519,
    MlKem(Kem),
    MlDsa(MlDsaSet),
}

/// What the mill can do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usable {
    Rsa(RsaSize),
    Ec(Curve),
    X25519,
    X448,
    Ed25519,
    MlKem(Kem),
    MlDsa(MlDsaSet),
}

impl Usable {
    /// What can be done with a key of a type, by its public half as `default` writes it. `None` for sizes and curves that the mill does
    /// not have.
    pub(crate) fn of(key_type: KeyType, params: &Params) -> Option<Usable> {
        Some(match key_type {
            KeyType::Rsa | KeyType::RsaPss => Usable::Rsa(rsa_size(&params.number(c"n")?)?),
            KeyType::Ec => Usable::Ec(curve(params)?),
            KeyType::X25519 => Usable::X25519,
            KeyType::X448 => Usable::X448,
            KeyType::Ed25519 => Usable::Ed25519,
            KeyType::MlKem(kem) => Usable::MlKem(kem),
            KeyType::MlDsa(set) => Usable::MlDsa(set),
        })
    }

    /// What a signature takes in the mill; `None` for keys that sign nothing.
    pub(crate) fn signature(self) -> Option<Suite> {
        match self {
            Usable::Rsa(size) => Some(Suite::PublicEncrypt(PublicEncryption::RsaRaw(size))),
            Usable::Ec(curve) => Some(Suite::Sign(Signature::EcdsaDigest(curve))),
            Usable::Ed25519 => Some(Suite::Sign(Signature::Ed25519)),
            Usable::MlDsa(set) => Some(Suite::Sign(Signature::MlDsa(set))),
            Usable::X25519 | Usable::X448 | Usable::MlKem(_) => None,
        }
    }

    /// What agrees on secrets with it in the mill; `None` for keys that sign or decrypt.
    pub(crate) fn agreement(self) -> Option<Agreement> {
        match self {
            Usable::Ec(curve) => Some(Agreement::Ecdh(curve)),
            Usable::X25519 => Some(Agreement::X25519),
            Usable::X448 => Some(Agreement::X448),
            Usable::Rsa(_) | Usable::Ed25519 | Usable::MlKem(_) | Usable::MlDsa(_) => None,
        }
    }

    /// What it takes in the mill altogether.
    pub(crate) fn suites(self) -> Vec<Suite> {
        match self {
            Usable::Rsa(size) => vec![Suite::PublicEncrypt(PublicEncryption::RsaRaw(size))],
            Usable::Ec(curve) => vec![Suite::Agree(Agreement::Ecdh(curve)), Suite::Sign(Signature::EcdsaDigest(curve))],
            Usable::X25519 => vec![Suite::Agree(Agreement::X25519)],
            Usable::X448 => vec![Suite::Agree(Agreement::X448)],
            Usable::Ed25519 => vec![Suite::Sign(Signature::Ed25519)],
            Usable::MlKem(kem) => vec![Suite::Kem(kem)],
            Usable::MlDsa(set) => vec![Suite::Sign(Signature::MlDsa(set))],
        }
    }
}

/// A key in the contract's form.
struct Material {
    usable: Usable,
    bytes: Zeroizing<Vec<u8>>,
}

/// Where `default` writes a key, and as what it is read.
struct Wanted {
    key_type: KeyType,
    form: KeyForm,
    found: Option<Material>,
}

/// Takes the private key of an object of `default` into the mill's key table, or the public one, which curves, ML-KEM
/// and ML-DSA have there. `None` for a key without that half, for those that the mill has no suite for, and for those that it does not accept.
pub(crate) fn import(
    backend: &Backend,
    functions: &KeyManagement,
    key_type: KeyType,
    inner: Object,
    form: KeyForm,
) -> Option<(KeyId, Usable)> {
    let half = if form == KeyForm::Private { selection::PRIVATE_KEY } else { selection::PUBLIC_KEY };
    let mut wanted = Wanted { key_type, form, found: None };
    let parts = half | selection::PUBLIC_KEY | selection::ALL_PARAMETERS;
    // SAFETY: `inner` is an object of these functions; the callback is given `wanted` while this call lasts.
    let exported = unsafe {
        if functions.has?(inner, half) != 1 {
            return None;
        }
        functions.export?(inner, parts, Some(take), (&raw mut wanted).cast())
    };
    let Material { usable, bytes } = wanted.found.filter(|_| exported == 1)?;
    let policy = KeyPolicy::default().suites(SuiteSet::of(usable.suites()));
    let key = backend.mill.keys().import(KeyMaterial { form, bytes: &bytes }, policy).ok()?;
    Some((key, usable))
}

unsafe extern "C" fn take(params: *const Param, wanted: *mut c_void) -> c_int {
    guarded(0, || {
        // SAFETY: what `import` gave for this call; the parameters live as long.
        let (wanted, params) = unsafe { (&mut *wanted.cast::<Wanted>(), Params::new(params)) };
        wanted.found = match wanted.key_type {
            KeyType::Ec => ec(&params, wanted.form),
            KeyType::MlKem(kem) => seeded(&params, Usable::MlKem(kem), wanted.form),
            KeyType::MlDsa(set) => seeded(&params, Usable::MlDsa(set), wanted.form),
            _ if wanted.form == KeyForm::Public => None,
            KeyType::Rsa | KeyType::RsaPss => rsa(&params),
            KeyType::X25519 => raw(&params, Usable::X25519),
            KeyType::X448 => raw(&params, Usable::X448),
            KeyType::Ed25519 => raw(&params, Usable::Ed25519),
        };
        1
    })
}

/// RSA of two primes in a size of the contract (`provider-keymgmt(7)`, `EVP_PKEY-RSA(7)`).
fn rsa(params: &Params) -> Option<Material> {
    let modulus = params.number(c"n")?;
    let size = rsa_size(&modulus)?;
    if params.number(c"rsa-factor3").is_some() {
        return None;
    }
    let (exponent, private) = (params.number(c"e")?, params.number(c"d")?);
    let keys = [c"rsa-factor1", c"rsa-factor2", c"rsa-exponent1", c"rsa-exponent2", c"rsa-coefficient1"];
    let halves = keys.map(|key| params.number(key));
    let [Some(p), Some(q), Some(dp), Some(dq), Some(q_inverse)] = &halves else { return None };
    let halves = [p, q, dp, dq, q_inverse].map(|number| number.as_slice());
    let parts = der::RsaParts { modulus: &modulus, exponent: &exponent, private: &private, halves };
    Some(Material { usable: Usable::Rsa(size), bytes: der::rsa(size, &parts).private })
}

/// The size of a modulus, if it is one of the contract.
fn rsa_size(modulus: &[u8]) -> Option<RsaSize> {
    RsaSize::ALL.into_iter().find(|size| size.len() == modulus.len() && modulus[0] >> 7 == 1)
}

/// Curves that have lanes or a fast library.
fn curve(params: &Params) -> Option<Curve> {
    curve_of(params.text(c"group")?)
}

/// The same by the name that OpenSSL gives them.
pub(crate) fn curve_of(name: &[u8]) -> Option<Curve> {
    Some(match name {
        b"prime256v1" => Curve::P256,
        b"secp384r1" => Curve::P384,
        b"secp521r1" => Curve::P521,
        _ => return None,
    })
}

fn ec(params: &Params, form: KeyForm) -> Option<Material> {
    let curve = curve(params)?;
    // Compressed points would have to be opened; nobody keeps keys so but to save bytes on paper.
    let coordinates = params.octets(c"pub")?.strip_prefix(&[4])?;
    if coordinates.len() != 2 * curve.field_len() {
        return None;
    }
    let usable = Usable::Ec(curve);
    let mut scalar = Zeroizing::new(vec![0; curve.order_len()]);
    if form == KeyForm::Public {
        return Some(Material { usable, bytes: Zeroizing::new(der::ec(curve, &scalar, coordinates).public) });
    }
    let number = params.number(c"priv")?;
    let at = scalar.len().checked_sub(number.len())?;
    scalar[at..].copy_from_slice(&number);
    Some(Material { usable, bytes: der::ec(curve, &scalar, coordinates).private })
}

/// Keys that are bytes in both worlds.
fn raw(params: &Params, usable: Usable) -> Option<Material> {
    Some(Material { usable, bytes: Zeroizing::new(params.octets(c"priv")?.to_vec()) })
}

/// ML-KEM and ML-DSA: the seed of a private key (FIPS 203, 7.1; FIPS 204, 5.1), which a key may have been read without; or a public
/// key.
fn seeded(params: &Params, usable: Usable, form: KeyForm) -> Option<Material> {
    let bytes = params.octets(if form == KeyForm::Private { c"seed" } else { c"pub" })?;
    Some(Material { usable, bytes: Zeroizing::new(bytes.to_vec()) })
}
