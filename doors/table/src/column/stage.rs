//! The values of one column as a columnar batch: gathered one behind the other, run, and written to where outputs lie.

use std::time::Instant;

use ciphermill_contract::columns::{AadColumn, ColumnData, ColumnStatus, Extents, IvColumn, TagColumn};
use ciphermill_contract::limits::AAD_LEN_MAX;
use ciphermill_contract::{ColumnBatch, Direction, OpStatus};

use super::scratch::{Scratch, Strings};
use super::{ColumnWorker, NONCE_LEN, TAG_LEN, suite_of};
use crate::bad::BadValue;
use crate::error::{Result, TableError};
use crate::row_id::{RowIdProblem, RowIds};
use crate::spec::{Ff1Options, Method};

/// What an engine must not do.
pub(super) const BAD_NUMERAL: &str = "ff1 gave a numeral that is not below the radix";

impl ColumnWorker {
    /// Puts a value into the batch.
    pub(super) fn stage(
        &mut self,
        scratch: &mut Scratch,
        value: &[u8],
        row_ids: Option<&RowIds<'_>>,
        row: usize,
    ) -> Result<()> {
        if let Method::Ff1(options) = &self.method {
            self.stage_ff1(scratch, options, value, row)?;
            self.counts.bytes += value.len() as u64;
        } else {
            let method = self.opening.as_ref().map_or(&self.method, |opening| &opening.method);
            let least = if self.takes_protected() { overhead(method) } else { 0 };
            if value.len() < least {
                let is_random = matches!(method, Method::Random);
                let rule = if is_random { "shorter than a nonce and a tag" } else { "shorter than a tag" };
                return Err(self.damaged(row, rule));
            }
            self.stage_associated_data(scratch, row_ids, row)?;
            scratch.inputs.push(value);
            self.counts.bytes += (value.len() - least) as u64;
        }
        scratch.rows.push(row as u32);
        Ok(())
    }

    /// What a protected value has more than the value in clear.
    pub(super) fn overhead(&self) -> usize {
        overhead(&self.method)
    }

    /// The column's associated data with a row's identifier at their end, where values are bound to rows.
    fn stage_associated_data(&self, scratch: &mut Scratch, row_ids: Option<&RowIds<'_>>, row: usize) -> Result<()> {
        let Some(column) = &self.row_id else { return Ok(()) };
        let associated = &mut scratch.associated;
        associated.bytes.extend_from_slice(&self.associated_data);
        let appended = row_ids.map_or(Err(RowIdProblem::Null), |row_ids| row_ids.append(row, &mut associated.bytes));
        appended.map_err(|problem| BadValue::RowId(problem).at(self.place(row), Some(column), &self.method))?;
        associated.end();
        Ok(())
    }

    /// Splits a text into template and numerals. The tweak is the associated data and the template; of a text without
    /// anything kept, whose template says nothing, the first alone.
    pub(super) fn stage_ff1(
        &self,
        scratch: &mut Scratch,
        options: &Ff1Options,
        value: &[u8],
        row: usize,
    ) -> Result<()> {
        let text = std::str::from_utf8(value).map_err(|_| TableError::NotText(self.place(row)))?;
        let Scratch { inputs, associated, templates, own_tweaks, .. } = scratch;
        let start = templates.bytes.len();
        let shape = options
            .split(text, &mut templates.bytes, &mut inputs.bytes)
            .map_err(|problem| BadValue::from(problem).at(self.place(row), None, &self.method))?;
        let template = &templates.bytes[start..];
        associated.bytes.extend_from_slice(&self.associated_data);
        let tweak_len = self.associated_data.len() + template.len();
        if tweak_len > AAD_LEN_MAX {
            return Err(self.too_long(row, value.len(), AAD_LEN_MAX - self.associated_data.len()));
        }
        if shape.keeps_some {
            associated.bytes.extend_from_slice(template);
            *own_tweaks = true;
        }
        associated.end();
        templates.end();
        inputs.end();
        Ok(())
    }

