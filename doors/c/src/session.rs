//! Sessions: batches that are handed over, and come back.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::os::fd::AsRawFd;

use ciphermill::contract::{ArenaBuffer, Completed, OpStatus, OwnedBatch, Ticket};
use ciphermill::{OnFull, Session, SubmitOptions};

use crate::entry::entry;
use crate::failure::{CIPHERMILL_NO_OP, CIPHERMILL_NO_REASON, CIPHERMILL_OK, Failure, ciphermill_status};
use crate::foreign;
use crate::handle::{self, Handle, opaque};
use crate::mill::ciphermill_mill;
use crate::ops::{ciphermill_batch, ciphermill_op, ops_and_arena};
use crate::run::{ciphermill_run_options, options};
use crate::suite;

/// Batches that are handed over to a mill's threads and come back, for one thread at a time.
pub struct ciphermill_session(Handle<InFlight>);

opaque!(ciphermill_session, InFlight, "session");

/// Batches come back in the order in which they were submitted.
pub const CIPHERMILL_SESSION_IN_ORDER: u32 = 1;

/// The caller works on what waits until there is room for the batch, instead of being refused.
pub const CIPHERMILL_SUBMIT_WAIT: u32 = 1;

/// Batches that one session may have in flight: submitted and not yet handed back.
pub const CIPHERMILL_IN_FLIGHT_MAX: usize = 1024;

const _: () = assert!(CIPHERMILL_IN_FLIGHT_MAX == ciphermill::IN_FLIGHT_MAX);

/// A batch that has come back. Its ops and arena are the caller's again.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_completed {
    /// What ciphermill_session_submit has told.
    pub ticket: u64,
    /// What the caller gave along.
    pub cookie: u64,
    /// The operations that were submitted; every one has its status if `status` is CIPHERMILL_OK.
    pub ops: *mut ciphermill_op,
    /// How many.
    pub ops_len: usize,
    /// Operations that ended well.
    pub done: u64,
    /// The index of the operation that broke a rule, or CIPHERMILL_NO_OP.
    pub op: u64,
    /// What ciphermill_run would have returned.
    pub status: ciphermill_status,
    /// The rule that was broken, for ciphermill_reason_text, or CIPHERMILL_NO_REASON.
    pub reason: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// A caller's arena, while a batch is in flight.
struct Lent {
    at: *mut u8,
    len: usize,
}

// SAFETY: who submits a batch leaves its arena to the library until it is handed back, whichever thread works on it.
unsafe impl Send for Lent {}

impl ArenaBuffer for Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: checked when it was submitted; nobody but the batch that owns this touches it until it is handed back, and
        // `InFlight` is not dropped before that.
        unsafe { foreign::slice(self.at.cast_const(), self.len, "arena") }.unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { foreign::slice_mut(self.at, self.len, "arena") }.unwrap_or_default()
    }
}

/// What a session remembers of a batch: where its operations go, and what is the caller's own.
struct Sent {
    ops: *mut ciphermill_op,
    ops_len: usize,
    arena: Range<usize>,
    cookie: u64,
}

/// A session, and the callers' memory that it has.
pub(crate) struct InFlight {
    session: Session,
    sent: BTreeMap<u64, Sent>,
    /// Stretches of memory in flight, by their start, with their end: none overlaps another.
    taken: BTreeMap<usize, usize>,
    /// Batches that have come back and wait for a caller with room.
    back: VecDeque<Completed>,
}

// SAFETY: pointers to callers' memory, which is left to the library meanwhile, whichever thread uses the session.
unsafe impl Send for InFlight {}

impl InFlight {
    /// Takes a stretch of memory.
    ///
    /// # Errors
    /// When a part of it is in flight already.
    fn take(&mut self, stretch: Range<usize>, what: &str) -> Result<(), Failure> {
        if stretch.is_empty() {
            return Ok(());
        }
        let before = self.taken.range(..stretch.end).next_back();
        if before.is_some_and(|(_, end)| *end > stretch.start) {
            return Err(Failure::misuse(format!("{what} overlaps the memory of a batch that is in flight")));
        }
        self.taken.insert(stretch.start, stretch.end);
        Ok(())
    }

    fn let_go(&mut self, stretch: &Range<usize>) {
        if !stretch.is_empty() {
            self.taken.remove(&stretch.start);
        }
    }

    fn submit(
        &mut self,
        batch: &ciphermill_batch,
        owned: OwnedBatch,
        cookie: u64,
        options: &SubmitOptions<'_>,
    ) -> Result<u64, Failure> {
        let ops_at = batch.ops as usize..batch.ops as usize + batch.ops_len * size_of::<ciphermill_op>();
        let arena = batch.arena as usize..batch.arena as usize + batch.arena_len;
        self.take(ops_at.clone(), "ops")?;
        if let Err(failure) = self.take(arena.clone(), "arena") {
            self.let_go(&ops_at);
            return Err(failure);
        }
        match self.session.submit_with(owned, options) {
            Ok(Ticket(ticket)) => {
                self.sent.insert(ticket, Sent { ops: batch.ops, ops_len: batch.ops_len, arena, cookie });
                Ok(ticket)
            }
            Err(back) => {
                self.let_go(&ops_at);
                self.let_go(&arena);
                Err(back.1.into())
            }
        }
    }

