//! RSA (RFC 8017): signatures and encryption, private and public, of keys of one size side by side. Padding is hashed in the
//! hash lanes, several operations at a time. Keys are generated from primes that are looked for side by side.

mod key;
mod lanes;
mod primes;
#[cfg(test)]
mod tests;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Digest, KeyPair, PublicEncryption, RsaSize, SignPadding, Signature, lists};
use ciphermill_contract::{Capability, Cost, Direction, Directions, KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use ciphermill_pairs::padding::{self, Block, Hash, Hasher};
use ciphermill_pairs::rsa::pair_of_primes;
use zeroize::Zeroizing;

use self::key::RsaKey;
use self::lanes::{Job, PrivateJob, raise_private, raise_public};
use super::isa::PublicKernel;
use super::room::Room;
use super::{count_lanes, groups};
use crate::hash::{self, HashKernel};
use crate::select::Kernels;
use crate::work::{NoKey, Occupancy, Scratch, Work};

/// Operations that are padded together: several times the lanes, so that those that hash are full too.
const GROUP: usize = 64;

/// What a key's operations cost in microseconds, in full lanes of 512 bits, on Zen 5: private, public.
const FIGURES: [(RsaSize, f64, f64); 4] = [
    (RsaSize::Rsa1024, 11.0, 1.0),
    (RsaSize::Rsa2048, 60.0, 2.2),
    (RsaSize::Rsa3072, 180.0, 3.9),
    (RsaSize::Rsa4096, 390.0, 6.3),
];

/// What the family runs.
pub(super) fn capabilities(kernel: PublicKernel) -> Vec<Capability> {
    let (lanes, slower) = (kernel.lanes(), kernel.slower());
    let mut all = Vec::new();
    for (size, private_us, public_us) in FIGURES {
        let cost = |us: f64| Cost::new(500.0, 1000.0 * us * slower, 0.0);
        let mut add = |suites, directions, us| {
            all.push(Capability::new(suites, cost(us)).directions(directions).lanes(lanes).in_step());
        };
        for list in [lists::RSA_SIGN_PKCS1.as_slice(), &lists::RSA_SIGN_PSS] {
            add(lists::of_size(list, size), Directions::ENCRYPT, private_us);
            add(lists::of_size(list, size), Directions::DECRYPT, public_us);
        }
        for list in [lists::RSA_ENCRYPT_PKCS1.as_slice(), &lists::RSA_ENCRYPT_OAEP, &lists::RSA_RAW] {
            add(lists::of_size(list, size), Directions::ENCRYPT, public_us);
            add(lists::of_size(list, size), Directions::DECRYPT, private_us);
        }
        // Two primes, each after a test of half a private operation for every tenth of its bits' number or so. Lanes are full
        // however few keys are wanted.
        let generation_us = 0.055 * size.bits() as f64 * private_us;
        let generation = lists::generating(KeyPair::Rsa(size), 1);
        all.push(Capability::new(generation, cost(generation_us)).directions(Directions::ENCRYPT).lanes(lanes));
    }
    all
}

/// Prepares a key for a suite with a modulus of `size`.
///
/// # Errors
/// As [`RsaKey::prepare`].
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite, size: RsaSize) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, RsaKey::prepare(key, size)?))
}

/// Hashes in the hash lanes.
struct SideBySide(HashKernel);

impl Hasher for SideBySide {
    fn hash(&self, digest: Digest, messages: &[&[u8]]) -> Vec<Hash> {
        hash::digests(self.0, digest, messages)
    }
}

/// What the operations of a group have come to: an output and a tag, or why there is none.
type Outcome = Result<(Block, Block), OpStatus>;

/// Runs a batch.
pub(super) fn run(kernels: &Kernels, work: &mut Work<'_>, scratch: &mut Scratch) {
    let (suite, direction) = (work.suite(), work.direction());
    let Scratch { room, occupancy, .. } = scratch;
    if let Suite::Generate(KeyPair::Rsa(size)) = suite {
        return generate(kernels.public, work, (room, occupancy), size);
    }
    let mut machine = Machine { kernel: kernels.public, hasher: SideBySide(kernels.hash), room, occupancy };
    groups::<RsaKey>(work, GROUP, |work, group| {
        let all = match (suite, direction) {
            (Suite::Sign(Signature::Rsa(_, padding, digest)), Direction::Encrypt) => {
                machine.sign(work, group, (padding, digest))
            }
            (Suite::Sign(Signature::Rsa(_, padding, digest)), Direction::Decrypt) => {
                machine.verify(work, group, (padding, digest))
            }
            (Suite::PublicEncrypt(encryption), Direction::Encrypt) => machine.encrypt(work, group, encryption),
            (Suite::PublicEncrypt(encryption), Direction::Decrypt) => machine.decrypt(work, group, encryption),
            _ => return,
        };
        for ((index, _), outcome) in group.iter().zip(all) {
            match outcome {
                Ok((output, tag)) => work.finish(*index, &output, &tag),
                Err(status) => work.fail(*index, status),
            }
        }
    });
}

