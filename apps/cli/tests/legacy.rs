//! A mill over the lanes engine alone: legacy suites run only when the policy enables them.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Batch, Direction, Error, KeyMaterial, Op, OpStatus, Refusal, Span, Suite};

/// The mill, with or without legacy suites.
fn mill(legacy: bool) -> Mill {
    let lanes = ciphermill_engines::open("lanes").expect("a known name").expect("opens everywhere");
    Mill::builder().engines([lanes]).legacy(legacy).open().expect("opens")
}

fn run(mill: &Mill, suite: Suite, direction: Direction, arena: &mut [u8]) -> Result<OpStatus, Error> {
    let bytes = vec![7; suite.default_key_len()];
    let key = mill.keys().import(KeyMaterial::secret(&bytes), KeyPolicy::default()).expect("room");
    let span = Span::new(0, arena.len() as u32);
    let mut ops = [Op::in_place(key, span).with_iv(&vec![1; suite.default_iv_len()])];
    mill.run(Batch::new(suite, direction, &mut ops, arena))?;
    Ok(ops[0].status)
}

#[test]
fn legacy_suites_run_only_when_the_policy_says_so() {
    let (closed, open) = (mill(false), mill(true));
    let suites = lists::BLOWFISH.into_iter().chain(lists::KHUFU_KHAFRE).chain(lists::LEGACY_STREAMS);
    for suite in suites.chain(lists::DES) {
        let mut arena = [5; 48];
        let refused = Err(Error::Refused(Refusal::LegacyDisabled(suite)));
        assert_eq!(run(&closed, suite, Direction::Encrypt, &mut arena), refused);
        assert_eq!(arena, [5; 48]);
        assert_eq!(run(&open, suite, Direction::Encrypt, &mut arena), Ok(OpStatus::Done), "{suite}");
        assert_ne!(arena, [5; 48], "{suite}");
        assert_eq!(run(&open, suite, Direction::Decrypt, &mut arena), Ok(OpStatus::Done), "{suite}");
        assert_eq!(arena, [5; 48], "{suite}");
    }
}
