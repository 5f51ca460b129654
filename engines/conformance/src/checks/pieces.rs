//! Messages in pieces end as whole ones do, wherever they are cut, and go on from a copy as from the original.

use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Stream};
use ciphermill_vectors::Answer;

use super::{Context, difference, inverses};
use crate::execute::Style;
use crate::jobs::{Item, forward, longest};
use crate::random::Rng;

/// Lengths around blocks, and around what kernels take at a time.
const LENS: &[usize] =
    &[0, 1, 15, 16, 17, 31, 32, 48, 63, 64, 80, 128, 500, 512, 640, 1023, 1100, 2048, 4097, 9000, 20_000];

impl Context<'_> {
    /// Cuts messages anywhere, where the engine takes the suite's messages in pieces at all.
    pub(super) fn pieces(&mut self) {
        self.check = "pieces";
        let both = [Direction::Encrypt, Direction::Decrypt];
        let takes = |direction: &&Direction| self.engine.engine.stream(self.suite, **direction).is_some();
        if !both.iter().any(|direction| takes(&direction)) {
            return;
        }
        let lens = LENS.iter().flat_map(|len| [*len; 3]);
        let items: Vec<Item> = lens
            .map(|len| forward(self.suite, &self.pool, longest(self.suite, len, usize::MAX), &mut self.rng))
            .collect();
        let Some(answers) = self.forward_answers(&items) else { return };
        self.cut(Direction::Encrypt, &items, &answers);
        let (items, expected) = inverses(self.suite, &items, &answers);
        self.cut(Direction::Decrypt, &items, &expected);
        let wrong: Vec<Item> = items.into_iter().filter_map(|item| with_wrong_tag(item, &mut self.rng)).collect();
        if let Some(expected) = self.refused(&wrong) {
            self.cut(Direction::Decrypt, &wrong, &expected);
        }
    }

    /// What the engine says of messages with wrong tags when they are whole. Their text is not compared.
    fn refused(&mut self, items: &[Item]) -> Option<Vec<Answer>> {
        if items.is_empty() || !self.engine.claims(Direction::Decrypt) {
            return None;
        }
        self.engine_run(Direction::Decrypt, items, Style::SPREAD)
    }

    fn cut(&mut self, direction: Direction, items: &[Item], expected: &[Answer]) {
        self.direction = direction;
        let Some(mut stream) = self.engine.engine.stream(self.suite, direction) else { return };
        if !self.engine.claims(direction) {
            return self.fail("messages in pieces, of a suite that is not claimed");
        }
        for (index, (item, expected)) in items.iter().zip(expected).enumerate() {
            self.report.ops += 1;
            let keys = self.engine.keys(direction);
            let key = keys.and_then(|keys| keys.get(item.key)).and_then(Option::as_ref);
            let mut cutter = Cutter { rng: &mut self.rng, key, transforms: self.suite.transforms() };
            let what = match cutter.run(stream, item) {
                Ok((next, got)) => {
                    stream = next;
                    // Whoever asked for pieces has the text already.
                    let is_lost = got.status == OpStatus::AuthFailed && expected.status == OpStatus::AuthFailed;
                    if is_lost { None } else { difference(&got, expected) }
                }
                Err(what) => return self.fail(format!("message {index}: {what}")),
            };
            if let Some(what) = what {
                self.fail(format!("message {index}, {} bytes of input: {what}", item.job.input.len()));
            }
        }
    }
}

/// The item with another tag, if it has one.
fn with_wrong_tag(mut item: Item, rng: &mut Rng) -> Option<Item> {
    let at = rng.below(item.job.tag.len());
    *item.job.tag.get_mut(at)? ^= 1 << rng.below(8);
    Some(item)
}

struct Cutter<'c> {
    rng: &'c mut Rng,
    key: Option<&'c PreparedKey>,
    transforms: bool,
}

impl Cutter<'_> {
    /// One message. Gives back the stream, or a copy that took its place.
    fn run(&mut self, mut stream: Box<dyn Stream>, item: &Item) -> Result<(Box<dyn Stream>, Answer), String> {
        let job = &item.job;
        good(stream.begin(self.key, &job.iv), "begin")?;
        let mut output = Vec::new();
        if self.transforms {
            stream = self.absorb(stream, &job.aad)?;
            let mut rest = &job.input[..];
            while !rest.is_empty() {
                let piece;
                (piece, rest) = rest.split_at(self.some_of(rest.len()));
                good(self.transform(&mut *stream, piece, &mut output), "transform")?;
                stream = self.maybe_copied(stream)?;
            }
        } else {
            stream = self.absorb(stream, &job.input)?;
        }
        let mut tag = job.tag.clone();
        let status = stream.finish(self.key, &mut tag);
        Ok((stream, Answer { status, output, tag }))
    }

    fn absorb(&mut self, mut stream: Box<dyn Stream>, mut rest: &[u8]) -> Result<Box<dyn Stream>, String> {
        while !rest.is_empty() {
            let piece;
            (piece, rest) = rest.split_at(self.some_of(rest.len()));
            good(stream.absorb(self.key, piece), "absorb")?;
            stream = self.maybe_copied(stream)?;
        }
        Ok(stream)
    }

    /// A piece in place or to another place, at any address.
    fn transform(&mut self, stream: &mut dyn Stream, input: &[u8], output: &mut Vec<u8>) -> OpStatus {
        let shift = self.rng.below(17);
        let mut room = vec![0x5a; shift + input.len() + 1];
        let place = shift..shift + input.len();
        let status = if self.rng.coin() {
            room[place.clone()].copy_from_slice(input);
            stream.transform(self.key, Piece::in_place(&mut room[place.clone()]))
        } else {
            match Piece::apart(input, &mut room[place.clone()]) {
                Some(piece) => stream.transform(self.key, piece),
                None => return OpStatus::EngineFault,
            }
        };
        if room[..shift].iter().chain(&room[place.end..]).any(|byte| *byte != 0x5a) {
            return OpStatus::EngineFault;
        }
        output.extend_from_slice(&room[place]);
        status
    }

    /// Mostly few bytes, sometimes all, sometimes none.
    fn some_of(&mut self, len: usize) -> usize {
        match self.rng.below(8) {
            0 => len,
            1 => 0,
            2..=4 => self.rng.below(len.min(40) + 1),
            _ => self.rng.below(len + 1),
        }
    }

    /// Now and then a copy takes the original's place, which goes on with something else.
    fn maybe_copied(&mut self, mut stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, String> {
        if self.rng.below(6) > 0 {
            return Ok(stream);
        }
        let copy = stream.duplicate().ok_or("no duplicate")?;
        let mut other = self.rng.bytes(21);
        if self.transforms {
            stream.transform(self.key, Piece::in_place(&mut other));
        } else {
            stream.absorb(self.key, &other);
        }
        Ok(copy)
    }
}

fn good(status: OpStatus, what: &str) -> Result<(), String> {
    if status.is_done() { Ok(()) } else { Err(format!("{what}: {status}")) }
}
