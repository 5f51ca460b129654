//! Messages that come in pieces, for callers who cannot hold them whole: what an engine keeps of one from piece to piece.

use core::fmt;
use core::marker::PhantomData;

use crate::key::PreparedKey;
use crate::status::OpStatus;

/// A message on an engine, in one suite and direction, as [`Engine::stream`](crate::Engine::stream) gives it; then the next message.
///
/// Each call is given the key in the form that the same engine prepared for the suite, the same for the whole message. What is kept
/// between the calls is wiped when the value is dropped. Calls end as operations do: `Done`, `BadInput` where a rule is broken,
/// `EngineFault` when the engine fails; after anything but `Done` the message is lost, and another may be begun.
pub trait Stream: Send {
    /// Begins a message with an IV of a length that the suite takes; what there was of another is forgotten.
    fn begin(&mut self, key: Option<&PreparedKey>, iv: &[u8]) -> OpStatus;

    /// Takes more of what is authenticated or digested only: the message of a MAC or digest; additional data of an AEAD, all of
    /// which come before its first byte of text.
    fn absorb(&mut self, key: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus;

    /// Encrypts or decrypts the next bytes, as many as the caller likes. Of an AEAD's text nobody knows yet whether it is right.
    fn transform(&mut self, key: Option<&PreparedKey>, piece: Piece<'_>) -> OpStatus;

    /// Ends the message: writes tag or digest, or when decrypting compares the tag, which may be shorter than a full one:
    /// `AuthFailed` where it is another. Empty for ciphers without a tag.
    fn finish(&mut self, key: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus;

    /// The message as far as it has come, once more; `None` when the engine fails.
    fn duplicate(&self) -> Option<Box<dyn Stream>>;
}

impl fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

/// Where a piece's input lies and its output goes: the same place, or two that do not overlap.
#[derive(Debug)]
pub struct Piece<'b> {
    input: *const u8,
    output: *mut u8,
    len: usize,
    buffers: PhantomData<&'b mut [u8]>,
}

impl<'b> Piece<'b> {
    /// A piece that its output overwrites.
    pub fn in_place(data: &'b mut [u8]) -> Piece<'b> {
        let output = data.as_mut_ptr();
        Piece { input: output, output, len: data.len(), buffers: PhantomData }
    }

    /// A piece whose output goes elsewhere; `None` where that is not as long.
    pub fn apart(input: &'b [u8], output: &'b mut [u8]) -> Option<Piece<'b>> {
        (input.len() == output.len()).then(|| Piece {
            input: input.as_ptr(),
            output: output.as_mut_ptr(),
            len: input.len(),
            buffers: PhantomData,
        })
    }

    /// The first byte of the input, of which [`Piece::len`] may be read.
    pub fn input(&self) -> *const u8 {
        self.input
    }

    /// The first byte of the output, of which as many may be written.
    pub fn output(&self) -> *mut u8 {
        self.output
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
