//! Arenas, regions, guarded buffers and secrets from outside: limits, seals, alignment, faults.
#![allow(unsafe_code, reason = "writes where it must not be possible")]
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use ciphermill_memory::{
    ARENA_MAX, Align, Arena, GUARDED_MAX, GuardedBuf, MemoryError, Region, SECRET_MAX, SecretBytes, SecretPool, Wipe,
    protect_process,
};

const CHILD: &str = "CIPHERMILL_MEMORY_TEST_CHILD";

/// Runs `deed` in a second process: this very test, started again by name. `None` is returned in that process, if the deed
/// returns.
fn in_child(test: &str, case: &str, deed: impl FnOnce()) -> Option<ExitStatus> {
    match std::env::var(CHILD) {
        Ok(asked) => {
            if asked == case {
                protect_process().unwrap();
                deed();
            }
            None
        }
        Err(_) => {
            let program = std::env::current_exe().unwrap();
            let mut child = Command::new(program);
            Some(child.args(["--exact", test, "--quiet"]).env(CHILD, case).output().unwrap().status)
        }
    }
}

fn assert_dies(test: &str, case: &str, deed: impl FnOnce()) {
    if let Some(status) = in_child(test, case, deed) {
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{case}: {status}");
    }
}

fn write_at(buf: &mut GuardedBuf, offset: isize) {
    // SAFETY: none; the address lies outside of the buffer. The child that does this is expected to die of it.
    unsafe { buf.as_mut_ptr().offset(offset).write_volatile(1) }
}

fn read_at(buf: &GuardedBuf, offset: isize) {
    // SAFETY: none, as in `write_at`.
    unsafe { buf.as_ptr().offset(offset).read_volatile() };
}

#[test]
fn guard_pages_kill() {
    let test = "guard_pages_kill";
    for len in [0, 1, 16, 4095, 4096, 4097] {
        let end = || GuardedBuf::new(len, Align::End).unwrap();
        let start = || GuardedBuf::new(len, Align::Start).unwrap();
        assert_dies(test, &format!("write past the end of {len}"), || write_at(&mut end(), len as isize));
        assert_dies(test, &format!("read past the end of {len}"), || read_at(&end(), len as isize));
        assert_dies(test, &format!("write before the start of {len}"), || write_at(&mut start(), -1));
        assert_dies(test, &format!("read before the start of {len}"), || read_at(&start(), -1));
    }
    // The machinery can tell a death from a life.
    let lives = in_child(test, "inside", || write_at(&mut GuardedBuf::new(16, Align::End).unwrap(), 15));
    assert!(lives.is_none_or(|status| status.success()));
}

#[test]
fn guarded_buffers_are_zeroed_flush_and_watch_their_slack() {
    for len in [0, 1, 63, 4096, 5000] {
        for align in [Align::End, Align::Start] {
            let mut buf = GuardedBuf::new(len, align).unwrap();
            assert_eq!(&buf[..], vec![0; len]);
            let flush = match align {
                Align::End => buf.as_ptr() as usize + len,
                Align::Start => buf.as_ptr() as usize,
            };
            assert!(flush.is_multiple_of(4096));
            buf.fill(0xff);
            assert!(buf.slack_is_intact());
        }
    }
    let mut buf = GuardedBuf::from_slice(b"abc", Align::End).unwrap();
    assert_eq!(&buf[..], b"abc");
    write_at(&mut buf, -1);
    assert!(!buf.slack_is_intact());
    let mut buf = GuardedBuf::from_slice(b"abc", Align::Start).unwrap();
    buf.lock().unwrap();
    write_at(&mut buf, 3);
    assert!(!buf.slack_is_intact());
    assert_eq!(format!("{buf:?}"), "GuardedBuf { len: 3, .. }");
}

