//! Arguments of `ciphermill value`.

use ciphermill_table::ValueEncoding;
use clap::{Args, ValueEnum};

use super::keys::KeystoreArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Values come on standard input, one a line, and go to standard output. An empty line stays empty: it stands for null. \
Values that are bound to rows (--bind-row) belong to their tables and cannot be made here.

Examples:
  printf '%s\\n' ann@example.org | ciphermill value --column mail=deterministic:as=customer.mail
  ciphermill value --column id=token --type int64 --encoding sql < ids.txt
  ciphermill value --decrypt --column phone=ff1:preset=phone --key-version 3 < phones.txt")]
pub(crate) struct ValueArgs {
    /// The column and its method, as for protect.
    #[arg(long, value_name = "NAME=METHOD[:OPTIONS]")]
    pub column: String,
    /// Restore values instead of protecting them.
    #[arg(long)]
    pub decrypt: bool,
    /// The column's type in the table: text (always so in CSV), int8 to int64, uint8 to uint64.
    #[arg(long = "type", value_name = "TYPE", default_value = "text")]
    pub data_type: String,
    /// How protected byte strings are written.
    #[arg(long, value_enum, default_value_t = EncodingArg::Base64url)]
    pub encoding: EncodingArg,
    /// The key in the keystore [default: from ciphermill.toml, else `default`].
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// The key's version [default: the current one].
    #[arg(long, value_name = "VERSION")]
    pub key_version: Option<u32>,
    /// Run on this engine instead of the one that the router chooses.
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    #[command(flatten)]
    pub keystore: KeystoreArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EncodingArg {
    /// As in protected CSV files.
    Base64url,
    /// Hexadecimal digits.
    Hex,
    /// A literal of SQL: X'…'.
    Sql,
}

impl From<EncodingArg> for ValueEncoding {
    fn from(encoding: EncodingArg) -> ValueEncoding {
        match encoding {
            EncodingArg::Base64url => ValueEncoding::Base64Url,
            EncodingArg::Hex => ValueEncoding::Hex,
            EncodingArg::Sql => ValueEncoding::Sql,
        }
    }
}
