//! Single operations that share a batch: who collects them, who runs them, and how everybody hears of it.

use crate::isolation::lock;
use crate::sync::{Arc, Mutex, OnceLock};

/// What becomes of a batch; everybody who took part holds it until they have read their own.
pub struct SharedBatch<D, W> {
    done: OnceLock<D>,
    /// Of those who looked after they had joined.
    late: Mutex<Vec<W>>,
}

/// A batch `B` that is open to more operations, under a lock of the caller's. `W` wakes a task.
pub struct OpenBatch<B, D, W> {
    /// The batch.
    pub batch: B,
    shared: Arc<SharedBatch<D, W>>,
    joined: usize,
    wakers: Vec<W>,
    /// The leader is gone; whoever looks next leads.
    is_orphaned: bool,
}

/// A task's place in a shared batch.
pub struct Part<D, W> {
    /// Where the outcome will be.
    pub shared: Arc<SharedBatch<D, W>>,
    /// Its operation's index.
    pub index: usize,
    /// Whether the task runs the batch when it is next polled.
    pub leads: bool,
}

impl<D, W> SharedBatch<D, W> {
    fn new() -> SharedBatch<D, W> {
        SharedBatch { done: OnceLock::new(), late: Mutex::new(Vec::new()) }
    }

    /// Reads the outcome, if it is there.
    #[expect(
        clippy::needless_option_as_deref,
        reason = "loom's stand-in gives a shared pointer instead of a reference"
    )]
    pub fn outcome<R>(&self, read: impl FnOnce(&D) -> R) -> Option<R> {
        self.done.get().as_deref().map(read)
    }

    /// Has a task woken when the outcome is there, or when the leader goes. Before it goes to sleep it has to look once more
    /// for either: both may have happened before.
    pub fn wait(&self, waker: W) {
        lock(&self.late).push(waker);
    }

    /// Gives the outcome of a batch that was taken; returns those who wait for it, who are to be woken.
    pub fn finish(&self, done: D) -> Vec<W> {
        // Nobody else sets it: a batch is taken once.
        let _ = self.done.set(done);
        // After the outcome: whoever comes into the list later finds that.
        std::mem::take(&mut *lock(&self.late))
    }
}

impl<B, D, W> OpenBatch<B, D, W> {
    /// A batch without operations, with room for so many tasks.
    pub fn new(batch: B, tasks: usize) -> OpenBatch<B, D, W> {
        let shared = Arc::new(SharedBatch::new());
        OpenBatch { batch, shared, joined: 0, wakers: Vec::with_capacity(tasks), is_orphaned: false }
    }

    /// Takes the place of an operation that was put into the batch. The first task leads, and whoever joins after the
    /// leader has gone.
    pub fn join(&mut self, waker: impl FnOnce() -> W) -> Part<D, W> {
        let index = self.joined;
        let leads = index == 0 || self.is_orphaned;
        self.is_orphaned = false;
        if !leads {
            self.wakers.push(waker());
        }
        self.joined += 1;
        Part { shared: Arc::clone(&self.shared), index, leads }
    }

    /// Takes the place of the operation that fills the batch, whose task runs it at once, before the leader does.
    pub fn join_last(&mut self) -> Part<D, W> {
        let index = self.joined;
        self.joined += 1;
        Part { shared: Arc::clone(&self.shared), index, leads: true }
    }

    /// Whether it is this one.
    pub fn is_of(&self, shared: &Arc<SharedBatch<D, W>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Whether its leader is gone.
    pub fn is_orphaned(&self) -> bool {
        self.is_orphaned
    }

    /// The batch and those who joined it, to be woken when it is done.
    pub fn into_parts(self) -> (B, Vec<W>) {
        (self.batch, self.wakers)
    }

    /// A task goes without its outcome. Returns everybody who is to be woken: when the leader goes, all
    /// others, since some of them may have gone too and no one of them can be relied upon to lead.
    pub fn leave(&mut self, part: &Part<D, W>) -> Vec<W> {
        if !part.leads {
            return Vec::new();
        }
        self.is_orphaned = true;
        let mut wakers = std::mem::take(&mut self.wakers);
        wakers.append(&mut lock(&self.shared.late));
        wakers
    }
}

/// Tasks are polled once and then only when they have been woken, as executors do.
#[cfg(all(loom, test))]
mod model {
    use std::sync::atomic::Ordering;

