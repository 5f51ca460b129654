//! The group of Ed25519 (RFC 8032, 5.1.4): `-x² + y² = 1 + d x² y²`, a point a lane, by the formulas of Hisil, Wong, Carter and
//! Dawson (2008), which hold for all points.
//!
//! A point is kept as what the next formula wants of it: [`Projective`] to be doubled, [`Extended`] to be added to, [`Cached`] and
//! [`Affine`] to be added. Both formulas end in four factors ([`Factors`]), of which the next form is made.
//!
//! Floor: a doubling is four squares and three products, four with what an addition needs: 270 to 320 multiply-adds for all
//! lanes, and as many instructions again. An addition is eight products, 400, or seven of an affine point.

use core::marker::PhantomData;

use super::super::room::Place;
use super::super::unrolled::unrolled;
use super::field::{Columns, Element, LIMBS, limbs_of};
use super::isa::FieldIsa;
use crate::instruction_set::Step;

/// The curve's `d = -121665 / 121666`.
pub(super) const D: [u64; LIMBS] =
    limbs_of([0x75eb_4dca_1359_78a3, 0x0070_0a4d_4141_d8ab, 0x8cc7_4079_7779_e898, 0x5203_6cee_2b6f_fe73]);

/// Twice that.
pub(super) const TWICE_D: [u64; LIMBS] =
    limbs_of([0xebd6_9b94_26b2_f159, 0x00e0_149a_8283_b156, 0x198e_80f2_eef3_d130, 0x2406_d9dc_56df_fce7]);

/// A square root of -1, the even one's counterpart whose choice does not matter.
pub(super) const ROOT_OF_MINUS_ONE: [u64; LIMBS] =
    limbs_of([0xc4ee_1b27_4a0e_a0b0, 0x2f43_1806_ad2f_e478, 0x2b4d_0099_3dfb_d7a7, 0x2b83_2480_4fc1_df0b]);

/// A point to double: `x = X / Z`, `y = Y / Z`.
#[derive(Clone, Copy)]
pub(super) struct Projective<I: FieldIsa> {
    pub(super) x: Element<I>,
    pub(super) y: Element<I>,
    pub(super) z: Element<I>,
    /// `X + Y`.
    pub(super) sum: Element<I>,
}

/// A point to add to.
#[derive(Clone, Copy)]
pub(super) struct Extended<I: FieldIsa> {
    /// `Y + X`.
    pub(super) sum: Element<I>,
    /// `Y - X`.
    pub(super) difference: Element<I>,
    pub(super) z: Element<I>,
    /// `X Y / Z`.
    pub(super) t: Element<I>,
}

/// A point with `Z = 1`, to be added.
#[derive(Clone, Copy)]
pub(super) struct Affine<I: FieldIsa> {
    /// `y + x`.
    pub(super) sum: Element<I>,
    /// `y - x`.
    pub(super) difference: Element<I>,
    /// `2 d x y`.
    pub(super) product: Element<I>,
}

/// A point to be added.
#[derive(Clone, Copy)]
pub(super) struct Cached<I: FieldIsa> {
    /// `Y + X`, `Y - X` and `2 d T`.
    pub(super) point: Affine<I>,
    /// `2 Z`.
    pub(super) twice_z: Element<I>,
}

/// Limbs of a cached point in a room.
pub(super) const CACHED_LIMBS: usize = 4 * LIMBS;

/// The end of both formulas: `X = E F`, `Y = G H`, `Z = F G`, `T = E H`.
#[derive(Clone, Copy)]
pub(super) struct Factors<I: FieldIsa> {
    e: Element<I>,
    f: Element<I>,
    g: Element<I>,
    h: Element<I>,
}

/// A form of a point that a formula may end in.
pub(super) trait Form<I: FieldIsa> {
    /// The point of these factors.
    fn of(isa: I, factors: &Factors<I>) -> Self;
}

impl<I: FieldIsa> Form<I> for Projective<I> {
    #[inline(always)]
    fn of(isa: I, Factors { e, f, g, h }: &Factors<I>) -> Projective<I> {
        let (x, y) = (e.mul(isa, f), g.mul(isa, h));
        Projective { x: x.carry(isa), y: y.carry(isa), z: f.mul(isa, g).carry(isa), sum: x.add(isa, &y).carry(isa) }
    }
}

