//! Operations of asynchronous jobs (`ASYNC_JOB`): a connection whose operation shares a batch with those of other connections is
//! paused meanwhile.
//!
//! Nobody waits by the clock, and no thread is woken. A job that pauses makes its descriptor readable at once where the mill
//! would have a task yield; the application comes back to it in the next turn of its loop, and by then every other connection
//! that is ready has added its own operation. Whoever is resumed first runs the batch on the application's thread.
//!
//! An application may end a connection whose job is paused. The job is lost then, and its stack with it, so that nothing
//! of an operation lies there: it is owned by the connection's context of waiting, which frees it.

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use ciphermill::{One, OneDone, OneFuture};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

use crate::backend::Backend;
use crate::ffi::{self, AsyncCallback, WaitContext};
use crate::operation::Operation;
use crate::stack::on_own_stack;

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
}

/// Tells an application that a job may go on.
struct Signal {
    fd: OwnedFd,
    /// What the application wants to have called instead, as long as its context of waiting lives.
    callback: Mutex<Option<Called>>,
}

struct Called {
    function: AsyncCallback,
    argument: *mut c_void,
}

// SAFETY: the application says that its function may be called by any thread.
unsafe impl Send for Called {}

/// An operation on its way.
struct Request {
    /// Borrows the buffers of `operation`, so that it is dropped before them.
    future: Pin<Box<OneFuture<'static>>>,
    operation: Box<Operation>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Called { function, argument }) = &*callback {
            // SAFETY: the context of waiting that it belongs to lives: its end takes the callback away, under this lock.
            unsafe { function(*argument) };
            return;
        }
        drop(callback);
        // Full, it is readable already.
        let _ = write(&self.fd, &1_u64.to_ne_bytes());
    }
}

impl Request {
    fn new(backend: &'static Backend, operation: Operation) -> Request {
        let mut operation = Box::new(operation);
        let (suite, direction, one) = operation.as_one();
        // SAFETY: the buffers are boxed and stay where they are; nobody touches them before the future is dropped, which
        // happens before they are.
        let one = unsafe { std::mem::transmute::<One<'_>, One<'static>>(one) };
        Request { future: Box::pin(backend.mill.submit_one(suite, direction, one)), operation }
    }
}

impl Job {
    /// The job that this thread is running, if it is one.
    pub(crate) fn current() -> Option<Job> {
        // SAFETY: functions without preconditions; a job has a context of waiting.
        unsafe {
            let job = ffi::ASYNC_get_current_job();
            if job.is_null() {
                return None;
            }
            NonNull::new(ffi::ASYNC_get_wait_ctx(job)).map(|waits| Job { waits })
        }
    }

    /// Runs an operation, and pauses while it waits for others. Returns it with what became of it; `None` for an error, or where
    /// there are no descriptors left.
    pub(crate) fn run(&self, backend: &'static Backend, operation: Operation) -> Option<(Operation, OneDone)> {
        let (mut waiter, is_known) = match self.known() {
            Some(known) => (known, true),
            None => (NonNull::from(Box::leak(Box::new(Waiter::new(self)?))), false),
        };
        // SAFETY: the waiter is this job's own until its context of waiting is freed, which does not happen while the job runs.
        unsafe { waiter.as_mut() }.request = Some(Request::new(backend, operation));
        let mut is_registered = is_known;
        let done = loop {
            // SAFETY: as above; a job that is resumed has its context still.
            let Waiter { waker, request, .. } = unsafe { waiter.as_mut() };
            let Some(Request { future, .. }) = request else { break None };
            let polled = on_own_stack(|| future.as_mut().poll(&mut Context::from_waker(waker)));
            match polled {
                Poll::Ready(done) => break done.ok(),
                Poll::Pending => {}
            }
            if !is_registered && !self.register(waiter) {
                break None;
            }
            is_registered = true;
            // SAFETY: within a job. No lock is held, and this stack owns nothing, since it may be lost here.
            if unsafe { ffi::ASYNC_pause_job() } != 1 {
                break None;
            }
            // SAFETY: as above.
            unsafe { waiter.as_ref() }.signal.clear();
        };
        // SAFETY: as above.
        let request = unsafe { waiter.as_mut() }.request.take();
        if !is_registered {
            // SAFETY: nobody else was told of it.
            drop(unsafe { Box::from_raw(waiter.as_ptr()) });
        }
        let Request { future, operation } = request?;
        drop(future);
        Some((*operation, done?))
    }

    /// The waiter that an earlier operation of this connection has left.
    fn known(&self) -> Option<NonNull<Waiter>> {
        let (mut fd, mut custom) = (-1, ptr::null_mut());
        // SAFETY: the context is that of the running job.
        let found =
            unsafe { ffi::ASYNC_WAIT_CTX_get_fd(self.waits.as_ptr(), (&raw const KEY).cast(), &mut fd, &mut custom) };
        NonNull::new(custom.cast::<Waiter>()).filter(|_| found == 1)
    }

    /// Hands a waiter over to the context of waiting; whether that took it.
    fn register(&self, waiter: NonNull<Waiter>) -> bool {
        // SAFETY: the waiter is this job's own.
        let (key, fd) = ((&raw const KEY).cast::<c_void>(), unsafe { waiter.as_ref() }.signal.fd.as_raw_fd());
        let custom = waiter.as_ptr().cast::<c_void>();
        // SAFETY: the context is that of the running job; the waiter stays until `free_waiter` is called.
        unsafe { ffi::ASYNC_WAIT_CTX_set_wait_fd(self.waits.as_ptr(), key, fd, custom, Some(free_waiter)) == 1 }
    }

    fn callback(&self) -> Option<Called> {
        let (mut function, mut argument) = (None, ptr::null_mut());
        // SAFETY: the context is that of the running job.
        let found = unsafe { ffi::ASYNC_WAIT_CTX_get_callback(self.waits.as_ptr(), &mut function, &mut argument) };
        function.filter(|_| found == 1).map(|function| Called { function, argument })
    }
}

impl Waiter {
    fn new(job: &Job) -> Option<Waiter> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).ok()?;
        let signal = Arc::new(Signal { fd, callback: Mutex::new(job.callback()) });
        let waker = Waker::from(Arc::clone(&signal));
        Some(Waiter { signal, waker, request: None })
    }
}

impl Signal {
    /// Makes the descriptor unreadable until the next signal.
    fn clear(&self) {
        let mut count = [0; 8];
        // Empty, it is so already.
        let _ = read(self.fd.as_fd(), &mut count);
    }
}

/// Frees what a connection has waited with, an operation that is still on its way included.
unsafe extern "C" fn free_waiter(_: *mut WaitContext, _: *const c_void, _: c_int, custom: *mut c_void) {
    let Some(waiter) = NonNull::new(custom.cast::<Waiter>()) else { return };
    // SAFETY: what `register` handed over, once.
    let waiter = unsafe { Box::from_raw(waiter.as_ptr()) };
    *waiter.signal.callback.lock().unwrap_or_else(PoisonError::into_inner) = None;
    // An operation that is dropped on its way may wake others; nothing of that may reach the application as a panic.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(waiter)));
}