    use loom::sync::Notify;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    use super::*;

    type Waker = Arc<Notify>;
    type Gate = Mutex<Option<OpenBatch<usize, usize, Waker>>>;

    /// One task; it goes as soon as it has joined, or when it is woken first, or stays, or stays and looks
    /// without having been woken, with another waker from then on, which is the one that counts, or fills the batch.
    #[derive(Clone, Copy, PartialEq)]
    enum Patience {
        Joins,
        Waits,
        Stays,
        Looks,
        Fills,
    }

    /// Takes the batch and runs it, if `wanted`.
    fn lead(gate: &Gate, part: &Part<usize, Waker>, wanted: impl FnOnce(&OpenBatch<usize, usize, Waker>) -> bool) {
        let taken = lock(gate).take_if(|open| open.is_of(&part.shared) && wanted(open));
        let Some(open) = taken else { return };
        let (operations, wakers) = open.into_parts();
        let late = part.shared.finish(operations);
        wakers.into_iter().chain(late).for_each(|waker| waker.notify());
    }

    /// A poll after the first.
    fn poll(gate: &Gate, part: &Part<usize, Waker>, waker: &Waker) -> Option<usize> {
        if part.leads {
            lead(gate, part, |_| true);
        }
        let outcome = || part.shared.outcome(|operations| *operations);
        if outcome().is_some() {
            return outcome();
        }
        part.shared.wait(Arc::clone(waker));
        lead(gate, part, OpenBatch::is_orphaned);
        outcome()
    }

    fn task(gate: &Gate, patience: Patience, done: &AtomicUsize) {
        let mut waker = Arc::new(Notify::new());
        let part = {
            let mut gate = lock(gate);
            let open = gate.get_or_insert_with(|| OpenBatch::new(0, 2));
            open.batch += 1;
            if patience == Patience::Fills { open.join_last() } else { open.join(|| Arc::clone(&waker)) }
        };
        // A leader wakes itself.
        if !part.leads && matches!(patience, Patience::Waits | Patience::Stays) {
            waker.wait();
        }
        if patience == Patience::Looks {
            waker = Arc::new(Notify::new());
        }
        if matches!(patience, Patience::Stays | Patience::Looks | Patience::Fills) {
            loop {
                if let Some(operations) = poll(gate, &part, &waker) {
                    assert!(part.index < operations);
                    done.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                waker.wait();
            }
        }
        let wakers = lock(gate).as_mut().filter(|own| own.is_of(&part.shared)).map(|own| own.leave(&part));
        wakers.into_iter().flatten().for_each(|waker| waker.notify());
    }

    fn check(tasks: &'static [Patience]) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let (gate, done) = (Arc::new(Gate::new(None)), Arc::new(AtomicUsize::new(0)));
            let threads: Vec<_> = tasks
                .iter()
                .map(|patience| {
                    let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
                    thread::spawn(move || task(&gate, *patience, &done))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("ends"));
            let stays = |patience: &&Patience| matches!(patience, Patience::Stays | Patience::Looks | Patience::Fills);
            let stay = tasks.iter().filter(stays).count();
            assert_eq!(done.load(Ordering::Relaxed), stay, "everybody who stays has an outcome");
        });
    }

    /// A deadlock when `finish` takes the list before it sets the outcome, or when a task looks before it waits and not
    /// after.
    #[test]
    fn everybody_hears_of_a_shared_batch() {
        check(&[Patience::Stays, Patience::Stays, Patience::Stays]);
        check(&[Patience::Stays, Patience::Looks]);
    }

    /// A deadlock when a leader that goes wakes one other task alone or none of the late ones, and when a task looks for an
    /// orphan before it waits and not after.
    #[test]
    fn leaders_may_go_and_their_successors_too() {
        check(&[Patience::Joins, Patience::Joins, Patience::Stays]);
        check(&[Patience::Joins, Patience::Waits, Patience::Stays]);
        check(&[Patience::Joins, Patience::Looks]);
    }

    /// A deadlock when a leader that finds its batch taken does not wait for the outcome.
    #[test]
    fn who_fills_a_batch_runs_it_for_all() {
        check(&[Patience::Stays, Patience::Fills]);
        check(&[Patience::Joins, Patience::Stays, Patience::Fills]);
    }
}
