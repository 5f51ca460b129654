//! What can be said to `ciphermill inspect`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{KeystoreArgs, parse_delimiter};

#[derive(Debug, Args)]
#[command(after_help = "\
Without a key it shows what the manifest says and whether the file is the one that it was written for. With --verify it \
takes the key from the keystore, and verifies the manifest's signature and each value of random and deterministic columns.

A CSV table whose manifest is lost gets a new one by --rebuild, from the key and from columns as they were given to \
`protect`. Values are verified on the way; that no row was added, removed or swapped cannot be known any more.

The exit code is 1 when something does not hold.

Examples:
  ciphermill inspect safe.parquet
  ciphermill inspect safe.csv --verify --json
  ciphermill inspect safe.csv --rebuild --key data --column name=deterministic --column phone=ff1")]
pub(crate) struct InspectArgs {
    /// The protected table, or a folder of such tables.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub input: PathBuf,
    /// The manifest [default: the input's name with .ciphermill.json, else the one in a Parquet file's footer].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: Option<PathBuf>,
    /// Verify signature and values, with the key from the keystore.
    #[arg(long)]
    pub verify: bool,
    /// Make a lost manifest of a CSV table anew.
    #[arg(long, conflicts_with_all = ["manifest", "verify"], requires = "columns")]
    pub rebuild: bool,
    /// A column and its method, as given to `protect`; with --rebuild, may be given many times.
    #[arg(long = "column", value_name = "NAME=METHOD[:OPTIONS]", requires = "rebuild")]
    pub columns: Vec<String>,
    /// The key that the table was protected with, with --rebuild [default: from ciphermill.toml, else `default`].
    #[arg(long, value_name = "NAME", requires = "rebuild")]
    pub key: Option<String>,
    /// The version of that key [default: the current one].
    #[arg(long, value_name = "VERSION", requires = "rebuild")]
    pub key_version: Option<u32>,
    /// The character between CSV fields, with --rebuild [default: a comma, for .tsv a tabulator].
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter, requires = "rebuild")]
    pub delimiter: Option<u8>,
    /// The table has no header, with --rebuild: its columns are called column_1, column_2 and so on.
    #[arg(long, requires = "rebuild")]
    pub no_header: bool,
    /// As given to `protect`, with --rebuild.
    #[arg(long, value_name = "COLUMN", requires = "rebuild")]
    pub bind_row: Option<String>,
    /// As given to `protect`, with --rebuild.
    #[arg(long, value_name = "NAME", requires = "bind_row", default_value = "", hide_default_value = true)]
    pub bind_table: String,
    /// Replace a manifest that exists, with --rebuild.
    #[arg(long, requires = "rebuild")]
    pub force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub keystore: KeystoreArgs,
}
