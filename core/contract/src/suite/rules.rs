//! The lengths that each suite takes and gives: keys, IVs, tags, inputs, outputs.

use crate::limits::{
    AAD_LEN_MAX, FF1_NUMERALS_MAX, INPUT_LEN_MAX, IV_LEN_MAX, KEY_LEN_MAX, LONG_IV_LEN_MAX, SEAL_LEN_MAX,
    SUITE_ORDINALS_MAX, TAG_LEN_MAX, XTS_LEN_MAX,
};
use crate::suite::acceptance::der;
use crate::suite::{
    Aead, AesSize, Agreement, BlockCipher, Chain, ChainOrder, Curve, Digest, Direction, Ff1, Kem, KeyPair, KeyWrap,
    Kmac, Mac, Mode, PublicEncryption, Signature, StreamCipher, Suite,
};

/// The lengths in bytes that are allowed: from `min` to `max` in steps of `step`, but for `gaps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The smallest.
    pub min: usize,
    /// The largest.
    pub max: usize,
    /// The distance between neighbours, at least one.
    pub step: usize,
    /// Those in between that are not allowed: bit `n` is for `n` bytes. Neither the smallest nor the largest is one.
    pub gaps: u32,
}

impl Lengths {
    /// Exactly one length.
    pub const fn exactly(len: usize) -> Lengths {
        Lengths { min: len, max: len, step: 1, gaps: 0 }
    }

    /// From `min` to `max`, in steps of `step`.
    pub const fn range(min: usize, max: usize, step: usize) -> Lengths {
        Lengths { min, max, step, gaps: 0 }
    }

    /// The same, without those from `first` to `last`, which lie between the smallest and the largest; that is below 32.
    #[must_use]
    pub const fn without(mut self, first: usize, last: usize) -> Lengths {
        assert!(self.min < first && first <= last && last < self.max && self.max < 32);
        self.gaps |= (1 << (last + 1)) - (1 << first);
        self
    }

    /// Whether `len` is allowed.
    #[inline]
    pub const fn contains(self, len: usize) -> bool {
        len >= self.min
            && len <= self.max
            && (self.step == 1 || (len - self.min).is_multiple_of(self.step))
            && !self.is_gap(len)
    }

    const fn is_gap(self, len: usize) -> bool {
        len < 32 && self.gaps >> len & 1 == 1
    }

    /// The smallest length from `len` up that is allowed, or the largest.
    pub fn round_up(self, len: usize) -> usize {
        let above = len.min(self.max).saturating_sub(self.min);
        let mut len = (self.min + above.next_multiple_of(self.step)).min(self.max);
        while self.is_gap(len) {
            len += self.step;
        }
        len
    }
}

/// Nothing of the kind is taken.
const NONE: Lengths = Lengths::exactly(0);

/// NIST SP 800-38D, 5.2.1.2: 12 to 16 bytes, and 8 and 4 for applications that know what they do (appendix C). Those of
/// ChaCha20-Poly1305 are cut to the same lengths.
const CUT_TAGS: Lengths = Lengths::range(4, 16, 1).without(5, 7).without(9, 11);

/// Digests that callers hand over to be signed: from SHA-1's to SHA-512's.
const GIVEN_DIGESTS: Lengths = Lengths::range(20, 64, 1);

/// The domain that NIST SP 800-38G revision 1 demands at least: `radix^len >= 1,000,000`.
pub const FF1_DOMAIN_MIN: u64 = 1_000_000;

/// Bytes of a TLS 1.2 record's additional data without its length: sequence number, type, version.
pub const TLS_AAD_LEN: usize = 11;

