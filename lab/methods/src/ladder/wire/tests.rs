use proptest::prelude::*;

use super::*;

/// Operations for a message: key, IV, blocks of data.
fn ops() -> impl Strategy<Value = Vec<(usize, [u8; BLOCK], Vec<u8>)>> {
    let data = (1usize..12, any::<u8>()).prop_map(|(blocks, fill)| vec![fill; blocks * BLOCK]);
    prop::collection::vec((0usize..64, any::<[u8; BLOCK]>(), data), 1..40)
}

fn how() -> impl Strategy<Value = How> {
    prop::sample::select(How::ALL.to_vec())
}

const WRAPPED_LEN: usize = 16;

fn written(how: How, ops: &[(usize, [u8; BLOCK], Vec<u8>)], keys: &[[u8; WRAPPED_LEN]]) -> Vec<u8> {
    let bytes = ops.iter().map(|(.., data)| data.len()).sum();
    let mut body = vec![0; how.body_len(ops.len(), bytes, WRAPPED_LEN)];
    let items = ops.iter().map(|(key, iv, data)| Outgoing { key: *key, wrapped: &keys[*key], iv, data });
    assert_eq!(write_items(how, items, &mut body), body.len());
    body
}

fn keys() -> Vec<[u8; WRAPPED_LEN]> {
    (0..64).map(|key| [key; WRAPPED_LEN]).collect()
}

fn head() -> impl Strategy<Value = Head> {
    let with_ops = (prop::sample::select(vec![Kind::Run, Kind::Cell, Kind::Ring]), how(), 1..=OPS_MAX)
        .prop_map(|(kind, how, count)| (kind, Some(how), count));
    let without = (prop::sample::select(vec![Kind::Open, Kind::Ready, Kind::Output, Kind::Refused]), 0..=OPS_MAX)
        .prop_map(|(kind, count)| (kind, None, count));
    (prop_oneof![with_ops, without], any::<u8>(), 0..=BODY_MAX).prop_map(|((kind, how, count), mill, len)| Head {
        kind,
        how,
        mill,
        count,
        len,
    })
}

proptest! {
    #[test]
    fn heads_come_back(head in head()) {
        prop_assert_eq!(Head::read(&head.to_bytes()), Ok(head));
    }

    #[test]
    fn a_head_of_any_bytes_is_read_or_refused_and_what_is_read_is_what_it_was(bytes: [u8; HEAD_LEN], right in head()) {
        let mut near = right.to_bytes();
        near[usize::from(bytes[0]) % HEAD_LEN] = bytes[1];
        for bytes in [bytes, near] {
            match Head::read(&bytes) {
                Ok(head) => prop_assert_eq!(head.to_bytes(), bytes),
                Err(error) => prop_assert!(error.at < HEAD_LEN),
            }
        }
    }

    #[test]
    fn operations_come_back(ops in ops(), how in how()) {
        let keys = keys();
        let body = written(how, &ops, &keys);
        let mut seen = 0;
        let read = read_items(how, ops.len(), WRAPPED_LEN, &body, |item| {
            let (key, iv, data) = &ops[seen];
            match item.key {
                KeyName::Index(index) => assert_eq!(index, *key),
                KeyName::Wrapped(place) if how == How::Chained => assert_eq!(body[place], keys[ops[0].0]),
                KeyName::Wrapped(place) => assert_eq!(body[place], keys[*key]),
            }
            assert_eq!((&item.iv, &body[item.data]), (iv, &data[..]));
            seen += 1;
            Ok(())
        });
        prop_assert_eq!(read, Ok(()));
        prop_assert_eq!(seen, ops.len());
    }

    #[test]
    fn bodies_cut_short_or_made_longer_are_refused(ops in ops(), how in how(), cut in any::<prop::sample::Index>()) {
        let body = written(how, &ops, &keys());
        let at = cut.index(body.len());
        let read = |body: &[u8], count: usize| read_items(how, count, WRAPPED_LEN, body, |_| Ok(()));
        let error = read(&body[..at], ops.len()).expect_err("cut short");
        prop_assert!(error.at <= at && !error.rule.is_empty());
        let mut longer = body.clone();
        longer.push(0);
        let error = read(&longer, ops.len()).expect_err("longer");
        prop_assert_eq!(error, WireError { at: body.len(), rule: "bytes follow the last operation" });
        prop_assert!(read(&body, ops.len() + 1).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused_within_themselves(
        body in prop::collection::vec(any::<u8>(), 0..400),
        how in how(),
        count in 0usize..40,
    ) {
        let read = read_items(how, count, WRAPPED_LEN, &body, |item| {
            assert!(item.data.end <= body.len() && item.data.len() % BLOCK == 0 && !item.data.is_empty());
            Ok(())
        });
        if let Err(error) = read {
            prop_assert!(error.at <= body.len());
        }
        // A count that no body can hold must not be believed.
        prop_assert!(read_items(how, usize::MAX, WRAPPED_LEN, &body, |_| Ok(())).is_err());
    }

    #[test]
    fn openings_come_back_and_damaged_ones_are_refused(
        suite in "[a-z0-9-]{0,20}",
        engine in "[a-z:=,-]{0,40}",
        checked: bool,
        wrapping: [u8; 32],
        wrapped in prop::collection::vec(prop::array::uniform16(any::<u8>()), 0..70),
        cut in any::<prop::sample::Index>(),
    ) {
        let wrapped = wrapped.into_iter().map(Vec::from).collect();
        let opening = Opening { suite, engine, checked, wrapping, wrapped };
        let bytes = opening.to_bytes();
        prop_assert_eq!(Opening::read(&bytes), Ok(opening));
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(Opening::read(cut).is_err());
        let mut damaged = bytes.clone();
        damaged[2] = 2;
        prop_assert_eq!(Opening::read(&damaged), Err(WireError { at: 2, rule: "this byte is 0 or 1" }));
    }
}

#[test]
fn every_broken_rule_of_a_head_is_named_with_its_place() {
    let right = Head { kind: Kind::Run, how: Some(How::Whole), mill: 0, count: 1, len: 36 }.to_bytes();
    for (at, value, wanted) in
        [(3, b'x', 0), (4, 0, 4), (5, 0, 5), (5, 99, 5), (7, 1, 7), (8, 0, 8), (11, 1, 8), (15, 1, 12)]
    {
        let mut bytes = right;
        bytes[at] = value;
        assert_eq!(Head::read(&bytes).map_err(|error| error.at), Err(wanted), "{at}");
    }
}

#[test]
fn what_does_not_fit_is_not_written() {
    let item = Outgoing { key: 1, wrapped: &[1; 16], iv: &[2; 8], data: &[3; 24] };
    for how in How::ALL {
        let wanted = how.body_len(1, 24, 16);
        let mut room = vec![9; wanted - 1];
        assert_eq!(write_items(how, [item].into_iter(), &mut room), wanted);
        assert_eq!(room.len(), wanted - 1);
    }
}
