//! Opaque symmetric keys (`EVP_SKEY`, since 3.5), and the ciphers that take them: offered as `default` has them.
//!
//! libcrypto gives such a key to ciphers of the key's own provider alone. Since an application takes keys and ciphers from the
//! provider that it prefers, one that has some of the ciphers has to have these keys as well, and all ciphers.

use std::ffi::{CStr, c_int};

use crate::ffi::op;
use crate::inner::{Found, Inner};

/// What is offered as `default` has it beside the algorithms of ours, whose names are given. None before 3.5.
pub(crate) fn beside<'a>(inner: &'a Inner, number: c_int, ours: &'a [&CStr]) -> impl Iterator<Item = Found> + 'a {
    let is_offered = [op::CIPHER, op::SKEYMGMT].contains(&number) && inner.all(op::SKEYMGMT).next().is_some();
    let all = is_offered.then(|| inner.all(number)).into_iter().flatten();
    all.filter(|found| !ours.iter().any(|name| found.is(name)))
}