impl Suite {
    /// Lengths of a symmetric key in bytes; for key pairs an upper bound only, their encodings vary.
    pub const fn key_len(self) -> Lengths {
        match self {
            Suite::Cipher(cipher, mode) => {
                let single = cipher.key_len();
                match mode {
                    Mode::Xts => Lengths::range(single.min * 2, single.max * 2, 1),
                    _ => single,
                }
            }
            Suite::Stream(StreamCipher::ChaCha20) => Lengths::exactly(32),
            Suite::Stream(StreamCipher::Rc4) => Lengths::range(5, 256, 1),
            Suite::Stream(StreamCipher::Seal3) => Lengths::exactly(20),
            Suite::Aead(Aead::AesSiv(size) | Aead::AesCbcHmac(size)) => Lengths::exactly(2 * size.key_len()),
            Suite::Aead(
                Aead::AesGcm(size)
                | Aead::AesGcmAnyIv(size)
                | Aead::AesCcm(size)
                | Aead::AesGcmSiv(size)
                | Aead::AesOcb(size),
            ) => Lengths::exactly(size.key_len()),
            Suite::Aead(Aead::ChaCha20Poly1305 | Aead::XChaCha20Poly1305) => Lengths::exactly(32),
            Suite::Digest(_) | Suite::Generate(_) | Suite::Random => NONE,
            // Nobody's key is empty; one that is makes the tags of one of a zero byte (RFC 2104, 2: keys are padded with zeros).
            Suite::Mac(Mac::Hmac(_) | Mac::Kmac(_)) => Lengths::range(1, KEY_LEN_MAX, 1),
            Suite::Mac(Mac::Cmac(size) | Mac::Gmac(size) | Mac::GmacAnyIv(size)) => Lengths::exactly(size.key_len()),
            Suite::Mac(Mac::TripleDesCmac) => BlockCipher::TripleDes.key_len(),
            Suite::Mac(Mac::Poly1305) => Lengths::exactly(32),
            // The cipher's key, then one byte or more for the MAC.
            Suite::Chain(chain) => Lengths::range(chain.cipher_key_len() + 1, KEY_LEN_MAX, 1),
            Suite::Fpe(ff1) => Lengths::exactly(ff1.size.key_len()),
            Suite::Wrap(KeyWrap::Kw(size) | KeyWrap::Kwp(size)) => Lengths::exactly(size.key_len()),
            Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Agree(_) | Suite::Kem(_) => {
                Lengths::range(1, KEY_LEN_MAX, 1)
            }
        }
    }

