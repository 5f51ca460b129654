//! Every way to have an operation of AES-256-GCM run.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ciphermill::{BoundOp, Mill, One};
use ciphermill_contract::columns::{
    ColumnData, Extents, IvColumn, TagColumn, TransformBatch, TransformHalf, TransformTags,
};
use ciphermill_contract::{Batch, ColumnBatch, ColumnStatus, Direction, KeyId, Op, OpStatus, OwnedBatch, Result, Span};

use crate::suite;

pub(crate) const SUITE: &str = "aes-256-gcm";

/// A way, by name; it fails when an operation is not done.
pub(crate) type Way = (&'static str, fn(&Mill, KeyId) -> Result<()>);

pub(crate) const WAYS: [Way; 11] = [
    ("a batch", batch),
    ("a batch of a session", session),
    ("a batch that is submitted to a session", submitted),
    ("a batch that is awaited", awaited),
    ("a batch that is called back", called_back),
    ("an operation", one),
    ("an operation that is awaited", awaited_one),
    ("a handle", bound),
    ("a message in parts", multi_part),
    ("columns", columns),
    ("a transform", transform),
];

pub(crate) fn ops(key: KeyId, count: u32) -> Vec<Op> {
    let op = |n: u32| Op::in_place(key, Span::new(48 * n, 32)).with_iv(&[n as u8; 12]).with_tag(48 * n + 32, 16);
    (0..count).map(op).collect()
}

pub(crate) fn owned(key: KeyId, count: u32) -> OwnedBatch {
    let arena = Box::new(vec![0; 48 * count as usize]);
    OwnedBatch { suite: suite(SUITE), direction: Direction::Encrypt, ops: ops(key, count), arena }
}

fn assert_done(ops: &[Op]) {
    assert!(ops.iter().all(|op| op.status == OpStatus::Done), "{:?}", ops[0].status);
}

pub(crate) fn batch(mill: &Mill, key: KeyId) -> Result<()> {
    let (mut ops, mut arena) = (ops(key, 3), [0; 144]);
    mill.run(Batch::new(suite(SUITE), Direction::Encrypt, &mut ops, &mut arena))?;
    assert_done(&ops);
    Ok(())
}

fn session(mill: &Mill, key: KeyId) -> Result<()> {
    let (mut ops, mut arena) = (ops(key, 3), [0; 144]);
    mill.session().run(Batch::new(suite(SUITE), Direction::Encrypt, &mut ops, &mut arena))?;
    assert_done(&ops);
    Ok(())
}

fn submitted(mill: &Mill, key: KeyId) -> Result<()> {
    let mut session = mill.session();
    session.submit(owned(key, 3)).expect("room");
    let completed = session.wait().expect("it was submitted");
    completed.result?;
    assert_done(&completed.batch.ops);
    Ok(())
}

fn awaited(mill: &Mill, key: KeyId) -> Result<()> {
    let completed = block_on(mill.submit(owned(key, 3), &Default::default()).expect("room"));
    completed.result?;
    assert_done(&completed.batch.ops);
    Ok(())
}

fn called_back(mill: &Mill, key: KeyId) -> Result<()> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let callback = move |completed| sender.send(completed).expect("somebody waits");
    mill.submit_with_callback(owned(key, 3), &Default::default(), callback).expect("room");
    let completed = receiver.recv().expect("it is called");
    completed.result?;
    assert_done(&completed.batch.ops);
    Ok(())
}

fn one(mill: &Mill, key: KeyId) -> Result<()> {
    let (mut data, mut tag) = ([0; 32], [0; 16]);
    let one = One { key, iv: &[1; 12], aad: b"", data: &mut data, input_len: 32, tag: &mut tag };
    let done = mill.run_one(suite(SUITE), Direction::Encrypt, one)?;
    assert_eq!(done.status, OpStatus::Done);
    Ok(())
}

