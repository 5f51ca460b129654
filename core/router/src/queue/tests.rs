//! The queue against a plain one that looks at everything, and what clients may rely on.

use proptest::prelude::*;

use super::*;

/// Kinds 0 and 2 go by eight, at 500 µs a step; all others are 100 ns an operation and one nanosecond a byte.
struct Steps;

impl Times for Steps {
    fn time(&self, kind: usize, ops: u64, bytes: u64) -> Option<BatchTime> {
        let step = self.step(kind);
        let ns = match step {
            1 => 100.0 * ops as f64 + bytes as f64,
            _ => 500_000.0 * ops.div_ceil(8) as f64,
        };
        Some(BatchTime { ns, step })
    }

    fn step(&self, kind: usize) -> u16 {
        if kind.is_multiple_of(2) { 8 } else { 1 }
    }
}

/// A client with one place.
#[derive(Debug)]
struct Client {
    turn: Turn,
    weight: f64,
}

impl Owner for Client {
    fn turn(&self) -> Turn {
        self.turn
    }

    fn set_turn(&mut self, turn: Turn) {
        self.turn = turn;
    }

    fn weight(&self) -> f64 {
        self.weight
    }
}

fn queue(clients: usize, workers: usize) -> Queue<Client> {
    let options = QueueOptions { kinds: 4, workers, window_max_ns: 300_000, batch_ns_max: 50e6 };
    let mut queue = Queue::new(options);
    (0..clients).for_each(|at| assert_eq!(queue.add(Client { turn: Turn::default(), weight: 1.0 }), at));
    queue
}

fn one(kind: usize) -> Waiting {
    Waiting { kind, variant: 0, ops: 1, bytes: 64, slow: false }
}

/// What is given out now: the places of a batch.
fn given(queue: &mut Queue<Client>, now_ns: u64) -> (Next, Vec<Ticket>) {
    let mut tickets = Vec::new();
    let next = queue.next(&Steps, now_ns, |_, _, ticket| tickets.push(ticket));
    (next, tickets)
}

fn places(tickets: &[Ticket]) -> Vec<u32> {
    tickets.iter().map(|ticket| ticket.place).collect()
}

#[test]
fn one_client_alone_never_waits() {
    let mut queue = queue(3, 1);
    for round in 0..100 {
        let now = round * 10_000;
        assert!(queue.arrive(1, one(0), now));
        let (next, tickets) = given(&mut queue, now);
        assert!(matches!(next, Next::Batch { .. }) && places(&tickets) == [1], "round {round}: {next:?}");
        queue.done(tickets[0]);
    }
}

#[test]
fn requests_in_steps_wait_for_callers_who_come_again() {
    let mut queue = queue(8, 1);
    // All eight are known as callers.
    for at in 0..8 {
        assert!(queue.arrive(at, one(0), at as u64 * 1000));
    }
    let (_, tickets) = given(&mut queue, 8000);
    assert_eq!(tickets.len(), 8, "a full step is not waited with");
    tickets.into_iter().for_each(|ticket| queue.done(ticket));
    assert!(queue.arrive(3, one(0), 9000));
    let (next, _) = given(&mut queue, 9000);
    let Next::Held { until_ns } = next else { panic!("{next:?}") };
    assert!(until_ns > 9000 && until_ns <= 309_000, "{until_ns}");
    assert_eq!(given(&mut queue, until_ns).1.len(), 1, "no longer than the window");
    assert!(queue.arrive(5, one(0), 30_000_000));
    assert_eq!(given(&mut queue, 30_000_000).1.len(), 1, "callers who have not asked for long are not waited for");
}

#[test]
fn another_kind_goes_on_while_one_waits_for_more() {
    let mut queue = queue(8, 1);
    (0..8).for_each(|at| assert!(queue.arrive(at, one(0), at as u64)));
    let (_, tickets) = given(&mut queue, 8);
    tickets.into_iter().for_each(|ticket| queue.done(ticket));
    assert!(queue.arrive(0, one(0), 10));
    assert!(matches!(given(&mut queue, 10).0, Next::Held { .. }));
    assert!(queue.arrive(1, one(1), 11));
    assert_eq!(places(&given(&mut queue, 11).1), [1]);
}

#[test]
fn only_small_requests_of_one_variant_share_a_batch() {
    let mut queue = queue(6, 1);
    let requests = [
        one(1),
        one(1),
        Waiting { variant: 7, ..one(1) },
        Waiting { ops: 65, ..one(1) },
        Waiting { bytes: 17 << 10, ..one(1) },
        one(3),
    ];
    for (at, request) in requests.into_iter().enumerate() {
        assert!(queue.arrive(at, request, at as u64));
    }
    let mut batches = Vec::new();
    while let (Next::Batch { .. }, tickets) = given(&mut queue, 10) {
        batches.push(places(&tickets));
    }
    assert_eq!(batches, [vec![0, 1], vec![2], vec![3], vec![4], vec![5]]);
    assert!(queue.is_empty());
}

