//! The kernels' sources, which are part of the engine, put together to programs.

/// A program: what is compiled at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// MD5 and HMAC-MD5.
    Md5,
    /// SHA-1 and HMAC-SHA-1.
    Sha1,
    /// SHA-224, SHA-256 and HMAC over them.
    Sha256,
    /// SHA-384, SHA-512 and HMAC over them.
    Sha512,
    /// AES modes.
    Aes,
    /// AES-GCM and GMAC.
    AesGcm,
    /// AES-XTS.
    AesXts,
    /// Encryption with DES and triple DES.
    DesEncrypt,
    /// Decryption with them.
    DesDecrypt,
    /// ChaCha20, Poly1305 and both together.
    ChaCha,
    /// RC4.
    Rc4,
    /// ML-KEM.
    MlKem,
    /// ML-DSA.
    MlDsa,
    /// ECDH and signing with ECDSA over P-256.
    P256,
    /// Verifying ECDSA over P-256.
    P256Verify,
    /// X25519.
    X25519,
    /// RSA private operations with a modulus of 1,024 bits.
    Rsa1024,
    /// The same with 2,048 bits.
    Rsa2048,
    /// The same with 3,072 bits.
    Rsa3072,
    /// The same with 4,096 bits.
    Rsa4096,
    /// Blowfish.
    Blowfish,
    /// Khufu and Khafre.
    Merkle,
    /// SEAL 3.0.
    Seal,
    /// Columns on their way to the others' kernels and back.
    Columns,
}

/// All programs.
pub const PROGRAMS: [Program; 24] = [
    Program::Md5,
    Program::Sha1,
    Program::Sha256,
    Program::Sha512,
    Program::Aes,
    Program::AesGcm,
    Program::AesXts,
    Program::DesEncrypt,
    Program::DesDecrypt,
    Program::ChaCha,
    Program::Rc4,
    Program::MlKem,
    Program::MlDsa,
    Program::P256,
    Program::P256Verify,
    Program::X25519,
    Program::Rsa1024,
    Program::Rsa2048,
    Program::Rsa3072,
    Program::Rsa4096,
    Program::Blowfish,
    Program::Merkle,
    Program::Seal,
    Program::Columns,
];

macro_rules! source {
    ($path:literal) => {
        include_str!(concat!("../../../kernels/", $path))
    };
}

const DIALECT: &str = source!("dialect.h");
const BATCH: &str = source!("batch.h");
const DIGESTS: &str = source!("generated/digests.h");
const PADDING: &str = source!("hash/padding.h");
const DRIVER_32: &str = source!("hash/driver_32.h");
const AES_SBOX: &str = source!("generated/aes.h");
const AES_BLOCKS: &str = source!("aes/aes.h");
const AES_FIELD: &str = source!("aes/field.h");
const OLD_BLOCKS: &str = source!("legacy/blocks.cl");
const DES_LAYOUT: &str = source!("des/layout.h");
const DES_WIRING: &str = source!("generated/des.h");
const DES_BLOCKS: &str = source!("des/des.h");
const LATTICE: &str = source!("generated/lattice.h");
const KECCAK: &str = source!("lattice/keccak.h");
const LIMBS: &str = source!("ec/limbs.h");
const P256_NUMBERS: &str = source!("generated/p256.h");
const P256_FIELD: &str = source!("ec/p256.h");
const P256_LADDER: &str = source!("ec/ladder.h");
const P256_COMB: &str = source!("ec/comb.h");

const RSA: &str = source!("public/rsa.cl");

