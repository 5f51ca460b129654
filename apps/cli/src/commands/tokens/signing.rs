//! One signature by a token, and whether it is one without the token.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};

/// What is signed.
pub(super) const MESSAGE: &[u8] = b"ciphermill tries a key; this text is of no consequence";

/// The engine that verifies.
const VERIFIER: &str = "library";

/// Signs the message with a token's own key, by its name; the signature, and how long the token took.
pub(super) fn sign(engine: &dyn Engine, suite: Suite, name: &str) -> Result<(Vec<u8>, Duration)> {
    let key = engine.prepare(&KeyMaterial::reference(name), suite)?;
    let begun = Instant::now();
    let (status, signature) = run(engine, &key, suite, Direction::Encrypt, &[])?;
    let took = begun.elapsed();
    ensure!(status == OpStatus::Done, "it does not sign: {status:?}");
    Ok((signature, took))
}

/// Checks a signature of the message by a public half.
///
/// # Errors
/// It is none.
pub(super) fn verify(suite: Suite, public: &[u8], signature: &[u8]) -> Result<()> {
    let engine = ciphermill_engines::open(VERIFIER).context("there is no engine to verify with")??;
    let key = engine.prepare(&KeyMaterial::public(public), suite)?;
    let (status, _) = run(engine.as_ref(), &key, suite, Direction::Decrypt, signature)?;
    ensure!(status == OpStatus::Done, "{VERIFIER} does not take the signature: {status:?}");
    Ok(())
}

/// One operation over the message, with this signature behind it, or with room for one.
fn run(
    engine: &dyn Engine,
    key: &PreparedKey,
    suite: Suite,
    direction: Direction,
    signature: &[u8],
) -> Result<(OpStatus, Vec<u8>)> {
    let tag_len = if signature.is_empty() { suite.tag_len(Direction::Decrypt).max } else { signature.len() };
    let mut arena = MESSAGE.to_vec();
    arena.extend_from_slice(signature);
    arena.resize(MESSAGE.len() + tag_len, 0);
    let input = Span::new(0, u32::try_from(MESSAGE.len())?);
    // Prepared keys go with the batch; the number stands for this one.
    let op = Op::in_place(KeyId { slot: 1, generation: 1 }, input).with_output(0);
    let mut ops = [op.with_tag(u32::try_from(MESSAGE.len())?, u16::try_from(tag_len)?)];
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check()?;
    let keys = [Some(key)];
    engine.queue(QueueHint::default())?.run(&mut batch.attach_keys(&keys)?);
    let [op] = ops;
    Ok((op.status, arena.split_off(MESSAGE.len())))
}
