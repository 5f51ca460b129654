//! What precedes a round's own bytes in the PRF's input (SP 800-38G, algorithm 7, step 6i): block P, the tweak and its
//! padding. Their chaining values are the same in all rounds.

use zeroize::Zeroize;

use super::keys::{RoundKeys, Shared, block, item_of};
use super::{FpeKey, Group};
use crate::aes::isa::{Blocks, Isa};
use crate::work::{Item, Work};

/// Chaining values of the last key, tweak length and tweak under which values of one length were worked on.
#[derive(Default)]
pub(super) struct Prefix {
    /// The key and the tweak's length that `first` is for. Compared, never followed.
    first_of: Option<(*const FpeKey, usize)>,
    /// Block P enciphered.
    first: [u8; 16],
    /// The tweak that `chained` is for, under the key of `first_of`. Compared, never followed.
    chained_of: Option<*const u8>,
    /// The chaining value behind the tweak's whole blocks.
    chained: [u8; 16],
}

impl Prefix {
    /// Forgets everything, as another length of values asks for.
    pub(super) fn forget(&mut self) {
        *self = Prefix { first_of: None, chained_of: None, ..core::mem::take(self) };
        self.first.zeroize();
        self.chained.zeroize();
    }
}

/// What is the same for all operations of a group.
struct Common {
    tweak_len: bool,
    tweak: bool,
}

impl Common {
    #[inline(always)]
    fn of(work: &Work<'_>, items: &[Item]) -> Common {
        let first = work.aad(items[0].op as usize);
        let mut common = Common { tweak_len: true, tweak: true };
        for item in items {
            let aad = work.aad(item.op as usize);
            common.tweak_len &= aad.len() == first.len();
            common.tweak &= core::ptr::eq(aad.as_ptr(), first.as_ptr());
        }
        common.tweak &= common.tweak_len;
        common
    }
}

/// The chaining values that a round's own blocks are added to, one a lane: with the tweak's last bytes, where these
/// share a block with the round's own.
#[inline(always)]
pub(super) fn chaining<I: Isa, K: RoundKeys<I>, const N: usize>(
    isa: I,
    group: &mut Group<'_, '_>,
    keys: K,
    shared: bool,
) -> [I::V; N] {
    let common = Common::of(group.work, group.items);
    let mut values = [isa.zero(); N];
    let mut chained = 0;
    if shared && common.tweak_len {
        first_of_all(isa, group);
        if common.tweak && group.prefix_blocks != 0 {
            chain_of_all(isa, group);
            values = [isa.splat_bytes(&group.prefix.chained); N];
            chained = group.prefix_blocks;
        } else {
            values = [isa.splat_bytes(&group.prefix.first); N];
        }
        if group.prefix_blocks == chained && common.tweak {
            let tail = tweak_block(isa, group.work, &group.items[0], chained);
            values[0] = values[0].xor(isa.splat(tail));
            return [values[0]; N];
        }
    } else {
        for (vector, value) in values.iter_mut().enumerate() {
            let mut blocks = [block(&[0; 16]); 4];
            for (lane, own) in blocks.iter_mut().enumerate().take(I::LEN) {
                let item = item_of::<I>(group.items, vector, lane);
                *own = block(&group.shape.first_block(group.work.aad_len(item.op as usize)));
            }
            *value = isa.gather(blocks);
        }
        keys.encrypt(isa, &mut values);
    }
    for index in chained..=group.prefix_blocks {
        for (vector, value) in values.iter_mut().enumerate() {
            let mut blocks = [block(&[0; 16]); 4];
            for (lane, own) in blocks.iter_mut().enumerate().take(I::LEN) {
                *own = tweak_block(isa, group.work, item_of::<I>(group.items, vector, lane), index);
            }
            *value = value.xor(isa.gather(blocks));
        }
        if index != group.prefix_blocks {
            keys.encrypt(isa, &mut values);
        }
    }
    values
}

/// Block P enciphered under the key of all.
#[inline(always)]
fn first_of_all<I: Isa>(isa: I, group: &mut Group<'_, '_>) {
    let item = &group.items[0];
    let key = item.fpe_key();
    let tweak_len = group.work.aad_len(item.op as usize);
    let of = Some((core::ptr::from_ref(key), tweak_len));
    if group.prefix.first_of == of {
        return;
    }
    let mut first = [isa.splat_bytes(&group.shape.first_block(tweak_len))];
    Shared(&key.schedule).encrypt(isa, &mut first);
    // SAFETY: sixteen bytes may be written.
    unsafe { first[0].store_partial(group.prefix.first.as_mut_ptr(), 16) };
    group.prefix.first_of = of;
    group.prefix.chained_of = None;
}

/// The chaining value behind the whole blocks of everyone's tweak.
#[inline(always)]
fn chain_of_all<I: Isa>(isa: I, group: &mut Group<'_, '_>) {
    let item = &group.items[0];
    let of = Some(group.work.aad(item.op as usize).as_ptr());
    if group.prefix.chained_of == of {
        return;
    }
    let mut value = [isa.splat_bytes(&group.prefix.first)];
    for index in 0..group.prefix_blocks {
        value[0] = value[0].xor(isa.splat(tweak_block(isa, group.work, item, index)));
        Shared(&item.fpe_key().schedule).encrypt(isa, &mut value);
    }
    // SAFETY: sixteen bytes may be written.
    unsafe { value[0].store_partial(group.prefix.chained.as_mut_ptr(), 16) };
    group.prefix.chained_of = of;
}

/// A block of an operation's tweak, with zeros behind its end.
#[inline(always)]
fn tweak_block<I: Isa>(isa: I, work: &Work<'_>, item: &Item, index: usize) -> core::arch::x86_64::__m128i {
    let rest = work.aad(item.op as usize).get(16 * index..).unwrap_or_default();
    // SAFETY: as many bytes may be read as `rest` has.
    unsafe { isa.load_partial(rest.as_ptr(), rest.len().min(16)).first() }
}
