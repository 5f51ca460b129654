//! What the two processes tell each other: a request and its answer, one at a time, each in a frame ([`ciphermill_channel::write_frame`]).
//!
//! The process with the module believes its parent, which has started it; the parent believes nothing that comes back, since whatever
//! the module does to its own process, it does to these answers too.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use ciphermill_channel::{FrameError, read_frame, write_frame};
use ciphermill_contract::capability::Directions;
use ciphermill_contract::error::{Fault, FaultKind, KeyProblem};
use ciphermill_contract::{Capability, Cost, Error, KeyForm, OpStatus, Reason, Refusal, Suite};
use ciphermill_memory::SecretBytes;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::inventory::Inventory;
use crate::token::{Opening, Place, TokenError};

/// Bytes of operations in one request, unless a single one is longer.
pub(super) const REQUEST_LEN: usize = 1 << 20;
/// Operations in one request at most.
pub(super) const REQUEST_OPS: usize = 256;
/// Bytes that an operation adds besides its own, at most.
const OPERATION_LEN: usize = 64;

/// What the parent asks.
#[derive(Serialize, Deserialize)]
pub(super) enum Ask<'a> {
    /// The first: opens the token.
    Open { module: &'a [u8], slot: Option<u64>, label: Option<&'a str>, pin: Option<&'a [u8]>, copies: bool },
    /// Looks a key up, or takes a copy.
    Prepare { suite: u16, form: Form, bytes: &'a [u8] },
    /// Lists what the token has.
    List,
    /// A key is not used any more. Not answered.
    Forget { key: u32 },
    /// Runs operations of one suite and direction.
    Run {
        suite: u16,
        encrypts: bool,
        #[serde(borrow)]
        operations: Vec<Operation<'a>>,
    },
}

/// [`KeyForm`].
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Form {
    Secret,
    Private,
    Public,
    Reference,
}

/// One operation, as an [`ciphermill_contract::Op`] has it, with what that points to.
#[derive(Serialize, Deserialize)]
pub(super) struct Operation<'a> {
    pub(super) key: Option<u32>,
    pub(super) iv: [u8; 16],
    pub(super) iv_len: u8,
    pub(super) input: &'a [u8],
    pub(super) aad: &'a [u8],
    pub(super) tag: &'a [u8],
    pub(super) output_len: u32,
}

/// What the process with the module answers.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer<'a> {
    Opened {
        version: &'a str,
        takes_key_bytes: bool,
        claims: Vec<Claim>,
    },
    NotOpened(Refused<'a>),
    Prepared {
        key: u32,
        half: Option<&'a [u8]>,
        fingerprint: Option<&'a [u8]>,
    },
    NotPrepared(Problem),
    Listed(Inventory),
    /// The call of PKCS#11 that failed, by its code.
    NotListed(u64),
    Ran(#[serde(borrow)] Vec<Outcome<'a>>),
}

/// A [`TokenError`].
#[derive(Serialize, Deserialize)]
pub(super) enum Refused<'a> {
    Module(&'a str),
    Call(u64),
}

/// A [`Capability`] for one suite.
#[derive(Serialize, Deserialize)]
pub(super) struct Claim {
    suite: u16,
    directions: u8,
    input_len_max: u64,
    cost: [f64; 3],
}

/// Why a key was not prepared.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Problem {
    Length,
    Form,
    Encoding,
    Parameters,
    Weak,
    Call(i64),
    Unavailable,
    WrongResult,
}

/// What became of an operation.
#[derive(Serialize, Deserialize)]
pub(super) struct Outcome<'a> {
    pub(super) status: Status,
    pub(super) output: &'a [u8],
    pub(super) tag: &'a [u8],
}

/// An [`OpStatus`], but for those that no engine gives.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Status {
    Done,
    AuthFailed,
    BadInput(u8),
    Refused(u8),
    Fault,
}

/// Why nothing was told or heard.
#[derive(Debug)]
pub(super) enum Lost {
    /// The other side has gone, or does not answer in time.
    Gone,
    /// What came is no message.
    Nonsense,
}

