//! Several columns of Arrow tables in memory: which ones, as what, and one struct array after the other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use ciphermill::Mill;
use ciphermill_contract::Direction;

use super::column::ArrayColumn;
use super::mark::{self, Mark};
use crate::bad::OnBad;
use crate::error::{Result, TableError, find_column};
use crate::keys::RootKey;
use crate::manifest::Manifest;
use crate::rekey::Rekey;
use crate::spec::ColumnSpec;
use crate::types::{is_text, is_wide, value_type};

/// Plans that are kept for the next table at most.
const PLANS_MAX: usize = 64;

/// Protects and restores columns of tables in memory: struct arrays, one after the other, or arrays of one column.
///
/// Columns are found by name; `a.b.c` is the field `c` in the struct `b` in the struct `a`, unless a column has that whole
/// name. Fields of protected columns carry in their metadata ([`super::MARK_KEY`]) how they were protected, so that
/// they can be restored without being named.
pub struct ArrayTable {
    mill: Mill,
    root: RootKey,
    columns: Vec<TableColumn>,
    source: PathBuf,
    /// What columns are to be protected under; where it is there, restoring means to rekey.
    to: Option<Rekey>,
    /// What was done with earlier tables, with its columns open: a column alone takes less time than opening it.
    pub(super) plans: Mutex<Vec<Work>>,
}

/// One of the columns that an [`ArrayTable`] is to protect or restore.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// How it is protected.
    pub spec: ColumnSpec,
    /// The type in clear, for restoring; without one, what the field's metadata say, else text.
    pub data_type: Option<DataType>,
    /// Why it cannot be restored through arrays, if it cannot.
    pub stays: Option<&'static str>,
}

/// A column of the table at hand.
struct Step {
    /// The places of fields within structs; none for an array of one column.
    path: Vec<usize>,
    column: ArrayColumn,
}

/// What is to be done with arrays of one type.
pub(super) struct Work {
    direction: Direction,
    only: Option<Vec<String>>,
    /// What arrays are.
    input: FieldRef,
    /// What they become.
    field: FieldRef,
    steps: Vec<Step>,
}

/// What is to be done with arrays of one type, one after the other; [`ArrayTable::plan`] makes it.
pub struct ArrayPlan {
    table: Arc<ArrayTable>,
    /// Given back when the plan is dropped.
    work: Work,
    row: u64,
}

