//! Single messages: buffers that lie anywhere.

use ciphermill::OneDone;
use ciphermill::contract::{Direction, OpStatus, Result as MillResult, Suite};
use smallvec::SmallVec;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::foreign::{self, Plain, Stretches};

/// One message and its buffers, which may lie anywhere. Lengths are in bytes; pointers may be NULL where lengths are zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_message {
    /// The initialisation vector, nonce, tweak or counter block.
    pub iv: *const u8,
    /// Its bytes.
    pub iv_len: usize,
    /// Additional authenticated data, or FF1's tweak.
    pub aad: *const u8,
    /// Their bytes.
    pub aad_len: usize,
    /// The input.
    pub input: *const u8,
    /// Its bytes.
    pub input_len: usize,
    /// Where the output goes: at `input`, or where it does not overlap it.
    pub output: *mut u8,
    /// The room there; on return the bytes that were written. The suite "random" fills all of it.
    pub output_len: usize,
    /// Where the tag, digest or signature goes; only read where it is to be verified.
    pub tag: *mut u8,
    /// Its bytes, when signing or encapsulating the room; on return the bytes that were written or verified.
    pub tag_len: usize,
}

// SAFETY: integers and pointers, which are checked before they are followed.
unsafe impl Plain for ciphermill_message {}

/// A message's buffers as the mill's single operations want them: input and output in one place.
pub(crate) struct Buffers<'b> {
    pub(crate) iv: &'b [u8],
    pub(crate) aad: &'b [u8],
    pub(crate) data: &'b mut [u8],
    pub(crate) input_len: usize,
    pub(crate) tag: &'b mut [u8],
}

/// Bytes of tags that need no memory of their own.
const TAG_LEN_USUAL: usize = 64;

/// A copy of `bytes` with `room` behind them, which is wiped.
fn copy_of(bytes: &[u8], room: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut copy = Vec::new();
    let len = bytes.len().max(room);
    copy.try_reserve_exact(len).map_err(|_| Failure::memory(len))?;
    copy.extend_from_slice(bytes);
    copy.resize(len, 0);
    Ok(Zeroizing::new(copy))
}

impl ciphermill_message {
    fn check_apart(&self, direction: Direction) -> Result<(), Failure> {
        let mut apart = Stretches::<6>::new();
        apart.add(self.tag.cast_const(), self.tag_len, direction == Direction::Encrypt, "tag")?;
        apart.add(self.output.cast_const(), self.output_len, true, "output")?;
        apart.add(self.iv, self.iv_len, false, "iv")?;
        apart.add(self.aad, self.aad_len, false, "aad")?;
        if self.input == self.output.cast_const() && self.output_len >= self.input_len {
            return Ok(());
        }
        apart.add(self.input, self.input_len, false, "input")
    }

    /// Runs the message by `run` and sets the lengths of what it wrote.
    ///
    /// # Errors
    /// Those of `run`, and with what has become of the message if it is not done. What was written of the output is zeroed then,
    /// unless it is in the place of an input that nobody has touched.
    ///
    /// # Safety
    /// The buffers are the caller's to be read and written.
    pub(crate) unsafe fn run(
        &mut self,
        suite: Suite,
        direction: Direction,
        run: impl FnOnce(Buffers<'_>) -> MillResult<OneDone>,
    ) -> Result<(), Failure> {
        foreign::fits(self.input, self.input_len, "input")?;
        foreign::fits(self.output.cast_const(), self.output_len, "output")?;
        self.check_apart(direction)?;
        let (iv_at, aad_at, in_place) = ((self.iv, self.iv_len), (self.aad, self.aad_len), self.input == self.output);
        // SAFETY: by the caller; apart from what is written, as checked.
        let (iv, aad) =
            unsafe { (foreign::slice(iv_at.0, iv_at.1, "iv")?, foreign::slice(aad_at.0, aad_at.1, "aad")?) };
        let mut verified = SmallVec::<[u8; TAG_LEN_USUAL]>::new();
        let tag = match direction {
            // SAFETY: by the caller; apart from all else, as checked.
            Direction::Encrypt => unsafe { foreign::slice_mut(self.tag, self.tag_len, "tag") }?,
            Direction::Decrypt => {
                // SAFETY: by the caller.
                verified.extend_from_slice(unsafe { foreign::slice(self.tag.cast_const(), self.tag_len, "tag") }?);
                &mut verified[..]
            }
        };
        let (input_len, room) = (self.input_len, self.output_len);
        let is_silent = suite.output_len(direction, input_len, room) == 0;
        let done = if !is_silent && in_place && room >= input_len {
            // SAFETY: by the caller; apart from all else, as checked, and the input is within.
            let data = unsafe { foreign::slice_mut(self.output, room, "output") }?;
            run(Buffers { iv, aad, data, input_len, tag })?
        } else {
            // SAFETY: by the caller; apart from what is written, as checked.
            let input = unsafe { foreign::slice(self.input, input_len, "input") }?;
            // SAFETY: by the caller; apart from all else, as checked.
            let output = unsafe { foreign::slice_mut(self.output, room, "output") }?;
            if is_silent || room < input_len {
                let mut copy = copy_of(input, room)?;
                let done = run(Buffers { iv, aad, data: &mut copy, input_len, tag })?;
                if done.output_len > room {
                    let needed = done.output_len;
                    return Err(Failure::misuse(format!("the output has {needed} bytes, there is room for {room}")));
                }
                output[..done.output_len].copy_from_slice(&copy[..done.output_len]);
                done
            } else {
                output[..input_len].copy_from_slice(input);
                let ran = run(Buffers { iv, aad, data: &mut *output, input_len, tag });
                if !matches!(&ran, Ok(OneDone { status: OpStatus::Done, .. })) {
                    // It may still be the input.
                    output.fill(0);
                }
                ran?
            }
        };
        Failure::of_status(done.status)?;
        (self.output_len, self.tag_len) = (done.output_len, done.tag_len);
        Ok(())
    }
}
