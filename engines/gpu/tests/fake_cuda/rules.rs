//! The double notices what it is there to notice: each rule is broken once.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::{result, sys};

use crate::double::{Double, Pace, inside};

/// A context, a stream that waits for nobody, and memory on both sides.
struct Place {
    context: sys::CUcontext,
    stream: sys::CUstream,
    device: sys::CUdeviceptr,
    host: *mut c_void,
}

const LEN: usize = 8192;

impl Place {
    fn new() -> Place {
        result::init().expect("the double");
        let mut context = null_mut();
        // SAFETY: the place is writable; the context is current behind the call.
        unsafe {
            sys::cuCtxCreate_v2(&raw mut context, 0, 0).result().expect("a context");
            Place {
                context,
                stream: result::stream::create(result::stream::StreamKind::NonBlocking).expect("a stream"),
                device: result::malloc_sync(LEN).expect("memory"),
                host: result::malloc_host(LEN, 0).expect("memory"),
            }
        }
    }

    fn host(&self) -> &'static mut [u8] {
        // SAFETY: the test frees it last, and does not touch it while the device does, unless that is what it tries.
        unsafe { std::slice::from_raw_parts_mut(self.host.cast(), LEN) }
    }

    /// Ends everything as it should be.
    unsafe fn end(&self) {
        // SAFETY: nothing is pending.
        unsafe {
            result::free_sync(self.device).expect("freed");
            result::free_host(self.host).expect("freed");
            result::stream::destroy(self.stream).expect("destroyed");
            sys::cuCtxDestroy_v2(self.context).result().expect("destroyed");
        }
    }
}

/// Runs `body` and expects what it broke in the report.
fn notices(double: &Double, what: &str, body: impl FnOnce(&Place)) {
    double.reset(3, Pace::Late);
    body(&Place::new());
    let report = double.report();
    assert!(report.contains(what), "`{what}` is missing in: {report}");
}

#[test]
fn good_manners_are_no_findings() {
    inside("rules::good_manners_are_no_findings", |double| {
        double.reset(3, Pace::Late);
        let place = Place::new();
        place.host().fill(7);
        // SAFETY: the rules are kept.
        unsafe {
            result::memcpy_htod_async(place.device, place.host(), place.stream).expect("put in line");
            result::memset_d8_async(place.device, 0, LEN / 2, place.stream).expect("put in line");
            result::memcpy_dtoh_async(place.host(), place.device, place.stream).expect("put in line");
            result::memset_d8_async(place.device, 0, LEN, place.stream).expect("put in line");
            result::stream::synchronize(place.stream).expect("done");
            assert!(place.host()[..LEN / 2] == [0; LEN / 2] && place.host()[LEN / 2..] == [7; LEN / 2]);
            place.host().fill(0);
            place.end();
        }
        double.assert_clean("good manners");
    });
}

#[test]
fn broken_rules_are_noticed() {
    inside("rules::broken_rules_are_noticed", |double| {
        // SAFETY: here and below the double stands every misuse that it is asked to notice.
        notices(double, "freed twice", |place| unsafe {
            result::free_sync(place.device).expect("freed");
            assert!(result::free_sync(place.device).is_err());
        });
        // SAFETY: as above.
        notices(double, "of device memory go with data", |place| unsafe {
            result::memset_d8_sync(place.device, 1, LEN).expect("set");
            result::ctx::synchronize().expect("done");
            result::free_sync(place.device).expect("freed");
        });
        // SAFETY: as above.
        notices(double, "pinned memory go with data", |place| unsafe {
            place.host()[LEN - 1] = 1;
            result::free_host(place.host).expect("freed");
        });
        // SAFETY: as above.
        notices(double, "freed while work that uses it is pending", |place| unsafe {
            result::memset_d8_async(place.device, 0, LEN, place.stream).expect("put in line");
            result::free_sync(place.device).expect("freed");
        });
        // SAFETY: as above.
        notices(double, "is not pinned", |place| unsafe {
            assert!(result::memcpy_htod_async(place.device, &[1u8; 16], place.stream).is_err());
        });
        // SAFETY: as above.
        notices(double, "the driver keeps a copy", |place| unsafe {
            result::memcpy_htod_sync(place.device, &[1u8; 16]).expect("put in line");
        });
        // SAFETY: as above.
        notices(double, "goes beyond its memory", |place| unsafe {
            assert!(result::memset_d8_async(place.device + 1, 0, LEN, place.stream).is_err());
        });
        // SAFETY: as above.
        notices(double, "is no device memory", |place| unsafe {
            assert!(result::memset_d8_async(place.device + (1 << 20), 0, 1, place.stream).is_err());
        });
        // SAFETY: as above.
        notices(double, "a stream is left", |place| unsafe {
            let _ = sys::cuCtxDestroy_v2(place.context);
        });
        notices(double, "a context was never destroyed", |_| {});
        // SAFETY: as above.
        notices(double, "no context is current", |place| unsafe {
            result::ctx::set_current(null_mut()).expect("none");
            assert!(result::free_sync(place.device).is_err());
        });
    });
}