    /// The kind of key pairs that the suite takes; none for suites with symmetric keys or without keys, and for the exponents of
    /// DH, which are no pairs.
    pub const fn key_pair(self) -> Option<KeyPair> {
        Some(match self {
            Suite::Sign(Signature::Rsa(size, ..)) => KeyPair::Rsa(size),
            Suite::PublicEncrypt(encryption) => KeyPair::Rsa(encryption.size()),
            Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve))
            | Suite::Agree(Agreement::Ecdh(curve)) => KeyPair::Ec(curve),
            Suite::Agree(Agreement::X25519) => KeyPair::X25519,
            Suite::Agree(Agreement::X448) => KeyPair::X448,
            Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => KeyPair::Ed25519,
            Suite::Sign(Signature::MlDsa(set)) => KeyPair::MlDsa(set),
            Suite::Kem(kem) => KeyPair::MlKem(kem),
            _ => return None,
        })
    }

    /// Whether operations of this suite name a key.
    #[inline]
    pub const fn needs_key(self) -> bool {
        !matches!(self, Suite::Digest(_) | Suite::Generate(_) | Suite::Random)
    }

    /// Lengths of the IV, nonce, tweak or counter block in bytes.
    pub const fn iv_len(self) -> Lengths {
        match self {
            Suite::Cipher(cipher, mode) => cipher.iv_len(mode),
            Suite::Chain(chain) => chain.cipher.iv_len(chain.mode),
            Suite::Stream(StreamCipher::ChaCha20) => Lengths::range(12, 16, 4),
            Suite::Stream(StreamCipher::Seal3) => Lengths::exactly(4),
            Suite::Aead(Aead::AesCcm(_)) => Lengths::range(7, 13, 1),
            Suite::Aead(Aead::AesSiv(_)) => Lengths::range(0, 16, 1),
            Suite::Aead(Aead::AesOcb(_)) => Lengths::range(1, 15, 1),
            Suite::Aead(Aead::AesGcmAnyIv(_)) | Suite::Mac(Mac::GmacAnyIv(_)) => Lengths::range(1, LONG_IV_LEN_MAX, 1),
            Suite::Aead(Aead::XChaCha20Poly1305) => Lengths::exactly(24),
            Suite::Aead(Aead::AesCbcHmac(_)) => Lengths::exactly(16),
            Suite::Aead(_) | Suite::Mac(Mac::Gmac(_)) => Lengths::exactly(12),
            Suite::Wrap(KeyWrap::Kw(_)) => Lengths::range(0, 8, 8),
            _ => NONE,
        }
    }

    /// Lengths of the tag, digest, signature, KEM ciphertext or generated public key in bytes.
    ///
    /// Shorter tags than the full one are truncations, but for KMAC's and OCB's, which depend on their length. When signing, encapsulating or generating any length from the full one up
    /// is room; the length written comes back in the operation.
    pub const fn tag_len(self, direction: Direction) -> Lengths {
        match self {
            Suite::Aead(Aead::AesGcm(_) | Aead::AesGcmAnyIv(_) | Aead::ChaCha20Poly1305 | Aead::XChaCha20Poly1305)
            | Suite::Mac(Mac::Gmac(_) | Mac::GmacAnyIv(_)) => CUT_TAGS,
            // RFC 7253, 3.1, names 64, 96 and 128 bits, and its construction whole bytes in between.
            Suite::Aead(Aead::AesOcb(_)) => Lengths::range(8, 16, 1),
            Suite::Aead(Aead::AesCcm(_)) => Lengths::range(4, 16, 2),
            // RFC 7518, 5.2.2.1: the first half of the HMAC.
            Suite::Aead(Aead::AesCbcHmac(size)) => Lengths::exactly(size.key_len()),
            Suite::Aead(_) | Suite::Mac(Mac::Poly1305) => Lengths::exactly(16),
            Suite::Mac(Mac::Cmac(_)) => Lengths::range(4, 16, 1),
            Suite::Mac(Mac::TripleDesCmac) => Lengths::range(4, 8, 1),
            Suite::Digest(digest) if digest.is_xof() => Lengths::range(1, TAG_LEN_MAX, 1),
            Suite::Digest(digest) => Lengths::exactly(digest.len()),
            // SP 800-185, 8.4.2: 32 bits at least.
            Suite::Mac(Mac::Kmac(_)) => Lengths::range(4, TAG_LEN_MAX, 1),
            Suite::Mac(Mac::Hmac(digest)) => Lengths::range(4, digest.len(), 1),
            Suite::Chain(Chain { digest, order: ChainOrder::EncryptThenMac, .. }) => Lengths::range(4, digest.len(), 1),
            Suite::Sign(signature) => room(signature.len(), direction),
            Suite::Kem(kem) => room(kem.ciphertext_len(), direction),
            Suite::Generate(pair) => room(pair.public_len(), direction),
            _ => NONE,
        }
    }

    /// The tag length that is used when nobody says otherwise: the full one; of functions with any length that which has the
    /// function's security strength against collisions.
    pub const fn default_tag_len(self) -> usize {
        match self {
            Suite::Digest(digest) => digest.len(),
            Suite::Mac(Mac::Kmac(kmac)) => 2 * kmac.strength_len(),
            _ => self.tag_len(Direction::Decrypt).max,
        }
    }

    /// The key length in bytes that is used when nobody says otherwise; zero for key pairs and suites without keys.
    pub const fn default_key_len(self) -> usize {
        match self {
            Suite::Mac(Mac::Hmac(digest)) => digest.len(),
            Suite::Mac(Mac::Kmac(kmac)) => kmac.strength_len(),
            Suite::Chain(chain) => chain.cipher_key_len() + chain.digest.len(),
            Suite::Cipher(BlockCipher::Blowfish, _) | Suite::Stream(StreamCipher::Rc4) => 16,
            Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Agree(_) | Suite::Kem(_) => 0,
            _ => self.key_len().max,
        }
    }

    /// The IV length in bytes that is used when nobody says otherwise.
    pub const fn default_iv_len(self) -> usize {
        match self {
            Suite::Stream(StreamCipher::ChaCha20) | Suite::Aead(Aead::AesCcm(_) | Aead::AesOcb(_)) => 12,
            Suite::Aead(Aead::AesGcmAnyIv(_)) | Suite::Mac(Mac::GmacAnyIv(_)) => 12,
            Suite::Aead(Aead::AesSiv(_)) | Suite::Wrap(_) => 0,
            _ => self.iv_len().max,
        }
    }

    /// Lengths of the additional data in bytes, without what is there of an initialisation vector.
    pub const fn aad_len(self) -> Lengths {
        match self {
            Suite::Aead(_)
            | Suite::Fpe(_)
            | Suite::Mac(Mac::Kmac(_))
            | Suite::Chain(Chain { order: ChainOrder::EncryptThenMac, .. }) => {
                Lengths::range(0, AAD_LEN_MAX - self.iv_len().max.saturating_sub(IV_LEN_MAX), 1)
            }
            Suite::Chain(Chain { order: ChainOrder::MacThenEncrypt, .. }) => Lengths::exactly(TLS_AAD_LEN),
            // Its context string (FIPS 204, algorithms 2 and 3).
            Suite::Sign(Signature::MlDsa(_)) => Lengths::range(0, 255, 1),
            _ => NONE,
        }
    }

    /// Lengths of the input in bytes.
    pub const fn input_len(self, direction: Direction) -> Lengths {
        match self {
            Suite::Cipher(cipher, mode) => match mode {
                Mode::Ecb | Mode::Cbc => Lengths::range(0, INPUT_LEN_MAX, cipher.block_len()),
                Mode::Ctr | Mode::Cfb8 | Mode::Cfb128 | Mode::Ofb => Lengths::range(0, INPUT_LEN_MAX, 1),
                Mode::CbcCs1 | Mode::CbcCs2 | Mode::CbcCs3 => Lengths::range(cipher.block_len(), INPUT_LEN_MAX, 1),
                Mode::Xts => Lengths::range(16, XTS_LEN_MAX, 1),
            },
            Suite::Stream(StreamCipher::Seal3) => Lengths::range(0, SEAL_LEN_MAX, 1),
            Suite::Aead(Aead::AesCbcHmac(_)) => match direction {
                Direction::Encrypt => Lengths::range(0, INPUT_LEN_MAX - 16, 1),
                Direction::Decrypt => Lengths::range(16, INPUT_LEN_MAX, 16),
            },
            Suite::Chain(chain) => chain.input_len(direction),
            Suite::Fpe(ff1) => Lengths::range(2 * ff1.numerals_min(), 2 * FF1_NUMERALS_MAX, 2),
            Suite::Wrap(wrap) => wrap.input_len(direction),
            Suite::Sign(Signature::EcdsaDigest(_)) => GIVEN_DIGESTS,
            Suite::PublicEncrypt(encryption) => match direction {
                Direction::Encrypt => encryption.message_len(),
                Direction::Decrypt => Lengths::exactly(encryption.size().len()),
            },
            Suite::Agree(agreement) => Lengths::exactly(agreement.public_len()),
            Suite::Kem(_) | Suite::Generate(_) | Suite::Random => NONE,
            // Of AES-CCM the nonce may demand less: the length field has 15 - nonce bytes (RFC 3610, 2).
            _ => Lengths::range(0, INPUT_LEN_MAX, 1),
        }
    }

    /// Bytes that the engine may write at `output` for an input of `input_len` bytes. What it has written comes back
    /// in the operation's `output_len`. `asked` is that field's value on entry, which only [`Suite::Random`] reads.
    #[inline]
    pub const fn output_len(self, direction: Direction, input_len: usize, asked: usize) -> usize {
        match self {
            Suite::Aead(Aead::AesCbcHmac(_)) => match direction {
                Direction::Encrypt => (input_len / 16 + 1) * 16,
                Direction::Decrypt => input_len,
            },
            Suite::Cipher(..) | Suite::Stream(_) | Suite::Aead(_) | Suite::Fpe(_) => input_len,
            Suite::Chain(chain) => chain.output_len(direction, input_len),
            Suite::Wrap(_) => match direction {
                Direction::Encrypt => input_len.next_multiple_of(WRAP_PART_LEN) + WRAP_PART_LEN,
                // Where the wrapped key is copied to and unwrapped.
                Direction::Decrypt => input_len,
            },
            Suite::Digest(_) | Suite::Mac(_) | Suite::Sign(_) => 0,
            Suite::PublicEncrypt(encryption) => encryption.size().len(),
            Suite::Agree(agreement) => agreement.secret_len(),
            Suite::Kem(_) => 32,
            Suite::Generate(pair) => pair.private_len_max(),
            Suite::Random => asked,
        }
    }

    /// Bytes of the cipher's block, one for suites that have none.
    pub const fn block_len(self) -> usize {
        match self {
            Suite::Cipher(cipher, Mode::Ecb | Mode::Cbc) => cipher.block_len(),
            Suite::Chain(Chain { cipher, mode: Mode::Cbc, .. }) => cipher.block_len(),
            _ => 1,
        }
    }

    /// A number below [`SUITE_ORDINALS_MAX`] that is different for each canonical suite; indexes tables.
    #[inline]
    pub const fn ordinal(self) -> usize {
        let ordinal = match self {
            Suite::Cipher(cipher, mode) => cipher_ordinal(cipher, mode),
            Suite::Stream(stream) => 32 + stream as usize,
            Suite::Aead(aead) => match aead {
                Aead::AesGcm(size) => 40 + size as usize,
                Aead::AesCcm(size) => 43 + size as usize,
                Aead::AesGcmSiv(size) => 46 + size as usize,
                Aead::AesSiv(size) => 49 + size as usize,
                Aead::AesOcb(size) => 52 + size as usize,
                Aead::ChaCha20Poly1305 => 55,
                Aead::AesGcmAnyIv(size) => 569 + size as usize,
                Aead::XChaCha20Poly1305 => 575,
                Aead::AesCbcHmac(size) => 600 + size as usize,
            },
            Suite::Digest(digest) => 64 + digest as usize,
            Suite::Mac(mac) => match mac {
                Mac::Hmac(digest) => 80 + digest as usize,
                Mac::Cmac(size) => 96 + size as usize,
                Mac::Gmac(size) => 99 + size as usize,
                Mac::Poly1305 => 102,
                Mac::Kmac(kmac) => 560 + kmac as usize,
                Mac::TripleDesCmac => 562,
                Mac::GmacAnyIv(size) => 572 + size as usize,
            },
            Suite::Fpe(ff1) => 104 + ff1.size as usize,
            Suite::Wrap(KeyWrap::Kw(size)) => 563 + size as usize,
            Suite::Wrap(KeyWrap::Kwp(size)) => 566 + size as usize,
            Suite::Random => 108,
            Suite::Kem(kem) => 109 + kem as usize,
            // Where its number among the curves would put it there is another.
            Suite::Sign(Signature::Ecdsa(Curve::Secp256k1)) => 603,
            Suite::Sign(Signature::Ecdsa(curve)) if is_late(curve) => late_ordinal(curve),
            Suite::Sign(Signature::EcdsaDigest(curve)) if is_late(curve) => late_ordinal(curve) + 1,
            Suite::Agree(Agreement::Ecdh(curve)) if is_late(curve) => late_ordinal(curve) + 2,
            Suite::Generate(KeyPair::Ec(curve)) if is_late(curve) => late_ordinal(curve) + 3,
            Suite::Sign(signature) => 112 + signature_ordinal(signature),
            Suite::PublicEncrypt(encryption) => match encryption {
                PublicEncryption::RsaPkcs1(size) => 208 + size as usize,
                PublicEncryption::RsaOaep(size, digest) => 212 + size as usize * 10 + part_ordinal(digest),
                PublicEncryption::RsaRaw(size) => 252 + size as usize,
            },
            Suite::Agree(agreement) => match agreement {
                Agreement::Ecdh(curve) => 256 + curve as usize,
                Agreement::X25519 => 492,
                Agreement::X448 => 493,
                Agreement::Dh(group) => 494 + group as usize,
            },
            Suite::Generate(pair) => 510 + pair_ordinal(pair),
            Suite::Chain(chain) => {
                272 + (chain_cipher_ordinal(chain.cipher, chain.mode) * 10 + part_ordinal(chain.digest)) * 2
                    + chain.order as usize
            }
        };
        assert!(ordinal < SUITE_ORDINALS_MAX);
        ordinal
    }
}

