//! The module with a token that is thrown away: keys are made and used, and results verified without the module.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use cryptoki::context::Pkcs11;
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use p256::ecdsa::signature::hazmat::PrehashVerifier;

use super::open;
use crate::output::{say, table};

/// PINs of a token that lives as long as this process, and of which everybody may know them.
const PIN: &str = "246810";
const OFFICER_PIN: &str = "13579753";

/// DER of the object identifier of P-256 (RFC 5480, section 2.1.1.1).
const P256: [u8; 10] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// What is signed: as long as a digest of SHA-256.
const DIGEST: [u8; 32] = [0x5a; 32];

type Try = fn(&Session) -> anyhow::Result<()>;

const OPERATIONS: [(&str, &str, Try); 5] = [
    ("RSA-2048, signature", "verified without the module", rsa),
    ("ECDSA P-256, signature", "verified without the module", ecdsa),
    ("AES-128-GCM, encryption", "as in the GCM specification, test case 2", gcm),
    ("HMAC-SHA-256", "as in RFC 4231, test case 1", hmac),
    ("a key of the token", "found again by its label", stays),
];

/// Tries the module with the one token that the environment names, which has to be none yet.
pub(super) fn run(module: &Path) -> anyhow::Result<()> {
    let opened = open(module)?;
    let tried = try_out(&opened).with_context(|| module.display().to_string());
    let finalized = opened.finalize().context("cannot be finalised");
    say(format!("a token made for this, and thrown away:\n{}", tried?))?;
    finalized
}

fn try_out(opened: &Pkcs11) -> anyhow::Result<comfy_table::Table> {
    let slots = opened.get_all_slots()?;
    let [slot] = slots.as_slice() else { bail!("one slot was configured, and there are {}", slots.len()) };
    make(opened, *slot).context("a token cannot be made")?;
    let session = opened.open_rw_session(*slot)?;
    session.login(UserType::User, Some(&AuthPin::from(PIN)))?;
    let mut rows = table(&["operation", "result"], 2);
    for (name, result, operation) in OPERATIONS {
        operation(&session).context(name)?;
        rows.add_row([name, result]);
    }
    session.logout()?;
    Ok(rows)
}

/// Makes a token and its user. One that is there already would lose its keys, and is refused.
fn make(opened: &Pkcs11, slot: Slot) -> anyhow::Result<()> {
    ensure!(!opened.get_token_info(slot)?.token_initialized(), "the slot has one, which is not touched");
    let officer = AuthPin::from(OFFICER_PIN);
    opened.init_token(slot, &officer, "trial")?;
    let session = opened.open_rw_session(slot)?;
    session.login(UserType::So, Some(&officer))?;
    session.init_pin(&AuthPin::from(PIN))?;
    session.logout()?;
    Ok(())
}

/// An attribute's bytes, of an object that has it.
fn value(session: &Session, object: ObjectHandle, kind: AttributeType) -> anyhow::Result<Vec<u8>> {
    match session.get_attributes(object, &[kind])?.pop() {
        Some(Attribute::Modulus(bytes) | Attribute::PublicExponent(bytes) | Attribute::EcPoint(bytes)) => Ok(bytes),
        _ => bail!("the public key has no {kind}"),
    }
}

fn rsa(session: &Session) -> anyhow::Result<()> {
    let public = [Attribute::ModulusBits(2048.into()), Attribute::Verify(true)];
    let (public, private) =
        session.generate_key_pair(&Mechanism::RsaPkcsKeyPairGen, &public, &[Attribute::Sign(true)])?;
    let signature = session.sign(&Mechanism::RsaPkcs, private, &DIGEST)?;
    let number = |kind| value(session, public, kind).map(|bytes| rsa::BoxedUint::from_be_slice_vartime(&bytes));
    let key = rsa::RsaPublicKey::new(number(AttributeType::Modulus)?, number(AttributeType::PublicExponent)?)?;
    key.verify(rsa::Pkcs1v15Sign::new_unprefixed(), &DIGEST, &signature)?;
    session.verify(&Mechanism::RsaPkcs, public, &DIGEST, &signature)?;
    Ok(())
}

