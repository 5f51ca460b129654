//! Asynchronous jobs of several threads that use one key, without TLS around them: what they share, and what is freed while they are
//! paused.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

#[path = "support/evp.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod evp;
mod support;

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evp::{By, KEY_PAIR, Key, MdContext, Operation, PUBLIC_KEY, Params, Said, Value};
use openssl::rsa::Rsa;

#[repr(C)]
struct RawJob {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawWaits {
    _opaque: [u8; 0],
}

type Callback = unsafe extern "C" fn(*mut c_void) -> c_int;

unsafe extern "C" {
    fn ASYNC_WAIT_CTX_new() -> *mut RawWaits;
    fn ASYNC_WAIT_CTX_free(waits: *mut RawWaits);
    fn ASYNC_WAIT_CTX_set_callback(waits: *mut RawWaits, callback: Callback, argument: *mut c_void) -> c_int;
    fn ASYNC_WAIT_CTX_get_all_fds(waits: *mut RawWaits, fds: *mut c_int, count: *mut usize) -> c_int;
    fn ASYNC_start_job(
        job: *mut *mut RawJob,
        waits: *mut RawWaits,
        result: *mut c_int,
        function: unsafe extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
        len: usize,
    ) -> c_int;
}

/// What `ASYNC_start_job` answers, of `openssl/async.h`.
const PAUSED: c_int = 2;
const FINISHED: c_int = 3;

const THREADS: usize = 4;
const JOBS: usize = 24;
const MESSAGE_LEN: usize = 40;
const NONE: &Params = &Vec::new();

/// The keys that all threads use, and what `default` says to their questions.
struct Keys {
    rsa: Key,
    rsa_default: Key,
    x25519: Key,
    peer: Key,
    secret: Said,
}

impl Keys {
    fn new() -> Keys {
        let own = Rsa::generate(2048).expect("a key");
        let number = |number: Option<&openssl::bn::BigNumRef>| Value::Number(number.expect("a number").to_vec());
        let parts = vec![
            (c"n", number(Some(own.n()))),
            (c"e", number(Some(own.e()))),
            (c"d", number(Some(own.d()))),
            (c"rsa-factor1", number(own.p())),
            (c"rsa-factor2", number(own.q())),
            (c"rsa-exponent1", number(own.dmp1())),
            (c"rsa-exponent2", number(own.dmq1())),
            (c"rsa-coefficient1", number(own.iqmp())),
        ];
        let rsa = |by| Key::of(by, c"RSA", KEY_PAIR, &parts).0.expect("a key");
        let private: Params = vec![(c"priv", Value::Octets(vec![7; 32]))];
        let public: Params = vec![(c"pub", Value::Octets(vec![9; 32]))];
        let raw = |by, parts: &Params, which| Key::of(by, c"X25519", which, parts).0.expect("a key");
        let secret = raw(By::Default, &private, KEY_PAIR).derive(&raw(By::Default, &public, PUBLIC_KEY));
        assert!(secret.is_done());
        Keys {
            rsa: rsa(By::Mill),
            rsa_default: rsa(By::Default),
            x25519: raw(By::Mill, &private, KEY_PAIR),
            peer: raw(By::Mill, &public, PUBLIC_KEY),
            secret,
        }
    }

