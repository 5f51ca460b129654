//! Threads that take requests from the desk, run them on the mill, and answer.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use ciphermill::{Mill, RunOptions, Session};
use ciphermill_channel::{Corrupt, Outcome, REQUEST_NS_MAX, Request, Spin, get_ops, write_results};
use ciphermill_contract::{Batch, Direction, Op, OpStatus, Reason, Suite};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use tracing::Level;
use tracing::span::EnteredSpan;
use zeroize::Zeroize as _;

use crate::columns::{Asked, Columns};
use crate::desk::{Desk, Next, Part, Rest};
use crate::keys::{Found, UNKNOWN};
use crate::offers::Offers;
use crate::{pools, turns};

/// The target of spans.
const SPANS: &str = "ciphermill::request";

/// What the nudge has as its name among bells.
const NUDGE: u64 = 0;

/// Looks at the desk between two looks at the bells.
const LOOKS: u32 = 64;

/// For so long at most nobody looks at the bells while there is always something to run: who rings then is new, and waits.
const DEAF_MAX: Duration = Duration::from_micros(100);

/// Bytes of memory that a worker keeps while it sleeps.
const KEPT: usize = 1 << 20;

/// Requests of a client begin at multiples of so many bytes in a worker's arena.
const ALIGN: usize = 64;

/// What all workers share.
pub(crate) struct Shop {
    pub(crate) mill: Mill,
    pub(crate) desk: Desk,
    offers: RwLock<Arc<Offers>>,
    bells: OwnedFd,
    nudge: OwnedFd,
    spin: Duration,
    asleep: AtomicUsize,
    /// How often offers were renewed.
    renewed: AtomicUsize,
    ends: AtomicBool,
    /// The cores of its workers; none for any.
    pub(crate) cores: Vec<usize>,
    /// Those of other pools.
    siblings: OnceLock<Vec<Weak<Shop>>>,
}

impl Shop {
    pub(crate) fn new(mill: Mill, desk: Desk, spin: Duration, cores: Vec<usize>) -> std::io::Result<Shop> {
        let bells = epoll::create(CreateFlags::CLOEXEC)?;
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // By their edges: nobody has to read what a client could have made block.
        epoll::add(&bells, &nudge, EventData::new_u64(NUDGE), EventFlags::IN | EventFlags::ET)?;
        let offers = RwLock::new(Arc::new(Offers::of(&mill)));
        Ok(Shop {
            mill,
            desk,
            offers,
            bells,
            nudge,
            spin,
            asleep: AtomicUsize::new(0),
            renewed: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
            cores,
            siblings: OnceLock::new(),
        })
    }

    /// Has shops know each other: a user whose clients are at several has one account.
    pub(crate) fn introduce(shops: &[Arc<Shop>]) {
        for shop in shops {
            let others = shops.iter().filter(|other| !Arc::ptr_eq(shop, other));
            // Once: nobody else does.
            let _ = shop.siblings.set(others.map(Arc::downgrade).collect());
        }
    }

    /// Wakes workers of other pools, whose clients may wait for what a user of theirs has in flight here.
    fn nudge_siblings(&self) {
        let siblings = self.siblings.get().into_iter().flatten();
        siblings.filter_map(Weak::upgrade).for_each(|shop| shop.nudge());
    }

