//! CMAC (NIST SP 800-38B) over AES and triple DES.

use crate::aes::{self, AesKey};
use crate::des::{self, TripleDesKey};
use crate::ffi::Wiped;

/// A cipher of blocks of `N` bytes, as far as CMAC needs one.
pub(crate) trait CbcMac<const N: usize>: Sized + Send + Sync + 'static {
    /// Expands a key; `None` for a length that the cipher has not.
    fn expand(key: &[u8]) -> Option<Self>;

    /// Absorbs whole blocks into `state`.
    fn cbc_mac(&self, state: &mut [u8; N], blocks: &[u8]);
}

/// A key for CMAC.
pub(crate) struct CmacKey<C, const N: usize> {
    cipher: C,
    /// The subkeys, for messages of whole blocks and for others (6.1).
    whole: Wiped<[u8; N]>,
    partial: Wiped<[u8; N]>,
}

/// A key for AES-CMAC.
pub(crate) type AesCmacKey = CmacKey<AesKey, { aes::BLOCK }>;
/// A key for CMAC over triple DES.
pub(crate) type TripleDesCmacKey = CmacKey<TripleDesKey, { des::BLOCK }>;

/// A message as far as it has come. Its last block, whole or not, is kept, since it is treated apart.
#[derive(Clone)]
pub(crate) struct RunningCmac<const N: usize> {
    state: Wiped<[u8; N]>,
    last: Wiped<[u8; N]>,
    filled: usize,
}

impl<const N: usize> Default for RunningCmac<N> {
    fn default() -> RunningCmac<N> {
        RunningCmac { state: Wiped([0; N]), last: Wiped([0; N]), filled: 0 }
    }
}

impl CbcMac<{ aes::BLOCK }> for AesKey {
    fn expand(key: &[u8]) -> Option<AesKey> {
        AesKey::encryption(key)
    }

    fn cbc_mac(&self, state: &mut [u8; aes::BLOCK], blocks: &[u8]) {
        self.cbc_mac(state, blocks);
    }
}

impl CbcMac<{ des::BLOCK }> for TripleDesKey {
    fn expand(key: &[u8]) -> Option<TripleDesKey> {
        TripleDesKey::new(key)
    }

    fn cbc_mac(&self, state: &mut [u8; des::BLOCK], blocks: &[u8]) {
        self.cbc_mac(state, blocks);
    }
}

impl<C: CbcMac<N>, const N: usize> CmacKey<C, N> {
    /// Expands a key and derives its subkeys; `None` for a length that the cipher has not.
    pub(crate) fn new(key: &[u8]) -> Option<CmacKey<C, N>> {
        let cipher = C::expand(key)?;
        let mut state = Wiped([0; N]);
        cipher.cbc_mac(&mut state.0, &[0; N]);
        let whole = Wiped(double(&state.0));
        let partial = Wiped(double(&whole.0));
        Some(CmacKey { cipher, whole, partial })
    }

    /// The full tag.
    pub(crate) fn compute(&self, message: &[u8]) -> [u8; N] {
        let mut running = RunningCmac::default();
        self.absorb(&mut running, message);
        self.end(running)
    }

    /// Takes more of a message.
    pub(crate) fn absorb(&self, running: &mut RunningCmac<N>, bytes: &[u8]) {
        let RunningCmac { state, last, filled } = running;
        let wanted = if *filled == 0 { 0 } else { N - *filled };
        let (first, rest) = bytes.split_at(bytes.len().min(wanted));
        last.0[*filled..*filled + first.len()].copy_from_slice(first);
        *filled += first.len();
        if rest.is_empty() {
            return;
        }
        if *filled > 0 {
            self.cipher.cbc_mac(&mut state.0, &last.0);
        }
        let (blocks, end) = rest.split_at((rest.len() - 1) / N * N);
        self.cipher.cbc_mac(&mut state.0, blocks);
        last.0[..end.len()].copy_from_slice(end);
        *filled = end.len();
    }

    /// The full tag of what was absorbed.
    pub(crate) fn end(&self, mut running: RunningCmac<N>) -> [u8; N] {
        let RunningCmac { state, last, filled } = &mut running;
        // An empty message has an empty last block.
        let subkey = if *filled == N {
            &self.whole
        } else {
            last.0[*filled..].fill(0);
            last.0[*filled] = 0x80;
            &self.partial
        };
        for (byte, key) in last.0.iter_mut().zip(subkey.0) {
            *byte ^= key;
        }
        self.cipher.cbc_mac(&mut state.0, &last.0);
        state.0
    }
}

/// Doubling in GF(2^64) or GF(2^128) with the polynomials of SP 800-38B, 5.3, without a branch on the key.
fn double<const N: usize>(block: &[u8; N]) -> [u8; N] {
    let polynomial = if N == des::BLOCK { 0x1b } else { 0x87 };
    let mut doubled = [0; N];
    for (to, pair) in doubled.iter_mut().zip(block.windows(2)) {
        *to = (pair[0] << 1) | (pair[1] >> 7);
    }
    doubled[N - 1] = (block[N - 1] << 1) ^ ((block[0] >> 7) * polynomial);
    doubled
}
