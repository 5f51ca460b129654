//! Digests and HMAC (RFC 2104) over many messages side by side: MD5, SHA-1, SHA-2, SHA-3; SHAKE without
//! HMAC.
//!
//! [`vector`] are the instruction sets, [`algorithms`] the compression functions, [`driver`] has messages of any lengths
//! share the lanes. An HMAC key is imported as the chaining values behind its two padded blocks, so that a short message
//! costs two blocks. Few messages go by the processor's SHA instructions, two at a time ([`pairs`], [`sha_ni`]), or one
//! after the other ([`alone`], [`sha_512`]).

mod algorithms;
#[cfg(target_arch = "x86_64")]
mod alone;
mod constants;
mod driver;
mod long;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sha_512;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
mod source;
pub(crate) mod sponge;
#[cfg(target_arch = "x86_64")]
mod v256;
#[cfg(target_arch = "x86_64")]
mod v512;
mod vector;

use core::any::Any;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Digest, Mac, lists};
use ciphermill_contract::{Capability, Cost, Directions, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop};

#[cfg(target_arch = "x86_64")]
use crate::instruction_set::InstructionSet;
use crate::work::{Item, NoKey, Scratch, Work};
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx2, Avx512, ShaNi};
use algorithms::{Algorithm, Form, Instructions, Md5, Sha1, Sha256, Sha512, Sponge, Variant, midstate_len};
use portable::{Portable, Scalar};
pub(crate) use source::{DIGEST_MAX, Digest as Tag, Message, is_tag};
use source::{Few, Source};

/// The kernel that runs digests, with the proof that it can.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HashKernel {
    /// AVX-512: 16 messages, 8 of those with words of 64 bits. Few go by the SHA instructions where there are any.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512, Option<ShaNi>),
    /// The SHA instructions, two messages, where those are faster than AVX2; else as AVX2, where there is that.
    #[cfg(target_arch = "x86_64")]
    ShaNi(ShaNi, Option<Avx2>),
    /// AVX2: 8 and 4. Few as above.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2, Option<ShaNi>),
    /// Arrays: 4 and 2.
    Portable,
}

impl HashKernel {
    /// The kernels' names, the preferred ones first.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const NAMES: &'static [&'static str] = &[Avx512::NAME, ShaNi::NAME, Avx2::NAME, "portable"];
    /// The kernels' names.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) const NAMES: &'static [&'static str] = &["portable"];

    /// The kernel of this name, when this processor can run it.
    pub(crate) fn detect(name: &str) -> Option<HashKernel> {
        match name {
            #[cfg(target_arch = "x86_64")]
            Avx512::NAME => Avx512::detect().map(|isa| HashKernel::Avx512(isa, ShaNi::detect())),
            #[cfg(target_arch = "x86_64")]
            ShaNi::NAME => ShaNi::detect().map(|sha| HashKernel::ShaNi(sha, Avx2::detect())),
            #[cfg(target_arch = "x86_64")]
            Avx2::NAME => Avx2::detect().map(|isa| HashKernel::Avx2(isa, ShaNi::detect())),
            "portable" => Some(HashKernel::Portable),
            _ => None,
        }
    }

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            HashKernel::Avx512(..) => Avx512::NAME,
            #[cfg(target_arch = "x86_64")]
            HashKernel::ShaNi(..) => ShaNi::NAME,
            #[cfg(target_arch = "x86_64")]
            HashKernel::Avx2(..) => Avx2::NAME,
            HashKernel::Portable => "portable",
        }
    }

    /// When lanes leave messages to another way; `long` ones have at least [`LONG_LEN`] bytes.
    fn few<A: Algorithm>(self, long: bool) -> Few {
        #[cfg(target_arch = "x86_64")]
        {
            let (worth, pairs, alone) = match (self.sha(), A::INSTRUCTIONS, self.avx2(), A::ALONE) {
                (Some(sha), Some(instructions), ..) => (instructions.worth(long), Some(sha), None),
                (.., Some(isa), Some(worth)) => (worth, None, Some(isa)),
                _ => (A::WORTH, None, None),
            };
            let below = match self {
                HashKernel::Avx512(..) => worth.avx512,
                HashKernel::ShaNi(_, Some(_)) | HashKernel::Avx2(..) => worth.avx2,
                _ => worth.portable,
            };
            Few { below, pairs, alone }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Few { below: A::WORTH.portable }
    }

    /// The SHA instructions, where this kernel has them.
    #[cfg(target_arch = "x86_64")]
    fn sha(self) -> Option<ShaNi> {
        match self {
            HashKernel::Avx512(_, sha) | HashKernel::Avx2(_, sha) => sha,
            HashKernel::ShaNi(sha, _) => Some(sha),
            HashKernel::Portable => None,
        }
    }

    /// AVX2, where this kernel has it.
    #[cfg(target_arch = "x86_64")]
    fn avx2(self) -> Option<Avx2> {
        match self {
            HashKernel::Avx512(isa, _) => Some(isa.base()),
            HashKernel::Avx2(isa, _) => Some(isa),
            HashKernel::ShaNi(_, isa) => isa,
            HashKernel::Portable => None,
        }
    }

    /// The SHA instructions, where so many messages go by them. Pairs take two thirds of the time of eight lanes for
    /// SHA-256, and one and a quarter to one and a half for SHA-1 (82 and 131 ns for 64 bytes, 112 and 88).
    #[cfg(target_arch = "x86_64")]
    fn pairs<A: Algorithm>(self, count: usize, long: bool) -> Option<ShaNi> {
        let few = self.few::<A>(long);
        let always = match self {
            HashKernel::ShaNi(_, None) => true,
            HashKernel::ShaNi(..) => A::INSTRUCTIONS == Some(Instructions::Sha256),
            _ => false,
        };
        few.pairs.filter(|_| always || count < few.below as usize)
    }

    /// Messages side by side, with words of 32 bits.
    fn lanes(self) -> u16 {
        match self {
            #[cfg(target_arch = "x86_64")]
            HashKernel::Avx512(..) => 16,
            #[cfg(target_arch = "x86_64")]
            HashKernel::ShaNi(_, Some(_)) | HashKernel::Avx2(..) => 8,
            _ => 4,
        }
    }
}