impl From<FrameError> for Lost {
    fn from(error: FrameError) -> Lost {
        match error {
            FrameError::Io(_) => Lost::Gone,
            FrameError::TooLong { .. } => Lost::Nonsense,
        }
    }
}

/// Sends a message of at most so many bytes; what it is made of may be secret, and no copy stays.
pub(super) fn send(socket: &UnixStream, message: &impl Serialize, len_max: usize) -> Result<(), Lost> {
    let mut room = Zeroizing::new(vec![0; len_max]);
    let bytes = postcard::to_slice(message, &mut room).map_err(|_| Lost::Nonsense)?;
    write_frame(socket, bytes, &[]).map_err(|_| Lost::Gone)
}

/// Waits for a message, as long as the socket's timeout.
pub(super) fn receive(socket: &mut UnixStream) -> Result<Zeroizing<Vec<u8>>, Lost> {
    Ok(Zeroizing::new(read_frame(socket)?.0))
}

/// Reads a message, all of it.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Lost> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Lost::Nonsense),
    }
}

impl<'a> Ask<'a> {
    pub(super) fn open(opening: &'a Opening) -> Ask<'a> {
        let (slot, label) = match &opening.place {
            Place::Slot(slot) => (Some(*slot), None),
            Place::Label(label) => (None, Some(label.as_str())),
        };
        let module = opening.module.as_os_str().as_bytes();
        Ask::Open { module, slot, label, pin: opening.pin.as_deref(), copies: opening.copies }
    }

    /// Bytes that the message takes at most.
    pub(super) fn len_max(&self) -> usize {
        let operation = |one: &Operation<'_>| OPERATION_LEN + one.input.len() + one.aad.len() + one.tag.len();
        64 + match self {
            Ask::Open { module, label, pin, .. } => {
                module.len() + label.map_or(0, str::len) + pin.map_or(0, <[u8]>::len)
            }
            Ask::Prepare { bytes, .. } => bytes.len(),
            Ask::List | Ask::Forget { .. } => 0,
            Ask::Run { operations, .. } => operations.iter().map(operation).sum(),
        }
    }
}

impl Answer<'_> {
    /// Bytes that the message takes at most.
    pub(super) fn len_max(&self) -> usize {
        64 + match self {
            Answer::Opened { version, claims, .. } => version.len() + claims.len() * OPERATION_LEN,
            Answer::NotOpened(Refused::Module(words)) => words.len(),
            Answer::Prepared { half, fingerprint, .. } => {
                [half, fingerprint].into_iter().flatten().map(|bytes| bytes.len()).sum()
            }
            Answer::NotOpened(Refused::Call(_)) | Answer::NotPrepared(_) | Answer::NotListed(_) => 0,
            Answer::Listed(inventory) => inventory.len_max(),
            Answer::Ran(outcomes) => outcomes.iter().map(|one| OPERATION_LEN + one.output.len() + one.tag.len()).sum(),
        }
    }
}

/// What the process with the module opens; `None` for a message that no parent sends.
pub(super) fn opening(ask: &Ask<'_>) -> Option<Opening> {
    let Ask::Open { module, slot, label, pin, copies } = ask else { return None };
    let place = match (slot, label) {
        (Some(slot), None) => Place::Slot(*slot),
        (None, Some(label)) => Place::Label((*label).to_owned()),
        _ => return None,
    };
    let pin = pin.map(SecretBytes::from_slice).transpose().ok()?;
    let module = Path::new(std::ffi::OsStr::from_bytes(module));
    Some(Opening { pin, copies: *copies, patience: Duration::MAX, ..Opening::new("token", module, place) })
}

impl From<KeyForm> for Form {
    fn from(form: KeyForm) -> Form {
        match form {
            KeyForm::Secret => Form::Secret,
            KeyForm::Private => Form::Private,
            KeyForm::Public => Form::Public,
            KeyForm::Reference => Form::Reference,
        }
    }
}

