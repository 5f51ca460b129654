//! Khufu, a 64-bit block cipher whose S-boxes are made from the key.
//!
//! Source: R. C. Merkle, "Fast Software Encryption Functions", CRYPTO '90, LNCS 537,
//! 476-501; the exact key set-up is that of the reference program in US patent 5,003,597,
//! Appendix A. It agrees with the output that the patent publishes, so data of that
//! program can be read.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::LegacyKeyError;
use super::merkle::{Halves, INITIAL_SBOX, SBox, octets, swap_in_column};

/// Bytes of key at most; a shorter key is filled up with zero bytes.
pub(crate) const KEY_LEN_MAX: usize = STATE_LEN;

/// Bytes of the state from which the key stream for the shuffles is taken.
const STATE_LEN: usize = 64;

/// Bytes of the first state that become the auxiliary keys.
const AUXILIARY_LEN: usize = 16;

/// Khufu with its key-dependent S-boxes, one an octet; wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Khufu {
    /// Two words XORed before the first round, two after the last.
    auxiliary: [u32; 4],
    sboxes: Vec<SBox>,
}

impl Khufu {
    /// Prepares the cipher for a key of 1 to 64 bytes and `rounds`, a multiple of eight
    /// from 8 to 64. Keys that differ in trailing zero bytes alone are the same key.
    ///
    /// # Errors
    ///
    /// [`LegacyKeyError::KeyLen`] and [`LegacyKeyError::Rounds`].
    pub(crate) fn new(key: &[u8], rounds: u32) -> Result<Self, LegacyKeyError> {
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            return Err(LegacyKeyError::KeyLen {
                cipher: "khufu",
                key_len: key.len(),
                rule: "1 to 64 bytes are needed",
            });
        }
        let octets = octets(rounds).ok_or(LegacyKeyError::Rounds { cipher: "khufu", rounds })?;
        let mut padded = Zeroizing::new([0; KEY_LEN_MAX]);
        padded[..key.len()].copy_from_slice(key);
        Ok(Self::from_padded_key(&padded, octets))
    }

    /// Prepares the cipher for a key that is filled up already.
    pub(super) fn from_padded_key(key: &[u8; KEY_LEN_MAX], octets: usize) -> Self {
        let mut stream = KeyStream::new(key);
        let auxiliary = stream.auxiliary_keys();
        // Reserved in full: growing would leave a copy of secret S-boxes behind.
        let mut sboxes = Vec::with_capacity(octets);
        for _ in 0..octets {
            sboxes.push(INITIAL_SBOX);
        }
        for sbox in &mut sboxes {
            stream.shuffle(sbox);
        }
        Self { auxiliary, sboxes }
    }

    /// Encrypts one block in place.
    pub(crate) fn encrypt_block(&self, block: &mut [u8; 8]) {
        let [before_left, before_right, after_left, after_right] = self.auxiliary;
        let mut halves = Halves::from_block(*block).xor(before_left, before_right);
        for sbox in &self.sboxes {
            halves = halves.encrypt_octet(sbox);
        }
        *block = halves.xor(after_left, after_right).to_block();
    }

    /// Decrypts one block in place.
    pub(crate) fn decrypt_block(&self, block: &mut [u8; 8]) {
        let [before_left, before_right, after_left, after_right] = self.auxiliary;
        let mut halves = Halves::from_block(*block).xor(after_left, after_right);
        for sbox in self.sboxes.iter().rev() {
            halves = halves.decrypt_octet(sbox);
        }
        *block = halves.xor(before_left, before_right).to_block();
    }

    /// The S-boxes that the key gave.
    pub(super) fn sboxes(&self) -> &[SBox] {
        &self.sboxes
    }
}

/// Bytes that depend on the key: a 64-byte state, encrypted again whenever it is used up.
struct KeyStream {
    state: Zeroizing<[u8; STATE_LEN]>,
    position: usize,
}

impl KeyStream {
    fn new(key: &[u8; STATE_LEN]) -> Self {
        let mut stream = Self { state: Zeroizing::new(*key), position: 0 };
        for _ in 0..3 {
            stream.stir();
        }
        stream
    }

