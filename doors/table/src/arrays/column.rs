//! Arrays of one column.

use std::path::Path;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use ciphermill::Mill;
use ciphermill_contract::Direction;
use ciphermill_contract::columns::ColumnStatus;

use super::parts;
use crate::bad::OnBad;
use crate::column::{BadHandling, ColumnSetup, ColumnWorker, NULL_ROW, Scratch, suite_of};
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::job::BATCH_ROWS_MAX;
use crate::keys::{self, Purpose, RootKey};
use crate::numbers::IntegerType;
use crate::rekey::Rekey;
use crate::spec::{ColumnSpec, Method};
use crate::types::{check_type, is_text, is_wide, type_tag_of, value_type};

/// Bytes that an array's values may take while it is worked on, so that equal ones are processed once.
const SEEN_LEN_MAX: usize = 8 << 20;

/// Protects or restores arrays of one column.
///
/// ```no_run
/// # fn arrays(mill: &ciphermill::Mill, root: &ciphermill_table::RootKey) -> ciphermill_table::Result<()> {
/// use arrow_array::{ArrayRef, StringArray};
/// use arrow_schema::DataType;
/// use ciphermill_contract::Direction::{Decrypt, Encrypt};
/// use ciphermill_table::{ArrayColumn, ColumnSpec};
///
/// let spec = ColumnSpec::parse("c_name=deterministic")?;
/// let names: ArrayRef = std::sync::Arc::new(StringArray::from(vec![Some("Ada"), None]));
/// let stored = ArrayColumn::open(&spec, &DataType::Utf8, Encrypt, "customers".as_ref(), mill, root)?.run(&names, 1)?;
/// let again = ArrayColumn::open(&spec, &DataType::Utf8, Decrypt, "customers".as_ref(), mill, root)?.run(&stored, 1)?;
/// assert_eq!(&again, &names);
/// # Ok(())
/// # }
/// ```
pub struct ArrayColumn {
    worker: ColumnWorker,
    scratch: Scratch,
    statuses: Vec<ColumnStatus>,
    /// The type in clear.
    data_type: DataType,
    /// Of a column that is rekeyed, the method by which it is protected before.
    from: Option<Method>,
}

impl ArrayColumn {
    /// For a column as `spec` protects it whose type in clear is `data_type`. `source` is what errors call the table.
    ///
    /// # Errors
    /// `Spec` for what has no meaning here: another action on bad values than an error or null, restoring tokens.
    /// `UnsupportedType` for types that the method does not take. What the mill answers.
    pub fn open(
        spec: &ColumnSpec,
        data_type: &DataType,
        direction: Direction,
        source: &Path,
        mill: &Mill,
        root: &RootKey,
    ) -> Result<ArrayColumn> {
        let worker = ColumnWorker::new(setup(spec, data_type, direction, source, mill, root)?);
        Ok(ArrayColumn::of(worker, data_type, None))
    }

    /// For a column that `spec` protects under `root`, to be protected as `to` says; none of its values is in clear outside of the
    /// mill.
    ///
    /// # Errors
    /// As for [`ArrayColumn::open`]; `Spec` for methods that cannot be moved from or to.
    pub fn rekey(
        spec: &ColumnSpec,
        data_type: &DataType,
        source: &Path,
        mill: &Mill,
        root: &RootKey,
        to: &Rekey,
    ) -> Result<ArrayColumn> {
        let method = to.method_of(&spec.name, &spec.method)?;
        let setup = setup(spec, data_type, Direction::Decrypt, source, mill, root)?;
        let worker = to.moving(mill, setup, method, data_type)?;
        Ok(ArrayColumn::of(worker, data_type, Some(spec.method.clone())))
    }

    fn of(worker: ColumnWorker, data_type: &DataType, from: Option<Method>) -> ArrayColumn {
        let (scratch, statuses, data_type) = (Scratch::default(), Vec::new(), data_type.clone());
        ArrayColumn { worker, scratch, statuses, data_type, from }
    }

    /// The type in clear.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The type of what an array of `input` becomes. Protected values are byte strings, of `ff1` texts; they have wide
    /// offsets if the input has or is made of views. Dictionaries stay dictionaries where equal values have equal results.
    ///
    /// # Errors
    /// `UnsupportedType` when `input` is not the type in clear, or while restoring no type of protected values.
    pub fn output_type(&self, input: &DataType) -> Result<DataType> {
        let encrypts = self.worker.direction() == Direction::Encrypt && self.from.is_none();
        let is_ff1 = matches!(self.worker.method(), Method::Ff1(_));
        let values = value_type(input);
        let fits = match (encrypts, is_ff1) {
            (true, _) => *input == self.data_type,
            (false, true) => is_text(values),
            (false, false) => matches!(values, DataType::Binary | DataType::LargeBinary | DataType::BinaryView),
        };
        if !fits {
            let rule = match (encrypts, is_ff1) {
                (true, _) => "the column was opened for another type",
                (false, true) => "its protected values are texts",
                (false, false) => "its protected values are byte strings",
            };
            let Place { file, column, .. } = self.worker.place_of(0);
            return Err(TableError::UnsupportedType { file, column, data_type: input.to_string(), rule });
        }
        Ok(match input {
            DataType::Dictionary(keys, values) if self.keeps_equal() => {
                DataType::Dictionary(keys.clone(), Box::new(self.values_type(values)))
            }
            _ => self.values_type(values),
        })
    }