const fn room(len: usize, direction: Direction) -> Lengths {
    match direction {
        Direction::Encrypt => Lengths::range(len, TAG_LEN_MAX, 1),
        Direction::Decrypt => Lengths::exactly(len),
    }
}

const fn block_cipher_ordinal(cipher: BlockCipher) -> usize {
    match cipher {
        BlockCipher::Des => 0,
        BlockCipher::TripleDes => 1,
        BlockCipher::Aes(size) => 2 + size as usize,
        BlockCipher::Blowfish => 5,
        BlockCipher::Khufu => 6,
        BlockCipher::Khafre => 7,
    }
}

const fn cipher_ordinal(cipher: BlockCipher, mode: Mode) -> usize {
    let later = (mode as usize).saturating_sub(Mode::Cfb8 as usize);
    match (mode, cipher) {
        (Mode::Ecb | Mode::Cbc | Mode::Ctr | Mode::Xts, _) => block_cipher_ordinal(cipher) * 4 + mode as usize,
        (_, BlockCipher::Aes(size)) => 576 + later * 4 + size as usize,
        // No list holds one of these.
        _ => 576 + later * 4 + 3,
    }
}

/// Chains know CBC and CTR and the first five ciphers; others share the last number, which no list holds.
const fn chain_cipher_ordinal(cipher: BlockCipher, mode: Mode) -> usize {
    let cipher = block_cipher_ordinal(cipher);
    if cipher > 4 {
        return 10;
    }
    cipher * 2 + matches!(mode, Mode::Ctr) as usize
}

