//! Values opened under one suite and key and sealed under another, a chunk at a time that stays in the cache; in clear they lie
//! in locked memory alone, which is wiped.

use core::ops::Range;

use ciphermill_contract::columns::{ChunkLimits, KeyColumn, TransformBatch};
use ciphermill_contract::limits::IV_LEN_MAX;
use ciphermill_contract::{ColumnStatus, Error, OpStatus, Reason, Result};
use ciphermill_keys::KeyUsage;
use ciphermill_memory::SecretBytes;

use super::context::Context;
use super::runner::Runner;
use crate::policy::RunOptions;
use crate::report::TransformReport;

/// As [`ChunkLimits::CACHED`], for two halves that go through the mill with every chunk.
const CHUNK: ChunkLimits = ChunkLimits { ops: 4096, bytes: 128 << 10 };

/// What chunks are worked on in.
#[derive(Default)]
struct Room {
    clear: Option<SecretBytes>,
    offsets: Vec<i64>,
    statuses: Vec<ColumnStatus>,
}

impl Runner {
    /// Runs a transform; [`crate::Mill::transform`] documents it.
    pub(crate) fn transform(
        &self,
        context: &mut Context,
        mut batch: TransformBatch<'_>,
        options: &RunOptions<'_>,
    ) -> Result<TransformReport> {
        batch.check()?;
        self.refuse_pairs(&mut batch);
        let (mut room, mut report) = (Room::default(), TransformReport::default());
        let mut next = 0;
        while next < batch.statuses.len() {
            let here = chunk(&batch, next);
            next = here.end;
            self.transform_chunk(context, &mut batch, here, &mut room, options, &mut report)?;
        }
        report.done = batch.statuses.iter().filter(|status| status.is_done()).count();
        let left_out = batch.statuses.iter().filter(|status| **status == ColumnStatus::LEFT_OUT).count();
        report.failed = batch.statuses.len() - report.done - left_out;
        Ok(report)
    }

    /// Ends the values whose keys' policies do not allow this way from one to the other.
    fn refuse_pairs(&self, batch: &mut TransformBatch<'_>) {
        let lease = self.state.keys.lease();
        let (source, target) = (batch.source.keys, batch.target.keys);
        let key = |keys: &KeyColumn<'_>, at: usize| match keys {
            KeyColumn::None => None,
            KeyColumn::One(key) => Some(*key),
            KeyColumn::Each(keys) => keys.get(at).copied(),
        };
        let is_allowed = |at: usize| {
            let entry = |keys| key(keys, at).and_then(|key| lease.entry(key));
            match (entry(&source), entry(&target)) {
                (Some(source), Some(target)) => source.policy().allows_transform_to(target.policy()),
                // Keys that are not there are refused as such when their half is run.
                _ => true,
            }
        };
        let is_one = !matches!((source, target), (KeyColumn::Each(_), _) | (_, KeyColumn::Each(_)));
        if is_one && is_allowed(0) {
            return;
        }
        for (at, status) in batch.statuses.iter_mut().enumerate().filter(|(_, status)| status.is_pending()) {
            if is_one || !is_allowed(at) {
                *status = ColumnStatus::from(OpStatus::Refused(Reason::KeyDirection));
            }
        }
    }

    fn transform_chunk(
        &self,
        context: &mut Context,
        batch: &mut TransformBatch<'_>,
        here: Range<usize>,
        room: &mut Room,
        options: &RunOptions<'_>,
        report: &mut TransformReport,
    ) -> Result<()> {
        let Room { clear, offsets, statuses } = room;
        offsets.clear();
        offsets.push(0);
        let mut end = 0;
        for at in here.clone() {
            end += if batch.statuses[at].is_pending() { batch.clear_len(at) } else { 0 };
            offsets.push(end as i64);
        }
        let clear = room_for(clear, end)?;
        let wait = |status: &ColumnStatus| if status.is_pending() { *status } else { ColumnStatus::LEFT_OUT };
        statuses.clear();
        statuses.extend(batch.statuses[here.clone()].iter().map(wait));
        if !statuses.iter().any(|status| status.is_pending()) {
            return Ok(());
        }
        let mut counter = [0; IV_LEN_MAX];
        let opened = batch.opening(&here, &mut clear[..end], offsets, statuses, &mut counter);
        let ran = self.run_columns(context, opened, KeyUsage::Transform, options);
        report.opened_by = ran.map_err(|error| moved(error, here.start))?.route.name;
        for (own, status) in batch.statuses[here.clone()].iter_mut().zip(statuses.iter_mut()) {
            let is_open = status.is_done();
            if own.is_pending() && !is_open {
                *own = *status;
            }
            *status = if is_open { ColumnStatus::PENDING } else { ColumnStatus::LEFT_OUT };
        }
        if !statuses.iter().any(|status| status.is_pending()) {
            return Ok(());
        }
        let sealed = batch.sealing(&here, &clear[..end], offsets, statuses, &mut counter);
        let ran = self.run_columns(context, sealed, KeyUsage::Transform, options);
        report.sealed_by = ran.map_err(|error| moved(error, here.start))?.route.name;
        for (own, status) in batch.statuses[here].iter_mut().zip(statuses.iter()) {
            if *status != ColumnStatus::LEFT_OUT {
                *own = *status;
            }
        }
        Ok(())
    }
}

/// The next values that go through the mill together: one at least.
fn chunk(batch: &TransformBatch<'_>, first: usize) -> Range<usize> {
    let (mut end, mut bytes) = (first, 0);
    while end < batch.statuses.len() && end - first < CHUNK.ops && (end == first || bytes < CHUNK.bytes) {
        bytes += if batch.statuses[end].is_pending() { batch.clear_len(end) } else { 0 };
        end += 1;
    }
    first..end
}

/// Locked memory for so many bytes: that of before, or more.
fn room_for(clear: &mut Option<SecretBytes>, len: usize) -> Result<&mut SecretBytes> {
    let has_room = clear.as_ref().is_some_and(|clear| clear.len() >= len);
    if !has_room {
        let wanted = len.max(CHUNK.bytes);
        let new = SecretBytes::zeroed(wanted).map_err(|_| Error::exhausted("memory", wanted, wanted))?;
        *clear = Some(new);
    }
    clear.as_mut().ok_or_else(|| Error::exhausted("memory", len, len))
}

/// The same error, of the value's place in the whole batch.
fn moved(error: Error, by: usize) -> Error {
    match error {
        Error::Misuse(misuse) => Error::misuse(misuse.op as usize + by, misuse.reason),
        other => other,
    }
}
