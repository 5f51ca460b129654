//! Signatures and MACs, made and verified, in one call or in parts.

use ciphermill::{Bound, BoundOp, Mill, MultiPart};
use ciphermill_contract::suite::{Curve, Digest, Mac, RsaSize, SignPadding, Signature};
use ciphermill_contract::{Direction, Error, Suite};
use cryptoki_sys::{
    CKR_BUFFER_TOO_SMALL, CKR_DATA_LEN_RANGE, CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID,
    CKR_MECHANISM_PARAM_INVALID, CKR_SIGNATURE_INVALID, CKR_SIGNATURE_LEN_RANGE,
};
use smallvec::SmallVec;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use crate::key::{Key, KeyShape};
use crate::mechanisms::{Aead, Finished, General, Mechanism, Parameter, Pss, Tls, What};
use crate::operations::digest::Hasher;
use crate::operations::{Buffers, Step, derive, keep, rsa, run};
use crate::rv::{Asked, Result, fail, of_status};
use crate::session::Steps;

/// Bytes of a MAC at most.
const MAC_MAX: usize = 64;
/// What a call may lay on the stack.
const APART_LEN: usize = 512;

/// Digests that ECDSA takes, in bytes: shorter ones are the same number with zeros before it.
const GIVEN_DIGEST_MIN: usize = 20;
const GIVEN_DIGEST_MAX: usize = 64;

/// What is signed how.
#[derive(Clone, Copy, Debug)]
enum Scheme {
    Mac {
        suite: Suite,
        len: usize,
    },
    /// What the pseudorandom function of TLS makes of the hash of a handshake.
    Finished(Finished),
    /// A hash, or what the application has encoded itself.
    RsaPkcs1(RsaSize, Option<Digest>),
    RsaPss(RsaSize, Pss),
    RsaRaw(RsaSize),
    /// A digest.
    Ecdsa(Curve),
    /// A message as a whole.
    Message(Signature),
}

/// What a signature and its verification have in common.
struct Common {
    key: Key,
    scheme: Scheme,
    /// Hashes the message, for mechanisms that do.
    hasher: Option<Hasher>,
    iv: SmallVec<[u8; 16]>,
    context: Vec<u8>,
    /// The message so far, where it is not hashed or MACed as it comes.
    kept: Zeroizing<Vec<u8>>,
    parts: Option<Box<MultiPart>>,
    bound: Option<Box<Bound>>,
}

/// A signature or MAC being made.
pub(crate) struct Signer(Common);

/// A signature or MAC being verified.
pub(crate) struct Verifier(Common);

