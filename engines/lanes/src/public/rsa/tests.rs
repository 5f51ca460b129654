//! Faults in lanes, and what the engine makes of them.

use ciphermill_contract::suite::RsaSize;
use ciphermill_vectors::keys::pairs;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};

use super::key::RsaKey;
use super::lanes::{Job, PrivateJob, raise_private, raise_public};
use crate::public::fault::{Fault, with_fault};
use crate::public::isa::PublicKernel;
use crate::public::room::Room;
use ciphermill_contract::KeyMaterial;

const SIZES: [(&str, RsaSize); 4] = [
    ("rsa-1024", RsaSize::Rsa1024),
    ("rsa-2048", RsaSize::Rsa2048),
    ("rsa-3072", RsaSize::Rsa3072),
    ("rsa-4096", RsaSize::Rsa4096),
];

fn keys(name: &str, size: RsaSize) -> Vec<RsaKey> {
    let prepared = |der: &[u8]| RsaKey::prepare(&KeyMaterial::private(der), size).expect("a good key");
    pairs(name).iter().map(|pair| prepared(&pair.private)).collect()
}

/// Numbers below a modulus: small, large and in between.
fn numbers(key: &RsaKey, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for index in 0..count {
        let mut number = key.modulus.clone();
        match index % 4 {
            0 => *number.last_mut().expect("not empty") -= 1,
            1 => {
                number.fill(0);
                *number.last_mut().expect("not empty") = index as u8;
            }
            _ => number.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 37 + index * 101) as u8 >> 1),
        }
        all.push(number);
    }
    all
}

pub(super) fn kernels() -> impl Iterator<Item = PublicKernel> {
    PublicKernel::NAMES.iter().filter_map(|name| PublicKernel::detect(name))
}

fn private<'k>(key: &'k RsaKey, number: &'k [u8], mask: u32) -> PrivateJob<'k> {
    let private = key.private.as_ref().expect("a private key");
    PrivateJob { job: Job { key, number }, private, masks: [mask, !mask] }
}

/// Keys of different moduli side by side, full vectors and others, every mask.
#[test]
fn private_results_are_roots_and_public_ones_powers() {
    for (name, size) in SIZES {
        let keys = keys(name, size);
        for kernel in kernels() {
            for count in [1, usize::from(kernel.lanes())] {
                let own: Vec<&RsaKey> = (0..count).map(|index| &keys[index % keys.len()]).collect();
                let numbers: Vec<Vec<u8>> =
                    own.iter().enumerate().map(|(index, key)| numbers(key, index + 1).remove(index)).collect();
                let masks = [0, u32::MAX, 1, 0x89ab_cdef];
                let jobs: Vec<PrivateJob<'_>> =
                    (0..count).map(|index| private(own[index], &numbers[index], masks[index % 4])).collect();
                let mut room = Room::default();
                let roots: Vec<Vec<u8>> = raise_private(kernel, &mut room, &jobs)
                    .into_iter()
                    .map(|root| root.expect("no fault").to_vec())
                    .collect();
                let jobs: Vec<Job<'_>> = own.iter().zip(&roots).map(|(key, number)| Job { key, number }).collect();
                for (index, power) in raise_public(kernel, &mut room, &jobs).iter().enumerate() {
                    assert_eq!(**power, numbers[index], "{name} {}, lane {index} of {count}", kernel.name());
                    let big = |bytes: &[u8]| BoxedUint::from_be_slice(bytes, 8 * bytes.len() as u32).expect("fits");
                    let params = BoxedMontyParams::new_vartime(Odd::new(big(&own[index].modulus)).expect("odd"));
                    let root = BoxedMontyForm::new(big(&roots[index]), &params);
                    assert_eq!(root.pow(&BoxedUint::from(own[index].exponent)).retrieve(), big(&numbers[index]));
                }
            }
        }
    }
}

/// Stages of an operation: both halves, the quotient, the result.
const STAGES: usize = 4;

/// Bits that flip in any stage of any lane: that lane has no result, the others have theirs.
#[test]
fn a_fault_in_a_lane_gives_no_result() {
    let keys = keys("rsa-1024", RsaSize::Rsa1024);
    let key = keys.first().expect("a key");
    for kernel in kernels() {
        let lanes = usize::from(kernel.lanes());
        let all = numbers(key, lanes + 2).split_off(2);
        let jobs: Vec<PrivateJob<'_>> = all.iter().map(|number| private(key, number, 5)).collect();
        let good = raise_private(kernel, &mut Room::default(), &jobs);
        assert!(good.iter().all(Option::is_some));
        for stage in 0..STAGES {
            for lane in 0..lanes {
                for (limb, bits) in [(0, 1), (4, 1 << 51), (9, 1 << 20), (7, (1 << 52) - 1)] {
                    let fault = Fault { stage, lane, limb, bits };
                    let (outcome, passed) = with_fault(fault, || raise_private(kernel, &mut Room::default(), &jobs));
                    assert_eq!(passed, STAGES);
                    for (index, (outcome, good)) in outcome.iter().zip(&good).enumerate() {
                        assert_eq!(outcome.is_none(), index == lane, "stage {stage}, lane {lane}, limb {limb}");
                        assert!(index == lane || outcome == good);
                    }
                }
            }
        }
    }
}
