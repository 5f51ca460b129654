//! A cipher and MAC that is plain to see through, as an engine and as a function over a batch in plain words.

use ciphermill_contract::{CheckedBatch, ColumnStatus, Direction, OpBuffers, OpStatus, PreparedKey};

use crate::plain::{Form, Keys, Tags, Told};

/// The key of an operation as a byte.
pub(crate) fn key_of(index: usize, told: &Told) -> u8 {
    match &told.keys {
        Keys::None => 0,
        Keys::One(key) => key.slot as u8 ^ 0x80,
        Keys::Each(keys) => keys[index].slot as u8 ^ 0x80,
    }
}

/// Data in clear or ciphertext turned into the other.
fn apply(key: u8, iv: &[u8], aad: &[u8], data: &mut [u8]) {
    let mask = iv.iter().chain(aad).fold(key, |mask, byte| mask.rotate_left(3) ^ byte);
    for (at, byte) in data.iter_mut().enumerate() {
        *byte ^= mask.wrapping_add(at as u8);
    }
}

/// A checksum (FNV-1a) of everything, in as many bytes as the longest tag that is drawn has.
pub(crate) fn tag(key: u8, iv: &[u8], aad: &[u8], data: &[u8]) -> [u8; 128] {
    let lens = [key, iv.len() as u8, aad.len() as u8, (aad.len() >> 8) as u8];
    let sum = lens
        .iter()
        .chain(iv)
        .chain(aad)
        .chain(data)
        .fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let mut tag = [0; 128];
    for (at, byte) in tag.iter_mut().enumerate() {
        *byte = sum.rotate_right(at as u32 * 7) as u8;
    }
    tag
}

/// Runs the operations of a batch; the n-th one of all that it is given ends as `plan` says, or as it does by itself.
pub(crate) struct Toy<'p> {
    pub(crate) plan: &'p [OpStatus],
    pub(crate) seen: usize,
}

impl Toy<'_> {
    pub(crate) fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let direction = batch.direction();
        batch.process(|buffers| {
            let plan = self.plan.get(self.seen).copied().unwrap_or(OpStatus::Done);
            self.seen += 1;
            if plan.is_done() { toy(direction, buffers) } else { plan }
        });
    }
}

fn toy(direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let key = buffers.key.and_then(PreparedKey::state::<u8>).copied().unwrap_or(0);
    let (iv, aad) = (buffers.iv, buffers.aad);
    if direction == Direction::Encrypt {
        apply(key, iv, aad, buffers.data);
    }
    let sealed = if buffers.data.is_empty() { buffers.input } else { &*buffers.data };
    let tag = &tag(key, iv, aad, sealed)[..buffers.tag.len()];
    if direction == Direction::Encrypt {
        buffers.tag.copy_from_slice(tag);
    } else if buffers.tag != tag {
        return OpStatus::AuthFailed;
    } else {
        apply(key, iv, aad, buffers.data);
    }
    OpStatus::Done
}

impl Told {
    /// The batch as it has to be after its pending operations have been run, of which the n-th ends as `plan` says.
    pub(crate) fn after(&self, plan: &[OpStatus]) -> Told {
        let mut after = self.clone();
        let pending = (0..self.len()).filter(|index| self.statuses[*index].is_pending());
        for (number, index) in pending.enumerate() {
            let plan = plan.get(number).copied().unwrap_or(OpStatus::Done);
            self.one_after(index, plan, &mut after);
        }
        after
    }

    fn one_after(&self, index: usize, plan: OpStatus, after: &mut Told) {
        let place = self.place(index);
        let (key, iv, aad) = (key_of(index, self), self.iv(index), self.aad(index));
        let given = &self.input[place.input.clone()];
        let mut data = given.to_vec();
        if self.suite.transforms() {
            apply(key, &iv, aad, &mut data);
        }
        let sealed = if self.direction == Direction::Encrypt { &data } else { given };
        let tag = tag(key, &iv, aad, sealed);
        let tag = &tag[..self.tags.len()];
        let status = match (&self.tags, self.direction) {
            _ if !plan.is_done() => plan,
            (Tags::None, _) | (_, Direction::Encrypt) => OpStatus::Done,
            (Tags::Expected(bytes, len), _) if bytes[index * len..][..*len] == *tag => OpStatus::Done,
            (Tags::Before(_) | Tags::After(_), _) if self.input[place.tag.clone().unwrap_or_default()] == *tag => {
                OpStatus::Done
            }
            _ => OpStatus::AuthFailed,
        };
        after.statuses[index] = ColumnStatus::from(status);
        match status {
            OpStatus::Done => {}
            OpStatus::AuthFailed | OpStatus::BadInput(_) => data.fill(0),
            _ => return,
        }
        match self.form {
            Form::Separate => after.output[place.output].copy_from_slice(&data),
            Form::InPlace => after.input[place.output].copy_from_slice(&data),
            Form::Input => {}
        }
        if self.direction == Direction::Encrypt && status.is_done() {
            match (&mut after.tags, place.tag) {
                (Tags::Written(bytes, len), _) => bytes[index * *len..][..*len].copy_from_slice(tag),
                (_, Some(range)) => after.sealed_buffer()[range].copy_from_slice(tag),
                _ => {}
            }
        }
    }
}