/// The scheme of a mechanism with a key, and the digest to hash with before.
fn scheme(mechanism: &Mechanism, key: &Key) -> Result<(Scheme, Option<Digest>)> {
    let mac = |suite: Suite| {
        let len = match mechanism.parameter {
            Parameter::MacLen(len) | Parameter::Aead(Aead { tag_len: len, .. })
                if suite.tag_len(Direction::Decrypt).contains(len) =>
            {
                len
            }
            Parameter::MacLen(_) | Parameter::Aead(_) => return fail(CKR_MECHANISM_PARAM_INVALID),
            _ => suite.default_tag_len(),
        };
        Ok((Scheme::Mac { suite, len }, None))
    };
    match (mechanism.what, key.shape) {
        (What::Hmac(digest, _), KeyShape::Bytes) => mac(Suite::Mac(Mac::Hmac(digest))),
        (What::Cmac(_), KeyShape::Aes(size)) => mac(Suite::Mac(Mac::Cmac(size))),
        (What::Cmac(_), KeyShape::TripleDes) => mac(Suite::Mac(Mac::TripleDesCmac)),
        (What::Gmac, KeyShape::Aes(size)) => match &mechanism.parameter {
            Parameter::Aead(aead) if aead.iv.len() != 12 => mac(Suite::Mac(Mac::GmacAnyIv(size))),
            _ => mac(Suite::Mac(Mac::Gmac(size))),
        },
        (What::Poly1305, KeyShape::Poly1305) => mac(Suite::Mac(Mac::Poly1305)),
        (What::Tls(Tls::Finished), KeyShape::Bytes) => match mechanism.parameter {
            Parameter::Finished(finished) => Ok((Scheme::Finished(finished), None)),
            _ => fail(CKR_MECHANISM_PARAM_INVALID),
        },
        (What::RsaPkcs1(Some(digest)), KeyShape::Rsa(size)) if key.value.is_padded_elsewhere() => {
            Ok((Scheme::Message(Signature::Rsa(size, SignPadding::Pkcs1, digest)), None))
        }
        (What::RsaPss(Some(digest)), KeyShape::Rsa(size)) if key.value.is_padded_elsewhere() => {
            match mechanism.parameter {
                Parameter::Pss(pss) if pss.is_usual() => {
                    Ok((Scheme::Message(Signature::Rsa(size, SignPadding::Pss, digest)), None))
                }
                _ => fail(CKR_MECHANISM_PARAM_INVALID),
            }
        }
        (What::RsaPkcs1(digest), KeyShape::Rsa(size)) => Ok((Scheme::RsaPkcs1(size, digest), digest)),
        (What::RsaPss(digest), KeyShape::Rsa(size)) => match mechanism.parameter {
            Parameter::Pss(pss) => Ok((Scheme::RsaPss(size, pss), digest)),
            _ => fail(CKR_MECHANISM_PARAM_INVALID),
        },
        (What::RsaRaw, KeyShape::Rsa(size)) => Ok((Scheme::RsaRaw(size), None)),
        (What::Ecdsa(digest), KeyShape::Ec(curve)) if takes_digests(curve) => Ok((Scheme::Ecdsa(curve), digest)),
        // The legacy curves sign messages, with the digest of their strength.
        (What::Ecdsa(Some(digest)), KeyShape::Ec(curve)) if digest == curve.digest() => {
            Ok((Scheme::Message(Signature::Ecdsa(curve)), None))
        }
        (What::Ecdsa(_), KeyShape::Ec(_)) => fail(CKR_MECHANISM_INVALID),
        (What::Eddsa, KeyShape::Ed25519) => Ok((Scheme::Message(Signature::Ed25519), None)),
        (What::MlDsa, KeyShape::MlDsa(set)) => Ok((Scheme::Message(Signature::MlDsa(set)), None)),
        (
            What::Hmac(..)
            | What::Cmac(General::No | General::Yes)
            | What::Gmac
            | What::Poly1305
            | What::Tls(Tls::Finished)
            | What::RsaPkcs1(_)
            | What::RsaPss(_)
            | What::RsaRaw
            | What::Ecdsa(_)
            | What::Eddsa
            | What::MlDsa,
            _,
        ) => fail(CKR_KEY_TYPE_INCONSISTENT),
        _ => fail(CKR_MECHANISM_INVALID),
    }
}

fn takes_digests(curve: Curve) -> bool {
    Suite::Sign(Signature::EcdsaDigest(curve)).is_listed()
}

