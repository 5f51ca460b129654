//! A cipher's key in the mill, messages and operations under it, and from which length on the mill is the faster one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ciphermill::{Bound, KeyPolicy, Mill, MultiPart};
use ciphermill_contract::{Direction, KeyId, KeyMaterial, Op, OpStatus, Piece, Span, Suite};
use ciphermill_keys::SuiteSet;
use zeroize::Zeroizing;

use super::inner::{Begin, CIPHERS, InnerCipher, Text, suite};
use crate::backend::{Backend, Preference, preference};
use crate::counts;
use crate::stack::with_room;
use crate::timing::fastest;

/// Bytes that this process leaves to `default` before it looks for something better: a mill is opened then, which takes
/// milliseconds. Programs that end before are as fast as ever, and so is what a server does before it confines itself.
const LEFT_MAX: u64 = 1 << 20;

/// Lengths for which both are measured.
const LENS: [usize; 6] = [512, 1024, 2048, 4096, 8192, 16_384];

/// What the mill has to win by, of `default`'s time.
const GAIN_MIN: f64 = 0.05;

/// Bytes of a tag.
const TAG_LEN: usize = 16;

static LEFT: AtomicU64 = AtomicU64::new(0);

/// The longest key of a cipher here: both of AES-256-XTS.
const KEY_LEN_MAX: usize = 64;

/// A key of an application, and in the mill from when it is first needed there. Nothing is allocated for it: OpenSSL's generator of
/// random bytes, which uses these ciphers too, takes four new ones for each request.
#[derive(Clone)]
pub(super) struct OwnKey {
    suite: Suite,
    bytes: Zeroizing<[u8; KEY_LEN_MAX]>,
    len: usize,
    /// Bytes that `default` did in parts that were long enough.
    left: u64,
    imported: Option<Arc<Imported>>,
}

/// A key in the mill's table, of the process of this generation. Destroyed with the last context that has it.
struct Imported {
    backend: &'static Backend,
    key: KeyId,
}

impl Drop for Imported {
    fn drop(&mut self) {
        // A child leaves its parent's table alone.
        if Backend::opened().is_some_and(|backend| backend.generation() == self.backend.generation()) {
            let _ = self.backend.mill.keys().destroy(self.key);
        }
    }
}

impl OwnKey {
    /// A key; `None` of a length that is not the suite's.
    pub(super) fn new(suite: Suite, bytes: &[u8]) -> Option<OwnKey> {
        if !suite.key_len().contains(bytes.len()) {
            return None;
        }
        let mut key =
            OwnKey { suite, bytes: Zeroizing::new([0; KEY_LEN_MAX]), len: bytes.len(), left: 0, imported: None };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What it is a key for.
    pub(super) fn suite(&self) -> Suite {
        self.suite
    }

    /// Whether it is this key, in time that does not depend on the bytes.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        let differing = self.bytes().iter().zip(bytes).fold(0, |sum, (own, other)| sum | (own ^ other));
        self.len == bytes.len() && std::hint::black_box(differing) == 0
    }

    /// Messages under this key in the mill of this process.
    pub(super) fn messages(&mut self, direction: Direction) -> Option<Messages> {
        let (message, imported) =
            self.open(|mill, suite, key| mill.multi_part_unverified(suite, direction, key).ok())?;
        Some(Messages { message, direction, imported })
    }

    /// Operations under this key in the mill of this process.
    pub(super) fn operations(&mut self, direction: Direction) -> Option<Operations> {
        let iv_len = self.suite.default_iv_len();
        let (bound, imported) = self.open(|mill, suite, key| mill.bind(suite, direction, key).ok())?;
        Some(Operations { bound: Box::new(bound), direction, iv_len, imported })
    }

    /// Opens something under this key in the mill of this process.
    fn open<T>(&mut self, open: impl FnOnce(&Mill, Suite, KeyId) -> Option<T>) -> Option<(T, Arc<Imported>)> {
        let backend = Backend::current()?;
        with_room(|| {
            let imported = self.import(backend)?;
            Some((open(&backend.mill, self.suite, imported.key)?, imported))
        })
        .flatten()
    }

    fn import(&mut self, backend: &'static Backend) -> Option<Arc<Imported>> {
        let is_own = |imported: &&Arc<Imported>| imported.backend.generation() == backend.generation();
        if let Some(imported) = self.imported.as_ref().filter(is_own) {
            return Some(Arc::clone(imported));
        }
        let policy = KeyPolicy::default().suites(SuiteSet::of([self.suite]));
        let key = backend.mill.keys().import(KeyMaterial::secret(self.bytes()), policy).ok()?;
        let imported = Arc::new(Imported { backend, key });
        self.imported = Some(Arc::clone(&imported));
        Some(imported)
    }
}