fn ecdsa(session: &Session) -> anyhow::Result<()> {
    let public = [Attribute::EcParams(P256.to_vec()), Attribute::Verify(true)];
    let (public, private) = session.generate_key_pair(&Mechanism::EccKeyPairGen, &public, &[Attribute::Sign(true)])?;
    let signature = session.sign(&Mechanism::Ecdsa, private, &DIGEST)?;
    // DER of an octet string around the point (PKCS#11 3.1, section 6.3.3).
    let point = value(session, public, AttributeType::EcPoint)?;
    let point = point.strip_prefix(&[0x04, 65]).context("CKA_EC_POINT is no octet string with a point of P-256")?;
    let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(point)?;
    key.verify_prehash(&DIGEST, &p256::ecdsa::Signature::from_slice(&signature)?)?;
    session.verify(&Mechanism::Ecdsa, public, &DIGEST, &signature)?;
    Ok(())
}

/// A secret key of the session with a value that is published.
fn secret(session: &Session, kind: KeyType, value: &[u8], may: &[Attribute]) -> anyhow::Result<ObjectHandle> {
    let mut template = vec![
        Attribute::Class(ObjectClass::SECRET_KEY),
        Attribute::KeyType(kind),
        Attribute::Value(value.to_vec()),
        Attribute::Token(false),
    ];
    template.extend_from_slice(may);
    Ok(session.create_object(&template)?)
}

fn gcm(session: &Session) -> anyhow::Result<()> {
    // "The Galois/Counter Mode of Operation" (McGrew, Viega), appendix B, test case 2: ciphertext and tag.
    const SEALED: &str = "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf";
    let key = secret(session, KeyType::AES, &[0; 16], &[Attribute::Encrypt(true), Attribute::Decrypt(true)])?;
    let mut iv = [0; 12];
    let sealed = session.encrypt(&Mechanism::AesGcm(GcmParams::new(&mut iv, &[], 128.into())?), key, &[0; 16])?;
    ensure!(hex::encode(&sealed) == SEALED, "the module has other bytes: {}", hex::encode(&sealed));
    let opened = session.decrypt(&Mechanism::AesGcm(GcmParams::new(&mut iv, &[], 128.into())?), key, &sealed)?;
    ensure!(opened == [0; 16], "what was encrypted does not come back");
    let mut changed = sealed;
    changed.iter_mut().take(1).for_each(|byte| *byte ^= 1);
    let refused = session.decrypt(&Mechanism::AesGcm(GcmParams::new(&mut iv, &[], 128.into())?), key, &changed);
    ensure!(refused.is_err(), "a changed ciphertext is decrypted");
    Ok(())
}

fn hmac(session: &Session) -> anyhow::Result<()> {
    const MAC: &str = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
    let key = secret(session, KeyType::GENERIC_SECRET, &[0x0b; 20], &[Attribute::Sign(true)])?;
    let mac = session.sign(&Mechanism::Sha256Hmac, key, b"Hi There")?;
    ensure!(hex::encode(&mac) == MAC, "the module has other bytes: {}", hex::encode(&mac));
    Ok(())
}

/// A key that is an object of the token.
fn stays(session: &Session) -> anyhow::Result<()> {
    let label = Attribute::Label(b"trial".to_vec());
    let template = [Attribute::Token(true), Attribute::ValueLen(32.into()), Attribute::Encrypt(true), label.clone()];
    session.generate_key(&Mechanism::AesKeyGen, &template)?;
    let found = session.find_objects(&[Attribute::Class(ObjectClass::SECRET_KEY), label])?;
    ensure!(found.len() == 1, "{} keys are found, and one was made", found.len());
    Ok(())
}
