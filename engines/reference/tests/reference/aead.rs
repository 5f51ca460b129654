//! Authenticated encryption: published vectors, short tags, refusals.

use ciphermill_contract::{Direction, OpStatus, Reason};

use crate::run::{Parts, agrees, bytes, hex, run, suite};
use crate::stream::SUNSCREEN;

fn vector(name: &str, key: &str, nonce: &str, aad: &str, input: &str, output: &str, tag: &str) {
    let parts = Parts { key: hex(key), iv: hex(nonce), aad: hex(aad), input: hex(input), ..Parts::default() };
    agrees(suite(name), &parts, &hex(output), &hex(tag));
}

/// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, test cases 1, 2 and 4.
#[test]
fn aes_gcm_gives_its_authors_vectors() {
    let zero = "00000000000000000000000000000000";
    vector("aes-128-gcm", zero, &zero[..24], "", "", "", "58e2fccefa7e3061367f1d57a4e7455a");
    vector(
        "aes-128-gcm",
        zero,
        &zero[..24],
        "",
        zero,
        "0388dace60b6a392f328c2b971b2fe78",
        "ab6e47d42cec13bdf53a67b21257bddf",
    );
    vector(
        "aes-128-gcm",
        "feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        "5bc94fbc3221a5db94fae95ae7121a47",
    );
}

#[test]
fn short_tags_are_the_long_one_cut_off() {
    let parts =
        Parts { key: bytes(1, 32), iv: bytes(2, 12), aad: bytes(3, 20), input: bytes(4, 50), ..Parts::default() };
    for name in ["aes-256-gcm", "chacha20-poly1305"] {
        let full = run(suite(name), Direction::Encrypt, &Parts { tag: vec![0; 16], ..parts.clone() });
        for len in [4, 8, 12, 13, 14, 15] {
            agrees(suite(name), &parts, &full.output, &full.tag[..len]);
        }
    }
}

/// RFC 3610, section 8, packet vector 1; NIST SP 800-38C, appendix C, examples 1 to 3.
#[test]
fn aes_ccm_gives_the_vectors_of_rfc_3610_and_sp_800_38c() {
    vector(
        "aes-128-ccm",
        "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf",
        "00000003020100a0a1a2a3a4a5",
        "0001020304050607",
        "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e",
        "588c979a61c663d2f066d0c2c0f989806d5f6b61dac384",
        "17e8d12cfdf926e0",
    );
    let key = "404142434445464748494a4b4c4d4e4f";
    vector("aes-128-ccm", key, "10111213141516", "0001020304050607", "20212223", "7162015b", "4dac255d");
    vector(
        "aes-128-ccm",
        key,
        "1011121314151617",
        "000102030405060708090a0b0c0d0e0f",
        "202122232425262728292a2b2c2d2e2f",
        "d2a1f0e051ea5f62081a7792073d593d",
        "1fc64fbfaccd",
    );
    vector(
        "aes-128-ccm",
        key,
        "101112131415161718191a1b",
        "000102030405060708090a0b0c0d0e0f10111213",
        "202122232425262728292a2b2c2d2e2f3031323334353637",
        "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5",
        "484392fbc1b09951",
    );
}

#[test]
fn the_longest_ccm_nonce_leaves_two_bytes_for_the_length() {
    let mut parts =
        Parts { key: bytes(1, 16), iv: bytes(2, 13), input: vec![0x55; 65_535], tag: vec![0; 16], ..Parts::default() };
    assert_eq!(run(suite("aes-128-ccm"), Direction::Encrypt, &parts).status, OpStatus::Done);
    parts.input.push(0x55);
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let outcome = run(suite("aes-128-ccm"), direction, &parts);
        assert_eq!(outcome.status, OpStatus::BadInput(Reason::InputTooLong));
        assert!(outcome.room.iter().all(|byte| *byte == 0));
    }
    parts.iv.pop();
    assert_eq!(run(suite("aes-128-ccm"), Direction::Encrypt, &parts).status, OpStatus::Done);
}

/// RFC 8452, C.1 and C.2.
#[test]
fn aes_gcm_siv_gives_the_vectors_of_rfc_8452() {
    let nonce = "030000000000000000000000";
    let key = format!("01{}", "00".repeat(31));
    vector("aes-128-gcm-siv", &key[..32], nonce, "", "", "", "dc20e2d83f25705bb49e439eca56de25");
    vector(
        "aes-128-gcm-siv",
        &key[..32],
        nonce,
        "",
        "0100000000000000",
        "b5d839330ac7b786",
        "578782fff6013b815b287c22493a364c",
    );
    vector("aes-256-gcm-siv", &key, nonce, "", "", "", "07f5f4169bbf55a8400cd47ea6fd400f");
    vector(
        "aes-256-gcm-siv",
        &key,
        nonce,
        "",
        "0100000000000000",
        "c2ef328e5c71c83b",
        "843122130f7364b761e0b97427e3df28",
    );
}

