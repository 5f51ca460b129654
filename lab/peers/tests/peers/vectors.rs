//! Published vectors, so that agreement between engines is not the only thing that the tests know.

use std::sync::Arc;

use ciphermill_contract::{Direction, Engine, KeyId, Op, OpStatus, Span, Suite};

use crate::available;
use crate::workload::Workload;

struct Vector {
    source: &'static str,
    suite: &'static str,
    key: &'static str,
    iv: &'static str,
    aad: &'static str,
    input: &'static str,
    output: &'static str,
    tag: &'static str,
}

const NOTHING: Vector = Vector { source: "", suite: "", key: "", iv: "", aad: "", input: "", output: "", tag: "" };

/// "what do ya want for nothing?"
const WANT: &str = "7768617420646f2079612077616e7420666f72206e6f7468696e673f";
/// "Jefe"
const JEFE: &str = "4a656665";
/// The four blocks of NIST SP 800-38A, appendix F.
const SP800_38A: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

const VECTORS: &[Vector] = &[
    Vector {
        source: "NIST SP 800-38A, F.2.1",
        suite: "aes-128-cbc",
        key: "2b7e151628aed2a6abf7158809cf4f3c",
        iv: "000102030405060708090a0b0c0d0e0f",
        input: SP800_38A,
        output: "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
                 73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
        ..NOTHING
    },
    Vector {
        source: "NIST SP 800-38A, F.5.5",
        suite: "aes-256-ctr",
        key: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        iv: "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        input: SP800_38A,
        output: "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
                 2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
        ..NOTHING
    },
    Vector {
        source: "FIPS 81, table C1",
        suite: "des-cbc",
        key: "0123456789abcdef",
        iv: "1234567890abcdef",
        input: "4e6f77206973207468652074696d6520666f7220616c6c20",
        output: "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6",
        ..NOTHING
    },
    Vector {
        source: "NIST SP 800-67, B.1 (first block; CBC with a zero IV is ECB there)",
        suite: "3des-cbc",
        key: "0123456789abcdef23456789abcdef01456789abcdef0123",
        iv: "0000000000000000",
        input: "5468652071756663",
        output: "a826fd8ce53b855f",
        ..NOTHING
    },
    Vector {
        source: "RFC 2202, 2, case 2",
        suite: "hmac-md5",
        key: JEFE,
        input: WANT,
        tag: "750c783e6ab0b503eaa86e310a5db738",
        ..NOTHING
    },
    Vector {
        source: "RFC 2202, 3, case 2",
        suite: "hmac-sha1",
        key: JEFE,
        input: WANT,
        tag: "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        ..NOTHING
    },
    Vector {
        source: "RFC 4231, case 2",
        suite: "hmac-sha256",
        key: JEFE,
        input: WANT,
        tag: "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ..NOTHING
    },
    Vector {
        source: "McGrew and Viega, The Galois/Counter Mode of Operation, case 4",
        suite: "aes-128-gcm",
        key: "feffe9928665731c6d6a8f9467308308",
        iv: "cafebabefacedbaddecaf888",
        aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        input: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        output: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                 21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        tag: "5bc94fbc3221a5db94fae95ae7121a47",
    },
    Vector {
        source: "RFC 4493, 4, example 3",
        suite: "aes-128-cmac",
        key: "2b7e151628aed2a6abf7158809cf4f3c",
        input: "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411",
        tag: "dfa66747de9ae63030ca32611497c827",
        ..NOTHING
    },
    Vector {
        source: "FIPS 180-4 examples, SHA-256 of \"abc\"",
        suite: "sha256",
        input: "616263",
        tag: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ..NOTHING
    },
    Vector {
        source: "RFC 5297, A.1",
        suite: "aes-128-siv",
        key: "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        aad: "101112131415161718191a1b1c1d1e1f2021222324252627",
        input: "112233445566778899aabbccddee",
        output: "40c02b9690c4dc04daef7f6afe5c",
        tag: "85632d07c6e8f37f950acd320a2ecc93",
        ..NOTHING
    },
    Vector {
        source: "NIST SP 800-38G, FF1 sample 1 (numerals of two bytes)",
        suite: "ff1-aes-128",
        key: "2b7e151628aed2a6abf7158809cf4f3c",
        input: "0000010002000300040005000600070008000900",
        output: "0200040003000300040007000700040008000400",
        ..NOTHING
    },
];

impl Vector {
    fn workload(&self, direction: Direction) -> Workload {
        let suite: Suite = self.suite.parse().expect("a suite's name");
        let bytes = |text: &str| hex::decode(text).expect("hexadecimal digits");
        let from = if direction == Direction::Encrypt || self.output.is_empty() { self.input } else { self.output };
        let input = bytes(from);
        let (aad, tag) = (bytes(self.aad), bytes(self.tag));
        let mut arena = aad.clone();
        arena.extend(&input);
        if direction == Direction::Encrypt {
            arena.resize(arena.len() + tag.len(), 0);
        } else {
            arena.extend(&tag);
        }
        let key = if suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
        let op = Op::in_place(key, Span::new(aad.len() as u32, input.len() as u32))
            .with_iv(&bytes(self.iv))
            .with_aad(0, aad.len() as u16)
            .with_tag((aad.len() + input.len()) as u32, tag.len() as u16);
        Workload { suite, direction, keys: vec![bytes(self.key)], ops: vec![op], arena }
    }

    /// What the arena must hold afterwards.
    fn expected(&self, direction: Direction) -> Vec<u8> {
        let text = if direction == Direction::Decrypt || self.output.is_empty() { self.input } else { self.output };
        hex::decode([self.aad, text, self.tag].concat()).expect("hexadecimal digits")
    }
}

#[test]
fn published_vectors_come_out() {
    let has_symmetric = |engine: &Arc<dyn Engine>| {
        engine.capabilities().iter().any(|capability| capability.suites.iter().any(|suite| !suite.is_public_key()))
    };
    for engine in available().into_iter().filter(has_symmetric) {
        let mut count = 0;
        let claims = |vector: &Vector| {
            let suite = vector.workload(Direction::Encrypt).suite;
            engine.capabilities().iter().any(|capability| capability.covers(suite, Direction::Encrypt))
        };
        for vector in VECTORS {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let mut workload = vector.workload(direction);
                if !engine.capabilities().iter().any(|capability| capability.covers(workload.suite, direction)) {
                    continue;
                }
                workload.run(&*engine);
                let case = format!("{}, {} {direction}: {}", engine.info().name, vector.suite, vector.source);
                assert_eq!(workload.ops[0].status, OpStatus::Done, "{case}");
                assert_eq!(hex::encode(&workload.arena), hex::encode(vector.expected(direction)), "{case}");
                count += 1;
            }
        }
        let claimed = VECTORS.iter().filter(|vector| claims(vector)).count();
        assert!(claimed >= 2 && count >= claimed, "{} ran {count} of {claimed}", engine.info().name);
    }
}
