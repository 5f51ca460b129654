//! GCM: a message is done by `default` or by the mill as a whole, as its first part of text decides. Records of TLS 1.2 are one part.

use ciphermill_contract::{Direction, Piece};
use zeroize::Zeroize;

use super::inner::{Begin, InnerCipher, Text};
use super::own::{Asked, Messages, OwnKey, is_worth, let_go};
use crate::ffi::{OCTET_STRING, Param};
use crate::params::{Params, answer_octets, ask_octets, key_of};

const IV_LEN: usize = 12;
const TAG_LEN: usize = 16;

/// Bytes of a TLS record's IV that are the same for all records, and of what comes with each record (RFC 5288, 3).
const TLS_FIXED: usize = 4;
const TLS_EXPLICIT: usize = IV_LEN - TLS_FIXED;

/// Bytes of what is authenticated of a TLS record: number, type, version, length (RFC 5246, 6.2.3.3).
const TLS_AAD: usize = 13;

/// Additional data that are kept until it is known who does the message; with more of them `default` does.
const AAD_MAX: usize = 4096;

/// A message, and those in the mill under the same key.
pub(super) struct Gcm {
    direction: Direction,
    /// The IV that the message is to have; `None` while only `default` knows it.
    iv: Option<[u8; IV_LEN]>,
    way: Way,
    aad: Vec<u8>,
    /// What a tag is to be, or was.
    tag: Option<([u8; TAG_LEN], usize)>,
    tls: Tls,
    pub(super) own: Option<Messages>,
}

/// Who does the message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Undecided,
    Default,
    Own,
    /// It has ended in the mill: its IV must not be used once more.
    Spent,
}

/// What is known of records.
#[derive(Clone, Copy, Default)]
struct Tls {
    fixed: Option<[u8; TLS_FIXED]>,
    /// What is authenticated of the next record, its length that on the wire.
    aad: Option<[u8; TLS_AAD]>,
}

impl Default for Gcm {
    fn default() -> Gcm {
        let (direction, way) = (Direction::Encrypt, Way::Undecided);
        Gcm { direction, iv: None, way, aad: Vec::new(), tag: None, tls: Tls::default(), own: None }
    }
}

impl Clone for Gcm {
    fn clone(&self) -> Gcm {
        let own = self.own.as_ref().and_then(Messages::duplicate);
        let is_lost = self.way == Way::Own && own.is_none();
        let way = if is_lost { Way::Spent } else { self.way };
        Gcm { way, own, aad: self.aad.clone(), ..*self }
    }
}

impl Gcm {
    /// Notes what `default` was given to begin with.
    pub(super) fn begin(&mut self, direction: Direction, begin: &Begin<'_>, told: &Params, done: bool) {
        self.direction = direction;
        if begin.iv.is_some() || !done {
            self.aad.clear();
            self.iv = begin.iv.filter(|_| done).and_then(|iv| iv.try_into().ok());
            // A tag stays, as in `default`: it may have been set before.
            self.way = Way::Undecided;
        } else if !self.aad.is_empty() {
            // A message has begun, which `default` goes on with, whatever that makes of another key.
            self.forget_iv();
        } else {
            self.give_up();
        }
        self.told(told, done);
    }

    /// Notes what `default` was told.
    pub(super) fn told(&mut self, told: &Params, done: bool) {
        for key in told.keys() {
            match key.to_bytes() {
                // What was refused leaves what there is.
                b"tag" | b"tlsaad" if !done => {}
                b"tag" => self.tag = told.octets(key).and_then(short_tag),
                b"tlsaad" => {
                    self.tls.aad = told.octets(key).and_then(|aad| aad.try_into().ok());
                    self.give_up();
                }
                b"tlsivfixed" => {
                    let fixed = told.octets(key).filter(|_| done);
                    self.tls.fixed = fixed.and_then(|fixed| fixed.try_into().ok());
                    self.forget_iv();
                }
                // Of all else, what an IV is or has become is known to `default` alone.
                b"keylen" | b"padding" | b"tlsaadpad" => {}
                _ => self.forget_iv(),
            }
        }
    }

    /// There is another IV, which is not known here: a message in the mill has the one before.
    fn forget_iv(&mut self) {
        self.iv = None;
        self.give_up();
    }

    /// A message in the mill does not go on: something else has begun in its place.
    fn give_up(&mut self) {
        if self.way == Way::Own {
            self.way = Way::Spent;
        }
    }