#[test]
fn hostile_lengths_are_refused_by_name() {
    for len in [ARENA_MAX + 1, 1 << 40, usize::MAX - 4095, usize::MAX] {
        let too_large = |what, limit_name, limit: usize| MemoryError::TooLarge {
            what,
            limit_name,
            limit: limit as u64,
            asked: len as u64,
        };
        assert_eq!(Arena::heap(len).unwrap_err(), too_large("arena", "ARENA_MAX", ARENA_MAX));
        assert_eq!(Region::create("x", len).unwrap_err(), too_large("region", "ARENA_MAX", ARENA_MAX));
        assert_eq!(SecretBytes::zeroed(len).unwrap_err(), too_large("secret", "SECRET_MAX", SECRET_MAX));
        let guarded = GuardedBuf::new(len, Align::End).unwrap_err();
        assert_eq!(guarded, too_large("guarded buffer", "GUARDED_MAX", GUARDED_MAX));
    }
    let text = Arena::heap(ARENA_MAX + 1).unwrap_err().to_string();
    assert_eq!(text, "arena: 4294967296 bytes asked for, ARENA_MAX is 4294967295");
}

#[test]
fn the_largest_arena_and_region_can_be_had() {
    // Pages become real when they are touched, so this costs two of each.
    let mut arena = Arena::heap(ARENA_MAX).unwrap().with_wipe(Wipe::No);
    assert_eq!(arena.len(), ARENA_MAX);
    arena[ARENA_MAX - 1] = 1;
    assert_eq!((arena[0], arena[ARENA_MAX - 1]), (0, 1));
    let region = Region::create("largest", ARENA_MAX).unwrap();
    assert_eq!(region.len(), ARENA_MAX);
    let (mut first, mut last) = ([7], [7]);
    assert!(region.write(ARENA_MAX - 1, &[1]) && region.read(0, &mut first) && region.read(ARENA_MAX - 1, &mut last));
    assert_eq!((first, last), ([0], [1]));
}

#[test]
fn arenas_are_zeroed_and_aligned() {
    for len in [0, 1, 63, 64, 4096, (128 << 10) - 1, 128 << 10, 1 << 20] {
        let mut arena = Arena::heap(len).unwrap();
        assert_eq!((arena.len(), arena.is_empty()), (len, len == 0));
        assert!((arena.as_ptr() as usize).is_multiple_of(64));
        assert!(arena.iter().all(|&byte| byte == 0));
        arena.fill(0xee);
        assert!(arena.iter().all(|&byte| byte == 0xee));
    }
    assert!(format!("{:?}", Arena::heap(1 << 20).unwrap()).starts_with("Arena { len: 1048576, backing: \"mapped\""));
}

/// A second descriptor of a region's file.
fn file_of(region: &Region) -> File {
    File::from(region.file().try_clone_to_owned().unwrap())
}

#[test]
fn memory_files_are_sealed_and_shared() {
    let region = Region::create("sealed", 5000).unwrap();
    let file = file_of(&region);
    for len in [0, 4999, 5001, 1 << 20] {
        let refused = file.set_len(len).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "resizing to {len}");
    }
    // SAFETY: F_ADD_SEALS takes an integer.
    let sealed_again = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
    assert_eq!(sealed_again, -1, "the set of seals is sealed");

    let peer = Region::join(file.into()).unwrap();
    let at = |region: &Region, at| {
        let mut byte = [0];
        assert!(region.read(at, &mut byte));
        byte[0]
    };
    assert!(region.write(17, &[0x42]));
    assert_eq!(at(&peer, 17), 0x42);
    assert!(peer.write(4999, &[0x43]));
    assert_eq!(at(&region, 4999), 0x43);
    drop(peer);
    assert_eq!(at(&region, 17), 0x42, "a peer that leaves does not wipe");
}