impl<I: FieldIsa> Form<I> for Extended<I> {
    #[inline(always)]
    fn of(isa: I, Factors { e, f, g, h }: &Factors<I>) -> Extended<I> {
        let (x, y) = (e.mul(isa, f), g.mul(isa, h));
        Extended {
            sum: y.add(isa, &x).carry(isa),
            difference: y.sub(isa, &x).carry(isa),
            z: f.mul(isa, g).carry(isa),
            t: e.mul(isa, h).carry(isa),
        }
    }
}

/// Twice a point.
struct Double<'a, I: FieldIsa, F> {
    point: &'a Projective<I>,
    form: PhantomData<F>,
}

impl<I: FieldIsa, F: Form<I>> Step<I> for Double<'_, I, F> {
    type Out = F;

    /// All four factors have the other sign than in the paper, which changes none of their products.
    #[inline(always)]
    fn run(self, isa: I) -> F {
        let Projective { x, y, z, sum } = self.point;
        let (a, b) = (x.square(isa), y.square(isa));
        let h = a.add(isa, &b);
        let e = h.sub(isa, &sum.square(isa));
        // Before its carry below `2^61 + 2^52 + 267 · 2^52`, and twice a square more for `f`.
        let g = a.sub(isa, &b);
        let f = z.square(isa).double(isa).add(isa, &g);
        F::of(isa, &Factors { e: e.carry(isa), f: f.carry(isa), g: g.carry(isa), h: h.carry(isa) })
    }
}

/// The sum of two points; without a `Z`, the second's is one.
struct Add<'a, I: FieldIsa, Z> {
    point: &'a Extended<I>,
    other: &'a Affine<I>,
    twice_z: Z,
}

impl<I: FieldIsa> Step<I> for Add<'_, I, &Element<I>> {
    type Out = Extended<I>;

    #[inline(always)]
    fn run(self, isa: I) -> Extended<I> {
        self.point.add_with(isa, self.other, &self.point.z.mul(isa, self.twice_z))
    }
}

impl<I: FieldIsa> Step<I> for Add<'_, I, ()> {
    type Out = Extended<I>;

    #[inline(always)]
    fn run(self, isa: I) -> Extended<I> {
        self.point.add_with(isa, self.other, &self.point.z.columns().double(isa))
    }
}

impl<I: FieldIsa> Projective<I> {
    /// A point by its affine coordinates.
    #[inline(always)]
    pub(super) fn new(isa: I, x: &Element<I>, y: &Element<I>) -> Projective<I> {
        Projective { x: *x, y: *y, z: Element::one(isa), sum: x.add(isa, y).carry(isa) }
    }

    /// To be added to: all coordinates `Z` times as large, so that `T = X Y`.
    #[inline(always)]
    pub(super) fn extended(&self, isa: I) -> Extended<I> {
        let difference = self.y.sub(isa, &self.x).carry(isa);
        Extended {
            sum: self.sum.mul(isa, &self.z).carry(isa),
            difference: difference.mul(isa, &self.z).carry(isa),
            z: self.z.square(isa).carry(isa),
            t: self.x.mul(isa, &self.y).carry(isa),
        }
    }

    /// Twice the point.
    #[inline(always)]
    pub(super) fn double<F: Form<I>>(&self, isa: I) -> F {
        isa.call(Double { point: self, form: PhantomData })
    }
}

impl<I: FieldIsa> Extended<I> {
    /// The neutral point, (0, 1).
    #[inline(always)]
    pub(super) fn neutral(isa: I) -> Extended<I> {
        let one = Element::one(isa);
        Extended { sum: one, difference: one, z: one, t: Element::zero(isa) }
    }

    /// The sum with a point.
    #[inline(always)]
    pub(super) fn add(&self, isa: I, other: &Cached<I>) -> Extended<I> {
        isa.call(Add { point: self, other: &other.point, twice_z: &other.twice_z })
    }