    /// Gives a batch that has come back to its caller.
    fn hand_back(&mut self, completed: Completed) -> Option<ciphermill_completed> {
        let Completed { ticket: Ticket(ticket), batch, result } = completed;
        let Sent { ops, ops_len, arena, cookie } = self.sent.remove(&ticket)?;
        self.let_go(&arena);
        self.let_go(&(ops as usize..ops as usize + ops_len * size_of::<ciphermill_op>()));
        let done = batch.ops.iter().filter(|op| op.status == OpStatus::Done).count() as u64;
        let len = ops_len.min(batch.ops.len());
        // SAFETY: checked when they were submitted, and the library's until now; of the same layout.
        unsafe { std::ptr::copy_nonoverlapping(batch.ops.as_ptr().cast::<ciphermill_op>(), ops, len) };
        let mut said = ciphermill_completed {
            ticket,
            cookie,
            ops,
            ops_len,
            done,
            op: CIPHERMILL_NO_OP,
            status: CIPHERMILL_OK,
            reason: CIPHERMILL_NO_REASON,
            reserved: [0; 3],
        };
        if let Err(error) = result {
            let failure = Failure::from(error);
            said.status = failure.status;
            said.op = failure.op.unwrap_or(CIPHERMILL_NO_OP);
            said.reason = failure.reason.map_or(CIPHERMILL_NO_REASON, |reason| reason as u8);
        }
        Some(said)
    }
}

impl Drop for InFlight {
    /// Waits for all that is in flight: what runs works in callers' memory.
    fn drop(&mut self) {
        for ticket in self.sent.keys() {
            self.session.cancel(Ticket(*ticket));
        }
        self.back.extend(std::iter::from_fn(|| self.session.wait()));
        while let Some(completed) = self.back.pop_front() {
            self.hand_back(completed);
        }
    }
}

/// Opens a session on a mill, to be closed by ciphermill_session_close.
///
/// `flags` is zero or CIPHERMILL_SESSION_IN_ORDER.
///
/// # Errors
/// CIPHERMILL_MISUSE, CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_open(
    mill: *const ciphermill_mill,
    session: *mut *mut ciphermill_session,
    flags: u32,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = foreign::place(session, "session")?;
        let session = match flags {
            0 => mill.session(),
            CIPHERMILL_SESSION_IN_ORDER => mill.session().in_order(),
            _ => return Err(Failure::misuse(format!("there are no flags {flags:#x} of a session"))),
        };
        let opened = InFlight { session, sent: BTreeMap::new(), taken: BTreeMap::new(), back: VecDeque::new() };
        // SAFETY: the caller's to be written.
        unsafe { place.put(handle::open(opened)) };
        Ok(())
    })
}

/// Hands a batch over and tells its ticket.
///
/// Ops and arena belong to the library from now until the batch is handed back by ciphermill_session_poll or _wait, or the session is closed: they must not be
/// freed, written or read. The arena is worked on where it lies; ops are copied, and copied back when the batch is handed back.
/// The structure `batch` itself may go at once. `cookie` is the caller's own and comes back with the batch.
///
/// `flags` is zero or CIPHERMILL_SUBMIT_WAIT; `options` may be NULL for what is usual.
///
/// # Errors
/// CIPHERMILL_EXHAUSTED when CIPHERMILL_IN_FLIGHT_MAX batches are in flight, or the queue is full and `flags` is zero; CIPHERMILL_MISUSE
/// for memory that is in flight already; CIPHERMILL_REFUSED for an engine that is not there; CIPHERMILL_BUSY, CIPHERMILL_FORKED.
/// The batch remains the caller's then. Rules that operations break are told when the batch comes back.
///
/// # Threads
/// One at a time for a session.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_submit(
    session: *mut ciphermill_session,
    ticket: *mut u64,
    batch: *const ciphermill_batch,
    cookie: u64,
    flags: u32,
    options: *const ciphermill_run_options,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut session = unsafe { handle::exclusive(session) }?;
        let place = foreign::place(ticket, "ticket")?;
        // SAFETY: the caller's to be read.
        let (batch, run) = unsafe { (foreign::read(batch, "batch")?, self::options(options)?) };
        let on_full = match flags {
            0 => OnFull::Refuse,
            CIPHERMILL_SUBMIT_WAIT => OnFull::Wait,
            _ => return Err(Failure::misuse(format!("there are no flags {flags:#x} of a submission"))),
        };
        let (suite, direction) = (suite::of_number(batch.suite)?, suite::direction(batch.direction)?);
        let mut ops = Vec::new();
        {
            // SAFETY: the caller's to be read and written; what is made of it here is gone before it is lent.
            let (lent, _) = unsafe { ops_and_arena((batch.ops, batch.ops_len), (batch.arena, batch.arena_len)) }?;
            ops.try_reserve_exact(lent.len()).map_err(|_| Failure::memory(size_of_val(lent)))?;
            ops.extend_from_slice(lent);
        }
        let arena = Box::new(Lent { at: batch.arena, len: batch.arena_len });
        let owned = OwnedBatch { suite, direction, ops, arena };
        let told = session.submit(&batch, owned, cookie, &SubmitOptions { run, on_full })?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(told) };
        Ok(())
    })
}