    /// What the mill runs, as far as it was asked.
    pub(crate) fn offers(&self) -> Arc<Offers> {
        Arc::clone(&self.offers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the mill again what it runs.
    pub(crate) fn renew_offers(&self) {
        let offers = Arc::new(Offers::of(&self.mill));
        *self.offers.write().unwrap_or_else(PoisonError::into_inner) = offers;
        self.renewed.fetch_add(1, Ordering::Release);
    }

    /// Has a channel's bell waited for.
    pub(crate) fn add_bell(&self, bell: impl rustix::fd::AsFd, id: u64) -> std::io::Result<()> {
        Ok(epoll::add(&self.bells, bell, EventData::new_u64(id), EventFlags::IN | EventFlags::ET)?)
    }

    /// Lets a channel and its bell go. The client has the descriptor too, so that closing it here would not do.
    pub(crate) fn remove(&self, id: u64, bell: impl rustix::fd::AsFd) {
        let others_wait = self.desk.remove(id);
        let _ = epoll::delete(&self.bells, bell);
        if others_wait {
            self.nudge();
        }
        self.nudge_siblings();
    }

    /// Wakes a worker, if one sleeps.
    pub(crate) fn nudge(&self) {
        if self.asleep.load(Ordering::SeqCst) == 0 {
            return;
        }
        // Fails only when the counter is full, which means that the nudge was given.
        let _ = rustix::io::write(&self.nudge, &1u64.to_ne_bytes());
    }

    /// Has all workers end.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::SeqCst);
        self.nudge();
    }

    /// Looks who has rung; waits for somebody for so long at most, without a time for as long as it takes.
    fn hear(&self, at_most: Option<Duration>) {
        let mut events = [const { core::mem::MaybeUninit::uninit() }; 64];
        // A time that a Timespec does not hold is none.
        let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
        let Ok((events, _)) = epoll::wait(&self.bells, &mut events, at_most.as_ref()) else {
            return;
        };
        for event in events.iter() {
            match event.data.u64() {
                NUDGE => {}
                id => self.desk.rung(id),
            }
        }
    }
}

/// A worker, with memory of its own.
pub(crate) struct Worker {
    shop: Arc<Shop>,
    session: Session,
    offers: Arc<Offers>,
    ops: Vec<Op>,
    arena: Vec<u8>,
    /// Bytes of the arena that requests have now, and …
    used: usize,
    /// … those that may hold clients' data.
    dirty: usize,
    /// Operations that name a key for another suite.
    misfits: Vec<usize>,
    columns: Columns,
    /// Which of the requests that it is at know their outcome.
    told: Vec<bool>,
}

impl Worker {
    pub(crate) fn new(shop: Arc<Shop>) -> Worker {
        let (session, offers) = (shop.mill.session(), shop.offers());
        Worker {
            shop,
            session,
            offers,
            ops: Vec::new(),
            arena: Vec::new(),
            used: 0,
            dirty: 0,
            misfits: Vec::new(),
            columns: Columns::default(),
            told: Vec::new(),
        }
    }

    /// Works until the service ends.
    pub(crate) fn run(mut self) {
        pools::stay_on(&self.shop.cores);
        if let Err(error) = turns::shorten() {
            tracing::debug!("workers have turns of the usual length: {error}");
        }
        let shop = Arc::clone(&self.shop);
        shop.desk.begin_watch();
        let mut idle_since: Option<Instant> = None;
        let mut spin = Spin::new();
        // How long it looks this time.
        let mut time = Duration::ZERO;
        let mut looks = 0u32;
        let mut renewed = shop.renewed.load(Ordering::Acquire);
        self.offers = shop.offers();
        let mut heard = Instant::now();
        while !shop.ends.load(Ordering::Relaxed) {
            if shop.renewed.load(Ordering::Relaxed) != renewed {
                renewed = shop.renewed.load(Ordering::Acquire);
                self.offers = shop.offers();
            }
            let now = Instant::now();
            match shop.desk.next(&self.offers, now) {
                Next::Run { parts, long, more, crowded, alone } => {
                    if more {
                        shop.nudge();
                    }
                    parts.iter().for_each(|part| part.channel.channel.set_crowded(crowded));
                    self.answer_or_fail(&parts, now, alone);
                    if long {
                        shop.desk.begin_watch();
                    }
                    if long || now - heard >= DEAF_MAX {
                        shop.hear(Some(Duration::ZERO));
                        heard = now;
                    }
                    if idle_since.take().is_some_and(|_| !time.is_zero()) {
                        spin.paid();
                    }
                    continue;
                }
                // The others' threads may need this core.
                Next::Soon => std::thread::yield_now(),
                Next::Nothing { all_ring } => {
                    // So it is behind a long request, whose client asks again at once.
                    if all_ring {
                        looks = LOOKS - 1;
                    }
                    let since = *idle_since.get_or_insert_with(|| {
                        time = spin.time(shop.spin);
                        now
                    });
                    // One that looks is enough.
                    let late = now - since >= time;
                    if late || shop.desk.watchers() > 1 {
                        if late && !time.is_zero() {
                            spin.did_not_pay();
                        }
                        self.sleep();
                        idle_since = None;
                    }
                    core::hint::spin_loop();
                }
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                shop.hear(Some(Duration::ZERO));
            }
        }
        // The others sleep on the same nudge, whose edge wakes one at a time.
        shop.nudge();
        self.wipe();
    }

