//! Fields of a few bits, one behind the other, and words of 32 bits (FIPS 203, 4.2.1; FIPS 204, 7.1). ML-KEM's fields are read and
//! written two at a time, as one of twice the bits.

/// Words of 64 bits of a vector at most.
pub(super) const LONGS_MAX: usize = 8;

/// Where the words of a vector find the bytes of their fields, and how many bits before them there are.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Places {
    pub(super) bytes: [u8; 64],
    pub(super) shifts: [u32; 16],
}

/// The places of fields of an even number of bits, up to 24: four bytes hold each.
pub(super) const fn places(bits: usize) -> Places {
    assert!(bits.is_multiple_of(2) && bits <= 24);
    let mut places = Places { bytes: [0; 64], shifts: [0; 16] };
    let mut word = 0;
    while word < 16 {
        let mut byte = 0;
        while byte < 4 {
            places.bytes[4 * word + byte] = (word * bits / 8 + byte) as u8;
            byte += 1;
        }
        places.shifts[word] = (word * bits % 8) as u32;
        word += 1;
    }
    places
}

/// See [`super::isa::Isa::fields`]: the first words of `longs`, `count` pairs of them.
#[inline(always)]
pub(super) fn take(bits: usize, bytes: &[u8], count: usize) -> [u64; LONGS_MAX] {
    let (mut longs, mask) = ([0; LONGS_MAX], (1 << bits) - 1);
    for (pair, long) in longs.iter_mut().enumerate().take(count) {
        let bit = 2 * bits * pair;
        let rest = &bytes[bit / 8..];
        let mut eight = [0; 8];
        if let Some(all) = rest.first_chunk() {
            eight = *all;
        } else {
            eight[..rest.len()].copy_from_slice(rest);
        }
        let both = u64::from_le_bytes(eight) >> (bit % 8);
        *long = (both & mask) | (both >> bits & mask) << 32;
    }
    longs
}

/// See [`super::isa::Isa::put_fields`].
#[inline(always)]
pub(super) fn put(bits: usize, longs: &[u64], bytes: &mut [u8]) {
    let pair = |long: u64| (long & 0xffff_ffff) | long >> 32 << bits;
    // Four fields are whole bytes.
    let len = bits / 2;
    for (two, bytes) in longs.as_chunks::<2>().0.iter().zip(bytes.chunks_exact_mut(len)) {
        let four = u128::from(pair(two[0])) | u128::from(pair(two[1])) << (2 * bits);
        bytes.copy_from_slice(&four.to_le_bytes()[..len]);
    }
}
