//! The engine in the parent.

use core::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm,
    KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Result, Span, Suite,
};
use ciphermill_memory::SecretBytes;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::child::{Denied, Missing, OPENING, Process, Seat, code};
use super::wire::{self, Answer, Ask, Lost, Operation, Outcome, REQUEST_LEN, REQUEST_OPS};
use crate::inventory::{Inventory, OBJECTS_MAX};
use crate::kind::Kind;
use crate::token::{Host, Opening, TokenError};

/// What crossing to another process costs: a request, an operation and a byte, in nanoseconds. Measured figures take its place
/// (`ciphermill tune`).
const WAY: Cost = Cost::new(20_000.0, 500.0, 0.5);

/// A token whose module runs in processes of its own, one for each session.
pub(crate) struct HostedEngine {
    hosted: Arc<Hosted>,
    info: EngineInfo,
    capabilities: Vec<Capability>,
    takes_key_bytes: bool,
}

struct Hosted {
    opening: Opening,
    host: Host,
    seats: Box<[Seat]>,
    denied: Denied,
    next: AtomicUsize,
}

/// A key that processes hold. Its bytes are kept, in locked memory, so that others can have it.
struct HostedKey {
    hosted: Arc<Hosted>,
    /// Unique in this program.
    number: u64,
    suite: Suite,
    form: KeyForm,
    bytes: SecretBytes,
    /// What a key by reference is known again by, as the first process told it.
    known: OnceLock<Known>,
}

/// A public half, or the fingerprint of a secret key.
struct Known {
    half: Option<Vec<u8>>,
    fingerprint: Option<Zeroizing<Vec<u8>>>,
}

impl Known {
    fn is(&self, half: Option<&[u8]>, fingerprint: Option<&[u8]>) -> bool {
        let is_same = match (&self.fingerprint, fingerprint) {
            (Some(known), Some(told)) => bool::from(known.as_slice().ct_eq(told)),
            (None, None) => true,
            _ => false,
        };
        is_same && self.half.as_deref() == half
    }
}

impl HostedEngine {
    /// Starts the program and has it open the token.
    ///
    /// # Errors
    /// [`TokenError`].
    pub(crate) fn open(opening: Opening, host: Host) -> core::result::Result<HostedEngine, TokenError> {
        // Capabilities name suites that live as long as the program.
        static SUITES: OnceLock<Vec<Suite>> = OnceLock::new();
        let suites = SUITES.get_or_init(|| Suite::all().collect());
        let seats: Box<[Seat]> = (0..opening.sessions.max(1)).map(|_| Seat::default()).collect();
        let denied = Denied::default();
        let Some(first) = seats.first() else { return Err(TokenError::Call(cryptoki_sys::CKR_ARGUMENTS_BAD)) };
        let opened = first.open(&opening, &host, &denied)?;
        let info = EngineInfo {
            name: opening.name,
            kind: EngineKind::Token,
            version: opened.version,
            parallelism: seats.len(),
            kernels: Vec::new(),
        };
        let capabilities = opened.claims.iter().filter_map(|claim| claim.capability(suites, WAY)).collect();
        let hosted = Arc::new(Hosted { opening, host, seats, denied, next: AtomicUsize::new(0) });
        Ok(HostedEngine { hosted, info, capabilities, takes_key_bytes: opened.takes_key_bytes })
    }
}

impl HostedEngine {
    /// Ends the processes; operations fail from now on.
    pub(crate) fn close(&self) {
        self.hosted.denied.close();
        self.hosted.seats.iter().for_each(Seat::close);
    }

    /// What the token has.
    ///
    /// # Errors
    /// [`TokenError`] when its process does not answer, or a call fails.
    pub(crate) fn inventory(&self) -> core::result::Result<Inventory, TokenError> {
        let patience = self.hosted.opening.patience;
        let ask = |process: &mut Process| {
            process.allow(OPENING.max(patience))?;
            let bytes = process.ask(&Ask::List)?;
            process.allow(patience)?;
            match wire::read(&bytes)? {
                Answer::Listed(mut inventory) => {
                    inventory.keys.truncate(OBJECTS_MAX);
                    inventory.certificates.truncate(OBJECTS_MAX);
                    Ok(Ok(inventory))
                }
                Answer::NotListed(code) => Ok(Err(TokenError::Call(code))),
                _ => Err(Lost::Nonsense),
            }
        };
        let listed = match self.hosted.with(ask) {
            // A process that has died is found out by being asked: once more with a new one.
            Err(Missing::Lost) => self.hosted.with(ask),
            listed => listed,
        };
        listed.map_err(|missing| missing.error(&self.hosted.host))?
    }
}

