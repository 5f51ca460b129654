//! Encryption and decryption, in one call or in parts.

use ciphermill::{Bound, BoundOp, MultiPart};
use ciphermill_contract::suite::{Aead as AeadSuite, BlockCipher, KeyWrap, Mode, PublicEncryption, StreamCipher};
use ciphermill_contract::{Direction, Suite};
use cryptoki_sys::{
    CKR_BUFFER_TOO_SMALL, CKR_DATA_LEN_RANGE, CKR_ENCRYPTED_DATA_INVALID, CKR_ENCRYPTED_DATA_LEN_RANGE,
    CKR_GENERAL_ERROR, CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID,
};
use smallvec::SmallVec;
use subtle::{Choice, ConstantTimeEq, ConstantTimeLess};
use zeroize::{Zeroize, Zeroizing};

use crate::key::{Key, KeyShape};
use crate::mechanisms::{Cipher as BlockKind, Mechanism, Oaep, Padded, Parameter, What};
use crate::operations::{Buffers, Step, keep, rsa, run};
use crate::rv::{Asked, Result, Rv, fail, of_status};
use crate::session::{Begun, Steps};

/// Bytes of a block at most.
const BLOCK_MAX: usize = 16;
/// Bytes of a tag at most.
const TAG_MAX: usize = 16;

/// Encryption or decryption of one message.
pub(crate) struct Cipher {
    key: Key,
    suite: Suite,
    direction: Direction,
    form: Form,
    iv: SmallVec<[u8; 16]>,
    aad: SmallVec<[u8; 32]>,
    /// Bytes that the counter of a stream lasts for.
    left: u128,
    /// Around the primitive of RSA.
    oaep: Option<Box<Oaep>>,
    /// For whole messages, once a call has needed it.
    bound: Option<Box<Bound>>,
    parts: Parts,
    /// What it was begun with, if others with the same may follow.
    pub(crate) begun: Option<Begun>,
}

/// How lengths of input and output go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Whole blocks, of so many bytes.
    Blocks(usize),
    /// Whole blocks, the last one filled (PKCS#7).
    Filled(usize),
    /// As long as the input.
    Stream,
    /// The text, then a tag.
    Tagged(usize),
    /// What the suite says, in one piece: key wrap and RSA.
    Whole,
}

/// What is kept of a message that comes in parts.
enum Parts {
    /// No part has come.
    None,
    /// An engine keeps the state.
    Streamed(Box<MultiPart>),
    /// Blocks are run as they come, each time as a message whose IV is what they are chained to; applications rely on whole blocks that come
    /// out with the part that completes them. Fewer bytes than a block, or the last block when decrypting with padding, wait for more.
    Chained { waiting: SmallVec<[u8; 2 * BLOCK_MAX]> },
    /// All parts, until the end.
    Kept(Zeroizing<Vec<u8>>),
}

fn suite_and_form(mechanism: &Mechanism, key: &Key) -> Result<(Suite, Form)> {
    let aes = || match key.shape {
        KeyShape::Aes(size) => Ok(size),
        _ => fail(CKR_KEY_TYPE_INCONSISTENT),
    };
    let rsa = || match key.shape {
        KeyShape::Rsa(size) => Ok(size),
        _ => fail(CKR_KEY_TYPE_INCONSISTENT),
    };
    Ok(match (mechanism.what, &mechanism.parameter) {
        (What::Block(kind, mode, padded), _) => {
            let cipher = match (kind, key.shape) {
                (BlockKind::Aes, KeyShape::AesXts(size)) if mode == Mode::Xts => BlockCipher::Aes(size),
                (BlockKind::Aes, KeyShape::Aes(size)) if mode != Mode::Xts => BlockCipher::Aes(size),
                (BlockKind::Des, KeyShape::Des) => BlockCipher::Des,
                (BlockKind::TripleDes, KeyShape::TripleDes) => BlockCipher::TripleDes,
                _ => return fail(CKR_KEY_TYPE_INCONSISTENT),
            };
            let form = match (mode, padded) {
                (Mode::Ecb | Mode::Cbc, Padded::No) => Form::Blocks(cipher.block_len()),
                (_, Padded::Yes) => Form::Filled(cipher.block_len()),
                _ => Form::Stream,
            };
            (Suite::Cipher(cipher, mode), form)
        }
        (What::ChaCha20, _) if key.shape == KeyShape::ChaCha20 => (Suite::Stream(StreamCipher::ChaCha20), Form::Stream),
        (What::ChaCha20Poly1305, _) if key.shape == KeyShape::ChaCha20 => {
            (Suite::Aead(AeadSuite::ChaCha20Poly1305), Form::Tagged(16))
        }
        (What::Gcm, Parameter::Aead(aead)) if aead.iv.len() == 12 => {
            (Suite::Aead(AeadSuite::AesGcm(aes()?)), Form::Tagged(aead.tag_len))
        }
        (What::Gcm, Parameter::Aead(aead)) => (Suite::Aead(AeadSuite::AesGcmAnyIv(aes()?)), Form::Tagged(aead.tag_len)),
        (What::Ccm, Parameter::Aead(aead)) => (Suite::Aead(AeadSuite::AesCcm(aes()?)), Form::Tagged(aead.tag_len)),
        (What::KeyWrap(Padded::No), _) => (Suite::Wrap(KeyWrap::Kw(aes()?)), Form::Whole),
        (What::KeyWrap(Padded::Yes), _) => (Suite::Wrap(KeyWrap::Kwp(aes()?)), Form::Whole),
        (What::RsaPkcs1(None), _) => (Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(rsa()?)), Form::Whole),
        (What::RsaOaep, Parameter::Oaep(oaep)) if key.value.is_padded_elsewhere() && oaep.is_usual() => {
            (Suite::PublicEncrypt(PublicEncryption::RsaOaep(rsa()?, oaep.digest)), Form::Whole)
        }
        (What::RsaOaep | What::RsaRaw, _) => (Suite::PublicEncrypt(PublicEncryption::RsaRaw(rsa()?)), Form::Whole),
        (What::ChaCha20 | What::ChaCha20Poly1305, _) => return fail(CKR_KEY_TYPE_INCONSISTENT),
        _ => return fail(CKR_MECHANISM_INVALID),
    })
}

