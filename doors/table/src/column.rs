//! One worker per column: fills batches from cells, runs them through the mill, and keeps what the values have become.
//!
//! How stored values look: `random` is nonce ‖ ciphertext ‖ tag, `deterministic` is tag ‖ ciphertext (RFC 5297),
//! `token` is the tag, `ff1` is text.

mod direct;
mod rekey;
mod scratch;
mod stage;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ciphermill::Mill;
use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{Direction, OpStatus, Suite};

#[cfg(test)]
pub(crate) use self::direct::TEXTS_PER_RUN;
pub(crate) use self::scratch::Scratch;
use crate::bad::{self, BadValue, BadValues, OnBad, TOKEN_PREFIX};
use crate::clear::{ClearCounter, InClear};
use crate::distinct::{Outputs, Seen};
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::keys::{self, DerivedKey, HMAC_SHA256};
use crate::numbers::IntegerType;
use crate::row_id::RowIds;
use crate::spec::Method;
use crate::text;

/// Bytes that one value may have: 16 MiB.
pub const VALUE_LEN_MAX: usize = 16 << 20;

/// Operations that are handed to the mill at a time.
pub const OPS_PER_RUN: usize = 16_384;

/// Bytes of values from which on they are handed to the mill; one value may reach past it.
const RUN_BYTES: usize = 4 << 20;

/// Stands among [`ColumnWorker::rows`] for null.
pub(crate) const NULL_ROW: u32 = u32::MAX;

pub(crate) const NONCE_LEN: usize = 12;
pub(crate) const TAG_LEN: usize = 16;

/// Values after which remembering is given up when fewer than one in four was a repetition.
const REMEMBER_TRIAL: u64 = 1024;

/// The suite of a method.
pub(crate) fn suite_of(method: &Method) -> Suite {
    match method {
        Method::Random => Suite::Aead(Aead::AesGcmSiv(AesSize::Aes256)),
        Method::Deterministic => Suite::Aead(Aead::AesSiv(AesSize::Aes256)),
        Method::Token { .. } => HMAC_SHA256,
        Method::Ff1(options) => options.alphabet.suite(),
    }
}

/// What a worker has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnCounts {
    pub(crate) values: u64,
    pub(crate) nulls: u64,
    /// Operations run: values, or distinct values for deterministic methods.
    pub(crate) processed: u64,
    /// Bytes of the values that were processed, in clear.
    pub(crate) bytes: u64,
    /// Values that stay tokens while restoring, since the method could not take the originals.
    pub(crate) left_as_tokens: u64,
    pub(crate) in_mill: Duration,
    pub(crate) engines: Vec<&'static str>,
}

/// Protects or restores the values of one column.
pub(crate) struct ColumnWorker {
    mill: Mill,
    key: DerivedKey,
    file: Arc<Path>,
    column: String,
    method: Method,
    direction: Direction,
    associated_data: Vec<u8>,
    /// What values are opened under first, by a worker that rekeys.
    opening: Option<Opening>,
    /// The integer type whose values are protected as texts.
    integer: Option<IntegerType>,
    /// The column whose value in a row is authenticated with the values of that row.
    row_id: Option<String>,
    rows: Vec<u32>,
    outputs: Outputs,
    seen: Option<Seen>,
    seen_len_max: usize,
    /// Whether nearly all values of a batch were new.
    hardly_repeats: bool,
    first_row: u64,
    clear: Option<ClearCounter>,
    bad: BadHandling,
    /// Values of the batch that do not go through the mill, each with its row.
    aside: Vec<(usize, Vec<u8>)>,
    /// Rows of the next batch that are left out; none when empty.
    skip: Vec<bool>,
    pub(crate) counts: ColumnCounts,
}

/// What values are opened under before they are sealed.
pub(crate) struct Opening {
    pub(crate) key: DerivedKey,
    pub(crate) method: Method,
    pub(crate) associated_data: Vec<u8>,
}

