//! What standards say of suites: lengths family by family, which suites are legacy, which random, whose kernels they run on,
//! and how names are read.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::suite::lists::{CHAIN_CIPHERS, CHAIN_DIGESTS};
use ciphermill_contract::suite::rules::Lengths;
use ciphermill_contract::suite::{AesSize, BlockCipher, Curve, DhGroup, Digest, Ff1, RsaSize, Signature};
use ciphermill_contract::{Direction, Suite};

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

/// Name; lengths of key, IV, tag, additional data and input; output for an input of 96 bytes where 7 are asked for; key, IV
/// and tag when nobody says otherwise; block. Two values stand for the way forth and the way back.
const LENGTHS: &str = "
    des-cbc: 8 | 8 | 0 | 0 | 0-1073741824/8 | 96 | 8 8 0 | 8
    3des-ecb: 16-24/8 | 0 | 0 | 0 | 0-1073741824/8 | 96 | 24 0 0 | 8
    aes-128-ecb: 16 | 0 | 0 | 0 | 0-1073741824/16 | 96 | 16 0 0 | 16
    aes-192-cbc: 24 | 16 | 0 | 0 | 0-1073741824/16 | 96 | 24 16 0 | 16
    aes-256-ctr: 32 | 12-16/4 | 0 | 0 | 0-1073741824 | 96 | 32 16 0 | 1
    aes-128-xts: 32 | 16 | 0 | 0 | 16-16777216 | 96 | 32 16 0 | 1
    aes-256-xts: 64 | 16 | 0 | 0 | 16-16777216 | 96 | 64 16 0 | 1
    aes-128-cfb8: 16 | 16 | 0 | 0 | 0-1073741824 | 96 | 16 16 0 | 1
    aes-192-cfb128: 24 | 16 | 0 | 0 | 0-1073741824 | 96 | 24 16 0 | 1
    aes-256-ofb: 32 | 16 | 0 | 0 | 0-1073741824 | 96 | 32 16 0 | 1
    aes-128-cbc-cs1: 16 | 16 | 0 | 0 | 16-1073741824 | 96 | 16 16 0 | 1
    aes-256-cbc-cs3: 32 | 16 | 0 | 0 | 16-1073741824 | 96 | 32 16 0 | 1
    blowfish-cbc: 4-56 | 8 | 0 | 0 | 0-1073741824/8 | 96 | 16 8 0 | 8
    blowfish-ctr: 4-56 | 4-8/4 | 0 | 0 | 0-1073741824 | 96 | 16 8 0 | 1
    khufu-cbc: 1-64 | 8 | 0 | 0 | 0-1073741824/8 | 96 | 64 8 0 | 8
    khafre-ecb: 8-24/16 | 0 | 0 | 0 | 0-1073741824/8 | 96 | 24 0 0 | 8
    chacha20: 32 | 12-16/4 | 0 | 0 | 0-1073741824 | 96 | 32 12 0 | 1
    rc4: 5-256 | 0 | 0 | 0 | 0-1073741824 | 96 | 16 0 0 | 1
    seal-3.0: 20 | 4 | 0 | 0 | 0-65536 | 96 | 20 4 0 | 1
    aes-192-gcm: 24 | 12 | 4-16/no-5-6-7-9-10-11 | 0-65535 | 0-1073741824 | 96 | 24 12 16 | 1
    aes-128-gcm-any-iv: 16 | 1-128 | 4-16/no-5-6-7-9-10-11 | 0-65423 | 0-1073741824 | 96 | 16 12 16 | 1
    aes-256-ccm: 32 | 7-13 | 4-16/2 | 0-65535 | 0-1073741824 | 96 | 32 12 16 | 1
    aes-128-gcm-siv: 16 | 12 | 16 | 0-65535 | 0-1073741824 | 96 | 16 12 16 | 1
    aes-256-siv: 64 | 0-16 | 16 | 0-65535 | 0-1073741824 | 96 | 64 0 16 | 1
    aes-192-ocb: 24 | 1-15 | 8-16 | 0-65535 | 0-1073741824 | 96 | 24 12 16 | 1
    chacha20-poly1305: 32 | 12 | 4-16/no-5-6-7-9-10-11 | 0-65535 | 0-1073741824 | 96 | 32 12 16 | 1
    xchacha20-poly1305: 32 | 24 | 4-16/no-5-6-7-9-10-11 | 0-65527 | 0-1073741824 | 96 | 32 24 16 | 1
    a192cbc-hs384: 48 | 16 | 24 | 0-65535 | 0-1073741808 16-1073741824/16 | 112 96 | 48 16 24 | 1
    md5: 0 | 0 | 16 | 0 | 0-1073741824 | 0 | 0 0 16 | 1
    sha1: 0 | 0 | 20 | 0 | 0-1073741824 | 0 | 0 0 20 | 1
    sha224: 0 | 0 | 28 | 0 | 0-1073741824 | 0 | 0 0 28 | 1
    sha256: 0 | 0 | 32 | 0 | 0-1073741824 | 0 | 0 0 32 | 1
    sha384: 0 | 0 | 48 | 0 | 0-1073741824 | 0 | 0 0 48 | 1
    sha512: 0 | 0 | 64 | 0 | 0-1073741824 | 0 | 0 0 64 | 1
    sha3-256: 0 | 0 | 32 | 0 | 0-1073741824 | 0 | 0 0 32 | 1
    sha512-224: 0 | 0 | 28 | 0 | 0-1073741824 | 0 | 0 0 28 | 1
    sha512-256: 0 | 0 | 32 | 0 | 0-1073741824 | 0 | 0 0 32 | 1
    sha3-224: 0 | 0 | 28 | 0 | 0-1073741824 | 0 | 0 0 28 | 1
    sha3-384: 0 | 0 | 48 | 0 | 0-1073741824 | 0 | 0 0 48 | 1
    sha3-512: 0 | 0 | 64 | 0 | 0-1073741824 | 0 | 0 0 64 | 1
    shake128: 0 | 0 | 1-8192 | 0 | 0-1073741824 | 0 | 0 0 32 | 1
    shake256: 0 | 0 | 1-8192 | 0 | 0-1073741824 | 0 | 0 0 64 | 1
    blake3: 0 | 0 | 32 | 0 | 0-1073741824 | 0 | 0 0 32 | 1
    hmac-sha1: 1-16384 | 0 | 4-20 | 0 | 0-1073741824 | 0 | 20 0 20 | 1
    hmac-sha3-512: 1-16384 | 0 | 4-64 | 0 | 0-1073741824 | 0 | 64 0 64 | 1
    aes-192-cmac: 24 | 0 | 4-16 | 0 | 0-1073741824 | 0 | 24 0 16 | 1
    3des-cmac: 16-24/8 | 0 | 4-8 | 0 | 0-1073741824 | 0 | 24 0 8 | 1
    aes-256-gmac: 32 | 12 | 4-16/no-5-6-7-9-10-11 | 0 | 0-1073741824 | 0 | 32 12 16 | 1
    aes-192-gmac-any-iv: 24 | 1-128 | 4-16/no-5-6-7-9-10-11 | 0 | 0-1073741824 | 0 | 24 12 16 | 1
    kmac128: 1-16384 | 0 | 4-8192 | 0-65535 | 0-1073741824 | 0 | 16 0 32 | 1
    kmac256: 1-16384 | 0 | 4-8192 | 0-65535 | 0-1073741824 | 0 | 32 0 64 | 1
    poly1305: 32 | 0 | 16 | 0 | 0-1073741824 | 0 | 32 0 16 | 1
    des-cbc+hmac-md5: 9-16384 | 8 | 4-16 | 0-65535 | 0-1073741824/8 | 96 | 24 8 16 | 8
    aes-128-cbc+hmac-sha1: 17-16384 | 16 | 4-20 | 0-65535 | 0-1073741824/16 | 96 | 36 16 20 | 16
    aes-256-ctr+hmac-sha384: 33-16384 | 12-16/4 | 4-48 | 0-65535 | 0-1073741824 | 96 | 80 16 48 | 1
    hmac-sha1+3des-cbc: 25-16384 | 8 | 0 | 11 | 0-16384 24-16664/8 | 120 96 | 44 8 0 | 8
    hmac-sha256+aes-128-cbc: 17-16384 | 16 | 0 | 11 | 0-16384 48-16688/16 | 144 96 | 48 16 0 | 16
    hmac-sha512+aes-192-ctr: 25-16384 | 12-16/4 | 0 | 11 | 0-16384 64-16704 | 160 96 | 88 16 0 | 1
    ff1-aes-128-radix-2: 16 | 0 | 0 | 0-65535 | 40-8192/2 | 96 | 16 0 0 | 1
    aes-128-kw: 16 | 0-8/8 | 0 | 0 | 16-1073741816/8 24-1073741824/8 | 104 96 | 16 0 0 | 1
    aes-256-kwp: 32 | 0 | 0 | 0 | 1-1073741816 16-1073741824/8 | 104 96 | 32 0 0 | 1
    ff1-aes-192: 24 | 0 | 0 | 0-65535 | 12-8192/2 | 96 | 24 0 0 | 1
    ff1-aes-256-radix-65536: 32 | 0 | 0 | 0-65535 | 4-8192/2 | 96 | 32 0 0 | 1
    rsa-1024-sign-pkcs1-sha1: 1-16384 | 0 | 128-8192 128 | 0 | 0-1073741824 | 0 | 0 0 128 | 1
    rsa-4096-sign-pss-sha512: 1-16384 | 0 | 512-8192 512 | 0 | 0-1073741824 | 0 | 0 0 512 | 1
    ecdsa-p256: 1-16384 | 0 | 64-8192 64 | 0 | 0-1073741824 | 0 | 0 0 64 | 1
    ecdsa-p384: 1-16384 | 0 | 96-8192 96 | 0 | 0-1073741824 | 0 | 0 0 96 | 1
    ecdsa-p521: 1-16384 | 0 | 132-8192 132 | 0 | 0-1073741824 | 0 | 0 0 132 | 1
    ecdsa-p256-digest: 1-16384 | 0 | 64-8192 64 | 0 | 20-64 | 0 | 0 0 64 | 1
    ecdsa-p521-digest: 1-16384 | 0 | 132-8192 132 | 0 | 20-64 | 0 | 0 0 132 | 1
    ecdsa-sect163r2: 1-16384 | 0 | 42-8192 42 | 0 | 0-1073741824 | 0 | 0 0 42 | 1
    ecdsa-sect233k1: 1-16384 | 0 | 58-8192 58 | 0 | 0-1073741824 | 0 | 0 0 58 | 1
    ecdsa-sect233r1: 1-16384 | 0 | 60-8192 60 | 0 | 0-1073741824 | 0 | 0 0 60 | 1
    ed25519: 1-16384 | 0 | 64-8192 64 | 0 | 0-1073741824 | 0 | 0 0 64 | 1
    ed25519-cofactored: 1-16384 | 0 | 64-8192 64 | 0 | 0-1073741824 | 0 | 0 0 64 | 1
    ml-dsa-44: 1-16384 | 0 | 2420-8192 2420 | 0-255 | 0-1073741824 | 0 | 0 0 2420 | 1
    ml-dsa-65: 1-16384 | 0 | 3309-8192 3309 | 0-255 | 0-1073741824 | 0 | 0 0 3309 | 1
    ml-dsa-87: 1-16384 | 0 | 4627-8192 4627 | 0-255 | 0-1073741824 | 0 | 0 0 4627 | 1
    rsa-2048-encrypt-pkcs1: 1-16384 | 0 | 0 | 0 | 0-245 256 | 256 | 0 0 0 | 1
    rsa-3072-encrypt-oaep-sha256: 1-16384 | 0 | 0 | 0 | 0-318 384 | 384 | 0 0 0 | 1
    rsa-4096-encrypt-oaep-sha1: 1-16384 | 0 | 0 | 0 | 0-470 512 | 512 | 0 0 0 | 1
    dh-ffdhe2048: 1-16384 | 0 | 0 | 0 | 256 | 256 | 0 0 0 | 1
    dh-ffdhe3072: 1-16384 | 0 | 0 | 0 | 384 | 384 | 0 0 0 | 1
    dh-ffdhe4096: 1-16384 | 0 | 0 | 0 | 512 | 512 | 0 0 0 | 1
    x25519: 1-16384 | 0 | 0 | 0 | 32 | 32 | 0 0 0 | 1
    ecdh-p256: 1-16384 | 0 | 0 | 0 | 65 | 32 | 0 0 0 | 1
    ecdh-p521: 1-16384 | 0 | 0 | 0 | 133 | 66 | 0 0 0 | 1
    ecdh-sect233k1: 1-16384 | 0 | 0 | 0 | 61 | 30 | 0 0 0 | 1
    ecdsa-secp256k1-digest: 1-16384 | 0 | 64-8192 64 | 0 | 20-64 | 0 | 0 0 64 | 1
    ecdh-secp256k1: 1-16384 | 0 | 0 | 0 | 65 | 32 | 0 0 0 | 1
    ecdsa-p224: 1-16384 | 0 | 56-8192 56 | 0 | 0-1073741824 | 0 | 0 0 56 | 1
    ecdsa-p224-digest: 1-16384 | 0 | 56-8192 56 | 0 | 20-64 | 0 | 0 0 56 | 1
    ecdh-p224: 1-16384 | 0 | 0 | 0 | 57 | 28 | 0 0 0 | 1
    ecdsa-brainpoolp256r1: 1-16384 | 0 | 64-8192 64 | 0 | 0-1073741824 | 0 | 0 0 64 | 1
    ecdh-brainpoolp384r1: 1-16384 | 0 | 0 | 0 | 97 | 48 | 0 0 0 | 1
    ml-kem-512: 1-16384 | 0 | 768-8192 768 | 0 | 0 | 32 | 0 0 768 | 1
    ml-kem-768: 1-16384 | 0 | 1088-8192 1088 | 0 | 0 | 32 | 0 0 1088 | 1
    ml-kem-1024: 1-16384 | 0 | 1568-8192 1568 | 0 | 0 | 32 | 0 0 1568 | 1
    rsa-2048-raw: 1-16384 | 0 | 0 | 0 | 256 | 256 | 0 0 0 | 1
    ecdsa-secp160r1: 1-16384 | 0 | 42-8192 42 | 0 | 0-1073741824 | 0 | 0 0 42 | 1
    ecdsa-sect409k1: 1-16384 | 0 | 102-8192 102 | 0 | 0-1073741824 | 0 | 0 0 102 | 1
    ecdh-sect571r1: 1-16384 | 0 | 0 | 0 | 145 | 72 | 0 0 0 | 1
    dh-modp1536: 1-16384 | 0 | 0 | 0 | 192 | 192 | 0 0 0 | 1
    dh-modp8192: 1-16384 | 0 | 0 | 0 | 1024 | 1024 | 0 0 0 | 1
    x448: 1-16384 | 0 | 0 | 0 | 56 | 56 | 0 0 0 | 1
    generate-rsa-2048: 0 | 0 | 294-8192 | 0 | 0 | 1220 | 0 0 294 | 1
    generate-ec-p256: 0 | 0 | 91-8192 | 0 | 0 | 138 | 0 0 91 | 1
    generate-ec-p224: 0 | 0 | 80-8192 | 0 | 0 | 122 | 0 0 80 | 1
    generate-ec-brainpoolp384r1: 0 | 0 | 124-8192 | 0 | 0 | 189 | 0 0 124 | 1
    generate-ec-p521: 0 | 0 | 158-8192 | 0 | 0 | 241 | 0 0 158 | 1
    generate-x448: 0 | 0 | 56-8192 | 0 | 0 | 56 | 0 0 56 | 1
    generate-ml-kem-768: 0 | 0 | 1184-8192 | 0 | 0 | 64 | 0 0 1184 | 1
    random: 0 | 0 | 0 | 0 | 0 | 7 | 0 0 0 | 1
