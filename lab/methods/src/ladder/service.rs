//! The child: mills behind a socket and shared memory. The ladder's counterpart of the paper's coprocessor.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ciphermill::{KeyPolicy, KeyTable, Mill, RunOptions, SelfTest, Session, TrustPolicy};
use ciphermill_contract::{Batch, Error, KeyForm, KeyId, KeyMaterial, Op, OpStatus, Span, Suite};
use ciphermill_keys::WrapMethod;
use ciphermill_memory::SharedCells;

use super::DIRECTION;
use super::chain::break_chaining;
use super::frames::{Frames, Trouble};
use super::poll;
use super::wire::{BLOCK, CELL_HEAD_LEN, HEAD_LEN, Head, How, Item, KeyName, Kind, Opening, WireError, read_items};
use crate::LabError;

/// The first argument of a program that is to be the child.
pub(crate) const MARK: &str = "--ladder-child";

/// The second when the child is not pinned.
pub(crate) const ANYWHERE: &str = "-";

/// How keys are wrapped. The paper's came under triple DES; this is what one takes today, and it detects damage.
pub(crate) const WRAPPING: WrapMethod = WrapMethod::AesKwp;

/// Mills that a child opens at most.
const MILLS_MAX: usize = 8;

/// How long the child waits in the ring for a parent that lives and says nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this program asks at its start if it is the child.
static ASKS: AtomicBool = AtomicBool::new(false);

pub(crate) fn program_asks() -> bool {
    ASKS.load(Ordering::Relaxed)
}

