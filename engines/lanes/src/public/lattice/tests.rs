//! Both schemes against RustCrypto's, where randomness is given: keys, ciphertexts, secrets and signatures are equal byte by byte.

use ciphermill_contract::suite::{Kem, MlDsaSet};
use ml_dsa::{ExpandedSigningKey, MlDsa44, MlDsa65, MlDsa87};
use ml_kem::kem::{DecapsulationKey, EncapsulationKey};
use ml_kem::{B32, Decapsulate, KeyExport, KeyInit, MlKem512, MlKem768, MlKem1024};

use super::isa::LatticeKernel;
use super::{dsa_kernels, generate_ml_dsa, generate_ml_kem, kem_ring, ml_dsa as dsa, ml_kem as kem};
use crate::select::Kernels;

/// More than lanes, and no multiple of them.
const COUNT: usize = 11;

/// Every kernel that this processor can run.
pub(super) fn kernels() -> Vec<Kernels> {
    let capable = LatticeKernel::NAMES.iter().filter(|name| LatticeKernel::detect(name).is_some());
    capable.map(|name| Kernels::choose(&[&format!("lattice={name}")]).expect("it can be run")).collect()
}

fn seeds<const N: usize>() -> Vec<[u8; N]> {
    (0..COUNT).map(|i| core::array::from_fn(|j| (i * 29) as u8 ^ (j * 7) as u8)).collect()
}

macro_rules! ml_kem_is_rustcryptos {
    ($name:ident, $set:ty, $kem:expr) => {
        #[test]
        fn $name() {
            let seeds = seeds::<64>();
            for kernels in kernels() {
                let (kernel, set) = (kernels.lattice.name(), kem::set_of($kem));
                let encoded = generate_ml_kem(&kernels, $kem, &seeds);
                let pairs = kem::key_pairs(&kernels, set, &seeds.iter().collect::<Vec<_>>());
                let mut publics: Vec<kem::PublicKey> = (0..COUNT).map(|_| Default::default()).collect();
                kem::expand(&kernels, set, &encoded.iter().map(|key| &key[..]).collect::<Vec<_>>(), &mut publics);
                let mut all = Vec::new();
                let mut expected = Vec::new();
                for (i, (public, encoded)) in publics.iter().zip(&encoded).enumerate() {
                    let private = DecapsulationKey::<$set>::new_from_slice(&seeds[i]).expect("a seed");
                    let other: &EncapsulationKey<$set> = private.encapsulation_key();
                    assert_eq!(other.to_bytes().as_slice(), &encoded[..], "{kernel}, key {i}");
                    let message = B32::from_fn(|j| (j * 3 + i) as u8);
                    let (ciphertext, secret) = other.encapsulate_deterministic(&message);
                    all.push(kem::Encapsulation::new(public, message.as_ref(), ciphertext.len()));
                    let mut damaged = ciphertext.to_vec();
                    damaged[i * 67 % ciphertext.len()] ^= 1 << (i % 8);
                    let rejected = private.decapsulate_slice(&damaged).expect("as long as it must be");
                    assert_ne!(rejected, secret);
                    expected.push((ciphertext.to_vec(), damaged, secret, rejected));
                }
                kem::encapsulate(&kernels, set, &mut all);
                for (i, (one, (ciphertext, _, secret, _))) in all.iter().zip(&expected).enumerate() {
                    assert_eq!((&one.ciphertext, &one.secret[..]), (ciphertext, secret.as_slice()), "{kernel}, {i}");
                }
                let good = pairs.iter().zip(&expected).map(|(pair, (good, ..))| (pair, &good[..]));
                let damaged = pairs.iter().zip(&expected).map(|(pair, (_, damaged, ..))| (pair, &damaged[..]));
                let secrets = kem::decapsulate(&kernels, set, &good.chain(damaged).collect::<Vec<_>>());
                let wanted = expected.iter().map(|(_, _, secret, _)| secret);
                let wanted = wanted.chain(expected.iter().map(|(.., rejected)| rejected));
                for (i, (got, wanted)) in secrets.iter().zip(wanted).enumerate() {
                    assert_eq!(&got[..], wanted.as_slice(), "{kernel}, decapsulation {i}");
                }
            }
        }
    };
}

ml_kem_is_rustcryptos!(ml_kem_512_is_rustcryptos, MlKem512, Kem::MlKem512);
ml_kem_is_rustcryptos!(ml_kem_768_is_rustcryptos, MlKem768, Kem::MlKem768);
ml_kem_is_rustcryptos!(ml_kem_1024_is_rustcryptos, MlKem1024, Kem::MlKem1024);