    /// Sleeps until somebody rings or what was held back is due, unless somebody has asked meanwhile.
    fn sleep(&mut self) {
        self.wipe();
        self.shop.asleep.fetch_add(1, Ordering::SeqCst);
        // Counted before it looks for the last time: who ends the service sees it, or it sees the end.
        if let Rest::Sleeps { at_most } = self.shop.desk.end_watch(Instant::now()) {
            if !self.shop.ends.load(Ordering::SeqCst) {
                self.shop.hear(at_most);
            }
            self.shop.desk.begin_watch();
        }
        self.shop.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Answers requests. A panic costs these alone: a worker that was gone would be missed by all clients.
    fn answer_or_fail(&mut self, parts: &[Part], begun: Instant, alone: bool) {
        if catch_unwind(AssertUnwindSafe(|| self.answer(parts, begun, alone))).is_ok() {
            return;
        }
        tracing::error!(requests = parts.len(), "a worker panicked; its requests have failed");
        // Each is told once: a client that knows may have put another request into the place.
        let untold = parts.iter().zip(&self.told).filter(|(_, told)| !**told);
        untold.for_each(|(part, _)| part.channel.channel.complete(part.number, Outcome::Fault));
        self.wipe();
        self.session = self.shop.mill.session();
        self.done(parts);
    }

    fn done(&self, parts: &[Part]) {
        if self.shop.desk.done(parts) {
            self.shop.nudge_siblings();
        }
    }

    /// Runs requests of one suite and direction and tells their clients. Over several cores, if nobody else needs one: the mill's own threads
    /// would take them from workers and clients.
    fn answer(&mut self, parts: &[Part], begun: Instant, alone: bool) {
        let Some(first) = parts.first() else { return };
        let (suite, direction) = (first.request.suite, first.request.direction);
        let _span = tracing::enabled!(target: SPANS, Level::TRACE).then(|| span(parts));
        self.told.clear();
        self.told.resize(parts.len(), false);
        let options = RunOptions { splits: alone, ..RunOptions::default() };
        for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.request.columns) {
            let outcome = self.run_columns(part, &options);
            self.told[index] = true;
            part.channel.channel.complete(part.number, outcome);
        }
        let places = self.gather(parts, suite, direction);
        if !self.ops.is_empty() {
            let batch = Batch::new(suite, direction, &mut self.ops, &mut self.arena[..self.used]);
            let outcome = match self.session.run_with(batch, &options) {
                Ok(_) => {
                    self.name_misfits();
                    Outcome::Ran
                }
                Err(error) => Outcome::of_error(&error),
            };
            self.scatter(parts, &places, outcome);
        }
        let all: u32 = parts.iter().map(|part| part.request.ops).sum();
        let busy = begun.elapsed().as_nanos() as u64;
        for part in parts {
            let counts = &part.channel.client.counts;
            let ops = u64::from(part.request.ops);
            counts.requests.fetch_add(1, Ordering::Relaxed);
            counts.ops.fetch_add(ops, Ordering::Relaxed);
            counts.bytes.fetch_add(part.request.data_len.into(), Ordering::Relaxed);
            counts.shared.fetch_add((parts.len() > 1).into(), Ordering::Relaxed);
            counts.busy_ns.fetch_add(busy * ops / u64::from(all), Ordering::Relaxed);
        }
        self.done(parts);
    }