/// The digest's number within chains and RSA, which have room for ten: those that no list holds with either share the last.
const fn part_ordinal(digest: Digest) -> usize {
    if digest as usize > 8 { 9 } else { digest as usize }
}

const fn signature_ordinal(signature: Signature) -> usize {
    match signature {
        Signature::Rsa(size, padding, digest) => (size as usize * 2 + padding as usize) * 10 + part_ordinal(digest),
        Signature::Ecdsa(curve) => 80 + curve as usize,
        Signature::Ed25519 => 95,
        Signature::MlDsa(set) => 428 + set as usize,
        Signature::Ed25519Cofactored => 431,
        Signature::EcdsaDigest(curve) => 432 + curve as usize,
    }
}

/// Whether the families' numbers had no room left for the curve.
const fn is_late(curve: Curve) -> bool {
    curve as usize >= Curve::P224 as usize
}

/// The first of the four numbers of such a curve.
const fn late_ordinal(curve: Curve) -> usize {
    604 + 4 * (curve as usize - Curve::P224 as usize)
}

const fn pair_ordinal(pair: KeyPair) -> usize {
    match pair {
        KeyPair::Rsa(size) => size as usize,
        KeyPair::Ec(curve) => 4 + curve as usize,
        KeyPair::X25519 => 20,
        KeyPair::X448 => 21,
        KeyPair::Ed25519 => 22,
        KeyPair::MlKem(kem) => 23 + kem as usize,
        KeyPair::MlDsa(set) => 26 + set as usize,
    }
}