impl Cipher {
    /// # Errors
    /// `CKR_KEY_TYPE_INCONSISTENT`, `CKR_MECHANISM_INVALID`; those of the mill.
    pub(crate) fn init(mechanism: &Mechanism, direction: Direction, key: Key) -> Result<Cipher> {
        let (suite, form) = suite_and_form(mechanism, &key)?;
        let is_primitive = matches!(suite, Suite::PublicEncrypt(PublicEncryption::RsaRaw(_)));
        let oaep = match &mechanism.parameter {
            Parameter::Oaep(oaep) if is_primitive => Some(Box::new(oaep.clone())),
            _ => None,
        };
        let (iv, aad) = (SmallVec::new(), SmallVec::new());
        let (left, bound, parts) = (u128::MAX, None, Parts::None);
        let mut cipher = Cipher { key, suite, direction, form, iv, aad, left, oaep, bound, parts, begun: None };
        cipher.set_parameter(&mechanism.parameter);
        Ok(cipher)
    }

    /// Begins another message with the same key and kind of mechanism, if that is run in the same way.
    #[inline]
    pub(crate) fn init_again(&mut self, mechanism: &Mechanism) -> bool {
        let same = suite_and_form(mechanism, &self.key).is_ok_and(|(suite, form)| {
            self.form = form;
            suite == self.suite
        });
        if same {
            self.set_parameter(&mechanism.parameter);
        }
        same
    }

    /// Whether another message can be begun with it: one that the handle is for, which has come in one call.
    pub(crate) fn can_go_again(&self) -> bool {
        self.bound.is_some() && matches!(self.parts, Parts::None)
    }

    fn set_parameter(&mut self, parameter: &Parameter) {
        let (iv, aad, left) = match parameter {
            Parameter::Iv(iv) => (iv.as_slice(), &[][..], u128::MAX),
            Parameter::Counter(iv, left) => (iv.as_slice(), &[][..], *left),
            Parameter::Aead(aead) => (aead.iv.as_slice(), aead.aad.as_slice(), u128::MAX),
            _ => (&[][..], &[][..], u128::MAX),
        };
        self.iv.clear();
        self.iv.extend_from_slice(iv);
        self.aad.clear();
        self.aad.extend_from_slice(aad);
        self.left = left;
    }

    /// Bytes that a whole message becomes at most.
    fn whole_len(&self, input_len: usize) -> usize {
        match (self.form, self.direction) {
            (Form::Filled(block), Direction::Encrypt) => (input_len / block + 1).saturating_mul(block),
            (Form::Tagged(tag), Direction::Encrypt) => input_len.saturating_add(tag),
            (Form::Tagged(tag), Direction::Decrypt) => input_len.saturating_sub(tag),
            (Form::Whole, _) => self.suite.output_len(self.direction, input_len, 0),
            _ => input_len,
        }
    }

