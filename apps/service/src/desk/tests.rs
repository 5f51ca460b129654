use ciphermill::Mill;
use ciphermill_channel::{Channel, DATA_AT, DATA_LEN_MIN, Port};
use ciphermill_contract::suite::{AesSize, Ff1};
use ciphermill_contract::{Direction, Suite};
use rustix::event::{EventfdFlags, eventfd};

use super::*;
use crate::account::Rules;
use crate::client::Client;
use crate::keys::Keys;
use crate::peer::Peer;

/// Requests that a client may make up without end must not be remembered without end.
#[test]
fn what_is_remembered_of_requests_is_bounded() {
    let engine = Arc::new(ciphermill_reference::Reference::new());
    let mill = Mill::builder().engine(engine).open().expect("a mill");
    let (desk, offers) = (Desk::new(Duration::from_micros(100), (2, 2), Instant::now()), Offers::of(&mill));
    let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"));
    let client = Arc::new(Client::new(1, Peer { pid: 1, uid: 0, gid: 0 }, Keys::new(1), ended));
    let channel = Arc::new(ClientChannel { id: 2, channel: Channel::create(DATA_LEN_MIN).expect("memory"), client });
    let mut port = channel.channel.port().expect("descriptors");
    desk.begin_watch();
    desk.add(Arc::clone(&channel));
    desk.rung(2);
    for radix in 0..500 {
        let suite = Suite::Fpe(Ff1 { size: AesSize::Aes256, radix });
        let (ops_at, data_at) = (DATA_AT as u32, DATA_AT as u32 + 64);
        let request =
            Request { suite, direction: Direction::Encrypt, ops: 1, columns: false, ops_at, data_at, data_len: 20 };
        port.submit(request).expect("a slot");
        let parts = loop {
            if let Next::Run { parts, .. } = desk.next(&offers, Instant::now()) {
                break parts;
            }
        };
        assert_eq!(parts[0].request, request);
        channel.channel.complete(parts[0].number, Outcome::Ran);
        desk.done(&parts);
    }
    assert!(desk.inner().queue.is_empty());
}

/// Bytes of a request that shares no batch, and for which no worker is left to others.
const LARGE: u32 = 32 << 10;

/// A desk with clients, and the time that it is told.
struct Room {
    desk: Desk,
    offers: Offers,
    opened: Instant,
    now: Duration,
    callers: Vec<Caller>,
}

struct Caller {
    channel: Arc<ClientChannel>,
    port: Port,
    /// Operations that were given out.
    given: u64,
}

impl Room {
    /// One client for each of the accounts.
    fn new(accounts: &[&Arc<Account>]) -> Room {
        let engine = Arc::new(ciphermill_reference::Reference::new());
        let mill = Mill::builder().engine(engine).open().expect("a mill");
        let desk = Desk::new(Duration::from_micros(100), (2, 2), Instant::now());
        let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"));
        let caller = |(index, account): (usize, &&Arc<Account>)| {
            let peer = Peer { pid: 1, uid: 0, gid: 0 };
            let client =
                Client::new(index as u64, peer, Keys::new(1), Arc::clone(&ended)).on_account(Arc::clone(account));
            let channel = Channel::create(1 << 20).expect("memory");
            let channel = Arc::new(ClientChannel { id: index as u64, channel, client: Arc::new(client) });
            let port = channel.channel.port().expect("descriptors");
            desk.add(Arc::clone(&channel));
            Caller { channel, port, given: 0 }
        };
        let callers = accounts.iter().enumerate().map(caller).collect();
        desk.begin_watch();
        let opened = desk.opened;
        Room { desk, offers: Offers::of(&mill), opened, now: Duration::ZERO, callers }
    }

    fn now(&self) -> Instant {
        self.opened + self.now
    }

    fn submit(&mut self, caller: usize, name: &str, ops: u32, data_len: u32) -> bool {
        let (suite, ops_at) = (name.parse().expect("a suite"), DATA_AT as u32);
        let request = Request {
            suite,
            direction: Direction::Encrypt,
            ops,
            columns: false,
            ops_at,
            data_at: DATA_AT as u32 + 8192,
            data_len,
        };
        self.callers[caller].port.submit(request).is_some()
    }

    /// What is given out now at once.
    fn batch(&mut self) -> Option<Vec<Part>> {
        self.callers.iter().for_each(|caller| self.desk.rung(caller.channel.id));
        match self.desk.next(&self.offers, self.now()) {
            Next::Run { parts, long, .. } => {
                if long {
                    self.desk.begin_watch();
                }
                for part in &parts {
                    self.callers[part.channel.id as usize].given += u64::from(part.request.ops);
                }
                Some(parts)
            }
            Next::Soon | Next::Nothing { .. } => None,
        }
    }