/// A MAC of a message that comes in parts; none where no engine takes the suite so, and the message is kept until its end.
fn begun(key: &Key, suite: Suite, iv: &[u8]) -> Result<Option<Box<MultiPart>>> {
    let id = key.value.id()?;
    match key.value.mill().multi_part(suite, Direction::Encrypt, id) {
        Ok(mut message) => {
            message.begin(iv)?;
            Ok(Some(Box::new(message)))
        }
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Common {
    fn init(mechanism: &Mechanism, key: &Key) -> Result<Common> {
        let (scheme, digest) = scheme(mechanism, key)?;
        let hasher = digest.map(|digest| Hasher::of(key.value.mill(), digest)).transpose()?;
        let (iv, context) = match &mechanism.parameter {
            Parameter::Iv(iv) | Parameter::Aead(Aead { iv, .. }) => (iv.clone(), Vec::new()),
            Parameter::Context(context) => (SmallVec::new(), context.clone()),
            _ => (SmallVec::new(), Vec::new()),
        };
        let kept = Zeroizing::default();
        Ok(Common { key: key.clone(), scheme, hasher, iv, context, kept, parts: None, bound: None })
    }

    fn mill(&self) -> &Mill {
        self.key.value.mill()
    }

    fn len(&self) -> usize {
        match self.scheme {
            Scheme::Mac { len, .. } | Scheme::Finished(Finished { len, .. }) => len,
            Scheme::RsaPkcs1(size, _) | Scheme::RsaPss(size, _) | Scheme::RsaRaw(size) => size.len(),
            Scheme::Ecdsa(curve) => Signature::Ecdsa(curve).len(),
            Scheme::Message(signature) => signature.len(),
        }
    }

    fn update(&mut self, part: &[u8]) -> Result<()> {
        match (self.scheme, &mut self.hasher) {
            (_, Some(hasher)) => hasher.update(part),
            (Scheme::Mac { suite, .. }, None) if self.kept.is_empty() => {
                if self.parts.is_none() {
                    self.parts = begun(&self.key, suite, &self.iv)?;
                }
                match &mut self.parts {
                    Some(message) => message.absorb(part)?,
                    None => keep(&mut self.kept, part),
                }
                Ok(())
            }
            (_, None) => {
                keep(&mut self.kept, part);
                Ok(())
            }
        }
    }

    /// The MAC of a message in one call.
    fn mac(&mut self, suite: Suite, data: &[u8], tag: &mut [u8]) -> Result<()> {
        let bound = match &mut self.bound {
            Some(bound) => bound,
            place => place.insert(self.key.value.bound(suite, Direction::Encrypt)?),
        };
        let mut copy: SmallVec<[u8; APART_LEN]> = SmallVec::from_slice(data);
        let done = bound.run(BoundOp { iv: &self.iv, aad: &[], data: &mut copy, input_len: data.len(), tag });
        copy.zeroize();
        of_status(done?.status, Asked::Other)
    }

    /// What is signed of a message that ends here: its hash, or itself.
    fn taken(&mut self, data: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        match &mut self.hasher {
            Some(hasher) => {
                hasher.update(data)?;
                Ok(Zeroizing::new(hasher.finish()?))
            }
            None => {
                let mut message = std::mem::take(&mut self.kept);
                keep(&mut message, data);
                Ok(message)
            }
        }
    }

    /// The MAC of a message that ends with `data`.
    fn whole_mac(&mut self, suite: Suite, data: &[u8], tag: &mut [u8]) -> Result<()> {
        match &mut self.parts {
            Some(message) => {
                message.absorb(data)?;
                of_status(message.finish(tag)?, Asked::Other)
            }
            None if self.kept.is_empty() => self.mac(suite, data, tag),
            None => {
                let message = self.taken(data)?;
                self.mac(suite, &message, tag)
            }
        }
    }

    /// The block that the primitive of RSA signs; `None` for what is no number of the right size.
    fn rsa_block(&self, taken: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        // What applications encode themselves is the message as a whole.
        let block = match self.scheme {
            Scheme::RsaPkcs1(size, Some(digest)) => rsa::pkcs1(size, &rsa::digest_info(digest, taken)?)?,
            Scheme::RsaPkcs1(size, None) => rsa::pkcs1(size, taken)?,
            Scheme::RsaPss(size, pss) => rsa::pss(self.mill(), size, pss, taken)?,
            Scheme::RsaRaw(size) => {
                // Zeros before a shorter number, as everybody has it.
                let Some(zeros) = size.len().checked_sub(taken.len()) else { return fail(CKR_DATA_LEN_RANGE) };
                let mut block = vec![0; size.len()];
                block[zeros..].copy_from_slice(taken);
                block
            }
            _ => return fail(CKR_MECHANISM_INVALID),
        };
        Ok(Zeroizing::new(block))
    }
}

/// The MAC of `Finished` (RFC 5246, 7.4.9) of the hash of a handshake.
fn verify_data(master: &Key, finished: Finished, hash: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    derive::prf(master, finished.digest, finished.label, hash, finished.len)
}

/// Whether what was made is what was given, in a time that says nothing of where they differ.
fn same(made: &[u8], given: &[u8]) -> Result<()> {
    if bool::from(made.ct_eq(given)) { Ok(()) } else { fail(CKR_SIGNATURE_INVALID) }
}

/// A digest as suites take it: between 20 and 64 bytes, with the same leftmost bits.
fn given_digest(curve: Curve, digest: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let mut given = Zeroizing::new(vec![0; GIVEN_DIGEST_MIN.saturating_sub(digest.len())]);
    match digest.len() {
        0 => return fail(CKR_DATA_LEN_RANGE),
        // Its leftmost bits count, and no order but that of P-521 has more than 64 bytes.
        len if len > GIVEN_DIGEST_MAX && curve == Curve::P521 => return fail(CKR_DATA_LEN_RANGE),
        len => given.extend_from_slice(&digest[..len.min(GIVEN_DIGEST_MAX)]),
    }
    Ok(given)
}

/// Two numbers of one length with zeros before them, so that both together have `len` bytes.
fn halves(signature: &[u8], len: usize) -> Option<Vec<u8>> {
    let short = signature.len() < len && !signature.is_empty() && signature.len().is_multiple_of(2);
    short.then(|| {
        let (r, s) = signature.split_at(signature.len() / 2);
        let zeros = vec![0; len / 2 - r.len()];
        [&zeros, r, &zeros, s].concat()
    })
}

impl Signer {
    /// # Errors
    /// `CKR_KEY_TYPE_INCONSISTENT`, `CKR_MECHANISM_INVALID`, `CKR_MECHANISM_PARAM_INVALID`; those of the mill.
    pub(crate) fn init(mechanism: &Mechanism, key: &Key) -> Result<Signer> {
        Common::init(mechanism, key).map(Signer)
    }

    /// Takes more of the message.
    ///
    /// # Errors
    /// Those of the mill.
    pub(crate) fn update(&mut self, part: &[u8]) -> Result<()> {
        self.0.update(part)
    }

    /// Signs a message that ends with `data`.
    fn sign(&mut self, data: &[u8], signature: &mut [u8]) -> Result<()> {
        let common = &mut self.0;
        if let Scheme::Mac { suite, .. } = common.scheme {
            return common.whole_mac(suite, data, signature);
        }
        let taken = common.taken(data)?;
        let value = &common.key.value;
        match common.scheme {
            Scheme::Mac { .. } => fail(CKR_MECHANISM_INVALID),
            Scheme::Finished(finished) => {
                signature.copy_from_slice(&verify_data(&common.key, finished, &taken)?);
                Ok(())
            }
            Scheme::RsaPkcs1(size, _) | Scheme::RsaPss(size, _) | Scheme::RsaRaw(size) => {
                signature.copy_from_slice(&common.rsa_block(&taken)?);
                rsa::sign(value, size, signature)
            }
            Scheme::Ecdsa(curve) => {
                let mut digest = given_digest(curve, &taken)?;
                let what = (Suite::Sign(Signature::EcdsaDigest(curve)), Direction::Encrypt);
                let input_len = digest.len();
                let buffers = Buffers { data: &mut digest, input_len, tag: signature, ..Buffers::default() };
                run(value.mill(), what, value.id()?, Asked::Other, buffers).map(drop)
            }
            Scheme::Message(kind) => {
                let mut message = taken;
                let input_len = message.len();
                let buffers = Buffers {
                    aad: &common.context,
                    data: &mut message,
                    input_len,
                    tag: signature,
                    ..Buffers::default()
                };
                run(value.mill(), (Suite::Sign(kind), Direction::Encrypt), value.id()?, Asked::Other, buffers).map(drop)
            }
        }
    }
}

impl Steps for Signer {
    fn len(&self, step: Step, _input_len: usize) -> usize {
        if step == Step::Update { 0 } else { self.0.len() }
    }

    fn step(&mut self, step: Step, input: &[u8], output: &mut [u8]) -> Result<usize> {
        if step == Step::Update {
            return self.update(input).map(|()| 0);
        }
        let len = self.0.len();
        let Some(signature) = output.get_mut(..len) else { return fail(CKR_BUFFER_TOO_SMALL) };
        let done = self.sign(input, signature);
        if done.is_err() {
            signature.zeroize();
        }
        done.map(|()| len)
    }
}

impl Verifier {
    /// # Errors
    /// As [`Signer::init`].
    pub(crate) fn init(mechanism: &Mechanism, key: &Key) -> Result<Verifier> {
        Common::init(mechanism, key).map(Verifier)
    }

    /// Takes more of the message.
    ///
    /// # Errors
    /// Those of the mill.
    pub(crate) fn update(&mut self, part: &[u8]) -> Result<()> {
        self.0.update(part)
    }

    /// Verifies the signature of a message that came in parts.
    ///
    /// # Errors
    /// `CKR_SIGNATURE_LEN_RANGE`, `CKR_SIGNATURE_INVALID`; those of the mill.
    pub(crate) fn finish(&mut self, signature: &[u8]) -> Result<()> {
        self.one_shot(&[], signature)
    }

    /// Verifies the signature of a message.
    ///
    /// # Errors
    /// As [`Verifier::finish`].
    pub(crate) fn one_shot(&mut self, data: &[u8], signature: &[u8]) -> Result<()> {
        let common = &mut self.0;
        // Both numbers of ECDSA may come shorter, of one length (PKCS#11 3.2, 6.3.1): zeros go before them.
        let padded = match common.scheme {
            Scheme::Ecdsa(_) => halves(signature, common.len()),
            _ => None,
        };
        let signature = padded.as_deref().unwrap_or(signature);
        if signature.len() != common.len() {
            return fail(CKR_SIGNATURE_LEN_RANGE);
        }
        if let Scheme::Mac { suite, len } = common.scheme {
            let mut mac = Zeroizing::new([0; MAC_MAX]);
            common.whole_mac(suite, data, &mut mac[..len])?;
            return same(&mac[..len], signature);
        }
        let mut taken = common.taken(data)?;
        let value = &common.key.value;
        let of_suite = |kind, aad: &[u8], data: &mut [u8]| {
            let mut signature = signature.to_vec();
            let input_len = data.len();
            let buffers = Buffers { aad, data, input_len, tag: &mut signature, ..Buffers::default() };
            run(value.mill(), (Suite::Sign(kind), Direction::Decrypt), value.id()?, Asked::Verify, buffers).map(drop)
        };
        match common.scheme {
            Scheme::Mac { .. } => fail(CKR_MECHANISM_INVALID),
            Scheme::Finished(finished) => same(&verify_data(&common.key, finished, &taken)?, signature),
            Scheme::RsaPss(size, pss) => {
                let block = rsa::open(value, size, signature)?;
                rsa::verify_pss(value.mill(), size, pss, &taken, &block)
            }
            Scheme::RsaPkcs1(size, _) | Scheme::RsaRaw(size) => {
                let expected = common.rsa_block(&taken)?;
                let block = rsa::open(value, size, signature)?;
                same(&block, &expected)
            }
            Scheme::Ecdsa(curve) => of_suite(Signature::EcdsaDigest(curve), &[], &mut given_digest(curve, &taken)?),
            Scheme::Message(kind) => of_suite(kind, &common.context, &mut taken),
        }
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        if let Some(bound) = self.bound.take() {
            self.key.value.keep_bound(bound);
        }
    }
}
