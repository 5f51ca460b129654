//! The layout of what C programs share with the library, as Rust sees it; `tests/layout.c` says the same of C's side, and `ops`
//! that operations are the contract's.

use std::mem::offset_of;

use crate::{
    ciphermill_batch, ciphermill_columns, ciphermill_completed, ciphermill_error, ciphermill_extents, ciphermill_key,
    ciphermill_key_policy, ciphermill_message, ciphermill_op, ciphermill_options, ciphermill_report,
    ciphermill_run_options, ciphermill_suite_info,
};

const _: () = {
    assert!(size_of::<ciphermill_key>() == 8);
    assert!(size_of::<ciphermill_op>() == 64 && align_of::<ciphermill_op>() == 64);
    assert!(size_of::<ciphermill_batch>() == 48 && offset_of!(ciphermill_batch, direction) == 40);
    assert!(size_of::<ciphermill_report>() == 32);
    assert!(size_of::<ciphermill_message>() == 80);
    assert!(size_of::<ciphermill_extents>() == 32);
    assert!(size_of::<ciphermill_columns>() == 248 && offset_of!(ciphermill_columns, tag_kind) == 240);
    assert!(offset_of!(ciphermill_columns, inputs) == 56 && offset_of!(ciphermill_columns, aads) == 192);
    assert!(size_of::<ciphermill_completed>() == 56 && offset_of!(ciphermill_completed, status) == 48);
    assert!(size_of::<ciphermill_error>() == 24 && offset_of!(ciphermill_error, text) == 16);
    assert!(size_of::<ciphermill_options>() == 32);
    assert!(size_of::<ciphermill_run_options>() == 32);
    assert!(size_of::<ciphermill_key_policy>() == 48);
    assert!(size_of::<ciphermill_suite_info>() == 208);
};