/// From how many bytes on a message is long.
const LONG_LEN: u32 = 1024;

/// Operations that are ordered at a time: a few times as many as lanes, so that they stay in the first-level cache.
const WINDOW: usize = 512;

/// HMAC's two midstates, `N` words of 64 bits.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
struct HmacKey<const N: usize>([u64; N]);

const SHORT: usize = 8;
const MIDDLE: usize = 16;
const LONG: usize = 56;

const _: () = assert!(
    2 * midstate_len::<Md5>() <= 8 * SHORT
        && 2 * midstate_len::<Sha256>() <= 8 * SHORT
        && 2 * midstate_len::<Sha512>() <= 8 * MIDDLE
        && 2 * midstate_len::<Sponge<136>>() <= 8 * LONG
);

/// Digests that lanes run: all but those of 224 bits in words of 64, of which they are no whole number, and BLAKE3, which stand
/// last.
const DIGESTS: usize = 12;
/// HMACs that lanes run: the same.
const HMACS: usize = 10;

const _: () = assert!(
    matches!(lists::DIGESTS[DIGESTS], Suite::Digest(Digest::Sha512_224))
        && matches!(lists::HMAC[HMACS], Suite::Mac(Mac::Hmac(Digest::Sha512_224)))
);

/// The same expression for whichever algorithm a digest names.
macro_rules! each {
    ($digest:expr, $A:ident, $variant:ident => $work:expr) => {
        match $digest {
            Digest::Md5 => {
                type $A = Md5;
                let $variant = Variant::MD5;
                $work
            }
            Digest::Sha1 => {
                type $A = Sha1;
                let $variant = Variant::SHA1;
                $work
            }
            Digest::Sha224 => {
                type $A = Sha256;
                let $variant = Variant::SHA224;
                $work
            }
            Digest::Sha256 => {
                type $A = Sha256;
                let $variant = Variant::SHA256;
                $work
            }
            Digest::Sha384 => {
                type $A = Sha512;
                let $variant = Variant::SHA384;
                $work
            }
            Digest::Sha512 => {
                type $A = Sha512;
                let $variant = Variant::SHA512;
                $work
            }
            Digest::Sha512_256 => {
                type $A = Sha512;
                let $variant = Variant::SHA512_256;
                $work
            }
            Digest::Sha3_384 => {
                type $A = Sponge<104>;
                let $variant = Variant::SHA3_384;
                $work
            }
            Digest::Sha3_256 => {
                type $A = Sponge<136>;
                let $variant = Variant::SHA3_256;
                $work
            }
            Digest::Sha3_512 => {
                type $A = Sponge<72>;
                let $variant = Variant::SHA3_512;
                $work
            }
            Digest::Shake128 => {
                type $A = Sponge<168>;
                let $variant = Variant::SHAKE128;
                $work
            }
            Digest::Shake256 => {
                type $A = Sponge<136>;
                let $variant = Variant::SHAKE256;
                $work
            }
            Digest::Sha512_224 | Digest::Sha3_224 | Digest::Blake3 => unreachable!("no capability names it"),
        }
    };
}

