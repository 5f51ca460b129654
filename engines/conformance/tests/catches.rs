//! The suite itself: engines broken on purpose, each in one way, and the check that has to notice.

use ciphermill_conformance::{Options, Report, acceptance, check_engine, differential};
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineQueue, KeyMaterial, OpStatus, Piece, PreparedKey,
    QueueHint, Result, Stream, Suite,
};
use ciphermill_reference::Reference;

/// How the engine is broken.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// Not at all.
    Nothing,
    /// One bit of one output in a batch of ten or more is wrong.
    FlipsABit,
    /// One bit of every tag or digest is wrong.
    FlipsATagBit,
    /// Whatever fails to authenticate is reported as done.
    IgnoresTags,
    /// One byte behind each output is written.
    WritesBehind,
    /// One byte of each out-of-place input is written.
    WritesInput,
    /// The last operation of a batch is left pending.
    LeavesPending,
    /// Settled operations are done again.
    IgnoresStatus,
    /// What failed keeps its output.
    KeepsPlaintext,
    /// One failure fails the whole batch.
    FailsNeighbours,
    /// The caller's cookie is lost.
    LosesCookies,
    /// A missing key panics.
    Panics,
    /// Any key is taken for any suite.
    TakesAnyKey,
    /// The first operation's key is used for all.
    MixesKeys,
    /// Random bytes are all alike.
    StuckRandom,
    /// Of a message in parts every sixth is forgotten.
    ForgetsParts,
    /// A copy of a message in parts is a message that has just begun.
    CopiesNothing,
}

struct Broken {
    inner: Reference,
    fault: Break,
}

struct BrokenQueue {
    inner: Box<dyn EngineQueue>,
    fault: Break,
}

impl Engine for Broken {
    fn info(&self) -> &EngineInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> &[Capability] {
        self.inner.capabilities()
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        match (self.fault, self.inner.prepare(key, suite)) {
            (Break::TakesAnyKey, Err(_)) => Ok(PreparedKey::new(())),
            (_, answer) => answer,
        }
    }

    fn stream(&self, suite: Suite, direction: Direction) -> Option<Box<dyn Stream>> {
        let (inner, begun) = (self.inner.stream(suite, direction)?, self.inner.stream(suite, direction)?);
        Some(Box::new(BrokenStream { inner, begun, fault: self.fault, parts: 0 }))
    }

    fn queue(&self, hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(BrokenQueue { inner: self.inner.queue(hint)?, fault: self.fault }))
    }
}

struct BrokenStream {
    inner: Box<dyn Stream>,
    /// The message as it was when it began.
    begun: Box<dyn Stream>,
    fault: Break,
    parts: u32,
}

impl BrokenStream {
    fn forgets(&mut self) -> bool {
        self.parts += 1;
        matches!(self.fault, Break::ForgetsParts) && self.parts.is_multiple_of(6)
    }
}

impl Stream for BrokenStream {
    fn begin(&mut self, key: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        self.begun.begin(key, iv);
        self.inner.begin(key, iv)
    }

    fn absorb(&mut self, key: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        if self.forgets() { OpStatus::Done } else { self.inner.absorb(key, bytes) }
    }

    fn transform(&mut self, key: Option<&PreparedKey>, piece: Piece<'_>) -> OpStatus {
        if self.forgets() { OpStatus::Done } else { self.inner.transform(key, piece) }
    }

    fn finish(&mut self, key: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        self.inner.finish(key, tag)
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        let from = if matches!(self.fault, Break::CopiesNothing) { &self.begun } else { &self.inner };
        let (inner, begun) = (from.duplicate()?, self.begun.duplicate()?);
        Some(Box::new(BrokenStream { inner, begun, fault: self.fault, parts: self.parts }))
    }
}

impl EngineQueue for BrokenQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        let before: Vec<OpStatus> = batch.ops().iter().map(|op| op.status).collect();
        match self.fault {
            Break::Panics if suite.needs_key() && batch.keys().iter().any(Option::is_none) => panic!("on purpose"),
            Break::IgnoresStatus => {
                batch.replace_status(|_| true, OpStatus::Pending);
                self.inner.run(batch);
            }
            Break::MixesKeys => {
                let keys = vec![batch.keys().first().copied().flatten(); batch.keys().len()];
                if let Ok(mut batch) = batch.attach_keys(&keys) {
                    self.inner.run(&mut batch);
                }
            }
            Break::KeepsPlaintext | Break::IgnoresTags => {
                let noise = batch.parts().1.to_vec();
                self.inner.run(batch);
                self.undo_zeroing(batch, suite, direction, &noise);
            }
            _ => self.inner.run(batch),
        }
        self.spoil(batch, suite, direction, &before);
    }
}

impl BrokenQueue {
    fn undo_zeroing(&self, batch: &mut CheckedBatch<'_>, suite: Suite, direction: Direction, noise: &[u8]) {
        let (ops, arena, _) = batch.parts();
        for op in ops.iter_mut().filter(|op| op.status == OpStatus::AuthFailed) {
            let room = suite.output_len(direction, op.input.len as usize, 0);
            let output = op.output as usize..op.output as usize + room;
            match self.fault {
                Break::IgnoresTags => {
                    op.status = OpStatus::Done;
                    op.output_len = room as u32;
                }
                _ => arena[output.clone()].copy_from_slice(&noise[output]),
            }
        }
    }

