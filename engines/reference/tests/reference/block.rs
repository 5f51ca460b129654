//! Block ciphers and their modes.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{Engine, Error, KeyMaterial, Refusal};
use ciphermill_reference::Reference;

use crate::run::{Parts, agrees, hex, suite};

/// The plaintext of NIST SP 800-38A, appendix F.
const PLAINTEXT: &str = "6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
    30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710";
/// Its keys of 128, 192 and 256 bits.
const KEYS: [&str; 3] = [
    "2b7e151628aed2a6abf7158809cf4f3c",
    "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
];

fn cipher(name: &str, key: &str, iv: &str, input: &str, output: &str) {
    let parts = Parts { key: hex(key), iv: hex(iv), input: hex(input), ..Parts::default() };
    agrees(suite(name), &parts, &hex(output), &[]);
}

/// FIPS 197, appendix C.
#[test]
fn aes_gives_the_blocks_of_fips_197() {
    let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let block = "00112233445566778899aabbccddeeff";
    cipher("aes-128-ecb", &key[..32], "", block, "69c4e0d86a7b0430d8cdb78070b4c55a");
    cipher("aes-192-ecb", &key[..48], "", block, "dda97ca4864cdfe06eaf70a0ec0d7191");
    cipher("aes-256-ecb", key, "", block, "8ea2b7ca516745bfeafc49904b496089");
}

/// NIST SP 800-38A, F.1.
#[test]
fn aes_ecb_gives_the_vectors_of_sp_800_38a() {
    let outputs = [
        "3ad77bb40d7a3660a89ecaf32466ef97 f5d3d58503b9699de785895a96fdbaaf
         43b1cd7f598ece23881b00e3ed030688 7b0c785e27e8ad3f8223207104725dd4",
        "bd334f1d6e45f25ff712a214571fa5cc 974104846d0ad3ad7734ecb3ecee4eef
         ef7afd2270e2e60adce0ba2face6444e 9a4b41ba738d6c72fb16691603c18e0e",
        "f3eed1bdb5d2a03c064b5a7e3db181f8 591ccb10d410ed26dc5ba74a31362870
         b6ed21b99ca6f4f9f153e7b1beafed1d 23304b7a39f9f3ff067d8d8f9e24ecc7",
    ];
    for ((name, key), output) in ["aes-128-ecb", "aes-192-ecb", "aes-256-ecb"].into_iter().zip(KEYS).zip(outputs) {
        cipher(name, key, "", PLAINTEXT, output);
    }
}

/// NIST SP 800-38A, F.2.
#[test]
fn aes_cbc_gives_the_vectors_of_sp_800_38a() {
    let outputs = [
        "7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2
         73bed6b8e3c1743b7116e69e22229516 3ff1caa1681fac09120eca307586e1a7",
        "4f021db243bc633d7178183a9fa071e8 b4d9ada9ad7dedf4e5e738763f69145a
         571b242012fb7ae07fa9baac3df102e0 08b0e27988598881d920a9e64f5615cd",
        "f58c4c04d6e5f1ba779eabfb5f7bfbd6 9cfc4e967edb808d679f777bc6702c7d
         39f23369a9d9bacfa530e26304231461 b2eb05e2c39be9fcda6c19078c6a9d1b",
    ];
    for ((name, key), output) in ["aes-128-cbc", "aes-192-cbc", "aes-256-cbc"].into_iter().zip(KEYS).zip(outputs) {
        cipher(name, key, "000102030405060708090a0b0c0d0e0f", PLAINTEXT, output);
    }
}

/// NIST SP 800-38A, F.5.
#[test]
fn aes_ctr_gives_the_vectors_of_sp_800_38a() {
    let outputs = [
        "874d6191b620e3261bef6864990db6ce 9806f66b7970fdff8617187bb9fffdff
         5ae4df3edbd5d35e5b4f09020db03eab 1e031dda2fbe03d1792170a0f3009cee",
        "1abc932417521ca24f2b0459fe7e6e0b 090339ec0aa6faefd5ccc2c6f4ce8e94
         1e36b26bd1ebc670d1bd1d665620abf7 4f78a7f6d29809585a97daec58c6b050",
        "601ec313775789a5b7a7f504bbf3d228 f443e3ca4d62b59aca84e990cacaf5c5
         2b0930daa23de94ce87017ba2d84988d dfc9c58db67aada613c2dd08457941a6",
    ];
    for ((name, key), output) in ["aes-128-ctr", "aes-192-ctr", "aes-256-ctr"].into_iter().zip(KEYS).zip(outputs) {
        cipher(name, key, "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", PLAINTEXT, output);
    }
}