fn awaited_one(mill: &Mill, key: KeyId) -> Result<()> {
    let (mut data, mut tag) = ([0; 32], [0; 16]);
    let one = One { key, iv: &[1; 12], aad: b"", data: &mut data, input_len: 32, tag: &mut tag };
    let done = block_on(mill.submit_one(suite(SUITE), Direction::Encrypt, one))?;
    assert_eq!(done.status, OpStatus::Done);
    Ok(())
}

fn bound(mill: &Mill, key: KeyId) -> Result<()> {
    seal(&mut mill.bind(suite(SUITE), Direction::Encrypt, key)?)
}

/// An operation of a handle.
pub(crate) fn seal(bound: &mut ciphermill::Bound) -> Result<()> {
    let (mut data, mut tag) = ([0; 32], [0; 16]);
    let op = BoundOp { iv: &[1; 12], aad: b"", data: &mut data, input_len: 32, tag: &mut tag };
    assert_eq!(bound.run(op)?.status, OpStatus::Done);
    Ok(())
}

fn multi_part(mill: &Mill, key: KeyId) -> Result<()> {
    message(&mut mill.multi_part(suite(SUITE), Direction::Encrypt, key)?)
}

/// A message of two parts.
pub(crate) fn message(parts: &mut ciphermill::MultiPart) -> Result<()> {
    parts.begin(&[1; 12])?;
    parts.transform_in_place(&mut [0; 5])?;
    parts.transform_in_place(&mut [0; 9])?;
    assert_eq!(parts.finish(&mut [0; 16])?, OpStatus::Done);
    Ok(())
}

fn columns(mill: &Mill, key: KeyId) -> Result<()> {
    let (clear, mut sealed, mut statuses) = ([0; 96], [0; 180], [ColumnStatus::PENDING; 3]);
    let data = ColumnData::Separate {
        input: &clear,
        inputs: Extents::Offsets(&[0, 32, 64, 96]),
        output: &mut sealed,
        outputs: Extents::Offsets(&[0, 60, 120, 180]),
    };
    let batch = ColumnBatch::new(suite(SUITE), Direction::Encrypt, data, &mut statuses).with_key(key);
    mill.run_columns(batch.with_ivs(IvColumn::Drawn { len: 12 }).with_tags(TagColumn::After { len: 16 }))?;
    assert!(statuses.iter().all(|status| status.is_done()));
    Ok(())
}

/// From a suite that stays enabled: the half that seals is what is asked about.
fn transform(mill: &Mill, key: KeyId) -> Result<()> {
    let siv = suite("aes-256-siv");
    let source = mill.keys().import(ciphermill_contract::KeyMaterial::secret(&[9; 64]), Default::default())?;
    let (mut stored, mut statuses) = ([0; 96], [ColumnStatus::PENDING; 2]);
    let data = ColumnData::Separate {
        input: &[0; 64],
        inputs: Extents::Offsets(&[0, 32, 64]),
        output: &mut stored,
        outputs: Extents::Offsets(&[0, 48, 96]),
    };
    let batch = ColumnBatch::new(siv, Direction::Encrypt, data, &mut statuses).with_key(source);
    mill.run_columns(batch.with_tags(TagColumn::Before { len: 16 }))?;
    let (mut again, mut statuses) = ([0; 120], [ColumnStatus::PENDING; 2]);
    let half = TransformHalf::new(suite(SUITE), key);
    mill.transform(TransformBatch {
        source: TransformHalf { tags: TransformTags::Before { len: 16 }, ..TransformHalf::new(siv, source) },
        target: TransformHalf { ivs: IvColumn::Drawn { len: 12 }, tags: TransformTags::After { len: 16 }, ..half },
        input: &stored,
        inputs: Extents::Offsets(&[0, 48, 96]),
        output: &mut again,
        outputs: Extents::Offsets(&[0, 60, 120]),
        statuses: &mut statuses,
    })?;
    assert!(statuses.iter().all(|status| status.is_done()));
    Ok(())
}

/// Polls until it is ready: these mills have no threads, so that nobody else makes it so.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}
