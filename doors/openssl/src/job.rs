//! Operations of asynchronous jobs (`ASYNC_JOB`): a connection whose operation shares a batch with those of other connections is
//! paused meanwhile.
//!
//! Nobody waits by the clock, and no thread is woken. A job that pauses makes its descriptor readable at once where the mill
//! would have a task yield; the application comes back to it in the next turn of its loop, and by then every other connection
//! that is ready has added its own operation. Whoever is resumed first runs the batch on the application's thread.
//!
//! An application may end a connection whose job is paused. The job is lost then, and its stack with it, so that nothing
//! of an operation lies there: it is owned by the connection's context of waiting, which frees it. Where many are lost, none is paused
//! for a while.

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

use ciphermill::{One, OneDone, OneFuture};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use zeroize::Zeroizing;

use crate::backend::{Backend, generation};
use crate::ffi::{self, AsyncCallback, WaitContext};
use crate::operation::Operation;
use crate::stack::on_own_stack;

/// Jobs that a process may lose, and for how many operations of jobs it may lose one more: beyond that none is paused, until as many
/// operations have been done. What a job has on its stack, and the stack itself, some 40 KB, OpenSSL does not free then: whoever opens
/// connections only to leave them must not take more than that, nor end the sharing of batches for ever.
const LOST_MAX: u64 = 64;
const OPERATIONS_FOR_LOST: u64 = 1024;

static LOST: AtomicU64 = AtomicU64::new(0);
static OPERATIONS: AtomicU64 = AtomicU64::new(0);

/// What our descriptor is found by among those of a context of waiting.
static KEY: u8 = 0;

/// The asynchronous job that calls.
pub(crate) struct Job {
    waits: NonNull<WaitContext>,
}

/// What a connection waits with. Its context of waiting owns it.
struct Waiter {
    signal: Arc<Signal>,
    waker: Waker,
    request: Option<Request>,
    /// The process that has opened the descriptor.
    generation: u64,
}

/// Tells an application that a job may go on.
struct Signal {
    /// Opened when the job is first paused: most operations end before.
    fd: OnceLock<OwnedFd>,
    callback: Mutex<Callback>,
    /// Told when a call has ended.
    ended: Condvar,
}

/// What an application wants to have called instead.
#[derive(Default)]
struct Callback {
    /// None when its context of waiting is gone.
    called: Option<Called>,
    /// The threads that are calling it.
    callers: Vec<ThreadId>,
    /// Whether the job may go on, and there was no descriptor yet that could say so.
    is_early: bool,
}

#[derive(Clone, Copy)]
struct Called {
    function: AsyncCallback,
    argument: *mut c_void,
}

// SAFETY: the application says that its function may be called by any thread.
unsafe impl Send for Called {}

/// An operation on its way.
struct Request {
    /// Which of all operations of the process it is.
    number: u64,
    /// The process whose mill it is on its way through.
    generation: u64,
    is_ended: bool,
    /// Borrows the buffers of `operation`, so that it is dropped before them.
    future: ManuallyDrop<Pin<Box<OneFuture<'static>>>>,
    operation: Box<Operation>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut callback = self.lock();
        if let Some(Called { function, argument }) = callback.called {
            let own = thread::current().id();
            callback.callers.push(own);
            drop(callback);
            // SAFETY: the context of waiting that it belongs to lives: whoever frees it waits until this call has ended, or is
            // called by it. No lock is held, since the function may do anything.
            unsafe { function(argument) };
            let mut callback = self.lock();
            if let Some(at) = callback.callers.iter().position(|caller| *caller == own) {
                callback.callers.swap_remove(at);
            }
            self.ended.notify_all();
            return;
        }
        match self.fd.get() {
            Some(fd) => {
                drop(callback);
                raise(fd);
            }
            None => callback.is_early = true,
        }
    }
}

/// Makes a descriptor readable.
fn raise(fd: &OwnedFd) {
    // Full, it is readable already.
    let _ = write(fd, &1_u64.to_ne_bytes());
}

