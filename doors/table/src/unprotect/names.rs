//! Which of a file's columns the manifest's are, after they were renamed.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::Field;

use super::Restorer;
use crate::error::{Result, TableError, find_column};
use crate::manifest::ManifestColumn;
use crate::row_id::check_row_id_type;
use crate::spec::RowBinding;

impl Restorer<'_> {
    /// The names that the manifest's columns have in the file at hand.
    pub(super) fn renamed(&self) -> Result<Vec<&str>> {
        let columns = &self.manifest.columns;
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let mut renamed = HashSet::new();
        for (name, logical) in &self.job.renamed {
            if self.identifies_rows(logical) {
                continue;
            }
            if !renamed.insert(logical) {
                return Err(TableError::RenamedTwice { logical: logical.clone() });
            }
            let mut found = (0..columns.len()).filter(|index| columns[*index].logical == *logical);
            match (found.next(), found.next()) {
                (Some(index), None) => names[index] = name,
                (Some(_), Some(_)) => {
                    return Err(TableError::ColumnAmbiguous {
                        file: self.manifest_path.to_owned(),
                        column: logical.clone(),
                    });
                }
                (None, _) => {
                    let logicals: Vec<String> = columns.iter().map(|column| format!("`{}`", column.logical)).collect();
                    return Err(TableError::ColumnUnknown {
                        file: self.manifest_path.to_owned(),
                        column: logical.clone(),
                        available: logicals.join(", "),
                    });
                }
            }
        }
        Ok(names)
    }

    /// The place of the column that identifies the rows that a column's values are bound to.
    pub(super) fn plan_row_id(
        &self,
        column: &ManifestColumn,
        fields: &[Arc<Field>],
        names: &[String],
    ) -> Result<Option<usize>> {
        let Some(binding) = &column.bound_to else { return Ok(None) };
        let name = self.row_id_name(binding);
        let index = find_column(&self.job.input, names, name)?;
        check_row_id_type(fields[index].data_type())
            .map_err(|rule| TableError::RowBinding { column: name.to_owned(), rule })?;
        Ok(Some(index))
    }

    /// The name that a column which identifies rows has in the file at hand.
    pub(super) fn row_id_name<'b>(&'b self, binding: &'b RowBinding) -> &'b str {
        let renamed =
            self.job.renamed.iter().find(|(_, logical)| self.identifies_rows(logical) && *logical == binding.column);
        renamed.map_or(&binding.column, |(name, _)| name)
    }

    /// Whether a column of that name identifies rows; a protected column's logical name goes first.
    fn identifies_rows(&self, name: &str) -> bool {
        let columns = &self.manifest.columns;
        columns.iter().all(|column| column.logical != name)
            && columns.iter().any(|column| column.bound_to.as_ref().is_some_and(|binding| binding.column == name))
    }
}
