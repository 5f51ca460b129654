//! CMAC (NIST SP 800-38B) over AES and triple DES.

use crate::aes::{self, AesKey};
use crate::des::{self, TripleDesKey};
use crate::ffi::Wiped;

/// The two subkeys, for messages of whole blocks and for others (6.1).
struct Subkeys<const N: usize> {
    whole: Wiped<[u8; N]>,
    partial: Wiped<[u8; N]>,
}

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

/// A key for AES-CMAC.
pub(crate) struct CmacKey {
    aes: AesKey,
    subkeys: Subkeys<{ aes::BLOCK }>,
}

/// A key for CMAC over triple DES.
pub(crate) struct TripleDesCmacKey {
    des: TripleDesKey,
    subkeys: Subkeys<{ des::BLOCK }>,
}

impl CmacKey {
    /// Expands a key and derives its subkeys; `None` for a length that AES has not.
    pub(crate) fn new(key: &[u8]) -> Option<CmacKey> {
        let aes = AesKey::encryption(key)?;
        let subkeys = Subkeys::new(|state, block| aes.cbc_mac(state, block));
        Some(CmacKey { aes, subkeys })
    }

    /// The full tag.
    pub(crate) fn compute(&self, message: &[u8]) -> [u8; aes::BLOCK] {
        let mut running = RunningCmac::default();
        self.absorb(&mut running, message);
        self.end(running)
    }

    /// Takes more of a message.
    pub(crate) fn absorb(&self, running: &mut RunningCmac<{ aes::BLOCK }>, bytes: &[u8]) {
        running.absorb(bytes, |state, blocks| self.aes.cbc_mac(state, blocks));
    }

    /// The full tag of what was absorbed.
    pub(crate) fn end(&self, running: RunningCmac<{ aes::BLOCK }>) -> [u8; aes::BLOCK] {
        running.end(&self.subkeys, |state, blocks| self.aes.cbc_mac(state, blocks))
    }
}

impl TripleDesCmacKey {
    /// Expands two or three keys and derives the subkeys; `None` for any other length.
    pub(crate) fn new(key: &[u8]) -> Option<TripleDesCmacKey> {
        let des = TripleDesKey::new(key)?;
        let subkeys = Subkeys::new(|state, block| des.cbc_mac(state, block));
        Some(TripleDesCmacKey { des, subkeys })
    }

    /// The full tag.
    pub(crate) fn compute(&self, message: &[u8]) -> [u8; des::BLOCK] {
        let mut running = RunningCmac::default();
        self.absorb(&mut running, message);
        self.end(running)
    }

    /// Takes more of a message.
    pub(crate) fn absorb(&self, running: &mut RunningCmac<{ des::BLOCK }>, bytes: &[u8]) {
        running.absorb(bytes, |state, blocks| self.des.cbc_mac(state, blocks));
    }

    /// The full tag of what was absorbed.
    pub(crate) fn end(&self, running: RunningCmac<{ des::BLOCK }>) -> [u8; des::BLOCK] {
        running.end(&self.subkeys, |state, blocks| self.des.cbc_mac(state, blocks))
    }
}

impl<const N: usize> Subkeys<N> {
    /// Derives them; `absorb` takes whole blocks into a CBC-MAC.
    fn new(absorb: impl Fn(&mut [u8; N], &[u8])) -> Subkeys<N> {
        let mut state = Wiped([0; N]);
        absorb(&mut state.0, &[0; N]);
        let whole = Wiped(double(&state.0));
        let partial = Wiped(double(&whole.0));
        Subkeys { whole, partial }
    }
}

impl<const N: usize> RunningCmac<N> {
    fn absorb(&mut self, bytes: &[u8], cbc_mac: impl Fn(&mut [u8; N], &[u8])) {
        let RunningCmac { state, last, filled } = self;
        let wanted = if *filled == 0 { 0 } else { N - *filled };
        let (first, rest) = bytes.split_at(bytes.len().min(wanted));
        last.0[*filled..*filled + first.len()].copy_from_slice(first);
        *filled += first.len();
        if rest.is_empty() {
            return;
        }
        if *filled > 0 {
            cbc_mac(&mut state.0, &last.0);
        }
        let (blocks, end) = rest.split_at((rest.len() - 1) / N * N);
        cbc_mac(&mut state.0, blocks);
        last.0[..end.len()].copy_from_slice(end);
        *filled = end.len();
    }

    fn end(mut self, subkeys: &Subkeys<N>, cbc_mac: impl Fn(&mut [u8; N], &[u8])) -> [u8; N] {
        let RunningCmac { state, last, filled } = &mut self;
        // An empty message has an empty last block.
        let subkey = if *filled == N {
            &subkeys.whole
        } else {
            last.0[*filled..].fill(0);
            last.0[*filled] = 0x80;
            &subkeys.partial
        };
        for (byte, key) in last.0.iter_mut().zip(subkey.0) {
            *byte ^= key;
        }
        cbc_mac(&mut state.0, &last.0);
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
