//! Policy files: what is done with which columns, in TOML instead of many `--column`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ciphermill_table::{ColumnSpec, RowBinding};
use serde::Deserialize;
use toml::{Spanned, Value};

/// What a policy file says.
pub(crate) struct TablePolicy {
    /// The key in the keystore.
    pub key: Option<String>,
    /// What values are bound to beside their columns.
    pub bind_row: Option<RowBinding>,
    /// Whether the CSV table has no header.
    pub no_header: bool,
    /// The columns, in the order of their names.
    pub columns: Vec<ColumnSpec>,
}

/// The file as it lies there; anything else in it is an error, so that a misspelt rule never goes unnoticed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PolicyFile {
    key: Option<String>,
    bind_row: Option<String>,
    bind_table: Option<Spanned<String>>,
    #[serde(default)]
    no_header: bool,
    columns: BTreeMap<String, Spanned<BTreeMap<String, Spanned<Value>>>>,
}

impl TablePolicy {
    /// Reads and checks a policy file.
    ///
    /// # Errors
    /// With the file, the line and the rule that is broken.
    pub(crate) fn read(path: &Path) -> Result<TablePolicy> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        TablePolicy::parse(&text).with_context(|| format!("{} is not a valid policy", path.display()))
    }

    fn parse(text: &str) -> Result<TablePolicy> {
        let file: PolicyFile = toml::from_str(text)?;
        if let (Some(table), None) = (&file.bind_table, &file.bind_row) {
            bail!("line {}: bind-table needs bind-row", line_of(text, table.span()));
        }
        let table = file.bind_table.map(Spanned::into_inner).unwrap_or_default();
        let columns = file.columns.iter().map(|(name, entries)| parse_column(text, name, entries));
        let columns: Vec<ColumnSpec> = columns.collect::<Result<_>>()?;
        if columns.is_empty() {
            bail!("no column is named; write [columns.NAME] with its method");
        }
        let bind_row = file.bind_row.map(|column| RowBinding { column, table });
        Ok(TablePolicy { key: file.key, bind_row, no_header: file.no_header, columns })
    }
}

fn parse_column(text: &str, name: &str, entries: &Spanned<BTreeMap<String, Spanned<Value>>>) -> Result<ColumnSpec> {
    let line = line_of(text, entries.span());
    let mut method = None;
    let mut options = Vec::new();
    for (option, value) in entries.get_ref() {
        let line = line_of(text, value.span());
        let value = match (option.as_str(), value.get_ref()) {
            ("method", Value::String(value)) => {
                method = Some(value.as_str());
                continue;
            }
            ("as-text", Value::Boolean(true)) => None,
            ("as-text", Value::Boolean(false)) | ("bind", Value::Boolean(true)) => continue,
            ("bind", Value::Boolean(false)) => Some("no".to_owned()),
            (_, Value::String(value)) => Some(value.clone()),
            (_, Value::Integer(value)) => Some(value.to_string()),
            _ => bail!("line {line}: column `{name}`: `{option}` has a value of another type than it takes"),
        };
        options.push((option.as_str(), value, line));
    }
    let Some(method) = method else { bail!("line {line}: column `{name}` has no method") };
    let build = |count: usize| {
        let pairs: Vec<_> = options[..count].iter().map(|(option, value, _)| (*option, value.clone())).collect();
        ColumnSpec::of_options(name, method, &pairs).map_err(|error| error.to_string())
    };
    build(options.len()).or_else(|problem| {
        // The first option with which the same problem arises is where it lies; else it is the column's.
        let guilty = (1..=options.len()).find(|count| build(*count).is_err_and(|found| found == problem));
        let line = match (guilty, build(0)) {
            (Some(count), Ok(_)) => options[count - 1].2,
            _ => line,
        };
        bail!("line {line}: {problem}")
    })
}

/// The line, counted from one, on which a part of the file begins.
fn line_of(text: &str, span: Range<usize>) -> usize {
    1 + text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
key = "customer-data"
bind-row = "id"
bind-table = "customers"

[columns.name]
method = "random"
on-bad = "reject"

[columns."e.mail=x"]
method = "deterministic"
as = "customer.mail"
as-text = true
bind = false

[columns.phone]
method = "ff1"
preset = "phone"
keep = 2
sep = "-,:="
on-bad = "null"
"#;

    fn problem(text: &str) -> String {
        crate::output::chain(&TablePolicy::parse(text).err().expect("an error"))
    }

    #[test]
    fn a_policy_says_what_the_command_line_says() {
        let policy = TablePolicy::parse(POLICY).expect("a policy");
        assert_eq!(policy.key.as_deref(), Some("customer-data"));
        assert_eq!(
            policy.bind_row.map(|binding| (binding.column, binding.table)),
            Some(("id".into(), "customers".into()))
        );
        let wanted = [
            r"e.mail\=x=deterministic:as=customer.mail,as-text,bind=no",
            "name=random:on-bad=reject",
            r"phone=ff1:preset=phone,keep=2,sep=-\,\:\=,on-bad=null",
        ];
        let wanted = wanted.map(|spec| ColumnSpec::parse(spec).expect("a specification"));
        assert_eq!(policy.columns, wanted);
    }

    #[test]
    fn errors_name_the_line_and_the_rule() {
        for (text, line, words) in [
            ("keys = 1\n[columns.a]\nmethod = \"random\"\n", 1, "keys"),
            ("[columns.a]\nmethod = \"random\"\n[columns.a]\n", 3, "duplicate"),
            ("[columns.a]\n\nmethod = \"ff1\"\nalphabet = \"digits\"\nkep = 2\n", 5, "unknown option `kep`"),
            ("[columns.a]\nmethod = \"random\"\nlen = 16\n", 3, "no option `len`"),
            ("[columns.a]\nlen = 16\nmethod = \"token\"\nas-text = \"yes\"\n", 4, "has no value"),
            ("[columns.a]\nmethod = \"token\"\n\nlen = 8\n", 4, "16 to 32"),
            ("[columns.a]\nmethod = \"token\"\nlen = 1.5\n", 3, "another type"),
            ("[columns.a]\nmethod = \"ff1\"\nsep = \"--\"\n", 3, "twice"),
            ("\n[columns.a]\nkeep = 2\n", 2, "no method"),
            ("\n[columns.a]\nmethod = \"rot13\"\n", 2, "rot13"),
            ("bind-table = \"x\"\n[columns.a]\nmethod = \"random\"\n", 1, "needs bind-row"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(&format!("line {line}")) && problem.contains(words), "{text}\n{problem}");
        }
        assert!(problem("").contains("columns"));
        let without = "no-header = true\n[columns.column_1]\nmethod = \"random\"\n";
        assert!(TablePolicy::parse(without).is_ok_and(|policy| policy.no_header));
        assert!(problem("[columns]\n").contains("no column is named"));
    }
}
