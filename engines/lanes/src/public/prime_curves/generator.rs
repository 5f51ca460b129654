//! A curve's generator: the odd multiples of its multiples by `2^(w i)`, so that its multiples take additions alone. They
//! are public, the same for all lanes, and computed when they are first asked for.

use super::super::isa::PublicKernel;
use super::super::room::Room;
use super::curve::Curve;
use super::field::POWERS;
use super::numbers::Numbers;
use super::points::{Affine, Prime, odd_multiples, scale_multiples, scaled};
use super::table::{GENERATOR_WINDOW, Table};
use super::vectors::{TABLE_WORDS, Task, Vectors, with_vectors};

/// The table of a curve.
pub(super) fn table<C: Curve<L>, const L: usize>(kernel: PublicKernel) -> &'static Table {
    C::table().get_or_init(|| with_vectors(kernel, Build { curve: core::marker::PhantomData::<C> }))
}

/// Computes a table, in all lanes the same.
struct Build<C, const L: usize> {
    curve: core::marker::PhantomData<C>,
}

impl<C: Curve<L>, const L: usize> Task for Build<C, L> {
    type Out = Table;

    #[inline(always)]
    fn run<I: Vectors>(self, isa: I) -> Table {
        let windows = Table::windows(C::BITS);
        let mut room = Room::default();
        let mut room = room.open::<I>(L * (5 * windows + 4 * TABLE_WORDS + POWERS));
        let [starts_x, starts_y, starts_z, products] =
            core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, windows));
        let powers = Numbers::take(&mut room, POWERS);
        let multiples = Numbers::take(&mut room, 2 * TABLE_WORDS);
        let [scales, scale_products] = core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, TABLE_WORDS));
        let field = Prime::<I, C, L>::new(isa);
        let [x, y] = C::GENERATOR_FORM.map(|limbs| field.splat(&limbs));
        let mut start = Affine::new(isa, x, y).point::<C>(isa);
        for window in 0..windows {
            starts_x.set(isa, window, &start.x);
            starts_y.set(isa, window, &start.y);
            starts_z.set(isa, window, &start.z);
            for _ in 0..GENERATOR_WINDOW {
                start.double::<C>(isa);
            }
        }
        field.invert_all(starts_z, windows, products, powers);
        let mut words = vec![[0; TABLE_WORDS]; 2 * L * windows];
        for (window, words) in words.chunks_exact_mut(2 * L).enumerate() {
            let [x, y, inverse] = [starts_x, starts_y, starts_z].map(|numbers| numbers.get(isa, window));
            let [x, y] = scaled::<I, C, L>(isa, &x, &y, &inverse);
            odd_multiples::<I, C, L>(isa, &Affine::new(isa, x, y), multiples, scales, TABLE_WORDS);
            field.invert_all(scales, TABLE_WORDS - 1, scale_products, powers);
            scale_multiples::<I, C, L>(isa, multiples, scales, TABLE_WORDS);
            for index in 0..TABLE_WORDS {
                let (x, y) = (multiples.lane(2 * index, 0), multiples.lane(2 * index + 1, 0));
                for (words, limb) in words.iter_mut().zip(x.into_iter().chain(y)) {
                    words[index] = limb;
                }
            }
        }
        Table(words)
    }
}