impl From<Form> for KeyForm {
    fn from(form: Form) -> KeyForm {
        match form {
            Form::Secret => KeyForm::Secret,
            Form::Private => KeyForm::Private,
            Form::Public => KeyForm::Public,
            Form::Reference => KeyForm::Reference,
        }
    }
}

impl Claim {
    /// One claim a suite.
    pub(super) fn of(capabilities: &[Capability]) -> Vec<Claim> {
        let each = capabilities.iter().flat_map(|capability| {
            capability.suites.iter().map(move |suite| Claim {
                suite: suite.ordinal() as u16,
                directions: capability.directions.bits(),
                input_len_max: capability.input_len_max as u64,
                cost: [capability.prior.batch_ns, capability.prior.op_ns, capability.prior.byte_ns],
            })
        });
        each.collect()
    }

    /// The capability, for a suite out of `suites`, with what the way to another process costs added; `None` for what this program does
    /// not know.
    pub(super) fn capability(&self, suites: &'static [Suite], way: Cost) -> Option<Capability> {
        let place = suites.iter().position(|suite| suite.ordinal() == usize::from(self.suite))?;
        let [batch_ns, op_ns, byte_ns] = self.cost;
        let is_cost = |ns: &f64| ns.is_finite() && *ns >= 0.0;
        let directions = Directions::from_bits(self.directions).filter(|_| self.cost.iter().all(is_cost))?;
        let cost = Cost::new(batch_ns + way.batch_ns, op_ns + way.op_ns, byte_ns + way.byte_ns);
        let input_len_max = usize::try_from(self.input_len_max).unwrap_or(usize::MAX).min(REQUEST_LEN);
        Some(Capability::new(&suites[place..=place], cost).directions(directions).input_len_max(input_len_max))
    }
}

impl Refused<'_> {
    pub(super) fn error(&self) -> TokenError {
        match self {
            Refused::Module(words) => TokenError::Module((*words).to_owned()),
            Refused::Call(code) => TokenError::Call(*code),
        }
    }
}

impl Problem {
    pub(super) fn of(error: &Error) -> Problem {
        match error {
            Error::Refused(Refusal::KeyUnsuitable { problem, .. }) => match problem {
                KeyProblem::Length => Problem::Length,
                KeyProblem::Form => Problem::Form,
                KeyProblem::Encoding => Problem::Encoding,
                KeyProblem::Parameters => Problem::Parameters,
                KeyProblem::Weak => Problem::Weak,
            },
            Error::EngineFault(Fault { kind: FaultKind::Call(code), .. }) => Problem::Call(*code),
            Error::EngineFault(Fault { kind: FaultKind::WrongResult, .. }) => Problem::WrongResult,
            _ => Problem::Unavailable,
        }
    }

    pub(super) fn error(self, name: &'static str, suite: Suite) -> Error {
        match self {
            Problem::Length => Error::key(suite, KeyProblem::Length),
            Problem::Form => Error::key(suite, KeyProblem::Form),
            Problem::Encoding => Error::key(suite, KeyProblem::Encoding),
            Problem::Parameters => Error::key(suite, KeyProblem::Parameters),
            Problem::Weak => Error::key(suite, KeyProblem::Weak),
            Problem::Call(code) => Error::fault(name, FaultKind::Call(code)),
            Problem::Unavailable => Error::fault(name, FaultKind::Unavailable),
            Problem::WrongResult => Error::fault(name, FaultKind::WrongResult),
        }
    }
}

impl From<OpStatus> for Status {
    fn from(status: OpStatus) -> Status {
        match status {
            OpStatus::Done => Status::Done,
            OpStatus::AuthFailed => Status::AuthFailed,
            OpStatus::BadInput(reason) => Status::BadInput(reason as u8),
            OpStatus::Refused(reason) => Status::Refused(reason as u8),
            OpStatus::Pending | OpStatus::EngineFault => Status::Fault,
        }
    }
}