/// RFC 3686, section 6, test vector 1: the nonce and IV before a counter that starts at one.
#[test]
fn aes_ctr_with_a_nonce_gives_the_vector_of_rfc_3686() {
    cipher(
        "aes-128-ctr",
        "ae6852f8121067cc4bf7a5765577f39e",
        "00000030 0000000000000000",
        &hex::encode("Single block msg"),
        "e4095d4fb7a7b3792d6175a3261311b8",
    );
}

/// IEEE 1619-2018, annex B, vectors 2, 3, 15 and 16.
#[test]
fn aes_xts_gives_the_vectors_of_ieee_1619() {
    let ones = "11111111111111111111111111111111";
    let twos = "22222222222222222222222222222222";
    let falling = "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0";
    let sector = "33333333330000000000000000000000";
    cipher(
        "aes-128-xts",
        &format!("{ones}{twos}"),
        sector,
        &"44".repeat(32),
        "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
    );
    cipher(
        "aes-128-xts",
        &format!("{falling}{twos}"),
        sector,
        &"44".repeat(32),
        "af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89",
    );
    let key = format!("{falling}bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0");
    let sector = "9a785634120000000000000000000000";
    let input = "000102030405060708090a0b0c0d0e0f1011";
    cipher("aes-128-xts", &key, sector, &input[..34], "6c1625db4671522d3d7599601de7ca09ed");
    cipher("aes-128-xts", &key, sector, input, "d069444b7a7e0cab09e24447d24deb1fedbf");
}

#[test]
fn equal_halves_of_an_xts_key_are_refused() {
    for (name, len) in [("aes-128-xts", 32), ("aes-256-xts", 64)] {
        let suite = suite(name);
        let error = Reference::new().prepare(&KeyMaterial::secret(&vec![7; len]), suite).unwrap_err();
        assert_eq!(error, Error::Refused(Refusal::KeyUnsuitable { suite, problem: KeyProblem::Weak }));
    }
}

/// FIPS 81, appendix B (ECB and CBC); the single block is the worked example of the DES literature (Grabbe 1992).
#[test]
fn des_gives_the_vectors_of_fips_81() {
    cipher("des-ecb", "133457799bbcdff1", "", "0123456789abcdef", "85e813540f0ab405");
    let text = hex::encode("Now is the time for all ");
    cipher("des-ecb", "0123456789abcdef", "", &text, "3fa40e8a984d48156a271787ab8883f9893d51ec4b563b53");
    cipher(
        "des-cbc",
        "0123456789abcdef",
        "1234567890abcdef",
        &text,
        "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6",
    );
}

/// NIST SP 800-67, appendix B.
#[test]
fn triple_des_gives_the_example_of_sp_800_67() {
    cipher(
        "3des-ecb",
        "0123456789abcdef23456789abcdef01456789abcdef0123",
        "",
        "5468652071756663 6b2062726f776e20 666f78206a756d70",
        "a826fd8ce53b855f cce21c8112256fe6 68d5c05dd9b6b900",
    );
}

#[test]
fn triple_des_with_two_keys_uses_the_first_one_twice() {
    let (first, second) = ("0123456789abcdef", "23456789abcdef01");
    let block = "5468652071756663";
    let parts = Parts { key: hex(&format!("{first}{second}{first}")), input: hex(block), ..Parts::default() };
    let outcome = crate::run::run(suite("3des-ecb"), ciphermill_contract::Direction::Encrypt, &parts);
    cipher("3des-ecb", &format!("{first}{second}"), "", block, &hex::encode(outcome.output));
}

/// The vectors that Schneier publishes with the cipher (Eric Young's set).
#[test]
fn blowfish_gives_the_published_vectors() {
    let vectors = [
        ("0000000000000000", "0000000000000000", "4ef997456198dd78"),
        ("ffffffffffffffff", "ffffffffffffffff", "51866fd5b85ecb8a"),
        ("3000000000000000", "1000000000000001", "7d856f9a613063f2"),
        ("1111111111111111", "1111111111111111", "2466dd878b963c9d"),
        ("0123456789abcdef", "1111111111111111", "61f9c3802281b096"),
    ];
    for (key, input, output) in vectors {
        cipher("blowfish-ecb", key, "", input, output);
    }
    let text = hex::encode(b"7654321 Now is the time for \0\0\0\0");
    cipher(
        "blowfish-cbc",
        "0123456789abcdeff0e1d2c3b4a59687",
        "fedcba9876543210",
        &text,
        "6b77b4d63006dee605b156e27403979358deb9e7154616d959f1652bd5ff92cc",
    );
}
