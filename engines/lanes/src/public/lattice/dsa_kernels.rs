//! The steps of ML-DSA (FIPS 204) that run in vectors: drawing polynomials, and the arithmetic of keys, verification and signing.

use zeroize::Zeroizing;

use super::dsa_ring::{
    Gamma2, N, Poly, Vectors, any_sign, back, beyond, forward, order, pack, positive, reduce, row, split, unpack,
    use_hint, vector, vectors,
};
use super::isa::{Isa, Words32, lattice_kernels};
use crate::hash::sponge::{SHAKE_128, SHAKE_256, SLACK, STREAMS_MAX, Seed, Sponges};

/// Bits that a public key drops of each coefficient (FIPS 204, table 1: d).
const DROPPED: u32 = 13;

/// Bytes of a polynomial of a public key.
pub(super) const T1_LEN: usize = 10 * N / 8;

/// Bytes that key generation makes of a seed: those of the matrix, of the secrets and of signing.
pub(super) const STRETCHED: usize = 128;

/// Rows and columns of the matrix at most.
const K_MAX: usize = 8;
const L_MAX: usize = 7;

/// What a parameter set says (FIPS 204, table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Rows and columns of the matrix.
    pub(super) k: usize,
    pub(super) l: usize,
    /// The largest coefficient of a secret.
    pub(super) eta: i32,
    /// Coefficients of a challenge that are not zero.
    pub(super) tau: usize,
    /// Bits of the mask's range, `gamma1`.
    pub(super) gamma1_bits: u32,
    pub(super) gamma2: Gamma2,
    /// Hints at most.
    pub(super) omega: usize,
    /// Bytes of a challenge.
    pub(super) challenge_len: usize,
}

impl Set {
    pub(super) const fn gamma1(self) -> i32 {
        1 << self.gamma1_bits
    }

    /// What a challenge makes of a secret at most.
    pub(super) const fn beta(self) -> i32 {
        self.tau as i32 * self.eta
    }

    /// Bytes of a polynomial of a response.
    pub(super) const fn z_len(self) -> usize {
        (self.gamma1_bits as usize + 1) * N / 8
    }
}

/// Writes sampled words in the order of transformed polynomials. The transform of a polynomial in the standard's order ends in it;
/// what is drawn transformed has to be brought there.
#[inline(always)]
fn put_in_order<I: Isa>(isa: I, words: &Words32, poly: &mut Poly) {
    let mut v = [isa.splat32(0); 32];
    for at in 0..vectors::<I>() {
        v[at] = vector(isa, words, at);
    }
    order(isa, &mut v);
    poly.set_all(isa, &v);
}

#[inline(always)]
fn sample_matrix_with<I: Isa>(isa: I, seeds: &[Seed], polys: &mut [Poly]) {
    /// Blocks that are nearly always enough: of 280 numbers all but one in a thousand are below the modulus.
    const BLOCKS: usize = 5;
    let lanes = Sponges::<I::Hash>::LANES;
    let mut streams = [[0u8; BLOCKS * SHAKE_128 + SLACK]; STREAMS_MAX];
    let mut words: Words32 = [0; size_of::<Words32>() / 4];
    for (seeds, polys) in seeds.chunks(lanes).zip(polys.chunks_mut(lanes)) {
        let mut sponges = Sponges::new(isa.hash(), seeds, SHAKE_128);
        for block in 0..BLOCKS {
            sponges.squeeze(&mut streams, block * SHAKE_128);
        }
        let mut is_short = false;
        for (lane, poly) in polys.iter_mut().enumerate() {
            is_short |= isa.below_dsa(&streams[lane][..BLOCKS * SHAKE_128], &mut words, 0) < N;
            put_in_order(isa, &words, poly);
        }
        if is_short {
            sample_longer(isa, seeds, polys);
        }
    }
}

/// The same where five blocks were not enough, by as many as it takes.
#[inline(always)]
fn sample_longer<I: Isa>(isa: I, seeds: &[Seed], polys: &mut [Poly]) {
    let mut streams = [[0u8; SHAKE_128 + SLACK]; STREAMS_MAX];
    let (mut words, mut counts) = ([[0i32; size_of::<Words32>() / 4]; STREAMS_MAX], [0; STREAMS_MAX]);
    let mut sponges = Sponges::new(isa.hash(), seeds, SHAKE_128);
    while counts[..seeds.len()].iter().any(|count| *count < N) {
        sponges.squeeze(&mut streams, 0);
        for lane in 0..seeds.len() {
            counts[lane] = isa.below_dsa(&streams[lane][..SHAKE_128], &mut words[lane], counts[lane]);
        }
    }
    for (lane, poly) in polys.iter_mut().enumerate() {
        put_in_order(isa, &words[lane], poly);
    }
}