impl From<Status> for OpStatus {
    fn from(status: Status) -> OpStatus {
        let reason = |number: u8| Reason::ALL.get(usize::from(number)).copied();
        match status {
            Status::Done => OpStatus::Done,
            Status::AuthFailed => OpStatus::AuthFailed,
            Status::BadInput(number) => reason(number).map_or(OpStatus::EngineFault, OpStatus::BadInput),
            Status::Refused(number) => reason(number).map_or(OpStatus::EngineFault, OpStatus::Refused),
            Status::Fault => OpStatus::EngineFault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through<'b, T: Serialize + Deserialize<'b>>(message: &T, room: &'b mut [u8]) -> T {
        let len = postcard::to_slice(message, room).expect("fits").len();
        read(&room[..len]).expect("a message")
    }

    #[test]
    fn openings_come_through_whole() {
        let mut room = [0; 256];
        let pin = Some(SecretBytes::from_slice(b"1234").expect("memory"));
        let sent = Opening { pin, copies: true, ..Opening::new("one", Path::new("/a/module.so"), Place::Slot(7)) };
        let got = opening(&through(&Ask::open(&sent), &mut room)).expect("an opening");
        assert_eq!((got.module, got.place, got.copies), (sent.module, Place::Slot(7), true));
        assert_eq!(got.pin.as_deref(), Some(&b"1234"[..]));
        let sent = Opening::new("one", Path::new("/a/module.so"), Place::Label("a token".to_owned()));
        let got = opening(&through(&Ask::open(&sent), &mut room)).expect("an opening");
        assert_eq!((got.place, got.copies, got.pin.is_none()), (sent.place, false, true));
    }

    #[test]
    fn what_is_behind_a_message_or_missing_of_it_is_nonsense() {
        let mut room = [0; 64];
        let len = postcard::to_slice(&Ask::Forget { key: 700 }, &mut room).expect("fits").len();
        assert!(read::<Ask<'_>>(&room[..len]).is_ok());
        assert!(read::<Ask<'_>>(&room[..len + 1]).is_err() && read::<Ask<'_>>(&room[..len - 1]).is_err());
        assert!(read::<Ask<'_>>(&[9]).is_err() && read::<Answer<'_>>(&[]).is_err());
    }

    #[test]
    fn claims_that_make_no_sense_are_none() {
        static SUITES: std::sync::LazyLock<Vec<Suite>> = std::sync::LazyLock::new(|| Suite::all().collect());
        let claim = |suite, cost| Claim { suite, directions: 1, input_len_max: u64::MAX, cost };
        let way = Cost::new(1.0, 2.0, 3.0);
        let made = claim(SUITES[0].ordinal() as u16, [1.0; 3]).capability(&SUITES, way).expect("a capability");
        assert_eq!((made.suites, made.input_len_max), (&SUITES[..1], REQUEST_LEN));
        assert_eq!(made.prior, Cost::new(2.0, 3.0, 4.0));
        assert!(claim(u16::MAX, [1.0; 3]).capability(&SUITES, way).is_none());
        assert!(claim(SUITES[0].ordinal() as u16, [1.0, f64::NAN, 0.0]).capability(&SUITES, way).is_none());
        assert!(claim(SUITES[0].ordinal() as u16, [1.0, -1.0, 0.0]).capability(&SUITES, way).is_none());
    }

    #[test]
    fn statuses_come_through_and_others_are_faults() {
        for status in [OpStatus::Done, OpStatus::AuthFailed, OpStatus::EngineFault] {
            assert_eq!(OpStatus::from(Status::from(status)), status);
        }
        for reason in Reason::ALL.iter().copied() {
            assert_eq!(OpStatus::from(Status::from(OpStatus::BadInput(reason))), OpStatus::BadInput(reason));
            assert_eq!(OpStatus::from(Status::from(OpStatus::Refused(reason))), OpStatus::Refused(reason));
        }
        assert_eq!(OpStatus::from(Status::Refused(255)), OpStatus::EngineFault);
    }
}
