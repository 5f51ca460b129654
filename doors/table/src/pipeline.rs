//! How a table goes through several threads: a feed makes items, strands work on them, and a drain takes what they have
//! made, in order.
//!
//! A strand is worked on by one thread at a time and sees its items in their order, so that what it remembers, and with it
//! the result, does not depend on how many threads there are. What needs no memory of earlier items may be done to an item
//! before its strands and after them by any thread ([`Stage`]). The drain runs on the calling thread, item by item and strand
//! by strand; the first error that it meets is the first in the table, whichever thread saw one first. Whatever is ahead of
//! the drain is bounded: by a number of items, by the memory that they say they take, and by [`PIECES_AHEAD`] for a strand.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, available_parallelism, scope};

use crate::column::Scratch;
use crate::error::{Result, TableError};
use crate::job::check_cancel;

/// Threads that one job uses at most.
pub(crate) const THREADS_MAX: usize = 256;

/// Bytes that items in flight may take …
const BYTES_AHEAD: usize = 128 << 20;

/// … and for each thread besides.
const BYTES_AHEAD_EACH: usize = 64 << 20;

/// Pieces of one item that a strand may be ahead of the drain.
pub(crate) const PIECES_AHEAD: usize = 40;

/// The number of threads that a job asks for; one a core without a number.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    let count = asked.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    count.clamp(1, THREADS_MAX)
}

/// Makes items, one after the other.
pub(crate) trait Feed: Send {
    type Item: Send + Sync;

    /// The next item; nothing at the end.
    fn next(&mut self) -> Result<Option<Fed<Self::Item>>>;
}

/// An item, the strands that work on it, and about how many bytes it takes until the drain has taken it.
pub(crate) struct Fed<I> {
    pub(crate) item: I,
    pub(crate) strands: Range<usize>,
    pub(crate) cost: usize,
}

/// Takes a piece of what a strand makes of an item.
pub(crate) type Emit<'a, P> = &'a mut (dyn FnMut(P) -> io::Result<()> + Send);

/// What is done with an item, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// By any thread, before the drain begins with it.
    Prepare,
    /// By each strand, before any of them works on it.
    Mark,
    /// By each strand.
    Work,
    /// By any thread, after all strands.
    Finish,
}

/// What is done with items, stage by stage.
pub(crate) trait Work<I, S>: Sync {
    type Piece: Send;

    /// The stages that items go through, in their order.
    fn stages(&self) -> &'static [Stage] {
        &[Stage::Work]
    }

    /// [`Stage::Prepare`].
    fn prepare(&self, _item: &I) -> Result<()> {
        Ok(())
    }

    /// [`Stage::Mark`].
    fn mark(&self, _item: &I, _strand: &mut S, _asked: &Asked<'_>) -> Result<()> {
        Ok(())
    }

    /// [`Stage::Finish`]. Strands may have failed.
    fn finish(&self, _item: &I) -> Result<()> {
        Ok(())
    }

    /// [`Stage::Work`].
    fn work(
        &self,
        item: &I,
        strand: &mut S,
        scratch: &mut Scratch,
        asked: &Asked<'_>,
        emit: Emit<'_, Self::Piece>,
    ) -> Result<()>;
}

/// Takes what the strands have made: of each item `begin`, each strand's pieces, `end`.
pub(crate) trait Drain<I, P>: Send {
    fn begin(&mut self, item: &I) -> Result<()>;

    fn take(&mut self, piece: P) -> io::Result<()>;

    /// What it means that a piece was not taken.
    fn refused(&self, error: io::Error) -> TableError;

    fn end(&mut self, item: Arc<I>) -> Result<()>;
}

/// Whether to go on.
pub(crate) struct Asked<'a> {
    cancel: &'a AtomicBool,
    stopped: &'a AtomicBool,
}

impl Asked<'_> {
    /// # Errors
    /// `Interrupted` when somebody has asked for it, or when the job has failed elsewhere.
    pub(crate) fn check(&self) -> Result<()> {
        check_cancel(self.cancel)?;
        check_cancel(self.stopped)
    }
}

/// How a job is to be run.
pub(crate) struct Plan<'a> {
    /// Threads; 1 for the calling thread alone.
    pub(crate) threads: usize,
    /// Items that may be ahead of the drain.
    pub(crate) items_ahead: usize,
    pub(crate) cancel: &'a AtomicBool,
}

