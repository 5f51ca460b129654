//! Messages that come in pieces, for callers who cannot hold them whole: what an engine keeps of one from piece to piece.

use core::fmt;

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
pub struct Piece<'b>(Buffers<'b>);

#[derive(Debug)]
enum Buffers<'b> {
    InPlace(&'b mut [u8]),
    /// Both of one length.
    Apart(&'b [u8], &'b mut [u8]),
}

impl<'b> Piece<'b> {
    /// A piece that its output overwrites.
    pub fn in_place(data: &'b mut [u8]) -> Piece<'b> {
        Piece(Buffers::InPlace(data))
    }

    /// A piece whose output goes elsewhere; `None` where that is not as long.
    pub fn apart(input: &'b [u8], output: &'b mut [u8]) -> Option<Piece<'b>> {
        (input.len() == output.len()).then_some(Piece(Buffers::Apart(input, output)))
    }

    /// The first byte of the input, of which [`Piece::len`] may be read, and of the output, of which as many may be written.
    pub fn pointers(&mut self) -> (*const u8, *mut u8) {
        match &mut self.0 {
            Buffers::InPlace(data) => {
                let place = data.as_mut_ptr();
                (place, place)
            }
            Buffers::Apart(input, output) => (input.as_ptr(), output.as_mut_ptr()),
        }
    }

    /// The input, as long as nothing has been written.
    pub fn input(&self) -> &[u8] {
        match &self.0 {
            Buffers::InPlace(data) => data,
            Buffers::Apart(input, _) => input,
        }
    }

    /// Where the output goes.
    pub fn output(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Buffers::InPlace(output) | Buffers::Apart(_, output) => output,
        }
    }

    /// The output, with the input in it, to be transformed in place.
    pub fn copied(&mut self) -> &mut [u8] {
        if let Buffers::Apart(input, output) = &mut self.0 {
            output.copy_from_slice(input);
        }
        self.output()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.input().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