/// What a worker does with values that its method cannot take.
pub(crate) struct BadHandling {
    pub(crate) action: OnBad,
    /// The key of their tokens, for [`OnBad::Token`] while protecting.
    pub(crate) token_key: Option<DerivedKey>,
    /// Whether they are only counted, whatever the action, since nothing will be written.
    pub(crate) dry_run: bool,
    pub(crate) values: Vec<BadValues>,
}

impl BadHandling {
    pub(crate) fn new(action: OnBad) -> Self {
        BadHandling { action, token_key: None, dry_run: false, values: Vec::new() }
    }
}

/// What a worker is made of.
pub(crate) struct ColumnSetup {
    pub(crate) mill: Mill,
    pub(crate) key: DerivedKey,
    pub(crate) file: Arc<Path>,
    pub(crate) column: String,
    pub(crate) method: Method,
    pub(crate) direction: Direction,
    pub(crate) associated_data: Vec<u8>,
    /// The integer type whose values are protected as texts.
    pub(crate) integer: Option<IntegerType>,
    /// The column that values are bound to rows by.
    pub(crate) row_id: Option<String>,
    /// Bytes that may be spent on remembering values.
    pub(crate) seen_len_max: usize,
    pub(crate) bad: BadHandling,
}

impl ColumnWorker {
    pub(crate) fn new(setup: ColumnSetup) -> ColumnWorker {
        // Values that are bound to their rows are processed one by one: equal ones differ.
        let seen = (setup.method.is_deterministic() && setup.row_id.is_none()).then(Seen::new);
        let clear = match &setup.method {
            Method::Ff1(options) if setup.direction == Direction::Encrypt => Some(ClearCounter::new(options)),
            _ => None,
        };
        ColumnWorker {
            mill: setup.mill,
            key: setup.key,
            file: setup.file,
            column: setup.column,
            method: setup.method,
            direction: setup.direction,
            associated_data: setup.associated_data,
            opening: None,
            integer: setup.integer,
            row_id: setup.row_id,
            rows: Vec::new(),
            outputs: Outputs::default(),
            seen,
            seen_len_max: setup.seen_len_max,
            hardly_repeats: false,
            first_row: 1,
            clear,
            bad: setup.bad,
            aside: Vec::new(),
            skip: Vec::new(),
            counts: ColumnCounts::default(),
        }
    }

    /// The same worker, for values that are protected already and are opened first.
    pub(crate) fn opening_first(mut self, opening: Opening) -> ColumnWorker {
        if !opening.method.is_deterministic() {
            self.seen = None;
        }
        self.clear = None;
        self.opening = Some(opening);
        self
    }

    /// What each row of the last batch has become: a slot of [`ColumnWorker::outputs`], or [`NULL_ROW`].
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The values that [`ColumnWorker::rows`] speaks of.
    pub(crate) fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Processes a batch of rows, the first of which is the file's data row `first_row`. `row_ids` are those of the same
    /// rows, for a worker that binds values to rows.
    pub(crate) fn process(
        &mut self,
        scratch: &mut Scratch,
        cells: &Cells<'_>,
        row_ids: Option<&RowIds<'_>>,
        first_row: u64,
    ) -> Result<()> {
        let before = (self.counts.values, self.counts.processed);
        let remembered = self.seen.is_some();
        self.process_rows(scratch, cells, row_ids, first_row)?;
        let (values, processed) = self.judge(before);
        if remembered && values >= REMEMBER_TRIAL {
            self.hardly_repeats = processed > values - values / 16;
        }
        Ok(())
    }