    /// The error for an input of a wrong length.
    fn wrong_len(&self) -> Rv {
        Rv(match self.direction {
            Direction::Encrypt => CKR_DATA_LEN_RANGE,
            Direction::Decrypt => CKR_ENCRYPTED_DATA_LEN_RANGE,
        })
    }

    fn asked(&self) -> Asked {
        match self.direction {
            Direction::Encrypt => Asked::Other,
            Direction::Decrypt => Asked::Open,
        }
    }

    /// Whether an input may have this length.
    fn check_len(&self, len: usize) -> Result<()> {
        let encrypts = self.direction == Direction::Encrypt;
        let fits = match self.form {
            Form::Blocks(block) => len.is_multiple_of(block),
            Form::Filled(block) => encrypts || (len != 0 && len.is_multiple_of(block)),
            Form::Tagged(tag) => encrypts || len >= tag,
            // Its own code says how long a message may be.
            Form::Whole if encrypts && self.oaep.is_some() => true,
            Form::Stream | Form::Whole => self.suite.input_len(self.direction).contains(len),
        };
        if fits { Ok(()) } else { Err(self.wrong_len()) }
    }

    /// Encrypts or decrypts a whole message.
    fn whole(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        self.check_len(input.len())?;
        match (self.form, self.direction) {
            (Form::Blocks(_) | Form::Stream, _) => {
                let Some(output) = output.get_mut(..input.len()) else { return fail(CKR_BUFFER_TOO_SMALL) };
                output.copy_from_slice(input);
                self.in_place(output, &mut [])?;
                Ok(input.len())
            }
            (Form::Filled(block), Direction::Encrypt) => {
                let len = self.whole_len(input.len());
                let Some(output) = output.get_mut(..len) else { return fail(CKR_BUFFER_TOO_SMALL) };
                let (text, filling) = output.split_at_mut(input.len());
                text.copy_from_slice(input);
                filling.fill((block - input.len() % block) as u8);
                self.in_place(output, &mut [])?;
                Ok(len)
            }
            (Form::Filled(block), Direction::Decrypt) => {
                let mut text = Zeroizing::new(input.to_vec());
                self.in_place(&mut text, &mut [])?;
                let len = text_len(&text, block)?;
                give(&text[..len], output)
            }
            (Form::Tagged(_), Direction::Encrypt) => {
                let len = self.whole_len(input.len());
                let Some(output) = output.get_mut(..len) else { return fail(CKR_BUFFER_TOO_SMALL) };
                let (text, tag) = output.split_at_mut(input.len());
                text.copy_from_slice(input);
                self.in_place(text, tag)?;
                Ok(len)
            }
            (Form::Tagged(tag_len), Direction::Decrypt) => {
                let (input, given) = input.split_at(input.len() - tag_len);
                let Some(output) = output.get_mut(..input.len()) else { return fail(CKR_BUFFER_TOO_SMALL) };
                let mut tag: SmallVec<[u8; TAG_MAX]> = SmallVec::from_slice(given);
                output.copy_from_slice(input);
                self.in_place(output, &mut tag)?;
                Ok(output.len())
            }
            (Form::Whole, _) => self.elsewhere(input, output),
        }
    }

    /// Runs the suite over a text where it lies.
    fn in_place(&mut self, data: &mut [u8], tag: &mut [u8]) -> Result<()> {
        let bound = match &mut self.bound {
            Some(bound) => bound,
            place => place.insert(self.key.value.bound(self.suite, self.direction)?),
        };
        let input_len = data.len();
        let done = bound.run(BoundOp { iv: &self.iv, aad: &self.aad, data, input_len, tag })?;
        of_status(done.status, self.asked())
    }

    /// Runs a suite whose output has another length, by way of a copy. RSA shares batches with other threads.
    fn elsewhere(&self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        if let (Some(oaep), Suite::PublicEncrypt(encryption)) = (&self.oaep, self.suite) {
            let (size, value) = (encryption.size(), &self.key.value);
            return match self.direction {
                Direction::Encrypt if output.len() < size.len() => fail(CKR_BUFFER_TOO_SMALL),
                Direction::Encrypt => give(&rsa::encrypt_oaep(value, size, oaep, input)?, output),
                Direction::Decrypt => give(&rsa::decrypt_oaep(value, size, oaep, input)?, output),
            };
        }
        let len = self.whole_len(input.len()).max(input.len());
        let mut data = Zeroizing::new(vec![0; len]);
        let encrypts = self.direction == Direction::Encrypt;
        if encrypts && output.len() < self.whole_len(input.len()) {
            return fail(CKR_BUFFER_TOO_SMALL);
        }
        data[..input.len()].copy_from_slice(input);
        let buffers = Buffers { iv: &self.iv, data: &mut data, input_len: input.len(), ..Buffers::default() };
        let id = self.key.value.id()?;
        let done = run(self.key.value.mill(), (self.suite, self.direction), id, self.asked(), buffers)?;
        give(data.get(..done.output_len).ok_or(Rv(CKR_GENERAL_ERROR))?, output)
    }

