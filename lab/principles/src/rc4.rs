//! RC4 (the listing of section 4.2 of the paper; RFC 6229 has vectors), each message from the start of its key stream.
//!
//! A byte takes three reads and two writes of a table that changes all the time, and the message's own byte. Straight, it
//! is the paper's loop. Unrolled, four bytes are made in a row, with one update of `i` and one word of the message. Hiding,
//! `S[i]` of the next byte is read before this byte's swap, and put right where the swap has just changed it. The helper
//! does the last two lines of the paper's loop, see [`helped`].

use crate::family::{Family, Keyed, Message, Style, keep_rolled};
use crate::ring::{Reader, Ring, Writer};
use crate::word::Word;

/// The permutation, an entry a word, as the paper has it.
type Table = [u32; 256];

/// RC4 after its key schedule.
#[derive(Clone)]
pub(crate) struct Rc4 {
    start: Table,
}

impl Rc4 {
    /// The key schedule.
    pub(crate) fn new(key: &[u8]) -> Rc4 {
        let mut table: Table = std::array::from_fn(|value| value as u32);
        let mut j = 0;
        for (i, byte) in (0..table.len()).zip(key.iter().cycle()) {
            j = (j + table[i] as usize + usize::from(*byte)) % table.len();
            table.swap(i, j);
        }
        Rc4 { start: table }
    }
}

/// The state of a message.
#[repr(align(64))]
struct State<W> {
    table: Table,
    j: W,
}

impl<W: Word> State<W> {
    #[inline(always)]
    fn new(key: &Rc4) -> State<W> {
        State { table: key.start, j: W::new(0) }
    }

    /// The next byte of key stream, at `i`.
    #[inline(always)]
    fn step(&mut self, i: usize) -> W {
        let here = W::fetch(&self.table[i]);
        self.j = self.j.add(here).byte(0);
        let there = W::read(&self.table, self.j);
        W::write(&mut self.table, self.j, here);
        W::put(&mut self.table[i], there);
        W::read(&self.table, here.add(there).byte(0))
    }

    /// As [`State::step`], where `S[i]` was read before and `S[next]` is read ahead.
    #[inline(always)]
    fn step_ahead(&mut self, here: &mut W, i: usize, next: usize) -> W {
        let ahead = W::fetch(&self.table[next]);
        self.j = self.j.add(*here).byte(0);
        let there = W::read(&self.table, self.j);
        W::write(&mut self.table, self.j, *here);
        W::put(&mut self.table[i], there);
        let choice = here.add(there).byte(0);
        *here = self.j.where_equal(W::new(next as u32), *here, ahead);
        W::read(&self.table, choice)
    }

    /// The bytes after the last whole word; `i` is what the first of them takes.
    #[inline(always)]
    fn rest(&mut self, i: usize, data: &mut [u8]) {
        for (i, byte) in (i..).zip(data) {
            let pad = self.step(i % 256);
            W::load_byte(byte).xor(pad).store_byte(byte);
        }
    }
}

/// The paper's loop.
#[inline(always)]
fn straight<W: Word>(key: &Rc4, data: &mut [u8]) {
    let mut state = State::<W>::new(key);
    let mut i = W::new(0);
    for byte in data {
        W::iteration();
        keep_rolled();
        i = i.add(W::new(1)).byte(0);
        let pad = state.step(i.index() & 0xff);
        W::load_byte(byte).xor(pad).store_byte(byte);
    }
}

/// The places of four steps that begin after a multiple of four.
#[inline(always)]
fn places<W: Word>(at: usize) -> [usize; 4] {
    let i = W::new(4 * at as u32).byte(0).index() & 0xfc;
    [i + 1, i + 2, i + 3, W::new(i as u32).add(W::new(4)).byte(0).index() & 0xff]
}

#[inline(always)]
fn pack<W: Word>([a, b, c, d]: [W; 4]) -> W {
    a.or(b.shift_left(8)).or(c.shift_left(16)).or(d.shift_left(24))
}

#[inline(always)]
fn unrolled<W: Word>(key: &Rc4, data: &mut [u8]) {
    let mut state = State::<W>::new(key);
    let (words, rest) = data.as_chunks_mut::<4>();
    let whole = 4 * words.len();
    for (at, word) in words.iter_mut().enumerate() {
        W::iteration();
        let pad = pack(places::<W>(at).map(|i| state.step(i)));
        W::load_le(word).xor(pad).store_le(word);
    }
    state.rest(whole + 1, rest);
}