/// Messages in the mill, one after the other. The mill's code has a stack of its own within jobs.
pub(super) struct Messages {
    message: MultiPart,
    pub(super) direction: Direction,
    imported: Arc<Imported>,
}

impl Imported {
    /// Whether it is in the mill of this process.
    fn is_here(&self) -> bool {
        self.backend.generation() == crate::backend::generation()
    }
}

impl Messages {
    /// Whether they are in the mill of this process.
    pub(super) fn are_here(&self) -> bool {
        self.imported.is_here()
    }

    /// Begins a message with its additional data.
    pub(super) fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Option<()> {
        with_room(|| {
            self.message.begin(iv).ok()?;
            if aad.is_empty() { Some(()) } else { self.message.absorb(aad).ok() }
        })
        .flatten()?;
        counts::count_message();
        Some(())
    }

    /// Encrypts or decrypts a part.
    pub(super) fn transform(&mut self, piece: Piece<'_>) -> Option<()> {
        with_room(|| self.message.transform_piece(piece).ok()).flatten()
    }

    /// Ends a message: writes or compares its tag. Whether it is right.
    pub(super) fn finish(&mut self, tag: &mut [u8]) -> bool {
        with_room(|| self.message.finish(tag) == Ok(OpStatus::Done)).unwrap_or(false)
    }

    pub(super) fn duplicate(&self) -> Option<Messages> {
        if !self.are_here() {
            return None;
        }
        let message = with_room(|| self.message.duplicate().ok()).flatten()?;
        Some(Messages { message, direction: self.direction, imported: Arc::clone(&self.imported) })
    }
}

/// Ends messages; what the mill counts then needs room too.
pub(super) fn let_go(messages: Option<Messages>) {
    if messages.is_some() {
        with_room(move || drop(messages));
    }
}

/// Operations in the mill that are whole messages, of one direction.
pub(super) struct Operations {
    bound: Box<Bound>,
    pub(super) direction: Direction,
    iv_len: usize,
    imported: Arc<Imported>,
}

impl Operations {
    /// Whether they are in the mill of this process.
    pub(super) fn are_here(&self) -> bool {
        self.imported.is_here()
    }

    /// Runs one in place. `iv` is left aside where the suite takes none. After `None` the data are lost.
    pub(super) fn run(&mut self, iv: &[u8], data: &mut [u8]) -> Option<()> {
        let iv = iv.get(..self.iv_len)?;
        let mut op = Op::in_place(self.imported.key, Span::new(0, u32::try_from(data.len()).ok()?)).with_iv(iv);
        with_room(|| self.bound.run_op(&mut op, data).ok()).flatten()?;
        op.status.is_done().then_some(())
    }

    /// Has the mill refuse them from now on.
    #[cfg(test)]
    pub(super) fn spoil(&self) {
        let _ = self.imported.backend.mill.keys().destroy(self.imported.key);
    }

    /// Lets go of them. Those of another process stay where they are: that mill is its own, as are its locks.
    pub(super) fn let_go(self) {
        if self.are_here() {
            with_room(move || drop(self));
        } else {
            std::mem::forget(self);
        }
    }
}

/// What is asked when a part comes: which cipher, which way, and how many bytes.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) of: usize,
    pub(super) direction: Direction,
    pub(super) len: usize,
}

/// What a cipher has in the mill, as far as it is measured beside `default`.
pub(super) trait Measured: Sized {
    /// Takes a key to the mill.
    fn open(key: &mut OwnKey, direction: Direction) -> Option<Self>;

    /// Encrypts or decrypts data in place as a message begins, of which `inner` has the IV. One with a tag is the whole message.
    fn run(&mut self, inner: &InnerCipher, iv: &[u8], data: &mut [u8]) -> Option<()>;
}

impl Measured for Messages {
    fn open(key: &mut OwnKey, direction: Direction) -> Option<Messages> {
        key.messages(direction)
    }

    fn run(&mut self, _: &InnerCipher, iv: &[u8], data: &mut [u8]) -> Option<()> {
        self.message.begin(iv).ok()?;
        self.message.transform_in_place(data).ok()?;
        let has_tag = matches!(self.message.suite(), Suite::Aead(_));
        (!has_tag || self.message.finish(&mut [0; TAG_LEN]) == Ok(OpStatus::Done)).then_some(())
    }
}