lattice_kernels! {
    /// Draws transformed polynomials (FIPS 204, algorithm 30), as many as seeds.
    pub(super) fn sample_matrix(seeds: &[Seed], polys: &mut [Poly]) = sample_matrix_with
}

#[inline(always)]
fn stretch_with<I: Isa>(isa: I, seeds: &[Seed], stretched: &mut [[u8; STRETCHED]]) {
    let lanes = Sponges::<I::Hash>::LANES;
    let mut streams = Zeroizing::new([[0u8; SHAKE_256 + SLACK]; STREAMS_MAX]);
    for (seeds, stretched) in seeds.chunks(lanes).zip(stretched.chunks_mut(lanes)) {
        Sponges::new(isa.hash(), seeds, SHAKE_256).squeeze(&mut streams, 0);
        for (lane, to) in stretched.iter_mut().enumerate() {
            to.copy_from_slice(&streams[lane][..STRETCHED]);
        }
    }
}

lattice_kernels! {
    /// SHAKE256 of seeds, as much of it as key generation wants (FIPS 204, algorithm 6, line 1).
    pub(super) fn stretch(seeds: &[Seed], stretched: &mut [[u8; STRETCHED]]) = stretch_with
}

#[inline(always)]
fn sample_secrets_with<I: Isa>(isa: I, eta: i32, seeds: &[Seed], polys: &mut [Poly]) {
    /// Of 544 halves of bytes 306 are taken in the mean where fewer are.
    const BLOCKS: usize = 2;
    let lanes = Sponges::<I::Hash>::LANES;
    let mut streams = Zeroizing::new([[0u8; BLOCKS * SHAKE_256 + SLACK]; STREAMS_MAX]);
    let mut words = Zeroizing::new([[0i32; size_of::<Words32>() / 4]; STREAMS_MAX]);
    for (seeds, polys) in seeds.chunks(lanes).zip(polys.chunks_mut(lanes)) {
        let mut sponges = Sponges::new(isa.hash(), seeds, SHAKE_256);
        for block in 0..BLOCKS {
            sponges.squeeze(&mut streams, block * SHAKE_256);
        }
        let mut counts = [0; STREAMS_MAX];
        for lane in 0..seeds.len() {
            counts[lane] = isa.within_eta(&streams[lane][..BLOCKS * SHAKE_256], eta, &mut words[lane], 0);
        }
        while counts[..seeds.len()].iter().any(|count| *count < N) {
            sponges.squeeze(&mut streams, 0);
            for lane in 0..seeds.len() {
                let block = &streams[lane][..SHAKE_256];
                counts[lane] = isa.within_eta(block, eta, &mut words[lane], counts[lane]);
            }
        }
        for (lane, poly) in polys.iter_mut().enumerate() {
            poly.0.copy_from_slice(&words[lane][..N]);
        }
    }
}

lattice_kernels! {
    /// Draws polynomials of small coefficients (FIPS 204, algorithm 31), as many as seeds.
    pub(super) fn sample_secrets(eta: i32, seeds: &[Seed], polys: &mut [Poly]) = sample_secrets_with
}

#[inline(always)]
fn sample_challenges_with<I: Isa>(isa: I, tau: usize, seeds: &[Seed], polys: &mut [Poly]) {
    let lanes = Sponges::<I::Hash>::LANES;
    let mut streams = [[0u8; SHAKE_256 + SLACK]; STREAMS_MAX];
    for (seeds, polys) in seeds.chunks(lanes).zip(polys.chunks_mut(lanes)) {
        let mut sponges = Sponges::new(isa.hash(), seeds, SHAKE_256);
        sponges.squeeze(&mut streams, 0);
        let (mut signs, mut numbers) = ([0; STREAMS_MAX], [N - tau; STREAMS_MAX]);
        for (lane, poly) in polys.iter_mut().enumerate() {
            signs[lane] = streams[lane].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            *poly = Poly::default();
            put_signs(&streams[lane][8..SHAKE_256], &mut signs[lane], &mut numbers[lane], poly);
        }
        while numbers[..seeds.len()].iter().any(|number| *number < N) {
            sponges.squeeze(&mut streams, 0);
            for (lane, poly) in polys.iter_mut().enumerate() {
                put_signs(&streams[lane][..SHAKE_256], &mut signs[lane], &mut numbers[lane], poly);
            }
        }
    }
}