impl ArrayTable {
    /// For these columns under a root key. `source` is what errors call the table.
    ///
    /// # Errors
    /// `ColumnTwice`.
    pub fn new(mill: &Mill, root: RootKey, columns: Vec<TableColumn>, source: &Path) -> Result<ArrayTable> {
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.spec.name == column.spec.name) {
                return Err(TableError::ColumnTwice { column: column.spec.name.clone() });
            }
        }
        let (mill, source) = (mill.clone(), source.to_owned());
        Ok(ArrayTable { mill, root, columns, source, to: None, plans: Mutex::default() })
    }

    /// The same, but what is decrypted is protected again at once, under another key or by another method. No value is in clear
    /// outside of the mill (`Mill::transform`).
    #[must_use]
    pub fn rekeying(self, to: Rekey) -> ArrayTable {
        ArrayTable { to: Some(to), ..self }
    }

    /// The columns.
    pub fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    /// What is to be done with arrays of `field`, which is a struct of columns or, for an array alone, its column.
    ///
    /// `only` names columns, all of which must be there. Without it, protecting takes the columns of this table, all of
    /// which must be there; restoring takes those that are there and can be turned back, or, if this table names none, those
    /// that their metadata name.
    ///
    /// # Errors
    /// `ColumnUnknown`, `ColumnAmbiguous`, `UnsupportedType`, `NotReversible`, `KeyVersion`, `Spec`; `NothingToDo` if no
    /// column is there.
    pub fn plan(
        self: &Arc<Self>,
        direction: Direction,
        field: &FieldRef,
        only: Option<&[String]>,
    ) -> Result<ArrayPlan> {
        let kept = {
            let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            let fits =
                |work: &Work| work.direction == direction && work.only.as_deref() == only && work.input == *field;
            plans.iter().position(fits).map(|at| plans.swap_remove(at))
        };
        let work = match kept {
            Some(work) => work,
            None => self.new_work(direction, field, only)?,
        };
        Ok(ArrayPlan { table: Arc::clone(self), work, row: 1 })
    }

    fn new_work(&self, direction: Direction, input: &FieldRef, only: Option<&[String]>) -> Result<Work> {
        let mut steps = Vec::new();
        let field = match input.data_type() {
            DataType::Struct(_) => self.plan_struct(direction, input, only, &mut steps)?,
            _ => {
                let column = match (only, &self.columns[..]) {
                    (Some([name]), _) => name.clone(),
                    (None, [column]) => column.spec.name.clone(),
                    (None, []) => input.name().clone(),
                    _ => {
                        let problem = "an array is one column: say which (column=…)".to_owned();
                        return Err(TableError::Spec { text: self.source.display().to_string(), problem });
                    }
                };
                self.step(direction, &column, input, Vec::new(), &mut steps)?
            }
        };
        if steps.is_empty() {
            return Err(TableError::NothingToDo);
        }
        Ok(Work { direction, only: only.map(<[String]>::to_vec), input: Arc::clone(input), field, steps })
    }

    fn plan_struct(
        &self,
        direction: Direction,
        field: &FieldRef,
        only: Option<&[String]>,
        steps: &mut Vec<Step>,
    ) -> Result<FieldRef> {
        let named: Vec<String> = match (only, direction) {
            (Some(only), _) => only.to_vec(),
            (None, Direction::Encrypt) => self.columns.iter().map(|column| column.spec.name.clone()).collect(),
            (None, Direction::Decrypt) if self.columns.is_empty() => marked(field)?,
            (None, Direction::Decrypt) => {
                let comes_back = |column: &&TableColumn| column.spec.method.is_reversible() && column.stays.is_none();
                let names = self.columns.iter().filter(comes_back).map(|column| column.spec.name.clone());
                names.filter(|name| self.find(field, name).is_ok()).collect()
            }
        };
        let mut whole = Arc::clone(field);
        for name in &named {
            let path = self.find(&whole, name)?;
            let leaf = leaf_of(&whole, &path);
            let done = self.step(direction, name, &leaf, path.clone(), steps)?;
            whole = with_leaf(&whole, &path, done);
        }
        let metadata = self.table_metadata(direction, field, &whole, &named)?;
        Ok(Arc::new(whole.as_ref().clone().with_metadata(metadata)))
    }

    /// The metadata of the whole table, once these columns are protected or restored.
    fn table_metadata(
        &self,
        direction: Direction,
        before: &Field,
        after: &Field,
        named: &[String],
    ) -> Result<HashMap<String, String>> {
        // Texts of `ff1` are still texts, and parts of structs are no columns to pandas.
        let is_bytes = |field: &FieldRef| match Mark::of(field) {
            Ok(Some(mark)) => mark.method != "ff1",
            _ => false,
        };
        let names = |table: &Field, is_wanted: &dyn Fn(&FieldRef) -> bool| match table.data_type() {
            DataType::Struct(fields) => {
                fields.iter().filter(|field| is_wanted(field)).map(|field| field.name().clone()).collect()
            }
            _ => Vec::new(),
        };
        match direction {
            // What others say of protected columns is as true as it was.
            Direction::Decrypt if self.to.is_some() => Ok(before.metadata().clone().into()),
            Direction::Encrypt => mark::protected_metadata(
                before,
                &names(after, &|field| is_bytes(field) && named.contains(field.name())),
            ),
            Direction::Decrypt => mark::restored_metadata(before, &names(before, &is_bytes), &names(after, &is_bytes)),
        }
    }

    /// Where the column of this name is.
    fn find(&self, field: &FieldRef, name: &str) -> Result<Vec<usize>> {
        let DataType::Struct(fields) = field.data_type() else { return Ok(Vec::new()) };
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        match (find_column(&self.source, &names, name), name.split_once('.')) {
            (Err(TableError::ColumnUnknown { .. }), Some((first, rest))) => {
                let at = find_column(&self.source, &names, first)?;
                match fields[at].data_type() {
                    DataType::Struct(_) => {
                        let mut path = vec![at];
                        path.extend(self.find(&fields[at], rest)?);
                        Ok(path)
                    }
                    other => Err(self.unsupported(name, other, "its parts have no names; only those of structs do")),
                }
            }
            (found, _) => Ok(vec![found?]),
        }
    }

    /// Opens a column; returns its field as it will be.
    fn step(
        &self,
        direction: Direction,
        name: &str,
        field: &FieldRef,
        path: Vec<usize>,
        steps: &mut Vec<Step>,
    ) -> Result<FieldRef> {
        let mark = Mark::of(field)?;
        let known = self.columns.iter().find(|column| column.spec.name == name);
        let (spec, clear) = match (direction, known, &mark) {
            (Direction::Encrypt, _, Some(_)) => {
                let rule = "it is protected already, as its metadata say; nothing is protected twice";
                return Err(self.unsupported(name, field.data_type(), rule));
            }
            (Direction::Encrypt, Some(known), _) => (known.spec.clone(), field.data_type().clone()),
            (Direction::Decrypt, Some(known), mark) => {
                if let Some(rule) = known.stays {
                    return Err(self.unsupported(name, field.data_type(), rule));
                }
                (known.spec.clone(), self.clear_type(field, known, mark.as_ref())?)
            }
            (Direction::Decrypt, None, Some(mark)) => (mark.spec(name)?, mark.data_type()?),
            (_, None, _) => {
                let names: Vec<&str> = self.columns.iter().map(|column| column.spec.name.as_str()).collect();
                let problem = match &names[..] {
                    [] => "no column was named, and its metadata do not say how it was protected".to_owned(),
                    names => format!("it is none of the columns that were named: {}", names.join(", ")),
                };
                return Err(TableError::Spec { text: name.to_owned(), problem });
            }
        };
        if direction == Direction::Decrypt && !spec.method.is_reversible() {
            return Err(TableError::NotReversible { file: self.source.clone(), column: name.to_owned() });
        }
        if let Some(mark) = mark.as_ref().filter(|mark| mark.key == self.root.name) {
            self.check_version(name, mark)?;
        }
        if let (Direction::Decrypt, Some(to)) = (direction, &self.to) {
            let column = ArrayColumn::rekey(&spec, &clear, &self.source, &self.mill, &self.root, to)?;
            let output = column.output_type(field.data_type())?;
            let spec = ColumnSpec { method: to.method_of(name, &spec.method)?, ..spec };
            let metadata = Mark::rekeyed(field, mark.as_ref(), &spec, &clear, &to.root);
            steps.push(Step { path, column });
            return Ok(Arc::new(field.as_ref().clone().with_data_type(output).with_metadata(metadata)));
        }
        let column = ArrayColumn::open(&spec, &clear, direction, &self.source, &self.mill, &self.root)?;
        let output = column.output_type(field.data_type())?;
        let is_nullable = field.is_nullable() || spec.on_bad == OnBad::Null;
        let metadata = match direction {
            Direction::Encrypt => Mark::metadata(field, &spec, &self.root),
            Direction::Decrypt => Mark::restored(field, mark.as_ref()),
        };
        steps.push(Step { path, column });
        let done = field.as_ref().clone().with_data_type(output).with_metadata(metadata);
        Ok(Arc::new(done.with_nullable(is_nullable)))
    }

    fn clear_type(&self, field: &Field, known: &TableColumn, mark: Option<&Mark>) -> Result<DataType> {
        if let Some(data_type) = &known.data_type {
            return Ok(data_type.clone());
        }
        if let Some(mark) = mark {
            return mark.data_type();
        }
        Ok(match field.data_type() {
            text if is_text(value_type(text)) => text.clone(),
            other if is_wide(value_type(other)) => DataType::LargeUtf8,
            _ => DataType::Utf8,
        })
    }

    fn check_version(&self, name: &str, mark: &Mark) -> Result<()> {
        if mark.key_version == self.root.version {
            return Ok(());
        }
        Err(TableError::KeyVersion {
            manifest: format!("column `{name}`").into(),
            name: mark.key.clone(),
            wanted: mark.key_version,
            given: self.root.version,
        })
    }

    fn unsupported(&self, name: &str, data_type: &DataType, rule: &'static str) -> TableError {
        let (file, column, data_type) = (self.source.clone(), name.to_owned(), data_type.to_string());
        TableError::UnsupportedType { file, column, data_type, rule }
    }
}

