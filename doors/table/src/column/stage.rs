//! How the values of one column lie in an arena: laid into it as operations, and taken out of it again.

use ciphermill_contract::limits::AAD_LEN_MAX;
use ciphermill_contract::{Aad, Direction, Op, OpStatus, Span};

use super::{ColumnWorker, NONCE_LEN, Scratch, TAG_LEN, offset, offset_16};
use crate::bad::BadValue;
use crate::error::{Result, TableError};
use crate::row_id::{RowIdProblem, RowIds};
use crate::spec::Method;

const NONCES_AT_A_TIME: usize = 1024;

impl ColumnWorker<'_> {
    /// Where an authenticated value's associated data are: at the arena's start for all values alike, or, with a row's
    /// identifier at their end, behind what is there.
    pub(super) fn stage_associated_data(
        &self,
        scratch: &mut Scratch,
        row_ids: Option<&RowIds<'_>>,
        row: usize,
    ) -> Result<Aad> {
        let Some(column) = &self.row_id else {
            return Ok(Aad { offset: 0, len: offset_16(self.associated_data.len()) });
        };
        let start = scratch.arena.len();
        scratch.arena.extend_from_slice(&self.associated_data);
        let appended = row_ids.map_or(Err(RowIdProblem::Null), |row_ids| row_ids.append(row, &mut scratch.arena));
        appended.map_err(|problem| BadValue::RowId(problem).at(self.place(row), Some(column), &self.method))?;
        Ok(Aad { offset: offset(start), len: offset_16(scratch.arena.len() - start) })
    }

    /// Lays a value into the arena and says what is to be done with it.
    pub(super) fn stage(&mut self, scratch: &mut Scratch, value: &[u8], associated: Aad, row: usize) -> Result<Op> {
        let key = self.key.id();
        let arena = &mut scratch.arena;
        let start = offset(arena.len());
        match (&self.method, self.direction) {
            (Method::Random, Direction::Encrypt) => {
                let nonce = next_nonce(&mut self.nonces)?;
                arena.extend_from_slice(&nonce);
                arena.extend_from_slice(value);
                arena.resize(arena.len() + TAG_LEN, 0);
                let input = Span::new(start + NONCE_LEN as u32, offset(value.len()));
                self.counts.bytes += value.len() as u64;
                Ok(aead(Op::in_place(key, input).with_iv(&nonce), offset(input.end() as usize), associated))
            }
            (Method::Random, Direction::Decrypt) => {
                let Some((nonce, body)) = value.split_at_checked(NONCE_LEN).filter(|(_, body)| body.len() >= TAG_LEN)
                else {
                    return Err(self.damaged(row, "shorter than a nonce and a tag"));
                };
                arena.extend_from_slice(body);
                let input = Span::new(start, offset(body.len() - TAG_LEN));
                self.counts.bytes += u64::from(input.len);
                Ok(aead(Op::in_place(key, input).with_iv(nonce), offset(input.end() as usize), associated))
            }
            (Method::Deterministic, direction) => {
                if direction == Direction::Encrypt {
                    arena.resize(arena.len() + TAG_LEN, 0);
                } else if value.len() < TAG_LEN {
                    return Err(self.damaged(row, "shorter than a tag"));
                }
                arena.extend_from_slice(value);
                let input = Span::new(start + TAG_LEN as u32, offset(arena.len()) - start - TAG_LEN as u32);
                self.counts.bytes += u64::from(input.len);
                Ok(aead(Op::in_place(key, input), start, associated))
            }
            (Method::Token { len }, _) => {
                arena.extend_from_slice(value);
                let tag = offset(arena.len());
                arena.resize(arena.len() + usize::from(*len), 0);
                self.counts.bytes += value.len() as u64;
                Ok(Op::in_place(key, Span::new(start, offset(value.len()))).with_tag(tag, u16::from(*len)))
            }
            (Method::Ff1(_), _) => self.stage_ff1(scratch, value, row),
        }
    }

    /// Arena: associated data, template, numerals. The first two are the tweak; of a text without anything kept, whose
    /// template says nothing, the first alone.
    fn stage_ff1(&mut self, scratch: &mut Scratch, value: &[u8], row: usize) -> Result<Op> {
        let Method::Ff1(options) = &self.method else {
            return Err(self.damaged(row, "not a text of ff1"));
        };
        let Scratch { arena, numerals, .. } = scratch;
        let text = std::str::from_utf8(value).map_err(|_| TableError::NotText(self.place(row)))?;
        let start = arena.len();
        arena.extend_from_slice(&self.associated_data);
        numerals.clear();
        let shape = options
            .split(text, arena, numerals)
            .map_err(|problem| BadValue::from(problem).at(self.place(row), None, &self.method))?;
        let tweak_len = arena.len() - start;
        if tweak_len > AAD_LEN_MAX {
            return Err(self.too_long(row, value.len(), AAD_LEN_MAX - self.associated_data.len()));
        }
        let tweak_len = if shape.keeps_some { tweak_len } else { self.associated_data.len() };
        let input = Span::new(offset(arena.len()), offset(numerals.len()));
        arena.extend_from_slice(numerals);
        self.counts.bytes += value.len() as u64;
        Ok(Op::in_place(self.key.id(), input).with_aad(offset(start), offset_16(tweak_len)))
    }

    /// Keeps the result of an operation.
    pub(super) fn collect(&mut self, op: &Op, arena: &[u8]) -> Result<()> {
        let row = op.cookie as usize;
        match op.status {
            OpStatus::Done => {}
            OpStatus::AuthFailed => {
                let place = self.place(row);
                return Err(match &self.row_id {
                    None => TableError::Authentication(place),
                    Some(row_id) => TableError::AuthenticationOfRow { place, row_id: row_id.clone() },
                });
            }
            status => return Err(TableError::Operation { place: self.place(row), status }),
        }
        let input = op.input.range();
        let tag = op.tag_span().range();
        match (&self.method, self.direction) {
            (Method::Random, Direction::Encrypt) => self.outputs.push(&arena[input.start - NONCE_LEN..tag.end]),
            (Method::Deterministic, Direction::Encrypt) => self.outputs.push(&arena[tag.start..input.end]),
            (Method::Random | Method::Deterministic, Direction::Decrypt) => match self.integer {
                None => self.outputs.push(&arena[input]),
                Some(integer) => {
                    if !self.outputs.push_with(|value| integer.read(&arena[input], value)) {
                        return Err(self.damaged(row, "its text is no number of the column's type"));
                    }
                }
            },
            (Method::Token { .. }, _) => self.outputs.push(&arena[tag]),
            (Method::Ff1(options), _) => {
                let template = &arena[op.aad.offset as usize + self.associated_data.len()..input.start];
                if !self.outputs.push_with(|text| options.join(template, &arena[input], text)) {
                    return Err(self.damaged(row, "ff1 gave a numeral that is not below the radix"));
                }
            }
        }
        Ok(())
    }
}

/// Adds tag and associated data.
fn aead(op: Op, tag: u32, associated: Aad) -> Op {
    op.with_tag(tag, TAG_LEN as u16).with_aad(associated.offset, associated.len)
}

/// The next unused nonce. Random bytes are fetched many nonces at a time.
fn next_nonce(nonces: &mut Vec<u8>) -> Result<[u8; NONCE_LEN]> {
    if nonces.len() < NONCE_LEN {
        nonces.resize(NONCES_AT_A_TIME * NONCE_LEN, 0);
        getrandom::fill(nonces).map_err(|_| TableError::Entropy)?;
    }
    let mut nonce = [0; NONCE_LEN];
    nonce.copy_from_slice(&nonces[nonces.len() - NONCE_LEN..]);
    nonces.truncate(nonces.len() - NONCE_LEN);
    Ok(nonce)
}