    fn sign_by_default(&self, message: &[u8]) -> Said {
        self.rsa_default.sign(SHA256, NONE, message, 256)
    }
}

const SHA256: Option<&CStr> = Some(c"SHA256");

/// What a job is to do, and what it was told. Its contexts are not on the job's own stack, so that they can be freed while it is paused.
struct Task {
    signing: Option<MdContext>,
    deriving: Option<evp::KeyContext>,
    message: Vec<u8>,
    answer: Option<Said>,
    /// How often it was said that the job may go on.
    called: AtomicUsize,
}

struct Job {
    raw: *mut RawJob,
    waits: *mut RawWaits,
    task: Box<Task>,
}

unsafe extern "C" fn work(argument: *mut c_void) -> c_int {
    // SAFETY: a copy of the pointer to the task, which lives while the job runs.
    let task: *mut Task = unsafe { argument.cast::<*mut Task>().read() };
    // Nothing that may be freed meanwhile is borrowed for longer than its call.
    // SAFETY: as above.
    unsafe {
        let answer = match (&(*task).signing, &(*task).deriving) {
            (Some(context), _) => context.sign(&(*task).message, 256),
            (None, Some(context)) => context.derive(32),
            (None, None) => return 0,
        };
        (*task).answer = Some(answer);
    }
    1
}

unsafe extern "C" fn told(argument: *mut c_void) -> c_int {
    // SAFETY: the count of the task that waits, which lives longer than its context of waiting.
    unsafe { &*argument.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
    1
}

impl Job {
    fn new(keys: &Keys, number: usize) -> Job {
        let message = [&number.to_le_bytes()[..], &[1; MESSAGE_LEN]].concat();
        let (mut signing, mut deriving) = (None, None);
        if number % 3 == 2 {
            let context = keys.x25519.context();
            assert!(context.begin(Operation::Derive).is_done() && context.set_peer(&keys.peer).is_done());
            deriving = Some(context);
        } else {
            let context = MdContext::new();
            assert!(context.sign_init(&keys.rsa, SHA256, NONE).is_done());
            signing = Some(context);
        }
        let task = Box::new(Task { signing, deriving, message, answer: None, called: AtomicUsize::new(0) });
        // SAFETY: no precondition; a count that lives longer than the context of waiting.
        let waits = unsafe {
            let waits = ASYNC_WAIT_CTX_new();
            assert!(!waits.is_null());
            if number % 2 == 1 {
                let argument = (&raw const task.called).cast_mut().cast();
                assert_eq!(ASYNC_WAIT_CTX_set_callback(waits, told, argument), 1);
            }
            waits
        };
        Job { raw: ptr::null_mut(), waits, task }
    }

    /// Lets the job go on. Whether it is paused.
    fn step(&mut self) -> bool {
        let mut task: *mut Task = &mut *self.task;
        let mut result = -1;
        // SAFETY: the pointer is copied, and the task lives as long as the job.
        let status = unsafe {
            let argument = (&raw mut task).cast();
            ASYNC_start_job(&mut self.raw, self.waits, &mut result, work, argument, size_of::<*mut Task>())
        };
        assert!(status == PAUSED || status == FINISHED && result == 1, "a job: {status}, {result}");
        status == PAUSED
    }

    /// Whether it was said that the job may go on.
    fn is_called(&self, number: usize) -> bool {
        if number % 2 == 1 {
            return self.task.called.swap(0, Ordering::Relaxed) != 0;
        }
        let (mut fds, mut count) = ([-1; 4], 4);
        // SAFETY: a context of waiting, with fewer descriptors than there is room for; and a poll of one.
        unsafe {
            assert_eq!(ASYNC_WAIT_CTX_get_all_fds(self.waits, fds.as_mut_ptr(), &mut count), 1);
            assert_eq!(count, 1, "one descriptor");
            let mut polled = libc::pollfd { fd: fds[0], events: libc::POLLIN, revents: 0 };
            libc::poll(&mut polled, 1, 0) == 1
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: this value's own.
        unsafe { ASYNC_WAIT_CTX_free(self.waits) };
    }
}

/// Runs jobs in turns; `lose` says which of those that are paused are given up. Returns how often one was paused, and given up.
fn run(keys: &Keys, thread: usize, lose: impl Fn(usize) -> bool) -> (usize, usize) {
    let (mut pauses, mut lost) = (0, 0);
    let mut jobs: Vec<_> = (0..JOBS).map(|job| (thread * 1000 + job, Job::new(keys, thread * 1000 + job))).collect();
    let mut has_begun = false;
    let start = Instant::now();
    while !jobs.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(120), "{} jobs are stuck", jobs.len());
        let mut kept = Vec::new();
        for (number, mut job) in jobs {
            if has_begun && !job.is_called(number) {
                kept.push((number, job));
            } else if !job.step() {
                is_right(keys, number, &job);
            } else if lose(number) {
                lost += 1;
                give_up(job, number);
            } else {
                pauses += 1;
                kept.push((number, job));
            }
        }
        jobs = kept;
        has_begun = true;
    }
    (pauses, lost)
}

fn is_right(keys: &Keys, number: usize, job: &Job) {
    let expected = match job.task.signing {
        Some(_) => keys.sign_by_default(&job.task.message),
        None => keys.secret.clone(),
    };
    assert_eq!(job.task.answer.as_ref(), Some(&expected), "job {number}");
}

/// Frees all of a paused job, in one order or another.
fn give_up(mut job: Job, number: usize) {
    if number % 4 < 2 {
        (job.task.signing, job.task.deriving) = (None, None);
    }
    drop(job);
}

fn many_threads_run_jobs_with_one_key() {
    support::load();
    let keys = Keys::new();
    let pauses: usize = thread::scope(|scope| {
        let keys = &keys;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || (0..5).map(|_| run(keys, thread, |_| false).0).sum::<usize>()))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    assert!(pauses > THREADS * JOBS || !support::has_lanes(), "{pauses} pauses");
}

fn what_paused_jobs_use_is_freed_under_others() {
    support::load();
    let lost: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    // Keys of its own, which are freed with what was lost.
                    let keys = Keys::new();
                    (0..5).map(|_| run(&keys, thread, |number| number % 5 == 0).1).sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    assert!(lost > THREADS || !support::has_lanes(), "{lost} jobs were paused when they were given up");
}

/// In this order: a process that has lost many jobs pauses none for a while.
#[test]
fn jobs_share_keys_and_outlive_what_they_use() {
    many_threads_run_jobs_with_one_key();
    what_paused_jobs_use_is_freed_under_others();
}