    /// Runs a request whose data are columns. They are not joined: there are many operations of them, or a client's loss is its own.
    fn run_columns(&mut self, part: &Part, options: &RunOptions<'_>) -> Outcome {
        let (channel, request) = (&part.channel.channel, &part.request);
        let Ok(asked) = Asked::of(channel, request) else { return Outcome::Fault };
        if self.takes_too_long(request, asked.bytes_read(request)) {
            return Outcome::Exhausted;
        }
        let copied = asked.places.copied;
        self.used = 0;
        if self.arena.len() < asked.places.len {
            self.grow(asked.places.len);
        }
        self.dirty = self.dirty.max(asked.places.len);
        let arena = &mut self.arena[..asked.places.len];
        let is_copied = channel.memory().read(request.data_at as usize, &mut arena[..copied]);
        if !is_copied || self.columns.take(&asked, channel, request, arena).is_err() {
            return Outcome::Fault;
        }
        self.columns.name_keys(&asked, &part.channel.client.keys(), request);
        match self.session.run_columns_with(self.columns.batch(&asked, request, arena), options) {
            Ok(_) if self.columns.give(&asked, channel, request, arena) => Outcome::Ran,
            Ok(_) => Outcome::Fault,
            Err(error) => Outcome::of_error(&error),
        }
    }

    /// Copies requests from their clients' memory into this worker's. Where each went: `None` for those that were answered before,
    /// or at once, since they break a rule.
    fn gather(&mut self, parts: &[Part], suite: Suite, direction: Direction) -> Vec<Option<Place>> {
        self.ops.clear();
        self.misfits.clear();
        self.used = 0;
        let alone = parts.len() == 1;
        let mut places = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            if self.told[index] {
                places.push(None);
                continue;
            }
            let place = Place { op: self.ops.len(), at: self.used.next_multiple_of(ALIGN) };
            let copied = self.copy_in(part, place);
            // Whose operations go with those of others must not spoil them. The mill checks a request that is alone.
            let checked = copied.map_err(|_| Outcome::Fault).and_then(|()| {
                if self.takes_too_long(&part.request, bytes_read(&part.request, &self.ops[place.op..])) {
                    return Err(Outcome::Exhausted);
                }
                if alone {
                    return Ok(());
                }
                let (ops, arena) = (&mut self.ops[place.op..], &mut self.arena[place.at..self.used]);
                Batch::new(suite, direction, ops, arena).check().map(|_| ()).map_err(|error| Outcome::of_error(&error))
            });
            match checked {
                Ok(()) => {
                    self.shift(place);
                    places.push(Some(place));
                }
                Err(outcome) => {
                    self.ops.truncate(place.op);
                    self.misfits.retain(|index| *index < place.op);
                    self.used = place.at.min(self.arena.len());
                    self.told[index] = true;
                    part.channel.channel.complete(part.number, outcome);
                    places.push(None);
                }
            }
        }
        places
    }

    /// Whether operations that read the same bytes, so that their request is shorter than their work, keep a worker for longer than the
    /// desk could tell.
    fn takes_too_long(&self, request: &Request, bytes: u64) -> bool {
        let Request { suite, direction, ops, data_len, .. } = *request;
        let known = || self.offers.get(suite, direction);
        ops > 1
            && bytes > u64::from(data_len)
            && known().is_some_and(|known| known.time(ops.into(), bytes).ns > REQUEST_NS_MAX)
    }

    fn copy_in(&mut self, part: &Part, place: Place) -> Result<(), Corrupt> {
        let request = &part.request;
        let memory = part.channel.channel.memory();
        get_ops(memory, request.ops_at as usize, request.ops as usize, &mut self.ops)?;
        let end = place.at + request.data_len as usize;
        if self.arena.len() < end {
            self.grow(end);
        }
        let outside = Corrupt { place: "the request's arena", rule: "must lie within the channel's data" };
        if !memory.read(request.data_at as usize, &mut self.arena[place.at..end]) {
            return Err(outside);
        }
        self.used = end;
        self.dirty = self.dirty.max(end);
        let (keys, suite) = (part.channel.client.keys(), request.suite.into());
        for (index, op) in self.ops.iter_mut().enumerate().skip(place.op) {
            op.key = match keys.find(op.key, suite) {
                Found::Key(id) => id,
                Found::OtherSuite => {
                    self.misfits.push(index);
                    UNKNOWN
                }
            };
        }
        Ok(())
    }

