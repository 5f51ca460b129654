//! The parent's side: starts the child, sends it batches, and believes nothing that comes back late or wrong.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ciphermill_memory::SharedCells;

use super::definitions::{KNOWN, KnownAnswer};
use super::frames::{Frames, Trouble};
use super::poll;
use super::rungs::{Rung, Way};
use super::service::{ANYWHERE, MARK, cell_content, program_asks};
use super::wire::{CELL_HEAD_LEN, HEAD_LEN, Head, How, Kind, Opening, write_items};
use super::work::{Keys, Work};
use crate::LabError;

/// How long the child may take for an answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Bytes of the shared memory.
const ROOM: usize = 8 << 20;

/// Operations that the ring holds, as far as it has cells for them.
const RING_OPS: usize = 16 << 10;

/// Cells of the ring at least: one is filled while another is worked on.
const RING_CELLS_MIN: usize = 2;

/// The program of this process, started anew.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The child and the ways to it. Dropped, the child ends.
pub(crate) struct Service {
    child: Child,
    frames: Frames,
    cells: SharedCells,
    message: Vec<u8>,
    /// Where the child says that it runs.
    pub(crate) placed: String,
    /// Cells of the ring, while it turns.
    ring: Option<usize>,
}

/// What a rung is climbed with.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) work: &'a Work,
    pub(crate) keys: &'a Keys,
}

impl Service {
    /// Starts the child, on a core if one is given, and waits until it serves.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] in a program that does not call [`super::serve_if_child`]; [`LabError::Service`] when the
    /// child cannot be started or does not answer.
    pub(crate) fn start(core: Option<usize>) -> Result<Service, LabError> {
        if !program_asks() {
            let why = "this program does not begin with ladder::serve_if_child()".to_owned();
            return Err(LabError::Unavailable { name: "the ladder's child process".to_owned(), why });
        }
        let failed = |what: &str| LabError::Service(format!("the child cannot be started: {what}"));
        let (own, theirs) = UnixStream::pair().map_err(|error| failed(&error.to_string()))?;
        let cells = SharedCells::create("ciphermill-ladder", ROOM).map_err(|error| failed(&error.to_string()))?;
        let mut command = Command::new(THIS_PROGRAM);
        command.arg(MARK).arg(core.map_or(ANYWHERE.to_owned(), |core| core.to_string()));
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        cells.give_to(&mut command).map_err(|error| failed(&error.to_string()))?;
        let child = command.spawn().map_err(|error| failed(&error.to_string()))?;
        // With it goes this process's copy of the child's end: from now on the child's death ends the socket.
        drop(command);
        let frames = Frames::new(own, Some(DEADLINE)).map_err(|error| failed(&error.to_string()))?;
        let mut service = Service { child, frames, cells, message: Vec::new(), placed: String::new(), ring: None };
        let greeting = service.frames.next();
        service.wanted(greeting, Kind::Ready)?;
        service.placed = String::from_utf8_lossy(service.frames.body()).into_owned();
        Ok(service)
    }

    /// The child's process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Has the child open a mill; returns the name of the kernel that it runs.
    ///
    /// # Errors
    /// [`LabError::Service`], as for all that follow.
    pub(crate) fn open(&mut self, mill: u8, opening: &Opening) -> Result<String, LabError> {
        let body = opening.to_bytes();
        let head = Head { mill, ..Head::plain(Kind::Open, body.len()) };
        self.message = [&head.to_bytes()[..], &body].concat();
        self.ask(Kind::Ready)?;
        Ok(String::from_utf8_lossy(self.frames.body()).into_owned())
    }

    /// Sends bytes as they are and returns the answer's head and body.
    ///
    /// # Errors
    /// [`LabError::Service`], also when the child refuses.
    pub(crate) fn ask_raw(&mut self, message: &[u8], wanted: Kind) -> Result<(Head, &[u8]), LabError> {
        self.message.clear();
        self.message.extend_from_slice(message);
        let head = self.ask(wanted)?;
        Ok((head, self.frames.body()))
    }

    /// Sends bytes without waiting for an answer.
    ///
    /// # Errors
    /// [`LabError::Service`].
    pub(crate) fn tell_raw(&mut self, message: &[u8]) -> Result<(), LabError> {
        self.frames.send(message).map_err(|trouble| self.failed(&trouble))
    }

    fn ask(&mut self, wanted: Kind) -> Result<Head, LabError> {
        let answer = self.frames.send(&self.message).and_then(|()| self.frames.next());
        self.wanted(answer, wanted)
    }

