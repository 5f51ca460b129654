//! Algorithms and variants by name, and an experiment: an algorithm with its keys, of which any variant can be run.

use std::fmt;
use std::str::FromStr;

use crate::blowfish::Blowfish;
use crate::family::{Keyed, Message, SCALAR_WIDTH, Style, Subject, Work};
use crate::khufu::{Khafre, Khufu, OCTET, ROUNDS_MAX};
use crate::md5::Md5;
use crate::md5_lanes::Kernel;
use crate::rc4::Rc4;
use crate::seal::{LEN_MAX, Seal};
use crate::word::Counts;

/// The algorithms of the paper; its row "Khufu/Khafre" is two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Blowfish, blocks independent of each other.
    Blowfish,
    /// Khufu, likewise; 32 rounds unless said otherwise, as in the paper.
    Khufu,
    /// Khafre, likewise.
    Khafre,
    /// RC4.
    Rc4,
    /// SEAL 3.0.
    Seal,
    /// MD5.
    Md5,
}

/// A way of writing or running an algorithm, the paper's principles in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The paper's loop.
    Unoptimised,
    /// Unrolled, indices worked out beforehand, constants in registers.
    ComputationOriented,
    /// That, with independent work between a read and its use.
    LatencyHiding,
    /// Independent messages on all hardware threads, computation oriented: the paper's mode M1.
    ThreadParallelM1,
    /// Independent messages on all hardware threads, latency hiding: the paper's mode M2.
    ThreadParallelM2,
    /// One thread does the serial state, another the data.
    HelperThread,
    /// Many messages side by side in one thread; not in the paper.
    Lanes,
}

/// A name that nothing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    name: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Algorithm::ALL.map(Algorithm::name).join(", ");
        write!(f, "no algorithm of the experiment is called `{}`; there are {known}", self.name)
    }
}

impl std::error::Error for Unknown {}

/// A key that an algorithm does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    algorithm: Algorithm,
    len: Option<usize>,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            Some(len) => write!(f, "{} takes no key of {len} bytes", self.algorithm.name()),
            None => write!(f, "{} needs a key", self.algorithm.name()),
        }
    }
}

impl std::error::Error for KeyError {}

impl Algorithm {
    /// All of them, in the paper's order.
    pub const ALL: [Algorithm; 6] =
        [Algorithm::Blowfish, Algorithm::Khufu, Algorithm::Khafre, Algorithm::Rc4, Algorithm::Seal, Algorithm::Md5];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Blowfish => "blowfish",
            Algorithm::Khufu => "khufu",
            Algorithm::Khafre => "khafre",
            Algorithm::Rc4 => "rc4",
            Algorithm::Seal => "seal",
            Algorithm::Md5 => "md5",
        }
    }

    /// The rounds of the paper that one message of `len` bytes takes: rounds of a block, bytes (RC4), steps (SEAL, MD5).
    pub fn rounds(self, len: usize) -> usize {
        match self {
            Algorithm::Blowfish => len / 8 * 16,
            Algorithm::Khufu | Algorithm::Khafre => len / 8 * ROUNDS,
            Algorithm::Rc4 => len,
            Algorithm::Seal => len.div_ceil(16),
            Algorithm::Md5 => crate::md5::block_count(len) * crate::md5::STEPS,
        }
    }

    /// How many rounds how many bytes take.
    pub fn round_rate(self) -> &'static str {
        match self {
            Algorithm::Blowfish => "16 in 8 bytes",
            Algorithm::Khufu | Algorithm::Khafre => "32 in 8 bytes",
            Algorithm::Rc4 => "1 in 1 byte",
            Algorithm::Seal => "1 in 16 bytes",
            Algorithm::Md5 => "64 in 64 bytes",
        }
    }

    /// Whether messages have to be whole blocks of eight bytes.
    pub fn takes_blocks(self) -> bool {
        matches!(self, Algorithm::Blowfish | Algorithm::Khufu | Algorithm::Khafre)
    }

    /// Bytes of a message at most.
    pub fn len_max(self) -> usize {
        match self {
            Algorithm::Seal => LEN_MAX,
            _ => 1 << 20,
        }
    }

    /// Bytes of the keys that [`Experiment::random`] draws.
    fn key_len(self) -> usize {
        match self {
            Algorithm::Blowfish | Algorithm::Rc4 => 16,
            Algorithm::Khufu => 64,
            // With 32 rounds the number of key parts has to divide five.
            Algorithm::Khafre => 40,
            Algorithm::Seal => 20,
            Algorithm::Md5 => 0,
        }
    }
}