    /// Whether equal values have equal results.
    fn keeps_equal(&self) -> bool {
        [Some(self.worker.method()), self.from.as_ref()].into_iter().flatten().all(Method::is_deterministic)
    }

    /// The same of values outside of a dictionary.
    fn values_type(&self, input: &DataType) -> DataType {
        match (self.worker.direction(), self.worker.method()) {
            (Direction::Decrypt, _) => value_type(&self.data_type).clone(),
            (Direction::Encrypt, Method::Ff1(_)) => input.clone(),
            (Direction::Encrypt, _) if is_wide(input) => DataType::LargeBinary,
            (Direction::Encrypt, _) => DataType::Binary,
        }
    }

    /// What an array becomes, whose first value is row `first_row` of the column, counted from one, in errors. Nulls stay
    /// null.
    ///
    /// # Errors
    /// Everything that can be wrong with a value. Nothing of the array has become anything then.
    pub fn run(&mut self, array: &ArrayRef, first_row: u64) -> Result<ArrayRef> {
        let output = self.output_type(array.data_type())?;
        match (array.data_type(), &output) {
            (DataType::Dictionary(..), DataType::Dictionary(_, output)) => {
                let (values, with_values) = parts::dictionary(array);
                let in_rows = |error: TableError| match error.place().map(|place| place.row - 1) {
                    Some(index) => error.in_row(first_row + parts::row_with(array, index).unwrap_or(0) as u64),
                    None => error,
                };
                self.run_values(&values, output, 1).map(with_values).map_err(in_rows)
            }
            (DataType::Dictionary(..), output) => {
                let Place { file, column, .. } = self.worker.place_of(first_row);
                let arrow = |source| TableError::Arrow { path: file, column, source };
                self.run_values(&parts::unpacked(array).map_err(arrow)?, output, first_row)
            }
            (_, output) => self.run_values(array, output, first_row),
        }
    }

    /// Forgets the values of earlier arrays.
    pub(super) fn forget(&mut self) {
        self.worker.forget();
        self.scratch = Scratch::default();
    }

    fn run_values(&mut self, array: &ArrayRef, output: &DataType, first_row: u64) -> Result<ArrayRef> {
        if let Some(done) = self.worker.process_array(array, output, first_row, &mut self.statuses)? {
            return Ok(done);
        }
        if let Some(done) = self.worker.process_texts(&mut self.scratch, array, output, first_row)? {
            return Ok(done);
        }
        self.run_each(array, output, first_row)
    }

    /// Value by value.
    fn run_each(&mut self, array: &ArrayRef, output: &DataType, first_row: u64) -> Result<ArrayRef> {
        let canonical = parts::canonical(array);
        let mut values = parts::Builder::new(array.len());
        for first in (0..canonical.len()).step_by(BATCH_ROWS_MAX) {
            let rows = canonical.slice(first, BATCH_ROWS_MAX.min(canonical.len() - first));
            let processed = self.worker.process(&mut self.scratch, &Cells::new(&rows), None, first_row + first as u64);
            if processed.is_err() {
                self.worker.forget();
            }
            processed?;
            for slot in self.worker.rows() {
                values.push((*slot != NULL_ROW).then(|| self.worker.outputs().at(*slot as usize)));
            }
        }
        values.finish(output, &|row| self.worker.place_of(first_row + row as u64))
    }
}

/// What a worker needs that protects or restores a column.
fn setup(
    spec: &ColumnSpec,
    data_type: &DataType,
    direction: Direction,
    source: &Path,
    mill: &Mill,
    root: &RootKey,
) -> Result<ColumnSetup> {
    let refused = |problem: &str| TableError::Spec { text: spec.to_string(), problem: problem.to_owned() };
    if matches!(spec.on_bad, OnBad::Reject | OnBad::Token) {
        return Err(refused("arrays have neither a reject file nor room for other tokens: on-bad is error or null"));
    }
    if direction == Direction::Decrypt && !spec.method.is_reversible() {
        return Err(refused("tokens cannot be turned back"));
    }
    let unsupported = |rule| TableError::UnsupportedType {
        file: source.to_owned(),
        column: spec.name.clone(),
        data_type: data_type.to_string(),
        rule,
    };
    check_type(&spec.method, data_type).map_err(unsupported)?;
    let type_tag = type_tag_of(data_type, spec.as_text).map_err(unsupported)?;
    let associated_data = keys::associated_data(&spec.method, type_tag, &spec.logical, None);
    let context = keys::column_context(&spec.method, &associated_data);
    Ok(ColumnSetup {
        mill: mill.clone(),
        key: keys::derive(mill, root, Purpose::Column, &context, suite_of(&spec.method))?,
        file: source.into(),
        column: spec.name.clone(),
        method: spec.method.clone(),
        direction,
        associated_data,
        integer: IntegerType::of(value_type(data_type)).filter(|_| spec.as_text),
        row_id: None,
        seen_len_max: SEEN_LEN_MAX,
        bad: BadHandling::new(spec.on_bad),
    })
}
