//! Intel's multi-buffer library as an engine, through its burst interface.
//!
//! A batch is cut into windows; the shim (C, because the library's interface is a structure of function pointers that
//! its header describes) fills the library's jobs from our operations, submits them in bursts of 128 and says what
//! became of each. Keys are expanded when they are prepared. The burst calls are the checked ones.

mod capabilities;
mod ffi;

pub use capabilities::{CAPABILITIES, INPUT_LEN_MAX};

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use ciphermill_contract::engine::Kernel;
use ciphermill_contract::error::{FaultKind, KeyProblem};
use ciphermill_contract::suite::{Aead, BlockCipher, Chain, ChainOrder, Digest, Mac, Mode};
use ciphermill_contract::{
    Capability, CheckedBatch, Direction, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyForm, KeyMaterial,
    OpStatus, PreparedKey, QueueHint, Result, Suite,
};
use zeroize::{Zeroize, Zeroizing};

use self::ffi::{Cipher, Entry, Kind, Program, Status, WINDOW_MAX};
use crate::Unavailable;

/// The peer's name.
pub const NAME: &str = "ipsec-mb";

/// Opens the peer.
///
/// # Errors
/// The library's self-test fails, or it finds no instruction set that it can use.
pub fn open() -> std::result::Result<Arc<dyn Engine>, Unavailable> {
    let manager = Manager::open().map_err(|code| Unavailable { name: NAME, why: error_text(code) })?;
    // SAFETY: both return static strings with their nul; the manager is open.
    let (arch, version) = unsafe { (text(ffi::cm_arch_name(manager.0.as_ptr())), text(ffi::cm_version())) };
    let info = EngineInfo {
        name: NAME,
        kind: EngineKind::Peer,
        version,
        parallelism: std::thread::available_parallelism().map_or(1, usize::from),
        kernels: vec![Kernel { family: "all", name: arch }],
    };
    Ok(Arc::new(IpsecMb { info, manager: Mutex::new(manager) }))
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
    suite: Suite,
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

impl Engine for IpsecMb {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        let claimed = CAPABILITIES.iter().any(|capability| capability.covers(suite, Direction::Encrypt));
        let Some(program) = program(suite, Direction::Encrypt).filter(|_| claimed && suite.needs_key()) else {
            return Err(Error::key(suite, KeyProblem::Parameters));
        };
        if key.form != KeyForm::Secret {
            return Err(Error::key(suite, KeyProblem::Form));
        }
        if !suite.key_len().contains(key.bytes.len()) {
            return Err(Error::key(suite, KeyProblem::Length));
        }
        let (cipher_key, mac_key) = split_key(key.bytes, suite);
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
        Ok(PreparedKey::new(ExpandedKey { suite, key }))
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        let manager = Manager::open().map_err(|code| Error::fault(NAME, FaultKind::Call(code.into())))?;
        Ok(Box::new(Queue {
            manager,
            entries: Vec::with_capacity(WINDOW_MAX),
            indices: Vec::with_capacity(WINDOW_MAX),
        }))
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

/// A queue: a manager, and room for one window of operations.
struct Queue {
    manager: Manager,
    entries: Vec<Entry>,
    indices: Vec<usize>,
}

// SAFETY: the raw pointers in `entries` are used within one call of `run` only.
unsafe impl Send for Queue {}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let suite = batch.suite();
        let Some(program) = program(suite, batch.direction()) else {
            batch.replace_status(|status| status.is_pending(), OpStatus::EngineFault);
            return;
        };
        let mut start = 0;
        while start < batch.len() {
            start = self.gather(batch, suite, start);
            self.window(batch, suite, &program);
        }
        self.entries.clear();
    }
}

impl Queue {
    /// Collects the next pending operations from `start` on, a window full of them; returns where it stopped.
    fn gather(&mut self, batch: &mut CheckedBatch<'_>, suite: Suite, start: usize) -> usize {
        self.entries.clear();
        self.indices.clear();
        let needs_key = suite.needs_key();
        let (ops, _, keys) = batch.parts();
        for (index, op) in ops.iter_mut().enumerate().skip(start) {
            if !op.status.is_pending() {
                continue;
            }
            if self.entries.len() == WINDOW_MAX {
                return index;
            }
            let key = if needs_key {
                let state = keys.get(index).copied().flatten().and_then(|key| key.state::<ExpandedKey>());
                let Some(state) = state.filter(|state| state.suite == suite) else {
                    op.status = OpStatus::EngineFault;
                    continue;
                };
                state.key.as_ptr().cast_const()
            } else {
                ptr::null()
            };
            self.entries.push(Entry { op: ptr::null(), key, status: 0, reserved: 0 });
            self.indices.push(index);
        }
        ops.len()
    }

    /// Runs a window and writes the outcome into its operations.
    fn window(&mut self, batch: &mut CheckedBatch<'_>, suite: Suite, program: &Program) {
        let transforms = suite.transforms();
        let (ops, arena, _) = batch.parts();
        let base = ops.as_ptr();
        for (entry, &index) in self.entries.iter_mut().zip(&self.indices) {
            // SAFETY: `gather` took the index from the same operations.
            entry.op = unsafe { base.add(index) };
        }
        // SAFETY: `Batch::check` found every input, output, tag and additional data within the arena and apart where one
        // is written; the library writes to outputs and tags of these operations only, and not before or behind them.
        // The keys were expanded for this suite (`gather`) and live as long as the batch. At most WINDOW_MAX entries.
        unsafe {
            ffi::cm_run(
                self.manager.0.as_ptr(),
                program,
                arena.as_mut_ptr(),
                self.entries.as_mut_ptr(),
                self.entries.len(),
            );
        }
        for (entry, &index) in self.entries.iter().zip(&self.indices) {
            let Some(op) = ops.get_mut(index) else { continue };
            let output_len = if transforms { op.input.len } else { 0 };
            op.status = match entry.status {
                status if status == Status::Done as u32 => OpStatus::Done,
                status if status == Status::AuthFailed as u32 => OpStatus::AuthFailed,
                _ => OpStatus::EngineFault,
            };
            op.output_len = if op.status.is_done() { output_len } else { 0 };
            if !op.status.is_done() {
                let output = op.output as usize..op.output as usize + output_len as usize;
                if let Some(output) = arena.get_mut(output) {
                    output.fill(0);
                }
            }
        }
    }
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