/// Hands back batches that are done, without waiting; works on one that waits when none is done.
///
/// `completed_len` is the room at `completed`; on return the number of batches that are there. If it is full, there may be
/// more: call again until it is not, before waiting for the descriptor.
///
/// # Errors
/// CIPHERMILL_MISUSE, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a session.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_poll(
    session: *mut ciphermill_session,
    completed: *mut ciphermill_completed,
    completed_len: *mut usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut session = unsafe { handle::exclusive(session) }?;
        let place = foreign::place(completed_len, "completed_len")?;
        // SAFETY: the caller's to be read.
        let room = unsafe { foreign::read(completed_len.cast_const(), "completed_len") }?;
        if room != 0 {
            foreign::place(completed, "completed")?;
        }
        if session.back.len() < room {
            let mut new = Vec::new();
            session.session.poll(&mut new);
            session.back.extend(new);
        }
        let mut count = 0;
        while count < room
            && let Some(next) = session.back.pop_front()
        {
            if let Some(said) = session.hand_back(next) {
                // SAFETY: the caller's to be written, as many as there is room for.
                unsafe { foreign::place(completed.wrapping_add(count), "completed")?.put(said) };
                count += 1;
            }
        }
        // SAFETY: the caller's to be written.
        unsafe { place.put(count) };
        Ok(())
    })
}

/// Waits for the next batch, working on what waits meanwhile. With nothing in flight `ticket` in `completed` is zero.
///
/// # Errors
/// CIPHERMILL_MISUSE, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a session.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_wait(
    session: *mut ciphermill_session,
    completed: *mut ciphermill_completed,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut session = unsafe { handle::exclusive(session) }?;
        let place = foreign::place(completed, "completed")?;
        let next = session.back.pop_front();
        let next = next.or_else(|| session.session.wait());
        let said = next.and_then(|next| session.hand_back(next));
        let nothing = ciphermill_completed {
            ticket: 0,
            cookie: 0,
            ops: std::ptr::null_mut(),
            ops_len: 0,
            done: 0,
            op: CIPHERMILL_NO_OP,
            status: CIPHERMILL_OK,
            reason: CIPHERMILL_NO_REASON,
            reserved: [0; 3],
        };
        // SAFETY: the caller's to be written.
        unsafe { place.put(said.unwrap_or(nothing)) };
        Ok(())
    })
}

/// Asks that a batch be not begun. It comes back all the same: done, or with CIPHERMILL_REFUSED and untouched.
///
/// # Errors
/// CIPHERMILL_MISUSE, CIPHERMILL_BUSY, CIPHERMILL_FORKED; none for a ticket that is not in flight.
///
/// # Threads
/// One at a time for a session.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_cancel(session: *mut ciphermill_session, ticket: u64) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut session = unsafe { handle::exclusive(session) }?;
        session.session.cancel(Ticket(ticket));
        Ok(())
    })
}

/// Tells how many batches are in flight: submitted and not yet handed back.
///
/// # Errors
/// CIPHERMILL_MISUSE, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a session.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_in_flight(
    session: *mut ciphermill_session,
    count: *mut usize,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let session = unsafe { handle::exclusive(session) }?;
        let place = foreign::place(count, "count")?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(session.sent.len()) };
        Ok(())
    })
}

/// Tells a descriptor (eventfd(2)) that is readable when batches have come back, for poll(2) and epoll(7). It is the session's:
/// neither read nor closed by the caller; ciphermill_session_poll sets it back. From now on the mill's threads run everything that
/// is submitted.
///
/// # Errors
/// CIPHERMILL_EXHAUSTED when the mill has no threads; CIPHERMILL_ENGINE_FAULT when the system has no descriptor;
/// CIPHERMILL_MISUSE, CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// One at a time for a session.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_event_fd(
    session: *mut ciphermill_session,
    fd: *mut i32,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mut session = unsafe { handle::exclusive(session) }?;
        let place = foreign::place(fd, "fd")?;
        let raw = session.session.event_fd()?.as_raw_fd();
        // SAFETY: the caller's to be written.
        unsafe { place.put(raw) };
        Ok(())
    })
}

/// Closes a session; NULL is none. Batches that have not been begun are not begun, and those that run are waited for: on return ops
/// and arenas of all are the caller's again.
///
/// # Errors
/// CIPHERMILL_MISUSE for what is not open (any more); CIPHERMILL_BUSY, CIPHERMILL_FORKED.
///
/// # Threads
/// No other thread may use it later.
///
/// # Safety
/// As said there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_session_close(session: *mut ciphermill_session) -> ciphermill_status {
    // SAFETY: nobody uses it any more, by the caller.
    entry(|| unsafe { handle::close(session) })
}