/// Becomes the ladder's child process when this program was started as such, and says how it ended; `None` otherwise.
///
/// The ladder crosses a process boundary by starting the program anew that it runs in. That works in programs that call
/// this first of all, before they look at arguments or print anything.
pub fn serve_if_child() -> Option<ExitCode> {
    ASKS.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != MARK {
        return None;
    }
    let core = arguments.next().and_then(|core| core.to_str()?.parse().ok());
    Some(match serve(core) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ladder's child: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Why a request is not carried out.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0}")]
    Wire(WireError),
    #[error("{0}")]
    Mill(#[from] Error),
    #[error("{0}")]
    Lab(#[from] LabError),
    #[error("operation {0}: {1}")]
    Op(usize, OpStatus),
    #[error("there is no mill {0}")]
    NoMill(u8),
    #[error("{0}")]
    Cells(&'static str),
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Refusal {
        Refusal::Wire(error)
    }
}

/// Serves until the parent ends.
fn serve(core: Option<usize>) -> Result<(), Box<dyn std::error::Error>> {
    let cells = SharedCells::inherited()?;
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut child = Child { frames: Frames::new(socket, None)?, cells, mills: Vec::new(), reply: Vec::new() };
    // The parent says what came of it; measuring goes on without.
    let placed = match (core, crate::short::pin(core)) {
        (Some(core), Ok(())) => format!("on core {core}"),
        (_, Err(error)) => format!("on any core ({error})"),
        (None, Ok(())) => "on any core".to_owned(),
    };
    child.say(Kind::Ready, placed.as_bytes())?;
    loop {
        match child.frames.next() {
            Ok(None) => return Ok(()),
            Ok(Some(head)) => child.answer(head)?,
            Err(Trouble::Wire(error)) => {
                child.say(Kind::Refused, error.to_string().as_bytes())?;
                return Err(error.to_string().into());
            }
            // A parent that ended within a message wants nothing any more.
            Err(Trouble::Ended(_)) => return Ok(()),
            Err(other) => return Err(other.into()),
        }
    }
}

struct Child {
    frames: Frames,
    cells: SharedCells,
    mills: Vec<Served>,
    reply: Vec<u8>,
}

impl Child {
    fn say(&mut self, kind: Kind, body: &[u8]) -> Result<(), Trouble> {
        let message = [&Head::plain(kind, body.len()).to_bytes()[..], body].concat();
        self.frames.send(&message)
    }

    fn answer(&mut self, head: Head) -> Result<(), Box<dyn std::error::Error>> {
        let done = match (head.kind, head.how) {
            (Kind::Open, _) => match self.open(head.mill) {
                Ok(kernel) => return Ok(self.say(Kind::Ready, kernel.as_bytes())?),
                Err(refusal) => Err(refusal),
            },
            (Kind::Run, Some(how)) => self.run(head, how),
            (Kind::Cell, Some(how)) => self.run_cell(head, how),
            (Kind::Ring, Some(How::Grouped)) if self.mills.len() > usize::from(head.mill) => {
                self.say(Kind::Ready, &[])?;
                // There is nobody to tell: the parent finds the process gone, and its last words.
                return Ok(self.run_ring(head)?);
            }
            _ => Err(Refusal::Wire(WireError { at: 4, rule: "this message asks for nothing that there is" })),
        };
        match done {
            Ok(Outputs::InPlace) => {
                self.frames.send_back(Head { kind: Kind::Output, how: None, count: 0, ..head })?;
            }
            Ok(Outputs::Apart) => {
                let head = Head::plain(Kind::Output, self.reply.len() - HEAD_LEN);
                self.reply[..HEAD_LEN].copy_from_slice(&head.to_bytes());
                self.frames.send(&self.reply)?;
            }
            Err(refusal) => self.say(Kind::Refused, refusal.to_string().as_bytes())?,
        }
        Ok(())
    }

    fn open(&mut self, mill: u8) -> Result<String, Refusal> {
        let opening = Opening::read(self.frames.body())?;
        if usize::from(mill) > self.mills.len() || self.mills.len() >= MILLS_MAX {
            return Err(Refusal::NoMill(mill));
        }
        let served = Served::open(&opening)?;
        let kernel = served.kernel.clone();
        self.mills.truncate(mill.into());
        self.mills.push(served);
        Ok(kernel)
    }

    fn run(&mut self, head: Head, how: How) -> Result<Outputs, Refusal> {
        let served = self.mills.get_mut(usize::from(head.mill)).ok_or(Refusal::NoMill(head.mill))?;
        if how.is_in_place() {
            served.ops.clear();
            served.take(how, head.count, self.frames.body(), 0)?;
            served.run_taken(self.frames.body_mut())?;
            return Ok(Outputs::InPlace);
        }
        self.reply.clear();
        self.reply.resize(HEAD_LEN, 0);
        served.run_wrapped(how, head.count, self.frames.body(), &mut self.reply)?;
        Ok(Outputs::Apart)
    }

    /// What is in the first cell.
    fn run_cell(&mut self, head: Head, how: How) -> Result<Outputs, Refusal> {
        let served = self.mills.get_mut(usize::from(head.mill)).ok_or(Refusal::NoMill(head.mill));
        let body = self.cells.bytes(0..1).and_then(|cell| cell.get_mut(..head.len));
        let body = body.filter(|_| how.is_in_place());
        let body =
            body.ok_or(Refusal::Cells("the first cell is not this side's, too short, or not worked on in place"));
        let done = served.and_then(|served| {
            let body = body?;
            served.ops.clear();
            served.take(how, head.count, body, 0)?;
            served.run_taken(body)
        });
        // Refused or not, the cell is the parent's again.
        self.cells.hand_over(0..1);
        self.reply.clear();
        self.reply.resize(HEAD_LEN, 0);
        done.map(|()| Outputs::Apart)
    }

    /// Works on cells in their order, all that are there at once, until one comes without operations.
    fn run_ring(&mut self, head: Head) -> Result<(), Refusal> {
        let Child { cells, mills, .. } = self;
        let served = mills.get_mut(usize::from(head.mill)).ok_or(Refusal::NoMill(head.mill))?;
        let parent = parent_id();
        let mut first = 0;
        loop {
            if !poll::until(|| cells.is_mine(first), || parent_id() == parent, PATIENCE) {
                return Err(Refusal::Cells("nobody turns the ring any more"));
            }
            let (count, cell_len) = (cells.count(), cells.cell_len());
            let mut end = first + 1;
            while end < count && cells.is_mine(end) {
                end += 1;
            }
            let bytes = cells.bytes(first..end).ok_or(Refusal::Cells("a cell of the ring is not this side's"))?;
            served.ops.clear();
            let mut full = first;
            for cell in bytes.chunks_exact(cell_len) {
                let start = (full - first) * cell_len + CELL_HEAD_LEN;
                let Some((ops, body)) = cell_content(cell) else {
                    return Err(Refusal::Cells("a cell of the ring does not hold what it says"));
                };
                if ops == 0 {
                    break;
                }
                served.take(How::Grouped, ops, body, start)?;
                full += 1;
            }
            if full > first {
                served.run_taken(bytes)?;
            }
            cells.hand_over(first..full);
            if full < end {
                // The empty one goes back last: with it the parent has all.
                cells.hand_over(full..end);
                return Ok(());
            }
            first = end % count;
        }
    }
}

/// How many operations a cell says it holds, and their bytes; `None` when these reach beyond it.
pub(crate) fn cell_content(cell: &[u8]) -> Option<(usize, &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(cell.get(at..at + 4)?.try_into().ok()?) as usize);
    let (ops, len) = (word(0)?, word(4)?);
    Some((ops, cell.get(CELL_HEAD_LEN..CELL_HEAD_LEN.checked_add(len)?)?))
}

enum Outputs {
    /// Where the inputs were.
    InPlace,
    /// In the reply.
    Apart,
}

/// A mill of the child, and what it was opened with.
struct Served {
    mill: Mill,
    session: Session,
    suite: Suite,
    engine: String,
    kernel: String,
    wrapping: KeyId,
    wrapped_len: usize,
    keys: Vec<KeyId>,
    known: HashMap<Vec<u8>, KeyId>,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

impl Served {
    fn open(opening: &Opening) -> Result<Served, Refusal> {
        let suite: Suite = opening.suite.parse().map_err(|_| Refusal::Cells("there is no such suite"))?;
        let keys = KeyTable::new();
        let wrapping = keys.import(KeyMaterial::secret(&opening.wrapping), KeyPolicy::wrapping())?;
        let unwrap = |wrapped: &Vec<u8>| {
            keys.import_wrapped(wrapping, WRAPPING, wrapped, KeyForm::Secret, KeyPolicy::only(suite))
        };
        let names: Vec<KeyId> = opening.wrapped.iter().map(unwrap).collect::<Result<_, _>>()?;
        let engine = crate::engines::open(&opening.engine)?;
        let (name, kernel) = (engine.info().name.to_owned(), engine.info().kernel_for(suite).to_owned());
        let mut builder = Mill::builder().legacy(true).workers(0).keys(keys).engine(engine);
        if opening.checked {
            // As every mill has it, with an engine beside that recomputes some of the answers.
            if name != "reference" {
                builder = builder.engine(crate::engines::open("reference")?);
            }
        } else {
            let trust = TrustPolicy { witness_every: 0, ..TrustPolicy::default() };
            builder = builder.self_test(SelfTest::Never).trust(trust);
        }
        let mill = builder.open()?;
        let session = mill.session();
        Ok(Served {
            mill,
            session,
            suite,
            engine: name,
            kernel,
            wrapping,
            wrapped_len: opening.wrapped.first().map_or(0, Vec::len),
            keys: names,
            known: HashMap::new(),
            ops: Vec::new(),
            arena: Vec::new(),
        })
    }

    /// Unwraps a key into the table.
    fn take_in(&self, wrapped: &[u8]) -> Result<KeyId, Error> {
        let policy = KeyPolicy::only(self.suite);
        self.mill.keys().import_wrapped(self.wrapping, WRAPPING, wrapped, KeyForm::Secret, policy)
    }

    /// The key of this wrapped form, unwrapped when it is first seen.
    fn find(&mut self, wrapped: &[u8]) -> Result<KeyId, Error> {
        if let Some(key) = self.known.get(wrapped) {
            return Ok(*key);
        }
        let key = self.take_in(wrapped)?;
        self.known.insert(wrapped.to_vec(), key);
        Ok(key)
    }

    /// Adds a body's operations to those that are worked on in place. The body lies `start` bytes behind the beginning
    /// of what they will be run on.
    fn take(&mut self, how: How, count: usize, body: &[u8], start: usize) -> Result<(), WireError> {
        let (ops, keys) = (&mut self.ops, &self.keys);
        read_items(how, count, self.wrapped_len, body, |item| {
            let KeyName::Index(index) = item.key else {
                return Err(WireError { at: item.data.start, rule: "operations in place name their keys by index" });
            };
            let Some(key) = keys.get(index) else {
                return Err(WireError { at: item.data.start, rule: "the operation's key is not in the table" });
            };
            let span = Span::new((start + item.data.start) as u32, item.data.len() as u32);
            ops.push(Op::in_place(*key, span).with_iv(&item.iv));
            Ok(())
        })
    }

    /// Runs the operations that were taken, in one call of the mill.
    fn run_taken(&mut self, bytes: &mut [u8]) -> Result<(), Refusal> {
        run(&mut self.session, self.suite, &self.engine, &mut self.ops, bytes)
    }

    /// The rungs on which keys come wrapped and every byte is copied in and out: from the message to an arena, through
    /// the engine to another place there, from there to the reply.
    fn run_wrapped(&mut self, how: How, count: usize, body: &[u8], reply: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut items = Vec::with_capacity(count);
        read_items(how, count, self.wrapped_len, body, |item| {
            items.push(item);
            Ok(())
        })?;
        match how {
            How::Unwrapped | How::Cached => {
                for item in &items {
                    let wrapped = wrapped_of(item, body);
                    let key = if how == How::Cached { self.find(wrapped)? } else { self.take_in(wrapped)? };
                    let done = self.run_copied(&[(key, item)], body);
                    if how == How::Unwrapped {
                        self.mill.keys().destroy(key)?;
                    }
                    done?;
                    self.append_outputs(reply);
                }
            }
            How::Whole => {
                let mut keyed = Vec::with_capacity(items.len());
                for item in &items {
                    keyed.push((self.find(wrapped_of(item, body))?, item));
                }
                self.run_copied(&keyed, body)?;
                self.append_outputs(reply);
            }
            How::Chained => self.run_chained(&items, body, reply)?,
            How::InPlace | How::Grouped => {
                return Err(Refusal::Wire(WireError { at: 0, rule: "these operations have no wrapped keys" }));
            }
        }
        Ok(())
    }

    /// Copies inputs together, makes room for outputs behind them, and runs all in one call of the mill.
    fn run_copied(&mut self, items: &[(KeyId, &Item)], body: &[u8]) -> Result<(), Refusal> {
        self.arena.clear();
        self.ops.clear();
        for (key, item) in items {
            let span = Span::new(self.arena.len() as u32, item.data.len() as u32);
            self.ops.push(Op::in_place(*key, span).with_iv(&item.iv));
            self.arena.extend_from_slice(&body[item.data.clone()]);
        }
        let inputs = self.arena.len();
        self.ops.iter_mut().for_each(|op| op.output += inputs as u32);
        self.arena.resize(2 * inputs, 0);
        run(&mut self.session, self.suite, &self.engine, &mut self.ops, &mut self.arena)
    }

    fn append_outputs(&self, reply: &mut Vec<u8>) {
        reply.extend_from_slice(&self.arena[self.arena.len() / 2..]);
    }

    /// One operation over all data, under an IV of zero.
    fn run_chained(&mut self, items: &[Item], body: &[u8], reply: &mut Vec<u8>) -> Result<(), Refusal> {
        let Some(first) = items.first() else { return Ok(()) };
        let key = self.find(wrapped_of(first, body))?;
        self.arena.clear();
        items.iter().for_each(|item| self.arena.extend_from_slice(&body[item.data.clone()]));
        let inputs = self.arena.len();
        self.arena.resize(2 * inputs, 0);
        self.ops.clear();
        let whole = Span::new(0, inputs as u32);
        self.ops.push(Op::in_place(key, whole).with_output(inputs as u32).with_iv(&[0; BLOCK]));
        run(&mut self.session, self.suite, &self.engine, &mut self.ops, &mut self.arena)?;
        let (ciphertext, plaintext) = self.arena.split_at_mut(inputs);
        break_chaining(ciphertext, plaintext, items.iter().map(|item| (item.iv, item.data.len())));
        self.append_outputs(reply);
        Ok(())
    }
}

fn wrapped_of<'b>(item: &Item, body: &'b [u8]) -> &'b [u8] {
    match &item.key {
        KeyName::Wrapped(place) => &body[place.clone()],
        KeyName::Index(_) => &[],
    }
}

/// Runs a batch and wants every operation to end well.
fn run(session: &mut Session, suite: Suite, engine: &str, ops: &mut [Op], arena: &mut [u8]) -> Result<(), Refusal> {
    let options = RunOptions { engine: Some(engine), ..RunOptions::default() };
    let report = session.run_with(Batch::new(suite, DIRECTION, ops, arena), &options)?;
    let failed = |op: &Op| !op.status.is_done();
    match ops.iter().position(failed).filter(|_| report.failed != 0) {
        Some(index) => Err(Refusal::Op(index, ops[index].status)),
        None => Ok(()),
    }
}