#[test]
fn slow_requests_leave_a_worker_for_others() {
    let mut queue = queue(3, 2);
    let slow = Waiting { ops: 500, slow: true, ..one(0) };
    assert!(queue.arrive(0, slow, 0) && queue.arrive(1, slow, 1));
    let (_, first) = given(&mut queue, 2);
    assert_eq!(places(&first), [0]);
    assert!(queue.ready() == 0 && !queue.is_ready(1));
    assert!(queue.arrive(2, one(1), 3));
    assert_eq!(places(&given(&mut queue, 3).1), [2]);
    assert_eq!(given(&mut queue, 4).0, Next::Nothing);
    queue.done(first[0]);
    assert_eq!(places(&given(&mut queue, 5).1), [1]);
}

#[test]
fn another_worker_is_wanted_for_what_takes_longer_than_waking_it() {
    let mut queue = queue(3, 2);
    assert!(!queue.wants_another(1e9), "nothing waits");
    assert!(queue.arrive(0, one(0), 0));
    assert!(!queue.wants_another(WAKE_NS / 2.0) && queue.wants_another(WAKE_NS * 1.1));
    assert!(queue.arrive(1, one(1), 0) && queue.arrive(2, one(1), 0));
    assert!(queue.wants_another(WAKE_NS / 2.0), "three that wait");
}

#[test]
fn bulk_is_slow_only_while_others_ask_for_short_ones() {
    let bulk = Waiting { ops: 1, bytes: 1 << 20, ..one(1) };
    for (small_at, at, slow) in [(None, 1, false), (Some(1), 2, true), (Some(1), 20_000_001, false)] {
        let mut queue = queue(2, 2);
        if let Some(small_at) = small_at {
            assert!(queue.arrive(0, one(1), small_at));
        }
        assert!(queue.arrive(1, bulk, at));
        assert_eq!(queue.waiting[1] == 1, slow, "{small_at:?} {at}");
    }
}

/// The numbers of the slots are used again, and what was given out before does not count there.
#[test]
fn a_place_that_is_given_away_again_begins_anew() {
    let mut queue = queue(2, 1);
    assert!(queue.arrive(0, one(1), 0));
    let (_, tickets) = given(&mut queue, 0);
    assert!(queue.arrive(0, one(1), 1) && !queue.arrive(0, one(1), 1) && !queue.arrive(9, one(1), 1));
    assert!(!queue.arrive(1, one(4), 1), "there is no such kind");
    assert!(queue.remove(0).is_some() && queue.remove(0).is_none());
    assert!(queue.is_empty() && given(&mut queue, 1).0 == Next::Nothing);
    assert_eq!(queue.add(Client { turn: Turn::default(), weight: 1.0 }), 0);
    queue.done(tickets[0]);
    assert_eq!(queue.in_flight(0), 0);
    assert!(queue.arrive(0, one(1), 2));
    assert_eq!(places(&given(&mut queue, 2).1), [0]);
}

#[test]
fn weights_are_shares_where_everybody_always_asks() {
    let mut queue = queue(0, 1);
    let weights = [1.0, 2.0, 4.0];
    for weight in weights {
        queue.add(Client { turn: Turn::default(), weight });
    }
    // Large ones share no batch.
    let large = Waiting { ops: 100, bytes: 100, ..one(1) };
    (0..3).for_each(|at| assert!(queue.arrive(at, large, 0)));
    let mut got = [0.0f64; 3];
    for now in 1..7000 {
        let (_, tickets) = given(&mut queue, now);
        let at = tickets[0].place as usize;
        got[at] += 1.0;
        queue.done(tickets[0]);
        assert!(queue.arrive(at, large, now));
    }
    assert!((got[1] / got[0] - 2.0).abs() < 0.02 && (got[2] / got[0] - 4.0).abs() < 0.04, "{got:?}");
}

/// With shared batches too: sixteen callers and steps of eight.
#[test]
fn all_callers_get_as_much_where_batches_are_shared() {
    let mut queue = queue(16, 1);
    (0..16).for_each(|at| assert!(queue.arrive(at, one(0), at as u64)));
    let mut got = [0u32; 16];
    for round in 1..=1000 {
        let now = round * 500_000;
        let (_, tickets) = given(&mut queue, now);
        assert_eq!(tickets.len(), 8);
        for ticket in tickets {
            got[ticket.place as usize] += 1;
            queue.done(ticket);
            assert!(queue.arrive(ticket.place as usize, one(0), now));
        }
    }
    assert!(got.iter().all(|count| *count == 500), "{got:?}");
}

