//! What tells one secret key from another without telling what it is.

use ciphermill_contract::suite::{BlockCipher, Digest, Mode};
use ciphermill_contract::{Direction, KeyForm, Suite};
use zeroize::Zeroizing;

use crate::key::{Key, KeyShape};
use crate::operations::digest::Hasher;
use crate::operations::{Buffers, run};
use crate::rv::{Asked, Result};

/// Bytes of a check value.
const LEN: usize = 3;

/// The check value of a secret key (PKCS#11 3.2, 4.10.2): the first bytes of a block of zeros that it encrypts, of generic secrets those of their
/// SHA-1. None for keys of other kinds, for which the standard has none, and for those that are names of a token's.
///
/// # Errors
/// Those of the mill.
pub(crate) fn check_value(key: &Key) -> Result<Option<Zeroizing<Vec<u8>>>> {
    if key.value.form() != KeyForm::Secret {
        return Ok(None);
    }
    let cipher = match key.shape {
        KeyShape::Aes(size) => BlockCipher::Aes(size),
        KeyShape::Des => BlockCipher::Des,
        KeyShape::TripleDes => BlockCipher::TripleDes,
        KeyShape::Bytes => {
            let mut hasher = Hasher::of(key.value.mill(), Digest::Sha1)?;
            hasher.update(key.value.bytes())?;
            return hasher.finish().map(first);
        }
        _ => return Ok(None),
    };
    let mut block = vec![0; cipher.block_len()];
    let input_len = block.len();
    let buffers = Buffers { data: &mut block, input_len, ..Buffers::default() };
    let what = (Suite::Cipher(cipher, Mode::Ecb), Direction::Encrypt);
    run(key.value.mill(), what, key.value.id()?, Asked::Other, buffers)?;
    Ok(first(block))
}

fn first(mut bytes: Vec<u8>) -> Option<Zeroizing<Vec<u8>>> {
    bytes.truncate(LEN);
    Some(Zeroizing::new(bytes))
}
