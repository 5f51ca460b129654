//! The C library's own functions behind those of the same names here.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{RTLD_NEXT, msghdr, size_t, sockaddr, socklen_t, ssize_t};

/// One of them, looked up when it is first called.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; null where the C library has none, which no caller of such a function can have linked to.
    fn find(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with a zero, as `CStr` has it.
        let found = unsafe { libc::dlsym(RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Sets `errno` and returns -1, as functions of the C library do that fail.
pub(crate) fn fails(errno: c_int) -> c_int {
    // SAFETY: the C library gives the calling thread's own number, which nobody else writes.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Declares functions that call the C library's own, with its arguments and result.
macro_rules! next {
    ($( fn $name:ident = $text:literal ($($argument:ident: $kind:ty),*) -> $result:ty; )*) => {$(
        /// The C library's own.
        ///
        /// # Safety
        /// As of that function.
        pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
            static NEXT: Next = Next::new($text);
            let found = NEXT.find();
            if found.is_null() {
                return fails(libc::ENOSYS) as $result;
            }
            // SAFETY: a function of that name in the C library has these arguments and this result.
            let function = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> $result>(found) };
            // SAFETY: the caller upholds what the function asks for.
            unsafe { function($($argument),*) }
        }
    )*};
}

next! {
    fn socket = c"socket" (domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind = c"bind" (fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn connect = c"connect" (fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn getsockname = c"getsockname" (fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getsockopt = c"getsockopt" (fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    fn setsockopt = c"setsockopt" (fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    fn send = c"send" (fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto = c"sendto" (fd: c_int, bytes: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    fn sendmsg = c"sendmsg" (fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn recv = c"recv" (fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn recvfrom = c"recvfrom" (fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    fn recvmsg = c"recvmsg" (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn recv_chk = c"__recv_chk" (fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn recvfrom_chk = c"__recvfrom_chk" (fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    fn dup = c"dup" (fd: c_int) -> c_int;
    fn dup2 = c"dup2" (fd: c_int, to: c_int) -> c_int;
    fn dup3 = c"dup3" (fd: c_int, to: c_int, flags: c_int) -> c_int;
}