/// A client with two places has one turn.
#[test]
fn two_places_are_no_second_share() {
    use std::cell::Cell;
    use std::rc::Rc;
    struct Shared(Rc<Cell<Turn>>);
    impl Owner for Shared {
        fn turn(&self) -> Turn {
            self.0.get()
        }
        fn set_turn(&mut self, turn: Turn) {
            self.0.set(turn);
        }
        fn weight(&self) -> f64 {
            1.0
        }
    }
    let options = QueueOptions { kinds: 4, workers: 1, window_max_ns: 0, batch_ns_max: 50e6 };
    let mut queue = Queue::new(options);
    let (greedy, modest) = (Rc::new(Cell::new(Turn::default())), Rc::new(Cell::new(Turn::default())));
    for turn in [&greedy, &greedy, &greedy, &modest] {
        queue.add(Shared(Rc::clone(turn)));
    }
    let large = Waiting { ops: 100, bytes: 100, ..one(1) };
    (0..4).for_each(|at| assert!(queue.arrive(at, large, 0)));
    let mut modest = 0;
    for now in 1..=1000 {
        let mut place = 0;
        queue.next(&Steps, now, |_, _, ticket| place = ticket.place);
        modest += u32::from(place == 3);
        assert!(queue.arrive(place as usize, large, now));
    }
    assert!((499..=501).contains(&modest), "{modest}");
}

/// What is kept as sums, counted anew.
fn check(queue: &Queue<Client>, now_ns: u64) {
    for (index, kind) in queue.kinds.iter().enumerate() {
        let all = || queue.places.iter().flatten();
        let heads = || all().filter_map(|place| place.head.filter(|head| head.kind == index));
        assert_eq!(kind.waiting, heads().count() as u64);
        assert_eq!(kind.ops, heads().map(|head| u64::from(head.ops)).sum::<u64>());
        assert_eq!(kind.bytes, heads().map(|head| u64::from(head.bytes)).sum::<u64>());
        assert_eq!(kind.heaps.iter().map(BinaryHeap::len).sum::<usize>() as u64, kind.waiting);
        let idle = all().filter(|place| place.head.is_none() && place.in_flight == 0);
        let expected = idle.filter(|place| place.last.is_some_and(|(kind, _)| kind == index)).count();
        assert_eq!(kind.expected, expected as u64);
        assert_eq!(kind.waiting > 0, queue.active.contains(&(index as u32)));
    }
    let recent = queue.places.iter().flatten().filter_map(|place| place.last);
    assert!(recent.clone().all(|(_, at)| now_ns - at < CALLER_MEMORY_NS), "forgotten in time");
    let (mut listed, mut at) = (0, queue.eldest);
    while let Some(place) = queue.place(at as usize) {
        (listed, at) = (listed + 1, place.behind);
    }
    assert_eq!(listed, recent.count());
}

proptest! {
    /// Whatever comes and goes, each request is given out once, the first of a batch has the earliest start of those that may go, and
    /// the sums are what they stand for.
    #[test]
    fn sums_and_order_hold(
        steps in prop::collection::vec((0usize..8, 0usize..4, 0usize..6, 1u32..80, 0u64..8_000_000), 1..300),
    ) {
        let mut queue = queue(8, 2);
        let (mut now, mut came, mut gone, mut taken_back) = (0, 0, 0, 0);
        let mut under_way = Vec::new();
        for (at, kind, what, ops, passes) in steps {
            now += if ops % 3 == 0 { passes } else { passes / 1000 };
            match what {
                0 if ops > 70 => {
                    taken_back += u32::from(queue.waits(at));
                    prop_assert!(queue.remove(at).is_some());
                    prop_assert_eq!(queue.add(Client { turn: Turn::default(), weight: f64::from(ops) }), at);
                }
                0..=2 => {
                    let slow = ops > 75;
                    let free = !queue.waits(at);
                    let request = Waiting { kind, variant: 0, ops, bytes: ops * 64, slow };
                    prop_assert_eq!(queue.arrive(at, request, now), free);
                    came += u32::from(free);
                }
                3 | 4 => {
                    let ready: Vec<(u32, usize, f64)> = (0..8)
                        .filter(|at| queue.is_ready(*at))
                        .filter_map(|at| {
                            let place = queue.place(at)?;
                            Some((at as u32, place.head?.kind, queue.clock.start(&place.owner.turn)))
                        })
                        .collect();
                    let (next, tickets) = given(&mut queue, now);
                    if let Some(first) = tickets.first() {
                        let (_, kind, start) = ready.iter().find(|one| one.0 == first.place).expect("it was ready");
                        let others = ready.iter().filter(|one| one.1 == *kind);
                        prop_assert!(others.clone().all(|one| one.2 >= *start), "{ready:?}, {first:?}");
                    }
                    prop_assert_eq!(matches!(next, Next::Nothing), ready.is_empty());
                    gone += tickets.len() as u32;
                    under_way.extend(tickets);
                    queue.forget(now);
                    check(&queue, now);
                }
                _ => {
                    if let Some(ticket) = under_way.pop() {
                        queue.done(ticket);
                    }
                }
            }
            prop_assert_eq!(queue.len() as u32, came - gone - taken_back);
        }
    }
}