/// Sends all items of `feed` through `strands` to `drain`, and calls `after` whenever one has gone through.
///
/// # Errors
/// The first one in the order of items and strands; `Interrupted`; `Panicked`.
pub(crate) fn run<F, S, W, D>(
    feed: &mut F,
    work: &W,
    strands: &mut [S],
    drain: &mut D,
    plan: &Plan,
    after: &mut dyn FnMut(&D),
) -> Result<()>
where
    F: Feed,
    S: Send,
    W: Work<F::Item, S>,
    D: Drain<F::Item, W::Piece>,
{
    if plan.threads == 1 {
        return alone(feed, work, strands, drain, plan, after);
    }
    let is_shared = work.stages() != [Stage::Work];
    let threads = if is_shared { plan.threads } else { plan.threads.min(strands.len() + 1) };
    let board = Board::new(feed, strands, plan, threads, work.stages());
    let started = scope(|scope| {
        // Also when something here panics, so that the others do not wait for ever.
        let _stop = StopAtEnd(&board);
        let mut started = 0;
        for number in 0..threads {
            let thread = Builder::new().name(format!("table-{number}"));
            let begun = thread.spawn_scoped(scope, || {
                if catch_unwind(AssertUnwindSafe(|| board.serve(work))).is_err() {
                    board.lose();
                }
            });
            started += usize::from(begun.is_ok());
        }
        (started > 0).then(|| board.drain(drain, after))
    });
    match started {
        Some(outcome) => outcome,
        // The system gives no thread; the calling one does it all.
        None => alone(feed, work, strands, drain, plan, after),
    }
}

/// Everything on the calling thread.
fn alone<F, S, W, D>(
    feed: &mut F,
    work: &W,
    strands: &mut [S],
    drain: &mut D,
    plan: &Plan,
    after: &mut dyn FnMut(&D),
) -> Result<()>
where
    F: Feed,
    S: Send,
    W: Work<F::Item, S>,
    D: Drain<F::Item, W::Piece>,
{
    let mut scratch = Scratch::default();
    let asked = Asked { cancel: plan.cancel, stopped: &AtomicBool::new(false) };
    loop {
        asked.check()?;
        let Some(fed) = feed.next()? else { return Ok(()) };
        let item = Arc::new(fed.item);
        if work.stages().contains(&Stage::Prepare) {
            work.prepare(&item)?;
        }
        drain.begin(&item)?;
        for stage in work.stages() {
            let strands = &mut strands[fed.strands.clone()];
            match stage {
                Stage::Prepare => {}
                Stage::Mark => strands.iter_mut().try_for_each(|strand| work.mark(&item, strand, &asked))?,
                Stage::Work => {
                    for strand in strands {
                        work.work(&item, strand, &mut scratch, &asked, &mut |piece| drain.take(piece))?;
                    }
                }
                Stage::Finish => work.finish(&item)?,
            }
        }
        drain.end(item)?;
        after(drain);
    }
}

/// What a task sends to the drain.
enum Message<P> {
    Piece(P),
    End(Result<()>),
}

/// What is to be done with an item in a stage, by a strand where that is one of strands.
struct Task<I, P> {
    stage: Stage,
    strand: Option<usize>,
    flight: Arc<Flight>,
    item: Arc<I>,
    sender: SyncSender<Message<P>>,
}

/// How far an item has come: the tasks that are left of each stage. Touched under the board's lock alone.
struct Flight {
    left: [AtomicUsize; 4],
}

impl Flight {
    fn left(&self, stage: Stage) -> &AtomicUsize {
        &self.left[stage as usize]
    }

    /// Whether everything before a stage has been done.
    fn is_at(&self, stage: Stage) -> bool {
        self.left[..stage as usize].iter().all(|left| left.load(Ordering::Relaxed) == 0)
    }
}

/// What the drain takes next.
enum Entry<I, P> {
    Item { item: Arc<I>, pieces: Vec<Receiver<Message<P>>>, is_prepared: bool, cost: usize },
    Failed(TableError),
}

/// What all threads share.
struct Board<'s, F: Feed, S, P> {
    state: Mutex<State<'s, F, S, P>>,
    changed: Condvar,
    stopped: AtomicBool,
    cancel: &'s AtomicBool,
    items_ahead: usize,
    bytes_ahead: usize,
    stages: &'static [Stage],
}