    fn answer(&mut self, parts: &[Part]) {
        parts.iter().for_each(|part| part.channel.channel.complete(part.number, Outcome::Ran));
        self.desk.done(parts);
    }

    /// Has all that may be done now done; returns how many requests those were.
    fn work(&mut self) -> usize {
        let mut done = 0;
        while let Some(parts) = self.batch() {
            done += parts.len();
            self.answer(&parts);
        }
        done
    }

    /// Has these clients ask all the time for so long, with a look every millisecond; returns what each had.
    fn run(&mut self, seconds: f64, asks: &[(usize, &str, u32, u32)]) -> Vec<u64> {
        let before: Vec<u64> = self.callers.iter().map(|caller| caller.given).collect();
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now += Duration::from_millis(1);
            loop {
                for (caller, name, ops, data_len) in asks {
                    while self.submit(*caller, name, *ops, *data_len) {}
                }
                if self.work() == 0 {
                    break;
                }
            }
        }
        self.callers.iter().zip(before).map(|(caller, before)| caller.given - before).collect()
    }
}

fn account(rules: Rules) -> Arc<Account> {
    Arc::new(Account::new(rules))
}

fn rate(ops_per_second: f64) -> Rules {
    Rules { ops_per_second: Some(ops_per_second), ..Rules::default() }
}

fn is_near(value: u64, wanted: f64) -> bool {
    (value as f64 / wanted - 1.0).abs() < 0.05
}

/// The mill's own threads would take cores from workers and clients.
#[test]
fn a_batch_has_other_cores_while_nobody_else_needs_one() {
    let both = account(Rules::default());
    let mut room = Room::new(&[&both, &both]);
    room.desk.cores = 3;
    let next = |room: &mut Room, caller: usize| {
        assert!(room.submit(caller, "sha256", 1, LARGE));
        room.desk.rung(caller as u64);
        match room.desk.next(&room.offers, room.now()) {
            Next::Run { parts, alone, .. } => (parts, alone),
            Next::Soon | Next::Nothing { .. } => panic!("a request waits"),
        }
    };
    let (first, alone) = next(&mut room, 0);
    assert!(alone, "of one client and one worker");
    let (second, alone) = next(&mut room, 1);
    assert!(!alone, "another worker is at a batch");
    room.answer(&first);
    room.answer(&second);
    let (third, alone) = next(&mut room, 0);
    assert!(alone, "both are done");
    room.answer(&third);
    room.desk.cores = 2;
    assert!(!next(&mut room, 1).1, "as many clients as cores");
}

/// Behind a long request nobody looks at its channel: its client has to ring, and a worker to know that it does.
#[test]
fn a_worker_is_told_when_there_is_no_channel_to_look_at() {
    let mut room = Room::new(&[&account(Rules::default())]);
    let all_ring = |room: &Room| matches!(room.desk.next(&room.offers, room.now()), Next::Nothing { all_ring: true });
    assert!(all_ring(&room), "nobody has rung");
    assert!(room.submit(0, "sha256", 1, 64));
    assert_eq!(room.work(), 1);
    assert!(!all_ring(&room), "it has asked of late");
    assert!(room.submit(0, "sha256", 1, 16 * LARGE));
    let Next::Run { parts, long: true, .. } = room.desk.next(&room.offers, room.now()) else { panic!("it is long") };
    room.answer(&parts);
    room.desk.begin_watch();
    assert!(all_ring(&room), "the last on watch has left it");
}

#[test]
fn a_users_rate_holds_for_all_connections_together() {
    let (limited, other) = (account(rate(1000.0)), account(rate(3000.0)));
    let mut room = Room::new(&[&limited, &limited, &other]);
    let asks = [(0, "aes-128-gcm", 1, 80), (1, "aes-128-gcm", 1, 80), (2, "aes-128-gcm", 5, 400)];
    // The burst first.
    room.run(0.2, &asks);
    let had = room.run(2.0, &asks);
    assert!(is_near(had[0] + had[1], 2000.0) && is_near(had[2], 6000.0), "{had:?}");
    assert!(had[0].abs_diff(had[1]) <= 20, "one after the other: {had:?}");
    let held = room.callers[0].channel.client.counts.held.load(Ordering::Relaxed);
    assert!(held > 800, "{held}");
}

#[test]
fn public_keys_have_a_rate_of_their_own() {
    let limited = account(Rules { public_key_ops_per_second: Some(200.0), ..Rules::default() });
    let mut room = Room::new(&[&limited, &limited]);
    let asks = [(0, "x25519", 1, 128)];
    room.run(0.2, &asks);
    assert!(is_near(room.run(2.0, &asks)[0], 400.0));
    // Others of the same user wait for nothing meanwhile.
    assert!(room.desk.inner().held > 0);
    for _ in 0..1000 {
        assert!(room.submit(1, "aes-128-gcm", 1, 80));
        room.work();
    }
    assert_eq!(room.callers[1].given, 1000);
}