";

fn row(name: &str) -> String {
    let suite = suite(name);
    let lengths = |lengths: Lengths| match lengths {
        Lengths { min, max, .. } if min == max => min.to_string(),
        Lengths { min, max, step: 1, gaps: 0 } => format!("{min}-{max}"),
        Lengths { min, max, gaps: 0, step } => format!("{min}-{max}/{step}"),
        Lengths { min, max, .. } => {
            let gaps: String = (min..max).filter(|len| !lengths.contains(*len)).map(|len| format!("-{len}")).collect();
            format!("{min}-{max}/no{gaps}")
        }
    };
    let ways = |of: &dyn Fn(Direction) -> String| {
        let [forth, back] = [Direction::Encrypt, Direction::Decrypt].map(of);
        if forth == back || !suite.has_direction(Direction::Decrypt) { forth } else { format!("{forth} {back}") }
    };
    let columns = [
        lengths(suite.key_len()),
        lengths(suite.iv_len()),
        ways(&|direction| lengths(suite.tag_len(direction))),
        lengths(suite.aad_len()),
        ways(&|direction| lengths(suite.input_len(direction))),
        ways(&|direction| suite.output_len(direction, 96, 7).to_string()),
        format!("{} {} {}", suite.default_key_len(), suite.default_iv_len(), suite.default_tag_len()),
        suite.block_len().to_string(),
    ];
    format!("{name}: {}", columns.join(" | "))
}