    /// The next bytes; how many came out.
    ///
    /// # Safety
    /// What the core promises of its buffers.
    pub(super) unsafe fn update(
        &mut self,
        inner: &InnerCipher,
        key: &mut Option<OwnKey>,
        text: Text,
        room: usize,
    ) -> Option<usize> {
        if text.len == 0 {
            // Nothing, wherever it is said to lie and whatever came before.
            // SAFETY: the caller's promise.
            return unsafe { inner.update(text, room) };
        }
        if let Some(aad) = self.tls.aad.take() {
            // SAFETY: the caller's promise.
            return unsafe { self.record(inner, key, aad, text, room) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.way == Way::Undecided && text.out.is_null() {
                let aad = crate::guard::bytes(text.input, text.len);
                if self.aad.len() + aad.len() > AAD_MAX {
                    self.way = Way::Default;
                } else {
                    self.aad.extend_from_slice(aad);
                }
                return inner.update(text, room);
            }
            if self.way == Way::Undecided && text.len > 0 {
                let is_own = self.iv.is_some() && self.is_worth(inner, key, text.len) && self.go_over(key).is_some();
                self.way = if is_own { Way::Own } else { Way::Default };
            }
        }
        match self.way {
            // SAFETY: the caller's promise.
            Way::Undecided | Way::Default => unsafe { inner.update(text, room) },
            Way::Spent => None,
            // Additional data behind text.
            Way::Own if text.out.is_null() || room < text.len => None,
            Way::Own => {
                let own = self.own.as_mut().filter(|own| own.are_here())?;
                // SAFETY: the caller's promise.
                unsafe { text.run(|piece| own.transform(piece)) }??;
                Some(text.len)
            }
        }
    }

    fn is_worth(&self, inner: &InnerCipher, key: &mut Option<OwnKey>, len: usize) -> bool {
        // Measured as it encrypts: what is decrypted and not right leaves errors behind.
        let asked = Asked { of: inner.of, direction: Direction::Encrypt, len };
        is_worth::<Messages>(asked, key, self.own.is_some())
    }

    /// Messages in the mill for this direction.
    fn messages(&mut self, key: &mut Option<OwnKey>) -> Option<&mut Messages> {
        let direction = self.direction;
        if !self.own.as_ref().is_some_and(|own| own.are_here() && own.direction == direction) {
            let_go(self.own.replace(key.as_mut()?.messages(direction)?));
        }
        self.own.as_mut()
    }

    /// Begins the message in the mill.
    fn go_over(&mut self, key: &mut Option<OwnKey>) -> Option<()> {
        let (iv, aad) = (self.iv?, std::mem::take(&mut self.aad));
        let own = self.messages(key)?;
        let begun = own.begin(&iv, &aad);
        self.aad = aad;
        begun
    }

    /// Ends a message that is in the mill; whether it is right. `None` for those of `default`.
    pub(super) fn finish(&mut self) -> Option<bool> {
        match self.way {
            Way::Undecided | Way::Default => {
                // It is used up there.
                self.iv = None;
                return None;
            }
            Way::Spent => return Some(false),
            Way::Own => self.way = Way::Spent,
        }
        let Some(own) = self.own.as_mut().filter(|own| own.are_here()) else { return Some(false) };
        if self.direction == Direction::Encrypt {
            let mut tag = [0; TAG_LEN];
            let done = own.finish(&mut tag);
            self.tag = done.then_some((tag, TAG_LEN));
            return Some(done);
        }
        let Some((mut tag, len)) = self.tag else { return Some(false) };
        Some(own.finish(&mut tag[..len]))
    }

    /// Answers a question to which `default` does not know the answer.
    pub(super) fn get(&mut self, param: &mut Param) -> Option<bool> {
        if key_of(param) == c"tlsivgen" {
            // Whoever asks for the next IV begins a message with it.
            self.forget_iv();
        }
        let is_tag = key_of(param) == c"tag";
        let is_asked = is_tag && self.way == Way::Spent && self.direction == Direction::Encrypt;
        let (tag, len) = self.tag.filter(|_| is_asked)?;
        Some(
            param.data_type == OCTET_STRING && (1..=len).contains(&param.data_size) && {
                let asked = param.data_size;
                answer_octets(param, &tag[..asked])
            },
        )
    }

    /// One record of TLS 1.2, in place: its explicit IV, text, tag (RFC 5288, 3). How many bytes came out.
    ///
    /// # Safety
    /// What the core promises of its buffers.
    unsafe fn record(
        &mut self,
        inner: &InnerCipher,
        key: &mut Option<OwnKey>,
        mut aad: [u8; TLS_AAD],
        text: Text,
        room: usize,
    ) -> Option<usize> {
        let encrypt = self.direction == Direction::Encrypt;
        let around = TLS_EXPLICIT + TAG_LEN;
        let is_whole = text.len >= around && std::ptr::eq(text.out, text.input) && room >= text.len;
        let is_own = is_whole && self.tls.fixed.is_some() && self.is_worth(inner, key, text.len);
        if !is_own || self.messages(key).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { inner.update(text, room) };
        }
        // SAFETY: `len` bytes may be read and written.
        let record = unsafe { std::slice::from_raw_parts_mut(text.out, text.len) };
        let (explicit, rest) = record.split_at_mut(TLS_EXPLICIT);
        if encrypt {
            // `default` counts records.
            let mut asked = ask_octets(c"tlsivgen", explicit);
            // SAFETY: the parameter's buffer is the slice.
            if !unsafe { inner.get(&mut asked) } {
                return None;
            }
        }
        let mut iv = [0; IV_LEN];
        iv[..TLS_FIXED].copy_from_slice(&self.tls.fixed?);
        iv[TLS_FIXED..].copy_from_slice(explicit);
        let (data, tag) = rest.split_at_mut(rest.len() - TAG_LEN);
        aad[TLS_AAD - 2..].copy_from_slice(&u16::try_from(data.len()).ok()?.to_be_bytes());
        let own = self.messages(key)?;
        let done = own.begin(&iv, &aad).and_then(|()| own.transform(Piece::in_place(data)));
        if done.is_none() || !own.finish(tag) {
            // Nobody gets text that is not right.
            data.zeroize();
            return None;
        }
        Some(if encrypt { text.len } else { data.len() })
    }
}

fn short_tag(tag: &[u8]) -> Option<([u8; TAG_LEN], usize)> {
    let mut kept = [0; TAG_LEN];
    kept.get_mut(..tag.len())?.copy_from_slice(tag);
    (!tag.is_empty()).then_some((kept, tag.len()))
}
