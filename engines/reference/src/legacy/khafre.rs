//! Khafre, a 64-bit block cipher with fixed S-boxes that mixes the key in every eight rounds.
//!
//! Source: R. C. Merkle, "Fast Software Encryption Functions", CRYPTO '90, LNCS 537,
//! 476-501; S-boxes and order of the key words are those of the reference program in US
//! patent 5,003,597, Appendix A. It agrees with the output that the patent publishes, so
//! data of that program can be read.

use std::sync::LazyLock;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::LegacyKeyError;
use super::khufu::{self, Khufu};
use super::merkle::{Halves, INITIAL_SBOX, OCTET, ROUNDS_MAX, SBox, octets};

/// Bytes of key at most.
pub(crate) const KEY_LEN_MAX: usize = 64;

/// Bytes of key that are mixed in at once.
const PART_LEN: usize = 8;

const STANDARD_SBOX_COUNT: usize = (ROUNDS_MAX / OCTET) as usize;

/// One S-box for each octet: the initial one, then those of Khufu under a key of zeros.
static STANDARD_SBOXES: LazyLock<Vec<SBox>> = LazyLock::new(|| {
    let made = Khufu::from_padded_key(&[0; khufu::KEY_LEN_MAX], STANDARD_SBOX_COUNT - 1);
    core::iter::once(INITIAL_SBOX).chain(made.sboxes().iter().copied()).collect()
});

/// Khafre with its key; wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Khafre {
    /// The key in parts of two words, used in turn.
    parts: Vec<[u32; 2]>,
    octets: usize,
}

impl Khafre {
    /// Prepares the cipher for a key of 8 to 64 bytes, a multiple of eight, and `rounds`, a
    /// multiple of eight from 8 to 64.
    ///
    /// The key is mixed in `rounds / 8 + 1` times, 8 bytes a time, and Merkle calls it an
    /// error unless this uses every part equally often. So 16 rounds go with 8 or 24 bytes,
    /// 24 rounds with 8, 16 or 32; a key of 8 bytes goes with any number of rounds.
    ///
    /// # Errors
    ///
    /// [`LegacyKeyError::KeyLen`], [`LegacyKeyError::Rounds`] and
    /// [`LegacyKeyError::KhafreCycle`].
    pub(crate) fn new(key: &[u8], rounds: u32) -> Result<Self, LegacyKeyError> {
        let key_len = key.len();
        if key_len == 0 || key_len > KEY_LEN_MAX || !key_len.is_multiple_of(PART_LEN) {
            return Err(LegacyKeyError::KeyLen {
                cipher: "khafre",
                key_len,
                rule: "a multiple of 8 from 8 to 64 bytes is needed",
            });
        }
        let octets = octets(rounds).ok_or(LegacyKeyError::Rounds { cipher: "khafre", rounds })?;
        if !(octets + 1).is_multiple_of(key_len / PART_LEN) {
            return Err(LegacyKeyError::KhafreCycle { key_len, rounds });
        }
        let word = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let parts = key.chunks_exact(PART_LEN).map(|part| [word(&part[..4]), word(&part[4..])]).collect();
        Ok(Self { parts, octets })
    }

    /// Encrypts one block in place.
    pub(crate) fn encrypt_block(&self, block: &mut [u8; 8]) {
        let mut halves = self.mix_key(Halves::from_block(*block), 0);
        for (octet, sbox) in STANDARD_SBOXES[..self.octets].iter().enumerate() {
            halves = self.mix_key(halves.encrypt_octet(sbox), octet + 1);
        }
        *block = halves.to_block();
    }

    /// Decrypts one block in place.
    pub(crate) fn decrypt_block(&self, block: &mut [u8; 8]) {
        let mut halves = Halves::from_block(*block);
        for (octet, sbox) in STANDARD_SBOXES[..self.octets].iter().enumerate().rev() {
            halves = self.mix_key(halves, octet + 1).decrypt_octet(sbox);
        }
        *block = self.mix_key(halves, 0).to_block();
    }

