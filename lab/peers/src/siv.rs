//! The native loop of `aes-siv`: as the lab was built, and as `make lab` built it for this processor.

use std::path::PathBuf;

use ciphermill_contract::suite::Aead;
use ciphermill_contract::{Direction, Op, Suite};
use ciphermill_siv::{FEATURES, Message, Siv};
use libloading::Library;

use crate::native::{NativeLoop, Task, all_done};
use crate::with_causes;

/// The peer's name.
pub(crate) const NAME: &str = "rustcrypto";

/// Bytes of a tag.
const TAG_LEN: usize = 16;

type New = unsafe extern "C" fn(*const u8, usize) -> *mut Siv;
type Free = unsafe extern "C" fn(*mut Siv);
type Run = unsafe extern "C" fn(*const Message, usize, bool) -> bool;

/// One build of the loop.
struct Build {
    words: &'static str,
    new: New,
    free: Free,
    run: Run,
    /// What the functions lie in, if not in this program: kept for as long as they are called.
    _library: Option<Library>,
}

impl Build {
    fn linked() -> Build {
        let (new, free, run): (New, Free, Run) = (
            ciphermill_siv::ciphermill_siv_new,
            ciphermill_siv::ciphermill_siv_free,
            ciphermill_siv::ciphermill_siv_run,
        );
        Build { words: "aes-siv, built for any processor", new, free, run, _library: None }
    }

    /// The shared library of `make lab`, beside this program's folder.
    fn loaded() -> Result<Build, String> {
        let missing = |why: String| format!("aes-siv was not built for this processor ({why}); `make lab` does that");
        let path = library().ok_or_else(|| missing("this program's folder is unknown".to_owned()))?;
        // SAFETY: the library is the crate `ciphermill-siv`, which runs nothing when it is loaded.
        let library = unsafe { Library::new(&path) }.map_err(|error| missing(with_causes(&error)))?;
        // SAFETY: that crate declares the functions so.
        let build = unsafe {
            let needs = library.get::<extern "C" fn() -> u32>(b"ciphermill_siv_needs\0").map(|needs| needs());
            let functions = (
                library.get::<New>(b"ciphermill_siv_new\0").map(|function| *function),
                library.get::<Free>(b"ciphermill_siv_free\0").map(|function| *function),
                library.get::<Run>(b"ciphermill_siv_run\0").map(|function| *function),
            );
            match (needs, functions) {
                (Ok(needs), (Ok(new), Ok(free), Ok(run))) => Ok((needs, new, free, run)),
                _ => Err(missing(format!("{} has other functions", path.display()))),
            }
        };
        let (needs, new, free, run) = build?;
        if let Some((_, feature)) =
            FEATURES.iter().enumerate().find(|(index, feature)| needs >> index & 1 == 1 && !has(feature))
        {
            return Err(missing(format!("{} needs {feature}", path.display())));
        }
        Ok(Build { words: "aes-siv, built for this processor", new, free, run, _library: Some(library) })
    }
}

/// Where `make lab` leaves the library: `target/native/release`, seen from `target/release`.
fn library() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.join("native/release");
    Some(folder.join(libloading::library_filename("ciphermill_siv")))
}

/// Whether this processor has one of [`FEATURES`].
#[cfg(target_arch = "x86_64")]
fn has(feature: &str) -> bool {
    match feature {
        "aes" => is_x86_feature_detected!("aes"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        "vaes" => is_x86_feature_detected!("vaes"),
        "vpclmulqdq" => is_x86_feature_detected!("vpclmulqdq"),
        _ => false,
    }
}

/// Elsewhere only builds that need none of them run.
#[cfg(not(target_arch = "x86_64"))]
fn has(_feature: &str) -> bool {
    false
}

/// A build with the schedules of a task's keys, and its messages.
struct Way {
    build: Build,
    keys: Vec<*mut Siv>,
    messages: Vec<Message>,
}

impl Drop for Way {
    fn drop(&mut self) {
        for key in &self.keys {
            // SAFETY: made by the same build, and freed here alone.
            unsafe { (self.build.free)(*key) };
        }
    }
}

/// The loop over the operations of a task, all of whose spans were found within the arena.
struct Sivs {
    direction: Direction,
    ways: Vec<Way>,
    missing: Option<String>,
    ops: Vec<Op>,
    /// What the messages point into: neither moved nor borrowed while they may run.
    arena: Vec<u8>,
}

/// The loop, for AES-SIV with the key sizes that the crate has.
pub(crate) fn open(task: &Task<'_>) -> Option<Box<dyn NativeLoop>> {
    if !matches!(task.suite, Suite::Aead(Aead::AesSiv(_))) || !task.is_sound_apart(TAG_LEN) {
        return None;
    }
    let (native, missing) = match Build::loaded() {
        Ok(build) => (Some(build), None),
        Err(why) => (None, Some(why)),
    };
    let mut sivs = Sivs {
        direction: task.direction,
        ways: Vec::new(),
        missing,
        ops: task.ops.to_vec(),
        arena: task.arena.to_vec(),
    };
    for build in [Some(Build::linked()), native].into_iter().flatten() {
        let mut way = Way { build, keys: Vec::new(), messages: Vec::new() };
        for key in task.keys {
            // SAFETY: a slice is as long as it says.
            let made = unsafe { (way.build.new)(key.as_ptr(), key.len()) };
            if made.is_null() {
                return None;
            }
            way.keys.push(made);
        }
        let base = sivs.arena.as_mut_ptr();
        let keyed = sivs.ops.iter().zip(task.key_of);
        way.messages = keyed.map(|(op, key)| message(op, way.keys[*key], base)).collect();
        sivs.ways.push(way);
    }
    Some(Box::new(sivs))
}

/// The operation, which lies within the arena at `base`; its IV is read where it is kept.
fn message(op: &Op, siv: *mut Siv, base: *mut u8) -> Message {
    let (aad, at) = (op.aad.span(), |offset: u32| base.wrapping_add(offset as usize));
    Message {
        siv,
        aad: at(aad.offset),
        aad_len: aad.len as usize,
        nonce: op.iv.as_ptr(),
        nonce_len: usize::from(op.iv_len),
        input: at(op.input.offset),
        output: at(op.output),
        len: op.input.len as usize,
        tag: at(op.tag),
    }
}

impl NativeLoop for Sivs {
    fn ways(&self) -> Vec<String> {
        self.ways.iter().map(|way| way.build.words.to_owned()).collect()
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    fn restart(&mut self) -> bool {
        true
    }

    fn run(&mut self, way: usize) -> bool {
        let Some(Way { build, messages, .. }) = self.ways.get(way) else { return false };
        let seals = self.direction == Direction::Encrypt;
        // SAFETY: `open` found every operation within the arena, and its places apart; arena and operations have not moved
        // since, and nothing else refers to them while this loop is borrowed.
        unsafe { (build.run)(messages.as_ptr(), messages.len(), seals) }
    }

    fn answers(&mut self) -> (Vec<Op>, Vec<u8>) {
        (all_done(&self.ops), self.arena.clone())
    }
}
