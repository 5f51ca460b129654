//! Digests behind one type, so that HMAC and chains can be written once.

use blake3::Hasher as Blake3;
use ciphermill_contract::suite::Digest;
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use digest::{Digest as _, ExtendableOutput};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use shake::{Shake128, Shake256};
use zeroize::Zeroizing;

use crate::tag::{self, Output};

/// A digest being computed. Its state is wiped when dropped.
#[derive(Clone)]
pub(crate) enum Hasher {
    Md5(Md5),
    Sha1(Sha1),
    Sha224(Sha224),
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
    Sha512_224(Sha512_224),
    Sha512_256(Sha512_256),
    Sha3_224(Sha3_224),
    Sha3_256(Sha3_256),
    Sha3_384(Sha3_384),
    Sha3_512(Sha3_512),
    Blake3(Box<Zeroizing<Blake3>>),
    Shake128(Shake128),
    Shake256(Shake256),
}

/// The same expression for whichever hasher there is.
macro_rules! each {
    ($hasher:expr, $name:ident => $work:expr) => {
        match $hasher {
            Hasher::Md5($name) => $work,
            Hasher::Sha1($name) => $work,
            Hasher::Sha224($name) => $work,
            Hasher::Sha256($name) => $work,
            Hasher::Sha384($name) => $work,
            Hasher::Sha512($name) => $work,
            Hasher::Sha512_224($name) => $work,
            Hasher::Sha512_256($name) => $work,
            Hasher::Sha3_224($name) => $work,
            Hasher::Sha3_256($name) => $work,
            Hasher::Sha3_384($name) => $work,
            Hasher::Sha3_512($name) => $work,
            Hasher::Blake3(hasher) => {
                let $name = Wrapped(hasher);
                $work
            }
            Hasher::Shake128(hasher) => {
                let $name = Fixed(hasher);
                $work
            }
            Hasher::Shake256(hasher) => {
                let $name = Fixed(hasher);
                $work
            }
        }
    };
}

/// Gives BLAKE3 the two methods that the other digests have from their trait.
struct Wrapped<H>(H);

impl Wrapped<&mut Box<Zeroizing<Blake3>>> {
    fn update(self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl Wrapped<Box<Zeroizing<Blake3>>> {
    fn finalize(self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// Gives extendable-output functions the same, with outputs of the usual length.
struct Fixed<H>(H);

impl<H: digest::Update> Fixed<&mut H> {
    fn update(self, bytes: &[u8]) {
        digest::Update::update(self.0, bytes);
    }
}

impl Fixed<Shake128> {
    fn finalize(self) -> [u8; 32] {
        squeeze(self.0)
    }
}

impl Fixed<Shake256> {
    fn finalize(self) -> [u8; 64] {
        squeeze(self.0)
    }
}

fn squeeze<const N: usize>(hasher: impl ExtendableOutput) -> [u8; N] {
    let mut output = [0; N];
    hasher.finalize_xof_into(&mut output);
    output
}

impl Hasher {
    /// A digest of nothing yet.
    pub(crate) fn new(digest: Digest) -> Hasher {
        match digest {
            Digest::Md5 => Hasher::Md5(Md5::new()),
            Digest::Sha1 => Hasher::Sha1(Sha1::new()),
            Digest::Sha224 => Hasher::Sha224(Sha224::new()),
            Digest::Sha256 => Hasher::Sha256(Sha256::new()),
            Digest::Sha384 => Hasher::Sha384(Sha384::new()),
            Digest::Sha512 => Hasher::Sha512(Sha512::new()),
            Digest::Sha512_224 => Hasher::Sha512_224(Sha512_224::new()),
            Digest::Sha512_256 => Hasher::Sha512_256(Sha512_256::new()),
            Digest::Sha3_224 => Hasher::Sha3_224(Sha3_224::new()),
            Digest::Sha3_256 => Hasher::Sha3_256(Sha3_256::new()),
            Digest::Sha3_384 => Hasher::Sha3_384(Sha3_384::new()),
            Digest::Sha3_512 => Hasher::Sha3_512(Sha3_512::new()),
            Digest::Blake3 => Hasher::Blake3(Box::new(Zeroizing::new(Blake3::new()))),
            Digest::Shake128 => Hasher::Shake128(Shake128::default()),
            Digest::Shake256 => Hasher::Shake256(Shake256::default()),
        }
    }

    /// Adds bytes to what is digested.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        each!(self, hasher => hasher.update(bytes));
    }

    /// Writes the digest of everything that was added: as many bytes as there is room for, of digests with a length of their own
    /// at most those.
    pub(crate) fn write(self, tag: &mut [u8]) -> OpStatus {
        match self {
            Hasher::Shake128(hasher) => hasher.finalize_xof_into(tag),
            Hasher::Shake256(hasher) => hasher.finalize_xof_into(tag),
            other => return tag::settle(Direction::Encrypt, other.finish().as_slice(), tag),
        }
        OpStatus::Done
    }

    /// The digest of everything that was added.
    pub(crate) fn finish(self) -> Output {
        each!(self, hasher => Output::new(hasher.finalize().as_slice()))
    }
}

/// Digests one operation's input.
pub(crate) fn process(digest: Digest, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let mut hasher = Hasher::new(digest);
    hasher.update(buffers.input);
    hasher.write(buffers.tag)
}