/// Steps of the shuffle, as far as bytes last.
#[inline(always)]
fn put_signs(bytes: &[u8], signs: &mut u64, number: &mut usize, poly: &mut Poly) {
    for place in bytes.iter().copied().map(usize::from) {
        if *number == N {
            return;
        }
        if place <= *number {
            poly.0[*number] = poly.0[place];
            poly.0[place] = 1 - 2 * (*signs & 1) as i32;
            *signs >>= 1;
            *number += 1;
        }
    }
}

lattice_kernels! {
    /// The polynomials of challenges (FIPS 204, algorithm 29), which are no secrets, as many as seeds.
    pub(super) fn sample_challenges(tau: usize, seeds: &[Seed], polys: &mut [Poly]) = sample_challenges_with
}

/// Reads numbers below `gamma1` in absolute value, `gamma1` included.
#[inline(always)]
fn unpack_range<I: Isa>(isa: I, gamma1_bits: u32, bytes: &[u8]) -> Vectors<I> {
    let mut v = if gamma1_bits == 17 { unpack(isa, 18, bytes) } else { unpack(isa, 20, bytes) };
    let gamma1 = isa.splat32(1 << gamma1_bits);
    for at in 0..vectors::<I>() {
        v[at] = isa.sub32(gamma1, v[at]);
    }
    v
}

#[inline(always)]
fn sample_masks_with<I: Isa>(isa: I, gamma1_bits: u32, seeds: &[Seed], polys: &mut [Poly]) {
    /// 640 bytes, or 576.
    const BLOCKS: usize = 5;
    let lanes = Sponges::<I::Hash>::LANES;
    let mut streams = Zeroizing::new([[0u8; BLOCKS * SHAKE_256 + SLACK]; STREAMS_MAX]);
    for (seeds, polys) in seeds.chunks(lanes).zip(polys.chunks_mut(lanes)) {
        let mut sponges = Sponges::new(isa.hash(), seeds, SHAKE_256);
        for block in 0..BLOCKS {
            sponges.squeeze(&mut streams, block * SHAKE_256);
        }
        for (lane, poly) in polys.iter_mut().enumerate() {
            poly.set_all(isa, &unpack_range(isa, gamma1_bits, &streams[lane]));
        }
    }
}

lattice_kernels! {
    /// Draws the polynomials of masks (FIPS 204, algorithm 34), as many as seeds.
    pub(super) fn sample_masks(gamma1_bits: u32, seeds: &[Seed], polys: &mut [Poly]) = sample_masks_with
}

#[inline(always)]
fn open_public_with<I: Isa>(isa: I, encoded: &[u8], t: &mut [Poly]) {
    for (bytes, poly) in encoded.as_chunks::<T1_LEN>().0.iter().zip(t) {
        let mut v = unpack(isa, 10, bytes);
        for at in 0..vectors::<I>() {
            v[at] = isa.shl32::<DROPPED>(v[at]);
        }
        poly.set_all(isa, &v);
        let v = forward(isa, poly);
        for at in 0..vectors::<I>() {
            poly.set(isa, at, isa.sub32(isa.splat32(0), reduce(isa, v[at])));
        }
    }
}

lattice_kernels! {
    /// Reads the vector of a public key: `-t1 · 2^d`, transformed, which is what verification adds.
    pub(super) fn open_public(encoded: &[u8], t: &mut [Poly]) = open_public_with
}

/// Writes a row of high parts.
#[inline(always)]
fn put_high<I: Isa>(isa: I, gamma2: Gamma2, v: &Vectors<I>, bytes: &mut [u8]) {
    match gamma2 {
        Gamma2::Narrow => pack(isa, 6, v, bytes),
        Gamma2::Wide => pack(isa, 4, v, bytes),
    }
}

/// The hints of each row by the places of their coefficients; `None` if they are encoded in any other way than FIPS 204 does
/// (algorithm 21).
fn rows_of_hints(set: Set, encoded: &[u8]) -> Option<[&[u8]; K_MAX]> {
    let (places, ends) = encoded.split_at_checked(set.omega)?;
    let mut rows: [&[u8]; K_MAX] = [&[]; K_MAX];
    let mut start = 0;
    for (row, end) in rows.iter_mut().zip(ends.iter().copied().map(usize::from)) {
        let own = places.get(start..end)?;
        if own.windows(2).any(|pair| pair[0] >= pair[1]) {
            return None;
        }
        (*row, start) = (own, end);
    }
    places[start..].iter().all(|place| *place == 0).then_some(rows)
}