impl ArrayPlan {
    /// The field of what arrays become.
    pub fn field(&self) -> &FieldRef {
        &self.work.field
    }

    /// What the next array becomes. Rows in errors are counted from the first array on.
    ///
    /// # Errors
    /// As [`ArrayColumn::run`]; `UnsupportedType` for an array of another type than the plan is for.
    pub fn run(&mut self, array: &ArrayRef) -> Result<ArrayRef> {
        let Work { input, field, steps, .. } = &mut self.work;
        if array.data_type() != input.data_type() {
            let rule = "the first array had another type";
            return Err(self.table.unsupported(input.name(), array.data_type(), rule));
        }
        let done = match &mut steps[..] {
            [alone] if alone.path.is_empty() => alone.column.run(array, self.row)?,
            steps => {
                let leaf = Leaf { depth: 0, nulls: None, row: self.row, source: &self.table.source };
                run_leaves(array, field, &mut steps.iter_mut().collect::<Vec<_>>(), leaf)?
            }
        };
        self.row += array.len() as u64;
        Ok(done)
    }
}

impl Drop for ArrayPlan {
    fn drop(&mut self) {
        let Work { direction, only, input, field, steps } = &mut self.work;
        steps.iter_mut().for_each(|step| step.column.forget());
        let work = Work {
            direction: *direction,
            only: only.take(),
            input: Arc::clone(input),
            field: Arc::clone(field),
            steps: std::mem::take(steps),
        };
        let mut plans = self.table.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() == PLANS_MAX {
            plans.remove(0);
        }
        plans.push(work);
    }
}