    /// XORs the part of the key that is due after `done` octets. It is turned by that number,
    /// so that a short key does not meet the block twice in the same shape.
    fn mix_key(&self, halves: Halves, done: usize) -> Halves {
        let [left, right] = self.parts[done % self.parts.len()];
        let turn = done as u32;
        halves.xor(left.rotate_right(turn), right.rotate_right(turn))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::merkle::testing::{
        PATENT_KEY, PATENT_MESSAGE, assert_permutes, chain, derived_digest, digest, vectors,
    };
    use super::*;

    #[test]
    fn agrees_with_the_patents_published_output() {
        // US patent 5,003,597, Appendix A: "pharaoh khafre 345 e0 16".
        let khafre = Khafre::new(&PATENT_KEY, 16).unwrap();
        assert_eq!(
            chain(PATENT_MESSAGE, |block| khafre.encrypt_block(block)),
            "8662f6734e9348d7e300c7ced25c8b85379ead82e1681d4c"
        );
    }

    #[test]
    fn agrees_with_blocks_of_the_reference_program() {
        // Blocks that others obtained by running the patent's program: the test vectors
        // of github.com/Jither/cryptopunk.
        let counting: [u8; 64] = core::array::from_fn(|i| i as u8);
        let block = 0x8899_aabb_ccdd_eeff_u64.to_be_bytes();
        for (key_len, rounds, ciphertext) in [
            (16, 8, 0xaa99_1054_2b7c_c09e_u64),
            (24, 16, 0x5250_6375_db55_07e4),
            (32, 24, 0xfb65_0ccf_e1da_6d74),
            (40, 32, 0xecf8_490c_cf53_dd0d),
            (48, 40, 0xefdb_4eec_9fd5_ba30),
            (56, 48, 0x129a_a14c_7e1a_a71e),
            (64, 56, 0xc44d_3d85_5366_7a23),
            (24, 64, 0x5621_02b4_11ce_1b07),
        ] {
            let mut got = block;
            let khafre = Khafre::new(&counting[..key_len], rounds).unwrap();
            khafre.encrypt_block(&mut got);
            assert_eq!(got, ciphertext.to_be_bytes(), "{rounds} rounds");
        }
    }

    #[test]
    fn agrees_with_the_derivation() {
        let vectors = vectors("khafre");
        assert_eq!(vectors.len(), 42);
        for vector in vectors {
            let khafre = Khafre::new(&vector.key, vector.rounds).unwrap();
            let mut block = vector.plaintext;
            khafre.encrypt_block(&mut block);
            assert_eq!(block, vector.ciphertext, "{} rounds", vector.rounds);
            khafre.decrypt_block(&mut block);
            assert_eq!(block, vector.plaintext, "{} rounds", vector.rounds);
        }
    }

    #[test]
    fn standard_sboxes_are_eight_and_agree_with_the_derivation() {
        assert_eq!(STANDARD_SBOXES.len(), 8);
        assert_eq!(digest(STANDARD_SBOXES.iter()), derived_digest("standard-sboxes"));
        for sbox in STANDARD_SBOXES.iter() {
            assert_permutes(sbox);
        }
    }

    #[test]
    fn refuses_keys_and_rounds_outside_of_the_rule() {
        for key_len in [0, 7, 12, 65, 72] {
            assert_eq!(
                Khafre::new(&vec![1; key_len], 16).err(),
                Some(LegacyKeyError::KeyLen {
                    cipher: "khafre",
                    key_len,
                    rule: "a multiple of 8 from 8 to 64 bytes is needed"
                })
            );
        }
        for rounds in [0, 4, 17, 72] {
            assert_eq!(Khafre::new(&[1; 8], rounds).err(), Some(LegacyKeyError::Rounds { cipher: "khafre", rounds }));
        }
        let error = Khafre::new(&[1; 16], 16).err().unwrap();
        assert_eq!(error, LegacyKeyError::KhafreCycle { key_len: 16, rounds: 16 });
        assert_eq!(
            error.to_string(),
            "khafre: key of 16 bytes with 16 rounds; the number of 8-byte key parts must divide \
             rounds / 8 + 1"
        );
        assert!(Khafre::new(&[1; 24], 16).is_ok());
        assert!(Khafre::new(&[1; 16], 24).is_ok());
    }

    #[test]
    fn wiping_leaves_nothing_of_the_key() {
        let mut khafre = Khafre::new(&[7; 24], 16).unwrap();
        khafre.zeroize();
        assert!(khafre.parts.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn decryption_undoes_encryption(
            key in any::<[u8; KEY_LEN_MAX]>(),
            parts in 1..=8usize,
            octets in 1..=8u32,
            plaintext in any::<[u8; 8]>(),
        ) {
            prop_assume!((octets as usize + 1).is_multiple_of(parts));
            let khafre = Khafre::new(&key[..PART_LEN * parts], 8 * octets).unwrap();
            let mut block = plaintext;
            khafre.encrypt_block(&mut block);
            khafre.decrypt_block(&mut block);
            prop_assert_eq!(block, plaintext);
            khafre.decrypt_block(&mut block);
            khafre.encrypt_block(&mut block);
            prop_assert_eq!(block, plaintext);
        }
    }
}