#[test]
fn lengths_are_those_of_the_standards() {
    let rows = LENGTHS.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut families = std::collections::BTreeSet::new();
    for expected in rows {
        let name = expected.split(": ").next().unwrap_or_default();
        assert_eq!(row(name), expected);
        families.insert(suite(name).family());
    }
    let all: std::collections::BTreeSet<_> = Suite::all().map(Suite::family).collect();
    assert_eq!(families, all, "a row for each family");
}

#[test]
fn lengths_go_from_the_smallest_in_steps() {
    let lengths = Lengths::range(3, 23, 5);
    let held: Vec<usize> = (0..40).filter(|len| lengths.contains(*len)).collect();
    assert_eq!(held, [3, 8, 13, 18, 23]);
    assert!(Lengths::exactly(7).contains(7) && !Lengths::exactly(7).contains(6) && !Lengths::exactly(7).contains(8));
}

#[test]
fn lengths_may_have_gaps() {
    let lengths = Lengths::range(4, 16, 1).without(5, 7).without(9, 11);
    let held: Vec<usize> = (0..80).filter(|len| lengths.contains(*len)).collect();
    assert_eq!(held, [4, 8, 12, 13, 14, 15, 16]);
    assert_eq!([0, 4, 5, 7, 8, 9, 12, 13, 17].map(|len| lengths.round_up(len)), [4, 4, 8, 8, 8, 12, 12, 13, 16]);
    let all_but_one = Lengths::range(0, 31, 1).without(30, 30);
    assert!(!all_but_one.contains(30) && all_but_one.contains(31) && all_but_one.contains(0));
}