pub(crate) fn capabilities(kernel: HashKernel) -> Vec<Capability> {
    let lanes = kernel.lanes();
    let mut all = Vec::new();
    for figures in FIGURES {
        // Those of vectors of 512 bits.
        let slower = f64::from(vector::LANES_MAX as u16 / lanes);
        let few = Cost::new(20.0, figures.alone_ns, figures.alone_byte_ns);
        let of = |suites, op_ns: f64, few| {
            Capability::new(suites, Cost::new(40.0, op_ns * slower, figures.byte_ns * slower)).lanes(lanes).few(few)
        };
        all.push(of(figures.plain, figures.op_ns, few).directions(Directions::ENCRYPT));
        let keyed = Cost::new(20.0, figures.alone_ns * HMAC_OPS, figures.alone_byte_ns);
        all.push(of(figures.keyed, figures.op_ns * HMAC_OPS, keyed));
    }
    all
}

/// What an HMAC of a short message costs by a digest of one: two blocks, whose midstates are at hand.
const HMAC_OPS: f64 = 1.8;

/// What digests of one kind cost, as [`Cost`] has it.
struct Figures {
    plain: &'static [Suite],
    keyed: &'static [Suite],
    /// With full lanes.
    op_ns: f64,
    byte_ns: f64,
    /// One after the other.
    alone_ns: f64,
    alone_byte_ns: f64,
}

const fn figures(digests: [usize; 2], hmacs: [usize; 2], full: [f64; 2], alone: [f64; 2]) -> Figures {
    Figures {
        plain: lists::DIGESTS.split_at(digests[1]).0.split_at(digests[0]).1,
        keyed: lists::HMAC.split_at(hmacs[1]).0.split_at(hmacs[0]).1,
        op_ns: full[0],
        byte_ns: full[1],
        alone_ns: alone[0],
        alone_byte_ns: alone[1],
    }
}

/// Digests and HMACs by their places in the lists: MD5, SHA-1, the two widths of SHA-2, SHA-3 and SHAKE.
const FIGURES: [Figures; 6] = [
    figures([0, 1], [0, 1], [14.0, 0.15], [250.0, 2.5]),
    figures([1, 2], [1, 2], [17.0, 0.093], [35.0, 0.48]),
    figures([2, 4], [2, 4], [21.0, 0.155], [35.0, 0.51]),
    figures([4, 7], [4, 7], [24.0, 0.18], [115.0, 0.91]),
    figures([7, 10], [7, 10], [28.0, 0.24], [220.0, 1.95]),
    figures([10, 12], [10, 10], [28.0, 0.22], [220.0, 1.9]),
];

/// Prepares an HMAC key.
pub(crate) fn prepare(key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let Suite::Mac(Mac::Hmac(digest)) = suite else { return Err(KeyProblem::Parameters) };
    Ok(match digest {
        Digest::Md5 | Digest::Sha1 | Digest::Sha224 | Digest::Sha256 => {
            PreparedKey::for_suite(suite, hmac_key::<SHORT>(digest, key))
        }
        Digest::Sha384 | Digest::Sha512 | Digest::Sha512_256 => {
            PreparedKey::for_suite(suite, hmac_key::<MIDDLE>(digest, key))
        }
        Digest::Sha3_256 | Digest::Sha3_384 | Digest::Sha3_512 => {
            PreparedKey::for_suite(suite, hmac_key::<LONG>(digest, key))
        }
        Digest::Sha512_224 | Digest::Sha3_224 | Digest::Shake128 | Digest::Shake256 | Digest::Blake3 => {
            return Err(KeyProblem::Parameters);
        }
    })
}

fn hmac_key<const N: usize>(digest: Digest, key: &[u8]) -> HmacKey<N> {
    let mut midstates = HmacKey([0; N]);
    each!(digest, A, variant => driver::midstates::<A>(variant, key, &mut midstates.0));
    midstates
}

/// Runs a batch.
pub(crate) fn run(kernel: HashKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Digest(Digest::Shake128) => long::run::<168>(work, Variant::SHAKE128),
        Suite::Digest(Digest::Shake256) => long::run::<136>(work, Variant::SHAKE256),
        _ => {}
    }
    match work.suite() {
        Suite::Digest(digest) => each!(digest, A, variant => {
            run_with::<A, NoKey>(kernel, work, scratch, Form { variant, hmac: false });
        }),
        Suite::Mac(Mac::Hmac(digest)) => match digest {
            Digest::Md5 | Digest::Sha1 | Digest::Sha224 | Digest::Sha256 => {
                each!(digest, A, variant => {
                    run_with::<A, HmacKey<SHORT>>(kernel, work, scratch, Form { variant, hmac: true });
                });
            }
            Digest::Sha384 | Digest::Sha512 | Digest::Sha512_256 => {
                each!(digest, A, variant => {
                    run_with::<A, HmacKey<MIDDLE>>(kernel, work, scratch, Form { variant, hmac: true });
                });
            }
            _ => each!(digest, A, variant => {
                run_with::<A, HmacKey<LONG>>(kernel, work, scratch, Form { variant, hmac: true });
            }),
        },
        _ => {}
    }
}