#[inline(always)]
fn hiding<W: Word>(key: &Rc4, data: &mut [u8]) {
    let mut state = State::<W>::new(key);
    let (words, rest) = data.as_chunks_mut::<4>();
    let whole = 4 * words.len();
    let mut here = W::fetch(&state.table[1]);
    for (at, word) in words.iter_mut().enumerate() {
        W::iteration();
        let [a, b, c, d] = places::<W>(at);
        let after = d + 1;
        let text = W::load_le(word);
        let pad = pack([
            state.step_ahead(&mut here, a, b),
            state.step_ahead(&mut here, b, c),
            state.step_ahead(&mut here, c, d),
            state.step_ahead(&mut here, d, after & 0xff),
        ]);
        text.xor(pad).store_le(word);
    }
    state.rest(whole + 1, rest);
}

impl Family for Rc4 {
    const LANES: usize = 4;

    #[inline(always)]
    fn message<W: Word>(&self, style: Style, _number: u32, data: &mut [u8]) {
        match style {
            Style::Straight => straight::<W>(self, data),
            Style::Unrolled => unrolled::<W>(self, data),
            Style::Hiding => hiding::<W>(self, data),
        }
    }

    #[inline(always)]
    fn lanes<W: Word, const L: usize>(keys: [&Rc4; L], _numbers: [u32; L], data: [&mut [u8]; L]) {
        let mut states = keys.map(State::<W>::new);
        let data = data.map(|data| data.as_chunks_mut::<4>());
        let count = data.iter().map(|(words, _)| words.len()).min().unwrap_or(0);
        for at in 0..count {
            W::iteration();
            let mut pads = [[W::new(0); 4]; L];
            for (step, i) in places::<W>(at).into_iter().enumerate() {
                for l in 0..L {
                    pads[l][step] = states[l].step(i);
                }
            }
            for l in 0..L {
                let word = &mut data[l].0[at];
                W::load_le(word).xor(pack(pads[l])).store_le(word);
            }
        }
        for l in 0..L {
            states[l].rest(4 * count + 1, data[l].1);
        }
    }

    fn helped(keys: &Keyed<Rc4>, messages: &mut [Message], passes: usize) -> bool {
        helped(keys, messages, passes);
        true
    }
}

/// Steps whose swaps go in one slot of the ring.
const SWAPS: usize = 8;

/// The paper's helper thread: this thread does the serial lines of the loop, the indices and swaps; the other does the last
/// two, with the message.
///
/// The paper's threads share one memory. Here the last lines would read a table that has changed since, so that the helper
/// keeps a table of its own and repeats the swaps, for which it needs `j` alone. It does not wait for one `j` to find the
/// next, and a cache line brings it 64 of them.
fn helped(keys: &Keyed<Rc4>, messages: &mut [Message], passes: usize) {
    let jobs: Vec<(u32, usize)> = messages.iter().map(|message| (message.number, message.data.len())).collect();
    let mut ring = Ring::new();
    let (mut writer, mut reader) = ring.ends();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..passes {
                for message in &mut *messages {
                    finish(keys.key(message.number), &mut reader, &mut message.data);
                }
            }
        });
        for _ in 0..passes {
            for (number, len) in &jobs {
                swap(keys.key(*number), &mut writer, *len);
            }
        }
    });
}

/// The serial half: indices and swaps.
fn swap(key: &Rc4, writer: &mut Writer<'_>, len: usize) {
    let mut table = key.start;
    let mut j = 0;
    for first in (0..len).step_by(SWAPS) {
        let mut slot = [0; SWAPS];
        for (i, place) in (first + 1..=len).zip(&mut slot) {
            let here = table[i % 256];
            j = (j + here) & 0xff;
            table[i % 256] = table[j as usize];
            table[j as usize] = here;
            *place = j as u8;
        }
        writer.push(u64::from_le_bytes(slot));
    }
    writer.publish();
}

/// The other half: the key stream's byte, and the message.
fn finish(key: &Rc4, reader: &mut Reader<'_>, data: &mut [u8]) {
    let mut table = key.start;
    for (slot, bytes) in data.chunks_mut(SWAPS).enumerate() {
        let places = reader.pop().to_le_bytes();
        for ((i, byte), j) in (SWAPS * slot + 1..).zip(bytes).zip(places) {
            let (here, there) = (table[i % 256], table[usize::from(j)]);
            table[usize::from(j)] = here;
            table[i % 256] = there;
            *byte ^= table[((here + there) & 0xff) as usize] as u8;
        }
    }
}