    /// Begins a message in parts: block by block, with the engine where one takes it so, or kept where nothing may be given out before the
    /// end.
    fn begin(&mut self) -> Result<()> {
        self.parts = match (self.form, self.direction) {
            (Form::Blocks(_) | Form::Filled(_), _) => Parts::Chained { waiting: SmallVec::new() },
            (Form::Whole, _) | (Form::Tagged(_), Direction::Decrypt) => Parts::Kept(Zeroizing::default()),
            (Form::Stream | Form::Tagged(_), _) => self.streamed()?,
        };
        Ok(())
    }

    fn streamed(&self) -> Result<Parts> {
        let id = self.key.value.id()?;
        let mut message = match self.key.value.mill().multi_part(self.suite, self.direction, id) {
            Ok(message) => message,
            // No engine takes the suite in parts: the whole comes out at the end.
            Err(ciphermill_contract::Error::Refused(_)) => return Ok(Parts::Kept(Zeroizing::default())),
            Err(error) => return Err(error.into()),
        };
        message.begin(&self.iv)?;
        if !self.aad.is_empty() {
            message.absorb(&self.aad)?;
        }
        Ok(Parts::Streamed(Box::new(message)))
    }

    /// How many of so many bytes that are there go on now: whole blocks, of which padding holds the last one back.
    fn goes_on(&self, there: usize) -> usize {
        match (self.form, self.direction) {
            (Form::Blocks(block), _) | (Form::Filled(block), Direction::Encrypt) => there - there % block,
            (Form::Filled(block), Direction::Decrypt) => there.saturating_sub(1) / block * block,
            _ => there,
        }
    }

    fn waiting(&self) -> usize {
        match &self.parts {
            Parts::None | Parts::Streamed(_) => 0,
            Parts::Chained { waiting } => waiting.len(),
            Parts::Kept(kept) => kept.len(),
        }
    }

    fn part(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        if matches!(self.parts, Parts::None) {
            self.begin()?;
        }
        let len = self.goes_on(self.waiting() + input.len());
        match &mut self.parts {
            Parts::None => fail(CKR_GENERAL_ERROR),
            Parts::Kept(kept) => {
                keep(kept, input);
                Ok(0)
            }
            Parts::Streamed(message) => {
                let Some(output) = output.get_mut(..len) else { return fail(CKR_BUFFER_TOO_SMALL) };
                message.transform(input, output)?;
                Ok(len)
            }
            Parts::Chained { waiting } => {
                let Some(output) = output.get_mut(..len) else { return fail(CKR_BUFFER_TOO_SMALL) };
                gather(waiting, input, output);
                self.chained(output)?;
                Ok(len)
            }
        }
    }

    /// Runs blocks of ECB or CBC in the middle of a message, and notes the block of ciphertext that the next ones are chained to
    /// (NIST SP 800-38A, section 6.2); ECB has none.
    fn chained(&mut self, data: &mut [u8]) -> Result<()> {
        let Some(last) = data.len().checked_sub(self.iv.len()).filter(|_| !data.is_empty()) else { return Ok(()) };
        let encrypted: SmallVec<[u8; 16]> = SmallVec::from_slice(&data[last..]);
        self.in_place(data, &mut [])?;
        self.iv = if self.direction == Direction::Decrypt { encrypted } else { SmallVec::from_slice(&data[last..]) };
        Ok(())
    }

    /// The end of a message whose blocks are run as they come.
    fn last_chained(&mut self, waiting: &[u8], output: &mut [u8]) -> Result<usize> {
        match (self.form, self.direction) {
            (Form::Filled(block), Direction::Encrypt) => {
                let Some(output) = output.get_mut(..block) else { return fail(CKR_BUFFER_TOO_SMALL) };
                let (text, filling) = output.split_at_mut(waiting.len());
                text.copy_from_slice(waiting);
                filling.fill((block - waiting.len()) as u8);
                self.in_place(output, &mut [])?;
                Ok(block)
            }
            // The IV stays, so that a buffer that is too small can be followed by a larger one.
            (Form::Filled(_), Direction::Decrypt) => self.whole(waiting, output),
            _ if !waiting.is_empty() => Err(self.wrong_len()),
            _ => Ok(0),
        }
    }

