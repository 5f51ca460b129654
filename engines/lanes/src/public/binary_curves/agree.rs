//! ECDH (NIST SP 800-56A, 5.7.1.2, with a cofactor of one): a peer's point by a secret scalar.

use ciphermill_contract::{OpStatus, Reason};
use zeroize::Zeroizing;

use super::super::groups;
use super::curve::{Curve, coordinates, to_bytes};
use super::field::{Polynomial, WORDS_MAX};
use super::isa::{BinaryKernel, with_vectors};
use super::keys::{Key, Secret};
use super::multiply::{Affine, Factor, GROUPS_MAX, Multiple, Multiply};
use crate::work::{Scratch, Work};

/// The peer's value is not an uncompressed point of the group.
const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);

/// Runs a batch.
pub(super) fn run<F: Polynomial<W>, const W: usize>(
    curve: &'static Curve<F, W>,
    kernel: BinaryKernel,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
) {
    let lanes = usize::from(kernel.lanes());
    let len = F::DEGREE.div_ceil(8);
    groups::<Key<W>>(work, lanes * GROUPS_MAX, |work, ops| {
        let mut jobs: Vec<(usize, &Secret<W>, Affine<W>)> = Vec::with_capacity(ops.len());
        for (op, key) in ops {
            let peer = match work.input(*op) {
                [4, rest @ ..] => coordinates::<F, W, 2>(rest),
                _ => None,
            };
            match (&key.secret, peer) {
                (Some(secret), Some(peer)) => jobs.push((*op, secret, peer)),
                (None, _) => work.fail(*op, OpStatus::EngineFault),
                (_, None) => work.fail(*op, BAD_PUBLIC_VALUE),
            }
        }
        if jobs.is_empty() {
            return;
        }
        scratch.occupancy.add(jobs.len(), jobs.len().next_multiple_of(lanes) - jobs.len());
        let factors: Vec<Factor<'_, W>> =
            jobs.iter().map(|(_, secret, peer)| Factor { scalar: &secret.0, point: peer }).collect();
        let multiples = with_vectors(kernel, Multiply { curve, factors: &factors, checks: true });
        for ((op, ..), multiple) in jobs.iter().zip(Zeroizing::new(multiples).iter()) {
            match multiple {
                Multiple::Done([x, _]) => {
                    let mut output = Zeroizing::new([0; 8 * WORDS_MAX]);
                    to_bytes(x, &mut output[..len]);
                    work.finish(*op, &output[..len], &[]);
                }
                Multiple::BadPoint => work.fail(*op, BAD_PUBLIC_VALUE),
                Multiple::Fault => work.fail(*op, OpStatus::EngineFault),
            }
        }
    });
}
