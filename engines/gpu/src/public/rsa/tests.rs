//! RSA on a device that works it out here, rightly or wrongly.

use std::sync::Arc;

use ciphermill_contract::suite::{Digest, PublicEncryption, RsaSize, SignPadding, Signature};
use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, Reason, Span, Suite};
use ciphermill_vectors::keys::pairs;
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{BoxedUint, NonZero, Odd, Uint};
use rsa::pkcs8::DecodePrivateKey;
use rsa::traits::{PaddingScheme, PrivateKeyParts, PublicKeyParts};
use rsa::{Oaep, Pkcs1v15Encrypt, Pkcs1v15Sign, Pss, RsaPrivateKey, RsaPublicKey};
use sha2::Sha256;

use super::super::tests::{self as frame, Fake, word};
use crate::device::Device;
use crate::keys::KeyTable;

const SIZE: RsaSize = RsaSize::Rsa1024;
const LEN: usize = 128;

fn key() -> (&'static [u8], RsaPrivateKey) {
    let der = &pairs("rsa-1024").first().expect("a pair of that size").private;
    (der, RsaPrivateKey::from_pkcs8_der(der).expect("a good key"))
}

fn prime_and_exponent(prime: &Odd<BoxedUint>, exponent: Option<&BoxedUint>) -> (Uint<8>, Uint<8>) {
    let fixed = |number: &BoxedUint| {
        let bytes = number.to_le_bytes();
        let mut own = [0; 64];
        own[..bytes.len().min(64)].copy_from_slice(&bytes[..bytes.len().min(64)]);
        Uint::from_le_slice(&own)
    };
    (fixed(prime), fixed(exponent.expect("worked out")))
}

/// Raises a number of 1,024 bits to a prime's exponent.
fn raise(number: &[u8], (prime, exponent): (Uint<8>, Uint<8>)) -> [u8; 64] {
    let modulus = NonZero::new(prime.resize::<16>()).expect("a prime");
    let reduced = Uint::<16>::from_le_slice(number).rem(&modulus).resize::<8>();
    let params = FixedMontyParams::new(Odd::new(prime).expect("odd"));
    let raised = FixedMontyForm::new(&reduced, &params).pow(&exponent).retrieve();
    raised.to_le_bytes().as_ref().try_into().expect("64 bytes")
}

/// A device that works with the key's primes; what it is wrong about is up to `spoil`, which gets the number of the
/// operation, and its two results.
fn device(spoil: impl Fn(usize, &mut [u8]) + Send + Sync + 'static) -> Arc<Fake> {
    let (_, key) = key();
    let [p, q] = key.primes() else { panic!("two primes") };
    let halves = [prime_and_exponent(p, key.dp()), prime_and_exponent(q, key.dq())];
    Fake::new(move |_, memory| {
        let (count, data_at, stride) = (word(memory, 0), 4 * word(memory, 4), 4 * word(memory, 6));
        for number in 0..count {
            let data = &mut memory[data_at + number * stride..][..LEN];
            let results = halves.map(|half| raise(data, half)).concat();
            data.copy_from_slice(&results);
            spoil(number, data);
        }
        Ok(())
    })
}

fn prepared(device: &Arc<Fake>, suite: Suite, key: &KeyMaterial<'_>) -> PreparedKey {
    let table = Arc::new(KeyTable::new(Arc::clone(device) as Arc<dyn Device>));
    let key = crate::prepare::prepare_many(&table, &[*key], suite).pop();
    key.expect("one key, one outcome").expect("a good key")
}

/// Runs operations in a batch: inputs of 128 bytes, each with 128 bytes behind it.
fn run(device: &Arc<Fake>, suite: Suite, direction: Direction, inputs: &[Vec<u8>]) -> (Vec<Op>, Vec<u8>) {
    let key = prepared(device, suite, &KeyMaterial::private(self::key().0));
    let own = vec![Some(&key); inputs.len()];
    let mut arena = vec![0x77; 2 * LEN * inputs.len()];
    let mut ops = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let at = 2 * LEN * index;
        arena[at..at + LEN].copy_from_slice(input);
        let op = Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(at as u32, LEN as u32));
        let signs = matches!(suite, Suite::Sign(_));
        ops.push(if signs { op.with_output(0).with_tag((at + LEN) as u32, LEN as u16) } else { op });
    }
    let mut queue = frame::queue(Arc::clone(device));
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("a good batch");
    super::super::run(&mut queue, &mut batch.attach_keys(&own).expect("as many keys"));
    (ops, arena)
}

fn sign(padding: SignPadding) -> Suite {
    Suite::Sign(Signature::Rsa(SIZE, padding, Digest::Sha256))
}

const OAEP: Suite = Suite::PublicEncrypt(PublicEncryption::RsaOaep(SIZE, Digest::Sha256));
const PKCS1: Suite = Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(SIZE));

/// Ciphertexts of messages of one byte, their number.
fn ciphertexts(public: &RsaPublicKey, suite: Suite, count: usize) -> Vec<Vec<u8>> {
    let encrypt = |index: usize| {
        let message = [index as u8];
        let mut random = getrandom::SysRng;
        match suite {
            OAEP => Oaep::<Sha256>::new().encrypt(&mut random, public, &message),
            _ => Pkcs1v15Encrypt.encrypt(&mut random, public, &message),
        }
    };
    (0..count).map(|index| encrypt(index).expect("room for a byte")).collect()
}

