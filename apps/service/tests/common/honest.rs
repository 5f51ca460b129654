//! A client that does all as it should while others attack: its answers must be right, and come soon.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill};
use ciphermill_channel::Outcome;
use ciphermill_contract::{Batch, Direction, KeyMaterial, Op, OpStatus, Span};

use super::raw::{Raw, seal, suite};

/// For no longer may anybody be kept waiting, however others behave. The machine may be busy with other tests.
const BLOCKED_MAX: Duration = Duration::from_secs(2);

/// Rounds over one connection before the next.
const ROUNDS: u32 = 32;

const KEY: [u8; 16] = [0x5a; 16];

pub(crate) struct Honest {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<(u64, (Duration, &'static str))>,
}

impl Honest {
    pub(crate) fn start(socket: &Path) -> Honest {
        let ends = Arc::new(AtomicBool::new(false));
        let (own, socket) = (Arc::clone(&ends), socket.to_owned());
        let thread = std::thread::spawn(move || work(&socket, &own));
        Honest { ends, thread }
    }

    /// Ends it, and says how many answers it has had, and how long it waited at most.
    pub(crate) fn end(self) -> (u64, (Duration, &'static str)) {
        self.ends.store(true, Ordering::Relaxed);
        let (rounds, longest) = self.thread.join().expect("all answers were right and came in time");
        assert!(rounds > 0, "it was served");
        (rounds, longest)
    }
}

fn text(round: u32) -> [u8; 64] {
    [round as u8; 64]
}

fn iv(round: u32) -> [u8; 12] {
    let mut iv = [7; 12];
    iv[..4].copy_from_slice(&round.to_be_bytes());
    iv
}

/// What the reference makes of each round's text.
fn expected() -> Vec<Vec<u8>> {
    let mill = Mill::builder().engine(Arc::new(ciphermill_reference::Reference::new())).open().expect("a mill");
    let key = mill.keys().import(KeyMaterial::secret(&KEY), KeyPolicy::default()).expect("a key");
    (0..ROUNDS)
        .map(|round| {
            let mut arena = text(round).to_vec();
            arena.resize(80, 0);
            let mut ops = [Op::in_place(key, Span::new(0, 64)).with_tag(64, 16).with_iv(&iv(round))];
            mill.run(Batch::new(suite("aes-128-gcm"), Direction::Encrypt, &mut ops, &mut arena)).expect("runs");
            arena
        })
        .collect()
}

/// Does something that must not take long.
fn soon<T>(longest: &mut (Duration, &'static str), what: &'static str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    let took = begun.elapsed();
    assert!(took < BLOCKED_MAX, "{what} took {took:?}");
    if took > longest.0 {
        *longest = (took, what);
    }
    done
}

fn work(socket: &Path, ends: &AtomicBool) -> (u64, (Duration, &'static str)) {
    let expected = expected();
    let (mut rounds, mut longest) = (0, (Duration::ZERO, "nothing"));
    let longest = &mut longest;
    // Once at least: an attack may be over before this has begun.
    while rounds == 0 || !ends.load(Ordering::Relaxed) {
        let mut raw = soon(longest, "connecting", || Raw::greeted(socket));
        let (channel, mut port) = soon(longest, "opening a channel", || raw.port(0));
        let key = soon(longest, "handing a key over", || raw.import(suite("aes-128-gcm"), &KEY));
        for round in 0..ROUNDS {
            let answer = soon(longest, "an operation", || seal(&mut port, key, &iv(round), &text(round)));
            assert_eq!(answer, (Outcome::Ran, OpStatus::Done, expected[round as usize].clone()));
            rounds += 1;
            // Sleeps now and then, as others do, and the service with it.
            if round % 8 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        raw.say(&ciphermill_channel::Ask::Forget { key });
        raw.say(&ciphermill_channel::Ask::Close { channel });
        soon(longest, "a question", || raw.status());
    }
    (rounds, *longest)
}