#[test]
fn lengths_round_up_to_one_that_is_allowed() {
    assert_eq!(Lengths::range(0, 1024, 16).round_up(8), 16);
    assert_eq!(Lengths::range(0, 1024, 16).round_up(16), 16);
    assert_eq!(Lengths::range(16, 1024, 1).round_up(0), 16);
    assert_eq!(Lengths::range(0, 1024, 16).round_up(2000), 1024);
    assert_eq!(Lengths::range(0, 1024, 16).round_up(usize::MAX), 1024);
    assert_eq!([0, 11, 12].map(|len| Lengths::exactly(11).round_up(len)), [11; 3]);
}

#[test]
fn sizes_are_those_of_the_standards() {
    assert_eq!(AesSize::ALL.map(AesSize::key_len), [16, 24, 32]);
    assert_eq!(RsaSize::ALL.map(RsaSize::bits), [1024, 2048, 3072, 4096]);
    // FIPS 198-1; SHA-3 and SHAKE by their rates (FIPS 202, table 3 and 6.2).
    let blocks = [64, 64, 64, 64, 128, 128, 128, 136, 104, 72, 168, 136, 128, 144, 64];
    assert_eq!(Digest::ALL.map(Digest::block_len), blocks);
    assert!(!Digest::ALL.into_iter().any(Digest::is_empty) && !RsaSize::ALL.into_iter().any(RsaSize::is_empty));
    assert!(!DhGroup::Ffdhe2048.is_empty() && !Signature::Ed25519.is_empty());
    // FIPS 186-5, 6.1.1: a digest at least as strong as the curve.
    let digests = [Curve::P224, Curve::P256, Curve::P384, Curve::P521, Curve::Sect233k1].map(Curve::digest);
    assert_eq!(digests, [Digest::Sha224, Digest::Sha256, Digest::Sha384, Digest::Sha512, Digest::Sha256]);
    let brainpool = [Curve::BrainpoolP256r1, Curve::BrainpoolP384r1].map(Curve::digest);
    assert_eq!(brainpool, [Digest::Sha256, Digest::Sha384]);
    assert_eq!(BlockCipher::Khafre.block_len(), 8);
}

