//! Intel's multi-buffer library as an engine, through its burst interface.
//!
//! A batch is cut into windows; the shim (C, because the library's interface is a structure of function pointers that
//! its header describes) fills the library's jobs from our operations, submits them in bursts of 128 and says what
//! became of each. Keys are expanded when they are prepared. The burst calls are the checked ones.

mod capabilities;
mod ffi;
pub(crate) mod native;

pub use capabilities::{CAPABILITIES, INPUT_LEN_MAX};

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::suite::{Aead, BlockCipher, Chain, ChainOrder, Digest, Mac, Mode};
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyMaterial, Op, OpStatus,
    PreparedKey, QueueHint, Result, Suite,
};
use zeroize::{Zeroize, Zeroizing};

use self::ffi::{Cipher, Kind, Program, Status, WINDOW_MAX};
use crate::Unavailable;

/// The peer's name.
pub const NAME: &str = "ipsec-mb";

/// Opens the peer.
///
/// # Errors
/// The library's self-test fails, or it finds no instruction set that it can use.
pub fn open() -> std::result::Result<Arc<dyn Engine>, Unavailable> {
    Ok(Arc::new(IpsecMb::open()?))
}

struct IpsecMb {
    info: EngineInfo,
    /// Expands keys; queues have managers of their own.
    manager: Mutex<Manager>,
}

/// A manager of the library with its job and tag slots.
struct Manager(NonNull<ffi::Queue>);

// SAFETY: a manager is bound to no thread; `&mut` or the mutex keeps it with one at a time.
unsafe impl Send for Manager {}

impl Manager {
    fn open() -> std::result::Result<Manager, i32> {
        let mut error = 0;
        // SAFETY: writes the error number; the result is checked for null.
        NonNull::new(unsafe { ffi::cm_queue_open(&mut error) }).map(Manager).ok_or(error)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: came from `cm_queue_open` and is closed once.
        unsafe { ffi::cm_queue_close(self.0.as_ptr()) };
    }
}

/// A key as the library wants it: schedules, hash powers, digest states.
struct ExpandedKey {
    /// [`Suite::ordinal`] of what it was expanded for.
    ordinal: usize,
    key: NonNull<ffi::Key>,
}

// SAFETY: an expanded key is never written after it was made, and its memory is bound to no thread.
unsafe impl Send for ExpandedKey {}
// SAFETY: as above.
unsafe impl Sync for ExpandedKey {}

impl Drop for ExpandedKey {
    fn drop(&mut self) {
        // SAFETY: came from `cm_key_new` and is freed once; the function wipes it.
        unsafe { ffi::cm_key_free(self.key.as_ptr()) };
    }
}

impl IpsecMb {
    fn open() -> std::result::Result<IpsecMb, Unavailable> {
        let manager = Manager::open().map_err(|code| Unavailable::absent(NAME, error_text(code)))?;
        // SAFETY: both return static strings with their nul; the manager is open.
        let (arch, version) = unsafe { (text(ffi::cm_arch_name(manager.0.as_ptr())), text(ffi::cm_version())) };
        let info = EngineInfo {
            name: NAME,
            kind: EngineKind::Peer,
            version,
            parallelism: std::thread::available_parallelism().map_or(1, usize::from),
            kernels: vec![Kernel { family: "all", name: arch }],
        };
        Ok(IpsecMb { info, manager: Mutex::new(manager) })
    }

    /// Expands a key that has the suite's length.
    fn expand(&self, key: &[u8], suite: Suite) -> Result<ExpandedKey> {
        let program = program(suite, Direction::Encrypt).ok_or(Error::key(suite, KeyProblem::Parameters))?;
        let (cipher_key, mac_key) = split_key(key, suite);
        let cipher_key = cipher_key_parts(cipher_key);
        let mac_key = match digest_of(suite) {
            Some(digest) => hmac_block(mac_key, digest).ok_or(Error::fault(NAME, FaultKind::Call(0)))?,
            None => Zeroizing::new([0; 128]),
        };
        let manager = self.manager.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the shim reads `cipher_key_len` bytes of the one (the suite's key length, or 24 of triple DES, which
        // has room for 32) and a digest's block, at most 128 bytes, of the other.
        let expanded = unsafe { ffi::cm_key_new(manager.0.as_ptr(), &program, cipher_key.as_ptr(), mac_key.as_ptr()) };
        let key = NonNull::new(expanded).ok_or(Error::fault(NAME, FaultKind::Unavailable))?;
        Ok(ExpandedKey { ordinal: suite.ordinal(), key })
    }
}

impl Engine for IpsecMb {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        let claimed = CAPABILITIES.iter().any(|capability| capability.covers(suite, Direction::Encrypt));
        if !claimed || !suite.needs_key() {
            return Err(Error::key(suite, KeyProblem::Parameters));
        }
        suite.check_key(key)?;
        self.expand(key.bytes, suite).map(PreparedKey::new)
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        let manager = Manager::open().map_err(|code| Error::fault(NAME, FaultKind::Call(code.into())))?;
        Ok(Box::new(Queue { manager }))
    }
}