    fn process_rows(
        &mut self,
        scratch: &mut Scratch,
        cells: &Cells<'_>,
        row_ids: Option<&RowIds<'_>>,
        first_row: u64,
    ) -> Result<()> {
        self.begin(scratch, first_row);
        let nulls = self.counts.nulls;
        let skip = std::mem::take(&mut self.skip);
        let skipped = skip.iter().filter(|skip| **skip).count() as u64;
        for row in 0..cells.len() {
            if skip.get(row) == Some(&true) {
                self.rows.push(NULL_ROW);
                continue;
            }
            if cells.is_null(row) {
                self.rows.push(NULL_ROW);
                self.counts.nulls += 1;
                continue;
            }
            if self.stays(cells, row_ids, row)? {
                self.rows.push(NULL_ROW);
                continue;
            }
            let slot = self.slot(scratch, cells.value(row), row_ids, row)?;
            self.rows.push(slot);
        }
        self.flush(scratch)?;
        let values = cells.len() as u64 - (self.counts.nulls - nulls) - skipped;
        self.counts.values += values;
        if let Some(clear) = &mut self.clear {
            clear.add(&self.rows, &self.outputs);
        }
        self.place_aside();
        Ok(())
    }

    /// Leaves rows out of the next batch: they are neither values nor nulls.
    pub(crate) fn skip(&mut self, rows: &[bool]) {
        rows.clone_into(&mut self.skip);
    }

    /// Marks the rows that go to the reject file for a value of this column, and counts them.
    pub(crate) fn mark_rejects(
        &mut self,
        cells: &Cells<'_>,
        row_ids: Option<&RowIds<'_>>,
        first_row: u64,
        marks: &mut [bool],
    ) {
        for row in (0..cells.len()).filter(|row| !cells.is_null(*row)) {
            if let Err(bad) = self.examine(cells.value(row), row_ids, row) {
                bad::count(&mut self.bad.values, bad, first_row + row as u64);
                marks[row] = true;
            }
        }
    }

    /// Processes values of a dictionary, which [`ColumnWorker::count_uses`] counts by the rows that have them.
    pub(crate) fn process_dictionary(
        &mut self,
        scratch: &mut Scratch,
        cells: &Cells<'_>,
        first_row: u64,
    ) -> Result<()> {
        let (clear, values, nulls) = (self.clear.take(), self.counts.values, self.counts.nulls);
        // How often rows have these values does not show here, whether they were seen before does.
        let before = (self.counts.values, self.counts.processed);
        let processed = self.process_rows(scratch, cells, None, first_row);
        self.judge(before);
        (self.clear, self.counts.values, self.counts.nulls) = (clear, values, nulls);
        processed
    }