/// NIST SP 800-38G revision 1: a domain of a million at least.
#[test]
fn numerals_are_enough_for_the_domain_whatever_the_radix() {
    let least = |radix| Ff1 { size: AesSize::Aes128, radix }.numerals_min();
    for (radix, len) in [(2, 20), (3, 13), (10, 6), (999, 3), (1000, 2), (65_535, 2), (65_536, 2)] {
        assert_eq!(least(radix), len, "{radix}");
        assert!(Ff1 { size: AesSize::Aes128, radix }.radix_is_valid());
    }
    for radix in [0, 1, 65_537] {
        assert!(!Ff1 { size: AesSize::Aes128, radix }.radix_is_valid() && least(radix) > 0, "{radix}");
    }
}

#[test]
fn chains_are_every_cipher_with_every_digest() {
    let names: Vec<String> = Suite::all().map(|suite| suite.to_string()).collect();
    for (cipher, mode) in CHAIN_CIPHERS {
        for digest in CHAIN_DIGESTS {
            for name in [format!("{cipher}-{mode}+hmac-{digest}"), format!("hmac-{digest}+{cipher}-{mode}")] {
                assert!(names.contains(&name), "{name}");
            }
        }
    }
}

/// Broken ciphers and digests, undersized keys and curves, PKCS#1 encryption (RFC 8017, 7.2) and RC4 (RFC 7465).
#[test]
fn legacy_is_what_uses_something_legacy() {
    for suite in Suite::all() {
        let name = suite.to_string();
        let is_hmac = name.starts_with("hmac-") && !name.contains('+');
        let weak_digest = match name.as_str() {
            "md5" | "sha1" | "hmac-md5" => true,
            _ if name.contains('+') => name.contains("hmac-md5"),
            _ => name.contains("-sign-") && name.ends_with("-sha1"),
        };
        let weak_cipher = ["des", "blowfish", "khufu", "khafre", "rc4", "seal"].iter().any(|weak| name.contains(weak));
        let weak_keys = ["rsa-1024", "sect", "secp160", "encrypt-pkcs1", "-raw", "modp1024", "modp1536"];
        let weak_key = weak_keys.iter().any(|weak| name.contains(weak));
        assert_eq!(suite.is_legacy(), (weak_cipher && !is_hmac) || weak_digest || weak_key, "{name}");
    }
}

