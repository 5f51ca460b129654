//! Fields and points with every kernel, and what operations could not show: scalars and points at the edges.

use super::affine::{Decompress, IsMember, Sums};
use super::curve::{Curve, Field163, Field233, Field283, Field409, Field571, is_within};
use super::field::{BinaryField, Polynomial};
use super::isa::{BinaryKernel, Carryless, Task, with_vectors};
use super::multiply::{Affine, Factor, GROUPS_MAX, Multiple, Multiply, lanes};
use super::*;

fn kernels() -> impl Iterator<Item = BinaryKernel> {
    BinaryKernel::NAMES.iter().filter_map(|name| BinaryKernel::detect(name))
}

/// Words that look random; with `bits` of them set to zero from there on.
fn words<const W: usize>(seed: u64, bits: usize) -> [u64; W] {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    core::array::from_fn(|index| {
        state = state.wrapping_mul(0xd129_0d3b_3c1a_7f2d).rotate_left(23) ^ 0x5bd1;
        let left = bits.saturating_sub(64 * index).min(64);
        if left == 0 { 0 } else { state >> (64 - left) }
    })
}

/// The products of a number and another, of the first's square, and its inverse.
struct Arithmetic<F, const W: usize>(F, [u64; W], [u64; W]);

impl<F: Polynomial<W>, const W: usize> Task for Arithmetic<F, W> {
    type Out = [[u64; W]; 4];

    #[inline(always)]
    fn run<I: Carryless>(self, isa: I) -> [[u64; W]; 4] {
        let field = BinaryField::<I, F, W>::new(isa);
        let (a, b) = (field.splat(&self.1), field.splat(&self.2));
        let trace = field.trace_is_zero(&a);
        let all = [
            field.multiply(&a, &b),
            field.square(&a),
            field.invert(&a),
            // Of a trace of zero, the root of a quadratic.
            field.masked(trace, &field.half_trace(&a)),
        ];
        all.map(|element| {
            let lanes = lanes(isa, &element);
            assert!(lanes[..I::LANES].iter().all(|lane| *lane == lanes[0]));
            lanes[0]
        })
    }
}

/// A product by the definition: shifts and sums.
fn product<F: Polynomial<W>, const W: usize>(a: &[u64; W], b: &[u64; W]) -> [u64; W] {
    let mut out = [0; W];
    for bit in (0..F::DEGREE).rev() {
        let top = out[(F::DEGREE - 1) / 64] >> ((F::DEGREE - 1) % 64) & 1;
        out = core::array::from_fn(|i| out[i] << 1 | if i > 0 { out[i - 1] >> 63 } else { 0 });
        if top == 1 {
            out[F::DEGREE / 64] ^= 1 << (F::DEGREE % 64);
            for exponent in F::MIDDLE.iter().chain(&[0]) {
                out[exponent / 64] ^= 1 << (exponent % 64);
            }
        }
        if b[bit / 64] >> (bit % 64) & 1 == 1 {
            out = core::array::from_fn(|i| out[i] ^ a[i]);
        }
    }
    out
}

fn arithmetic_agrees<F: Polynomial<W>, const W: usize>(field: F) {
    let one: [u64; W] = core::array::from_fn(|i| u64::from(i == 0));
    let all = core::array::from_fn(|i| if i < W - 1 { u64::MAX } else { (1 << (F::DEGREE % 64)) - 1 });
    let mut pairs = vec![(all, all), (one, all), (all, one)];
    pairs.extend((1..20).map(|seed| (words(seed, F::DEGREE), words(seed + 100, F::DEGREE))));
    for kernel in kernels() {
        let mut roots = 0;
        for (a, b) in &pairs {
            let [ab, a_2, inverse, root] = with_vectors(kernel, Arithmetic(field, *a, *b));
            assert_eq!(ab, product::<F, W>(a, b), "{} {}", F::DEGREE, kernel.name());
            assert_eq!(a_2, product::<F, W>(a, a), "{} {}", F::DEGREE, kernel.name());
            assert_eq!(product::<F, W>(&inverse, a), one, "{} {}", F::DEGREE, kernel.name());
            if root != [0; W] {
                let square = product::<F, W>(&root, &root);
                let sum: [u64; W] = core::array::from_fn(|i| square[i] ^ root[i]);
                assert_eq!(sum, *a, "{} {}", F::DEGREE, kernel.name());
                roots += 1;
            }
        }
        assert!(roots > pairs.len() / 4, "{} of {} have a trace of zero", roots, pairs.len());
    }
}

