//! Arenas that the device copies from and to by itself. Pinning memory takes a driver about as long as copying it several
//! times, so arenas that come back are wiped and kept for the next.
//!
//! Batches are recognised by their arena's address. What is copied without the staging buffer holds the memory: an arena
//! that is dropped meanwhile is not freed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ciphermill_contract::ArenaBuffer;

use crate::trouble::Result;

/// Below this many bytes packing costs less than it takes to look after an arena.
const ARENA_LEN_MIN: usize = 64 << 10;

/// Arenas' data begin at multiples of as many bytes where they are copied as they lie: links move whole words.
const DIRECT_ALIGN: usize = 4;

/// Bytes of idle arenas that are kept at most: pinned memory is taken from everybody else.
const IDLE_LEN_MAX: usize = 256 << 20;

/// Arenas that are asked for and not there yet, at most.
const WANTED_MAX: usize = 8;

/// Memory of this process that a device copies from and to by itself.
pub(crate) trait PinnedMemory: ArenaBuffer {
    /// Leaves the memory to the device when nobody can tell whether it still copies from or to it: it is not freed before the
    /// device is closed. The first `used` bytes are wiped all the same, since nobody will come back for them.
    fn abandon(self: Box<Self>, used: usize);
}

#[cfg(test)]
impl PinnedMemory for Vec<u8> {
    fn abandon(self: Box<Self>, _used: usize) {
        std::mem::forget(self);
    }
}

/// The arenas of a device.
pub(crate) struct Arenas {
    /// Asks the device for zeroed memory of so many bytes.
    make: Box<dyn Fn(usize) -> Result<Box<dyn PinnedMemory>> + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that are out, by the address of their first byte.
    lent: BTreeMap<usize, Lent>,
    /// Zeroed ones that nobody has.
    idle: Vec<Box<dyn PinnedMemory>>,
    /// Lengths that were asked for when nothing was at hand.
    wanted: Vec<usize>,
}

struct Lent {
    len: usize,
    /// Launches that copy from or to it.
    holds: usize,
}

/// An arena in somebody's hands.
struct Pinned {
    memory: Option<Box<dyn PinnedMemory>>,
    start: usize,
    len: usize,
    arenas: Arc<Arenas>,
}

/// Memory of an arena that stays where it is as long as this value is there.
pub(crate) struct Hold {
    arenas: Arc<Arenas>,
    start: usize,
    len: usize,
}

/// Bytes that go between a caller's arena and the device as they lie, beside what goes through the staging buffer.
#[derive(Debug)]
pub(crate) struct Direct {
    /// The memory that they lie in, which stays where it is as long as this is held.
    pub(crate) hold: Hold,
    /// Where they begin in it.
    pub(crate) host: usize,
    /// How many there are.
    pub(crate) len: usize,
    /// Where they lie in the device's memory, behind everything that is copied in.
    pub(crate) at: usize,
}

impl Arenas {
    /// Arenas of memory that `make` asks the device for, zeroed.
    pub(crate) fn new(make: impl Fn(usize) -> Result<Box<dyn PinnedMemory>> + Send + Sync + 'static) -> Arenas {
        Arenas { make: Box::new(make), state: Mutex::default() }
    }

    /// A zeroed arena, if one is at hand that is long enough and not much longer. Otherwise one will be made by the next
    /// [`Arenas::make_wanted`]. Asks nothing of the device.
    pub(crate) fn at_hand(self: &Arc<Self>, len: usize) -> Option<Box<dyn ArenaBuffer>> {
        if !(ARENA_LEN_MIN..=IDLE_LEN_MAX).contains(&len) {
            return None;
        }
        let room = len.next_power_of_two();
        let mut state = self.lock();
        match state.idle.iter().position(|memory| memory.bytes().len() == room) {
            Some(at) => {
                let memory = state.idle.remove(at);
                drop(state);
                Some(self.lend(memory, len))
            }
            None => {
                if state.wanted.len() < WANTED_MAX {
                    state.wanted.push(room);
                }
                None
            }
        }
    }

