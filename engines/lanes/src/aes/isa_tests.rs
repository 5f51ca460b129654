//! What every instruction set's vectors have to do alike, against plain byte arithmetic.

use super::isa::{Blocks, Isa};

fn bytes<V: Blocks>(vector: V, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: `len` bytes may be written, and a vector has no more.
    unsafe { vector.store(bytes.as_mut_ptr()) };
    bytes
}

/// Runs every method on patterned data.
pub(super) fn check<I: Isa>(isa: I) {
    let len = 16 * I::LEN;
    let a: Vec<u8> = (0..len).map(|i| (i * 37 + 11) as u8).collect();
    let b: Vec<u8> = (0..len).map(|i| (i * 91 + 5) as u8).collect();
    // SAFETY: both hold a vector.
    let (va, vb) = unsafe { (isa.load(a.as_ptr()), isa.load(b.as_ptr())) };
    let each = |f: &dyn Fn(u8, u8) -> u8| a.iter().zip(&b).map(|(x, y)| f(*x, *y)).collect::<Vec<u8>>();
    assert_eq!(bytes(va.xor(vb), len), each(&|x, y| x ^ y));
    assert_eq!(bytes(va.and(vb), len), each(&|x, y| x & y));
    assert_eq!(bytes(va.and_not(vb), len), each(&|x, y| x & !y));
    assert_eq!(bytes(va.or(vb), len), each(&|x, y| x | y));
    assert_eq!(bytes(va.xor3(vb, va), len), b);
    let blocks = |bytes: &[u8], f: &dyn Fn(u128) -> u128| {
        let chunks = bytes.as_chunks::<16>().0.iter();
        chunks.flat_map(|block| f(u128::from_le_bytes(*block)).to_le_bytes()).collect::<Vec<u8>>()
    };
    assert_eq!(bytes(va.shl_bytes::<3>(), len), blocks(&a, &|x| x << 24));
    let halves = |f: fn(u64) -> u64| move |x: u128| u128::from(f(x as u64)) | u128::from(f((x >> 64) as u64)) << 64;
    assert_eq!(bytes(va.shl64::<7>(), len), blocks(&a, &halves(|x| x << 7)));
    assert_eq!(bytes(va.shr64::<9>(), len), blocks(&a, &halves(|x| x >> 9)));
    let words =
        |f: fn(u32) -> u32| move |x: u128| (0..4).map(|i| u128::from(f((x >> (32 * i)) as u32)) << (32 * i)).sum();
    assert_eq!(bytes(va.shl32::<5>(), len), blocks(&a, &words(|x| x << 5)));
    assert_eq!(bytes(va.sar32::<31>(), len), blocks(&a, &words(|x| ((x as i32) >> 31) as u32)));
    assert_eq!(
        bytes(va.shuffle32::<0b00_01_10_11>(), len),
        blocks(&a, &|x| (0..4).map(|i| (x >> (32 * i) & 0xffff_ffff) << (96 - 32 * i)).sum())
    );
    let low = isa.splat_bytes(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    let carryless = |x: u64, y: u64| (0..64).filter(|i| y >> i & 1 == 1).fold(0u128, |sum, i| sum ^ u128::from(x) << i);
    let reversed = isa.splat_bytes(&core::array::from_fn(|i| 15 - i as u8));
    assert_eq!(bytes(va.shuffle(reversed), len), blocks(&a, &u128::swap_bytes));
    let pairs: Vec<u8> = a
        .as_chunks::<16>()
        .0
        .iter()
        .zip(b.as_chunks::<16>().0)
        .flat_map(|(x, y)| {
            carryless((u128::from_le_bytes(*x) >> 64) as u64, u128::from_le_bytes(*y) as u64).to_le_bytes()
        })
        .collect();
    assert_eq!(bytes(va.clmul::<0x01>(vb), len), pairs);
    assert_eq!(bytes(va.add32(low).add32(isa.indices()), len)[0], a[0]);
    assert_eq!(bytes(va.behind(vb), len), [&b[len - 16..], &a[..len - 16]].concat());
    aes_rounds(isa);
    partial(isa, &a);
}

/// FIPS 197, appendix B: input and round keys 0, 1; the state after the first round. And decryption undoes it.
fn aes_rounds<I: Isa>(isa: I) {
    let state: [u8; 16] = hex(b"193de3bea0f4e22b9ac68d2ae9f84808");
    let round_key: [u8; 16] = hex(b"a0fafe1788542cb123a339392a6c7605");
    let next: [u8; 16] = hex(b"a49c7ff2689f352b6b5bea43026a5049");
    let got = isa.splat_bytes(&state).aes_enc(isa.splat_bytes(&round_key));
    assert_eq!(bytes(got, 16 * I::LEN), next.repeat(I::LEN));
    let zero = isa.zero();
    let back = isa.splat_bytes(&state).aes_enc_last(zero).aes_dec_last(isa.splat_bytes(&round_key));
    let expected: Vec<u8> = state.iter().zip(&round_key).map(|(a, b)| a ^ b).collect();
    assert_eq!(bytes(back, 16 * I::LEN), expected.repeat(I::LEN));
}

fn hex(text: &[u8; 32]) -> [u8; 16] {
    let digit = |c: u8| (c as char).to_digit(16).expect("a digit") as u8;
    core::array::from_fn(|i| digit(text[2 * i]) << 4 | digit(text[2 * i + 1]))
}

/// Accesses and masks that start at a block other than the first.
fn partial_from<I: Isa, const LANE: usize>(isa: I, a: &[u8]) {
    let room = a.len().saturating_sub(16 * LANE);
    for len in 0..=room {
        let own = a[..len].to_vec().into_boxed_slice();
        // SAFETY: `own` holds `len` bytes.
        let loaded = unsafe { isa.load_from::<LANE>(own.as_ptr(), len) };
        let mut expected = vec![0; a.len()];
        expected[a.len() - room..][..len].copy_from_slice(&a[..len]);
        assert_eq!(bytes(loaded, a.len()), expected);
        // SAFETY: `a` holds a vector.
        let whole = unsafe { isa.load(a.as_ptr()) };
        let mut expected = vec![0; a.len()];
        expected[a.len() - room..][..len].copy_from_slice(&a[a.len() - room..][..len]);
        assert_eq!(bytes(whole.keep_from::<LANE>(len), a.len()), expected);
        let mut out = vec![0xee; a.len() + 1];
        // SAFETY: `len` bytes may be written.
        unsafe { whole.store_from::<LANE>(out.as_mut_ptr(), len) };
        assert_eq!(out[..len], a[a.len() - room..][..len]);
        assert!(out[len..].iter().all(|byte| *byte == 0xee));
    }
}

fn partial<I: Isa>(isa: I, a: &[u8]) {
    partial_from::<I, 0>(isa, a);
    partial_from::<I, 1>(isa, a);
    partial_from::<I, 2>(isa, a);
    let rows: [I::V; 4] = core::array::from_fn(|row| isa.pair(row as u64, 0).add32(isa.indices().shl32::<4>()));
    for (i, column) in isa.transpose(rows).into_iter().take(I::LEN).enumerate() {
        let own = bytes(column, a.len());
        let expected: Vec<u8> = (0..I::LEN).map(|row| (row + 16 * i) as u8).collect();
        assert_eq!(own.iter().step_by(16).copied().collect::<Vec<u8>>(), expected);
    }
    let pair = isa.pair(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
    assert_eq!(bytes(pair, a.len()), core::array::from_fn::<u8, 16, _>(|i| i as u8).repeat(I::LEN));
    for len in 0..=a.len() {
        let own = a[..len].to_vec().into_boxed_slice();
        // SAFETY: `own` holds `len` bytes.
        let loaded = unsafe { isa.load_partial(own.as_ptr(), len) };
        let mut expected = a[..len].to_vec();
        expected.resize(a.len(), 0);
        assert_eq!(bytes(loaded, a.len()), expected);
        let mut out = vec![0xee; a.len() + 1];
        // SAFETY: `len` bytes may be written.
        unsafe { isa.load(a.as_ptr()).store_partial(out.as_mut_ptr(), len) };
        assert_eq!(out[..len], a[..len]);
        assert!(out[len..].iter().all(|byte| *byte == 0xee));
    }
}