    /// A larger arena; the one before is wiped.
    fn grow(&mut self, len: usize) {
        let mut arena = vec![0; len.next_power_of_two()];
        arena[..self.used].copy_from_slice(&self.arena[..self.used]);
        self.arena.zeroize();
        self.arena = arena;
    }

    /// Has operations that were checked count from the start of the arena of all. Sums fit: what a worker holds is far below 4 GB.
    fn shift(&mut self, place: Place) {
        let by = place.at as u32;
        if by == 0 {
            return;
        }
        for op in &mut self.ops[place.op..] {
            op.input.offset += by;
            op.output += by;
            op.tag += by;
            op.aad.offset += by;
        }
    }

    /// Says of operations whose key is for another suite why they were refused.
    fn name_misfits(&mut self) {
        for index in self.misfits.drain(..) {
            let status = &mut self.ops[index].status;
            if *status == OpStatus::Refused(Reason::KeyUnknown) {
                *status = OpStatus::Refused(Reason::KeySuite);
            }
        }
    }

    /// Copies results into the clients' memory and completes their requests.
    fn scatter(&mut self, parts: &[Part], places: &[Option<Place>], outcome: Outcome) {
        for (index, (part, place)) in parts.iter().zip(places).enumerate() {
            let Some(place) = place else { continue };
            let request = &part.request;
            let channel = &part.channel.channel;
            let mut own = outcome;
            if outcome == Outcome::Ran {
                let ops = &self.ops[place.op..place.op + request.ops as usize];
                let written = written(request, *place, ops);
                let to = request.data_at as usize + (written.start - place.at);
                let written = channel.memory().write(to, &self.arena[written])
                    && write_results(channel.memory(), request.ops_at as usize, ops).is_ok();
                if !written {
                    own = Outcome::Fault;
                }
            } else if parts.len() > 1
                && let Outcome::Misuse(_) = outcome
            {
                // Each passed its own check: what breaks a rule now is none of theirs.
                own = Outcome::Fault;
            }
            self.told[index] = true;
            channel.complete(part.number, own);
        }
    }

    /// Leaves nothing of clients behind. A large arena is given back.
    fn wipe(&mut self) {
        self.ops.clear();
        self.used = 0;
        self.arena[..self.dirty].zeroize();
        self.dirty = 0;
        if self.arena.len() > KEPT {
            self.arena = Vec::new();
        }
    }
}

/// Bytes of input and additional data of operations, those aside that cannot lie in their request.
fn bytes_read(request: &Request, ops: &[Op]) -> u64 {
    let within = |len: u32| if len <= request.data_len { u64::from(len) } else { 0 };
    ops.iter().map(|op| within(op.input.len) + within(op.aad.len.into())).sum()
}

/// A span around requests that are answered together; that of their batch on an engine is within.
#[cold]
fn span(parts: &[Part]) -> EnteredSpan {
    let clients: Vec<u64> = parts.iter().map(|part| part.channel.client.id).collect();
    let sum = |of: fn(&Request) -> u32| parts.iter().map(|part| u64::from(of(&part.request))).sum::<u64>();
    tracing::trace_span!(
        target: SPANS,
        "requests",
        suite = parts.first().map(|part| tracing::field::display(part.request.suite)),
        requests = parts.len(),
        ops = sum(|request| request.ops),
        bytes = sum(|request| request.data_len),
        ?clients,
    )
    .entered()
}

/// What a request's operations have written, in the worker's arena: digests and MACs nothing but their tags.
fn written(request: &Request, place: Place, ops: &[Op]) -> Range<usize> {
    let all = place.at..place.at + request.data_len as usize;
    if !matches!(request.suite, Suite::Digest(_) | Suite::Mac(_)) {
        return all;
    }
    let tags = ops.iter().map(|op| op.tag as usize..op.tag as usize + usize::from(op.tag_len));
    let both = tags.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    // They lie within: the operations were checked.
    both.filter(|tags| tags.start >= all.start && tags.end <= all.end).unwrap_or(all)
}

/// Where a request's operations and data went.
#[derive(Clone, Copy)]
struct Place {
    op: usize,
    at: usize,
}
