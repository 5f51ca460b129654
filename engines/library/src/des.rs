//! DES and triple DES over AWS-LC's block and mode functions. Table-driven: their running time varies.

use aws_lc_sys as sys;

use crate::ffi::Wiped;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 8;

/// A DES key schedule; parity bits are not looked at.
pub(crate) struct DesKey(Wiped<sys::DES_key_schedule>);

/// Three DES key schedules; with two keys the third is the first again.
pub(crate) struct TripleDesKey([DesKey; 3]);

impl DesKey {
    /// Expands a key of 8 bytes; `None` for any other length.
    pub(crate) fn new(key: &[u8]) -> Option<DesKey> {
        let key = Wiped(sys::DES_cblock { bytes: key.try_into().ok()? });
        let mut schedule = Wiped(sys::DES_key_schedule::default());
        // SAFETY: both structures are whole and initialised; the function fills the schedule.
        unsafe { sys::DES_set_key_unchecked(&key.0, &mut schedule.0) };
        Some(DesKey(schedule))
    }
}

impl TripleDesKey {
    /// Expands two or three keys of 8 bytes; `None` for any other length.
    pub(crate) fn new(key: &[u8]) -> Option<TripleDesKey> {
        let first = DesKey::new(key.get(..8)?)?;
        let second = DesKey::new(key.get(8..16)?)?;
        let third = match key.len() {
            16 => DesKey::new(&key[..8])?,
            24 => DesKey::new(&key[16..])?,
            _ => return None,
        };
        Some(TripleDesKey([first, second, third]))
    }
}

impl TripleDesKey {
    /// CBC-MAC: absorbs the whole blocks of `data` into `state`.
    pub(crate) fn cbc_mac(&self, state: &mut [u8; BLOCK], data: &[u8]) {
        let mut block = Wiped(sys::DES_cblock { bytes: *state });
        for input in data.as_chunks::<BLOCK>().0 {
            for (byte, other) in block.0.bytes.iter_mut().zip(input) {
                *byte ^= other;
            }
            self.block(&mut block.0, true);
        }
        *state = block.0.bytes;
    }
}

/// ECB and CBC in place over whole blocks.
pub(crate) trait DesModes {
    /// One block in place.
    fn block(&self, block: &mut sys::DES_cblock, encrypt: bool);

    /// CBC in place over the whole blocks of `data`.
    fn cbc(&self, iv: [u8; BLOCK], data: &mut [u8], encrypt: bool);

    /// ECB in place over the whole blocks of `data`.
    fn ecb(&self, data: &mut [u8], encrypt: bool) {
        for bytes in data.as_chunks_mut::<BLOCK>().0 {
            let mut block = sys::DES_cblock { bytes: *bytes };
            self.block(&mut block, encrypt);
            *bytes = block.bytes;
        }
    }
}

impl DesModes for DesKey {
    fn block(&self, block: &mut sys::DES_cblock, encrypt: bool) {
        let place = core::ptr::from_mut(block);
        // SAFETY: the block has 8 bytes and is read before it is written; the schedule is only read.
        unsafe { sys::DES_ecb_encrypt(place, place, &self.0.0, way(encrypt)) }
    }

    fn cbc(&self, iv: [u8; BLOCK], data: &mut [u8], encrypt: bool) {
        let len = data.len() - data.len() % BLOCK;
        let place = data.as_mut_ptr();
        let mut iv = sys::DES_cblock { bytes: iv };
        // SAFETY: `len` bytes lie at `place`, a multiple of the block; each block is read before it is written.
        unsafe { sys::DES_ncbc_encrypt(place, place, len, &self.0.0, &mut iv, way(encrypt)) }
    }
}

impl DesModes for TripleDesKey {
    fn block(&self, block: &mut sys::DES_cblock, encrypt: bool) {
        let place = core::ptr::from_mut(block);
        let [first, second, third] = &self.0;
        // SAFETY: the block has 8 bytes and is read before it is written; the schedules are only read.
        unsafe { sys::DES_ecb3_encrypt(place, place, &first.0.0, &second.0.0, &third.0.0, way(encrypt)) }
    }

    fn cbc(&self, iv: [u8; BLOCK], data: &mut [u8], encrypt: bool) {
        let len = data.len() - data.len() % BLOCK;
        let place = data.as_mut_ptr();
        let mut iv = sys::DES_cblock { bytes: iv };
        let [first, second, third] = &self.0;
        // SAFETY: `len` bytes lie at `place`, a multiple of the block; each block is read before it is written.
        unsafe {
            sys::DES_ede3_cbc_encrypt(place, place, len, &first.0.0, &second.0.0, &third.0.0, &mut iv, way(encrypt));
        }
    }
}

const fn way(encrypt: bool) -> i32 {
    if encrypt { sys::DES_ENCRYPT } else { sys::DES_DECRYPT }
}