    /// Takes the four auxiliary keys from the front of the state.
    fn auxiliary_keys(&mut self) -> [u32; 4] {
        let mut keys = [0; 4];
        for (key, bytes) in keys.iter_mut().zip(self.state.chunks_exact(4)) {
            *key = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        self.position = AUXILIARY_LEN;
        keys
    }

    /// Encrypts the state under the initial S-box: sixteen rounds, no auxiliary keys, cipher
    /// block chaining that starts from the state's own last block.
    fn stir(&mut self) {
        let mut chain = Zeroizing::new([0; 8]);
        chain.copy_from_slice(&self.state[STATE_LEN - 8..]);
        for block in self.state.chunks_exact_mut(8) {
            for (byte, more) in chain.iter_mut().zip(block.iter()) {
                *byte ^= more;
            }
            *chain = Halves::from_block(*chain).encrypt_octet(&INITIAL_SBOX).encrypt_octet(&INITIAL_SBOX).to_block();
            block.copy_from_slice(chain.as_ref());
        }
    }

    /// The next byte, and whether the state was used up and encrypted again after it.
    fn next_byte(&mut self) -> (u8, bool) {
        let byte = self.state[self.position];
        self.position += 1;
        let refilled = self.position == STATE_LEN;
        if refilled {
            self.position = 0;
            self.stir();
        }
        (byte, refilled)
    }

    /// Shuffles each byte column of `sbox` by random choices among the rows not yet passed.
    fn shuffle(&mut self, sbox: &mut SBox) {
        for column in 0..4 {
            let mut mask = 0xff;
            for row in 0..255 {
                let other = loop {
                    let (byte, refilled) = self.next_byte();
                    let other = row + (usize::from(byte) & mask);
                    // The reference program looks for a narrower mask at a refill alone, and
                    // data only agrees with it if that is kept.
                    while refilled && 255 - row <= mask >> 1 {
                        mask >>= 1;
                    }
                    if other <= 255 {
                        break other;
                    }
                };
                swap_in_column(sbox, column, row, other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::merkle::testing::{PATENT_KEY, PATENT_MESSAGE, assert_permutes, chain, vectors};
    use super::*;

    fn encrypt(key: &[u8], rounds: u32, mut block: [u8; 8]) -> [u8; 8] {
        Khufu::new(key, rounds).unwrap().encrypt_block(&mut block);
        block
    }

    #[test]
    fn agrees_with_the_patents_published_output() {
        // US patent 5,003,597, Appendix A: "pharaoh khufu 345 e0 16".
        let khufu = Khufu::new(&PATENT_KEY, 16).unwrap();
        assert_eq!(
            chain(PATENT_MESSAGE, |block| khufu.encrypt_block(block)),
            "daa19c48c60e2947c87fd857beeb1d71d76cc01b1de661be"
        );
    }

    #[test]
    fn agrees_with_blocks_of_the_reference_program() {
        // Blocks that others obtained by running the patent's program: the test vectors
        // of github.com/Jither/cryptopunk (zero key) and of github.com/Hawkynt (the rest).
        let counting: [u8; 64] = core::array::from_fn(|i| i as u8);
        let short = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128.to_be_bytes();
        let block = 0x0123_4567_89ab_cdef_u64.to_be_bytes();
        for (key, rounds, plaintext, ciphertext) in [
            (&[0; 64][..], 8, [0; 8], 0xd069_b5f0_5ddf_37d6_u64),
            (&[0; 64], 24, [0; 8], 0xa70d_17db_6490_207a),
            (&[0; 64], 64, [0; 8], 0xdad0_dd63_6f14_6b93),
            (&counting, 16, block, 0x76af_43ad_43db_9918),
            (&counting, 32, block, 0x4ae4_4e6b_b4ce_0cae),
            (&short, 8, [0xff; 8], 0x09a0_009f_fe68_aa60),
            (&short, 64, [0xff; 8], 0xac21_a13c_e5ec_13f2),
        ] {
            assert_eq!(encrypt(key, rounds, plaintext), ciphertext.to_be_bytes(), "{rounds} rounds");
        }
    }

    #[test]
    fn agrees_with_the_derivation() {
        let vectors = vectors("khufu");
        assert_eq!(vectors.len(), 48);
        for vector in vectors {
            let khufu = Khufu::new(&vector.key, vector.rounds).unwrap();
            let mut block = vector.plaintext;
            khufu.encrypt_block(&mut block);
            assert_eq!(block, vector.ciphertext, "{} rounds", vector.rounds);
            khufu.decrypt_block(&mut block);
            assert_eq!(block, vector.plaintext, "{} rounds", vector.rounds);
        }
    }

    #[test]
    fn key_gives_permutations_of_its_own() {
        let khufu = Khufu::new(b"a key", 64).unwrap();
        for (i, sbox) in khufu.sboxes().iter().enumerate() {
            assert_permutes(sbox);
            assert_ne!(*sbox, INITIAL_SBOX);
            assert!(!khufu.sboxes()[..i].contains(sbox), "S-box {i} came twice");
        }
    }

    #[test]
    fn refuses_keys_and_rounds_outside_of_the_rule() {
        for key_len in [0, 65, 4096] {
            assert_eq!(
                Khufu::new(&vec![1; key_len], 16).err(),
                Some(LegacyKeyError::KeyLen { cipher: "khufu", key_len, rule: "1 to 64 bytes are needed" })
            );
        }
        for rounds in [0, 4, 17, 72] {
            let error = Khufu::new(&[1; 8], rounds).err().unwrap();
            assert_eq!(error, LegacyKeyError::Rounds { cipher: "khufu", rounds });
            assert_eq!(error.to_string(), format!("khufu: {rounds} rounds; a multiple of 8 from 8 to 64 is needed"));
        }
    }

    #[test]
    fn wiping_leaves_nothing_of_the_key() {
        let mut khufu = Khufu::new(b"a key", 16).unwrap();
        khufu.zeroize();
        assert_eq!(khufu.auxiliary, [0; 4]);
        assert!(khufu.sboxes.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn decryption_undoes_encryption(
            key in proptest::collection::vec(any::<u8>(), 1..=KEY_LEN_MAX),
            octets in 1..=8u32,
            plaintext in any::<[u8; 8]>(),
        ) {
            let khufu = Khufu::new(&key, 8 * octets).unwrap();
            let mut block = plaintext;
            khufu.encrypt_block(&mut block);
            khufu.decrypt_block(&mut block);
            prop_assert_eq!(block, plaintext);
            khufu.decrypt_block(&mut block);
            khufu.encrypt_block(&mut block);
            prop_assert_eq!(block, plaintext);
        }
    }
}
