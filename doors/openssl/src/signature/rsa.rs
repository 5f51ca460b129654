//! RSA signatures: paddings here, since applications hand over digests of any kind and salts of any length; the private operation
//! in the mill.

use std::ffi::c_int;

use ciphermill_contract::suite::{PublicEncryption, RsaSize};
use ciphermill_contract::{Direction, Suite};
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::dispatch::{Object, Signatures};
use crate::inner::{Inner, MD_LEN_MAX, Md, MdContext};
use crate::key::Key;
use crate::material::{KeyType, Usable};
use crate::operation::Operation;
use crate::params::{END, ask_integer, ask_text};
use crate::run::run;

/// Numbers of paddings (`RSA_PKCS1_PADDING` …).
const PKCS1: c_int = 1;
const NONE: c_int = 3;
const PSS: c_int = 6;

/// Lengths of salts that are no lengths (`RSA_PSS_SALTLEN_…`).
const SALT_LIKE_DIGEST: c_int = -1;
const SALT_AUTO: c_int = -2;
const SALT_MAX: c_int = -3;
const SALT_AUTO_LIKE_DIGEST: c_int = -4;

/// What a context of `default` would pad with.
#[derive(Clone)]
pub(super) struct Padding {
    mode: c_int,
    md: Option<Md>,
    mgf1: Option<Md>,
    salt: c_int,
}

impl Padding {
    /// Asks a context. `None` when it does not say.
    pub(super) fn of(functions: &Signatures, context: Object) -> Option<Padding> {
        let (mut mode, mut salt) = (0, 0);
        let (mut md, mut mgf1) = ([0; 64], [0; 64]);
        let ask = functions.get_ctx_params?;
        let mut params = [ask_integer(c"pad-mode", &mut mode), ask_text(c"digest", &mut md), END];
        // SAFETY: a context of these functions; parameters with room for the answers.
        if unsafe { ask(context, params.as_mut_ptr()) } != 1 {
            return None;
        }
        if mode == PSS {
            let mut params = [ask_integer(c"saltlen", &mut salt), ask_text(c"mgf1-digest", &mut mgf1), END];
            // SAFETY: as above.
            if unsafe { ask(context, params.as_mut_ptr()) } != 1 {
                return None;
            }
        }
        Some(Padding { mode, md: Md::named(&md)?, mgf1: Md::named(&mgf1)?, salt })
    }

    /// The message representative of a digest (RFC 8017, 9). `None` for what `default` does, or refuses.
    fn encode(&self, digest: &[u8], size: RsaSize) -> Option<Vec<u8>> {
        match (self.mode, &self.md) {
            // With a digest `default` refuses to leave it as it is.
            (NONE, None) => (digest.len() == size.len()).then(|| digest.to_vec()),
            (PKCS1, None) => pkcs1(&[], digest, size),
            (PKCS1, Some(md)) if digest.len() == md.len() => pkcs1(&digest_info(md)?, digest, size),
            (PSS, Some(md)) if digest.len() == md.len() => {
                pss(digest, self.mgf1.as_ref().unwrap_or(md), md, self.salt, size)
            }
            _ => None,
        }
    }
}

/// Signs a digest. `None` when `default` is to do it.
pub(super) fn sign(backend: &'static Backend, key: &Key, padding: &Padding, digest: &[u8]) -> Option<Vec<u8>> {
    // Keys of RSASSA-PSS may demand a digest and a salt; `default` knows.
    if key.key_type() != KeyType::Rsa {
        return None;
    }
    let (id, Usable::Rsa(size)) = key.usable(backend)? else { return None };
    let data = Zeroizing::new(padding.encode(digest, size)?);
    let suite = Suite::PublicEncrypt(PublicEncryption::RsaRaw(size));
    let input_len = data.len();
    let operation = Operation { suite, direction: Direction::Decrypt, key: id, data, input_len, tag: Vec::new() };
    let mut done = run(backend, operation)?;
    (done.data.len() == size.len()).then(|| std::mem::take(&mut *done.data))
}