impl BlockCipher {
    /// Lengths of one key in bytes.
    pub const fn key_len(self) -> Lengths {
        match self {
            BlockCipher::Des => Lengths::exactly(8),
            BlockCipher::TripleDes => Lengths::range(16, 24, 8),
            BlockCipher::Aes(size) => Lengths::exactly(size.key_len()),
            BlockCipher::Blowfish => Lengths::range(4, 56, 1),
            BlockCipher::Khufu => Lengths::range(1, 64, 1),
            // Eight-byte parts whose number divides `rounds / 8 + 1`; others leave key bytes unused (Merkle 1990).
            BlockCipher::Khafre => Lengths::range(8, 24, 16),
        }
    }

    /// Lengths of the IV in a mode.
    const fn iv_len(self, mode: Mode) -> Lengths {
        let block = self.block_len();
        match mode {
            Mode::Ecb => NONE,
            Mode::Cbc | Mode::CbcCs1 | Mode::CbcCs2 | Mode::CbcCs3 => Lengths::exactly(block),
            Mode::Cfb8 | Mode::Cfb128 | Mode::Ofb => Lengths::exactly(block),
            Mode::Ctr => Lengths::range(block - 4, block, 4),
            Mode::Xts => Lengths::exactly(16),
        }
    }
}

impl Chain {
    /// Bytes of the key's first part, the cipher's. Triple DES in chains has three keys.
    pub const fn cipher_key_len(self) -> usize {
        self.cipher.key_len().max
    }