impl Manifest {
    /// The columns of a protected file, to be restored, or others to be protected like them, as arrays.
    ///
    /// # Errors
    /// `Spec`, for what this version does not know.
    pub fn table_columns(&self) -> Result<Vec<TableColumn>> {
        let column = |column: &crate::manifest::ManifestColumn| {
            let spec = |problem: &str| TableError::Spec { text: column.name.clone(), problem: problem.to_owned() };
            let data_type = column.data_type.parse().map_err(|_| spec("the manifest names no Arrow type"))?;
            let mark = Mark {
                logical: column.logical.clone(),
                method: column.method.clone(),
                options: column.options.clone(),
                as_text: column.as_text,
                data_type: column.data_type.clone(),
                key: self.root_key.name.clone(),
                key_version: self.root_key.version,
                extension: Default::default(),
            };
            let bound = "its values are bound to their rows, which arrays are not; unprotect the file";
            let stays = column.bound_to.as_ref().map(|_| bound);
            Ok(TableColumn { spec: mark.spec(&column.name)?, data_type: Some(data_type), stays })
        };
        self.columns.iter().map(column).collect()
    }
}

/// The names of columns whose metadata say that they are protected and can be turned back; those within structs as `a.b`.
fn marked(field: &Field) -> Result<Vec<String>> {
    let DataType::Struct(fields) = field.data_type() else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for field in fields {
        match Mark::of(field)? {
            Some(mark) if mark.spec(field.name())?.method.is_reversible() => names.push(field.name().clone()),
            Some(_) => {}
            None => names.extend(marked(field)?.iter().map(|name| format!("{}.{name}", field.name()))),
        }
    }
    Ok(names)
}

fn leaf_of(field: &FieldRef, path: &[usize]) -> FieldRef {
    match (path, field.data_type()) {
        ([at, rest @ ..], DataType::Struct(fields)) => leaf_of(&fields[*at], rest),
        _ => Arc::clone(field),
    }
}

fn with_leaf(field: &FieldRef, path: &[usize], leaf: FieldRef) -> FieldRef {
    match (path, field.data_type()) {
        ([at, rest @ ..], DataType::Struct(fields)) => {
            let mut fields: Vec<FieldRef> = fields.iter().cloned().collect();
            fields[*at] = with_leaf(&fields[*at], rest, leaf);
            Arc::new(field.as_ref().clone().with_data_type(DataType::Struct(Fields::from(fields))))
        }
        _ => leaf,
    }
}

/// Where columns of a table are looked for.
struct Leaf<'a> {
    /// How many structs lie around.
    depth: usize,
    /// Rows in which one of them is null.
    nulls: Option<NullBuffer>,
    row: u64,
    source: &'a Path,
}

/// Puts what these columns become into their places in an array, which is to have the type of `field`. Where a struct is
/// null, so are the values in it, whatever lies there.
fn run_leaves(array: &ArrayRef, field: &Field, steps: &mut [&mut Step], leaf: Leaf<'_>) -> Result<ArrayRef> {
    let arrow = |source| TableError::Arrow { path: leaf.source.to_owned(), column: field.name().clone(), source };
    // Plans look for columns in structs alone.
    let DataType::Struct(fields) = field.data_type() else { return Ok(Arc::clone(array)) };
    let (_, mut columns, own) = array.as_struct().clone().into_parts();
    let nulls = NullBuffer::union(leaf.nulls.as_ref(), own.as_ref());
    for (at, column) in columns.iter_mut().enumerate() {
        let mut here: Vec<&mut Step> =
            steps.iter_mut().filter(|step| step.path[leaf.depth] == at).map(|step| &mut **step).collect();
        let inner = Leaf { depth: leaf.depth + 1, nulls: nulls.clone(), ..leaf };
        *column = match &mut here[..] {
            [] => continue,
            [step] if step.path.len() == inner.depth => {
                let hidden = nulls.as_ref().filter(|nulls| nulls.null_count() > 0);
                let visible = hidden.map(|nulls| with_nulls(column, nulls)).transpose().map_err(arrow)?;
                step.column.run(visible.as_ref().unwrap_or(column), leaf.row)?
            }
            here => run_leaves(column, &fields[at], here, inner)?,
        };
    }
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, own, array.len()).map_err(arrow)?))
}

fn with_nulls(array: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef, ArrowError> {
    let nulls = NullBuffer::union(array.nulls(), Some(nulls));
    array.to_data().into_builder().nulls(nulls).build().map(make_array)
}
