//! Sessions side by side and in turn, lost and refused, with a module that counts what is asked of it.

use super::*;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use cryptoki_sys::{
    CK_BBOOL, CK_FLAGS, CK_FUNCTION_LIST, CK_NOTIFY, CK_SESSION_HANDLE, CK_TOKEN_INFO, CK_ULONG, CK_USER_TYPE,
    CK_UTF8CHAR, CKR_DEVICE_REMOVED, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_OK, CKR_SESSION_CLOSED,
};
use std::ffi::c_void;
use std::sync::{Barrier, Mutex, PoisonError, mpsc};
use std::thread;

/// What the module has now, and was asked for.
#[derive(Default)]
struct Counts {
    open: usize,
    opened: usize,
    logins: usize,
    destroyed: usize,
    /// Sessions that were open when another one was opened.
    beside: usize,
    /// What opening a session and logging in end with.
    opens: CK_RV,
    admits: CK_RV,
    /// What the token says of itself.
    flags: CK_FLAGS,
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts {
    open: 0,
    opened: 0,
    logins: 0,
    destroyed: 0,
    beside: 0,
    opens: CKR_OK,
    admits: CKR_OK,
    flags: 0,
});

fn counts() -> MutexGuard<'static, Counts> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn slots(_: CK_BBOOL, list: *mut CK_SLOT_ID, count: *mut CK_ULONG) -> CK_RV {
    // SAFETY: the caller has room for the number, and for as many slots as it said then.
    unsafe {
        if !list.is_null() {
            *list = 7;
        }
        *count = 1;
    }
    CKR_OK
}

unsafe extern "C" fn info(_: CK_SLOT_ID, info: *mut CK_TOKEN_INFO) -> CK_RV {
    // SAFETY: the caller has room for it.
    unsafe { *info = CK_TOKEN_INFO { flags: counts().flags, ..CK_TOKEN_INFO::default() } };
    CKR_OK
}

unsafe extern "C" fn open(
    _: CK_SLOT_ID,
    _: CK_FLAGS,
    _: *mut c_void,
    _: CK_NOTIFY,
    handle: *mut CK_SESSION_HANDLE,
) -> CK_RV {
    let mut counts = counts();
    counts.opened += 1;
    if counts.opens == CKR_OK {
        counts.beside = counts.open;
        counts.open += 1;
        // SAFETY: the caller has room for it.
        unsafe { *handle = counts.opened as CK_SESSION_HANDLE };
    }
    counts.opens
}

unsafe extern "C" fn close(_: CK_SESSION_HANDLE) -> CK_RV {
    counts().open -= 1;
    CKR_OK
}

unsafe extern "C" fn login(_: CK_SESSION_HANDLE, _: CK_USER_TYPE, _: *mut CK_UTF8CHAR, _: CK_ULONG) -> CK_RV {
    counts().logins += 1;
    counts().admits
}

unsafe extern "C" fn destroy(_: CK_SESSION_HANDLE, _: CK_OBJECT_HANDLE) -> CK_RV {
    counts().destroyed += 1;
    CKR_OK
}

/// A test with a token of so many sessions, one test after the other.
fn with_token(sessions: usize, pin: bool, test: impl FnOnce(&Token)) {
    static TURN: Mutex<()> = Mutex::new(());
    static LIST: std::sync::OnceLock<CK_FUNCTION_LIST> = std::sync::OnceLock::new();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    *counts() = Counts::default();
    let list = LIST.get_or_init(|| CK_FUNCTION_LIST {
        C_GetSlotList: Some(slots),
        C_GetTokenInfo: Some(info),
        C_OpenSession: Some(open),
        C_CloseSession: Some(close),
        C_Login: Some(login),
        C_DestroyObject: Some(destroy),
        ..CK_FUNCTION_LIST::default()
    });
    let pin = pin.then(|| SecretBytes::from_slice(b"1234").expect("memory"));
    let opening = Opening { sessions, pin, ..Opening::new("fake", Path::new("none"), Place::Slot(7)) };
    let token = Token::of(opening, Arc::new(Module::of(list)));
    test(&token);
    drop(token);
    assert_eq!(counts().open, 0, "all sessions are closed at the end");
}

#[test]
fn as_many_calls_as_sessions_run_side_by_side() {
    with_token(3, false, |token| {
        let (all, inside, most) = (Barrier::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                // A fourth could not enter while three wait for each other, and each would wait for ever alone.
                scope.spawn(|| token.with(|_| Ok(all.wait().is_leader())));
            }
        });
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    token.with(|_| {
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(5));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        Ok(())
                    })
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!(counts().opened, 3);
    });
}

#[test]
fn one_session_is_used_in_turn() {
    with_token(1, false, |token| {
        let busy = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    token.with(|connection| {
                        assert!(!busy.swap(true, Ordering::SeqCst), "two at once");
                        thread::sleep(Duration::from_millis(2));
                        busy.store(false, Ordering::SeqCst);
                        assert_eq!(connection.number, 1);
                        Ok(())
                    })
                });
            }
        });
        assert_eq!(counts().opened, 1);
    });
}

