//! ECB, CBC with and without ciphertext stealing, CFB, OFB and CTR (NIST SP 800-38A; CTR with a nonce: RFC 3686) over any block cipher, in place.

use ciphermill_contract::Direction;
use ciphermill_contract::suite::Mode;
use zeroize::Zeroizing;

use crate::block::Permutation;

/// Bytes of the counter behind a nonce (RFC 3686, section 4).
const NONCE_COUNTER_LEN: usize = 4;

/// Runs a mode over `data`. `None` for XTS, for an IV of another length and for parts of blocks in ECB and CBC.
pub(crate) fn run<const N: usize>(
    cipher: &dyn Permutation<N>,
    mode: Mode,
    direction: Direction,
    iv: &[u8],
    data: &mut [u8],
) -> Option<()> {
    match mode {
        Mode::Ctr => {
            let (block, counter_len) = first_counter_block::<N>(iv)?;
            ctr(cipher, block, counter_len, data);
            return Some(());
        }
        Mode::Cfb8 | Mode::Cfb128 | Mode::Ofb => {
            let mut feedback = Feedback::new(mode, direction, *<&[u8; N]>::try_from(iv).ok()?);
            feedback.run(cipher, data);
            return Some(());
        }
        Mode::CbcCs1 | Mode::CbcCs2 | Mode::CbcCs3 => {
            return stealing(cipher, mode, direction, iv.try_into().ok()?, data);
        }
        _ => {}
    }
    let (blocks, rest) = data.as_chunks_mut::<N>();
    if !rest.is_empty() {
        return None;
    }
    match (mode, direction) {
        (Mode::Ecb, Direction::Encrypt) => blocks.iter_mut().for_each(|block| cipher.encrypt(block)),
        (Mode::Ecb, Direction::Decrypt) => blocks.iter_mut().for_each(|block| cipher.decrypt(block)),
        (Mode::Cbc, Direction::Encrypt) => cbc_encrypt(cipher, iv.try_into().ok()?, blocks),
        (Mode::Cbc, Direction::Decrypt) => cbc_decrypt(cipher, iv.try_into().ok()?, blocks),
        _ => return None,
    }
    Some(())
}

/// The key stream of counter mode over `data`, from `block` on. The last `counter_len` bytes of the block are a
/// big-endian counter that wraps without touching the bytes before it.
pub(crate) fn ctr<const N: usize>(
    cipher: &dyn Permutation<N>,
    mut block: [u8; N],
    counter_len: usize,
    data: &mut [u8],
) {
    let mut pad = Zeroizing::new([0; N]);
    for chunk in data.chunks_mut(N) {
        *pad = block;
        cipher.encrypt(&mut pad);
        xor(chunk, pad.as_slice());
        increment(&mut block, counter_len);
    }
}

