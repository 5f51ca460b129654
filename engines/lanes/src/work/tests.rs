//! The order of operations.

use super::*;

fn item(op: u32, len: u32) -> Item {
    Item { input: core::ptr::null(), output: core::ptr::null_mut(), key: core::ptr::null(), len, op }
}

#[test]
fn ordering_puts_the_longest_first_and_keeps_the_order_of_equals() {
    let lens = [3, 1, 200, 0, 3, 63, 2, 1, 90];
    let items = lens.iter().enumerate().map(|(op, len)| item(op as u32, *len)).collect();
    let mut scratch = Scratch { items, ..Scratch::default() };
    scratch.order_by(|item| item.len as usize);
    let got: Vec<(u32, u32)> = scratch.ordered.iter().map(|item| (item.len, item.op)).collect();
    assert_eq!(got, [(200, 2), (63, 5), (90, 8), (3, 0), (3, 4), (2, 6), (1, 1), (1, 7), (0, 3)]);
    scratch.items.clear();
    scratch.order_by(|item| item.len as usize);
    assert!(scratch.ordered.is_empty());
}
