//! The fuzz target's function on bytes that nobody has chosen: some thousand runs.

use proptest::prelude::*;

use crate::anything;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_leaves_that_was_not_sealed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        anything::run(&bytes);
    }
}

#[test]
fn such_bytes_make_packets_that_leave_and_packets_that_are_refused() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let all = (0..40).map(|_| anything::run(&Vec::from_iter((0..200).map(|_| next()))));
    let (done, dropped) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(done > 200 && dropped > 100, "{done} left, {dropped} were refused");
}