/// Runs a batch whose keys are `K`.
fn run_with<A: Algorithm, K: Any>(kernel: HashKernel, work: &mut Work<'_>, scratch: &mut Scratch, form: Form) {
    let blocks = |item: &Item| (item.len as usize + A::LENGTH) / A::BLOCK;
    let mut next = 0;
    while scratch.collect_by::<K>(work, &mut next, WINDOW, blocks) {
        let count = scratch.ordered.len();
        // The last has the fewest blocks.
        let long = scratch.ordered.last().is_some_and(|item| item.len >= LONG_LEN);
        let mut source = Source::Batch { work, items: &scratch.ordered, midstates: form.hmac };
        // SAFETY: messages of a batch have no heads; HMAC's items have been collected with their midstates.
        unsafe { digest_with::<A>(kernel, &mut source, form, count, long) };
    }
}

/// HMAC over messages of a chain; the digest of message `n` goes to `digests[n]`, where `n` is its name.
///
/// # Safety
/// What [`Message`] promises, for `digest`, of which there are SHA-1 and SHA-256.
pub(crate) unsafe fn hmacs(kernel: HashKernel, digest: Digest, messages: &[Message], digests: &mut [Tag]) {
    let count = messages.len();
    let mut source = Source::List { messages, digests };
    // SAFETY: the caller's promise.
    unsafe {
        match digest {
            Digest::Sha1 => {
                digest_with::<Sha1>(kernel, &mut source, Form { variant: Variant::SHA1, hmac: true }, count, false)
            }
            _ => {
                digest_with::<Sha256>(kernel, &mut source, Form { variant: Variant::SHA256, hmac: true }, count, false)
            }
        }
    }
}

/// The digests of messages, side by side, each in the first bytes of its tag.
pub(crate) fn digests(kernel: HashKernel, digest: Digest, messages: &[&[u8]]) -> Vec<Tag> {
    let messages: Vec<(&[u8], &[u8])> = messages.iter().map(|message| (&[][..], *message)).collect();
    digests_with_heads(kernel, digest, &messages)
}

/// The digests of messages with something before each: fewer bytes than the digest's block.
pub(crate) fn digests_with_heads(kernel: HashKernel, digest: Digest, messages: &[(&[u8], &[u8])]) -> Vec<Tag> {
    let mut digests = vec![[0; DIGEST_MAX]; messages.len()];
    let message = |(name, (head, data)): (usize, &(&[u8], &[u8]))| Message {
        head: head.as_ptr(),
        head_len: head.len(),
        data: data.as_ptr(),
        len: data.len(),
        midstates: core::ptr::null(),
        name: name as u32,
    };
    let all: Vec<Message> = messages.iter().enumerate().map(message).collect();
    let mut source = Source::List { messages: &all, digests: &mut digests };
    each!(digest, A, variant => {
        assert!(messages.iter().all(|(head, _)| head.len() < A::BLOCK), "a head of a block and more");
        // SAFETY: heads and messages are borrowed until here, and the heads as short as they must be; plain digests read no
        // midstates.
        unsafe { digest_with::<A>(kernel, &mut source, Form { variant, hmac: false }, messages.len(), false) };
    });
    digests
}

/// Digests `count` messages of a source, which may be known to be long.
///
/// # Safety
/// As in [`driver::digest_all`].
unsafe fn digest_with<A: Algorithm>(
    kernel: HashKernel,
    source: &mut Source<'_, '_>,
    form: Form,
    count: usize,
    long: bool,
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(sha) = kernel.pairs::<A>(count, long) {
        // SAFETY: the caller's promise.
        return unsafe { pairs::digest::<A>(sha, &[], source, form) };
    }
    let few = kernel.few::<A>(long);
    // SAFETY: the caller's promise; an `Avx512` or `Avx2` exists only where it was detected.
    unsafe {
        if count < few.below as usize {
            #[cfg(target_arch = "x86_64")]
            if let Some(isa) = few.alone {
                return alone::digest_all(isa, source, form);
            }
            return driver::digest_all::<_, A>(Scalar, source, form, Few::NEVER);
        }
        match kernel {
            #[cfg(target_arch = "x86_64")]
            HashKernel::Avx512(isa, _) => on_avx512::<A>(isa, source, form, few),
            #[cfg(target_arch = "x86_64")]
            HashKernel::ShaNi(_, Some(isa)) | HashKernel::Avx2(isa, _) => on_avx2::<A>(isa, source, form, few),
            _ => driver::digest_all::<_, A>(Portable, source, form, few),
        }
    }
}