macro_rules! ml_dsa_is_rustcryptos {
    ($name:ident, $set:ty, $which:expr) => {
        #[test]
        fn $name() {
            let seeds = seeds::<32>();
            let messages: Vec<Vec<u8>> = (0..COUNT).map(|i| vec![i as u8; i * 37]).collect();
            // Within a block of the hash, at its end, and beyond.
            let contexts: Vec<Vec<u8>> = (0..COUNT).map(|i| vec![i as u8; [0, 69, 255, 1, 70][i % 5]]).collect();
            let given: Vec<_> =
                contexts.iter().zip(&messages).map(|(context, bytes)| dsa::Message { context, bytes }).collect();
            for kernels in kernels() {
                let (kernel, set) = (kernels.lattice.name(), dsa::set_of($which));
                let encoded = generate_ml_dsa(&kernels, $which, &seeds);
                let pairs = dsa::key_pairs(&kernels, set, &seeds.iter().collect::<Vec<_>>());
                let mut publics: Vec<dsa::PublicKey> = (0..COUNT).map(|_| Default::default()).collect();
                dsa::expand(&kernels, set, &encoded.iter().map(|key| &key[..]).collect::<Vec<_>>(), &mut publics);
                let mut expected = Vec::new();
                for (i, encoded) in encoded.iter().enumerate() {
                    let private = ExpandedSigningKey::<$set>::from_seed(&seeds[i].into());
                    assert_eq!(private.verifying_key().encode().as_slice(), &encoded[..], "{kernel}, key {i}");
                    let signature =
                        private.sign_deterministic(&messages[i], &contexts[i]).expect("no random bytes are wanted");
                    expected.push(signature.encode().to_vec());
                }
                let jobs: Vec<_> = pairs.iter().zip(given.iter().copied()).collect();
                let signed = dsa::sign_all(&kernels, set, &jobs, &[[0; 32]; COUNT], $which.signature_len());
                for (i, (signing, expected)) in signed.iter().zip(&expected).enumerate() {
                    assert!(signing.signature == *expected, "{kernel}, signature {i}");
                }
                let verify = |signatures: &[Vec<u8>]| {
                    let all = publics.iter().zip(&given).zip(signatures);
                    let all: Vec<_> = all.map(|((key, message), signature)| (key, *message, &signature[..])).collect();
                    dsa::verify_all(&kernels, set, &all)
                };
                assert_eq!(verify(&expected), [true; COUNT], "{kernel}");
                let len = $which.signature_len();
                // In the challenge, the response, its last coefficients, the hints' places and their ends.
                for at in [0, set.challenge_len, len / 2, len - set.k - set.omega - 1, len - set.k - set.omega, len - 1]
                {
                    let mut damaged = expected.clone();
                    damaged.iter_mut().for_each(|signature| signature[at] ^= 1);
                    assert_eq!(verify(&damaged), [false; COUNT], "{kernel}, byte {at}");
                }
            }
        }
    };
}

ml_dsa_is_rustcryptos!(ml_dsa_44_is_rustcryptos, MlDsa44, MlDsaSet::MlDsa44);
ml_dsa_is_rustcryptos!(ml_dsa_65_is_rustcryptos, MlDsa65, MlDsaSet::MlDsa65);
ml_dsa_is_rustcryptos!(ml_dsa_87_is_rustcryptos, MlDsa87, MlDsaSet::MlDsa87);

/// Sets and contract agree on lengths.
#[test]
fn encodings_are_as_long_as_the_contract_says() {
    for which in [Kem::MlKem512, Kem::MlKem768, Kem::MlKem1024] {
        let set = kem::set_of(which);
        assert_eq!(which.public_len(), kem_ring::POLY_LEN * set.k + 32);
        assert_eq!(which.ciphertext_len(), 32 * (set.k * set.u_bits + set.v_bits));
    }
    for which in [MlDsaSet::MlDsa44, MlDsaSet::MlDsa65, MlDsaSet::MlDsa87] {
        let set = dsa::set_of(which);
        assert_eq!(which.public_len(), dsa_kernels::T1_LEN * set.k + 32);
        assert_eq!(which.signature_len(), set.challenge_len + set.l * set.z_len() + set.omega + set.k);
    }
}

#[test]
fn public_keys_with_coefficients_that_are_not_reduced_are_found() {
    for kernels in kernels() {
        let set = kem::set_of(Kem::MlKem768);
        let mut encoded = vec![0; Kem::MlKem768.public_len()];
        assert!(kem::is_reduced(&kernels, set, &encoded));
        for coefficient in [0, 1, 255, 256, 500, 767] {
            for (value, is_reduced) in [(3328u32, true), (3329, false), (4095, false)] {
                let place = coefficient / 2 * 3;
                let shifted = if coefficient % 2 == 0 { value } else { value << 12 };
                encoded[place..place + 3].copy_from_slice(&shifted.to_le_bytes()[..3]);
                assert_eq!(kem::is_reduced(&kernels, set, &encoded), is_reduced, "{coefficient} {value}");
                encoded[place..place + 3].fill(0);
            }
        }
        assert!(!kem::is_reduced(&kernels, set, &encoded[1..]));
    }
}
