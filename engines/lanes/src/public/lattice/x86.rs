//! The vectors of x86-64: AVX-512 with VBMI2, and AVX2.

use core::arch::x86_64::*;

use super::fields::{self, Places as FieldPlaces, places};
use super::isa::{Isa, Words16, Words32};
use super::sample;
use super::tables::{DSA_Q, DsaTables, KEM_Q, KemTables, dsa_tables, kem_tables};
use crate::x86::{Avx2, Avx512, Avx512Vbmi2};

static KEM_512: KemTables = kem_tables(32);
static DSA_512: DsaTables = dsa_tables(16);
static KEM_256: KemTables = kem_tables(16);
static DSA_256: DsaTables = dsa_tables(8);

/// Places of the fields that there are, by half of their bits.
static FIELDS: [FieldPlaces; 13] = {
    let mut all = [places(0); 13];
    let mut half = 1;
    while half <= 12 {
        all[half] = places(2 * half);
        half += 1;
    }
    all
};

/// Where bytes lie that are in front of each word of 64 bits, by their number.
static FRONTS: [[u8; 64]; 7] = {
    let mut all = [[0; 64]; 7];
    let mut bytes = 1;
    while bytes <= 6 {
        let mut at = 0;
        while at < 8 * bytes {
            all[bytes][at] = (at / bytes * 8 + at % bytes) as u8;
            at += 1;
        }
        bytes += 1;
    }
    all
};

/// Bytes that each lane of a shuffle wants in front, lowest first.
type Places = [u8; 64];

/// Where the words of 16 bits lie whose numbers of 12 bits follow each other in bytes.
const TWELVE: Places = {
    let mut places = [0; 64];
    let mut word = 0;
    while word < 32 {
        let byte = word / 2 * 3 + word % 2;
        places[2 * word] = byte as u8;
        places[2 * word + 1] = byte as u8 + 1;
        word += 1;
    }
    places
};

/// Where three bytes of each word of 32 bits lie; the fourth is masked.
const TWENTY_FOUR: Places = {
    let mut places = [0; 64];
    let mut word = 0;
    while word < 16 {
        let mut byte = 0;
        while byte < 4 {
            places[4 * word + byte] = if byte < 3 { 3 * word + byte } else { 3 * word } as u8;
            byte += 1;
        }
        word += 1;
    }
    places
};

/// Two less a half of a byte modulo five, and four less it.
const MODULO_FIVE: [i8; 16] = {
    let mut all = [0; 16];
    let mut half = 0;
    while half < 16 {
        all[half] = 2 - (half % 5) as i8;
        half += 1;
    }
    all
};
const FROM_FOUR: [i8; 16] = {
    let mut all = [0; 16];
    let mut half = 0;
    while half < 16 {
        all[half] = 4 - half as i8;
        half += 1;
    }
    all
};

/// For each set of eight words those that are in it, in front.
const IN_FRONT: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut word, mut at) = (0, 0);
        while word < 8 {
            if set >> word & 1 == 1 {
                all[set][at] = word as u8;
                at += 1;
            }
            word += 1;
        }
        set += 1;
    }
    all
};

