//! Digests and message authentication codes.

use ciphermill_contract::suite::{Digest, Mac};
use ciphermill_contract::{Direction, Engine, KeyMaterial, OpStatus, Suite};
use ciphermill_reference::Reference;

use crate::run::{Parts, agrees, bytes, hex, run, suite};

fn mac(name: &str, key: &[u8], input: &[u8], tag: &str) {
    agrees(suite(name), &Parts { key: key.to_vec(), input: input.to_vec(), ..Parts::default() }, &[], &hex(tag));
}

/// "abc": RFC 1321 A.5, FIPS 180-4 and FIPS 202 example values, the test vectors of BLAKE3's authors. Nothing: NIST's
/// examples SHAKE128_Msg0 and SHAKE256_Msg0.
#[test]
fn digests_of_abc_are_the_published_ones() {
    let digests = [
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha224", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("sha384", "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"),
        (
            "sha512",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        ("sha3-256", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
        (
            "sha3-512",
            "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e
             10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
        ),
        ("blake3", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
    ];
    for (name, digest) in digests {
        mac(name, &[], b"abc", digest);
    }
    mac("shake128", &[], b"", "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26");
    let shake256 = "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f
                    d75dc4ddd8c0f200cb05019d67b592f6fc821c49479ab48640292eacb3b7c4be";
    mac("shake256", &[], b"", shake256);
    mac("blake3", &[], b"", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

#[test]
fn there_is_no_hmac_over_an_extendable_output() {
    for digest in [Digest::Shake128, Digest::Shake256] {
        assert!(Reference::new().prepare(&KeyMaterial::secret(&[7; 32]), Suite::Mac(Mac::Hmac(digest))).is_err());
    }
}

/// RFC 2202, cases 1, 2 and 6.
#[test]
fn hmac_gives_the_vectors_of_rfc_2202() {
    mac("hmac-md5", &[0x0b; 16], b"Hi There", "9294727a3638bb1c13f48ef8158bfc9d");
    mac("hmac-md5", b"Jefe", b"what do ya want for nothing?", "750c783e6ab0b503eaa86e310a5db738");
    mac("hmac-sha1", &[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00");
    mac("hmac-sha1", b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
    mac("hmac-sha1", &[0xaa; 80], long, "aa4ae5e15272d00e95705637ce8a3b55ed402112");
}

/// RFC 4231, cases 1, 2 and 6.
#[test]
fn hmac_gives_the_vectors_of_rfc_4231() {
    let case_1 = [
        ("hmac-sha224", "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22"),
        ("hmac-sha256", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            "hmac-sha384",
            "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6",
        ),
        (
            "hmac-sha512",
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde
             daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        ),
    ];
    for (name, tag) in case_1 {
        mac(name, &[0x0b; 20], b"Hi There", tag);
    }
    let tag = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    mac("hmac-sha256", b"Jefe", b"what do ya want for nothing?", tag);
    let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
    let tag = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
    mac("hmac-sha256", &[0xaa; 131], long, tag);
}

/// RFC 4493, section 4; the longer keys: NIST SP 800-38B, D.2 and D.3, example 1.
#[test]
fn cmac_gives_the_vectors_of_rfc_4493() {
    let key = hex("2b7e151628aed2a6abf7158809cf4f3c");
    let text = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
        30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
    mac("aes-128-cmac", &key, &[], "bb1d6929e95937287fa37d129b756746");
    mac("aes-128-cmac", &key, &text[..16], "070a16b46b4d4144f79bdd9dd04a287c");
    mac("aes-128-cmac", &key, &text[..40], "dfa66747de9ae63030ca32611497c827");
    mac("aes-128-cmac", &key, &text, "51f0bebf7e3b9d92fc49741779363cfe");
    let key = hex("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b");
    mac("aes-192-cmac", &key, &[], "d17ddf46adaacde531cac483de7a9367");
    let key = hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
    mac("aes-256-cmac", &key, &[], "028962f61b7bf89efc6b551f4667d983");
}

/// RFC 8439, 2.5.2.
#[test]
fn poly1305_gives_the_vector_of_rfc_8439() {
    let key = hex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b");
    mac("poly1305", &key, b"Cryptographic Forum Research Group", "a8061dc1305136c6c22b8baf0c0127a9");
}

#[test]
fn gmac_is_gcm_with_nothing_to_encrypt() {
    let message = bytes(3, 77);
    let gcm = Parts { key: bytes(1, 24), iv: bytes(2, 12), aad: message.clone(), tag: vec![0; 16], ..Parts::default() };
    let tag = run(suite("aes-192-gcm"), Direction::Encrypt, &gcm).tag;
    let gmac = Parts { aad: Vec::new(), input: message, tag: Vec::new(), ..gcm };
    agrees(suite("aes-192-gmac"), &gmac, &[], &tag);
}

#[test]
fn a_tag_of_another_message_is_refused() {
    for name in ["hmac-sha256", "aes-128-cmac", "poly1305", "hmac-blake3"] {
        let suite = suite(name);
        let key = bytes(1, suite.key_len().max.min(32));
        let tag_len = suite.default_tag_len();
        let parts = Parts { key, input: bytes(2, 40), tag: vec![0; tag_len], ..Parts::default() };
        let tag = run(suite, Direction::Encrypt, &parts).tag;
        let other = Parts { input: bytes(3, 40), tag, ..parts };
        assert_eq!(run(suite, Direction::Decrypt, &other).status, OpStatus::AuthFailed, "{name}");
    }
}
