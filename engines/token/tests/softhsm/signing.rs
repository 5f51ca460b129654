//! Signatures by an engine, and what checks them.

use ciphermill_contract::suite::{Curve, Signature};
use ciphermill_contract::{Batch, Direction, Engine, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite};
use ciphermill_reference::Reference;

pub(crate) const MESSAGE: &[u8] = b"a message of some length, which is not a digest";

/// One operation by an engine; the signature, and what became of it.
pub(crate) fn run(
    engine: &dyn Engine,
    key: &PreparedKey,
    suite: Suite,
    way: Direction,
    input: &[u8],
    tag: &[u8],
) -> (OpStatus, Vec<u8>) {
    let mut arena = [input, tag].concat();
    let mut ops = [op_of(input.len(), tag.len())];
    let mut batch = Batch::new(suite, way, &mut ops, &mut arena).check().expect("sound");
    let keys = [Some(key)];
    engine.queue(QueueHint::default()).expect("opens").run(&mut batch.attach_keys(&keys).expect("one key"));
    (ops[0].status, arena[input.len()..].to_vec())
}

pub(crate) fn op_of(input_len: usize, tag_len: usize) -> Op {
    let key = ciphermill_contract::KeyId { slot: 1, generation: 1 };
    Op::in_place(key, Span::new(0, input_len as u32)).with_output(0).with_tag(input_len as u32, tag_len as u16)
}

pub(crate) fn is_valid(suite: Suite, public: &[u8], input: &[u8], signature: &[u8]) -> bool {
    let key = Reference::new().prepare(&KeyMaterial::public(public), suite).expect("a public key");
    run(&Reference::new(), &key, suite, Direction::Decrypt, input, signature).0.is_done()
}

pub(crate) fn signature_len(suite: Suite) -> usize {
    suite.tag_len(Direction::Decrypt).max
}

pub(crate) fn p256() -> Suite {
    Suite::Sign(Signature::Ecdsa(Curve::P256))
}