#[test]
fn more_than_a_burst_goes_at_once_when_nothing_is_owed() {
    let mut room = Room::new(&[&account(rate(100.0))]);
    assert!(room.submit(0, "aes-128-gcm", 60, 4800) && room.submit(0, "aes-128-gcm", 1, 80));
    assert_eq!((room.work(), room.callers[0].given), (1, 60));
    room.now = Duration::from_millis(509);
    assert_eq!(room.work(), 0);
    room.now = Duration::from_millis(511);
    assert_eq!(room.work(), 1);
}

#[test]
fn who_is_held_back_delays_nobody_and_wakes_a_worker_in_time() {
    let mut room = Room::new(&[&account(rate(1.0)), &account(Rules::default())]);
    assert!(room.submit(0, "aes-128-gcm", 1, 80) && room.submit(0, "aes-128-gcm", 1, 80));
    assert_eq!(room.work(), 1);
    assert_eq!(room.desk.figures(), (2, 1), "it waits");
    assert!(!room.desk.is_idle(0));
    for _ in 0..1000 {
        assert!(room.submit(1, "aes-128-gcm", 1, 80));
        assert_eq!(room.work(), 1);
    }
    // All may sleep: the last one until it is due, and any other until somebody rings.
    room.desk.begin_watch();
    assert!(matches!(room.desk.end_watch(room.now()), Rest::Sleeps { at_most: None }));
    let Rest::Sleeps { at_most: Some(time) } = room.desk.end_watch(room.now()) else { panic!("nobody looks after it") };
    assert!(time > Duration::from_millis(990) && time <= Duration::from_secs(1), "{time:?}");
    room.now += time;
    room.desk.begin_watch();
    assert!(matches!(room.desk.end_watch(room.now()), Rest::Stays), "it is due");
    assert_eq!((room.work(), room.callers[0].given), (1, 2));
    assert!(matches!(room.desk.end_watch(room.now()), Rest::Sleeps { at_most: None }));
}

#[test]
fn other_rules_are_in_force_for_what_is_held_back() {
    let limited = account(rate(0.01));
    let mut room = Room::new(&[&limited]);
    assert!((0..4).all(|_| room.submit(0, "aes-128-gcm", 1, 80)));
    assert_eq!(room.work(), 1);
    limited.set_rules(rate(0.01));
    assert_eq!(room.work(), 0, "the same rules forgive nothing");
    limited.set_rules(rate(10.0));
    assert_eq!(room.work(), 1);
    room.now = Duration::from_millis(110);
    assert_eq!(room.work(), 1);
    limited.set_rules(Rules::default());
    assert_eq!(room.work(), 1);
    assert_eq!(room.desk.inner().held, 0);
}

#[test]
fn bytes_in_flight_are_those_of_all_connections() {
    let limited = account(Rules { bytes_in_flight: Some(100_000), ..Rules::default() });
    let mut room = Room::new(&[&limited, &limited, &account(Rules::default())]);
    for caller in 0..3 {
        assert!(room.submit(caller, "aes-128-gcm", 1, 60_000));
    }
    let mut under_way = Vec::new();
    while let Some(parts) = room.batch() {
        under_way.extend(parts);
    }
    assert_eq!(under_way.len(), 2, "one of the two, and the other user's");
    assert!(matches!(room.desk.end_watch(room.now()), Rest::Sleeps { at_most: None }), "no time would help");
    room.desk.begin_watch();
    assert!(room.submit(0, "aes-128-gcm", 1, 60_000) || room.submit(1, "aes-128-gcm", 1, 60_000));
    room.answer(&under_way);
    let parts = room.batch().expect("there is room again");
    // A client that leaves meanwhile takes what it waits for with it.
    let waits = usize::from(parts[0].channel.id == 0);
    assert!(room.batch().is_none());
    let _ = room.desk.remove(waits as u64);
    room.answer(&parts);
    room.work();
    assert_eq!(room.desk.inner().held, 0);
    assert!(limited.has_room(&mut None, 100_000), "nothing is in flight any more");
}

#[test]
fn a_weight_is_a_share_of_the_workers_time() {
    let (heavy, light) = (account(Rules { weight: 4.0, ..Rules::default() }), account(Rules::default()));
    let mut room = Room::new(&[&heavy, &light]);
    for _ in 0..1000 {
        for caller in 0..2 {
            while room.submit(caller, "aes-128-gcm", 1, LARGE) {}
        }
        let parts = room.batch().expect("somebody waits");
        room.answer(&parts);
    }
    let shares = room.callers[0].given as f64 / room.callers[1].given as f64;
    assert!((shares - 4.0).abs() < 0.2, "{shares}");
}
