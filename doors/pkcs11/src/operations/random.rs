//! Random bytes.

use ciphermill::{Mill, One};
use ciphermill_contract::{Direction, KeyId, Suite};

use crate::rv::{Asked, Result, of_status};

/// Fills a buffer with random bytes.
///
/// # Errors
/// Those of the mill.
pub(crate) fn random(mill: &Mill, to: &mut [u8]) -> Result<()> {
    // In pieces, since the length of a batch is limited.
    for piece in to.chunks_mut(1 << 20) {
        let one = One { key: KeyId::NONE, iv: &[], aad: &[], data: piece, input_len: 0, tag: &mut [] };
        of_status(mill.run_one(Suite::Random, Direction::Encrypt, one)?.status, Asked::Other)?;
    }
    Ok(())
}
