//! The library's native loops (`native.c`) over one workload.

use std::ptr::NonNull;

use ciphermill_contract::{Op, OpStatus, Suite};

use super::ffi::{self, Interface, Way};
use super::{ExpandedKey, IpsecMb, program};
use crate::native::{NativeLoop, Task};

/// The bursts that are tried.
const BURSTS: [u32; 6] = [8, 16, 32, 64, 128, 256];

/// Operations, keys and what the C side made of them.
struct Native {
    suite: Suite,
    ops: Box<[Op]>,
    /// Owned; the C side writes it through the pointer that it was given.
    arena: NonNull<[u8]>,
    /// The arena as it was: where operations work in place, what is collected overwrites what the next run begins with.
    fresh: Box<[u8]>,
    native: NonNull<ffi::Native>,
    ways: Vec<Way>,
    /// Read by the C side for as long as it lives.
    _keys: Vec<ExpandedKey>,
}

/// The loop over a task, where the library has one for its suite and lengths.
pub(crate) fn open(task: &Task<'_>) -> Option<Box<dyn NativeLoop>> {
    let program = program(task.suite, task.direction)?;
    let engine = IpsecMb::open().ok()?;
    let expand = |key: &&[u8]| engine.expand(key, task.suite).ok();
    let keys: Vec<ExpandedKey> = task.keys.iter().map(expand).collect::<Option<_>>()?;
    let of_op = |index: &usize| Some(keys.get(*index)?.key.as_ptr().cast_const());
    let of_ops: Vec<*const ffi::Key> = task.key_of.iter().map(of_op).collect::<Option<_>>()?;
    if task.ops.len() != of_ops.len() || !task.is_sound() {
        return None;
    }
    let ops: Box<[Op]> = task.ops.into();
    let arena = NonNull::from(Box::leak(Box::<[u8]>::from(task.arena)));
    // SAFETY: `is_sound` found every span of every operation within the arena; operations, arena and keys stay where they
    // are until `drop`, after which the C side reads them no more. The list of keys is read during the call only, and has
    // a key for each operation.
    let native =
        unsafe { ffi::cm_native_new(&program, arena.cast().as_ptr(), ops.as_ptr(), of_ops.as_ptr(), ops.len()) };
    let Some(native) = NonNull::new(native) else {
        // SAFETY: leaked above, and nobody else has it.
        drop(unsafe { Box::from_raw(arena.as_ptr()) });
        return None;
    };
    let fresh = task.arena.into();
    let mut made = Native { suite: task.suite, ops, arena, fresh, native, ways: Vec::new(), _keys: keys };
    made.ways = ways().filter(|way| made.has(way)).collect();
    Some(Box::new(made))
}

/// Every way there is, for any suite.
fn ways() -> impl Iterator<Item = Way> {
    let way = |interface, unchecked, undrained, burst| Way { interface, unchecked, undrained, reserved: 0, burst };
    let bursts = BURSTS.into_iter().flat_map(move |burst| {
        let of = move |unchecked| {
            [
                way(Interface::Jobs, unchecked, false, burst),
                way(Interface::Jobs, unchecked, true, burst),
                way(Interface::Filled, unchecked, false, burst),
                way(Interface::Prefilled, unchecked, false, burst),
                way(Interface::TwoBursts, unchecked, false, burst),
            ]
        };
        of(false).into_iter().chain(of(true))
    });
    bursts.chain([way(Interface::Direct, true, false, 1)])
}

impl Native {
    fn has(&self, way: &Way) -> bool {
        // SAFETY: reads both.
        unsafe { ffi::cm_native_has(self.native.as_ptr(), way) != 0 }
    }
}

impl NativeLoop for Native {
    fn ways(&self) -> Vec<String> {
        let burst = match self.suite {
            Suite::Cipher(..) => "cipher bursts",
            _ => "hash bursts",
        };
        let name = |way: &Way| {
            let (bursts, also) = match way.interface {
                Interface::Direct => return "direct calls".to_owned(),
                Interface::Jobs => ("job bursts", if way.undrained { ", undrained" } else { "" }),
                Interface::Filled => (burst, ""),
                Interface::Prefilled => (burst, ", prefilled"),
                Interface::TwoBursts => ("cipher and hash bursts", ""),
            };
            format!("{bursts} of {}{}{also}", way.burst, if way.unchecked { ", unchecked" } else { "" })
        };
        self.ways.iter().map(name).collect()
    }

    fn restart(&mut self) -> bool {
        // SAFETY: restores what a run overwrote in the C side's own memory, from the arena's inputs.
        unsafe { ffi::cm_native_restart(self.native.as_ptr()) != 0 }
    }

    fn run(&mut self, way: usize) -> bool {
        let Some(way) = self.ways.get(way) else { return false };
        // SAFETY: the C side has this way (`has`). It reads operations, keys and inputs and writes outputs and tags, all of
        // which `open` found within the arena; nothing else refers to the arena meanwhile.
        unsafe { ffi::cm_native_run(self.native.as_ptr(), way) != 0 }
    }

    fn answers(&mut self) -> (Vec<Op>, Vec<u8>) {
        // SAFETY: as for a run; afterwards nothing writes the arena while the slice lives.
        let arena = unsafe {
            ffi::cm_native_collect(self.native.as_ptr());
            let arena = self.arena.as_mut();
            let answers = arena.to_vec();
            arena.copy_from_slice(&self.fresh);
            answers
        };
        let mut ops = self.ops.to_vec();
        for op in &mut ops {
            op.status = OpStatus::Done;
            op.output_len = if self.suite.transforms() { op.input.len } else { 0 };
        }
        (ops, arena)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: came from `cm_native_new` and is freed once; the arena was leaked in `open`, and the C side is gone.
        unsafe {
            ffi::cm_native_free(self.native.as_ptr());
            drop(Box::from_raw(self.arena.as_ptr()));
        }
    }
}
