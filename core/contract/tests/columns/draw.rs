//! IVs that a mill draws.

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{ColumnStatus, Direction, Error, Reason, Result};
use proptest::prelude::*;

use crate::hostile::wish;
use crate::plain::{Form, Ivs, Told};
use crate::wish::{Wish, WishOp};

/// Random bytes that are none: each is known by its number.
#[derive(Default)]
struct Source {
    given: Vec<u8>,
    fills: Vec<usize>,
    /// The fill that fails.
    fails_at: Option<usize>,
}

impl Source {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        if self.fails_at == Some(self.fills.len()) {
            return Err(no_entropy());
        }
        for byte in bytes.iter_mut() {
            let number = self.given.len();
            *byte = (number ^ (number >> 8) ^ 0x3c) as u8;
            self.given.push(*byte);
        }
        self.fills.push(bytes.len());
        Ok(())
    }
}

fn no_entropy() -> Error {
    Error::fault("mill", FaultKind::Entropy)
}

/// The batch with the IVs of its first `count` pending operations drawn from these bytes.
fn with_ivs(told: &Told, given: &[u8], count: usize) -> Told {
    let mut drawn = told.clone();
    let pending = (0..told.len()).filter(|index| told.statuses[*index].is_pending());
    for (number, index) in pending.take(count).enumerate() {
        let iv = told.place(index).iv.unwrap_or_default();
        let len = iv.len();
        drawn.sealed_buffer()[iv].copy_from_slice(&given[number * len..][..len]);
    }
    drawn
}

/// Many operations of AES-GCM, of which every fifth is left out.
fn many(count: usize, in_place: bool) -> Told {
    let mut wish = Wish { in_place, iv: (3, 0), ..Wish::new("aes-256-gcm", Direction::Encrypt, &vec![3; count]) };
    for op in wish.ops.iter_mut().step_by(5) {
        *op = WishOp { status: ColumnStatus::LEFT_OUT, ..*op };
    }
    wish.told()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ivs_of_pending_operations_are_drawn_and_no_other_byte(wish in wish()) {
        let told = Wish { iv: (3, wish.iv.1), ..wish }.told();
        let draws = matches!(told.ivs, Ivs::Drawn(len) if len > 0) && told.direction == Direction::Encrypt;
        let mut drawn = told.clone();
        let mut source = Source::default();
        prop_assert_eq!(drawn.batch().check_and_draw(|bytes| source.fill(bytes)).map(|_| ()), Ok(()));
        prop_assert!(draws || source.given.is_empty());
        let expected = if draws { with_ivs(&told, &source.given, usize::MAX) } else { told };
        prop_assert_eq!(drawn, expected);
    }
}

#[test]
fn every_iv_is_of_bytes_of_its_own() {
    for in_place in [false, true] {
        for count in [0, 1, 5, 426, 427, 428, 1000, 3000] {
            let told = many(count, in_place);
            let mut drawn = told.clone();
            let mut source = Source::default();
            let checked = drawn.batch().check_and_draw(|bytes| source.fill(bytes)).expect("keeps the rules");
            assert_eq!(checked.layout().iv_len(), 12);
            assert_eq!(drawn, with_ivs(&told, &source.given, usize::MAX));
        }
    }
}

#[test]
fn drawing_ends_at_the_first_error() {
    for fails_at in [0, 1, 2] {
        let told = many(1000, true);
        let mut drawn = told.clone();
        let mut source = Source { fails_at: Some(fails_at), ..Source::default() };
        assert_eq!(drawn.batch().check_and_draw(|bytes| source.fill(bytes)).err(), Some(no_entropy()));
        assert_eq!(source.fills.len(), fails_at);
        assert_eq!(drawn, with_ivs(&told, &source.given, source.given.len() / 12));
    }
}

#[test]
fn nothing_is_drawn_where_there_is_nothing_to_draw() {
    let never = |_: &mut [u8]| -> Result<()> { panic!("nothing is to be drawn") };
    // What is refused is refused first.
    let mut told = many(10, false);
    told.form = Form::Input;
    let before = told.clone();
    assert_eq!(told.batch().check_and_draw(never).err(), Some(Error::misuse(0, Reason::ColumnBuffers)));
    assert_eq!(told, before);
    // The way back finds them inline, by either check.
    let mut told = Wish { iv: (3, 0), ..Wish::new("aes-256-gcm", Direction::Decrypt, &[3, 4]) }.told();
    let before = told.clone();
    assert_eq!(told.batch().check_and_draw(never).map(|_| ()), Ok(()));
    assert_eq!(told.batch().check().map(|_| ()), Ok(()));
    assert_eq!(told, before);
    // All are left out.
    let mut told = many(1, false);
    assert_eq!(told.batch().check_and_draw(never).map(|_| ()), Ok(()));
    // They are not drawn by a check alone.
    assert_eq!(many(10, false).batch().check().err(), Some(Error::misuse(0, Reason::IvDrawn)));
}
