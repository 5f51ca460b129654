//! RSA signatures and OAEP encryption (RFC 8017), with SHA-256 throughout.

use ciphermill_contract::suite::{RsaSize, SignPadding};
use ciphermill_contract::{Direction, KeyMaterial, OpBuffers, OpStatus, Result, Suite};
use openssl::error::ErrorStack;
use openssl::md::Md;
use openssl::pkey::{Private, Public};
use openssl::pkey_ctx::{PkeyCtx, PkeyCtxRef};
use openssl::rsa::Padding;
use openssl::sha::Sha256;
use openssl::sign::RsaPssSaltlen;
use zeroize::Zeroizing;

use super::{Context, Key, NoPrivateKey, Pair, unreadable};

/// Bytes of the longest modulus.
const MODULUS_MAX: usize = RsaSize::Rsa4096.len();

/// A key for signatures with one padding.
struct SignatureKey {
    pair: Pair,
    len: usize,
    padding: SignPadding,
}

/// Parses a key for signatures.
///
/// # Errors
/// `Refused`: `Encoding` when OpenSSL does not read it.
pub(super) fn signature(
    key: &KeyMaterial<'_>,
    suite: Suite,
    size: RsaSize,
    padding: SignPadding,
) -> Result<Box<dyn Key>> {
    let pair = Pair::of_der(key).map_err(unreadable(suite))?;
    Ok(Box::new(SignatureKey { pair, len: size.len(), padding }))
}

impl Key for SignatureKey {
    fn context(&self, direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack> {
        match (direction, &self.pair.private) {
            (Direction::Encrypt, None) => Ok(Box::new(NoPrivateKey)),
            (Direction::Encrypt, Some(private)) => {
                let mut context = PkeyCtx::new(private)?;
                context.sign_init()?;
                self.set_padding(&mut context)?;
                Ok(Box::new(Signer { context, len: self.len }))
            }
            (Direction::Decrypt, _) => {
                let mut context = PkeyCtx::new(&self.pair.public)?;
                context.verify_init()?;
                self.set_padding(&mut context)?;
                Ok(Box::new(Verifier(context)))
            }
        }
    }
}

impl SignatureKey {
    fn set_padding<T>(&self, context: &mut PkeyCtxRef<T>) -> std::result::Result<(), ErrorStack> {
        match self.padding {
            SignPadding::Pkcs1 => {
                context.set_rsa_padding(Padding::PKCS1)?;
                context.set_signature_md(Md::sha256())
            }
            SignPadding::Pss => {
                context.set_rsa_padding(Padding::PKCS1_PSS)?;
                context.set_signature_md(Md::sha256())?;
                context.set_rsa_mgf1_md(Md::sha256())?;
                context.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)
            }
        }
    }
}

/// SHA-256 by the function that looks nothing up.
pub(crate) fn digest(input: &[u8]) -> [u8; 32] {
    let mut sha = Sha256::new();
    sha.update(input);
    sha.finish()
}

struct Signer {
    context: PkeyCtx<Private>,
    len: usize,
}

impl Context for Signer {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let Some(out) = op.tag.get_mut(..self.len) else { return OpStatus::EngineFault };
        match self.context.sign(&digest(op.input), Some(out)) {
            Ok(written) if written == self.len => OpStatus::Done,
            _ => OpStatus::EngineFault,
        }
    }
}

struct Verifier(PkeyCtx<Public>);

impl Context for Verifier {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        match self.0.verify(&digest(op.input), op.tag) {
            Ok(true) => OpStatus::Done,
            _ => OpStatus::AuthFailed,
        }
    }
}

/// A key for OAEP.
struct EncryptionKey(Pair);

/// Parses a key for encryption.
///
/// # Errors
/// As [`signature`].
pub(super) fn encryption(key: &KeyMaterial<'_>, suite: Suite) -> Result<Box<dyn Key>> {
    Ok(Box::new(EncryptionKey(Pair::of_der(key).map_err(unreadable(suite))?)))
}

impl Key for EncryptionKey {
    fn context(&self, direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack> {
        let out = Zeroizing::new([0; MODULUS_MAX]);
        match (direction, &self.0.private) {
            (Direction::Encrypt, _) => {
                let mut context = PkeyCtx::new(&self.0.public)?;
                context.encrypt_init()?;
                set_oaep(&mut context)?;
                Ok(Box::new(Encrypter { context, out }))
            }
            (Direction::Decrypt, None) => Ok(Box::new(NoPrivateKey)),
            (Direction::Decrypt, Some(private)) => {
                let mut context = PkeyCtx::new(private)?;
                context.decrypt_init()?;
                set_oaep(&mut context)?;
                Ok(Box::new(Decrypter { context, out }))
            }
        }
    }
}

fn set_oaep<T>(context: &mut PkeyCtxRef<T>) -> std::result::Result<(), ErrorStack> {
    context.set_rsa_padding(Padding::PKCS1_OAEP)?;
    context.set_rsa_oaep_md(Md::sha256())?;
    context.set_rsa_mgf1_md(Md::sha256())
}

struct Encrypter {
    context: PkeyCtx<Public>,
    out: Zeroizing<[u8; MODULUS_MAX]>,
}

impl Context for Encrypter {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let Some(input) = op.data.get(..op.input_len) else { return OpStatus::EngineFault };
        let written = self.context.encrypt(input, Some(&mut self.out[..]));
        written.map_or(OpStatus::EngineFault, |written| finish(op, &self.out[..], written))
    }
}

struct Decrypter {
    context: PkeyCtx<Private>,
    out: Zeroizing<[u8; MODULUS_MAX]>,
}

impl Context for Decrypter {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let Some(input) = op.data.get(..op.input_len) else { return OpStatus::EngineFault };
        let written = self.context.decrypt(input, Some(&mut self.out[..]));
        written.map_or(OpStatus::AuthFailed, |written| finish(op, &self.out[..], written))
    }
}

/// Moves what was written to where the input lay.
fn finish(op: &mut OpBuffers<'_>, out: &[u8], written: usize) -> OpStatus {
    let (Some(result), Some(place)) = (out.get(..written), op.data.get_mut(..written)) else {
        return OpStatus::EngineFault;
    };
    place.copy_from_slice(result);
    op.output_len = written;
    OpStatus::Done
}