#[test]
fn foreign_files_are_checked_before_they_are_mapped() {
    let memfd = |seals: libc::c_int, len: usize| {
        // SAFETY: the name is a C string; the descriptor that comes back is nobody else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"foreign".as_ptr(), libc::MFD_ALLOW_SEALING)) };
        file.set_len(len as u64).unwrap();
        // SAFETY: F_ADD_SEALS takes an integer.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        file
    };
    let join = |file: File| Region::join(file.into());
    let both = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    for seals in [0, libc::F_SEAL_SHRINK, libc::F_SEAL_GROW] {
        assert_eq!(join(memfd(seals, 100)).unwrap_err(), MemoryError::NotSealed { seals });
    }
    for len in [1, 100, 4096] {
        assert_eq!(join(memfd(both, len)).unwrap().len(), len);
    }
    for len in [0, ARENA_MAX + 1, 1 << 40] {
        assert!(matches!(join(memfd(both, len)), Err(MemoryError::NotJoinable { .. })), "{len}");
    }
    let read_only = join(memfd(both | libc::F_SEAL_WRITE, 100)).unwrap_err();
    assert_eq!(read_only, MemoryError::Os { call: "mmap", errno: libc::EPERM });
    let pipe = std::io::pipe().unwrap().0;
    assert!(matches!(Region::join(pipe.into()), Err(MemoryError::NotSealed { .. } | MemoryError::Os { .. })));
    let device = File::open("/dev/zero").unwrap();
    assert!(matches!(join(device), Err(MemoryError::NotSealed { .. })));
}

#[test]
fn names_of_memory_files_are_checked() {
    let bad = MemoryError::BadName { limit: 249 };
    assert_eq!(Region::create("a\0b", 1).unwrap_err(), bad);
    assert_eq!(Region::create(&"n".repeat(250), 1).unwrap_err(), bad);
    assert!(Region::create(&"n".repeat(249), 1).is_ok());
    assert!(Region::create("", 1).is_ok());
}

#[test]
fn secrets_hold_their_bytes_and_say_nothing() {
    for len in [0, 1, 16, 32, 33, 64, 100, 4097, 8192, 8193, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5a).collect();
        let mut secret = SecretBytes::from_slice(&bytes).unwrap();
        let copy = secret.try_clone().unwrap();
        assert_eq!((secret.len(), secret.is_empty()), (len, len == 0));
        assert_eq!(secret.as_slice(), bytes);
        assert!(len == 0 || (secret.as_ptr() as usize).is_multiple_of(if len <= 32 { 32 } else { 64 }));
        secret.as_mut_slice().fill(1);
        assert_eq!(&copy[..], bytes, "a copy is its own");
        assert_eq!(format!("{secret:?}"), format!("SecretBytes {{ len: {len}, .. }}"));
        drop(secret);
        let fresh = SecretBytes::zeroed(len).unwrap();
        assert_eq!(&fresh[..], vec![0; len], "memory that was used before comes back zeroed");
    }
}

#[test]
fn a_hundred_thousand_keys_are_imported_quickly_and_do_not_overlap() {
    let began = Instant::now();
    let keys: Vec<_> =
        (0..100_000_u128).map(|number| SecretBytes::from_slice(&number.to_le_bytes()).unwrap()).collect();
    let took = began.elapsed();
    for (key, number) in keys.iter().zip(0_u128..) {
        assert_eq!(&key[..], number.to_le_bytes());
    }
    let report = SecretPool::global().report();
    assert!(report.locked_bytes + report.unlocked_bytes >= 3 << 20);
    assert!(report.dontdump && report.dontfork, "Linux grants both: {report:?}");
    // The target is 0.2 s; this machine may be busy.
    assert!(took < Duration::from_secs(2), "{took:?}");
    println!("100,000 keys in {took:?}, {report:?}");
}

/// What the kernel says about the mapping at `address`: the value of `VmFlags` in `/proc/self/smaps`.
fn vm_flags(address: usize) -> String {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in smaps.lines() {
        let range = line.split(' ').next().unwrap_or("").split_once('-');
        let bound = |text| usize::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (bound(start), bound(end))) {
            inside = (start..end).contains(&address);
        } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
            return format!("{flags} ");
        }
    }
    panic!("no mapping at {address:#x}");
}