/// Generates the keys of a batch, which share the candidates that are tested.
fn generate(kernel: PublicKernel, work: &mut Work<'_>, (room, occupancy): (&mut Room, &mut Occupancy), size: RsaSize) {
    let shape = (size.bits() / 2, key::limbs_of(size) / 2);
    groups::<NoKey>(work, GROUP, |work, group| {
        let mut waiting: Vec<usize> = group.iter().map(|(index, _)| *index).collect();
        // Two primes that make no key, which nobody will ever see, are drawn again.
        while !waiting.is_empty() {
            let Some(primes) = primes::find(kernel, room, occupancy, shape, 2 * waiting.len()) else {
                return waiting.iter().for_each(|index| work.fail(*index, OpStatus::EngineFault));
            };
            let mut halves = primes.chunks_exact(2);
            waiting.retain(|index| match halves.next().and_then(|two| pair_of_primes(size, &two[0], &two[1])) {
                Some(pair) => {
                    work.finish(*index, &pair.private, &pair.public);
                    false
                }
                None => true,
            });
        }
    });
}

/// Operations by index and key.
type Group<'g, 'k> = &'g [(usize, &'k RsaKey)];

/// What operations are run with.
struct Machine<'r> {
    kernel: PublicKernel,
    hasher: SideBySide,
    room: &'r mut Room,
    occupancy: &'r mut Occupancy,
}

