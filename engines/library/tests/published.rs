//! Published vectors, a few of each family, each with its source.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may stop at once, its helpers too")]

mod support;

use ciphermill_contract::{Direction, KeyForm, OpStatus, Suite};
use support::{Job, hex, run_one};

fn suite(name: &str) -> Suite {
    name.parse().unwrap()
}

/// Forward gives the output and tag, in and out of place; back gives the input; a wrong tag fails and leaves nothing.
#[track_caller]
fn check(name: &str, job: Job, output: &str, tag: &str) {
    let suite = suite(name);
    let (output, tag) = (hex(output), hex(tag));
    for in_place in [false, true] {
        let forward = Job { tag: vec![0; tag.len()], in_place, gap: 3, ..job.clone() };
        let answer = run_one(suite, Direction::Encrypt, KeyForm::Secret, &forward);
        assert_eq!(answer.status, OpStatus::Done, "{name}");
        assert_eq!(hex::encode(&answer.output), hex::encode(&output), "{name}");
        assert_eq!(hex::encode(&answer.tag), hex::encode(&tag), "{name}");
        if !suite.has_direction(Direction::Decrypt) {
            continue;
        }
        let input = if matches!(suite, Suite::Mac(_)) { job.input.clone() } else { output.clone() };
        let plain = if matches!(suite, Suite::Mac(_)) { Vec::new() } else { job.input.clone() };
        let back = Job { input, tag: tag.clone(), in_place, gap: 1, ..job.clone() };
        let answer = run_one(suite, Direction::Decrypt, KeyForm::Secret, &back);
        assert_eq!((answer.status, answer.output), (OpStatus::Done, plain), "{name}");
        for byte in 0..tag.len() {
            let mut damaged = back.clone();
            damaged.tag[byte] ^= 1;
            let answer = run_one(suite, Direction::Decrypt, KeyForm::Secret, &damaged);
            assert_eq!((answer.status, answer.output), (OpStatus::AuthFailed, Vec::new()), "{name}, byte {byte}");
        }
    }
}

fn job(key: &str, iv: &str, input: &str) -> Job {
    Job { key: hex(key), iv: hex(iv), input: hex(input), ..Job::default() }
}

fn job_aad(key: &str, iv: &str, input: &str, aad: &str) -> Job {
    Job { aad: hex(aad), ..job(key, iv, input) }
}

const SP800_38A_KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const SP800_38A_TEXT: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";

/// NIST SP 800-38A, F.1.1, F.2.1, F.5.1.
#[test]
fn aes_ecb_cbc_ctr() {
    let ecb = "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf";
    check("aes-128-ecb", job(SP800_38A_KEY, "", SP800_38A_TEXT), ecb, "");
    let cbc = "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2";
    check("aes-128-cbc", job(SP800_38A_KEY, "000102030405060708090a0b0c0d0e0f", SP800_38A_TEXT), cbc, "");
    let ctr = "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff";
    check("aes-128-ctr", job(SP800_38A_KEY, "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", SP800_38A_TEXT), ctr, "");
}