    /// A zeroed arena; asks the device for it when none is at hand.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Result<Box<dyn ArenaBuffer>> {
        let room = len.max(ARENA_LEN_MIN).next_power_of_two();
        let idle = {
            let mut state = self.lock();
            let at = state.idle.iter().position(|memory| memory.bytes().len() == room);
            at.map(|at| state.idle.remove(at))
        };
        let memory = match idle {
            Some(memory) => memory,
            None => (self.make)(room)?,
        };
        Ok(self.lend(memory, len))
    }

    /// Makes what was asked for and not at hand, and frees what is too much. For threads that may wait for the device.
    pub(crate) fn make_wanted(&self) {
        let surplus = self.surplus();
        drop(surplus);
        loop {
            let Some(len) = self.lock().wanted.pop() else { return };
            match (self.make)(len) {
                Ok(memory) => self.keep(memory),
                Err(trouble) => return tracing::debug!(?trouble, len, "gpu: no pinned memory"),
            }
        }
    }

    /// The memory around these bytes, if it is an arena's, and where in it they begin.
    pub(crate) fn hold(self: &Arc<Self>, bytes: &[u8]) -> Option<(Hold, usize)> {
        let address = bytes.as_ptr().addr();
        let mut state = self.lock();
        let (start, lent) = state.lent.range_mut(..=address).next_back()?;
        let inside = address - start;
        if inside + bytes.len() > lent.len {
            return None;
        }
        lent.holds += 1;
        Some((Hold { arenas: Arc::clone(self), start: *start, len: lent.len }, inside))
    }

    /// The copy of these bytes as they lie, if they are an arena's and begin at a whole word of it, which is what links move.
    /// Where they go on the device is for the caller to say.
    pub(crate) fn direct(self: &Arc<Self>, bytes: &[u8]) -> Option<Direct> {
        // The memory itself begins at a page.
        let (hold, host) = self.hold(bytes).filter(|(_, host)| host % DIRECT_ALIGN == 0)?;
        Some(Direct { hold, host, len: bytes.len(), at: 0 })
    }

    fn lend(self: &Arc<Self>, mut memory: Box<dyn PinnedMemory>, len: usize) -> Box<dyn ArenaBuffer> {
        // The runtimes copy from and to it by this address.
        let start = memory.bytes_mut().as_mut_ptr().expose_provenance();
        self.lock().lent.insert(start, Lent { len, holds: 0 });
        Box::new(Pinned { memory: Some(memory), start, len, arenas: Arc::clone(self) })
    }

    /// Freeing asks the driver: that is left to those who may wait for it.
    fn keep(&self, memory: Box<dyn PinnedMemory>) {
        self.lock().idle.push(memory);
    }

    /// Takes out those that have been idle the longest, as far as there are too many.
    fn surplus(&self) -> Vec<Box<dyn PinnedMemory>> {
        let mut state = self.lock();
        let mut kept = 0;
        let lens = state.idle.iter().rev().map(|memory| memory.bytes().len());
        let mut fits = |len: usize| {
            kept += len;
            kept <= IDLE_LEN_MAX
        };
        let keeps = lens.take_while(|len| fits(*len)).count();
        let from = state.idle.len() - keeps;
        state.idle.drain(..from).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ArenaBuffer for Pinned {
    fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory.bytes()[..self.len])
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Some(memory) => &mut memory.bytes_mut()[..self.len],
            None => &mut [],
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Some(mut memory) = self.memory.take() else { return };
        let lent = self.arenas.lock().lent.remove(&self.start);
        if lent.is_none_or(|lent| lent.holds > 0) {
            tracing::error!("gpu: an arena was dropped while the device may copy from it; its memory is given up");
            memory.abandon(self.len);
            return;
        }
        ciphermill_memory::wipe(&mut memory.bytes_mut()[..self.len]);
        self.arenas.keep(memory);
    }
}

impl Hold {
    /// The address of `len` bytes from `at` on; `None` when they are not all in the memory.
    pub(crate) fn address(&self, at: usize, len: usize) -> Option<*mut u8> {
        (at.checked_add(len)? <= self.len).then(|| std::ptr::with_exposed_provenance_mut(self.start + at))
    }

    /// Keeps the memory for good: the device may still copy from or to it, and nobody can tell when it ends.
    pub(crate) fn forever(self) {
        // One more than will be let go of. The arenas themselves are not kept: they would keep a lost device open.
        if let Some(lent) = self.arenas.lock().lent.get_mut(&self.start) {
            lent.holds += 1;
        }
    }
}

impl core::fmt::Debug for Hold {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Hold({} bytes)", self.len)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // An arena that was dropped meanwhile is not there any more.
        if let Some(lent) = self.arenas.lock().lent.get_mut(&self.start) {
            lent.holds -= 1;
        }
    }
}