    /// The answer's head, if it is of the kind that is wanted.
    fn wanted(&mut self, answer: Result<Option<Head>, Trouble>, kind: Kind) -> Result<Head, LabError> {
        match answer {
            Ok(Some(head)) if head.kind == kind => Ok(head),
            Ok(Some(head)) if head.kind == Kind::Refused => {
                let why = String::from_utf8_lossy(self.frames.body()).into_owned();
                Err(LabError::Service(format!("child process {} refuses: {why}", self.id())))
            }
            Ok(Some(head)) => {
                Err(LabError::Service(format!("child process {} answers with {:?}", self.id(), head.kind)))
            }
            Ok(None) => Err(self.failed(&Trouble::Ended(0))),
            Err(trouble) => Err(self.failed(&trouble)),
        }
    }

    /// What is wrong with the child, with its last words where it has ended.
    fn failed(&mut self, trouble: &Trouble) -> LabError {
        let id = self.id();
        if let Trouble::Ended(_) = trouble {
            // It has closed its end, so it is about to end.
            for _ in 0..200 {
                if let Ok(Some(status)) = self.child.try_wait() {
                    return LabError::Service(format!("child process {id} ended before it answered ({status})"));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        LabError::Service(format!("child process {id}: {trouble}"))
    }

    /// Sends the operations of a window up a rung, one batch, and waits for the outputs. With `verify`, all of them are
    /// compared with the reference's.
    ///
    /// # Errors
    /// [`LabError::Service`]; a wrong known answer; with `verify` [`LabError::WrongResult`].
    pub(crate) fn batch(
        &mut self,
        rung: &Rung,
        load: Load<'_>,
        window: Range<usize>,
        verify: bool,
    ) -> Result<(), LabError> {
        match rung.way {
            Way::Singles => {
                for op in window {
                    self.request(rung, load, op..op + 1, verify)?;
                }
                Ok(())
            }
            Way::Socket | Way::Cells => self.request(rung, load, window, verify),
            Way::Ring => self.turn(rung, load, &[window], verify),
        }
    }

    fn request(&mut self, rung: &Rung, load: Load<'_>, window: Range<usize>, verify: bool) -> Result<(), LabError> {
        let known = rung.known_answer.then_some(&KNOWN);
        let items = load.work.outgoing(load.keys, window.clone(), known);
        let count = window.len() + usize::from(known.is_some());
        let in_cell = rung.way == Way::Cells;
        let head = Head {
            kind: if in_cell { Kind::Cell } else { Kind::Run },
            how: Some(rung.how),
            mill: rung.place as u8,
            count,
            len: body_len(rung.how, load, &window, known),
        };
        self.message.resize(HEAD_LEN + head.body_len(), 0);
        self.message[..HEAD_LEN].copy_from_slice(&head.to_bytes());
        if in_cell {
            self.own_cells(1, ROOM)?;
            let id = self.id();
            let body = self.cells.bytes(0..1).and_then(|cell| cell.get_mut(..head.len));
            write_items(rung.how, items, body.ok_or_else(|| too_small(id))?);
            self.cells.hand_over(0..1);
        } else {
            write_items(rung.how, items, &mut self.message[HEAD_LEN..]);
        }
        self.ask(Kind::Output)?;
        let id = self.id();
        let body = match in_cell {
            false => Some(self.frames.body()),
            true => self.cells.bytes(0..1).and_then(|cell| cell.get(..head.len)),
        };
        check(rung, load, body.ok_or_else(|| kept(id))?, &window, verify)
    }

    /// Cuts the shared memory, all of whose cells have to be this side's.
    fn own_cells(&mut self, count: usize, cell_len: usize) -> Result<(), LabError> {
        if self.cells.count() == count && self.cells.cell_len() == cell_len {
            return Ok(());
        }
        let id = self.id();
        self.cells.shape(count, cell_len).map_err(|error| LabError::Service(format!("child process {id}: {error}")))
    }

    /// Has the child look at the ring from now on, cut for batches of `ops` operations with up to `bytes` bytes.
    ///
    /// # Errors
    /// [`LabError::Service`].
    pub(crate) fn start_ring(&mut self, rung: &Rung, ops: usize, bytes: usize) -> Result<(), LabError> {
        if self.ring.is_some() {
            return Ok(());
        }
        let cell_len = (CELL_HEAD_LEN + rung.how.body_len(ops, bytes, 0)).next_multiple_of(64);
        let cells = (RING_OPS / ops.max(1)).min(ROOM / cell_len);
        let cells = cells.clamp(RING_CELLS_MIN, ciphermill_memory::CELLS_MAX);
        self.own_cells(cells, cell_len)?;
        let head = Head { kind: Kind::Ring, how: Some(How::Grouped), mill: rung.place as u8, count: cells, len: 0 };
        self.message.clear();
        self.message.extend_from_slice(&head.to_bytes());
        self.ask(Kind::Ready)?;
        self.ring = Some(cells);
        Ok(())
    }

    /// Sends windows through the ring, as many at a time as it has cells, and then has the child stop looking.
    ///
    /// # Errors
    /// As [`Service::batch`].
    pub(crate) fn turn(
        &mut self,
        rung: &Rung,
        load: Load<'_>,
        windows: &[Range<usize>],
        verify: bool,
    ) -> Result<(), LabError> {
        let known = rung.known_answer.then_some(&KNOWN);
        let (more_ops, more_bytes) = known.map_or((0, 0), |known| (1, known.ciphertext.len()));
        let ops = windows.iter().map(Range::len).max().unwrap_or(0) + more_ops;
        let bytes = windows.iter().map(|window| load.work.bytes(window)).max().unwrap_or(0) + more_bytes;
        self.start_ring(rung, ops, bytes)?;
        let cells = self.ring.take().unwrap_or(RING_CELLS_MIN);
        for (turn, window) in windows.iter().enumerate() {
            let cell = turn % cells;
            self.wait_for(cell)?;
            if let Some(before) = turn.checked_sub(cells) {
                self.collect(rung, load, cell, &windows[before], verify)?;
            }
            self.fill(rung, load, cell, window)?;
        }
        for (turn, window) in windows.iter().enumerate().skip(windows.len().saturating_sub(cells)) {
            self.wait_for(turn % cells)?;
            self.collect(rung, load, turn % cells, window, verify)?;
        }
        let last = windows.len() % cells;
        let id = self.id();
        self.cells.bytes(last..last + 1).ok_or_else(|| kept(id))?[..CELL_HEAD_LEN].fill(0);
        self.cells.hand_over(last..last + 1);
        self.wait_for(last)
    }

    fn fill(&mut self, rung: &Rung, load: Load<'_>, cell: usize, window: &Range<usize>) -> Result<(), LabError> {
        let known = rung.known_answer.then_some(&KNOWN);
        let id = self.id();
        let bytes = self.cells.bytes(cell..cell + 1).ok_or_else(|| kept(id))?;
        let (head, body) = bytes.split_at_mut(CELL_HEAD_LEN);
        let room = body.len();
        let len = write_items(rung.how, load.work.outgoing(load.keys, window.clone(), known), body);
        if len > room {
            return Err(too_small(id));
        }
        let ops = window.len() + usize::from(known.is_some());
        head[..4].copy_from_slice(&(ops as u32).to_le_bytes());
        head[4..].copy_from_slice(&(len as u32).to_le_bytes());
        self.cells.hand_over(cell..cell + 1);
        Ok(())
    }

    fn collect(
        &mut self,
        rung: &Rung,
        load: Load<'_>,
        cell: usize,
        window: &Range<usize>,
        verify: bool,
    ) -> Result<(), LabError> {
        let id = self.id();
        let content = self.cells.bytes(cell..cell + 1).and_then(|bytes| cell_content(bytes));
        let (_, body) = content.ok_or_else(|| kept(id))?;
        check(rung, load, body, window, verify)
    }

    /// Waits until a cell is this side's.
    fn wait_for(&mut self, cell: usize) -> Result<(), LabError> {
        let Service { child, cells, .. } = self;
        let lives = || matches!(child.try_wait(), Ok(None));
        if cells.is_mine(cell) || poll::until(|| cells.is_mine(cell), lives, DEADLINE) {
            return Ok(());
        }
        let trouble = match self.child.try_wait() {
            Ok(Some(_)) => Trouble::Ended(0),
            _ => Trouble::Late(DEADLINE),
        };
        Err(self.failed(&trouble))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended before; there is nobody left to tell of either failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn too_small(id: u32) -> LabError {
    LabError::Service(format!("child process {id}: the batch does not fit the shared memory"))
}

fn kept(id: u32) -> LabError {
    LabError::Service(format!("child process {id} has not given a cell back"))
}

fn body_len(how: How, load: Load<'_>, window: &Range<usize>, known: Option<&KnownAnswer>) -> usize {
    let (more_ops, more_bytes) = known.map_or((0, 0), |known| (1, known.ciphertext.len()));
    let wrapped_len = load.keys.wrapped.first().map_or(0, Vec::len);
    how.body_len(window.len() + more_ops, load.work.bytes(window) + more_bytes, wrapped_len)
}

/// Looks at what came back.
fn check(rung: &Rung, load: Load<'_>, body: &[u8], window: &Range<usize>, verify: bool) -> Result<(), LabError> {
    let known = rung.known_answer.then_some(&KNOWN);
    // It was the last one, and its output lies where its input lay: at the end.
    if let Some(known) = known
        && !body.ends_with(&known.plaintext)
    {
        return Err(LabError::Service(format!("rung {}: the known answer came back wrong", rung.id)));
    }
    if !verify {
        return Ok(());
    }
    let sent = window.len() + usize::from(known.is_some());
    match load.work.first_wrong(rung.how, body, window, sent) {
        None => Ok(()),
        Some(op) => Err(LabError::Service(format!(
            "rung {} ({}) computes operation {op} differently from the reference engine; not timed",
            rung.id, rung.name
        ))),
    }
}