#[test]
fn broken_orders_are_noticed() {
    inside("rules::broken_orders_are_noticed", |double| {
        // SAFETY: the double stands every misuse that it is asked to notice.
        notices(double, "never recorded", |_| unsafe {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).expect("an event");
            assert!(result::event::synchronize(event).is_err());
        });
        // SAFETY: as above.
        notices(double, "a setting of memory is pending", |place| unsafe {
            result::memset_d8_async(place.device, 0, LEN, place.stream).expect("put in line");
            result::stream::destroy(place.stream).expect("destroyed");
        });
        // SAFETY: as above.
        notices(double, "work is pending", |place| unsafe {
            result::memset_d8_async(place.device, 0, LEN, place.stream).expect("put in line");
            let _ = sys::cuCtxDestroy_v2(place.context);
        });
    });
}

/// What the host must not touch, it cannot touch: a process that reads too early does not live on.
#[test]
fn pinned_memory_in_flight_is_out_of_reach() {
    const TOUCHES: &str = "FAKE_CUDA_TOUCHES";
    inside("rules::pinned_memory_in_flight_is_out_of_reach", |double| {
        double.reset(3, Pace::Late);
        if std::env::var_os(TOUCHES).is_some() {
            let place = Place::new();
            // SAFETY: the copy is not waited for, which is what is tried.
            unsafe { result::memcpy_dtoh_async(place.host(), place.device, place.stream).expect("put in line") };
            panic!("the host has read {}", place.host()[0]);
        }
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
        let child = child.args(std::env::args().skip(1)).env(TOUCHES, "1").output().expect("a process");
        let said = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(!child.status.success() && said.contains("pinned memory that the device has not"), "{said}");
    });
}

#[test]
fn streams_overtake_each_other_unless_an_event_forbids_it() {
    inside("rules::streams_overtake_each_other_unless_an_event_forbids_it", |double| {
        // SAFETY: the rules are kept.
        let overtaken = |seed: u64, waits: bool| unsafe {
            double.reset(seed, Pace::Random);
            let place = Place::new();
            let other = result::stream::create(result::stream::StreamKind::NonBlocking).expect("a stream");
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).expect("an event");
            result::memset_d8_async(place.device, 1, LEN, place.stream).expect("put in line");
            result::event::record(event, place.stream).expect("put in line");
            if waits {
                let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(other, event, flags).expect("put in line");
            }
            result::memcpy_dtoh_async(place.host(), place.device, other).expect("put in line");
            result::stream::synchronize(other).expect("done");
            let early = place.host()[0] != 1;
            place.host().fill(0);
            result::memset_d8_async(place.device, 0, LEN, place.stream).expect("put in line");
            result::stream::synchronize(place.stream).expect("done");
            result::stream::destroy(other).expect("destroyed");
            result::event::destroy(event).expect("destroyed");
            place.end();
            double.assert_clean("two streams");
            early
        };
        let seeds = 0..40;
        assert!(seeds.clone().any(|seed| overtaken(seed, false)) && !seeds.clone().all(|seed| overtaken(seed, false)));
        assert!(!seeds.clone().any(|seed| overtaken(seed, true)));
    });
}