#[test]
fn signatures_verify_and_ciphertexts_open() {
    let device = device(|_, _| {});
    let public = RsaPublicKey::from(&key().1);
    // More than factors are squared for one key.
    let messages: Vec<Vec<u8>> = (0..80).map(|index| vec![index; LEN]).collect();
    for padding in [SignPadding::Pkcs1, SignPadding::Pss] {
        let (ops, arena) = run(&device, sign(padding), Direction::Encrypt, &messages);
        for (index, (op, message)) in ops.iter().zip(&messages).enumerate() {
            assert_eq!((op.status, op.tag_len), (OpStatus::Done, LEN as u16));
            let (hash, signature) = (<Sha256 as sha2::Digest>::digest(message), &arena[(2 * index + 1) * LEN..][..LEN]);
            let verified = match padding {
                SignPadding::Pkcs1 => public.verify(Pkcs1v15Sign::new::<Sha256>(), &hash, signature),
                SignPadding::Pss => public.verify(Pss::<Sha256>::new(), &hash, signature),
            };
            verified.expect("a good signature");
        }
    }
    for suite in [OAEP, PKCS1] {
        let (ops, arena) = run(&device, suite, Direction::Decrypt, &ciphertexts(&public, suite, 80));
        for (index, op) in ops.iter().enumerate() {
            assert_eq!((op.status, op.output_len), (OpStatus::Done, 1));
            assert_eq!(arena[2 * index * LEN], index as u8);
        }
    }
}

#[test]
fn the_device_never_sees_a_number_twice() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let device = Fake::new(move |_, memory| {
        let (count, data_at, stride) = (word(memory, 0), 4 * word(memory, 4), 4 * word(memory, 6));
        let numbers = (0..count).map(|number| memory[data_at + number * stride..][..LEN].to_vec());
        kept.lock().expect("not poisoned").extend(numbers);
        Ok(())
    });
    // The same message, which this padding makes the same number of.
    run(&device, sign(SignPadding::Pkcs1), Direction::Encrypt, &vec![vec![1; LEN]; 100]);
    let mut seen = seen.lock().expect("not poisoned");
    assert_eq!(seen.len(), 100);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 100);
}

#[test]
fn what_a_faulty_device_gives_goes_nowhere() {
    // One bit of one half, in every second operation; a half that is nothing; and one that is as large as can be.
    let flip = device(|number, data| data[(number * 5) % LEN] ^= u8::from(number % 2 == 1) << (number % 8));
    let none = device(|number, data| {
        if number % 2 == 1 {
            data[LEN / 2..].fill(0)
        }
    });
    let full = device(|number, data| {
        if number % 2 == 1 {
            data[..LEN / 2].fill(0xff)
        }
    });
    let public = RsaPublicKey::from(&key().1);
    let messages: Vec<Vec<u8>> = (0..64).map(|index| vec![index; LEN]).collect();
    for device in [flip, none, full] {
        for suite in [sign(SignPadding::Pkcs1), sign(SignPadding::Pss), OAEP, PKCS1] {
            let signs = matches!(suite, Suite::Sign(_));
            let direction = if signs { Direction::Encrypt } else { Direction::Decrypt };
            let inputs = if signs { messages.clone() } else { ciphertexts(&public, suite, 64) };
            let (ops, arena) = run(&device, suite, direction, &inputs);
            for (index, (op, arena)) in ops.iter().zip(arena.chunks_exact(2 * LEN)).enumerate() {
                if index % 2 == 0 {
                    assert_eq!(op.status, OpStatus::Done);
                    continue;
                }
                assert_eq!((op.status, op.output_len), (OpStatus::EngineFault, 0));
                assert!(arena[LEN..].iter().all(|byte| *byte == 0x77), "no signature");
                let room = suite.output_len(direction, LEN, 0);
                assert!(arena[..room].iter().all(|byte| *byte == 0), "no message");
            }
        }
    }
}

#[test]
fn tampered_ciphertexts_and_public_keys_end_before_and_behind_the_device() {
    let device = device(|_, _| {});
    let (_, private) = key();
    let public = RsaPublicKey::from(&private);
    for suite in [OAEP, PKCS1] {
        let mut inputs = ciphertexts(&public, suite, 3);
        inputs[0][LEN - 1] ^= 1;
        // The modulus itself, and what is above it.
        inputs[1].copy_from_slice(&public.n_bytes());
        inputs[2].fill(0xff);
        let (ops, arena) = run(&device, suite, Direction::Decrypt, &inputs);
        assert!(ops.iter().all(|op| op.status == OpStatus::AuthFailed && op.output_len == 0));
        let room = suite.output_len(Direction::Decrypt, LEN, 0);
        assert!(arena.chunks_exact(2 * LEN).all(|arena| arena[..room].iter().all(|byte| *byte == 0)));
        let der = &pairs("rsa-1024").first().expect("a pair").public;
        let key = prepared(&device, suite, &KeyMaterial::public(der));
        let mut ops = [Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(0, LEN as u32))];
        let mut arena = vec![1; LEN];
        let mut batch = Batch::new(suite, Direction::Decrypt, &mut ops, &mut arena).check().expect("a good batch");
        let mut queue = frame::queue(Arc::clone(&device));
        super::super::run(&mut queue, &mut batch.attach_keys(&[Some(&key)]).expect("one key"));
        assert_eq!(ops[0].status, OpStatus::Refused(Reason::KeyUnsuitable));
    }
}