impl Engine for HostedEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        if key.form != KeyForm::Reference {
            suite.check_key(key)?;
        }
        let bytes = SecretBytes::from_slice(key.bytes);
        let bytes = bytes.map_err(|_| Error::exhausted("locked memory", 0, key.bytes.len()))?;
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let hosted = Arc::clone(&self.hosted);
        let key = HostedKey { hosted, number, suite, form: key.form, bytes, known: OnceLock::new() };
        let made = match self.hosted.with(|process| key.at(process)) {
            // A process that has died is found out by being asked: once more with a new one.
            Err(Missing::Lost) => self.hosted.with(|process| key.at(process)),
            made => made,
        };
        match made {
            Ok(Ok(_)) => Ok(PreparedKey::for_suite(suite, key)),
            Ok(Err(error)) => Err(error),
            Err(missing) => Err(Error::fault(self.info.name, FaultKind::Call(code(&missing)))),
        }
    }

    fn public_half<'k>(&self, key: &'k PreparedKey, suite: Suite) -> Option<&'k [u8]> {
        key.state_for::<HostedKey>(suite.into())?.known.get()?.half.as_deref()
    }

    fn takes_key_bytes(&self) -> bool {
        self.takes_key_bytes
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.hosted.opening.patience)
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(HostedQueue { hosted: Arc::clone(&self.hosted) }))
    }
}

impl fmt::Debug for HostedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedEngine").field("token", &self.info.name).field("host", &self.hosted.host).finish()
    }
}

impl Hosted {
    /// Does something with one of the processes, one that nobody uses if there is any.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Process) -> core::result::Result<T, Lost>,
    ) -> core::result::Result<T, Missing> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let mut in_turn = (0..self.seats.len()).filter_map(|step| self.seats.get((turn + step) % self.seats.len()));
        let seat = in_turn.clone().find(|seat| seat.is_free()).or_else(|| in_turn.next()).ok_or(Missing::Lost)?;
        seat.with((&self.opening, &self.host, &self.denied), work)
    }
}

impl HostedKey {
    /// The key's number in a process, where it is prepared if it was not. The inner error is what the token says of the key.
    fn at(&self, process: &mut Process) -> core::result::Result<Result<u32>, Lost> {
        if let Some(key) = process.keys.get(&self.number) {
            return Ok(Ok(*key));
        }
        let ask = Ask::Prepare { suite: self.suite.ordinal() as u16, form: self.form.into(), bytes: &self.bytes };
        let bytes = process.ask(&ask)?;
        let (key, half, fingerprint) = match wire::read(&bytes)? {
            Answer::Prepared { key, half, fingerprint } => (key, half, fingerprint),
            Answer::NotPrepared(problem) => return Ok(Err(problem.error(self.hosted.opening.name, self.suite))),
            _ => return Err(Lost::Nonsense),
        };
        let tells = (half.is_some(), fingerprint.is_some());
        let is_secret = Kind::of(self.suite).is_some_and(Kind::is_secret);
        if self.form == KeyForm::Reference && tells != (!is_secret, is_secret) {
            // Nothing that it signs could be verified, or its key be known again.
            return Err(Lost::Nonsense);
        }
        let known = self.known.get_or_init(|| Known {
            half: half.map(<[u8]>::to_vec),
            fingerprint: fingerprint.map(|bytes| Zeroizing::new(bytes.to_vec())),
        });
        if !known.is(half, fingerprint) {
            // Another key has taken the name.
            process.tell(&Ask::Forget { key })?;
            return Ok(Err(Error::key(self.suite, KeyProblem::Parameters)));
        }
        process.keys.insert(self.number, key);
        Ok(Ok(key))
    }
}

impl Drop for HostedKey {
    fn drop(&mut self) {
        self.hosted.seats.iter().for_each(|seat| seat.forget(self.number));
    }
}