#[test]
fn the_kernel_confirms_the_protections() {
    let unlocked_before = SecretPool::global().report().unlocked_bytes;
    for len in [16, 9000] {
        let secret = SecretBytes::from_slice(&vec![7; len]).unwrap();
        let flags = vm_flags(secret.as_ptr() as usize);
        assert!(flags.contains(" dd "), "out of dumps: {flags}");
        assert!(flags.contains(" dc "), "out of children: {flags}");
        if unlocked_before == 0 && SecretPool::global().report().unlocked_bytes == 0 {
            assert!(flags.contains(" lo "), "the report says that all is locked: {flags}");
        }
    }
    let guarded = GuardedBuf::new(10, Align::End).unwrap();
    assert!(vm_flags(guarded.as_ptr() as usize).contains(" dd "));
    let arena = Arena::heap(1 << 20).unwrap();
    assert!(vm_flags(arena.as_ptr() as usize).contains(" dd "));
    let region = Region::create("flags", 10).unwrap();
    assert!(vm_flags(region.words(0, 1).unwrap().as_ptr() as usize).contains(" dd "));
}

#[test]
fn a_refusal_to_lock_is_reported() {
    let status = in_child("a_refusal_to_lock_is_reported", "limit", || {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is live; setuid takes an integer. Both change this child alone, which ends with the test.
        unsafe {
            assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &none), 0);
            // Root may lock beyond the limit, so stop being root.
            assert!(libc::geteuid() != 0 || libc::setuid(65_534) == 0);
        }
        let secret = SecretBytes::from_slice(&[1; 16]).unwrap();
        let report = SecretPool::global().report();
        assert_eq!(secret[..], [1; 16]);
        assert_eq!((report.locked_bytes, report.unlocked_bytes), (0, 1 << 20));
        assert!(report.dontdump);
    });
    assert!(status.is_none_or(|status| status.success()));
}

#[test]
fn a_protected_process_leaves_no_core() {
    let status = in_child("a_protected_process_leaves_no_core", "protect", || {
        let mut limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
        // SAFETY: the limit is live and written by the call; PR_GET_DUMPABLE takes no further argument.
        let dumpable = unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_CORE, &mut limit), 0);
            libc::prctl(libc::PR_GET_DUMPABLE)
        };
        assert_eq!((limit.rlim_cur, limit.rlim_max, dumpable), (0, 0, 0));
    });
    assert!(status.is_none_or(|status| status.success()));
}

#[test]
fn a_forked_child_dies_rather_than_finding_zeros() {
    let secret = SecretBytes::from_slice(&[1; 16]).unwrap();
    // SAFETY: the child only reads one byte and leaves by `_exit`; it takes no lock and allocates nothing.
    let status = unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            let byte = secret.as_ptr().read_volatile();
            libc::_exit(i32::from(byte));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        status
    };
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
}

#[test]
fn asking_for_huge_pages_changes_no_byte() {
    for len in [0usize, 1, 4095, (4 << 20) + 1, 9 << 20] {
        let mut memory: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let (start, end) = (3.min(len), len.saturating_sub(5).max(3.min(len)));
        ciphermill_memory::prefer_huge_pages(&mut memory[start..end]);
        assert!(memory.iter().enumerate().all(|(at, byte)| *byte == at as u8), "{len}");
    }
}

#[test]
fn a_forked_child_has_secrets_of_its_own() {
    let _parents = SecretBytes::from_slice(&[1; 16]).unwrap();
    // SAFETY: the child makes secrets, touches nothing of the parent's, and leaves by `_exit`. glibc's allocator may be used
    // after a fork.
    let status = unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            let whole = SecretBytes::from_slice(&[2; 16]).is_ok_and(|secret| secret[..] == [2; 16]);
            libc::_exit(if whole { 7 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        status
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
}