/// Rounds of Khufu and Khafre in the paper.
const ROUNDS: usize = 32;

impl FromStr for Algorithm {
    type Err = Unknown;

    fn from_str(name: &str) -> Result<Algorithm, Unknown> {
        let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        known.ok_or_else(|| Unknown { name: name.to_owned() })
    }
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 7] = [
        Variant::Unoptimised,
        Variant::ComputationOriented,
        Variant::LatencyHiding,
        Variant::ThreadParallelM1,
        Variant::ThreadParallelM2,
        Variant::HelperThread,
        Variant::Lanes,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Unoptimised => "unoptimised",
            Variant::ComputationOriented => "computation oriented",
            Variant::LatencyHiding => "latency hiding",
            Variant::ThreadParallelM1 => "thread parallel M1",
            Variant::ThreadParallelM2 => "thread parallel M2",
            Variant::HelperThread => "helper thread",
            Variant::Lanes => "lanes",
        }
    }

    /// Threads that it runs on, on a machine with so many.
    pub fn threads(self, threads: usize) -> usize {
        match self {
            Variant::ThreadParallelM1 | Variant::ThreadParallelM2 => threads,
            Variant::HelperThread => 2,
            _ => 1,
        }
    }
}

/// What one message takes at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What was counted.
    pub counts: Counts,
    /// Cycles of a core that begins as many instructions in each as it is taken to be able to: [`SCALAR_WIDTH`] of all
    /// kinds together, and fewer of those that compute with vectors.
    pub floor_cycles: f64,
}

impl From<Vec<Work>> for Cost {
    fn from(works: Vec<Work>) -> Cost {
        let mut counts = Counts::default();
        let mut floor_cycles = 0.0f64;
        for work in works {
            counts += work.counts;
            let computing = work.counts.instructions - work.counts.accesses();
            floor_cycles = floor_cycles.max(computing / work.width);
        }
        Cost { counts, floor_cycles: floor_cycles.max(counts.instructions / SCALAR_WIDTH) }
    }
}

/// An algorithm with its keys.
pub struct Experiment {
    algorithm: Algorithm,
    subject: Box<dyn Subject>,
    threads: usize,
}

impl Experiment {
    /// An experiment with these keys, which messages take by their numbers. MD5 takes none.
    ///
    /// # Errors
    /// [`KeyError`] when there is no key or one of a length that the algorithm does not take.
    pub fn new(algorithm: Algorithm, keys: &[Vec<u8>]) -> Result<Experiment, KeyError> {
        Experiment::with_rounds(algorithm, keys, ROUNDS)
    }

    /// As [`Experiment::new`], with so many rounds of Khufu or Khafre, a multiple of eight from 8 to 64.
    ///
    /// # Errors
    /// As there, and for a number of rounds that does not go with the keys.
    pub fn with_rounds(algorithm: Algorithm, keys: &[Vec<u8>], rounds: usize) -> Result<Experiment, KeyError> {
        let usable = |key: &Vec<u8>| match algorithm {
            Algorithm::Blowfish => (4..=56).contains(&key.len()),
            Algorithm::Khufu => (1..=64).contains(&key.len()) && are_rounds(rounds),
            Algorithm::Khafre => are_rounds(rounds) && is_khafre_key(key.len(), rounds),
            Algorithm::Rc4 => (1..=256).contains(&key.len()),
            Algorithm::Seal => key.len() == 20,
            Algorithm::Md5 => false,
        };
        if let Some(key) = keys.iter().find(|key| !usable(key)) {
            return Err(KeyError { algorithm, len: Some(key.len()) });
        }
        if keys.is_empty() && algorithm != Algorithm::Md5 {
            return Err(KeyError { algorithm, len: None });
        }
        let subject: Box<dyn Subject> = match algorithm {
            Algorithm::Blowfish => keyed(keys, Blowfish::new),
            Algorithm::Khufu => keyed(keys, |key| Khufu::new(key, rounds)),
            Algorithm::Khafre => keyed(keys, |key| Khafre::new(key, rounds)),
            Algorithm::Rc4 => keyed(keys, Rc4::new),
            Algorithm::Seal => keyed(keys, |key| Seal::new(&std::array::from_fn(|at| key[at]))),
            Algorithm::Md5 => Box::new(Md5::new(best_kernel())),
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Experiment { algorithm, subject, threads })
    }