macro_rules! lattice_vectors {
    ($set:ident, $vector:ty, $bytes:literal, $hash:ty, |$self:ident| $hash_of:expr, $kem:ident, $dsa:ident, $load:ident,
     $store:ident, $widen:ident, $splat16:ident, $splat32:ident, $and:ident, $or:ident, $add16:ident, $sub16:ident, $low16:ident,
     $high16:ident, $round16:ident, $pairs16:ident, $shl16:ident, $sar16:ident, $add32:ident, $sub32:ident, $low32:ident,
     $even32:ident, $shl32:ident, $shr32:ident, $sar32:ident, $add64:ident, $sub64:ident, $shr64:ident;
     $($rest:tt)*) => {
        // SAFETY of every block below: a value of the instruction set is the proof that the processor has its instructions; of
        // reading and writing it is the caller's promise.
        impl Isa for $set {
            type V = $vector;
            type Hash = $hash;
            const BYTES: usize = $bytes;
            const KEM: &'static KemTables = &$kem;
            const DSA: &'static DsaTables = &$dsa;

            #[inline(always)]
            fn hash($self) -> $hash {
                $hash_of
            }

            #[inline(always)]
            unsafe fn load(self, from: *const u8) -> $vector {
                // SAFETY: the caller's promise.
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn store(self, vector: $vector, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { $store(to.cast(), vector) }
            }

            #[inline(always)]
            unsafe fn widen(self, from: *const u8) -> $vector {
                // SAFETY: the caller's promise.
                unsafe { $widen(from) }
            }

            lattice_vectors!(@splat $splat16 splat16 i16, $splat32 splat32 i32; $vector);
            lattice_vectors!(@two $vector; $and and, $or or, $add16 add16, $sub16 sub16, $low16 mul_low16,
                $high16 mul_high16, $round16 mul_round16, $pairs16 mul_pairs16, $add32 add32, $sub32 sub32,
                $low32 mul_low32, $even32 mul_even32, $add64 add64, $sub64 sub64);
            lattice_vectors!(@shift i32 $vector; $shl16 shl16, $sar16 sar16);
            lattice_vectors!(@shift u32 $vector; $shl32 shl32, $shr32 shr32, $sar32 sar32, $shr64 shr64);

            $($rest)*
        }
    };
    (@splat $($intrinsic:ident $name:ident $word:ty),*; $vector:ty) => {$(
        #[inline(always)]
        fn $name(self, word: $word) -> $vector {
            // SAFETY: `self`.
            unsafe { $intrinsic(word) }
        }
    )*};
    (@two $vector:ty; $($intrinsic:ident $name:ident),*) => {$(
        #[inline(always)]
        fn $name(self, a: $vector, b: $vector) -> $vector {
            // SAFETY: `self`.
            unsafe { $intrinsic(a, b) }
        }
    )*};
    (@shift $count:ident $vector:ty; $($intrinsic:ident $name:ident),*) => {$(
        #[inline(always)]
        fn $name<const BITS: $count>(self, a: $vector) -> $vector {
            // The count in a register is known when this is compiled, and becomes an immediate.
            // SAFETY: `self`.
            unsafe { $intrinsic(a, _mm_cvtsi32_si128(BITS as i32)) }
        }
    )*};
}

lattice_vectors! {
    Avx512Vbmi2, __m512i, 64, Avx512, |self| self.base(), KEM_512, DSA_512, _mm512_loadu_si512, _mm512_storeu_si512,
    widen_512, _mm512_set1_epi16, _mm512_set1_epi32,
    _mm512_and_si512, _mm512_or_si512, _mm512_add_epi16, _mm512_sub_epi16, _mm512_mullo_epi16, _mm512_mulhi_epi16,
    _mm512_mulhrs_epi16, _mm512_madd_epi16, _mm512_sll_epi16, _mm512_sra_epi16, _mm512_add_epi32, _mm512_sub_epi32,
    _mm512_mullo_epi32, _mm512_mul_epi32, _mm512_sll_epi32, _mm512_srl_epi32, _mm512_sra_epi32, _mm512_add_epi64,
    _mm512_sub_epi64, _mm512_srl_epi64;

    #[inline(always)]
    fn swap16(self, a: __m512i) -> __m512i {
        // SAFETY: `self`.
        unsafe { _mm512_rol_epi32::<16>(a) }
    }

    #[inline(always)]
    fn halves16(self, low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: `self`.
        unsafe { _mm512_mask_blend_epi16(0xaaaa_aaaa, low, high) }
    }

    #[inline(always)]
    fn signs16(self, a: __m512i) -> u32 {
        // SAFETY: `self`.
        unsafe { _mm512_movepi16_mask(a) }
    }

    #[inline(always)]
    fn halves32(self, low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: `self`.
        unsafe { _mm512_mask_blend_epi32(0xaaaa, low, high) }
    }

    #[inline(always)]
    fn transpose(self, block: usize, a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        // SAFETY: `self`.
        unsafe {
            match block {
                32 => (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b)),
                16 => (
                    _mm512_mask_shuffle_i64x2::<0x80>(a, 0xcc, b, b),
                    _mm512_mask_shuffle_i64x2::<0x31>(b, 0x33, a, a),
                ),
                8 => (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)),
                _ => {
                    debug_assert!(block == 4);
                    (
                        _mm512_mask_shuffle_epi32::<0xa0>(a, 0xaaaa, b),
                        _mm512_mask_shuffle_epi32::<0xf5>(b, 0x5555, a),
                    )
                }
            }
        }
    }

    #[inline(always)]
    fn fields(self, bits: usize, bytes: &[u8]) -> __m512i {
        let FieldPlaces { bytes: places, shifts } = &FIELDS[bits / 2];
        // SAFETY: `self`; the mask keeps to the bytes.
        unsafe {
            let taken = _mm512_maskz_loadu_epi8(_bzhi_u64(u64::MAX, bytes.len().min(64) as u32), bytes.as_ptr().cast());
            let words = _mm512_permutexvar_epi8(_mm512_load_si512(places.as_ptr().cast()), taken);
            let shifted = _mm512_srlv_epi32(words, _mm512_load_si512(shifts.as_ptr().cast()));
            _mm512_and_si512(shifted, _mm512_set1_epi32((1 << bits) - 1))
        }
    }

    #[inline(always)]
    fn put_fields(self, bits: usize, words: __m512i, bytes: &mut [u8]) {
        if !bits.is_multiple_of(4) {
            let mut longs = [0u64; fields::LONGS_MAX];
            // SAFETY: a vector is as long.
            unsafe { self.store(words, longs.as_mut_ptr().cast()) };
            return fields::put(bits, &longs, bytes);
        }
        // Two fields are whole bytes.
        let len = bits / 4;
        assert!(bytes.len() == 8 * len);
        // SAFETY: `self`; as many bytes are written as there are.
        unsafe {
            let upper = _mm512_maskz_mov_epi32(0xaaaa, words);
            let lower = _mm512_maskz_mov_epi32(0x5555, words);
            let pairs = _mm512_or_si512(lower, _mm512_srl_epi64(upper, _mm_cvtsi32_si128(32 - bits as i32)));
            let front = _mm512_permutexvar_epi8(_mm512_loadu_si512(FRONTS[len].as_ptr().cast()), pairs);
            _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), _bzhi_u64(u64::MAX, 8 * len as u32), front);
        }
    }

    #[inline(always)]
    fn below_kem(self, bytes: &[u8], to: &mut Words16, mut count: usize) -> usize {
        // SAFETY: `self`; the masks keep to the bytes, and a vector at fewer than 256 words ends within the slack.
        unsafe {
            let places = _mm512_loadu_si512(TWELVE.as_ptr().cast());
            let shifts = _mm512_set1_epi32(4 << 16);
            for bytes in bytes.chunks(48) {
                if count >= 256 {
                    break;
                }
                let taken = _mm512_maskz_loadu_epi8(_bzhi_u64(u64::MAX, bytes.len() as u32), bytes.as_ptr().cast());
                let shuffled = _mm512_permutexvar_epi8(places, taken);
                let numbers = _mm512_and_si512(_mm512_srlv_epi16(shuffled, shifts), _mm512_set1_epi16(0xfff));
                let all = _bzhi_u32(u32::MAX, bytes.len() as u32 / 3 * 2);
                let good = _mm512_mask_cmplt_epi16_mask(all, numbers, _mm512_set1_epi16(KEM_Q));
                _mm512_storeu_si512(to.as_mut_ptr().add(count).cast(), _mm512_maskz_compress_epi16(good, numbers));
                count += good.count_ones() as usize;
            }
        }
        count.min(256)
    }

    #[inline(always)]
    fn below_dsa(self, bytes: &[u8], to: &mut Words32, mut count: usize) -> usize {
        // SAFETY: as above.
        unsafe {
            let places = _mm512_loadu_si512(TWENTY_FOUR.as_ptr().cast());
            for bytes in bytes.chunks(48) {
                if count >= 256 {
                    break;
                }
                let taken = _mm512_maskz_loadu_epi8(_bzhi_u64(u64::MAX, bytes.len() as u32), bytes.as_ptr().cast());
                let numbers =
                    _mm512_and_si512(_mm512_permutexvar_epi8(places, taken), _mm512_set1_epi32(0x7f_ffff));
                let all = _bzhi_u32(u32::MAX, bytes.len() as u32 / 3) as u16;
                let good = _mm512_mask_cmplt_epi32_mask(all, numbers, _mm512_set1_epi32(DSA_Q));
                _mm512_storeu_si512(to.as_mut_ptr().add(count).cast(), _mm512_maskz_compress_epi32(good, numbers));
                count += good.count_ones() as usize;
            }
        }
        count.min(256)
    }

    #[inline(always)]
    fn within_eta(self, bytes: &[u8], eta: i32, to: &mut Words32, mut count: usize) -> usize {
        let (limit, coefficients) = if eta == 2 { (15, &MODULO_FIVE) } else { (9, &FROM_FOUR) };
        // SAFETY: as above; of the vectors those are written that begin below 256 words.
        unsafe {
            let coefficients = _mm512_broadcast_i32x4(_mm_loadu_si128(coefficients.as_ptr().cast()));
            for bytes in bytes.chunks(32) {
                if count >= 256 {
                    break;
                }
                let taken = _mm256_maskz_loadu_epi8(_bzhi_u32(u32::MAX, bytes.len() as u32), bytes.as_ptr().cast());
                let wide = _mm512_cvtepu8_epi16(taken);
                let both = _mm512_or_si512(wide, _mm512_slli_epi16::<4>(wide));
                let halves = _mm512_and_si512(both, _mm512_set1_epi8(15));
                let all = _bzhi_u64(u64::MAX, 2 * bytes.len() as u32);
                let good = _mm512_mask_cmplt_epu8_mask(all, halves, _mm512_set1_epi8(limit));
                let front = _mm512_maskz_compress_epi8(good, _mm512_shuffle_epi8(coefficients, halves));
                macro_rules! put {
                    ($quarter:literal) => {
                        if count + 16 * $quarter < 256 {
                            let four = _mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32::<$quarter>(front));
                            _mm512_storeu_si512(to.as_mut_ptr().add(count + 16 * $quarter).cast(), four);
                        }
                    };
                }
                put!(0);
                put!(1);
                put!(2);
                put!(3);
                count += good.count_ones() as usize;
            }
        }
        count.min(256)
    }
}