/// RFC 5297, A.1: one component of additional data and no nonce. A.2 has two components and cannot be said here.
#[test]
fn aes_siv_gives_the_vector_of_rfc_5297() {
    vector(
        "aes-128-siv",
        "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        "",
        "101112131415161718191a1b1c1d1e1f2021222324252627",
        "112233445566778899aabbccddee",
        "40c02b9690c4dc04daef7f6afe5c",
        "85632d07c6e8f37f950acd320a2ecc93",
    );
}

/// RFC 7253, appendix A, the first four samples.
#[test]
fn aes_ocb_gives_the_samples_of_rfc_7253() {
    let key = "000102030405060708090a0b0c0d0e0f";
    let text = "0001020304050607";
    let nonce = |last: &str| format!("bbaa998877665544332211{last}");
    vector("aes-128-ocb", key, &nonce("00"), "", "", "", "785407bfffc8ad9edcc5520ac9111ee6");
    vector("aes-128-ocb", key, &nonce("01"), text, text, "6820b3657b6f615a", "5725bda0d3b4eb3a257c9af1f8f03009");
    vector("aes-128-ocb", key, &nonce("02"), text, "", "", "81017f8203f081277152fade694a0a00");
    vector("aes-128-ocb", key, &nonce("03"), "", text, "45dd69f8f5aae724", "14054cd1f35d82760b2cd00d2f99bfa9");
}

/// RFC 7253, appendix A, the iterated test with tags of 128, 96 and 64 bits: every length of data and additional data from 0 to 127 bytes.
#[test]
fn aes_ocb_gives_the_iterated_results_of_rfc_7253() {
    let results = [
        ("aes-128-ocb", 16, "67e944d23256c5e0b6c61fa22fdf1ea2"),
        ("aes-192-ocb", 24, "f673f2c3e7174aae7bae986ca9f29e17"),
        ("aes-256-ocb", 32, "d90eb8e9c977c88b79dd793d7ffa161c"),
        ("aes-128-ocb", 16, "77a3d8e73589158d25d01209"),
        ("aes-192-ocb", 24, "05d56ead2752c86be6932c5e"),
        ("aes-256-ocb", 32, "5458359ac23b0cba9e6330dd"),
        ("aes-128-ocb", 16, "192c9b7bd90ba06a"),
        ("aes-192-ocb", 24, "0066bc6e0ef34e24"),
        ("aes-256-ocb", 32, "7d4ea5d445501cbe"),
    ];
    for (name, key_len, result) in results {
        let tag_len = result.len() / 2;
        let mut key = vec![0; key_len];
        key[key_len - 1] = 8 * tag_len as u8;
        let seal = |nonce: u128, aad: &[u8], input: &[u8]| {
            let parts = Parts {
                key: key.clone(),
                iv: nonce.to_be_bytes()[4..].to_vec(),
                aad: aad.to_vec(),
                input: input.to_vec(),
                tag: vec![0; tag_len],
                ..Parts::default()
            };
            let outcome = run(suite(name), Direction::Encrypt, &parts);
            [outcome.output, outcome.tag].concat()
        };
        let mut all = Vec::new();
        for i in 0..128u8 {
            let zeros = vec![0; usize::from(i)];
            let nonce = u128::from(i) * 3;
            all.extend(seal(nonce + 1, &zeros, &zeros));
            all.extend(seal(nonce + 2, &[], &zeros));
            all.extend(seal(nonce + 3, &zeros, &[]));
        }
        assert_eq!(hex::encode(seal(385, &all, &[])), result, "{name}");
    }
}

/// RFC 8439, 2.8.2.
#[test]
fn chacha20_poly1305_gives_the_vector_of_rfc_8439() {
    let parts = Parts {
        key: (0x80..0xa0).collect(),
        iv: hex("070000004041424344454647"),
        aad: hex("50515253c0c1c2c3c4c5c6c7"),
        input: SUNSCREEN.to_vec(),
        ..Parts::default()
    };
    let output = hex("d31a8d34648e60db7b86afbc53ef7ec2 a4aded51296e08fea9e2b5a736ee62d6
        3dbea45e8ca9671282fafb69da92728b 1a71de0a9e060b2905d6a5b67ecd3b36
        92ddbd7f2d778b8c9803aee328091b58 fab324e4fad675945585808b4831d7bc
        3ff4def08e4b7a9de576d26586cec64b 6116");
    agrees(suite("chacha20-poly1305"), &parts, &output, &hex("1ae10b594f09e26a7e902ecbd0600691"));
}
