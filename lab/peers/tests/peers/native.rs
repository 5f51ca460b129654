//! Native loops: right in all of their ways, against the reference engine.

use ciphermill_contract::{Direction, KeyForm, Suite};
use ciphermill_peers::native;
use ciphermill_peers::native::{NativeLoop, Task};
use ciphermill_reference::Reference;

use crate::workload::{Draw, Random, Workload};

/// A suite for each interface of the library.
const SUITES: [&str; 8] = [
    "aes-128-cbc",
    "aes-256-cbc",
    "des-cbc",
    "3des-cbc",
    "aes-128-gcm",
    "hmac-sha1",
    "hmac-sha256",
    "aes-128-cbc+hmac-sha1",
];

/// Operations as a workload of the lab has them: outputs apart from inputs, one length of IV and tag.
fn workload(suite: Suite, ops: usize) -> Workload {
    let draw = Draw { ops, keys: 9, len_min: 16, len_max: 200, aad_max: 12 };
    let mut workload = Workload::random(&mut Random(suite.ordinal() as u64), suite, draw);
    let (tag_len, iv_len) = (suite.default_tag_len(), suite.default_iv_len());
    let area = workload.arena.len();
    let room: usize = workload.ops.iter().map(|op| op.input.len as usize + tag_len).sum();
    workload.arena.resize(area + room, 0);
    let mut place = area as u32;
    for op in &mut workload.ops {
        *op = op.with_output(place).with_tag(place + op.input.len, tag_len as u16).with_iv(&[7; 16][..iv_len]);
        place += op.input.len + tag_len as u32;
    }
    workload
}

fn open(workload: &Workload) -> Option<Box<dyn NativeLoop>> {
    open_of("ipsec-mb", workload)
}

fn open_of(name: &str, workload: &Workload) -> Option<Box<dyn NativeLoop>> {
    let keys: Vec<&[u8]> = workload.keys.iter().map(Vec::as_slice).collect();
    let key_of: Vec<usize> = workload.ops.iter().map(|op| op.key.slot as usize).collect();
    let Workload { suite, direction, ops, arena, .. } = workload;
    let form = KeyForm::Secret;
    native(name, &Task { suite: *suite, direction: *direction, ops, arena, form, keys: &keys, key_of: &key_of })
}

/// Runs every way; the names of those whose answers are the reference's, and of those that gave up.
fn right(start: &Workload) -> (Vec<String>, Vec<String>) {
    right_of("ipsec-mb", start)
}

fn right_of(name: &str, start: &Workload) -> (Vec<String>, Vec<String>) {
    let mut expected = start.clone();
    expected.run(&Reference::new());
    let own = open_of(name, start);
    let mut own = own.unwrap_or_else(|| panic!("{name} has a native loop for {} {}", start.suite, start.direction));
    let (mut right, mut refused) = (Vec::new(), Vec::new());
    for (way, name) in own.ways().into_iter().enumerate() {
        // Twice: what is done with jobs that lie filled must not depend on their first use.
        let ran = (0..2).all(|_| own.restart() && own.run(way));
        let (ops, arena) = own.answers();
        if !ran {
            refused.push(name);
            continue;
        }
        for (index, (own, theirs)) in ops.iter().zip(&expected.ops).enumerate() {
            let case = format!("{} {}, {name}, operation {index}", start.suite, start.direction);
            assert_eq!((own.status, own.output_len), (theirs.status, theirs.output_len), "{case}");
            let output = theirs.output as usize..(theirs.output + theirs.output_len) as usize;
            assert!(arena[output.clone()] == expected.arena[output], "{case}: output");
            let tag = theirs.tag_span().range();
            assert!(arena[tag.clone()] == expected.arena[tag], "{case}: tag");
        }
        right.push(name);
    }
    (right, refused)
}

#[test]
fn every_way_has_the_references_answers_or_none() {
    if ciphermill_peers::open("ipsec-mb").is_err() {
        return;
    }
    for name in SUITES {
        let suite: Suite = name.parse().expect("a suite's name");
        let start = workload(suite, 700);
        let mut there = start.clone();
        there.run(&Reference::new());
        let (mut runs, refused) = right(&start);
        if suite.has_direction(Direction::Decrypt) {
            let (back, also) = right(&there.reversed());
            assert_eq!((&back, &also), (&runs, &refused), "{name}: as many ways back as there");
            runs.extend(back);
        }
        for burst in [8, 16, 32, 64, 128] {
            let burst = format!("job bursts of {burst}");
            assert!(runs.contains(&burst) && runs.contains(&format!("{burst}, unchecked")), "{name}: {runs:?}");
        }
        // Only what the library of this version cannot do is refused: bursts beyond its maximum, queues that wrap.
        let may = |name: &&String| name.contains("undrained") || name.contains("of 256");
        assert!(refused.iter().all(|name| may(&name)), "{name}: {refused:?}");
    }
}

#[test]
fn operations_in_place_have_the_same_answers_in_every_way() {
    if ciphermill_peers::open("ipsec-mb").is_err() {
        return;
    }
    for name in ["aes-128-cbc", "aes-128-gcm", "aes-128-cbc+hmac-sha1"] {
        let start = workload(name.parse().expect("a suite's name"), 300);
        let mut in_place = start.clone();
        in_place.ops.iter_mut().for_each(|op| op.output = op.input.offset);
        assert_eq!(right(&in_place), right(&start), "{name}");
    }
}