#[test]
fn a_refused_request_costs_its_own_session_alone() {
    with_token(2, false, |token| {
        token
            .with(|first| {
                let refused: Result<(), Failure> = token.with(|_| Err(CKR_KEY_FUNCTION_NOT_PERMITTED.into()));
                assert_eq!(refused, Err(Failure::Call(CKR_KEY_FUNCTION_NOT_PERMITTED)));
                // The other one stays, and a third takes the place of the one that is gone.
                assert_eq!(token.with(|third| Ok(third.number)), Ok(3));
                assert_eq!(first.number, 1);
                Ok(())
            })
            .expect("no call fails");
        let counts = counts();
        assert_eq!((counts.opened, counts.open), (3, 2));
    });
}

#[test]
fn after_a_loss_no_session_is_opened_beside_one_from_before() {
    with_token(2, false, |token| {
        let (entered, wait) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || token.with(|_| Ok(entered.send(()).map(|()| left.recv()))));
            wait.recv().expect("it has entered");
            let lost: Result<(), Failure> = token.with(|_| Err(CKR_DEVICE_REMOVED.into()));
            assert_eq!(lost, Err(Failure::Call(CKR_DEVICE_REMOVED)));
            let after = scope.spawn(|| token.with(|connection| Ok(connection.number)));
            thread::sleep(Duration::from_millis(20));
            assert!(!after.is_finished(), "it waits for the session that somebody still has");
            leave.send(()).expect("it waits");
            assert_eq!(after.join().expect("no panic"), Ok(3));
        });
        assert_eq!(counts().beside, 0);
    });
}

#[test]
fn a_refused_pin_is_not_tried_again() {
    with_token(2, true, |token| {
        counts().admits = CKR_PIN_INCORRECT;
        for _ in 0..3 {
            assert_eq!(token.with(|_| Ok(())), Err(Failure::Call(CKR_PIN_INCORRECT)));
            thread::sleep(Duration::from_millis(60));
        }
        let counts = counts();
        assert_eq!((counts.logins, counts.open), (1, 0));
    });
}

#[test]
fn the_last_try_of_a_pin_is_left_to_a_person() {
    with_token(2, true, |token| {
        counts().flags = CKF_USER_PIN_FINAL_TRY;
        assert_eq!(token.with(|_| Ok(())), Err(Failure::Call(CKR_PIN_LOCKED)));
        let counts = counts();
        assert_eq!((counts.logins, counts.open), (0, 0));
    });
}

#[test]
fn a_closed_token_opens_nothing_and_closes_what_comes_back() {
    with_token(2, false, |token| {
        token.with(|_| Ok(())).expect("a session");
        let (inside, closed) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                token.with(|_| {
                    inside.wait();
                    closed.wait();
                    Ok(())
                })
            });
            inside.wait();
            token.close();
            assert_eq!(token.with(|_| Ok(())), Err(Failure::Call(CKR_SESSION_CLOSED)));
            assert_eq!(counts().open, 1, "one is in use");
            closed.wait();
        });
        assert_eq!(counts().open, 0);
        assert_eq!(token.with(|_| Ok(())), Err(Failure::Call(CKR_SESSION_CLOSED)));
    });
}

#[test]
fn a_token_that_is_away_is_asked_again_after_a_while() {
    with_token(2, false, |token| {
        counts().opens = CKR_DEVICE_REMOVED;
        for _ in 0..3 {
            assert_eq!(token.with(|_| Ok(())), Err(Failure::Call(CKR_DEVICE_REMOVED)));
        }
        assert_eq!(counts().opened, 1);
        counts().opens = CKR_OK;
        thread::sleep(Duration::from_millis(60));
        assert_eq!(token.with(|_| Ok(())), Ok(()));
    });
}

#[test]
fn with_fewer_sessions_than_wished_those_that_are_open_serve_all() {
    with_token(3, false, |token| {
        let (entered, wait) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                token.with(|_| {
                    entered.send(()).expect("somebody waits");
                    thread::sleep(Duration::from_millis(20));
                    Ok(())
                })
            });
            wait.recv().expect("it has entered");
            counts().opens = cryptoki_sys::CKR_SESSION_COUNT;
            assert_eq!(token.with(|connection| Ok(connection.number)), Ok(1));
        });
    });
}

#[test]
fn objects_are_destroyed_at_once_or_when_their_session_comes_back() {
    with_token(2, false, |token| {
        token.with(|_| Ok(())).expect("opens");
        token.destroy(1, 5);
        assert_eq!(counts().destroyed, 1);
        token
            .with(|connection| {
                token.destroy(connection.number, 6);
                token.destroy(99, 6);
                assert_eq!(counts().destroyed, 1, "somebody uses the session");
                Ok(())
            })
            .expect("no call fails");
        assert_eq!(counts().destroyed, 2);
    });
}

#[test]
fn a_panic_gives_the_session_up_and_not_the_token() {
    with_token(1, false, |token| {
        let panicked =
            thread::scope(|scope| scope.spawn(|| token.with(|_| -> Result<(), Failure> { panic!() })).join());
        assert!(panicked.is_err());
        assert_eq!(token.with(|connection| Ok(connection.number)), Ok(2));
    });
}