/// A descriptor that is not readable.
fn open() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).ok()
}

impl Request {
    fn new(backend: &'static Backend, operation: Operation) -> Request {
        let mut operation = Box::new(operation);
        let (suite, direction, one) = operation.as_one();
        // SAFETY: the buffers are boxed and stay where they are; nobody touches them before the future is dropped, which
        // happens before they are.
        let one = unsafe { std::mem::transmute::<One<'_>, One<'static>>(one) };
        let future = ManuallyDrop::new(Box::pin(backend.mill.submit_one(suite, direction, one)));
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Request { number, generation: backend.generation(), is_ended: false, future, operation }
    }

    /// Whether this process has begun it. A child of the one that has must not touch its mill.
    fn is_own(&self) -> bool {
        self.generation == generation()
    }

    /// The operation, when its future is done or not to be waited for any more.
    fn into_operation(mut self) -> Operation {
        self.end();
        let empty = Operation { data: Zeroizing::default(), tag: Vec::new(), ..*self.operation };
        mem::replace(&mut *self.operation, empty)
    }

    fn end(&mut self) {
        if !self.is_ended {
            self.is_ended = true;
            if self.is_own() {
                // SAFETY: dropped once, as the flag says.
                unsafe { ManuallyDrop::drop(&mut self.future) };
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.end();
    }
}

impl Job {
    /// The job that this thread is running, if it is one and may be paused for an operation.
    pub(crate) fn current() -> Option<Job> {
        // SAFETY: functions without preconditions; a job has a context of waiting.
        unsafe {
            let job = ffi::ASYNC_get_current_job();
            if job.is_null() {
                return None;
            }
            let done = OPERATIONS.fetch_add(1, Ordering::Relaxed);
            if LOST.load(Ordering::Relaxed) > LOST_MAX + done / OPERATIONS_FOR_LOST {
                return None;
            }
            NonNull::new(ffi::ASYNC_get_wait_ctx(job)).map(|waits| Job { waits })
        }
    }

    /// Runs an operation, and pauses while it waits for others. Returns it with what became of it; `None` for an error, or where
    /// there is no memory or no descriptor left.
    pub(crate) fn run(&self, backend: &'static Backend, operation: Operation) -> Option<(Operation, OneDone)> {
        let request = on_own_stack(|| Request::new(backend, operation))?;
        let number = request.number;
        let (mut place, mut fresh) = match self.known() {
            Some(known) => (known, None),
            None => {
                let mut fresh = Box::new(Waiter::new());
                (NonNull::from(&mut *fresh), Some(fresh))
            }
        };
        // SAFETY: the waiter is this job's own until its context of waiting is freed, which does not happen while the job runs.
        let waiter = unsafe { place.as_mut() };
        if waiter.generation != generation() {
            waiter.signal.renew()?;
            waiter.generation = generation();
        }
        waiter.signal.lock().called = self.callback();
        waiter.request = Some(request);
        loop {
            // SAFETY: as above; a job that is resumed has its context still.
            let Waiter { waker, request, .. } = unsafe { place.as_mut() };
            // Another job with the same context of waiting has begun another operation; or this is a child of who began it.
            let Request { future, .. } = request.as_mut().filter(|own| own.number == number && own.is_own())?;
            let polled = on_own_stack(|| future.as_mut().poll(&mut Context::from_waker(waker)))?;
            if let Poll::Ready(done) = polled {
                return Some((request.take()?.into_operation(), done.ok()?));
            }
            if let Some(waiter) = fresh.take() {
                place = self.register(waiter)?;
            }
            // SAFETY: within a job. No lock is held, and this stack owns nothing, since it may be lost here.
            if unsafe { ffi::ASYNC_pause_job() } != 1 {
                return None;
            }
            // SAFETY: as above.
            let waiter = unsafe { place.as_ref() };
            // A child's descriptor is its parent's too.
            if waiter.request.as_ref().is_some_and(Request::is_own) {
                waiter.signal.clear();
            }
        }
    }

    /// The waiter that an earlier operation of this connection has left.
    fn known(&self) -> Option<NonNull<Waiter>> {
        let (mut fd, mut custom) = (-1, ptr::null_mut());
        // SAFETY: the context is that of the running job.
        let found =
            unsafe { ffi::ASYNC_WAIT_CTX_get_fd(self.waits.as_ptr(), (&raw const KEY).cast(), &mut fd, &mut custom) };
        NonNull::new(custom.cast::<Waiter>()).filter(|_| found == 1)
    }

    /// Hands a waiter over to the context of waiting. `None` when that does not take it.
    fn register(&self, waiter: Box<Waiter>) -> Option<NonNull<Waiter>> {
        let (key, fd) = ((&raw const KEY).cast::<c_void>(), waiter.signal.descriptor()?.as_raw_fd());
        let place = NonNull::from(Box::leak(waiter));
        let custom = place.as_ptr().cast::<c_void>();
        // SAFETY: the context is that of the running job; the waiter stays until `free_waiter` is called.
        let taken = unsafe { ffi::ASYNC_WAIT_CTX_set_wait_fd(self.waits.as_ptr(), key, fd, custom, Some(free_waiter)) };
        if taken != 1 {
            // SAFETY: nobody else was told of it.
            drop(unsafe { Box::from_raw(place.as_ptr()) });
            return None;
        }
        Some(place)
    }

    fn callback(&self) -> Option<Called> {
        let (mut function, mut argument) = (None, ptr::null_mut());
        // SAFETY: the context is that of the running job.
        let found = unsafe { ffi::ASYNC_WAIT_CTX_get_callback(self.waits.as_ptr(), &mut function, &mut argument) };
        function.filter(|_| found == 1).map(|function| Called { function, argument })
    }
}

impl Waiter {
    fn new() -> Waiter {
        let signal = Arc::new(Signal { fd: OnceLock::new(), callback: Mutex::default(), ended: Condvar::new() });
        let waker = Waker::from(Arc::clone(&signal));
        Waiter { signal, waker, request: None, generation: generation() }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.signal.silence();
    }
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, Callback> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has nothing called any more, once the calls of other threads have ended.
    fn silence(&self) {
        let mut callback = self.lock();
        callback.called = None;
        let own = thread::current().id();
        while callback.callers.iter().any(|caller| *caller != own) {
            callback = self.ended.wait(callback).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The descriptor, readable if the job may go on already. `None` when none can be opened.
    fn descriptor(&self) -> Option<&OwnedFd> {
        let mut callback = self.lock();
        if self.fd.get().is_none() {
            // Nobody else sets it: the lock is held.
            let _ = self.fd.set(open()?);
        }
        let fd = self.fd.get()?;
        if mem::take(&mut callback.is_early) {
            raise(fd);
        }
        Some(fd)
    }

    /// Puts a descriptor of this process in the place of its parent's, which would hear what is said here, and the other way about.
    fn renew(&self) -> Option<()> {
        let (fresh, old) = (open()?, self.descriptor()?);
        // SAFETY: both are open, and whoever has the number of the old one is to have the new one.
        (unsafe { libc::dup3(fresh.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) } >= 0).then_some(())
    }

    /// Makes the descriptor unreadable until the next signal.
    fn clear(&self) {
        let mut count = [0; 8];
        if let Some(fd) = self.fd.get() {
            // Empty, it is so already.
            let _ = read(fd.as_fd(), &mut count);
        }
    }
}

/// Frees what a connection has waited with, an operation that is still on its way included.
unsafe extern "C" fn free_waiter(_: *mut WaitContext, _: *const c_void, _: c_int, custom: *mut c_void) {
    let Some(waiter) = NonNull::new(custom.cast::<Waiter>()) else { return };
    // SAFETY: what `register` handed over, once.
    let waiter = unsafe { Box::from_raw(waiter.as_ptr()) };
    if waiter.request.is_some() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
    // An operation that is dropped on its way may wake others; nothing of that may reach the application as a panic.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(waiter)));
}