/// Whether a part is worth the mill, to which its key may have to be taken first.
pub(super) fn is_worth<M: Measured>(asked: Asked, key: &mut Option<OwnKey>, is_there: bool) -> bool {
    match preference() {
        Preference::Mill => return true,
        Preference::Default => return false,
        Preference::Faster if asked.len < LENS[0] => return false,
        Preference::Faster => {}
    }
    if LEFT.load(Ordering::Relaxed) < LEFT_MAX {
        LEFT.fetch_add(asked.len as u64, Ordering::Relaxed);
        return false;
    }
    let (worth, Some(key)) = (worth::<M>(asked), key) else { return false };
    if !is_there {
        key.left += asked.len as u64;
    }
    asked.len >= worth.from && (is_there || key.left >= worth.new_key)
}

/// What the mill has to be given to be faster than `default`.
#[derive(Clone, Copy)]
struct Worth {
    /// Bytes in a part: the least of [`LENS`], `usize::MAX` where none is enough.
    from: usize,
    /// Bytes under one key, so that these win back what it takes to take a key to the mill and to forget it again. A key that has had
    /// as many is taken to have as many before it.
    new_key: u64,
}

const NEVER: Worth = Worth { from: usize::MAX, new_key: u64::MAX };

/// As measured in this process, when it is first asked for.
fn worth<M: Measured>(asked: Asked) -> Worth {
    // No lock, which a child would wait for that was forked while another thread measured. Two may measure at once. Zero is
    // unknown, as no length is.
    static FROM: [[AtomicUsize; 2]; CIPHERS.len()] = [const { [const { AtomicUsize::new(0) }; 2] }; CIPHERS.len()];
    static NEW_KEY: [[AtomicU64; 2]; CIPHERS.len()] = [const { [const { AtomicU64::new(0) }; 2] }; CIPHERS.len()];
    let way = usize::from(asked.direction == Direction::Decrypt);
    let (from, new_key) = (&FROM[asked.of][way], &NEW_KEY[asked.of][way]);
    let known = from.load(Ordering::Acquire);
    if known != 0 {
        return Worth { from: known, new_key: new_key.load(Ordering::Relaxed) };
    }
    let worth = with_room(|| measure::<M>(asked.of, asked.direction)).flatten().unwrap_or(NEVER);
    new_key.store(worth.new_key, Ordering::Relaxed);
    from.store(worth.from, Ordering::Release);
    worth
}

fn measure<M: Measured>(of: usize, direction: Direction) -> Option<Worth> {
    let suite = suite(of);
    // XTS takes no key whose halves are the same.
    let (key, iv): (Vec<u8>, _) = ((1..=64).take(suite.key_len().max).collect(), vec![9; suite.default_iv_len()]);
    let mut begin = Begin { encrypt: direction == Direction::Encrypt, key: Some(&key), iv: Some(&iv) };
    let inner = InnerCipher::new(of)?;
    // SAFETY: no parameters.
    if !unsafe { inner.begin(&begin, std::ptr::null()) } {
        return None;
    }
    // Under a key that both have.
    begin.key = None;
    // SAFETY: no parameters.
    let begun = || unsafe { inner.begin(&begin, std::ptr::null()) };
    let open = || OwnKey::new(suite, &key).and_then(|mut key| M::open(&mut key, direction));
    let mut known = open()?;
    let mut data = vec![0; LENS[LENS.len() - 1]];
    let mut worth = NEVER;
    // From the longest down to where it does not pay any more.
    for len in LENS.into_iter().rev() {
        let data = &mut data[..len];
        let text = Text { out: data.as_mut_ptr(), input: data.as_ptr(), len };
        // SAFETY: a buffer of our own.
        let run = || begun() && unsafe { inner.update(text, len) }.is_some();
        let theirs = fastest(|| run() && (!matches!(suite, Suite::Aead(_)) || inner.finish()))?;
        let ours = fastest(|| begun() && known.run(&inner, &iv, data).is_some())?;
        if ours > theirs * (1.0 - GAIN_MIN) {
            break;
        }
        if worth.from == usize::MAX {
            let with_key = fastest(|| begun() && open().and_then(|mut new| new.run(&inner, &iv, data)).is_some())?;
            worth.new_key = ((with_key - ours).max(0.0) / (theirs - ours) * len as f64) as u64;
        }
        worth.from = len;
    }
    Some(worth)
}