#[cfg(target_arch = "x86_64")]
crate::x86::with_avx512! {
    /// # Safety
    /// As in [`driver::digest_all`].
    unsafe fn on_avx512<A: Algorithm>(isa: Avx512, source: &mut Source<'_, '_>, form: Form, few: Few) {
        // SAFETY: the caller's promise.
        unsafe { driver::digest_all::<_, A>(isa, source, form, few) }
    }
}

#[cfg(target_arch = "x86_64")]
crate::x86::with_avx2! {
    /// # Safety
    /// As in [`driver::digest_all`].
    unsafe fn on_avx2<A: Algorithm>(isa: Avx2, source: &mut Source<'_, '_>, form: Form, few: Few) {
        // SAFETY: the caller's promise.
        unsafe { driver::digest_all::<_, A>(isa, source, form, few) }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// SHA-512 of few messages is computed one after the other.
    #[test]
    fn few_messages_with_long_words_are_digested_alone() {
        for (name, below) in [("avx512", 3), ("avx2", 4), ("sha-ni", 4)] {
            let Some(kernel) = HashKernel::detect(name).filter(|kernel| kernel.avx2().is_some()) else { continue };
            let few = kernel.few::<Sha512>(false);
            assert_eq!((few.below, few.alone.is_some(), few.pairs.is_some()), (below, true, false), "{name}");
            assert!(kernel.few::<Sha256>(false).alone.is_none() && kernel.few::<Sponge<136>>(false).alone.is_none());
        }
        assert!(HashKernel::Portable.few::<Sha512>(false).alone.is_none());
    }

    /// What comes before a message counts as its beginning, whatever both are long.
    #[test]
    fn heads_are_hashed_before_their_messages() {
        let data: Vec<u8> = (0..600).map(|i| (i * 7 % 251) as u8).collect();
        let cut = |i: usize| (i * 13 % 128, 128 + i * 29 % 400);
        for kernel in HashKernel::NAMES.iter().filter_map(|name| HashKernel::detect(name)) {
            for count in [1, 2, 8, 21] {
                let parts: Vec<(&[u8], &[u8])> = (0..count).map(cut).map(|(a, b)| data[..b].split_at(a)).collect();
                let whole: Vec<&[u8]> = (0..count).map(cut).map(|(_, b)| &data[..b]).collect();
                let got = digests_with_heads(kernel, Digest::Sha512, &parts);
                assert_eq!(got, digests(kernel, Digest::Sha512, &whole), "{count} by {}", kernel.name());
            }
        }
    }

    /// How many messages go by the SHA instructions, if not all, by kernel.
    #[test]
    fn the_sha_instructions_run_few_messages_and_what_they_are_faster_at() {
        let by = |name: &str, count| {
            let kernel = HashKernel::detect(name)?;
            kernel.sha()?;
            Some([
                kernel.pairs::<Sha1>(count, false).is_some(),
                kernel.pairs::<Sha256>(count, false).is_some(),
                kernel.pairs::<Sha512>(count, false).is_some() || kernel.pairs::<Md5>(count, false).is_some(),
            ])
        };
        let is = |name, count, expected| assert!(by(name, count).is_none_or(|by| by == expected), "{name} {count}");
        for name in ["avx512", "sha-ni", "avx2"] {
            is(name, 1, [true, true, false]);
            is(name, 5, [true, true, false]);
        }
        is("avx512", 6, [false, true, false]);
        is("avx512", 8, [false, true, false]);
        is("avx512", 9, [false; 3]);
        is("avx2", 8, [false; 3]);
        if let Some(kernel) = HashKernel::detect("avx512") {
            assert!(kernel.pairs::<Sha256>(8, true).is_none(), "long messages");
        }
        if Avx2::detect().is_some() {
            is("sha-ni", 100, [false, true, false]);
        }
        assert!(by("portable", 1).is_none());
        if let Some(sha) = ShaNi::detect() {
            let alone = HashKernel::ShaNi(sha, None);
            assert!(alone.pairs::<Sha1>(100, false).is_some() && alone.pairs::<Sha512>(100, false).is_none());
        }
    }
}