struct State<'s, F: Feed, S, P> {
    /// Away while a thread makes an item.
    feed: Option<&'s mut F>,
    /// An item for which there is no room yet.
    held: Option<Fed<F::Item>>,
    ended: bool,
    /// Each away while a thread works on it.
    strands: Vec<Option<&'s mut S>>,
    /// What nobody has begun, in order.
    tasks: VecDeque<Task<F::Item, P>>,
    /// Which strands have a task before the one that is looked at; none while nobody looks.
    is_behind: Vec<bool>,
    entries: VecDeque<Entry<F::Item, P>>,
    items: usize,
    bytes: usize,
}

/// What a thread does next.
enum Step<'s, F: Feed, S, P> {
    Work(Task<F::Item, P>, Option<&'s mut S>),
    Feed(&'s mut F),
    Leave,
}

impl<'s, F: Feed, S: Send, P: Send> Board<'s, F, S, P> {
    fn new(feed: &'s mut F, strands: &'s mut [S], plan: &Plan<'s>, threads: usize, stages: &'static [Stage]) -> Self {
        let strands_len = strands.len();
        let state = State {
            feed: Some(feed),
            held: None,
            ended: false,
            strands: strands.iter_mut().map(Some).collect(),
            tasks: VecDeque::new(),
            is_behind: vec![false; strands_len],
            entries: VecDeque::new(),
            items: 0,
            bytes: 0,
        };
        Board {
            state: Mutex::new(state),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            cancel: plan.cancel,
            items_ahead: plan.items_ahead,
            bytes_ahead: BYTES_AHEAD + threads * BYTES_AHEAD_EACH,
            stages,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'s, F, S, P>> {
        // Nothing that could panic is done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until there is nothing left to do.
    fn serve(&self, work: &impl Work<F::Item, S, Piece = P>) {
        let mut scratch = Scratch::default();
        let asked = Asked { cancel: self.cancel, stopped: &self.stopped };
        loop {
            match self.step() {
                Step::Work(task, mut strand) => {
                    let Task { stage, strand: place, flight, item, sender } = task;
                    let lost = |_| io::Error::from(io::ErrorKind::BrokenPipe);
                    let mut emit = |piece| sender.send(Message::Piece(piece)).map_err(lost);
                    let done = match (stage, &mut strand) {
                        (Stage::Mark, Some(strand)) => work.mark(&item, strand, &asked),
                        (Stage::Work, Some(strand)) => work.work(&item, strand, &mut scratch, &asked, &mut emit),
                        (Stage::Mark | Stage::Work, None) => Ok(()),
                        (Stage::Prepare, _) => asked.check().and_then(|()| work.prepare(&item)),
                        (Stage::Finish, _) => work.finish(&item),
                    };
                    // Before the drain hears of its end, so that the item is the drain's alone then.
                    drop(item);
                    let mut state = self.lock();
                    if let Some(place) = place {
                        state.strands[place] = strand;
                    }
                    flight.left(stage).fetch_sub(1, Ordering::Relaxed);
                    drop(state);
                    self.changed.notify_all();
                    // Nobody listens any more once the job has failed.
                    let _ = sender.send(Message::End(done));
                }
                Step::Feed(feed) => {
                    let fed = asked.check().and_then(|()| feed.next());
                    self.admit(feed, fed);
                }
                Step::Leave => return,
            }
        }
    }

    fn step(&self) -> Step<'s, F, S, P> {
        let mut state = self.lock();
        loop {
            if self.stopped.load(Ordering::Relaxed) || state.is_done() {
                return Step::Leave;
            }
            if let Some(step) = state.task() {
                return step;
            }
            let has_room = state.items < self.items_ahead && state.bytes < self.bytes_ahead;
            if has_room
                && !state.ended
                && state.held.is_none()
                && let Some(feed) = state.feed.take()
            {
                return Step::Feed(feed);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the feed back, with what it has given.
    fn admit(&self, feed: &'s mut F, fed: Result<Option<Fed<F::Item>>>) {
        let mut state = self.lock();
        state.feed = Some(feed);
        match fed {
            Ok(Some(fed)) => state.held = Some(fed),
            Ok(None) => state.ended = true,
            Err(error) => {
                state.ended = true;
                state.entries.push_back(Entry::Failed(error));
            }
        }
        state.release_held(self.bytes_ahead, self.stages);
        drop(state);
        self.changed.notify_all();
    }

    /// A thread has panicked. What it worked on shows that at its place; what it made of the feed would be missed.
    fn lose(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.entries.push_back(Entry::Failed(TableError::Panicked));
        drop(state);
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        // Threads that wait for their pieces to be taken see that nobody will.
        let (entries, tasks) = (std::mem::take(&mut state.entries), std::mem::take(&mut state.tasks));
        drop(state);
        self.changed.notify_all();
        drop((entries, tasks));
    }

    fn drain<D: Drain<F::Item, P>>(&self, drain: &mut D, after: &mut dyn FnMut(&D)) -> Result<()> {
        while let Some(entry) = self.entry() {
            let (item, pieces, is_prepared, cost) = match entry {
                Entry::Item { item, pieces, is_prepared, cost } => (item, pieces, is_prepared, cost),
                Entry::Failed(error) => return Err(error),
            };
            let (before, pieces) = pieces.split_at(usize::from(is_prepared));
            before.iter().try_for_each(|pieces| receive(pieces, drain))?;
            drain.begin(&item)?;
            pieces.iter().try_for_each(|pieces| receive(pieces, drain))?;
            drain.end(item)?;
            after(drain);
            let mut state = self.lock();
            state.items -= 1;
            state.bytes -= cost;
            state.release_held(self.bytes_ahead, self.stages);
            drop(state);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// What the drain takes next; nothing at the end.
    fn entry(&self) -> Option<Entry<F::Item, P>> {
        let mut state = self.lock();
        loop {
            if let Some(entry) = state.entries.pop_front() {
                return Some(entry);
            }
            if state.ended && state.held.is_none() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<'s, F: Feed, S, P> State<'s, F, S, P> {
    fn is_done(&self) -> bool {
        self.ended && self.held.is_none() && self.tasks.is_empty()
    }

    /// The first task whose item is so far, and whose strand is through with what comes before and nobody's.
    fn task(&mut self) -> Option<Step<'s, F, S, P>> {
        let mut found = None;
        let mut looked_at = 0;
        for (at, task) in self.tasks.iter().enumerate() {
            let is_due = task.flight.is_at(task.stage);
            let is_free = match task.strand {
                None => true,
                Some(strand) => {
                    let is_behind = std::mem::replace(&mut self.is_behind[strand], true);
                    !is_behind && self.strands[strand].is_some()
                }
            };
            looked_at = at + 1;
            if is_due && is_free {
                found = Some(at);
                break;
            }
        }
        for strand in self.tasks.iter().take(looked_at).filter_map(|task| task.strand) {
            self.is_behind[strand] = false;
        }
        let task = self.tasks.remove(found?)?;
        let strand = task.strand.and_then(|strand| self.strands[strand].take());
        Some(Step::Work(task, strand))
    }

    /// Makes tasks of the item that is held when there is room for it, or nothing else is in flight.
    fn release_held(&mut self, bytes_max: usize, stages: &[Stage]) {
        let fits = |fed: &mut Fed<F::Item>| self.items == 0 || self.bytes.saturating_add(fed.cost) <= bytes_max;
        let Some(fed) = self.held.take_if(fits) else { return };
        let (item, flight, mut pieces) =
            (Arc::new(fed.item), Arc::new(Flight { left: Default::default() }), Vec::new());
        let mut add = |stage: Stage, strand: Option<usize>| {
            let (sender, receiver) = sync_channel(PIECES_AHEAD);
            flight.left(stage).fetch_add(1, Ordering::Relaxed);
            let (flight, item) = (Arc::clone(&flight), Arc::clone(&item));
            self.tasks.push_back(Task { stage, strand, flight, item, sender });
            pieces.push(receiver);
        };
        for stage in stages {
            match stage {
                Stage::Prepare | Stage::Finish => add(*stage, None),
                Stage::Mark | Stage::Work => fed.strands.clone().for_each(|strand| add(*stage, Some(strand))),
            }
        }
        self.items += 1;
        self.bytes = self.bytes.saturating_add(fed.cost);
        let is_prepared = stages.first() == Some(&Stage::Prepare);
        self.entries.push_back(Entry::Item { item, pieces, is_prepared, cost: fed.cost });
    }
}

/// Takes what a task sends.
fn receive<I, P, D: Drain<I, P>>(pieces: &Receiver<Message<P>>, drain: &mut D) -> Result<()> {
    loop {
        match pieces.recv() {
            Ok(Message::Piece(piece)) => drain.take(piece).map_err(|error| drain.refused(error))?,
            Ok(Message::End(done)) => return done,
            // Its thread has ended without a word.
            Err(_) => return Err(TableError::Panicked),
        }
    }
}

/// Ends all threads when the drain does.
struct StopAtEnd<'b, 's, F: Feed, S: Send, P: Send>(&'b Board<'s, F, S, P>);

impl<F: Feed, S: Send, P: Send> Drop for StopAtEnd<'_, '_, F, S, P> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests;
