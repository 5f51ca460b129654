//! The same operations by other implementations, over random keys, lengths and data.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::{AeadInOut, KeyInit as AeadKeyInit};
use aes_siv::siv::CmacSiv;
use cbc::cipher::{InnerIvInit, KeyIvInit, StreamCipher};
use ccm::consts::{U4, U7, U10, U12, U13, U15, U16};
use ciphermill_contract::suite::{BlockCipher, Mode};
use ciphermill_contract::{Direction, OpStatus, Suite};
use cmac::Cmac;
use hmac::{Mac, SimpleHmac};
use proptest::prelude::*;
use xts_mode::Xts128;

use crate::run::{Parts, agrees, bytes, run, suite};

/// Data, tag and parts of an AEAD by someone else, to be compared with ours.
fn aead<A: AeadInOut + AeadKeyInit>(name: &str, key_len: usize, nonce_len: usize, tag_len: usize, case: &Case) {
    let parts = Parts {
        key: bytes(case.seed, key_len),
        iv: bytes(case.seed + 1, nonce_len),
        aad: bytes(case.seed + 2, case.aad_len),
        input: bytes(case.seed + 3, case.len),
        ..Parts::default()
    };
    let theirs = A::new_from_slice(&parts.key).unwrap();
    let mut output = parts.input.clone();
    let nonce = parts.iv.as_slice().try_into().unwrap();
    let tag = theirs.encrypt_inout_detached(&nonce, &parts.aad, output.as_mut_slice().into()).unwrap();
    assert_eq!(tag.len(), tag_len);
    agrees(suite(name), &parts, &output, &tag);
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    len: usize,
    aad_len: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let aad_len = prop_oneof![0usize..100, Just(65_279), Just(65_280), Just(65_535)];
    (0u64..1 << 40, 0usize..400, aad_len).prop_map(|(seed, len, aad_len)| Case { seed, len, aad_len })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gcm(case in case()) {
        aead::<aes_gcm::AesGcm<Aes128, U12>>("aes-128-gcm", 16, 12, 16, &case);
        aead::<aes_gcm::AesGcm<Aes192, U12>>("aes-192-gcm", 24, 12, 16, &case);
        aead::<aes_gcm::AesGcm<Aes256, U12, U12>>("aes-256-gcm", 32, 12, 12, &case);
    }

    #[test]
    fn ccm(case in case()) {
        aead::<::ccm::Ccm<Aes128, U16, U7>>("aes-128-ccm", 16, 7, 16, &case);
        aead::<::ccm::Ccm<Aes192, U10, U12>>("aes-192-ccm", 24, 12, 10, &case);
        aead::<::ccm::Ccm<Aes256, U4, U13>>("aes-256-ccm", 32, 13, 4, &case);
    }

    #[test]
    fn ocb(case in case()) {
        aead::<ocb3::Ocb3<Aes128>>("aes-128-ocb", 16, 12, 16, &case);
        aead::<ocb3::Ocb3<Aes192>>("aes-192-ocb", 24, 12, 16, &case);
        aead::<ocb3::Ocb3<Aes256>>("aes-256-ocb", 32, 12, 16, &case);
        aead::<ocb3::Ocb3<Aes128, U15, U16>>("aes-128-ocb", 16, 15, 16, &case);
        aead::<ocb3::Ocb3<Aes192, U7, U12>>("aes-192-ocb", 24, 7, 12, &case);
    }

    #[test]
    fn chacha20_poly1305(case in case()) {
        aead::<::chacha20poly1305::ChaCha20Poly1305>("chacha20-poly1305", 32, 12, 16, &case);
    }

    #[test]
    fn siv(case in case(), nonce_len in 0usize..=16) {
        let parts = |key_len| Parts {
            key: bytes(case.seed, key_len),
            iv: bytes(case.seed + 1, nonce_len),
            aad: bytes(case.seed + 2, case.aad_len),
            input: bytes(case.seed + 3, case.len),
            ..Parts::default()
        };
        macro_rules! check {
            ($name:literal, $cipher:ty, $key_len:literal) => {
                let parts = parts($key_len);
                let mut theirs = <CmacSiv<$cipher> as AeadKeyInit>::new_from_slice(&parts.key).unwrap();
                let headers = [Some(&parts.aad), Some(&parts.iv).filter(|iv| !iv.is_empty())];
                let sealed = theirs.encrypt(headers.into_iter().flatten(), &parts.input).unwrap();
                agrees(suite($name), &parts, &sealed[16..], &sealed[..16]);
            };
        }
        check!("aes-128-siv", Aes128, 32);
        check!("aes-192-siv", Aes192, 48);
        check!("aes-256-siv", Aes256, 64);
    }

    #[test]
    fn xts(seed in 0u64..1 << 40, len in 16usize..300) {
        let (key, iv, input) = (bytes(seed, 64), bytes(seed + 1, 16), bytes(seed + 2, len));
        let tweak: [u8; 16] = iv.as_slice().try_into().unwrap();
        let mut output = input.clone();
        Xts128::new(Aes256::new_from_slice(&key[..32]).unwrap(), Aes256::new_from_slice(&key[32..]).unwrap())
            .encrypt_sector(&mut output, tweak.into());
        agrees(suite("aes-256-xts"), &Parts { key, iv, input, ..Parts::default() }, &output, &[]);
    }

    #[test]
    fn ctr(seed in 0u64..1 << 40, len in 0usize..300, near_wrap in any::<bool>()) {
        let mut iv = bytes(seed + 1, 16);
        if near_wrap {
            iv[1..].fill(0xff);
        }
        let parts = Parts { key: bytes(seed, 24), iv, input: bytes(seed + 2, len), ..Parts::default() };
        let mut output = parts.input.clone();
        ::ctr::Ctr128BE::<Aes192>::new_from_slices(&parts.key, &parts.iv).unwrap().apply_keystream(&mut output);
        agrees(suite("aes-192-ctr"), &parts, &output, &[]);

        let nonce = Parts { iv: bytes(seed + 3, 12), ..parts };
        let first = [nonce.iv.as_slice(), &[0, 0, 0, 1]].concat();
        let mut output = nonce.input.clone();
        ::ctr::Ctr32BE::<Aes192>::new_from_slices(&nonce.key, &first).unwrap().apply_keystream(&mut output);
        agrees(suite("aes-192-ctr"), &nonce, &output, &[]);
    }

    #[test]
    fn blowfish_ctr(seed in 0u64..1 << 40, len in 0usize..100, key_len in 4usize..=56) {
        let parts = Parts {
            key: bytes(seed, key_len), iv: bytes(seed + 1, 8), input: bytes(seed + 2, len), ..Parts::default()
        };
        let mut output = parts.input.clone();
        let cipher = blowfish::Blowfish::new_from_slice(&parts.key).unwrap();
        let iv: [u8; 8] = parts.iv.as_slice().try_into().unwrap();
        let core = ::ctr::CtrCore::<blowfish::Blowfish, ::ctr::flavors::Ctr64BE>::inner_iv_init(cipher, &iv.into());
        cipher::StreamCipherCoreWrapper::from_core(core).apply_keystream(&mut output);
        agrees(suite("blowfish-ctr"), &parts, &output, &[]);
    }

    #[test]
    fn rc4(seed in 0u64..1 << 40, len in 0usize..600, key_len in 5usize..=256) {
        let parts = Parts { key: bytes(seed, key_len), input: bytes(seed + 1, len), ..Parts::default() };
        let mut output = parts.input.clone();
        ::rc4::Rc4::new_from_slice(&parts.key).unwrap().apply_keystream(&mut output);
        agrees(suite("rc4"), &parts, &output, &[]);
    }

    #[test]
    fn macs(seed in 0u64..1 << 40, len in 0usize..400, key_len in 1usize..300) {
        let input = bytes(seed + 1, len);
        macro_rules! hmac {
            ($name:literal, $digest:ty) => {
                let key = bytes(seed, key_len);
                let mut theirs = <SimpleHmac<$digest> as hmac::KeyInit>::new_from_slice(&key).unwrap();
                theirs.update(&input);
                let tag = theirs.finalize().into_bytes();
                agrees(suite($name), &Parts { key, input: input.clone(), ..Parts::default() }, &[], &tag);
            };
        }
        hmac!("hmac-md5", md5::Md5);
        hmac!("hmac-sha1", sha1::Sha1);
        hmac!("hmac-sha224", sha2::Sha224);
        hmac!("hmac-sha256", sha2::Sha256);
        hmac!("hmac-sha384", sha2::Sha384);
        hmac!("hmac-sha512", sha2::Sha512);
        hmac!("hmac-sha3-256", sha3::Sha3_256);
        hmac!("hmac-sha3-512", sha3::Sha3_512);

        let key = bytes(seed, 24);
        let mut theirs = <Cmac<Aes192> as hmac::KeyInit>::new_from_slice(&key).unwrap();
        theirs.update(&input);
        let tag = theirs.finalize().into_bytes();
        agrees(suite("aes-192-cmac"), &Parts { key, input: input.clone(), ..Parts::default() }, &[], &tag);
    }

    /// HMAC over BLAKE3 by its definition (RFC 2104, section 2), blocks of 64 bytes.
    #[test]
    fn hmac_blake3(seed in 0u64..1 << 40, len in 0usize..3_000, key_len in 1usize..200) {
        let (key, input) = (bytes(seed, key_len), bytes(seed + 1, len));
        let mut block = if key_len > 64 { blake3::hash(&key).as_bytes().to_vec() } else { key.clone() };
        block.resize(64, 0);
        let padded = |pad: u8| block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
        let inner = blake3::hash(&[padded(0x36), input.clone()].concat());
        let tag = blake3::hash(&[padded(0x5c), inner.as_bytes().to_vec()].concat());
        agrees(suite("hmac-blake3"), &Parts { key, input, ..Parts::default() }, &[], tag.as_bytes());
    }

    #[test]
    fn triple_des_cbc(seed in 0u64..1 << 40, blocks in 0usize..20) {
        use cbc::cipher::{Array, BlockModeEncrypt};
        let parts = Parts {
            key: bytes(seed, 24), iv: bytes(seed + 1, 8), input: bytes(seed + 2, 8 * blocks), ..Parts::default()
        };
        let mut output = parts.input.clone();
        let mut theirs = cbc::Encryptor::<des::TdesEde3>::new_from_slices(&parts.key, &parts.iv).unwrap();
        for block in output.chunks_exact_mut(8) {
            theirs.encrypt_block(<&mut Array<u8, _>>::try_from(block).unwrap());
        }
        agrees(suite("3des-cbc"), &parts, &output, &[]);
    }
}

/// ECB of every cipher is the cipher: CBC with one block and an IV of zeros says the same.
#[test]
fn one_block_of_cbc_under_zeros_is_ecb() {
    let ciphers = [
        (BlockCipher::Des, 8),
        (BlockCipher::TripleDes, 24),
        (BlockCipher::Blowfish, 16),
        (BlockCipher::Khufu, 64),
        (BlockCipher::Khafre, 8),
        (BlockCipher::Khafre, 24),
    ];
    for (cipher, key_len) in ciphers {
        let ecb = Parts { key: bytes(1, key_len), input: bytes(2, 8), ..Parts::default() };
        let cbc = Parts { iv: vec![0; 8], ..ecb.clone() };
        let ecb = run(Suite::Cipher(cipher, Mode::Ecb), Direction::Encrypt, &ecb);
        let cbc = run(Suite::Cipher(cipher, Mode::Cbc), Direction::Encrypt, &cbc);
        assert_eq!((ecb.status, &ecb.output), (OpStatus::Done, &cbc.output));
    }
}