    fn spoil(&self, batch: &mut CheckedBatch<'_>, suite: Suite, direction: Direction, before: &[OpStatus]) {
        let (ops, arena, _) = batch.parts();
        let count = ops.len();
        let failed = ops.iter().zip(before).any(|(op, old)| old.is_pending() && op.status == OpStatus::AuthFailed);
        for (index, op) in ops.iter_mut().enumerate().filter(|(index, _)| before[*index].is_pending()) {
            let room = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
            let (output, tag) = (op.output as usize, op.tag as usize);
            match self.fault {
                Break::FlipsABit if count >= 10 && index == 7 && op.output_len > 0 => arena[output] ^= 0x10,
                Break::FlipsATagBit if direction == Direction::Encrypt && op.tag_len > 0 => arena[tag] ^= 1,
                Break::WritesBehind if output + room < arena.len() => arena[output + room] ^= 0xff,
                Break::WritesInput if op.input.len > 0 && op.input.offset != op.output => {
                    arena[op.input.offset as usize] ^= 1;
                }
                Break::LeavesPending if index + 1 == count => op.status = OpStatus::Pending,
                Break::FailsNeighbours if failed => op.status = OpStatus::AuthFailed,
                Break::LosesCookies => op.cookie = 0,
                Break::StuckRandom if suite == Suite::Random => arena[output..output + room].fill(7),
                _ => {}
            }
        }
    }
}

fn report(fault: Break, only: &str) -> Report {
    let engine = Broken { inner: Reference::new(), fault };
    let options = Options { only: only.to_owned(), symmetric_cases_max: 50, ..Options::default() };
    check_engine(&engine, None, &options)
}

#[test]
fn a_sound_engine_passes() {
    for only in ["aes-128-gcm", "aes-256-cbc+hmac-sha256", "sha256", "ed25519", "random"] {
        report(Break::Nothing, only).assert_clean();
    }
}

/// The fault, the suites that it is tried on, and the checks that notice it.
#[test]
fn every_fault_is_caught_by_the_check_meant_for_it() {
    for (fault, only, checks) in [
        (Break::FlipsABit, "aes-192-cbc", &["shapes", "batches", "vectors"][..]),
        (Break::FlipsABit, "aes-256-gcm-siv", &["shapes", "vectors"]),
        (Break::FlipsATagBit, "hmac-sha3-256", &["known answer", "vectors"]),
        (Break::FlipsATagBit, "blake3", &["known answer", "vectors"]),
        (Break::IgnoresTags, "chacha20-poly1305", &["damage", "vectors", "known answer"]),
        (Break::IgnoresTags, "ed25519", &["damage", "vectors", "known answer"]),
        (Break::WritesBehind, "aes-128-ctr", &["shapes", "guards"]),
        (Break::WritesInput, "aes-128-ecb", &["shapes"]),
        (Break::WritesInput, "sha512", &["shapes"]),
        (Break::LeavesPending, "rc4", &["shapes", "guards", "known answer"]),
        (Break::IgnoresStatus, "des-cbc", &["settled"]),
        (Break::KeepsPlaintext, "aes-128-ocb", &["damage"]),
        (Break::FailsNeighbours, "aes-256-ccm", &["damage"]),
        (Break::LosesCookies, "sha1", &["shapes"]),
        (Break::Panics, "blowfish-ecb", &["keys"]),
        (Break::TakesAnyKey, "aes-256-xts", &["keys"]),
        (Break::MixesKeys, "aes-192-cmac", &["batches", "vectors"]),
        (Break::StuckRandom, "random", &["rules", "known answer"]),
        (Break::ForgetsParts, "sha384", &["pieces"]),
        (Break::CopiesNothing, "blake3", &["pieces"]),
    ] {
        let report = report(fault, only);
        for check in checks {
            assert!(
                report.failed(check),
                "{fault:?} on {only} was not caught by `{check}`: {:?}",
                report.failures.first()
            );
        }
        assert!(report.failures.iter().all(|failure| !failure.what.is_empty()));
    }
}

#[test]
fn a_difference_is_seen_and_named() {
    // Half of the suites: public keys, which stand side by side, go through fewer operations than show the fault.
    const BATCHES: usize = 180;
    let sound = Reference::new();
    let broken = Broken { inner: Reference::new(), fault: Break::FlipsABit };
    let report = differential(&broken, &sound, 1, BATCHES);
    let failure = report.failures.first().expect("the flipped bits are seen");
    assert!(failure.to_string().contains("[differential] batch"), "{failure}");
    assert!(failure.what.contains("operation 7"), "{failure}");
    differential(&sound, &Reference::new(), 1, BATCHES).assert_clean();
}

#[test]
fn engines_that_accept_more_than_others_are_named() {
    let sound = Reference::new();
    let compare = |fault, only: &str| {
        let broken = Broken { inner: Reference::new(), fault };
        let options = Options { only: only.to_owned(), mutations_max: 20, ..Options::default() };
        acceptance(&[&sound, &broken], &options)
    };
    for (fault, only, check) in [
        (Break::TakesAnyKey, "aes-128-xts", "keys"),
        (Break::TakesAnyKey, "ed25519", "keys"),
        (Break::IgnoresTags, "aes-128-cbc+hmac-sha256", "operations"),
        (Break::IgnoresTags, "ecdsa-p256", "operations"),
    ] {
        assert!(compare(fault, only).failed(check), "{fault:?} on {only}");
    }
    compare(Break::Nothing, "aes-128-cbc+hmac-sha256").assert_clean();
}

#[test]
#[should_panic(expected = "nothing was checked")]
fn an_empty_run_is_not_a_pass() {
    let engine = Broken { inner: Reference::new(), fault: Break::Nothing };
    let mut report = check_engine(&engine, None, &Options { only: "sha1".to_owned(), ..Options::default() });
    report.failures.clear();
    report.ops = 0;
    report.assert_clean();
}
