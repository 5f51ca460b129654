//! A column's options on the command line: what parses is spelled back to the same thing.

use ciphermill_table::ColumnSpec;

/// # Panics
/// When the spelled options do not parse, or say something else.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(column) = ColumnSpec::parse(text) {
        let spelled = column.to_string();
        let again = ColumnSpec::parse(&spelled);
        assert_eq!(again.ok().as_ref(), Some(&column), "{spelled}");
    }
}

/// Inputs to begin with: one for each option.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "a=random",
        "a\\=b=deterministic:as=id,as-text,bind=no",
        "a=token:len=32,on-bad=null",
        "a=ff1:preset=iban,keep-last=4,on-bad=token",
        "a=ff1:alphabet=alnum,sep=- .,keep=2,on-bad=reject",
        "a=ff1:alphabet=abc\\,d",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