    const fn input_len(self, direction: Direction) -> Lengths {
        let block = match self.mode {
            Mode::Cbc => self.cipher.block_len(),
            _ => 1,
        };
        match (self.order, direction) {
            (ChainOrder::EncryptThenMac, _) => Lengths::range(0, INPUT_LEN_MAX, block),
            // RFC 5246, 6.2.1: a record's plaintext has at most 2^14 bytes.
            (ChainOrder::MacThenEncrypt, Direction::Encrypt) => Lengths::range(0, 1 << 14, 1),
            (ChainOrder::MacThenEncrypt, Direction::Decrypt) => {
                let min = self.output_len(Direction::Encrypt, 0);
                // Up to 255 bytes of padding beyond the least.
                let max = self.output_len(Direction::Encrypt, 1 << 14) + 256;
                Lengths::range(min, max, block)
            }
        }
    }

    const fn output_len(self, direction: Direction, input_len: usize) -> usize {
        match (self.order, direction) {
            (ChainOrder::MacThenEncrypt, Direction::Encrypt) => {
                let body = input_len + self.digest.len();
                match self.mode {
                    Mode::Cbc => (body / self.cipher.block_len() + 1) * self.cipher.block_len(),
                    _ => body,
                }
            }
            _ => input_len,
        }
    }
}

/// Bytes of the parts that keys are wrapped in, half a block each (NIST SP 800-38F, 4.1).
const WRAP_PART_LEN: usize = 8;

impl KeyWrap {
    /// NIST SP 800-38F, 5.3.1, allows more than [`INPUT_LEN_MAX`].
    const fn input_len(self, direction: Direction) -> Lengths {
        let part = WRAP_PART_LEN;
        match (self, direction) {
            (KeyWrap::Kw(_), Direction::Encrypt) => Lengths::range(2 * part, INPUT_LEN_MAX - part, part),
            (KeyWrap::Kw(_), Direction::Decrypt) => Lengths::range(3 * part, INPUT_LEN_MAX, part),
            (KeyWrap::Kwp(_), Direction::Encrypt) => Lengths::range(1, INPUT_LEN_MAX - part, 1),
            (KeyWrap::Kwp(_), Direction::Decrypt) => Lengths::range(2 * part, INPUT_LEN_MAX, part),
        }
    }
}

impl Kmac {
    /// Bytes of the security strength.
    const fn strength_len(self) -> usize {
        16 + 16 * (self as usize)
    }
}

impl Ff1 {
    /// The fewest numerals for which `radix^len` reaches [`FF1_DOMAIN_MIN`]: two or more for every radix that is valid.
    pub const fn numerals_min(self) -> usize {
        let radix = if self.radix < 2 { 2 } else { self.radix as u64 };
        let mut domain = 1u64;
        let mut len = 0;
        while domain < FF1_DOMAIN_MIN {
            domain *= radix;
            len += 1;
        }
        len
    }

    /// Whether the radix is one that FF1 takes: 2 to 65,536.
    pub const fn radix_is_valid(self) -> bool {
        self.radix >= 2 && self.radix <= 1 << 16
    }
}

impl Signature {
    /// Bytes of a signature.
    pub const fn len(self) -> usize {
        match self {
            Signature::Rsa(size, ..) => size.len(),
            Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve) => 2 * curve.order_len(),
            Signature::Ed25519 | Signature::Ed25519Cofactored => 64,
            Signature::MlDsa(set) => set.signature_len(),
        }
    }

    /// Always false: no signature is empty.
    pub const fn is_empty(self) -> bool {
        false
    }
}

impl PublicEncryption {
    /// The modulus size.
    pub const fn size(self) -> crate::suite::RsaSize {
        match self {
            PublicEncryption::RsaPkcs1(size) | PublicEncryption::RsaOaep(size, _) | PublicEncryption::RsaRaw(size) => {
                size
            }
        }
    }

