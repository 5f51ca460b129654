//! Clients of a real service, which the simulation is compared with: each does one thing at a time.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ciphermill::Mill;
use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyForm, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span,
    Suite,
};
use ciphermill_lab::random::Random;
use ciphermill_service_engine::{Opening, ServiceEngine};
use zeroize::Zeroizing;

/// A key in the contract's form.
type Key = (KeyForm, Zeroizing<Vec<u8>>);

/// Requests of one form, with their data: one key for all operations.
#[derive(Clone)]
pub(super) struct Request {
    suite: Suite,
    ops: Vec<Op>,
    arena: Vec<u8>,
    key: Option<Key>,
}

impl Request {
    /// `count` operations of `len` bytes each, or of what the suite takes.
    pub(super) fn new(suite: Suite, count: usize, len: usize, mill: &Mill) -> anyhow::Result<Request> {
        let direction = Direction::Encrypt;
        let lengths = suite.input_len(direction);
        let len = lengths.round_up(len).min(lengths.max);
        let pair = suite.key_pair().map(|pair| mill.generate_pair(pair)).transpose()?;
        let key: Option<Key> = match &pair {
            Some(pair) => Some((KeyForm::Private, Zeroizing::new(pair.private().bytes.to_vec()))),
            None if suite.needs_key() => Some((KeyForm::Secret, Zeroizing::new(vec![7; suite.default_key_len()]))),
            None => None,
        };
        let mut request = Request { suite, ops: Vec::new(), arena: Vec::new(), key };
        let named = if request.key.is_some() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
        for index in 0..count {
            let input = request.place(len);
            let mut op = Op::in_place(named, input).with_iv(&vec![index as u8; suite.default_iv_len()]);
            if !suite.transforms() {
                op = op.with_output(request.place(suite.output_len(direction, len, 0)).offset);
            }
            let tag = request.place(suite.default_tag_len());
            if let (Suite::Agree(_), Some(pair)) = (suite, &pair) {
                let public = pair.public().get(..len).context("a public value of the suite's length")?;
                request.arena[input.range()].copy_from_slice(public);
            }
            request.ops.push(op.with_tag(tag.offset, tag.len as u16));
        }
        Ok(request)
    }

    fn place(&mut self, len: usize) -> Span {
        let at = self.arena.len().next_multiple_of(16);
        self.arena.resize(at + len, 0x5a);
        Span::new(at as u32, len as u32)
    }
}

/// A client with its own connection.
pub(super) struct Client {
    queue: Box<dyn EngineQueue>,
    works: Vec<(Request, Option<PreparedKey>)>,
    // Held as long as its queue.
    _engine: Arc<dyn Engine>,
}

impl Client {
    pub(super) fn connect(socket: &Path, requests: &[Request]) -> anyhow::Result<Client> {
        let engine: Arc<dyn Engine> = Arc::new(ServiceEngine::open(&Opening::at(socket))?);
        let prepare = |request: &Request| -> anyhow::Result<(Request, Option<PreparedKey>)> {
            let material = request.key.as_ref().map(|(form, bytes)| KeyMaterial { form: *form, bytes });
            let key = material.map(|material| engine.prepare(&material, request.suite)).transpose()?;
            Ok((request.clone(), key))
        };
        let works = requests.iter().map(prepare).collect::<anyhow::Result<_>>()?;
        Ok(Client { queue: engine.queue(QueueHint::default())?, works, _engine: engine })
    }

    /// Has a request answered; what became of it is looked at.
    fn ask(&mut self, work: usize) -> anyhow::Result<()> {
        let (Request { suite, ops, arena, .. }, key) = &mut self.works[work];
        ops.iter_mut().for_each(|op| op.status = OpStatus::Pending);
        let keys = vec![key.as_ref(); ops.len()];
        let mut checked = Batch::new(*suite, Direction::Encrypt, ops, arena).check()?;
        self.queue.run(&mut checked.attach_keys(&keys)?);
        if let Some(failed) = ops.iter().find(|op| !op.status.is_done()) {
            bail!("{suite}: the service answered {:?}", failed.status);
        }
        Ok(())
    }

    /// Asks again and again, by shares, from the beginning of `counted` on for as long as it says. Nanoseconds of each request that ended in
    /// that time.
    pub(super) fn ask_for(
        &mut self,
        shares: &[f64],
        (counted_from, counted): (Instant, Duration),
        seed: u64,
    ) -> anyhow::Result<Vec<u64>> {
        let (mut random, mut times) = (Random::new(seed), Vec::new());
        let all: f64 = shares.iter().sum();
        loop {
            let mut drawn = random.uniform() * all;
            let work = shares.iter().position(|share| {
                drawn -= share;
                drawn < 0.0
            });
            let begun = Instant::now();
            self.ask(work.unwrap_or(shares.len() - 1))?;
            let now = Instant::now();
            if now > counted_from + counted {
                return Ok(times);
            }
            if now >= counted_from {
                times.push((now - begun).as_nanos() as u64);
            }
        }
    }
}