#[test]
fn arithmetic_agrees_with_the_definition() {
    arithmetic_agrees(Field163);
    arithmetic_agrees(Field233);
    arithmetic_agrees(Field283);
    arithmetic_agrees(Field409);
    arithmetic_agrees(Field571);
}

fn negative<const W: usize>([x, y]: &Affine<W>) -> Affine<W> {
    [*x, core::array::from_fn(|i| x[i] ^ y[i])]
}

fn done<const W: usize>(multiple: &Multiple<W>) -> Affine<W> {
    match multiple {
        Multiple::Done(point) => *point,
        other => panic!("{other:?}"),
    }
}

fn multiples_agree<F: Polynomial<W>, const W: usize>(curve: &'static Curve<F, W>) {
    let (generator, one) = (curve.generator, core::array::from_fn(|i| u64::from(i == 0)));
    let mut last = curve.order;
    last[0] -= 1;
    for kernel in kernels() {
        let name = kernel.name();
        let times = |factors: &[Factor<'_, W>]| with_vectors(kernel, Multiply { curve, factors, checks: true });
        // One more than fills the groups but one.
        let count = usize::from(kernel.lanes()) * (GROUPS_MAX - 1) + 1;
        let mut scalars: Vec<[u64; W]> = (0..count as u64).map(|seed| words(seed, curve.order_bits - 1)).collect();
        (scalars[0], scalars[1]) = (last, one);
        let of_generator: Vec<Factor<'_, W>> =
            scalars.iter().map(|scalar| Factor { scalar, point: &generator }).collect();
        let points: Vec<Affine<W>> = times(&of_generator).iter().map(done).collect();
        assert_eq!((points[0], points[1]), (negative(&generator), generator), "{name}");
        // k (l G) is l (k G).
        let crossed: Vec<Factor<'_, W>> =
            scalars.iter().zip(points.iter().rev()).map(|(scalar, point)| Factor { scalar, point }).collect();
        let products: Vec<Affine<W>> = times(&crossed).iter().map(done).collect();
        assert!(products.iter().eq(products.iter().rev()), "{name}");
        // Sums and their exceptions: a double, infinity, and one that is neither.
        let two =
            done(&times(&[Factor { scalar: &core::array::from_fn(|i| 2 * u64::from(i == 0)), point: &generator }])[0]);
        let pairs = [[generator, generator], [generator, negative(&generator)], [two, negative(&generator)]];
        let sums = with_vectors(kernel, Sums { curve, pairs: &pairs });
        assert_eq!(sums, [Some(two[0]), None, Some(generator[0])], "{name}");
        // Points off the curve, and one on it that is not in the group: zero and the root of b, which K curves have as one.
        let mut off = generator;
        off[1][0] ^= 1;
        let bad = times(&[Factor { scalar: &last, point: &off }, Factor { scalar: &last, point: &two }]);
        assert_eq!((bad[0], done(&bad[1])), (Multiple::BadPoint, negative(&two)), "{name}");
        for (point, is_member) in [(&generator, true), (&off, false), (&[[0; W], curve.b], false)] {
            assert_eq!(with_vectors(kernel, IsMember { curve, point }), is_member, "{name}");
        }
        let both = [false, true].map(|bit| with_vectors(kernel, Decompress { curve, x: &generator[0], bit }));
        assert!(both.contains(&generator) && both.contains(&negative(&generator)), "{name}");
    }
}

#[test]
fn multiples_agree_with_each_other() {
    multiples_agree(&SECT163K1);
    multiples_agree(&SECT163R1);
    multiples_agree(&SECT163R2);
    multiples_agree(&SECT233K1);
    multiples_agree(&SECT233R1);
    multiples_agree(&SECT283K1);
    multiples_agree(&SECT283R1);
    multiples_agree(&SECT409K1);
    multiples_agree(&SECT409R1);
    multiples_agree(&SECT571K1);
    multiples_agree(&SECT571R1);
}

#[test]
fn scalars_lie_from_one_to_the_order_less_one() {
    let order = SECT233K1.order;
    let [mut last, mut beyond] = [order; 2];
    last[0] -= 1;
    beyond[3] += 1;
    assert!(is_within(&[1, 0, 0, 0], &order) && is_within(&last, &order));
    assert!(!is_within(&[0; 4], &order) && !is_within(&order, &order) && !is_within(&beyond, &order));
}