#[inline(always)]
fn verify_with<I: Isa>(
    isa: I,
    set: Set,
    key: (&[Poly], &[Poly]),
    challenge: &Poly,
    response: &[u8],
    high: &mut [u8],
) -> bool {
    let (matrix, t) = key;
    let z_len = set.z_len();
    let Some(hints) = rows_of_hints(set, &response[set.l * z_len..]) else { return false };
    let mut polys = [Poly::default(); L_MAX + 1];
    let mut found = isa.splat32(0);
    for at in 0..=set.l {
        if at < set.l {
            let v = unpack_range(isa, set.gamma1_bits, &response[at * z_len..]);
            for index in 0..vectors::<I>() {
                found = beyond(isa, found, v[index], set.gamma1() - set.beta());
            }
            polys[at].set_all(isa, &v);
        } else {
            polys[at] = *challenge;
        }
        let v = forward(isa, &polys[at]);
        polys[at].set_all(isa, &v);
    }
    let high_len = set.gamma2.high_len();
    let mut hint = Poly::default();
    for at in 0..set.k {
        let of_row = |term| if term < set.l { &matrix[at * set.l + term] } else { &t[at] };
        let mut v = row(isa, set.l + 1, of_row, |term| &polys[term]);
        back(isa, &mut v);
        hint.0.fill(0);
        hints[at].iter().for_each(|place| hint.0[usize::from(*place)] = 1);
        for index in 0..vectors::<I>() {
            v[index] = use_hint(isa, set.gamma2, positive(isa, v[index]), hint.get(isa, index));
        }
        put_high(isa, set.gamma2, &v, &mut high[at * high_len..(at + 1) * high_len]);
    }
    !any_sign(isa, found)
}

lattice_kernels! {
    /// The arithmetic of verification (FIPS 204, algorithm 8): the encoded high parts of `A z - c t1 2^d` with the hints used.
    /// `response` is the signature behind its challenge. False if its coefficients or hints are not as they must be.
    pub(super) fn verify(
        set: Set, key: (&[Poly], &[Poly]), challenge: &Poly, response: &[u8], high: &mut [u8],
    ) -> bool = verify_with
}

#[inline(always)]
fn generate_with<I: Isa>(isa: I, set: Set, matrix: &[Poly], secrets: &mut [Poly], t0: &mut [Poly], encoded: &mut [u8]) {
    let (first, second) = secrets.split_at_mut(set.l);
    for poly in first.iter_mut() {
        let v = forward(isa, poly);
        poly.set_all(isa, &v);
    }
    for at in 0..set.k {
        let mut v = row(isa, set.l, |term| &matrix[at * set.l + term], |term| &first[term]);
        back(isa, &mut v);
        for index in 0..vectors::<I>() {
            let t = positive(isa, reduce(isa, isa.add32(v[index], second[at].get(isa, index))));
            v[index] = isa.shr32::<DROPPED>(isa.add32(t, isa.splat32((1 << (DROPPED - 1)) - 1)));
            t0[at].set(isa, index, isa.sub32(t, isa.shl32::<DROPPED>(v[index])));
        }
        pack(isa, 10, &v, &mut encoded[at * T1_LEN..(at + 1) * T1_LEN]);
        for poly in [&mut second[at], &mut t0[at]] {
            let v = forward(isa, poly);
            poly.set_all(isa, &v);
        }
    }
}

lattice_kernels! {
    /// The arithmetic of key generation (FIPS 204, algorithm 6) from drawn secrets, which become their transforms. The public
    /// vector's high part goes to `encoded`, the transform of its low part to `t0`.
    pub(super) fn generate(
        set: Set, matrix: &[Poly], secrets: &mut [Poly], t0: &mut [Poly], encoded: &mut [u8],
    ) = generate_with
}

#[inline(always)]
fn commit_with<I: Isa>(isa: I, set: Set, matrix: &[Poly], mask: &[Poly], w: &mut [Poly], high: &mut [u8]) {
    let mut polys = Zeroizing::new([Poly::default(); L_MAX]);
    for at in 0..set.l {
        let v = forward(isa, &mask[at]);
        polys[at].set_all(isa, &v);
    }
    let high_len = set.gamma2.high_len();
    for at in 0..set.k {
        let mut v = row(isa, set.l, |term| &matrix[at * set.l + term], |term| &polys[term]);
        back(isa, &mut v);
        for index in 0..vectors::<I>() {
            let number = positive(isa, v[index]);
            w[at].set(isa, index, number);
            v[index] = split(isa, set.gamma2, number).0;
        }
        put_high(isa, set.gamma2, &v, &mut high[at * high_len..(at + 1) * high_len]);
    }
}

