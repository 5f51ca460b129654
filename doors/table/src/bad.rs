//! Values that a method cannot take: which, why, and what becomes of them.

use ciphermill_contract::limits::{AAD_LEN_MAX, FF1_NUMERALS_MAX};

use crate::column::VALUE_LEN_MAX;
use crate::error::{Place, TableError};
use crate::ff1::SplitProblem;
use crate::row_id::{ROW_ID_LEN_MAX, RowIdProblem, RowIds};
use crate::spec::{Ff1Options, Method};

/// Rows that are named for each rule that a column's values break.
pub const BAD_ROWS_NAMED: usize = 5;

/// Begins what stands for a value that `ff1` could not take and that was replaced by its token. The colon is in no
/// alphabet and no separator of such a column, so that no value of `ff1` begins so.
pub(crate) const TOKEN_PREFIX: &str = "token:";

/// What becomes of a value that the method cannot take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// The job fails, naming the place. Nothing is written.
    #[default]
    Error,
    /// It is left out: the protected table has a null in its place.
    Null,
    /// It is replaced by its token, one way. For `ff1`, whose columns hold texts that can be told from tokens.
    Token,
    /// The row goes to the job's reject file as it is, and is left out of the protected table.
    Reject,
}

impl OnBad {
    const ALL: [OnBad; 4] = [OnBad::Error, OnBad::Null, OnBad::Token, OnBad::Reject];

    /// Its name in specifications and manifests.
    pub const fn name(self) -> &'static str {
        match self {
            OnBad::Error => "error",
            OnBad::Null => "null",
            OnBad::Token => "token",
            OnBad::Reject => "reject",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<OnBad, String> {
        let found = OnBad::ALL.into_iter().find(|action| action.name() == name);
        found.ok_or_else(|| format!("`on-bad={name}`: there are {}", OnBad::ALL.map(OnBad::name).join(", ")))
    }
}

/// Why a method cannot take a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadValue {
    /// So many bytes or numerals, and the limit.
    TooLong(usize, usize),
    /// Not UTF-8.
    NotText,
    /// So many characters to encrypt.
    TooShort(usize),
    /// A character that is neither in the alphabet nor a separator.
    NotInAlphabet,
    /// Its row has no identifier to be bound to.
    RowId(RowIdProblem),
}

impl BadValue {
    /// The rule that is broken, for people who count.
    pub(crate) const fn rule(self) -> &'static str {
        match self {
            BadValue::TooLong(..) => "too long",
            BadValue::NotText => "not valid UTF-8",
            BadValue::TooShort(_) => "too few characters to encrypt",
            BadValue::NotInAlphabet => "a character that is neither in the alphabet nor a separator",
            BadValue::RowId(RowIdProblem::Null) => "its row has no identifier",
            BadValue::RowId(RowIdProblem::TooLong(_)) => "its row's identifier is too long",
        }
    }

    /// The error at a place; `row_id` is the column that identifies rows.
    pub(crate) fn at(self, place: Place, row_id: Option<&str>, method: &Method) -> TableError {
        let too_long = |place, len, limit| TableError::TooLong { place, len: len as u64, limit: limit as u64 };
        let row_place = |place: Place| Place { column: row_id.unwrap_or_default().to_owned(), ..place };
        match (self, method) {
            (BadValue::TooLong(len, limit), _) => too_long(place, len, limit),
            (BadValue::TooShort(found), Method::Ff1(options)) => {
                let (needed, radix) = (options.alphabet.numerals_min(), options.alphabet.radix());
                TableError::TooShort { place, found, needed, radix }
            }
            (BadValue::NotText | BadValue::TooShort(_), _) => TableError::NotText(place),
            (BadValue::NotInAlphabet, _) => TableError::NotInAlphabet(place),
            (BadValue::RowId(RowIdProblem::Null), _) => TableError::RowIdNull(row_place(place)),
            (BadValue::RowId(RowIdProblem::TooLong(len)), _) => too_long(row_place(place), len, ROW_ID_LEN_MAX),
        }
    }
}

impl From<SplitProblem> for BadValue {
    fn from(problem: SplitProblem) -> BadValue {
        match problem {
            SplitProblem::TooShort(found) => BadValue::TooShort(found),
            SplitProblem::TooLong(found) => BadValue::TooLong(found, FF1_NUMERALS_MAX),
            SplitProblem::NotInAlphabet => BadValue::NotInAlphabet,
        }
    }
}

/// Whether a method takes a value in clear. `associated_len` is the length of the column's associated data.
pub(crate) fn examine(
    method: &Method,
    associated_len: usize,
    value: &[u8],
    row_ids: Option<&RowIds<'_>>,
    row: usize,
) -> Result<(), BadValue> {
    if value.len() > VALUE_LEN_MAX {
        return Err(BadValue::TooLong(value.len(), VALUE_LEN_MAX));
    }
    if let Method::Ff1(options) = method {
        let text = std::str::from_utf8(value).map_err(|_| BadValue::NotText)?;
        examine_ff1(options, AAD_LEN_MAX - associated_len.min(AAD_LEN_MAX), text)?;
    }
    match row_ids {
        Some(row_ids) => row_ids.check(row).map_err(BadValue::RowId),
        None => Ok(()),
    }
}

fn examine_ff1(options: &Ff1Options, template_len_max: usize, text: &str) -> Result<(), BadValue> {
    options.holes(text)?;
    if text.len() > template_len_max {
        // A template is no longer than its text; only then its own length matters.
        let (mut template, mut numerals) = (Vec::new(), Vec::new());
        options.split(text, &mut template, &mut numerals)?;
        if template.len() > template_len_max {
            return Err(BadValue::TooLong(text.len(), template_len_max));
        }
    }
    Ok(())
}

/// Values of a column that broke one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValues {
    /// The rule, in words.
    pub rule: &'static str,
    /// How many values broke it.
    pub count: u64,
    /// The first rows with such a value, at most [`BAD_ROWS_NAMED`].
    pub rows: Vec<u64>,
}

/// Counts a value that broke a rule.
pub(crate) fn count(all: &mut Vec<BadValues>, bad: BadValue, row: u64) {
    let rule = bad.rule();
    let at = all.iter().position(|values| values.rule == rule).unwrap_or_else(|| {
        all.push(BadValues { rule, count: 0, rows: Vec::new() });
        all.len() - 1
    });
    all[at].count += 1;
    if all[at].rows.len() < BAD_ROWS_NAMED {
        all[at].rows.push(row);
    }
}
