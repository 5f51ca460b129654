//! The library's native loop: eight requests a call, with everything that is not the library's made ready before.

use std::sync::Arc;

use ciphermill_contract::{KeyMaterial, Op, OpStatus, Suite};

use super::eight::{Eight, Function, Scratch, settle};
use super::keys::Key;
use super::library::{Api, LANES};
use crate::native::{NativeLoop, Task};

/// The calls of a task.
struct Calls {
    suite: Suite,
    api: Arc<Api>,
    calls: Vec<Eight>,
    scratch: Scratch,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

/// The loop, for what the library has. Padding, hashing and the nonces of ECDSA are done here, before anything is timed: runs
/// repeat the same signatures, which shows nothing that the keys of known answers have to hide.
pub(super) fn open(api: Arc<Api>, task: &Task<'_>) -> Option<Box<dyn NativeLoop>> {
    let function = Function::of(task.suite, task.direction)?;
    if !task.is_sound() || task.key_of.len() != task.ops.len() {
        return None;
    }
    let parse = |bytes: &&[u8]| Key::parse(&KeyMaterial { form: task.form, bytes }, task.suite).ok().map(Arc::new);
    let keys: Vec<Arc<Key>> = task.keys.iter().map(parse).collect::<Option<_>>()?;
    let mut calls = Vec::new();
    for (ops, key_of) in task.ops.chunks(LANES).zip(task.key_of.chunks(LANES)) {
        let mut call = Eight::new(function)?;
        for (op, key) in ops.iter().zip(key_of) {
            let (input, tag) = (task.arena.get(op.input.range())?, task.arena.get(op.tag_span().range())?);
            call.put(keys.get(*key)?, input, tag).ok()?;
        }
        if !call.draw() {
            return None;
        }
        calls.push(call);
    }
    let scratch = Scratch::new(&api, function);
    Some(Box::new(Calls { suite: task.suite, api, calls, scratch, ops: task.ops.to_vec(), arena: task.arena.to_vec() }))
}

impl NativeLoop for Calls {
    fn ways(&self) -> Vec<String> {
        vec!["eight a call, padded and hashed before".to_owned()]
    }

    fn restart(&mut self) -> bool {
        true
    }

    fn run(&mut self, _way: usize) -> bool {
        let Calls { api, calls, scratch, .. } = self;
        let mut all = true;
        for call in calls {
            let statuses = call.call(api, scratch);
            all &= (0..call.filled()).all(|lane| call.status(statuses, lane).is_done());
        }
        all
    }

    fn answers(&mut self) -> (Vec<Op>, Vec<u8>) {
        let lanes = self.calls.iter().flat_map(|call| (0..call.filled()).map(move |lane| call.output(lane)));
        let suite = self.suite;
        for (op, output) in self.ops.iter_mut().zip(lanes) {
            settle(suite, op, &mut self.arena, OpStatus::Done, output);
        }
        (self.ops.clone(), self.arena.clone())
    }
}