    /// The sum with a point whose `Z` is one.
    #[inline(always)]
    pub(super) fn add_affine(&self, isa: I, other: &Affine<I>) -> Extended<I> {
        isa.call(Add { point: self, other, twice_z: () })
    }

    /// The sum, with twice the product of both `Z`.
    #[inline(always)]
    fn add_with(&self, isa: I, other: &Affine<I>, d: &Columns<I>) -> Extended<I> {
        let a = self.difference.mul(isa, &other.difference);
        let b = self.sum.mul(isa, &other.sum);
        let c = self.t.mul(isa, &other.product);
        let factors = Factors {
            e: b.sub(isa, &a).carry(isa),
            f: d.sub(isa, &c).carry(isa),
            g: d.add(isa, &c).carry(isa),
            h: b.add(isa, &a).carry(isa),
        };
        Extended::of(isa, &factors)
    }

    /// To be doubled, with `Z` twice as large.
    #[inline(always)]
    pub(super) fn projective(&self, isa: I) -> Projective<I> {
        Projective {
            x: self.sum.sub(isa, &self.difference).carry(isa),
            y: self.sum.add(isa, &self.difference).carry(isa),
            z: self.z.columns().double(isa).carry(isa),
            // `2 Y + 2 X`.
            sum: self.sum.columns().double(isa).carry(isa),
        }
    }

    /// To be added.
    #[inline(always)]
    pub(super) fn cached(&self, isa: I) -> Cached<I> {
        let product = self.t.mul(isa, &Element::splat(isa, TWICE_D)).carry(isa);
        Cached {
            point: Affine { sum: self.sum, difference: self.difference, product },
            twice_z: self.z.columns().double(isa).carry(isa),
        }
    }
}

impl<I: FieldIsa> Affine<I> {
    /// The point where `keeps` holds, else its negative.
    #[inline(always)]
    pub(super) fn negate_unless(&self, isa: I, keeps: I::M) -> Affine<I> {
        Affine {
            sum: Element::select(isa, keeps, &self.sum, &self.difference),
            difference: Element::select(isa, keeps, &self.difference, &self.sum),
            product: Element::select(isa, keeps, &self.product, &self.product.negative(isa)),
        }
    }
}

impl<I: FieldIsa> Cached<I> {
    /// The neutral point.
    #[inline(always)]
    pub(super) fn neutral(isa: I) -> Cached<I> {
        let one = Element::one(isa);
        let point = Affine { sum: one, difference: one, product: Element::zero(isa) };
        Cached { point, twice_z: Element::splat(isa, [2, 0, 0, 0, 0]) }
    }

    /// Writes it to a place of [`CACHED_LIMBS`] limbs.
    #[inline(always)]
    pub(super) fn put(&self, isa: I, to: Place<I>) {
        let parts = [&self.point.sum, &self.point.difference, &self.point.product, &self.twice_z];
        for (i, part) in parts.into_iter().enumerate() {
            part.put(isa, to.part(i * LIMBS, LIMBS));
        }
    }

    /// Of a table of such places, the entry that each lane's number names; the neutral point where it names none. The whole table
    /// is read, since each lane has its own number.
    #[inline(always)]
    pub(super) fn choose(isa: I, table: Place<I>, which: I::V) -> Cached<I> {
        let Cached { point: Affine { mut sum, mut difference, mut product }, mut twice_z } = Cached::neutral(isa);
        for entry in 0..table.limbs() / CACHED_LIMBS {
            let is_it = isa.equal(which, isa.splat(entry as u64));
            let mut at = entry * CACHED_LIMBS;
            for part in [&mut sum, &mut difference, &mut product, &mut twice_z] {
                unrolled!(i < LIMBS => {
                    part.0[i] = isa.select(is_it, table.get(isa, at), part.0[i]);
                    at += 1;
                });
            }
        }
        Cached { point: Affine { sum, difference, product }, twice_z }
    }

    /// The point where `keeps` holds, else its negative.
    #[inline(always)]
    pub(super) fn negate_unless(&self, isa: I, keeps: I::M) -> Cached<I> {
        Cached { point: self.point.negate_unless(isa, keeps), twice_z: self.twice_z }
    }
}
