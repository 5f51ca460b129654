//! The process with the module: opens one token, and runs what its parent asks until that hangs up.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use zeroize::Zeroizing;

use super::wire::{self, Answer, Ask, Claim, Lost, Operation, Outcome, Problem, Refused};
use crate::engine::TokenEngine;
use crate::token::TokenError;

/// Serves the token that the other side of standard input asks for, until it hangs up. All descriptors but the standard ones are closed first:
/// call it before anything is opened.
///
/// # Errors
/// Words for whoever started this program by hand: it is started by [`crate::open`] alone.
pub fn serve() -> Result<(), String> {
    // What the program that started this one has open is nothing for a vendor's library. Where the system cannot do that, it stays so.
    // SAFETY: nothing of this program has a descriptor of these yet.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    // The PIN comes over the socket, and copies of keys.
    ciphermill_memory::protect_process().map_err(|error| format!("this process cannot be protected: {error}"))?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    match serve_on(UnixStream::from(socket)) {
        Ok(()) => Ok(()),
        Err(Lost::Gone) => {
            Err("standard input is no socket whose other side speaks: a program that uses tokens starts this one"
                .to_owned())
        }
        Err(Lost::Nonsense) => {
            Err("standard input has said what this program does not understand: both have to be of the same version"
                .to_owned())
        }
    }
}

fn serve_on(mut socket: UnixStream) -> Result<(), Lost> {
    let first = wire::receive(&mut socket)?;
    let opening = wire::opening(&wire::read::<Ask<'_>>(&first)?).ok_or(Lost::Nonsense)?;
    drop(first);
    let engine = match TokenEngine::open(opening) {
        Ok(engine) => engine,
        Err(error) => {
            let refused = match &error {
                TokenError::Module(words) => Refused::Module(words),
                TokenError::Call(code) => Refused::Call(*code),
            };
            return tell(&socket, &Answer::NotOpened(refused));
        }
    };
    let claims = Claim::of(engine.capabilities());
    let (version, takes_key_bytes) = (engine.info().version.as_str(), engine.takes_key_bytes());
    tell(&socket, &Answer::Opened { version, takes_key_bytes, claims })?;
    let Ok(queue) = engine.queue(QueueHint::default()) else { return Ok(()) };
    let mut host = Host { engine: &engine, queue, keys: Vec::new() };
    loop {
        let bytes = match wire::receive(&mut socket) {
            Ok(bytes) => bytes,
            Err(Lost::Gone) => return Ok(()),
            Err(lost) => return Err(lost),
        };
        match wire::read(&bytes)? {
            Ask::Open { .. } => return Err(Lost::Nonsense),
            Ask::List => {
                let answer = match engine.inventory() {
                    Ok(inventory) => Answer::Listed(inventory),
                    Err(TokenError::Call(code)) => Answer::NotListed(code),
                    Err(TokenError::Module(_)) => return Err(Lost::Nonsense),
                };
                tell(&socket, &answer)?;
            }
            Ask::Forget { key } => host.forget(key),
            Ask::Prepare { suite, form, bytes } => {
                let key = KeyMaterial { form: form.into(), bytes };
                host.prepare(&socket, suite_of(suite)?, &key)?;
            }
            Ask::Run { suite, encrypts, operations } => {
                let direction = if encrypts { Direction::Encrypt } else { Direction::Decrypt };
                host.run(&socket, suite_of(suite)?, direction, &operations)?;
            }
        }
    }
}

fn tell(socket: &UnixStream, answer: &Answer<'_>) -> Result<(), Lost> {
    wire::send(socket, answer, answer.len_max())
}

fn suite_of(ordinal: u16) -> Result<Suite, Lost> {
    Suite::of_ordinal(ordinal.into()).ok_or(Lost::Nonsense)
}

struct Host<'e> {
    engine: &'e TokenEngine,
    queue: Box<dyn EngineQueue>,
    /// By the number that the parent knows them by.
    keys: Vec<Option<PreparedKey>>,
}

impl Host<'_> {
    fn prepare(&mut self, socket: &UnixStream, suite: Suite, key: &KeyMaterial<'_>) -> Result<(), Lost> {
        let prepared = match self.engine.prepare(key, suite) {
            Ok(prepared) => prepared,
            Err(error) => return tell(socket, &Answer::NotPrepared(Problem::of(&error))),
        };
        let at = self.keys.iter().position(Option::is_none).unwrap_or(self.keys.len());
        let half = self.engine.public_half(&prepared, suite);
        let fingerprint = self.engine.fingerprint(&prepared, suite);
        tell(socket, &Answer::Prepared { key: at as u32, half, fingerprint })?;
        if at == self.keys.len() {
            self.keys.push(None);
        }
        if let Some(place) = self.keys.get_mut(at) {
            *place = Some(prepared);
        }
        Ok(())
    }

    fn forget(&mut self, key: u32) {
        if let Some(place) = self.keys.get_mut(key as usize) {
            *place = None;
        }
    }

    fn run(
        &mut self,
        socket: &UnixStream,
        suite: Suite,
        direction: Direction,
        operations: &[Operation<'_>],
    ) -> Result<(), Lost> {
        let (mut ops, mut arena) = lay_out(suite, direction, operations);
        let key_of = |operation: &Operation<'_>| self.keys.get(operation.key? as usize)?.as_ref();
        let keys: Vec<Option<&PreparedKey>> = operations.iter().map(key_of).collect();
        let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().map_err(|_| Lost::Nonsense)?;
        if suite.needs_key() {
            let lacking = keys.iter().enumerate().filter(|(_, key)| key.is_none());
            lacking.for_each(|(index, _)| batch.set_status(index, OpStatus::EngineFault));
        }
        self.queue.run(&mut batch.attach_keys(&keys).map_err(|_| Lost::Nonsense)?);
        let outcome = |op: &Op| Outcome {
            status: op.status.into(),
            output: arena.get(Span::new(op.output, op.output_len).range()).unwrap_or_default(),
            tag: arena.get(op.tag_span().range()).unwrap_or_default(),
        };
        tell(socket, &Answer::Ran(ops.iter().map(outcome).collect()))
    }
}

/// Operations in an arena of their own, one behind the other.
fn lay_out(suite: Suite, direction: Direction, operations: &[Operation<'_>]) -> (Vec<Op>, Zeroizing<Vec<u8>>) {
    let mut places = Vec::with_capacity(operations.len());
    let mut len = 0;
    let mut place = |bytes: usize| {
        let at = len;
        len += bytes;
        at as u32
    };
    for one in operations {
        let output_len = suite.output_len(direction, one.input.len(), one.output_len as usize);
        let input = place(if suite.transforms() { one.input.len().max(output_len) } else { one.input.len() });
        let output = if suite.transforms() { input } else { place(output_len) };
        places.push((input, output, place(one.aad.len()), place(one.tag.len())));
    }
    let mut arena = Zeroizing::new(vec![0; len]);
    let op = |(one, (input, output, aad, tag)): (&Operation<'_>, (u32, u32, u32, u32))| {
        for (at, bytes) in [(input, one.input), (aad, one.aad), (tag, one.tag)] {
            arena[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        // What a key is called here matters to nobody: keys are attached.
        let key = if suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
        let op = Op::in_place(key, Span::new(input, one.input.len() as u32)).with_output(output);
        let op = op.with_tag(tag, one.tag.len() as u16).with_aad(aad, one.aad.len() as u16);
        Op { iv: one.iv, iv_len: one.iv_len, output_len: one.output_len, ..op }
    };
    let ops = operations.iter().zip(places).map(op).collect();
    (ops, arena)
}