/// # Safety
/// The processor has AVX-512, and 16 bytes may be read.
#[inline(always)]
unsafe fn widen_512(from: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
}

/// # Safety
/// The processor has AVX2, and 8 bytes may be read.
#[inline(always)]
unsafe fn widen_256(from: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())) }
}

lattice_vectors! {
    Avx2, __m256i, 32, Avx2, |self| self, KEM_256, DSA_256, _mm256_loadu_si256, _mm256_storeu_si256,
    widen_256, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_and_si256, _mm256_or_si256, _mm256_add_epi16, _mm256_sub_epi16, _mm256_mullo_epi16, _mm256_mulhi_epi16,
    _mm256_mulhrs_epi16, _mm256_madd_epi16, _mm256_sll_epi16, _mm256_sra_epi16, _mm256_add_epi32, _mm256_sub_epi32,
    _mm256_mullo_epi32, _mm256_mul_epi32, _mm256_sll_epi32, _mm256_srl_epi32, _mm256_sra_epi32, _mm256_add_epi64,
    _mm256_sub_epi64, _mm256_srl_epi64;

    #[inline(always)]
    fn swap16(self, a: __m256i) -> __m256i {
        // SAFETY: `self`.
        unsafe { _mm256_or_si256(_mm256_slli_epi32::<16>(a), _mm256_srli_epi32::<16>(a)) }
    }

    #[inline(always)]
    fn halves16(self, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: `self`.
        unsafe { _mm256_blend_epi16::<0xaa>(low, high) }
    }

    #[inline(always)]
    fn signs16(self, a: __m256i) -> u32 {
        // SAFETY: `self`.
        unsafe {
            let packed = _mm256_permute4x64_epi64::<0xd8>(_mm256_packs_epi16(a, a));
            _mm256_movemask_epi8(packed).cast_unsigned() & 0xffff
        }
    }

    #[inline(always)]
    fn halves32(self, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: `self`.
        unsafe { _mm256_blend_epi32::<0xaa>(low, high) }
    }

    #[inline(always)]
    fn transpose(self, block: usize, a: __m256i, b: __m256i) -> (__m256i, __m256i) {
        // SAFETY: `self`.
        unsafe {
            match block {
                16 => (_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)),
                8 => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
                _ => {
                    debug_assert!(block == 4);
                    (
                        _mm256_blend_epi32::<0xaa>(a, _mm256_slli_epi64::<32>(b)),
                        _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(a), b),
                    )
                }
            }
        }
    }

    #[inline(always)]
    fn fields(self, bits: usize, bytes: &[u8]) -> __m256i {
        let FieldPlaces { bytes: places, shifts } = &FIELDS[bits / 2];
        let mut padded = [0; 32];
        let bytes = if bytes.len() < padded.len() {
            padded[..bytes.len()].copy_from_slice(bytes);
            &padded
        } else {
            bytes
        };
        // SAFETY: `self`; four words find their fields in 16 bytes, the next four those behind their own, and 28 bytes are read.
        unsafe {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast()));
            let both = _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(bytes.as_ptr().add(bits / 2).cast()));
            let places = _mm256_broadcastsi128_si256(_mm_load_si128(places.as_ptr().cast()));
            let shifts = _mm256_broadcastsi128_si256(_mm_load_si128(shifts.as_ptr().cast()));
            let shifted = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, places), shifts);
            _mm256_and_si256(shifted, _mm256_set1_epi32((1 << bits) - 1))
        }
    }

    #[inline(always)]
    fn below_kem(self, bytes: &[u8], to: &mut Words16, mut count: usize) -> usize {
        let mut rest = bytes;
        // Eight numbers of twelve bytes, of which sixteen are read.
        while rest.len() >= 16 && count < 256 {
            // SAFETY: `self`; sixteen bytes are there, and a vector at fewer than 256 words ends within the slack.
            unsafe {
                let places = _mm_loadu_si128(TWELVE.as_ptr().cast());
                let shuffled = _mm_shuffle_epi8(_mm_loadu_si128(rest.as_ptr().cast()), places);
                let odd = _mm_srli_epi16::<4>(shuffled);
                let numbers = _mm_and_si128(_mm_blend_epi16::<0xaa>(shuffled, odd), _mm_set1_epi16(0xfff));
                let good = _mm_cmpgt_epi16(_mm_set1_epi16(KEM_Q), numbers);
                let set = _mm_movemask_epi8(_mm_packs_epi16(good, good)) as usize & 0xff;
                let words = _mm_cvtepu8_epi16(_mm_loadl_epi64(IN_FRONT[set].as_ptr().cast()));
                // Both bytes of each word.
                let bytes = _mm_add_epi16(_mm_mullo_epi16(words, _mm_set1_epi16(0x202)), _mm_set1_epi16(0x100));
                _mm_storeu_si128(to.as_mut_ptr().add(count).cast(), _mm_shuffle_epi8(numbers, bytes));
                count += set.count_ones() as usize;
            }
            rest = &rest[12..];
        }
        sample::below_kem(rest, to, count.min(256))
    }

    #[inline(always)]
    fn below_dsa(self, bytes: &[u8], to: &mut Words32, mut count: usize) -> usize {
        let mut rest = bytes;
        // Eight numbers of 24 bytes, of which 28 are read.
        while rest.len() >= 28 && count < 256 {
            // SAFETY: as above.
            unsafe {
                let places = _mm256_broadcastsi128_si256(_mm_loadu_si128(TWENTY_FOUR.as_ptr().cast()));
                let low = _mm256_castsi128_si256(_mm_loadu_si128(rest.as_ptr().cast()));
                let both = _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(rest.as_ptr().add(12).cast()));
                let numbers = _mm256_and_si256(_mm256_shuffle_epi8(both, places), _mm256_set1_epi32(0x7f_ffff));
                let good = _mm256_cmpgt_epi32(_mm256_set1_epi32(DSA_Q), numbers);
                let set = _mm256_movemask_ps(_mm256_castsi256_ps(good)) as usize & 0xff;
                let words = _mm256_cvtepu8_epi32(_mm_loadl_epi64(IN_FRONT[set].as_ptr().cast()));
                _mm256_storeu_si256(to.as_mut_ptr().add(count).cast(), _mm256_permutevar8x32_epi32(numbers, words));
                count += set.count_ones() as usize;
            }
            rest = &rest[24..];
        }
        sample::below_dsa(rest, to, count.min(256))
    }
}