    /// Forgets what values have become: after an error, when others are still to be processed.
    pub(crate) fn forget(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.clear();
        }
        self.outputs.clear();
        self.aside.clear();
    }

    /// Counts nulls, and values of a dictionary with the number of rows that have each.
    pub(crate) fn count_uses<'v>(&mut self, nulls: u64, uses: impl Iterator<Item = (&'v [u8], u64)>) {
        self.counts.nulls += nulls;
        for (value, rows) in uses {
            self.counts.values += rows;
            if let Some(clear) = self.clear.as_mut().filter(|_| rows > 0) {
                clear.add_text(value, rows);
            }
        }
    }

    fn examine(&self, cell: &[u8], row_ids: Option<&RowIds<'_>>, row: usize) -> std::result::Result<(), BadValue> {
        bad::examine(&self.method, self.associated_data.len(), cell, row_ids, row)
    }

    /// Whether a cell does not go through the mill: its method cannot take it, or it is the token of one that it could not
    /// take. What is to stand in its place has then been put aside, if anything is.
    ///
    /// # Errors
    /// The one that the column's action asks for.
    fn stays(&mut self, cells: &Cells<'_>, row_ids: Option<&RowIds<'_>>, row: usize) -> Result<bool> {
        let cell = cells.value(row);
        if self.direction == Direction::Decrypt {
            let stays = self.bad.action == OnBad::Token && cell.starts_with(TOKEN_PREFIX.as_bytes());
            if stays {
                self.aside.push((row, cell.to_vec()));
                self.counts.left_as_tokens += 1;
            }
            return Ok(stays);
        }
        if self.opening.is_some() {
            return Ok(false);
        }
        // What `ff1` cannot take shows when it is split.
        let shows = matches!(self.method, Method::Ff1(_)) && self.bad.action == OnBad::Error && !self.bad.dry_run;
        if shows {
            return Ok(false);
        }
        let Err(bad) = self.examine(cell, row_ids, row) else { return Ok(false) };
        if self.bad.dry_run {
            // Anything does, since it is not written; a null might not fit the column.
            self.aside.push((row, Vec::new()));
        } else {
            match self.bad.action {
                // Rows to reject have been left out before.
                OnBad::Error | OnBad::Reject => {
                    return Err(bad.at(self.place(row), self.row_id.as_deref(), &self.method));
                }
                OnBad::Null => self.counts.nulls += 1,
                OnBad::Token => {
                    let token = self.token_of(cell)?;
                    self.aside.push((row, token));
                }
            }
        }
        bad::count(&mut self.bad.values, bad, self.first_row + row as u64);
        Ok(true)
    }

    fn token_of(&self, cell: &[u8]) -> Result<Vec<u8>> {
        let mut token = TOKEN_PREFIX.as_bytes().to_vec();
        // A plan that asks for tokens gives the key; without it nothing may pass.
        let key = self.bad.token_key.as_ref().ok_or(TableError::RootKey { status: OpStatus::Pending })?;
        text::encode(&keys::hmac(&self.mill, key.id(), cell)?[..], &mut token);
        Ok(token)
    }

    /// Gives the values that were put aside slots of their own.
    fn place_aside(&mut self) {
        for (row, value) in std::mem::take(&mut self.aside) {
            // Remembered values have the slots of their outputs, so these are remembered too.
            let (slot, is_new) = match &mut self.seen {
                Some(seen) => seen.number(&value),
                None => (offset(self.outputs.len()), true),
            };
            if is_new {
                self.outputs.push(&value);
            }
            self.rows[row] = slot;
        }
    }

    fn begin(&mut self, scratch: &mut Scratch, first_row: u64) {
        self.first_row = first_row;
        self.rows.clear();
        match &mut self.seen {
            Some(seen) if seen.byte_len() + self.outputs.byte_len() > self.seen_len_max => {
                seen.clear();
                self.outputs.clear();
            }
            Some(_) => {}
            None => self.outputs.clear(),
        }
        scratch.clear();
    }

    /// Gives up remembering values where few of those since `before` had been seen. Says how many there were, and how many new.
    fn judge(&mut self, before: (u64, u64)) -> (u64, u64) {
        let (values, processed) = (self.counts.values - before.0, self.counts.processed - before.1);
        if values >= REMEMBER_TRIAL && processed > values - values / 4 {
            self.seen = None;
        }
        (values, processed)
    }

    /// Whether what values become will hardly be shorter by any codec or dictionary: ciphertexts and tokens that differ.
    pub(crate) fn is_noise(&self) -> bool {
        let differs = self.method == Method::Random || self.row_id.is_some() || self.hardly_repeats;
        self.direction == Direction::Encrypt && !matches!(self.method, Method::Ff1(_)) && differs
    }

    /// Whether the values of a dictionary can be processed in place of the rows that have them.
    pub(crate) fn takes_dictionary(&self) -> bool {
        self.repeats() && self.bad.action == OnBad::Error && !self.bad.dry_run
    }

    /// Whether equal values have equal results.
    fn repeats(&self) -> bool {
        let opens_equal = self.opening.as_ref().is_none_or(|opening| opening.method.is_deterministic());
        self.method.is_deterministic() && opens_equal && self.row_id.is_none()
    }

    /// The slot of a cell, in the form in which it is protected or as it was protected.
    fn slot(&mut self, scratch: &mut Scratch, cell: &[u8], row_ids: Option<&RowIds<'_>>, row: usize) -> Result<u32> {
        let Some(integer) = self.integer.filter(|_| self.direction == Direction::Encrypt) else {
            return self.slot_of(scratch, cell, row_ids, row);
        };
        let mut text = std::mem::take(&mut scratch.text);
        text.clear();
        integer.write(cell, &mut text);
        let slot = self.slot_of(scratch, &text, row_ids, row);
        scratch.text = text;
        slot
    }

    /// The slot of a value: the one it already has, or that of the operation which is put into the batch for it.
    fn slot_of(
        &mut self,
        scratch: &mut Scratch,
        value: &[u8],
        row_ids: Option<&RowIds<'_>>,
        row: usize,
    ) -> Result<u32> {
        let limit = match self.direction {
            Direction::Encrypt if self.opening.is_none() => VALUE_LEN_MAX,
            _ => VALUE_LEN_MAX + NONCE_LEN + TAG_LEN,
        };
        if value.len() > limit {
            return Err(self.too_long(row, value.len(), limit));
        }
        if scratch.len() >= OPS_PER_RUN || scratch.byte_len() >= RUN_BYTES {
            self.flush(scratch)?;
        }
        // Outputs follow in the order of the values, and without memory there is one for each.
        let next = offset(self.outputs.len() + scratch.len());
        if let Some(seen) = &mut self.seen {
            let (slot, is_new) = seen.number(value);
            if !is_new {
                return Ok(slot);
            }
            debug_assert_eq!(slot, next);
        }
        self.stage(scratch, value, row_ids, row)?;
        Ok(next)
    }

    /// Runs what is in the batch and keeps the results.
    fn flush(&mut self, scratch: &mut Scratch) -> Result<()> {
        if scratch.len() == 0 {
            return Ok(());
        }
        let engine = self.run(scratch)?;
        if !self.counts.engines.contains(&engine) {
            self.counts.engines.push(engine);
        }
        self.counts.processed += scratch.len() as u64;
        scratch.clear();
        Ok(())
    }

    /// Values that the method could not take, by rule.
    pub(crate) fn bad(&self) -> &[BadValues] {
        &self.bad.values
    }

    /// What becomes of them.
    pub(crate) fn on_bad(&self) -> OnBad {
        self.bad.action
    }

    /// What `ff1` has left in clear so far, while protecting.
    pub(crate) fn in_clear(&self) -> Option<InClear> {
        self.clear.as_ref().map(ClearCounter::in_clear)
    }

    /// The column's name in the file.
    pub(crate) fn column(&self) -> &str {
        &self.column
    }

    /// The column that values are bound to rows by.
    pub(crate) fn row_id(&self) -> Option<&str> {
        self.row_id.as_deref()
    }

    /// How the column is protected.
    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// Whether values are protected (`Encrypt`) or restored.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether values are protected when they come.
    pub(crate) fn takes_protected(&self) -> bool {
        self.direction == Direction::Decrypt || self.opening.is_some()
    }

    /// What is authenticated with each value.
    pub(crate) fn associated_data(&self) -> &[u8] {
        &self.associated_data
    }

    /// A row of the current batch as a place in the file.
    pub(crate) fn place(&self, row: usize) -> Place {
        self.place_of(self.first_row + row as u64)
    }

    /// A data row of the file, counted from one, as a place in it.
    pub(crate) fn place_of(&self, row: u64) -> Place {
        Place::new(&self.file, row, &self.column)
    }

    fn damaged(&self, row: usize, rule: &'static str) -> TableError {
        TableError::Damaged { place: self.place(row), rule }
    }

    fn too_long(&self, row: usize, len: usize, limit: usize) -> TableError {
        TableError::TooLong { place: self.place(row), len: len as u64, limit: limit as u64 }
    }
}

// Slots are at most a batch's rows or what fits the memory for values.
fn offset(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