/// EMSA-PKCS1-v1_5 (RFC 8017, 9.2).
fn pkcs1(info: &[u8], digest: &[u8], size: RsaSize) -> Option<Vec<u8>> {
    let fill = size.len().checked_sub(3 + info.len() + digest.len()).filter(|fill| *fill >= 8)?;
    let mut encoded = vec![0, 1];
    encoded.resize(2 + fill, 0xff);
    encoded.push(0);
    encoded.extend_from_slice(info);
    encoded.extend_from_slice(digest);
    Some(encoded)
}

/// What stands before a digest in PKCS #1 v1.5: algorithm and length in DER (RFC 8017, 9.2, note 1).
fn digest_info(md: &Md) -> Option<Vec<u8>> {
    /// `2.16.840.1.101.3.4.2`, the digests of NIST.
    const NIST: [u8; 8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
    const SHA1: [u8; 5] = [0x2b, 0x0e, 0x03, 0x02, 0x1a];
    let nist = |last| [&NIST[..], &[last]].concat();
    let identifier = match md.name().to_bytes() {
        b"SHA1" => SHA1.to_vec(),
        b"SHA2-256" => nist(1),
        b"SHA2-384" => nist(2),
        b"SHA2-512" => nist(3),
        b"SHA2-224" => nist(4),
        b"SHA2-512/224" => nist(5),
        b"SHA2-512/256" => nist(6),
        b"SHA3-224" => nist(7),
        b"SHA3-256" => nist(8),
        b"SHA3-384" => nist(9),
        b"SHA3-512" => nist(10),
        _ => return None,
    };
    let element = |tag: u8, len: usize| Some([tag, u8::try_from(len).ok().filter(|len| *len < 0x80)?]);
    let algorithm_len = 2 + identifier.len() + 2;
    let mut info = Vec::new();
    info.extend(element(0x30, 2 + algorithm_len + 2 + md.len())?);
    info.extend(element(0x30, algorithm_len)?);
    info.extend(element(0x06, identifier.len())?);
    info.extend(identifier);
    info.extend(element(0x05, 0)?);
    info.extend(element(0x04, md.len())?);
    Some(info)
}

/// EMSA-PSS (RFC 8017, 9.1.1) for a modulus of whole bytes, so that one bit of the first byte stays free.
fn pss(digest: &[u8], mgf1: &Md, md: &Md, salt: c_int, size: RsaSize) -> Option<Vec<u8>> {
    let (len, hash_len) = (size.len(), md.len());
    let room = len.checked_sub(hash_len + 2)?;
    let salt_len = match salt {
        SALT_LIKE_DIGEST => hash_len,
        SALT_AUTO | SALT_MAX => room,
        SALT_AUTO_LIKE_DIGEST => hash_len.min(room),
        len => usize::try_from(len).ok()?,
    };
    if salt_len > room {
        return None;
    }
    let mut salt = Zeroizing::new(vec![0; salt_len]);
    if !Inner::shared()?.random(&mut salt) {
        return None;
    }
    let mut context = MdContext::new()?;
    let (hash, _) = hash_of(&mut context, md, &[&[0; 8], digest, &salt])?;
    let hash = &hash[..hash_len];
    let mut encoded = vec![0; len];
    encoded[room - salt_len] = 1;
    encoded[room - salt_len + 1..room + 1].copy_from_slice(&salt);
    encoded[room + 1..len - 1].copy_from_slice(hash);
    encoded[len - 1] = 0xbc;
    mask(&mut context, mgf1, hash, &mut encoded[..room + 1])?;
    encoded[0] &= 0x7f;
    Some(encoded)
}

/// MGF1 over a seed, added to bytes (RFC 8017, B.2.1).
fn mask(context: &mut MdContext, md: &Md, seed: &[u8], bytes: &mut [u8]) -> Option<()> {
    let step = md.len();
    if step == 0 {
        return None;
    }
    for (counter, bytes) in (0_u32..).zip(bytes.chunks_mut(step)) {
        let (block, _) = hash_of(context, md, &[seed, &counter.to_be_bytes()])?;
        bytes.iter_mut().zip(block).for_each(|(byte, mask)| *byte ^= mask);
    }
    Some(())
}

fn hash_of(context: &mut MdContext, md: &Md, parts: &[&[u8]]) -> Option<([u8; MD_LEN_MAX], usize)> {
    context.begin(md)?;
    parts.iter().try_for_each(|part| context.update(part))?;
    context.finish()
}