impl Program {
    /// The program's name, for logs and records.
    pub fn name(self) -> &'static str {
        match self {
            Program::Md5 => "md5",
            Program::Sha1 => "sha1",
            Program::Sha256 => "sha256",
            Program::Sha512 => "sha512",
            Program::Aes => "aes",
            Program::AesGcm => "aes-gcm",
            Program::AesXts => "aes-xts",
            Program::DesEncrypt => "des-encrypt",
            Program::DesDecrypt => "des-decrypt",
            Program::ChaCha => "chacha",
            Program::Rc4 => "rc4",
            Program::MlKem => "ml-kem",
            Program::MlDsa => "ml-dsa",
            Program::P256 => "p256",
            Program::P256Verify => "p256-verify",
            Program::X25519 => "x25519",
            Program::Rsa1024 => "rsa-1024",
            Program::Rsa2048 => "rsa-2048",
            Program::Rsa3072 => "rsa-3072",
            Program::Rsa4096 => "rsa-4096",
            Program::Blowfish => "blowfish",
            Program::Merkle => "khufu-khafre",
            Program::Seal => "seal",
            Program::Columns => "columns",
        }
    }

    /// The kernels in it.
    pub fn kernels(self) -> &'static [&'static str] {
        match self {
            Program::Md5 | Program::Sha1 | Program::Sha256 | Program::Sha512 => &["digest", "hmac"],
            Program::Aes => &["ecb_encrypt", "ecb_decrypt", "cbc_encrypt", "cbc_decrypt", "ctr"],
            Program::AesGcm => &["gcm_seal", "gcm_open", "gmac"],
            Program::AesXts => &["xts_encrypt", "xts_decrypt"],
            Program::DesEncrypt => &["ecb_encrypt", "cbc_encrypt"],
            Program::DesDecrypt => &["ecb_decrypt", "cbc_decrypt"],
            Program::ChaCha => &["stream", "aead_seal", "aead_open", "poly1305"],
            Program::Rc4 | Program::Seal => &["stream"],
            Program::Blowfish => &["ecb_encrypt", "ecb_decrypt", "cbc_encrypt", "cbc_decrypt", "ctr"],
            Program::Merkle => &["ecb_encrypt", "ecb_decrypt", "cbc_encrypt", "cbc_decrypt"],
            Program::MlKem => &["encapsulate", "decapsulate"],
            Program::MlDsa => &["dsa_sign", "dsa_verify"],
            Program::P256 => &["agree", "base"],
            Program::P256Verify => &["verify"],
            Program::X25519 => &["agree"],
            Program::Rsa1024 | Program::Rsa2048 | Program::Rsa3072 | Program::Rsa4096 => &["private_operation"],
            Program::Columns => &["spread", "collect"],
        }
    }

    /// Its source, in both languages at once.
    pub fn source(self) -> String {
        let parts: &[&str] = match self {
            Program::Md5 => &[DIGESTS, PADDING, source!("hash/md5.cl"), DRIVER_32],
            Program::Sha1 => &[DIGESTS, PADDING, source!("hash/sha1.cl"), DRIVER_32],
            Program::Sha256 => &[DIGESTS, PADDING, source!("hash/sha256.cl"), DRIVER_32],
            Program::Sha512 => &[DIGESTS, PADDING, source!("hash/sha512.cl")],
            Program::Aes => &[AES_SBOX, AES_BLOCKS, source!("aes/modes.cl")],
            Program::AesGcm => &[AES_SBOX, AES_BLOCKS, AES_FIELD, source!("aes/gcm.cl")],
            Program::AesXts => &[AES_SBOX, AES_BLOCKS, AES_FIELD, source!("aes/xts.cl")],
            Program::DesEncrypt => &[DES_LAYOUT, DES_WIRING, DES_BLOCKS, source!("des/encrypt.cl")],
            Program::DesDecrypt => &[DES_LAYOUT, DES_WIRING, DES_BLOCKS, source!("des/decrypt.cl")],
            Program::ChaCha => &[source!("chacha/poly1305.h"), source!("chacha/chacha.cl")],
            Program::Rc4 => &[source!("legacy/rc4.cl")],
            Program::MlKem => &[LATTICE, KECCAK, source!("lattice/ml_kem.cl")],
            Program::MlDsa => &[LATTICE, KECCAK, source!("lattice/ml_dsa.cl")],
            Program::P256 => &[LIMBS, P256_NUMBERS, P256_FIELD, P256_LADDER, P256_COMB, source!("ec/p256.cl")],
            Program::P256Verify => &[LIMBS, P256_NUMBERS, P256_FIELD, P256_LADDER, P256_COMB, source!("ec/verify.cl")],
            Program::X25519 => &[LIMBS, source!("ec/x25519.h"), source!("ec/x25519.cl")],
            Program::Rsa1024 => &["#define LIMBS 19\n#define PRIME_WORDS 16\n#define PRIME_IN_MEMORY 0\n", RSA],
            Program::Rsa2048 => &["#define LIMBS 37\n#define PRIME_WORDS 32\n#define PRIME_IN_MEMORY 0\n", RSA],
            Program::Rsa3072 => &["#define LIMBS 55\n#define PRIME_WORDS 48\n#define PRIME_IN_MEMORY 0\n", RSA],
            Program::Rsa4096 => &["#define LIMBS 74\n#define PRIME_WORDS 64\n#define PRIME_IN_MEMORY 1\n", RSA],
            Program::Blowfish => &[source!("legacy/blowfish.h"), OLD_BLOCKS, source!("legacy/ctr.cl")],
            Program::Merkle => &[source!("legacy/merkle.h"), OLD_BLOCKS],
            Program::Seal => &[source!("legacy/seal.cl")],
            Program::Columns => &[source!("columns/columns.cl")],
        };
        [&[DIALECT, BATCH], parts].concat().concat()
    }
}

/// What NVRTC makes of a program.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The machine code, an ELF file.
    pub code: Vec<u8>,
    /// The compiler's words on it: registers, stack and spills of each kernel.
    pub log: String,
}