#[test]
fn each_interface_is_tried_where_the_library_has_it() {
    let ways = |name: &str| open(&workload(name.parse().expect("a suite"), 20)).map(|own| own.ways().join("; "));
    let Some(cbc) = ways("aes-128-cbc") else { return };
    assert!(cbc.contains("cipher bursts of 64;") && cbc.contains("cipher bursts of 8, unchecked, prefilled"), "{cbc}");
    assert!(ways("aes-128-gcm").is_some_and(|ways| ways.contains("direct calls") && !ways.contains("cipher bursts")));
    assert!(ways("hmac-sha1").is_some_and(|ways| ways.contains("hash bursts of 128")));
    assert!(ways("aes-128-cbc+hmac-sha1").is_some_and(|ways| ways.contains("cipher and hash bursts of 32")));
    assert!(ways("des-cbc").is_some_and(|ways| !ways.contains("cipher bursts")));
    for none in ["aes-128-ctr", "sha256", "aes-128-ccm"] {
        assert_eq!(ways(none), None, "{none}");
    }
}

/// A wrong tag is found in every way, so that what is timed includes the comparison.
#[test]
fn wrong_tags_are_found() {
    for name in ["aes-128-gcm", "hmac-sha256", "aes-128-cbc+hmac-sha1", "3des-cbc+hmac-sha1"] {
        let mut there = workload(name.parse().expect("a suite's name"), 40);
        there.run(&Reference::new());
        let mut back = there.reversed();
        back.tamper(&mut Random(1), |index| index == 17);
        let Some(mut own) = open(&back) else { return };
        for (way, words) in own.ways().iter().enumerate() {
            assert!(own.restart() && !own.run(way), "{name}, {words}");
        }
    }
}

/// `aes-siv` as it is linked here; what `make lab` builds is missed, with a word on how to get it.
#[test]
fn the_loop_of_aes_siv_has_the_references_answers() {
    for name in ["aes-128-siv", "aes-256-siv"] {
        let start = workload(name.parse().expect("a suite's name"), 100);
        let mut there = start.clone();
        there.run(&Reference::new());
        let mut back = there.reversed();
        for task in [&start, &back] {
            let (right, refused) = right_of("rustcrypto", task);
            assert_eq!((right.join("; "), refused.len()), ("aes-siv, built for any processor".to_owned(), 0), "{name}");
        }
        let why = open_of("rustcrypto", &start).expect("a loop").missing().map(str::to_owned);
        assert!(why.as_ref().is_some_and(|why| why.contains("make lab")), "{why:?}");
        back.tamper(&mut Random(1), |index| index == 17);
        assert!(!open_of("rustcrypto", &back).expect("a loop").run(0), "{name}: a wrong tag");
    }
    assert!(open_of("rustcrypto", &workload("ff1-aes-256".parse().expect("a suite's name"), 4)).is_none());
}

/// AWS-LC's plain functions, there and back.
#[test]
fn the_librarys_ciphers_have_the_references_answers() {
    for name in ["aes-128-cbc", "aes-256-cbc", "aes-128-ctr", "aes-192-ctr", "des-cbc", "3des-cbc"] {
        let start = workload(name.parse().expect("a suite's name"), 100);
        let mut there = start.clone();
        there.run(&Reference::new());
        for task in [&start, &there.reversed()] {
            let (right, refused) = right_of("library", task);
            assert_eq!((right.len(), refused.len()), (1, 0), "{name}");
        }
    }
}

/// AWS-LC's AEADs, there and back, and a wrong tag.
#[test]
fn the_librarys_own_loop_has_the_references_answers() {
    for name in ["aes-128-gcm", "aes-256-gcm-siv", "chacha20-poly1305"] {
        let start = workload(name.parse().expect("a suite's name"), 100);
        let mut there = start.clone();
        there.run(&Reference::new());
        for task in [&start, &there.reversed()] {
            let (right, refused) = right_of("library", task);
            assert_eq!((right.len(), refused.len()), (1, 0), "{name}");
        }
        let mut there = start.clone();
        there.run(&Reference::new());
        let mut back = there.reversed();
        back.tamper(&mut Random(1), |index| index == 17);
        assert!(!open_of("library", &back).expect("a loop").run(0), "{name}: a wrong tag");
        let mut in_place = start;
        in_place.ops[0].output = in_place.ops[0].input.offset + 1;
        assert!(open_of("library", &in_place).is_none(), "{name}: places that overlap");
    }
    assert!(open_of("library", &workload("blowfish-cbc".parse().expect("a suite's name"), 5)).is_none());
}

/// Operations that lie outside of their arena, or have lengths that the suite does not take, never reach a library.
#[test]
fn tasks_that_are_not_sound_are_refused() {
    for (name, suite) in [("ipsec-mb", "aes-128-cbc"), ("ipsec-mb", "aes-128-gcm"), ("library", "aes-128-gcm")] {
        let changes: [fn(&mut Workload); 4] = [
            |workload| workload.arena.truncate(workload.arena.len() - 1),
            |workload| workload.ops.iter_mut().for_each(|op| op.iv_len = 200),
            |workload| workload.ops.iter_mut().for_each(|op| op.tag_len = 65),
            |workload| workload.ops[0].input.len = u32::MAX,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut workload = workload(suite.parse().expect("a suite's name"), 5);
            assert!(open_of(name, &workload).is_some(), "{name} {suite}");
            change(&mut workload);
            assert!(open_of(name, &workload).is_none(), "{name} {suite}, change {number}");
        }
    }
}