/// Adds `from` to `to` bit by bit, as far as both reach.
pub(crate) fn xor(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

fn cbc_encrypt<const N: usize>(cipher: &dyn Permutation<N>, iv: &[u8; N], blocks: &mut [[u8; N]]) {
    let mut previous = *iv;
    for block in blocks {
        xor(block, &previous);
        cipher.encrypt(block);
        previous = *block;
    }
}

fn cbc_decrypt<const N: usize>(cipher: &dyn Permutation<N>, iv: &[u8; N], blocks: &mut [[u8; N]]) {
    let mut previous = *iv;
    for block in blocks {
        let ciphertext = *block;
        cipher.decrypt(block);
        xor(block, &previous);
        previous = ciphertext;
    }
}

/// CBC with ciphertext stealing (SP 800-38A, addendum): the last block is filled up with zeros, and of the ciphertext before it as much is
/// left out. `None` for less than a block.
fn stealing<const N: usize>(
    cipher: &dyn Permutation<N>,
    mode: Mode,
    direction: Direction,
    iv: &[u8; N],
    data: &mut [u8],
) -> Option<()> {
    let last_len = if data.len().is_multiple_of(N) { N } else { data.len() % N };
    let head_len = data.len().checked_sub(last_len)?;
    let Some(tail) = head_len.checked_sub(N) else { return run(cipher, Mode::Cbc, direction, iv, data) };
    // In the middle the last block comes first, as in CS3.
    let is_swapped = mode == Mode::CbcCs3 || (mode == Mode::CbcCs2 && last_len < N);
    if direction == Direction::Decrypt && !is_swapped {
        data[tail..].rotate_left(last_len);
    }
    let (head, last) = data.split_at_mut(head_len);
    let blocks = head.as_chunks_mut::<N>().0;
    if direction == Direction::Encrypt {
        cbc_encrypt(cipher, iv, blocks);
        let before = blocks.last_mut()?;
        let mut block = Zeroizing::new([0; N]);
        block[..last_len].copy_from_slice(last);
        xor(block.as_mut_slice(), before);
        cipher.encrypt(&mut block);
        last.copy_from_slice(&before[..last_len]);
        before.copy_from_slice(block.as_slice());
    } else {
        let before = blocks.last_mut()?;
        let mut block = Zeroizing::new(*before);
        cipher.decrypt(&mut block);
        // Behind the text, where there were zeros, is what was left out.
        let (text, left_out) = block.split_at(last_len);
        before[..last_len].copy_from_slice(last);
        before[last_len..].copy_from_slice(left_out);
        xor(last, text);
        cbc_decrypt(cipher, iv, blocks);
    }
    if direction == Direction::Encrypt && !is_swapped {
        data[tail..].rotate_left(N);
    }
    Some(())
}

/// A message in CFB or OFB, as far as it has come (SP 800-38A, 6.3 and 6.4).
#[derive(Clone)]
pub(crate) struct Feedback<const N: usize> {
    mode: Mode,
    direction: Direction,
    /// What the cipher is applied to next. In CFB it fills up with the segment's ciphertext.
    register: Zeroizing<[u8; N]>,
    /// The cipher's answer, which is added to the segment at hand.
    pad: Zeroizing<[u8; N]>,
    /// Bytes of the segment that are done.
    used: usize,
}

impl<const N: usize> Feedback<N> {
    pub(crate) fn new(mode: Mode, direction: Direction, iv: [u8; N]) -> Feedback<N> {
        Feedback { mode, direction, register: Zeroizing::new(iv), pad: Zeroizing::new([0; N]), used: 0 }
    }

    /// The next bytes of the message.
    pub(crate) fn run(&mut self, cipher: &dyn Permutation<N>, data: &mut [u8]) {
        let segment = if self.mode == Mode::Cfb8 { 1 } else { N };
        for byte in data {
            if self.used == 0 {
                self.pad.copy_from_slice(self.register.as_slice());
                cipher.encrypt(&mut self.pad);
                self.register.rotate_left(segment);
            }
            let before = *byte;
            *byte ^= self.pad[self.used];
            self.register[N - segment + self.used] = match (self.mode, self.direction) {
                (Mode::Ofb, _) => self.pad[self.used],
                (_, Direction::Encrypt) => *byte,
                (_, Direction::Decrypt) => before,
            };
            self.used = (self.used + 1) % segment;
        }
    }
}

/// The first counter block and the length of its counter: a whole block as it is, or a nonce before a counter of one.
fn first_counter_block<const N: usize>(iv: &[u8]) -> Option<([u8; N], usize)> {
    if let Ok(block) = iv.try_into() {
        return Some((block, N));
    }
    let nonce_len = N.checked_sub(NONCE_COUNTER_LEN).filter(|len| *len == iv.len())?;
    let mut block = [0; N];
    block[..nonce_len].copy_from_slice(iv);
    block[N - 1] = 1;
    Some((block, NONCE_COUNTER_LEN))
}

/// Adds one to the big-endian counter of `counter_len` bytes at the end of a block.
pub(crate) fn increment<const N: usize>(block: &mut [u8; N], counter_len: usize) {
    for byte in block.iter_mut().rev().take(counter_len) {
        let (sum, carry) = byte.overflowing_add(1);
        *byte = sum;
        if !carry {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enciphers by doing nothing, so that counter blocks come out as they are.
    struct Identity;

    impl<const N: usize> Permutation<N> for Identity {
        fn encrypt(&self, _block: &mut [u8; N]) {}
        fn decrypt(&self, _block: &mut [u8; N]) {}
    }

    #[test]
    fn a_whole_block_counts_as_one_number() {
        let mut data = [0; 20];
        run::<16>(&Identity, Mode::Ctr, Direction::Encrypt, &[0xff; 16], &mut data).unwrap();
        assert_eq!(data[..16], [0xff; 16]);
        assert_eq!(data[16..], [0; 4]);
    }

    #[test]
    fn a_nonce_is_not_touched_when_its_counter_wraps() {
        let mut data = [0; 32];
        let mut block = [0xff; 16];
        block[0] = 7;
        ctr::<16>(&Identity, block, 4, &mut data);
        assert_eq!(data[16], 7);
        assert_eq!(data[17..28], [0xff; 11]);
        assert_eq!(data[28..], [0; 4]);
    }

    #[test]
    fn a_counter_behind_a_nonce_starts_at_one() {
        let mut data = [0; 16];
        run::<8>(&Identity, Mode::Ctr, Direction::Encrypt, &[9; 4], &mut data).unwrap();
        assert_eq!(data, [9, 9, 9, 9, 0, 0, 0, 1, 9, 9, 9, 9, 0, 0, 0, 2]);
    }

    #[test]
    fn other_lengths_are_refused() {
        let mut data = [0; 15];
        assert_eq!(run::<16>(&Identity, Mode::Cbc, Direction::Encrypt, &[0; 16], &mut data), None);
        assert_eq!(run::<16>(&Identity, Mode::Ctr, Direction::Encrypt, &[0; 13], &mut data), None);
        assert_eq!(run::<16>(&Identity, Mode::Cbc, Direction::Decrypt, &[0; 8], &mut data[..0]), None);
    }
}
