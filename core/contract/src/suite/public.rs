//! What follows from the size, curve, group or parameter set of a public-key algorithm: bits and bytes of keys, secrets and signatures.

use super::{Curve, DhGroup, Digest, Kem, MlDsaSet, RsaSize};

impl RsaSize {
    /// All sizes.
    pub const ALL: [RsaSize; 4] = [RsaSize::Rsa1024, RsaSize::Rsa2048, RsaSize::Rsa3072, RsaSize::Rsa4096];

    /// Bits of the modulus.
    pub const fn bits(self) -> usize {
        match self {
            RsaSize::Rsa1024 => 1024,
            RsaSize::Rsa2048 => 2048,
            RsaSize::Rsa3072 => 3072,
            RsaSize::Rsa4096 => 4096,
        }
    }

    /// Bytes of the modulus, a signature or a ciphertext.
    pub const fn len(self) -> usize {
        self.bits() / 8
    }

    /// Always false: no modulus is empty.
    pub const fn is_empty(self) -> bool {
        false
    }
}

impl Curve {
    /// All curves.
    pub const ALL: [Curve; 19] = [
        Curve::P256,
        Curve::P384,
        Curve::P521,
        Curve::Secp160r1,
        Curve::Sect163k1,
        Curve::Sect163r1,
        Curve::Sect163r2,
        Curve::Sect233k1,
        Curve::Sect233r1,
        Curve::Sect283k1,
        Curve::Sect283r1,
        Curve::Sect409k1,
        Curve::Sect409r1,
        Curve::Sect571k1,
        Curve::Sect571r1,
        Curve::Secp256k1,
        Curve::P224,
        Curve::BrainpoolP256r1,
        Curve::BrainpoolP384r1,
    ];

    /// Whether the curve lies over a binary field.
    pub const fn is_binary(self) -> bool {
        !matches!(
            self,
            Curve::P224
                | Curve::P256
                | Curve::P384
                | Curve::P521
                | Curve::Secp160r1
                | Curve::Secp256k1
                | Curve::BrainpoolP256r1
                | Curve::BrainpoolP384r1
        )
    }

    /// Whether policies must enable the curve: undersized, or withdrawn (NIST SP 800-186, 3.3).
    pub const fn is_legacy(self) -> bool {
        self.is_binary() || matches!(self, Curve::Secp160r1)
    }

    /// Bytes of a field element.
    pub const fn field_len(self) -> usize {
        match self {
            Curve::P224 => 28,
            Curve::P256 | Curve::Secp256k1 | Curve::BrainpoolP256r1 => 32,
            Curve::P384 | Curve::BrainpoolP384r1 => 48,
            Curve::P521 => 66,
            Curve::Secp160r1 => 20,
            Curve::Sect163k1 | Curve::Sect163r1 | Curve::Sect163r2 => 21,
            Curve::Sect233k1 | Curve::Sect233r1 => 30,
            Curve::Sect283k1 | Curve::Sect283r1 => 36,
            Curve::Sect409k1 | Curve::Sect409r1 => 52,
            Curve::Sect571k1 | Curve::Sect571r1 => 72,
        }
    }

    /// Bytes of a scalar below the group's order. Those of secp160r1, K-233 and K-409 have 161, 232 and 407 bits.
    pub const fn order_len(self) -> usize {
        match self {
            Curve::Secp160r1 => 21,
            Curve::Sect233k1 => 29,
            Curve::Sect409k1 => 51,
            other => other.field_len(),
        }
    }

    /// The digest that ECDSA uses on this curve.
    pub const fn digest(self) -> Digest {
        match self {
            Curve::P224 => Digest::Sha224,
            Curve::P384 | Curve::Sect409k1 | Curve::Sect409r1 | Curve::BrainpoolP384r1 => Digest::Sha384,
            Curve::P521 | Curve::Sect571k1 | Curve::Sect571r1 => Digest::Sha512,
            _ => Digest::Sha256,
        }
    }
}

impl DhGroup {
    /// Bytes of the prime.
    pub const fn len(self) -> usize {
        match self {
            DhGroup::Modp1024 => 128,
            DhGroup::Modp1536 => 192,
            DhGroup::Ffdhe2048 | DhGroup::Modp2048 => 256,
            DhGroup::Ffdhe3072 | DhGroup::Modp3072 => 384,
            DhGroup::Ffdhe4096 | DhGroup::Modp4096 => 512,
            DhGroup::Modp6144 => 768,
            DhGroup::Modp8192 => 1024,
        }
    }

    /// Always false: no prime is empty.
    pub const fn is_empty(self) -> bool {
        false
    }
}

impl Kem {
    /// Bytes of an encapsulation key (FIPS 203, table 3).
    pub const fn public_len(self) -> usize {
        match self {
            Kem::MlKem512 => 800,
            Kem::MlKem768 => 1184,
            Kem::MlKem1024 => 1568,
        }
    }

    /// Bytes of a ciphertext (FIPS 203, table 3).
    pub const fn ciphertext_len(self) -> usize {
        match self {
            Kem::MlKem512 => 768,
            Kem::MlKem768 => 1088,
            Kem::MlKem1024 => 1568,
        }
    }
}

impl MlDsaSet {
    /// Bytes of a public key (FIPS 204, table 2).
    pub const fn public_len(self) -> usize {
        match self {
            MlDsaSet::MlDsa44 => 1312,
            MlDsaSet::MlDsa65 => 1952,
            MlDsaSet::MlDsa87 => 2592,
        }
    }

    /// Bytes of a signature (FIPS 204, table 2).
    pub const fn signature_len(self) -> usize {
        match self {
            MlDsaSet::MlDsa44 => 2420,
            MlDsaSet::MlDsa65 => 3309,
            MlDsaSet::MlDsa87 => 4627,
        }
    }
}