#[test]
fn random_is_what_may_differ_from_run_to_run() {
    for suite in Suite::all() {
        let name = suite.to_string();
        let is_random = ["-sign-pss", "ecdsa", "ml-dsa", "-encrypt-", "ml-kem", "random", "generate-"];
        let is_random = is_random.iter().any(|part| name.contains(part));
        assert_eq!(suite.is_randomized(Direction::Encrypt), is_random, "{name}");
        assert!(!suite.is_randomized(Direction::Decrypt), "{name}");
    }
}

#[test]
fn suites_run_on_the_kernels_of_what_they_are_made_of() {
    for suite in Suite::all() {
        let name = suite.to_string();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let expected = match () {
            () if has(&["ecdsa-sect", "ecdh-sect"]) => "binary",
            () if has(&["rsa", "ecd", "25519", "448", "dh-", "generate-ec"]) => "public",
            () if has(&["ml-"]) => "lattice",
            () if has(&["aes", "cbc-hs"]) => "aes",
            () if has(&["chacha20", "poly1305"]) => "chacha20",
            () if has(&["des-"]) => "des",
            () if has(&["blowfish", "khufu", "khafre", "rc4", "seal"]) => "legacy",
            () if name == "random" => "random",
            () => "hash",
        };
        assert_eq!(suite.kernel_family(), expected, "{name}");
    }
    let families = ["aes-128-gcm", "hmac-sha1+aes-128-cbc", "ff1-aes-128-radix-36"].map(|name| suite(name).family());
    assert_eq!(families, ["AES-GCM", "MAC-then-encrypt", "FF1"]);
}

#[test]
fn a_name_that_is_off_by_a_third_at_most_gets_the_nearest_one() {
    let nearest = |name: &str| name.parse::<Suite>().expect_err("no suite").nearest;
    let cases = [
        ("aes-128-gmax", Some("aes-128-gmac")),
        // Less, more or other letters, at either end.
        ("es-128-gcm", Some("aes-128-gcm")),
        ("128-gcm", None),
        ("s-128-gcm", Some("aes-128-gcm")),
        ("xyzaes-128-gcm", Some("aes-128-gcm")),
        ("vwxyzaes-128-gcm", None),
        ("aes-128-g", Some("aes-128-gcm")),
        ("aes-12", None),
        ("chacha20-poly", Some("chacha20-poly1305")),
        // Of several that are as near the first one that is listed.
        ("aes-128-cxx", Some("aes-128-cbc")),
    ];
    for (name, expected) in cases {
        assert_eq!(nearest(name).as_deref(), expected, "{name}");
    }
    let direction = |name: &str| name.parse::<Direction>().expect_err("no direction").nearest;
    assert_eq!(direction("encrpyt").as_deref(), Some("encrypt"));
    assert_eq!(direction("decr").as_deref(), Some("decrypt"));
    assert_eq!(direction("sign"), None);
}