/// The cipher's and the MAC's part of a key.
fn split_key(bytes: &[u8], suite: Suite) -> (&[u8], &[u8]) {
    match suite {
        // The length was checked: the cipher's key and at least one byte more.
        Suite::Chain(chain) => bytes.split_at(chain.cipher_key_len().min(bytes.len())),
        Suite::Mac(Mac::Hmac(_)) => (&[], bytes),
        _ => (bytes, &[]),
    }
}

/// The cipher's key with room for the longest; two-key triple DES (NIST SP 800-67) has its first key as the third.
fn cipher_key_parts(bytes: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut parts = Zeroizing::new([0; 32]);
    let len = bytes.len().min(32);
    parts[..len].copy_from_slice(&bytes[..len]);
    if len == 16 {
        let first: [u8; 8] = std::array::from_fn(|i| bytes[i]);
        parts[16..24].copy_from_slice(&first);
    }
    parts
}

fn digest_of(suite: Suite) -> Option<Digest> {
    match suite {
        Suite::Chain(Chain { digest, .. }) | Suite::Mac(Mac::Hmac(digest)) => Some(digest),
        _ => None,
    }
}

/// An HMAC key at the length of the digest's block: hashed when longer, then filled with zeros (RFC 2104, section 2). The
/// library leaves both to its caller.
fn hmac_block(key: &[u8], digest: Digest) -> Option<Zeroizing<[u8; 128]>> {
    use openssl::hash::{MessageDigest, hash};
    let mut block = Zeroizing::new([0; 128]);
    if key.len() <= digest.block_len() {
        block.get_mut(..key.len())?.copy_from_slice(key);
        return Some(block);
    }
    let algorithm = match digest {
        Digest::Md5 => MessageDigest::md5(),
        Digest::Sha1 => MessageDigest::sha1(),
        Digest::Sha224 => MessageDigest::sha224(),
        Digest::Sha256 => MessageDigest::sha256(),
        Digest::Sha384 => MessageDigest::sha384(),
        Digest::Sha512 => MessageDigest::sha512(),
        _ => return None,
    };
    let mut short = hash(algorithm, key).ok()?;
    block.get_mut(..short.len())?.copy_from_slice(&short);
    short.zeroize();
    Some(block)
}

/// The shim's words for a suite and direction.
fn program(suite: Suite, direction: Direction) -> Option<Program> {
    let mut program = Program { decrypt: u8::from(direction == Direction::Decrypt), ..Program::default() };
    match suite {
        Suite::Cipher(cipher, mode) => {
            program.kind = Kind::Cipher as u8;
            (program.cipher, program.cipher_key_len) = cipher_of(cipher, mode)?;
        }
        Suite::Aead(Aead::AesGcm(size)) => {
            (program.kind, program.cipher_key_len) = (Kind::Gcm as u8, size.key_len() as u8);
        }
        Suite::Aead(Aead::AesCcm(size)) => {
            (program.kind, program.cipher_key_len) = (Kind::Ccm as u8, size.key_len() as u8);
        }
        Suite::Aead(Aead::ChaCha20Poly1305) => {
            (program.kind, program.cipher_key_len) = (Kind::ChaCha20Poly1305 as u8, 32);
        }
        Suite::Digest(digest) => {
            program.kind = Kind::Sha as u8;
            (program.digest, program.digest_len) = (digest_number(digest)?, digest.len() as u8);
        }
        Suite::Mac(Mac::Hmac(digest)) => {
            program.kind = Kind::Hmac as u8;
            (program.digest, program.digest_len) = (digest_number(digest)?, digest.len() as u8);
        }
        Suite::Mac(Mac::Cmac(size)) => {
            (program.kind, program.cipher_key_len) = (Kind::Cmac as u8, size.key_len() as u8);
        }
        Suite::Mac(Mac::Gmac(size)) => {
            (program.kind, program.cipher_key_len) = (Kind::Gmac as u8, size.key_len() as u8);
        }
        Suite::Mac(Mac::Poly1305) => (program.kind, program.cipher_key_len) = (Kind::Poly1305 as u8, 32),
        Suite::Chain(chain) if chain.order == ChainOrder::EncryptThenMac => {
            program.kind = Kind::Chain as u8;
            (program.cipher, program.cipher_key_len) = cipher_of(chain.cipher, chain.mode)?;
            (program.digest, program.digest_len) = (digest_number(chain.digest)?, chain.digest.len() as u8);
        }
        _ => return None,
    }
    Some(program)
}