    fn last(&mut self, output: &mut [u8]) -> Result<usize> {
        if matches!(self.parts, Parts::None) {
            // No part came: the message is empty.
            return self.whole(&[], output);
        }
        match &mut self.parts {
            Parts::Kept(kept) => {
                let kept = std::mem::take(kept);
                let done = self.whole(&kept, output);
                if done == fail(CKR_BUFFER_TOO_SMALL) {
                    self.parts = Parts::Kept(kept);
                }
                done
            }
            Parts::Chained { waiting } => {
                let waiting = Zeroizing::new(waiting.to_vec());
                self.last_chained(&waiting, output)
            }
            Parts::Streamed(message) => {
                let len = if let Form::Tagged(len) = self.form { len } else { 0 };
                let Some(tag) = output.get_mut(..len) else { return fail(CKR_BUFFER_TOO_SMALL) };
                of_status(message.finish(tag)?, Asked::Other)?;
                Ok(len)
            }
            Parts::None => fail(CKR_GENERAL_ERROR),
        }
    }
}

impl Steps for Cipher {
    fn len(&self, step: Step, input_len: usize) -> usize {
        match (step, &self.parts) {
            (Step::OneShot, _) => self.whole_len(input_len),
            (Step::Update, Parts::Kept(_)) => 0,
            (Step::Update, Parts::None) if self.form == Form::Whole => 0,
            (Step::Update, _) => self.goes_on(self.waiting() + input_len),
            (Step::Final, Parts::Kept(kept)) => self.whole_len(kept.len()),
            (Step::Final, Parts::None) => self.whole_len(0),
            (Step::Final, Parts::Streamed(_) | Parts::Chained { .. }) => match self.form {
                Form::Filled(block) => block,
                Form::Tagged(tag) => tag,
                _ => 0,
            },
        }
    }

    fn step(&mut self, step: Step, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let Some(left) = self.left.checked_sub(input.len() as u128) else { return Err(self.wrong_len()) };
        let done = match step {
            Step::OneShot => self.whole(input, output),
            Step::Update => self.part(input, output),
            Step::Final => self.last(output),
        };
        if done.is_ok() {
            self.left = left;
        }
        done
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        if let Some(bound) = self.bound.take() {
            self.key.value.keep_bound(bound);
        }
        if let Parts::Chained { waiting } = &mut self.parts {
            // What has waited and gone on lies behind what waits now.
            waiting.resize(waiting.inline_size(), 0);
            waiting.zeroize();
        }
    }
}

/// Fills an output from what waits and then from the input, of which the rest waits.
fn gather(waiting: &mut SmallVec<[u8; 2 * BLOCK_MAX]>, input: &[u8], output: &mut [u8]) {
    let from_waiting = output.len().min(waiting.len());
    let from_input = output.len() - from_waiting;
    output[..from_waiting].copy_from_slice(&waiting[..from_waiting]);
    output[from_waiting..].copy_from_slice(&input[..from_input]);
    waiting.drain(..from_waiting);
    waiting.extend_from_slice(&input[from_input..]);
}

fn give(bytes: &[u8], output: &mut [u8]) -> Result<usize> {
    let Some(output) = output.get_mut(..bytes.len()) else { return fail(CKR_BUFFER_TOO_SMALL) };
    output.copy_from_slice(bytes);
    Ok(bytes.len())
}

/// Bytes of a text without its padding, looked at in the same time whatever it says.
fn text_len(text: &[u8], block: usize) -> Result<usize> {
    let Some(&filled) = text.last() else { return fail(CKR_ENCRYPTED_DATA_LEN_RANGE) };
    let mut good = !filled.ct_eq(&0) & filled.ct_lt(&(block as u8 + 1));
    for (from_end, byte) in text.iter().rev().take(block).enumerate() {
        let is_filling: Choice = (from_end as u8).ct_lt(&filled);
        good &= !is_filling | byte.ct_eq(&filled);
    }
    if bool::from(good) { Ok(text.len() - usize::from(filled)) } else { fail(CKR_ENCRYPTED_DATA_INVALID) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_one_to_a_block_of_equal_bytes() {
        let mut text = [7_u8; 16];
        assert_eq!(text_len(&text, 16), Ok(9));
        text[15] = 1;
        assert_eq!(text_len(&text, 16), Ok(15));
        assert_eq!(text_len(&[16; 16], 16), Ok(0));
        for bad in [0, 2, 17, 255] {
            text[15] = bad;
            assert_eq!(text_len(&text, 16), fail(CKR_ENCRYPTED_DATA_INVALID), "{bad}");
        }
        assert_eq!(text_len(&[], 16), fail(CKR_ENCRYPTED_DATA_LEN_RANGE));
    }
}
