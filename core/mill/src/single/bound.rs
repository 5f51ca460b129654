//! Handles for single operations that are all alike: what a caller knows as a cipher context or a session's operation.

use std::fmt;
use std::sync::Arc;

use ciphermill_contract::{Direction, Error, KeyId, Op, Result, Suite};

use super::one::{One, OneDone, apart, bad_input, copy_in, copy_out, lay_out};
use super::wiped::WipedVec;
use crate::run::bound::Binding;
use crate::run::{Context, Runner};
use crate::submit::Dispatcher;

/// Memory that a handle keeps for the operations that follow, in bytes; what one of them needs beyond is given back.
const KEPT_LEN_MAX: usize = 64 * 1024;

/// Operations of one suite, direction and key, one after the other: [`Mill::bind`](crate::Mill::bind) opens it.
///
/// What is the same for all of them (policy, engine, the key's prepared form) is found out once, and again when the mill
/// says that it may have changed: engines that join, leave or go into quarantine, and every 64 operations or 128 µs of work for costs.
/// Otherwise an operation pays for its check, the key's lease and the engine alone. The key table is asked each time: a
/// key that is destroyed is refused by the next operation and wiped however long the handle is idle. Keys that expire or
/// have a budget are asked for those each time as well.
///
/// Outcomes are those of [`Mill::run_one`](crate::Mill::run_one), but operations never wait to share a batch with those of
/// other threads. Operations of more than 64 µs, and all those on offload engines, take the way of a batch.
///
/// Counts reach [`Mill::metrics`](crate::Mill::metrics) as often, and when the handle is dropped. It keeps the
/// mill alive, and belongs to one thread at a time.
///
/// ```
/// # use std::sync::Arc;
/// # use ciphermill::contract::*;
/// # fn engine() -> Arc<dyn Engine> { ciphermill::null::NullEngine::shared() }
/// # fn main() -> Result<()> {
/// # let mill = ciphermill::Mill::builder().engine(engine()).self_test(ciphermill::SelfTest::Never).open()?;
/// let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), ciphermill::KeyPolicy::default())?;
/// let suite: Suite = "aes-128-gcm".parse().expect("a known suite");
/// let mut seal = mill.bind(suite, Direction::Encrypt, key)?;
/// for number in 0..3_u8 {
///     let (mut data, mut tag, iv) = (*b"a short message", [0; 16], [number; 12]);
///     let input_len = data.len();
///     let op = ciphermill::BoundOp { iv: &iv, aad: b"", data: &mut data, input_len, tag: &mut tag };
///     assert_eq!(seal.run(op)?.status, OpStatus::Done);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Bound {
    dispatcher: Arc<Dispatcher>,
    binding: Binding,
    lent: Lent,
}

/// What operations use one after the other.
#[derive(Default)]
pub(super) struct Lent {
    pub(super) context: Context,
    /// Zero between operations.
    scratch: WipedVec,
}

/// One operation of a [`Bound`], and its buffers.
#[derive(Debug)]
pub struct BoundOp<'d> {
    /// The initialisation vector, nonce, tweak or counter block.
    pub iv: &'d [u8],
    /// Additional authenticated data, or FF1's tweak.
    pub aad: &'d [u8],
    /// The input, and where the output goes: as long as the longer of both.
    pub data: &'d mut [u8],
    /// Bytes of input in `data`.
    pub input_len: usize,
    /// Where the tag, digest or signature goes, or lies when it is to be verified.
    pub tag: &'d mut [u8],
}

impl Bound {
    pub(crate) fn new(dispatcher: Arc<Dispatcher>, suite: Suite, direction: Direction, key: KeyId) -> Result<Bound> {
        let mut lent = Lent::default();
        let binding = Binding::new(&dispatcher.runner, &mut lent.context, (suite, direction), key)?;
        Ok(Bound { dispatcher, binding, lent })
    }

    /// What is done to every operation.
    pub fn suite(&self) -> Suite {
        self.binding.suite()
    }

    /// Which way.
    pub fn direction(&self) -> Direction {
        self.binding.direction()
    }

    /// The key, [`KeyId::NONE`] for suites without one.
    pub fn key(&self) -> KeyId {
        self.binding.key()
    }