/// FIPS 197, appendix C, as ECB; then the same block often enough for the bulk path.
#[test]
fn aes_of_every_size_in_ecb() {
    let text = "00112233445566778899aabbccddeeff";
    let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let wanted = [
        ("aes-128-ecb", 32, "69c4e0d86a7b0430d8cdb78070b4c55a"),
        ("aes-192-ecb", 48, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        ("aes-256-ecb", 64, "8ea2b7ca516745bfeafc49904b496089"),
    ];
    for (name, key_digits, output) in wanted {
        for blocks in [1, 15, 16, 33] {
            check(name, job(&key[..key_digits], "", &text.repeat(blocks)), &output.repeat(blocks), "");
        }
    }
}

/// RFC 3686, test vector 2: nonce and IV before a counter from one, as a 12-byte IV.
#[test]
fn aes_ctr_with_a_short_iv() {
    let key = "7e24067817fae0d743d6ce1f32539163";
    let text = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let output = "5104a106168a72d9790d41ee8edad388eb2e1efc46da57c8fce630df9141be28";
    check("aes-128-ctr", job(key, "006cb6dbc0543b59da48d90b", text), output, "");
}

/// IEEE 1619-2007, vector 10: the start and the end of one data unit of 512 bytes.
#[test]
fn aes_256_xts() {
    let key = "27182818284590452353602874713526624977572470936999595749669676273141592653589793238462643383279502884197\
               169399375105820974944592";
    let text: Vec<u8> = (0..512).map(|byte| byte as u8).collect();
    let mut iv = vec![0; 16];
    iv[0] = 0xff;
    let job = Job { key: hex(key), iv, input: text, ..Job::default() };
    let (output, _) = run_one(suite("aes-256-xts"), Direction::Encrypt, KeyForm::Secret, &job).done();
    assert_eq!(hex::encode(&output[..32]), "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b");
    let back = Job { input: output, in_place: true, ..job.clone() };
    let (text, _) = run_one(suite("aes-256-xts"), Direction::Decrypt, KeyForm::Secret, &back).done();
    assert_eq!(text, job.input);
}

/// FIPS 81, tables B1 and C1.
#[test]
fn des_ecb_cbc() {
    let text = "4e6f77206973207468652074696d6520666f7220616c6c20";
    let ecb = "3fa40e8a984d48156a271787ab8883f9893d51ec4b563b53";
    check("des-ecb", job("0123456789abcdef", "", text), ecb, "");
    let cbc = "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6";
    check("des-cbc", job("0123456789abcdef", "1234567890abcdef", text), cbc, "");
}

/// NIST SP 800-67 revision 1, B.1; with all keys equal it is DES.
#[test]
fn triple_des() {
    let key = "0123456789abcdef23456789abcdef01456789abcdef0123";
    let text = "5468652071756663 6b2062726f776e20 666f78206a756d70";
    check("3des-ecb", job(key, "", text), "a826fd8ce53b855f cce21c8112256fe6 68d5c05dd9b6b900", "");
    let text = "4e6f77206973207468652074696d6520666f7220616c6c20";
    let cbc = "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6";
    for copies in [2, 3] {
        check("3des-cbc", job(&"0123456789abcdef".repeat(copies), "1234567890abcdef", text), cbc, "");
    }
}

/// McGrew and Viega, The Galois/Counter Mode of Operation, test case 4; shorter tags are its first bytes.
#[test]
fn aes_gcm() {
    let text = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5\
                aa0de657ba637b39";
    let output = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b\
                  396a0aac973d58e091";
    let aad = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
    let job = job_aad("feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", text, aad);
    for tag_len in [4, 8, 12, 13, 14, 15, 16] {
        check("aes-128-gcm", job.clone(), output, &"5bc94fbc3221a5db94fae95ae7121a47"[..2 * tag_len]);
    }
}

/// NIST SP 800-38C, appendix C, examples 1 to 3.
#[test]
fn aes_ccm() {
    let key = "404142434445464748494a4b4c4d4e4f";
    let one = job_aad(key, "10111213141516", "20212223", "0001020304050607");
    check("aes-128-ccm", one, "7162015b", "4dac255d");
    let text = "202122232425262728292a2b2c2d2e2f";
    let two = job_aad(key, "1011121314151617", text, "000102030405060708090a0b0c0d0e0f");
    check("aes-128-ccm", two, "d2a1f0e051ea5f62081a7792073d593d", "1fc64fbfaccd");
    let text = "202122232425262728292a2b2c2d2e2f3031323334353637";
    let aad = "000102030405060708090a0b0c0d0e0f10111213";
    let three = job_aad(key, "101112131415161718191a1b", text, aad);
    check("aes-128-ccm", three, "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5", "484392fbc1b09951");
}

/// RFC 8452, C.1: eight bytes of plaintext.
#[test]
fn aes_gcm_siv() {
    let job = job("01000000000000000000000000000000", "030000000000000000000000", "0100000000000000");
    check("aes-128-gcm-siv", job, "b5d839330ac7b786", "578782fff6013b815b287c22493a364c");
}

const SUNSCREEN: &[u8] =
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
    sunscreen would be it.";

/// RFC 8439, 2.4.2 and 2.8.2.
#[test]
fn chacha20_and_poly1305() {
    let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let iv = "01000000 000000000000004a00000000";
    let output = "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd62b3571639d6\
                  24e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab77937365af90bbf74\
                  a35be6b40b8eedf2785e42874d";
    check("chacha20", job(key, iv, &hex::encode(SUNSCREEN)), output, "");

    let key = "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f";
    let output = "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de\
                  0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e\
                  4b7a9de576d26586cec64b6116";
    let job = job_aad(key, "070000004041424344454647", &hex::encode(SUNSCREEN), "50515253c0c1c2c3c4c5c6c7");
    check("chacha20-poly1305", job, output, "1ae10b594f09e26a7e902ecbd0600691");
}

/// RFC 6229: the key stream of a 40-bit key.
#[test]
fn rc4() {
    let job = job("0102030405", "", &"00".repeat(16));
    check("rc4", job, "b2396305f03dc027ccc3524a0a1118a8", "");
}

/// RFC 1321, A.5; FIPS 180-4 and FIPS 202 example values: "abc".
#[test]
fn digests_of_abc() {
    let wanted = [
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha224", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("sha384", "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"),
        (
            "sha512",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd\
             454d4423643ce80e2a9ac94fa54ca49f",
        ),
        ("sha3-256", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
        (
            "sha3-512",
            "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e39340\
             57340b4cf408d5a56592f8274eec53f0",
        ),
    ];
    for (name, digest) in wanted {
        check(name, job("", "", "616263"), "", digest);
    }
}

/// NIST's examples SHAKE128_Msg0 and SHAKE256_Msg0, their first bytes.
#[test]
fn extendable_outputs_of_nothing() {
    let shake128 = "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26";
    check("shake128", job("", "", ""), "", shake128);
    let shake256 = "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762fd75dc4ddd8c0f200cb05019d67b592f6\
                    fc821c49479ab48640292eacb3b7c4be";
    check("shake256", job("", "", ""), "", shake256);
}

/// RFC 2202 (MD5, SHA-1) and RFC 4231 (SHA-2), test case 2; test case 6 has a key longer than the block.
#[test]
fn hmac() {
    let (key, text) = ("4a656665", hex::encode("what do ya want for nothing?"));
    check("hmac-md5", job(key, "", &text), "", "750c783e6ab0b503eaa86e310a5db738");
    check("hmac-sha1", job(key, "", &text), "", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    let sha256 = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    for tag_len in [4, 16, 31, 32] {
        check("hmac-sha256", job(key, "", &text), "", &sha256[..2 * tag_len]);
    }
    let text = hex::encode("Test Using Larger Than Block-Size Key - Hash Key First");
    let sha256 = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
    check("hmac-sha256", job(&"aa".repeat(131), "", &text), "", sha256);
    let sha512 = "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f\
                  73f63f0aec8b915a985d786598";
    check("hmac-sha512", job(&"aa".repeat(131), "", &text), "", sha512);
}

/// An empty key under an empty message, by Python's hmac: keys are padded with zeros (RFC 2104, 2), so that one of a zero byte does.
#[test]
fn hmac_under_an_empty_key() {
    check("hmac-md5", job("00", "", ""), "", "74e6f7298a9c2d168935f58c001bad88");
    check("hmac-sha1", job("00", "", ""), "", "fbdb1d1b18aa6c08324b7d64b71fb76370690e1d");
    let sha256 = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
    check("hmac-sha256", job("00", "", ""), "", sha256);
}

/// NIST SP 800-38B, D.1.
#[test]
fn cmac() {
    let text = format!("{SP800_38A_TEXT}30c81c46a35ce411");
    check("aes-128-cmac", job(SP800_38A_KEY, "", ""), "", "bb1d6929e95937287fa37d129b756746");
    check("aes-128-cmac", job(SP800_38A_KEY, "", &text[..32]), "", "070a16b46b4d4144f79bdd9dd04a287c");
    check("aes-128-cmac", job(SP800_38A_KEY, "", &text), "", "dfa66747de9ae63030ca32611497c827");
}

/// McGrew and Viega, test case 1 (nothing to authenticate), and test case 4's additional data alone.
#[test]
fn gmac() {
    let zeros = "00".repeat(16);
    check("aes-128-gmac", job(&zeros, &zeros[..24], ""), "", "58e2fccefa7e3061367f1d57a4e7455a");
}

/// RFC 8439, 2.5.2.
#[test]
fn poly1305() {
    let key = "85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b";
    let text = hex::encode("Cryptographic Forum Research Group");
    check("poly1305", job(key, "", &text), "", "a8061dc1305136c6c22b8baf0c0127a9");
}

/// RFC 7748, 5.2 and 6.1 (the all-zero secret).
#[test]
fn x25519() {
    let key = hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
    let peer = hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
    let job = Job { key: key.clone(), input: peer, ..Job::default() };
    let (secret, _) = run_one(suite("x25519"), Direction::Encrypt, KeyForm::Private, &job).done();
    assert_eq!(hex::encode(secret), "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
    let job = Job { key, input: vec![0; 32], ..Job::default() };
    let answer = run_one(suite("x25519"), Direction::Encrypt, KeyForm::Private, &job);
    assert_eq!(answer.status, OpStatus::BadInput(ciphermill_contract::Reason::BadPublicValue));
    assert!(answer.output.is_empty());
}

/// RFC 8032, 7.1, test 1.
#[test]
fn ed25519() {
    let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    let public = hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    let signature = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25b\
                     f5f0595bbe24655141438e7a100b";
    let sign = Job { key: seed, tag: vec![0; 80], ..Job::default() };
    let answer = run_one(suite("ed25519"), Direction::Encrypt, KeyForm::Private, &sign);
    assert_eq!((answer.status, hex::encode(&answer.tag)), (OpStatus::Done, signature.to_owned()));
    let verify = Job { key: public, tag: hex(signature), ..Job::default() };
    assert_eq!(run_one(suite("ed25519"), Direction::Decrypt, KeyForm::Public, &verify).status, OpStatus::Done);
}