impl Machine<'_> {
    fn sign(&mut self, work: &Work<'_>, group: Group<'_, '_>, scheme: (SignPadding, Digest)) -> Vec<Outcome> {
        let messages: Vec<&[u8]> = group.iter().map(|(index, _)| work.input(*index)).collect();
        let len = group.first().map_or(0, |(_, key)| key.modulus.len());
        match padding::for_signatures(&self.hasher, scheme, &messages, len) {
            Ok(blocks) => {
                let blocks: Vec<Result<Block, OpStatus>> = blocks.into_iter().map(Ok).collect();
                let signed = self.private(group, &blocks);
                signed.into_iter().map(|signature| Ok((Block::default(), signature?))).collect()
            }
            Err(status) => vec![Err(status); group.len()],
        }
    }

    fn verify(&mut self, work: &Work<'_>, group: Group<'_, '_>, scheme: (SignPadding, Digest)) -> Vec<Outcome> {
        let signatures: Vec<Result<Block, OpStatus>> =
            group.iter().map(|(index, key)| number(key, work.tag_bytes(*index))).collect();
        let blocks = self.public(group, &signatures);
        let good: Vec<usize> = (0..group.len()).filter(|at| blocks[*at].is_ok()).collect();
        let messages: Vec<&[u8]> = good.iter().map(|at| work.input(group[*at].0)).collect();
        let mut outcomes: Vec<Outcome> = vec![Err(OpStatus::AuthFailed); group.len()];
        let opened: Vec<Block> = blocks.into_iter().flatten().collect();
        match padding::are_signatures(&self.hasher, scheme, &messages, &opened) {
            Ok(verdicts) => good.iter().zip(verdicts).filter(|(_, verdict)| *verdict).for_each(|(at, _)| {
                outcomes[*at] = Ok((Block::default(), Block::default()));
            }),
            Err(status) => good.iter().for_each(|at| outcomes[*at] = Err(status)),
        }
        outcomes
    }

    fn encrypt(&mut self, work: &Work<'_>, group: Group<'_, '_>, encryption: PublicEncryption) -> Vec<Outcome> {
        let messages: Vec<&[u8]> = group.iter().map(|(index, _)| work.input(*index)).collect();
        match padding::for_encryption(&self.hasher, encryption, &messages, encryption.size().len()) {
            Ok(blocks) => {
                // Only without padding may one not be below.
                let blocks: Vec<Result<Block, OpStatus>> = blocks
                    .into_iter()
                    .zip(group)
                    .map(|(block, (_, key))| below(key, &block?).ok_or(OpStatus::BadInput(Reason::NotBelowModulus)))
                    .collect();
                let sealed = self.public(group, &blocks);
                sealed.into_iter().map(|ciphertext| Ok((ciphertext?, Block::default()))).collect()
            }
            Err(status) => vec![Err(status); group.len()],
        }
    }

    fn decrypt(&mut self, work: &Work<'_>, group: Group<'_, '_>, encryption: PublicEncryption) -> Vec<Outcome> {
        let ciphertexts: Vec<Result<Block, OpStatus>> =
            group.iter().map(|(index, key)| number(key, work.input(*index))).collect();
        let blocks = self.private(group, &ciphertexts);
        let statuses: Vec<Option<OpStatus>> = blocks.iter().map(|block| block.as_ref().err().copied()).collect();
        let good: Vec<Block> = blocks.into_iter().flatten().collect();
        let mut messages = padding::open(&self.hasher, encryption, good).into_iter();
        let outcome = |status: Option<OpStatus>| match status {
            Some(status) => Err(status),
            None => match messages.next().flatten() {
                Some(message) => Ok((message, Block::default())),
                None => Err(OpStatus::AuthFailed),
            },
        };
        statuses.into_iter().map(outcome).collect()
    }

    /// Raises the numbers that there are to the public exponents.
    fn public(&mut self, group: Group<'_, '_>, numbers: &[Result<Block, OpStatus>]) -> Vec<Result<Block, OpStatus>> {
        let mut all = numbers.to_vec();
        let good: Vec<usize> = (0..group.len()).filter(|at| numbers[*at].is_ok()).collect();
        count_lanes(self.kernel, self.occupancy, good.len());
        for lanes in good.chunks(self.kernel.lanes().into()) {
            let job = |at: &usize| Some(Job { key: group[*at].1, number: numbers[*at].as_ref().ok()? });
            let jobs: Vec<Job<'_>> = lanes.iter().filter_map(job).collect();
            let raised = raise_public(self.kernel, self.room, &jobs);
            lanes.iter().zip(raised).for_each(|(at, block)| all[*at] = Ok(block));
        }
        all
    }

    /// Raises the numbers that there are to the private exponents.
    fn private(&mut self, group: Group<'_, '_>, numbers: &[Result<Block, OpStatus>]) -> Vec<Result<Block, OpStatus>> {
        let mut masks = Zeroizing::new(vec![0; 8 * group.len()]);
        if getrandom::fill(&mut masks).is_err() {
            return vec![Err(OpStatus::EngineFault); group.len()];
        }
        let mask = |at: usize| masks[4 * at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let mut all = numbers.to_vec();
        let has_private = |at: &usize| group[*at].1.private.is_some();
        for at in (0..group.len()).filter(|at| !has_private(at)) {
            all[at] = Err(OpStatus::Refused(Reason::KeyUnsuitable));
        }
        let good: Vec<usize> = (0..group.len()).filter(|at| all[*at].is_ok()).collect();
        count_lanes(self.kernel, self.occupancy, good.len());
        for lanes in good.chunks(self.kernel.lanes().into()) {
            let job = |at: &usize| {
                let (key, number) = (group[*at].1, numbers[*at].as_ref().ok()?);
                let masks = [mask(2 * at), mask(2 * at + 1)];
                Some(PrivateJob { job: Job { key, number }, private: key.private.as_ref()?, masks })
            };
            let jobs: Vec<PrivateJob<'_>> = lanes.iter().filter_map(job).collect();
            let raised = raise_private(self.kernel, self.room, &jobs);
            lanes.iter().zip(raised).for_each(|(at, block)| all[*at] = block.ok_or(OpStatus::EngineFault));
        }
        all
    }
}

/// A signature or ciphertext, which has to be below the modulus (RFC 8017, 5.1.2 and 5.2.2). Both are public.
fn number(key: &RsaKey, bytes: &[u8]) -> Result<Block, OpStatus> {
    below(key, bytes).ok_or(OpStatus::AuthFailed)
}

/// A number below the modulus. How the two compare tells no more than whether it is.
fn below(key: &RsaKey, bytes: &[u8]) -> Option<Block> {
    let is_below = bytes.len() == key.modulus.len() && *bytes < *key.modulus;
    is_below.then(|| Zeroizing::new(bytes.to_vec()))
}
