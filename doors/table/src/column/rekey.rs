//! Values that a worker opens under one key and seals under another within the mill: none of them is in clear here.

use std::time::Instant;

use ciphermill_contract::columns::{
    AadColumn, ColumnStatus, Extents, IvColumn, TransformBatch, TransformHalf, TransformTags,
};

use super::scratch::Scratch;
use super::stage::overhead;
use super::{ColumnWorker, NONCE_LEN, Opening, TAG_LEN, suite_of};
use crate::error::{Result, TableError};
use crate::keys::DerivedKey;
use crate::spec::Method;

/// Where nonce and tag lie in a value; `draws` for those that are made.
fn frame(method: &Method, draws: bool) -> (IvColumn<'static>, TransformTags) {
    match (method, draws) {
        (Method::Random, true) => (IvColumn::Drawn { len: NONCE_LEN }, TransformTags::After { len: TAG_LEN }),
        (Method::Random, false) => (IvColumn::Inline { len: NONCE_LEN }, TransformTags::After { len: TAG_LEN }),
        (Method::Deterministic, _) => (IvColumn::None, TransformTags::Before { len: TAG_LEN }),
        (Method::Token { len }, _) => (IvColumn::None, TransformTags::After { len: usize::from(*len) }),
        (Method::Ff1(_), _) => (IvColumn::None, TransformTags::None),
    }
}

/// The associated data of a half: each value's own where there are such, else the same for all.
fn aad_of<'a>(method: &Method, each: Option<AadColumn<'a>>, all: &'a [u8]) -> AadColumn<'a> {
    match method {
        Method::Token { .. } => AadColumn::None,
        _ => each.unwrap_or(AadColumn::One(all)),
    }
}

impl ColumnWorker {
    /// Moves what waits from one key to the other and keeps the results. Returns the name of the engine that sealed them.
    pub(super) fn run_transform(&mut self, scratch: &mut Scratch) -> Result<&'static str> {
        let count = scratch.len();
        let mut own = std::mem::take(&mut self.outputs);
        let started = Instant::now();
        let ran = self.transform(scratch, &mut own, count);
        self.outputs = own;
        self.counts.in_mill += started.elapsed();
        let engine = ran?;
        self.check_statuses(&scratch.statuses, |at| scratch.rows[at] as usize)?;
        if matches!(self.method, Method::Ff1(_)) {
            // Numerals stay as many, so that they lie where those of before lay.
            for index in 0..count {
                let place = scratch.inputs.offsets[index] as usize..scratch.inputs.offsets[index + 1] as usize;
                scratch.inputs.bytes[place].copy_from_slice(scratch.results.at(index));
            }
        }
        self.keep(scratch)?;
        Ok(engine)
    }

    fn transform(
        &self,
        scratch: &mut Scratch,
        own: &mut crate::distinct::Outputs,
        count: usize,
    ) -> Result<&'static str> {
        let Some(opening) = &self.opening else { return Ok("") };
        let Scratch { inputs, associated, own_tweaks, statuses, results, .. } = scratch;
        statuses.clear();
        statuses.resize(count, ColumnStatus::PENDING);
        results.clear();
        // Where values have associated data of their own, both halves have the same: `rekey` sees to it.
        let each = (self.row_id.is_some() || *own_tweaks)
            .then(|| AadColumn::Each { bytes: &associated.bytes, extents: associated.extents() });
        let outputs = if matches!(self.method, Method::Ff1(_)) { results } else { own };
        let more = self.overhead() as i64 - overhead(&opening.method) as i64;
        let (output, extents) = match self.method {
            Method::Token { len } => {
                let (before, len) = (outputs.byte_len(), usize::from(len));
                let (bytes, _) = outputs.grow(core::iter::repeat_n(len as i64, count));
                (&mut bytes[before..], Extents::Strided { len, stride: len })
            }
            _ => {
                let (bytes, offsets) = outputs.grow(inputs.offsets.windows(2).map(|ends| ends[1] - ends[0] + more));
                (bytes, Extents::LargeOffsets(offsets))
            }
        };
        let from = (&inputs.bytes[..], inputs.extents());
        self.hand_over_sealed(opening, each, from, (output, extents), statuses)
    }

    /// Has sealed values opened and sealed again. Returns the name of the engine that sealed them.
    pub(super) fn hand_over_sealed(
        &self,
        opening: &Opening,
        each: Option<AadColumn<'_>>,
        (input, inputs): (&[u8], Extents<'_>),
        (output, outputs): (&mut [u8], Extents<'_>),
        statuses: &mut [ColumnStatus],
    ) -> Result<&'static str> {
        let half = |method: &Method, key: &DerivedKey, draws: bool| {
            let (ivs, tags) = frame(method, draws);
            TransformHalf { ivs, tags, ..TransformHalf::new(suite_of(method), key.id()) }
        };
        let (source, target) = (half(&opening.method, &opening.key, false), half(&self.method, &self.key, true));
        let batch = TransformBatch {
            source: TransformHalf { aad: aad_of(&opening.method, each, &opening.associated_data), ..source },
            target: TransformHalf { aad: aad_of(&self.method, each, &self.associated_data), ..target },
            input,
            inputs,
            output,
            outputs,
            statuses,
        };
        let refused = |source| TableError::mill(format!("column `{}`", self.column), source);
        Ok(self.mill.transform(batch).map_err(refused)?.sealed_by)
    }
}