lattice_kernels! {
    /// The commitment to a mask (FIPS 204, algorithm 7, lines 11 to 13): `w`, and its high parts as they are hashed.
    pub(super) fn commit(
        set: Set, matrix: &[Poly], mask: &[Poly], w: &mut [Poly], high: &mut [u8],
    ) = commit_with
}

/// A private key's transformed polynomials.
#[derive(Clone, Copy)]
pub(super) struct Secrets<'k> {
    /// `s1` and `s2`.
    pub(super) secrets: &'k [Poly],
    pub(super) t0: &'k [Poly],
}

#[inline(always)]
fn respond_with<I: Isa>(
    isa: I,
    set: Set,
    key: Secrets<'_>,
    challenge: &Poly,
    mask: &[Poly],
    w: &[Poly],
    response: &mut [u8],
) -> bool {
    let mut c = Poly::default();
    let v = forward(isa, challenge);
    c.set_all(isa, &v);
    let mut found = isa.splat32(0);
    let z_len = set.z_len();
    for at in 0..set.l {
        let mut v = row(isa, 1, |_| &key.secrets[at], |_| &c);
        back(isa, &mut v);
        for index in 0..vectors::<I>() {
            let z = reduce(isa, isa.add32(mask[at].get(isa, index), v[index]));
            found = beyond(isa, found, z, set.gamma1() - set.beta());
            v[index] = isa.sub32(isa.splat32(set.gamma1()), z);
        }
        // What is not below the bound is not sent, and must not spill into its neighbours.
        let mask = isa.splat32((2 << set.gamma1_bits) - 1);
        for index in 0..vectors::<I>() {
            v[index] = isa.and(v[index], mask);
        }
        let bytes = &mut response[at * z_len..(at + 1) * z_len];
        if set.gamma1_bits == 17 { pack(isa, 18, &v, bytes) } else { pack(isa, 20, &v, bytes) }
    }
    // For each vector, two bits a coefficient, of which the upper one is set where a hint is.
    let mut hints = Zeroizing::new([[0u32; 32]; K_MAX]);
    for at in 0..set.k {
        let mut of_secret = row(isa, 1, |_| &key.secrets[set.l + at], |_| &c);
        back(isa, &mut of_secret);
        let mut of_rest = row(isa, 1, |_| &key.t0[at], |_| &c);
        back(isa, &mut of_rest);
        for index in 0..vectors::<I>() {
            let number = positive(isa, reduce(isa, isa.sub32(w[at].get(isa, index), of_secret[index])));
            let (high, low) = split(isa, set.gamma2, number);
            found = beyond(isa, found, low, set.gamma2.value() - set.beta());
            let rest = reduce(isa, of_rest[index]);
            found = beyond(isa, found, rest, set.gamma2.value());
            let (other, _) = split(isa, set.gamma2, positive(isa, reduce(isa, isa.add32(number, rest))));
            let differs = isa.or(isa.sub32(high, other), isa.sub32(other, high));
            hints[at][index] = isa.signs16(differs) & 0xaaaa_aaaa;
        }
    }
    // The hints of a signature that is sent are public; others are not looked at.
    !any_sign(isa, found) && put_hints::<I>(set, &hints, &mut response[set.l * z_len..])
}

/// Writes the hints of a signature (FIPS 204, algorithm 20). False if there are too many.
fn put_hints<I: Isa>(set: Set, hints: &[[u32; 32]; K_MAX], encoded: &mut [u8]) -> bool {
    let (places, ends) = encoded.split_at_mut(set.omega);
    places.fill(0);
    let mut count = 0;
    for (row, end) in hints.iter().zip(ends) {
        for (index, bits) in row.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let Some(place) = places.get_mut(count) else { return false };
                *place = (index * (I::BYTES / 4) + bits.trailing_zeros() as usize / 2) as u8;
                bits &= bits - 1;
                count += 1;
            }
        }
        *end = count as u8;
    }
    true
}

lattice_kernels! {
    /// The response to a challenge (FIPS 204, algorithm 7, lines 16 to 29) goes to the signature behind its challenge. False if it
    /// must not be sent: all steps are done before that is told.
    pub(super) fn respond(
        set: Set, key: Secrets<'_>, challenge: &Poly, mask: &[Poly], w: &[Poly], response: &mut [u8],
    ) -> bool = respond_with
}