    /// Lengths of a message in bytes (RFC 8017, 7.1.1 and 7.2.1). Without padding it is a number as long as the modulus.
    pub const fn message_len(self) -> Lengths {
        match self {
            PublicEncryption::RsaPkcs1(size) => Lengths::range(0, size.len() - 11, 1),
            PublicEncryption::RsaOaep(size, digest) => {
                Lengths::range(0, size.len().saturating_sub(2 * digest.len() + 2), 1)
            }
            PublicEncryption::RsaRaw(size) => Lengths::exactly(size.len()),
        }
    }
}

impl Agreement {
    /// Bytes of a public value.
    pub const fn public_len(self) -> usize {
        match self {
            Agreement::Dh(group) => group.len(),
            Agreement::Ecdh(curve) => 1 + 2 * curve.field_len(),
            Agreement::X25519 => 32,
            Agreement::X448 => 56,
        }
    }

    /// Bytes of the shared secret: the group element or the x coordinate, left-padded.
    pub const fn secret_len(self) -> usize {
        match self {
            Agreement::Dh(group) => group.len(),
            Agreement::Ecdh(curve) => curve.field_len(),
            Agreement::X25519 => 32,
            Agreement::X448 => 56,
        }
    }
}

impl KeyPair {
    /// Bytes of the public key.
    pub const fn public_len(self) -> usize {
        match self {
            // An exponent of 65,537 has three bytes.
            KeyPair::Rsa(size) => {
                let numbers = element(element(size.len() + 1) + element(3));
                element(element(element(RSA_NAME_LEN) + element(0)) + element(1 + numbers))
            }
            KeyPair::Ec(curve) => element(curve_algorithm(curve) + element(2 + 2 * curve.field_len())),
            KeyPair::X25519 | KeyPair::Ed25519 => 32,
            KeyPair::X448 => 56,
            KeyPair::MlKem(kem) => kem.public_len(),
            KeyPair::MlDsa(set) => set.public_len(),
        }
    }

    /// Bytes of the longest private key: numbers of RSA that begin with zeros are shorter in DER, other keys have one length.
    pub const fn private_len_max(self) -> usize {
        match self {
            KeyPair::Rsa(size) => {
                let halves = 5 * element(size.len() / 2 + 1);
                let numbers = element(1) + element(size.len() + 1) + element(3) + element(size.len() + 1) + halves;
                element(element(1) + element(element(RSA_NAME_LEN) + element(0)) + element(element(numbers)))
            }
            KeyPair::Ec(curve) => {
                let point = element(element(2 + 2 * curve.field_len()));
                let key = element(element(1) + element(curve.order_len()) + point);
                element(element(1) + curve_algorithm(curve) + element(key))
            }
            KeyPair::X25519 | KeyPair::Ed25519 | KeyPair::MlDsa(_) => 32,
            KeyPair::X448 => 56,
            KeyPair::MlKem(_) => 64,
        }
    }
}

/// Bytes of the object identifier of RSA keys (RFC 8017, A.1).
const RSA_NAME_LEN: usize = 9;

/// Bytes of an element of DER with its tag and its length (X.690, 8.1.3).
const fn element(len: usize) -> usize {
    match len {
        0..0x80 => 2 + len,
        0x80..0x100 => 3 + len,
        _ => 4 + len,
    }
}

/// Bytes of the algorithm of a curve's key: two object identifiers (RFC 5480, 2.1.1).
const fn curve_algorithm(curve: Curve) -> usize {
    element(element(der::EC_PUBLIC_KEY.len()) + element(der::curve_name(curve).len()))
}

/// The key sizes that GCM-SIV knows (RFC 8452).
pub const GCM_SIV_SIZES: [AesSize; 2] = [AesSize::Aes128, AesSize::Aes256];

/// The digests that RSA pads with.
pub const RSA_DIGESTS: [Digest; 4] = [Digest::Sha1, Digest::Sha256, Digest::Sha384, Digest::Sha512];

/// The KEMs.
pub const KEMS: [Kem; 3] = [Kem::MlKem512, Kem::MlKem768, Kem::MlKem1024];