fn cipher_of(cipher: BlockCipher, mode: Mode) -> Option<(u8, u8)> {
    Some(match (cipher, mode) {
        (BlockCipher::Aes(size), Mode::Ecb) => (Cipher::AesEcb as u8, size.key_len() as u8),
        (BlockCipher::Aes(size), Mode::Cbc) => (Cipher::AesCbc as u8, size.key_len() as u8),
        (BlockCipher::Aes(size), Mode::Ctr) => (Cipher::AesCtr as u8, size.key_len() as u8),
        (BlockCipher::Des, Mode::Cbc) => (Cipher::DesCbc as u8, 8),
        (BlockCipher::TripleDes, Mode::Cbc) => (Cipher::TripleDesCbc as u8, 24),
        _ => return None,
    })
}

/// The shim counts MD5, SHA-1 and SHA-2 as the contract does.
fn digest_number(digest: Digest) -> Option<u8> {
    (digest <= Digest::Sha512).then_some(digest as u8)
}

/// A queue: works on the caller's thread.
struct Queue {
    manager: Manager,
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let suite = batch.suite();
        let Some(program) = program(suite, batch.direction()) else {
            batch.replace_status(|status| status.is_pending(), OpStatus::EngineFault);
            return;
        };
        // SAFETY: reads the program only.
        let window = unsafe { ffi::cm_window(&program) }.min(WINDOW_MAX);
        let (ops, arena, keys) = batch.parts();
        for (index, ops) in ops.chunks_mut(window).enumerate() {
            let keys = keys.get(index * window..).unwrap_or_default();
            self.window(&program, suite, ops, arena, keys);
        }
    }
}

impl Queue {
    /// Runs a window of at most `WINDOW_MAX` operations with their keys.
    fn window(
        &mut self,
        program: &Program,
        suite: Suite,
        ops: &mut [Op],
        arena: &mut [u8],
        keys: &[Option<&PreparedKey>],
    ) {
        let mut status = [Status::Skipped as u8; WINDOW_MAX];
        let mut expanded = [ptr::null(); WINDOW_MAX];
        expand(suite, ops, keys, &mut status, &mut expanded);
        // SAFETY: `Batch::check` found every input, output, tag and additional data within the arena and apart where one
        // is written; the library writes to outputs and tags of pending operations only, and not before or behind them.
        // Each pending operation's key was expanded for this suite (`expand`) and lives as long as the batch. The window
        // is no longer than the arrays (`cm_window`).
        unsafe {
            ffi::cm_run(
                self.manager.0.as_ptr(),
                program,
                arena.as_mut_ptr(),
                ops.as_ptr(),
                expanded.as_ptr(),
                status.as_mut_ptr(),
                ops.len().min(WINDOW_MAX),
            );
        }
        let transforms = suite.transforms();
        for (op, &status) in ops.iter_mut().zip(&status) {
            if status == Status::Done as u8 {
                op.status = OpStatus::Done;
                op.output_len = if transforms { op.input.len } else { 0 };
            } else if status != Status::Skipped as u8 {
                let failed =
                    if status == Status::AuthFailed as u8 { OpStatus::AuthFailed } else { OpStatus::EngineFault };
                fail(op, arena, transforms, failed);
            }
        }
    }
}

/// Finds the keys of pending operations and marks these as pending for the shim, or as failed without a fitting key.
#[inline]
fn expand(
    suite: Suite,
    ops: &[Op],
    keys: &[Option<&PreparedKey>],
    status: &mut [u8; WINDOW_MAX],
    expanded: &mut [*const ffi::Key; WINDOW_MAX],
) {
    let needs_key = suite.needs_key();
    let ordinal = suite.ordinal();
    for (index, ((op, status), expanded)) in ops.iter().zip(status).zip(expanded).enumerate() {
        if !op.status.is_pending() {
            continue;
        }
        if needs_key {
            let state = keys.get(index).copied().flatten().and_then(|key| key.state::<ExpandedKey>());
            let Some(state) = state.filter(|state| state.ordinal == ordinal) else {
                *status = Status::Fault as u8;
                continue;
            };
            *expanded = state.key.as_ptr().cast_const();
        }
        *status = Status::Pending as u8;
    }
}

/// Ends an operation that failed: its output is zeroed.
#[cold]
fn fail(op: &mut Op, arena: &mut [u8], transforms: bool, status: OpStatus) {
    let output = op.output as usize..op.output as usize + op.input.len as usize;
    if let Some(output) = arena.get_mut(output).filter(|_| transforms) {
        output.fill(0);
    }
    op.output_len = 0;
    op.status = status;
}

fn error_text(code: i32) -> String {
    // SAFETY: returns a static string with its nul for every number.
    format!("the library does not start: {}", unsafe { text(ffi::cm_error_text(code)) })
}

/// # Safety
/// `text` ends with its nul.
unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