    /// MD5 whose lanes run on this kernel, or on the baseline where the processor cannot run it.
    pub fn md5(kernel: Kernel) -> Experiment {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Experiment { algorithm: Algorithm::Md5, subject: Box::new(Md5::new(kernel)), threads }
    }

    /// An experiment with `keys` keys that follow from `seed`.
    #[expect(clippy::expect_used, reason = "`key_len` is a length that the algorithm takes with the paper's rounds")]
    pub fn random(algorithm: Algorithm, keys: usize, seed: u64) -> Experiment {
        let mut random = Random(seed);
        let keys: Vec<Vec<u8>> = match algorithm {
            Algorithm::Md5 => Vec::new(),
            _ => (0..keys.max(1)).map(|_| random.bytes(algorithm.key_len())).collect(),
        };
        Experiment::new(algorithm, &keys).expect("usable keys")
    }

    /// Messages of `len` bytes that follow from `seed`.
    pub fn messages(count: usize, len: usize, seed: u64) -> Vec<Message> {
        let mut random = Random(!seed);
        (0..count as u32).map(|number| Message::new(number, random.bytes(len))).collect()
    }

    /// Which algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Hardware threads that the parallel variants use.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The variants that the algorithm has.
    pub fn variants(&self) -> impl Iterator<Item = Variant> {
        let helped = self.subject.helped(&mut [], 0);
        Variant::ALL.into_iter().filter(move |variant| *variant != Variant::HelperThread || helped)
    }

    /// Messages side by side in the lanes, and on what.
    pub fn lanes(&self) -> String {
        self.subject.lanes_name()
    }

    /// Encrypts or digests all messages, which have one length, `passes` times. A variant that the algorithm does not
    /// have does nothing.
    pub fn run(&self, variant: Variant, messages: &mut [Message], passes: usize) {
        match variant {
            Variant::ThreadParallelM1 => self.parallel(Style::Unrolled, messages, passes),
            Variant::ThreadParallelM2 => self.parallel(Style::Hiding, messages, passes),
            Variant::HelperThread => {
                self.subject.helped(messages, passes);
            }
            Variant::Lanes => (0..passes).for_each(|_| self.subject.in_lanes(messages)),
            Variant::Unoptimised | Variant::ComputationOriented | Variant::LatencyHiding => {
                self.serial(style(variant), messages, passes);
            }
        }
    }

    fn serial(&self, style: Style, messages: &mut [Message], passes: usize) {
        for _ in 0..passes {
            self.subject.one_by_one(style, messages);
        }
    }

    fn parallel(&self, style: Style, messages: &mut [Message], passes: usize) {
        let mut shares = messages.chunks_mut(messages.len().div_ceil(self.threads).max(1));
        std::thread::scope(|scope| {
            let own = shares.next();
            for share in shares {
                scope.spawn(move || self.serial(style, share, passes));
            }
            if let Some(share) = own {
                self.serial(style, share, passes);
            }
        });
    }

    /// What a variant takes for a message of `len` bytes, on all of its threads together. A helper's hand-over through
    /// the ring is not counted: it is what the variant costs, not what the algorithm takes.
    pub fn cost(&self, variant: Variant, len: usize) -> Cost {
        match variant {
            Variant::Lanes => self.subject.count_in_lanes(len).into(),
            _ => self.subject.count(style(variant), len).into(),
        }
    }
}

/// How the code of a variant that takes one message at a time is written.
fn style(variant: Variant) -> Style {
    match variant {
        Variant::Unoptimised => Style::Straight,
        Variant::LatencyHiding | Variant::ThreadParallelM2 => Style::Hiding,
        _ => Style::Unrolled,
    }
}

fn keyed<F: crate::family::Family + 'static>(keys: &[Vec<u8>], prepare: impl Fn(&[u8]) -> F) -> Box<dyn Subject> {
    Box::new(Keyed::new(keys.iter().map(|key| prepare(key)).collect()))
}

fn best_kernel() -> Kernel {
    Kernel::available().first().copied().unwrap_or(Kernel::Baseline)
}

fn are_rounds(rounds: usize) -> bool {
    rounds.is_multiple_of(OCTET) && (OCTET..=ROUNDS_MAX).contains(&rounds)
}

/// Merkle's rule: every part of the key is used equally often.
fn is_khafre_key(len: usize, rounds: usize) -> bool {
    len > 0 && len <= 64 && len.is_multiple_of(8) && (rounds / OCTET + 1).is_multiple_of(len / 8)
}

/// SplitMix64: keys and messages of a measurement, the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next().to_le_bytes()).flatten().take(len).collect()
    }
}