struct HostedQueue {
    hosted: Arc<Hosted>,
}

impl EngineQueue for HostedQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        let (ops, arena, keys) = batch.parts();
        let mut at = 0;
        while at < ops.len() {
            let end = at + stretch(&ops[at..]);
            let key_of = |index: usize| keys.get(index).copied().flatten()?.state_for::<HostedKey>(suite.into());
            let asked: Vec<(usize, Option<&HostedKey>)> =
                (at..end).filter(|index| ops[*index].status.is_pending()).map(|index| (index, key_of(index))).collect();
            at = end;
            let ran = self
                .hosted
                .with(|process| run(process, self.hosted.opening.patience, (suite, direction), (ops, arena), &asked));
            if ran.is_err() {
                // The process has gone, or the token. What it answered before stays.
                break;
            }
        }
        batch.replace_status(OpStatus::is_pending, OpStatus::EngineFault);
    }
}

/// Operations from the first on that go in one request.
fn stretch(ops: &[Op]) -> usize {
    let mut bytes = 0;
    let of =
        |op: &Op| op.input.len as usize + usize::from(op.aad.len) + usize::from(op.tag_len) + op.output_len as usize;
    let fit = ops.iter().take(REQUEST_OPS).take_while(|op| {
        bytes += of(op);
        bytes <= REQUEST_LEN
    });
    fit.count().max(1)
}

/// Runs operations in a process; those whose key it cannot have fail.
fn run(
    process: &mut Process,
    patience: Duration,
    (suite, direction): (Suite, Direction),
    (ops, arena): (&mut [Op], &mut [u8]),
    asked: &[(usize, Option<&HostedKey>)],
) -> core::result::Result<(), Lost> {
    let mut sent = Vec::with_capacity(asked.len());
    let mut operations = Vec::with_capacity(asked.len());
    for (index, key) in asked {
        let key = match key {
            Some(key) => match key.at(process)? {
                Ok(number) => Some(number),
                Err(_) => continue,
            },
            None if suite.needs_key() => continue,
            None => None,
        };
        let op = &ops[*index];
        let place = |span: Span| arena.get(span.range()).unwrap_or_default();
        sent.push(*index);
        operations.push(Operation {
            key,
            iv: op.iv,
            iv_len: op.iv_len,
            input: place(op.input),
            aad: place(op.aad.span()),
            tag: place(op.tag_span()),
            output_len: op.output_len,
        });
    }
    if operations.is_empty() {
        return Ok(());
    }
    let time = patience.saturating_mul(u32::try_from(operations.len()).unwrap_or(u32::MAX));
    let ask = Ask::Run { suite: suite.ordinal() as u16, encrypts: direction == Direction::Encrypt, operations };
    process.allow(time)?;
    let bytes = process.ask(&ask)?;
    process.allow(patience)?;
    drop(ask);
    let Answer::Ran(outcomes) = wire::read(&bytes)? else { return Err(Lost::Nonsense) };
    if outcomes.len() != sent.len() {
        return Err(Lost::Nonsense);
    }
    for (index, outcome) in sent.into_iter().zip(&outcomes) {
        write_back((suite, direction), &mut ops[index], arena, outcome);
    }
    Ok(())
}

/// Writes what came back where it belongs. An outcome that does not fit there is none.
fn write_back((suite, direction): (Suite, Direction), op: &mut Op, arena: &mut [u8], outcome: &Outcome<'_>) {
    let room = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
    let status = OpStatus::from(outcome.status);
    let signs = direction == Direction::Encrypt;
    let fits = outcome.output.len() <= room && outcome.tag.len() <= usize::from(op.tag_len);
    let start = op.output as usize;
    let Some(output) = arena.get_mut(start..start + room).filter(|_| fits) else {
        op.status = OpStatus::EngineFault;
        return;
    };
    output.fill(0);
    op.status = status;
    if !status.is_done() {
        op.output_len = 0;
        return;
    }
    output[..outcome.output.len()].copy_from_slice(outcome.output);
    op.output_len = outcome.output.len() as u32;
    if signs {
        let start = op.tag as usize;
        arena[start..start + outcome.tag.len()].copy_from_slice(outcome.tag);
        op.tag_len = outcome.tag.len() as u16;
    }
}