    /// Runs what waits and keeps the results. Returns the engine's name.
    pub(super) fn run(&mut self, scratch: &mut Scratch) -> Result<&'static str> {
        if self.opening.is_some() {
            return self.run_transform(scratch);
        }
        let (direction, count) = (self.direction, scratch.len());
        let Scratch { inputs, associated, own_tweaks, statuses, results, .. } = scratch;
        statuses.clear();
        statuses.resize(count, ColumnStatus::PENDING);
        results.clear();
        let has_own = self.row_id.is_some() || *own_tweaks;
        let aad = match has_own {
            true => AadColumn::Each { bytes: &associated.bytes, extents: associated.extents() },
            false => AadColumn::One(&self.associated_data),
        };
        let overhead = self.overhead() as i64;
        let more = if direction == Direction::Encrypt { overhead } else { -overhead };
        // Integers are protected as texts, which are not yet outputs.
        let mut own = std::mem::take(&mut self.outputs);
        let outputs = if self.is_text_of_integer() { results } else { &mut own };
        let (data, ivs, tags) = match &self.method {
            Method::Random | Method::Deterministic => {
                let lens = inputs.offsets.windows(2).map(|ends| ends[1] - ends[0] + more);
                let (output, outputs) = outputs.grow(lens);
                let outputs = Extents::LargeOffsets(outputs);
                let data = ColumnData::Separate { input: &inputs.bytes, inputs: inputs.extents(), output, outputs };
                let (ivs, tags) = frame(&self.method);
                (data, ivs, tags)
            }
            Method::Token { len } => {
                let len = usize::from(*len);
                let before = outputs.byte_len();
                let (bytes, _) = outputs.grow(core::iter::repeat_n(len as i64, count));
                let data = ColumnData::Input { input: &inputs.bytes, inputs: inputs.extents() };
                (data, IvColumn::None, TagColumn::Written { bytes: &mut bytes[before..], len })
            }
            Method::Ff1(_) => {
                let Strings { bytes, offsets } = inputs;
                let data = ColumnData::InPlace { data: bytes, extents: Extents::LargeOffsets(offsets) };
                (data, IvColumn::None, TagColumn::None)
            }
        };
        let started = Instant::now();
        let ran = self.hand_over(data, ivs, tags, aad, statuses);
        self.outputs = own;
        self.counts.in_mill += started.elapsed();
        let engine = ran?;
        self.check_statuses(&scratch.statuses, |at| scratch.rows[at] as usize)?;
        self.keep(scratch)?;
        Ok(engine)
    }

    /// Hands values to the mill. Returns the engine's name.
    pub(super) fn hand_over(
        &self,
        data: ColumnData<'_>,
        ivs: IvColumn<'_>,
        tags: TagColumn<'_>,
        aad: AadColumn<'_>,
        statuses: &mut [ColumnStatus],
    ) -> Result<&'static str> {
        let suite = suite_of(&self.method);
        // Tokens authenticate nothing beside the value: the column's name is in their key.
        let aad = if matches!(self.method, Method::Token { .. }) { AadColumn::None } else { aad };
        let batch = ColumnBatch::new(suite, self.direction, data, statuses).with_key(self.key.id());
        let ran = self.mill.run_columns(batch.with_ivs(ivs).with_tags(tags).with_aad(aad));
        let refused = |source| TableError::mill(format!("column `{}` ({suite})", self.column), source);
        Ok(ran.map_err(refused)?.route.name)
    }

    /// Whether results are texts that integers are made of.
    fn is_text_of_integer(&self) -> bool {
        self.integer.is_some()
            && self.direction == Direction::Decrypt
            && matches!(self.method, Method::Random | Method::Deterministic)
    }

    /// # Errors
    /// What became of the first value that did not end well; `row_of` says which row it is of.
    pub(super) fn check_statuses(&self, statuses: &[ColumnStatus], row_of: impl Fn(usize) -> usize) -> Result<()> {
        let is_bad = |status: &ColumnStatus| !status.is_done() && *status != ColumnStatus::LEFT_OUT;
        let Some(bad) = statuses.iter().position(is_bad) else { return Ok(()) };
        let place = self.place(row_of(bad));
        Err(match (statuses[bad].status(), &self.row_id) {
            (Some(OpStatus::AuthFailed), None) => TableError::Authentication(place),
            (Some(OpStatus::AuthFailed), Some(row_id)) => {
                TableError::AuthenticationOfRow { place, row_id: row_id.clone() }
            }
            (status, _) => TableError::Operation { place, status: status.unwrap_or_default() },
        })
    }

    /// Makes outputs of results that are none yet.
    pub(super) fn keep(&mut self, scratch: &Scratch) -> Result<()> {
        if let Method::Ff1(options) = &self.method {
            for (index, row) in scratch.rows.iter().enumerate() {
                let (template, numerals) = (scratch.templates.at(index), scratch.inputs.at(index));
                if !self.outputs.push_with(|text| options.join(template, numerals, text)) {
                    return Err(self.damaged(*row as usize, BAD_NUMERAL));
                }
            }
        } else if let Some(integer) = self.integer.filter(|_| self.is_text_of_integer()) {
            for (index, row) in scratch.rows.iter().enumerate() {
                if !self.outputs.push_with(|value| integer.read(scratch.results.at(index), value)) {
                    return Err(self.damaged(*row as usize, "its text is no number of the column's type"));
                }
            }
        }
        Ok(())
    }
}

/// What a protected value has more than the value in clear.
pub(super) fn overhead(method: &Method) -> usize {
    match method {
        Method::Random => NONCE_LEN + TAG_LEN,
        Method::Deterministic => TAG_LEN,
        Method::Token { .. } | Method::Ff1(_) => 0,
    }
}

/// Where nonce and tag lie in a value of the methods that keep data.
pub(super) fn frame(method: &Method) -> (IvColumn<'static>, TagColumn<'static>) {
    match method {
        Method::Random => (IvColumn::Drawn { len: NONCE_LEN }, TagColumn::After { len: TAG_LEN }),
        _ => (IvColumn::None, TagColumn::Before { len: TAG_LEN }),
    }
}