    /// Runs one operation on the caller's thread. Its buffers are copied to memory of the handle and back, so that they may
    /// lie anywhere; [`Bound::run_op`] copies nothing.
    ///
    /// An operation that breaks a rule of its suite ends with [`ciphermill_contract::OpStatus::BadInput`], one whose key
    /// may not be used (any more) with [`ciphermill_contract::OpStatus::Refused`]; buffers are as they were then, unless it
    /// was the engine that found the rule broken (FF1's numerals, CCM's length): the output is zeroed.
    ///
    /// # Errors
    /// `Refused` when no engine may run it (any more); `EngineFault` when every engine failed it.
    #[inline]
    pub fn run(&mut self, op: BoundOp<'_>) -> Result<OneDone> {
        let Bound { dispatcher, binding, lent } = self;
        let BoundOp { iv, aad, data, input_len, tag } = op;
        let mut one = One { key: binding.key(), iv, aad, data, input_len, tag };
        run_copied(&dispatcher.runner, binding, lent, &mut one)
    }

    /// Runs one operation over an arena of the caller's, without a copy. Its key is set to the handle's; on return it has a
    /// status. In place, an engine that fails leaves nothing to run elsewhere: the operation ends with
    /// [`ciphermill_contract::OpStatus::EngineFault`], and its output is zeroed.
    ///
    /// # Errors
    /// As [`Session::run`](crate::Session::run) for a batch of this operation alone.
    #[inline]
    pub fn run_op(&mut self, op: &mut Op, arena: &mut [u8]) -> Result<()> {
        let Bound { dispatcher, binding, lent } = self;
        let with = (&dispatcher.runner, &mut lent.context);
        op.key = binding.key();
        let at_once = binding.knows_way(with.0, with.1, op.input.len as usize);
        if at_once && binding.run_at_once((with.0, &mut *with.1), op, arena, None)? {
            return Ok(());
        }
        binding.run(with, op, arena)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.binding.write_up(&self.dispatcher.runner, &mut self.lent.context);
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Bound");
        out.field("suite", &self.suite()).field("direction", &self.direction()).field("key", &self.key());
        out.finish_non_exhaustive()
    }
}

/// Runs an operation over a copy of its buffers.
///
/// # Errors
/// As [`Bound::run`].
#[inline]
pub(super) fn run_copied(
    runner: &Runner,
    binding: &mut Binding,
    lent: &mut Lent,
    one: &mut One<'_>,
) -> Result<OneDone> {
    let (suite, direction, input_len) = (binding.suite(), binding.direction(), one.input_len);
    let (mut op, end) = match lay_out(one, suite, direction, 0) {
        Ok(place) => place,
        Err(reason) => return Ok(bad_input(reason)),
    };
    let Lent { context, scratch } = lent;
    // Where nobody but the caller has the input twice, it stays, for another engine.
    let (apart_output, apart_end) = apart(suite, &op, end, one);
    if scratch.0.len() < apart_end {
        // All zeros, so that there is nothing to move or wipe.
        scratch.0 = vec![0; apart_end.next_power_of_two()];
    }
    copy_in(one, &op, &mut scratch.0[..end]);
    let (mut used, mut ran) = (end, Ok(false));
    if binding.knows_way(runner, context, input_len) {
        let kept = Some(&one.data[..input_len]);
        ran = binding.run_at_once((runner, &mut *context), &mut op, &mut scratch.0[..end], kept);
    }
    if let Ok(false) = ran {
        (op.output, used) = (apart_output, apart_end);
        ran = binding.run((runner, context), &mut op, &mut scratch.0[..used]).map(|()| true);
    }
    let arena = &mut scratch.0[..used];
    let done = match ran {
        Ok(_) => Ok(copy_out(one, direction, suite, &op, arena)),
        Err(Error::Misuse(misuse)) => Ok(bad_input(misuse.reason)),
        Err(error) => Err(error),
    };
    // No compiler leaves out a store to memory that is looked at again.
    arena.fill(0);
    if used > KEPT_LEN_MAX {
        *scratch = WipedVec::default();
    }
    done
}
