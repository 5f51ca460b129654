//! One operation at a time through the door that the mill uses: check, attach keys, run.

use ciphermill_contract::op::iv_rest;
use ciphermill_contract::suite::Suite;
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, op::Span,
};
use ciphermill_reference::Reference;

/// One operation's parts. Whatever is left out is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) key: Vec<u8>,
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) input: Vec<u8>,
    /// What lies at the tag: to be verified when decrypting, room when encrypting.
    pub(crate) tag: Vec<u8>,
    /// Bytes that random suites are asked for.
    pub(crate) asked: usize,
}

/// What came of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: OpStatus,
    /// The output, `output_len` bytes of it.
    pub(crate) output: Vec<u8>,
    pub(crate) tag: Vec<u8>,
    /// Everything that the engine may have written at the output.
    pub(crate) room: Vec<u8>,
}

/// Prepares the key; `None` for suites without one.
pub(crate) fn prepare(suite: Suite, key: &[u8]) -> Option<PreparedKey> {
    suite.needs_key().then(|| {
        Reference::new().prepare(&KeyMaterial::secret(key), suite).unwrap_or_else(|error| panic!("{suite}: {error}"))
    })
}

/// Runs one operation. Tag and additional data lie before the input; the output takes the input's place where the suite
/// transforms it and lies behind it otherwise.
pub(crate) fn run(suite: Suite, direction: Direction, parts: &Parts) -> Outcome {
    let prepared = prepare(suite, &parts.key);
    run_prepared(suite, direction, parts, prepared.as_ref())
}

/// Runs one operation under a key that has been prepared already.
pub(crate) fn run_prepared(suite: Suite, direction: Direction, parts: &Parts, key: Option<&PreparedKey>) -> Outcome {
    let room_len = suite.output_len(direction, parts.input.len(), parts.asked);
    let aad = [iv_rest(&parts.iv), &parts.aad].concat();
    let input_at = aad.len() + parts.tag.len();
    let output_at = if suite.transforms() { input_at } else { input_at + parts.input.len() };
    let mut arena = [aad.as_slice(), &parts.tag, &parts.input].concat();
    arena.resize(arena.len().max(output_at + room_len), 0xee);

    let id = if suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
    let mut op = Op::in_place(id, Span::new(input_at as u32, parts.input.len() as u32))
        .with_iv(&parts.iv)
        .with_aad(0, aad.len() as u16)
        .with_tag(aad.len() as u32, parts.tag.len() as u16)
        .with_output(output_at as u32);
    op.output_len = parts.asked as u32;
    let mut ops = [op];
    let keys = [key];
    let mut checked = Batch::new(suite, direction, &mut ops, &mut arena)
        .check()
        .unwrap_or_else(|error| panic!("{suite} {direction}: {error}"));
    let mut batch = checked.attach_keys(&keys).unwrap();
    Reference::new().queue(QueueHint::default()).unwrap().run(&mut batch);

    let [op] = ops;
    let room = arena[output_at..output_at + room_len].to_vec();
    Outcome {
        status: op.status,
        output: room[..op.output_len as usize].to_vec(),
        tag: arena[aad.len()..input_at].to_vec(),
        room,
    }
}

/// Bytes from hexadecimal digits, spaces left out.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: String = digits.chars().filter(|digit| !digit.is_whitespace()).collect();
    hex::decode(digits).unwrap()
}

/// A suite by its name.
pub(crate) fn suite(name: &str) -> Suite {
    name.parse().unwrap()
}

/// Encrypts `parts` to `output` and `tag`, and back.
pub(crate) fn agrees(suite: Suite, parts: &Parts, output: &[u8], tag: &[u8]) {
    let room = Parts { tag: vec![0; tag.len()], ..parts.clone() };
    let sealed = run(suite, Direction::Encrypt, &room);
    assert_eq!(sealed.status, OpStatus::Done, "{suite}");
    assert_eq!(hex::encode(&sealed.output), hex::encode(output), "{suite}: output");
    assert_eq!(hex::encode(&sealed.tag), hex::encode(tag), "{suite}: tag");
    if !suite.has_direction(Direction::Decrypt) {
        return;
    }
    let back = match suite {
        Suite::Mac(_) => Parts { tag: tag.to_vec(), ..parts.clone() },
        _ => Parts { input: output.to_vec(), tag: tag.to_vec(), ..parts.clone() },
    };
    let opened = run(suite, Direction::Decrypt, &back);
    assert_eq!(opened.status, OpStatus::Done, "{suite}: back");
    if !matches!(suite, Suite::Mac(_)) {
        assert_eq!(opened.output, parts.input, "{suite}: back");
    }
}

/// A sequence of bytes that depends on `seed`, for tests that need much data but no randomness.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}
