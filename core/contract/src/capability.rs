//! What engines say of themselves, as const data. The router, the tests and the documentation read the same tables.

use core::fmt;
use core::str::FromStr;

use crate::limits::SUITE_ORDINALS_MAX;
use crate::suite::{Direction, Suite, UnknownSuite};

/// A group of suites that an engine runs alike.
#[derive(Clone, Copy, Debug)]
pub struct Capability {
    /// The suites, in their canonical form.
    pub suites: &'static [Suite],
    /// Which ways it runs them.
    pub directions: Directions,
    /// The longest input in bytes that it takes; what the suite allows may be less.
    pub input_len_max: usize,
    /// Messages that it works on side by side.
    pub lanes: u16,
    /// Whether its running time tells anything about keys or data.
    pub timing: Timing,
    /// What it probably costs when its lanes are full, until it has been measured.
    pub prior: Cost,
    /// What operations that are fewer than the lanes probably cost, where that is no share of full lanes' cost.
    pub few: Option<Few>,
    /// Operations that are paid for together: a batch costs as much as the next multiple of it does. One, or as many as lanes.
    pub step: u16,
}

impl Capability {
    /// A group of suites in all their directions, without a length limit of its own, one message at a time, in constant
    /// time.
    pub const fn new(suites: &'static [Suite], prior: Cost) -> Capability {
        Capability {
            suites,
            directions: Directions::BOTH,
            input_len_max: usize::MAX,
            lanes: 1,
            timing: Timing::Constant,
            prior,
            few: None,
            step: 1,
        }
    }

    /// The same, marked as variable in time.
    #[must_use]
    pub const fn variable_time(mut self) -> Capability {
        self.timing = Timing::Variable;
        self
    }

    /// The same, in these directions only.
    #[must_use]
    pub const fn directions(mut self, directions: Directions) -> Capability {
        self.directions = directions;
        self
    }

    /// The same, for inputs up to `len` bytes.
    #[must_use]
    pub const fn input_len_max(mut self, len: usize) -> Capability {
        self.input_len_max = len;
        self
    }

    /// The same, with this many messages side by side.
    #[must_use]
    pub const fn lanes(mut self, lanes: u16) -> Capability {
        self.lanes = lanes;
        self
    }

    /// The same, with another cost of fewer operations than lanes, which go one after the other then.
    #[must_use]
    pub const fn few(mut self, cost: Cost) -> Capability {
        self.few = Some(Few { cost, idle: 0, parallel: false });
        self
    }

    /// The same, where fewer operations than lanes go through narrower ones, of which so many more are paid for.
    #[must_use]
    pub const fn narrow(mut self, cost: Cost, idle: u16) -> Capability {
        self.few = Some(Few { cost, idle, parallel: false });
        self
    }

    /// The same, with another cost of so little work that an operation does not fill the lanes by itself.
    #[must_use]
    pub const fn little(mut self, cost: Cost) -> Capability {
        self.few = Some(Few { cost, idle: 0, parallel: true });
        self
    }

    /// The same, whose operations go through the lanes in step: a vector that is partly filled costs as much as a full one.
    /// `lanes` has been set before.
    #[must_use]
    pub const fn in_step(mut self) -> Capability {
        self.step = self.lanes;
        self
    }

    /// What a batch probably takes, in nanoseconds. Fewer operations than lanes take as long as full lanes would, or what
    /// their own way takes if that is less.
    pub fn estimate_ns(&self, ops: u64, bytes: u64) -> f64 {
        let lanes = u64::from(self.lanes);
        let Some(few) = self.few.filter(|_| ops > 0 && ops < lanes) else {
            return self.prior.in_steps(ops, self.step).predict_ns(ops, bytes);
        };
        let as_many = |count: u64| (count, bytes / ops * count);
        let (full, own) = (as_many(if few.parallel { ops } else { lanes }), as_many(ops + u64::from(few.idle)));
        self.prior.predict_ns(full.0, full.1).min(few.cost.predict_ns(own.0, own.1))
    }

    /// Whether the group holds `suite` in `direction`.
    pub fn covers(&self, suite: Suite, direction: Direction) -> bool {
        self.directions.contains(direction)
            && suite.has_direction(direction)
            && self.suites.contains(&suite.canonical())
    }
}

/// The capability of `capabilities` that covers a suite and direction, if any.
pub fn find(capabilities: &[Capability], suite: Suite, direction: Direction) -> Option<&Capability> {
    capabilities.iter().find(|capability| capability.covers(suite, direction))
}

/// The suites of an engine, for who asks for one after the other.
#[derive(Clone, Debug)]
pub struct Claims([u64; SUITE_ORDINALS_MAX.div_ceil(64)]);

impl Claims {
    /// Those that `capabilities` cover in any direction.
    pub fn of(capabilities: &[Capability]) -> Claims {
        let mut bits = [0; SUITE_ORDINALS_MAX.div_ceil(64)];
        let covered = capabilities.iter().filter(|capability| capability.directions != Directions::NONE);
        for suite in covered.flat_map(|capability| capability.suites) {
            bits[suite.ordinal() / 64] |= 1 << (suite.ordinal() % 64);
        }
        Claims(bits)
    }

    /// Whether the suite is among them.
    pub fn contains(&self, suite: Suite) -> bool {
        self.0[suite.ordinal() / 64] & 1 << (suite.ordinal() % 64) != 0 && suite.is_listed()
    }
}

/// What fewer operations than lanes probably cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Few {
    /// The cost of the way that few operations take.
    pub cost: Cost,
    /// How many lanes of that way are paid for besides those that work.
    pub idle: u16,
    /// Whether an operation fills several lanes by itself, so that full lanes' cost holds for few operations too.
    pub parallel: bool,
}

/// A set of directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Directions(u8);

impl Directions {
    /// Forward only.
    pub const ENCRYPT: Directions = Directions(1);
    /// Back only.
    pub const DECRYPT: Directions = Directions(2);
    /// Neither: keys that values are only moved between.
    pub const NONE: Directions = Directions(0);
    /// Forward and back.
    pub const BOTH: Directions = Directions(3);

    /// Whether the set holds `direction`.
    #[inline]
    pub const fn contains(self, direction: Direction) -> bool {
        self.0 & (1 << direction as u8) != 0
    }

    /// The set as bits: 1 for encrypt, 2 for decrypt.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these bits, if it is one and not empty.
    pub const fn from_bits(bits: u8) -> Option<Directions> {
        if bits >= 1 && bits <= 3 { Some(Directions(bits)) } else { None }
    }
}

/// Whether running time depends on secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timing {
    /// No secret-dependent branch or memory index.
    Constant,
    /// Table-driven or otherwise variable; for legacy suites only.
    Variable,
}

/// Cost of a batch in nanoseconds: `C1 + C2 · ops + C3 · bytes` (Lindemann and Smith 2001, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// C1: nanoseconds for the batch as such.
    pub batch_ns: f64,
    /// C2: nanoseconds for each operation.
    pub op_ns: f64,
    /// C3: nanoseconds for each byte of input.
    pub byte_ns: f64,
}

impl Cost {
    /// A cost from its three terms.
    pub const fn new(batch_ns: f64, op_ns: f64, byte_ns: f64) -> Cost {
        Cost { batch_ns, op_ns, byte_ns }
    }

    /// The cost of an engine that takes `factor` times as long.
    #[inline]
    #[must_use]
    pub fn scaled(self, factor: f64) -> Cost {
        Cost { batch_ns: self.batch_ns * factor, op_ns: self.op_ns * factor, byte_ns: self.byte_ns * factor }
    }

    /// The cost of a batch of `ops` operations that is paid for in steps of so many.
    #[inline]
    #[must_use]
    pub fn in_steps(self, ops: u64, step: u16) -> Cost {
        if step < 2 || ops == 0 {
            return self;
        }
        let factor = ops.next_multiple_of(step.into()) as f64 / ops as f64;
        Cost { op_ns: self.op_ns * factor, byte_ns: self.byte_ns * factor, ..self }
    }

    /// The predicted nanoseconds for `ops` operations with `bytes` bytes of input together.
    #[inline]
    pub fn predict_ns(&self, ops: u64, bytes: u64) -> f64 {
        self.batch_ns + self.op_ns * ops as f64 + self.byte_ns * bytes as f64
    }
}

/// What kind of thing an engine is. Key policies name kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EngineKind {
    /// Plain code on this processor, the oracle of all others.
    Reference = 0,
    /// A fast library on this processor.
    Library = 1,
    /// Our vector kernels on this processor.
    Lanes = 2,
    /// A GPU.
    Gpu = 3,
    /// A PKCS#11 token or HSM.
    Token = 4,
    /// Another process.
    Service = 5,
    /// A system to compare with, in the lab only.
    Peer = 6,
    /// A test double.
    Fault = 7,
}

impl EngineKind {
    /// All kinds.
    pub const ALL: [EngineKind; 8] = [
        EngineKind::Reference,
        EngineKind::Library,
        EngineKind::Lanes,
        EngineKind::Gpu,
        EngineKind::Token,
        EngineKind::Service,
        EngineKind::Peer,
        EngineKind::Fault,
    ];
}

impl EngineKind {
    /// Whether engines of this kind can fail by themselves: devices and other processes, which die, hang or lie. Those on
    /// this processor share the fate of the program.
    #[inline]
    pub const fn can_fail(self) -> bool {
        matches!(self, EngineKind::Gpu | EngineKind::Token | EngineKind::Service | EngineKind::Fault)
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineKind::Reference => "reference",
            EngineKind::Library => "library",
            EngineKind::Lanes => "lanes",
            EngineKind::Gpu => "gpu",
            EngineKind::Token => "token",
            EngineKind::Service => "service",
            EngineKind::Peer => "peer",
            EngineKind::Fault => "fault",
        })
    }
}

impl FromStr for EngineKind {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<EngineKind, UnknownSuite> {
        EngineKind::ALL
            .into_iter()
            .find(|kind| kind.to_string() == name.trim())
            .ok_or_else(|| UnknownSuite { name: name.to_owned(), nearest: None })
    }
}

/// A set of engine kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EngineKinds(u8);

impl EngineKinds {
    /// Every kind.
    pub const ALL: EngineKinds = EngineKinds(0xff);
    /// No kind.
    pub const NONE: EngineKinds = EngineKinds(0);
    /// Kinds that run inside this process on this machine's own processor.
    pub const IN_PROCESS: EngineKinds = EngineKinds(0b1100_0111);

    /// Kinds that have keys of their own, which others only know by name.
    pub const KEEPERS: EngineKinds = EngineKinds(0b0011_0000);

    /// The set of one kind.
    pub const fn only(kind: EngineKind) -> EngineKinds {
        EngineKinds(1 << kind as u8)
    }

    /// The set with one kind more.
    #[must_use]
    pub const fn with(self, kind: EngineKind) -> EngineKinds {
        EngineKinds(self.0 | 1 << kind as u8)
    }

    /// Kinds in both sets.
    #[inline]
    #[must_use]
    pub const fn intersect(self, other: EngineKinds) -> EngineKinds {
        EngineKinds(self.0 & other.0)
    }

    /// Whether the set holds `kind`.
    #[inline]
    pub const fn contains(self, kind: EngineKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Whether the set holds no kind.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set as bits, bit `n` for the kind with that discriminant.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of these bits.
    pub const fn from_bits(bits: u8) -> EngineKinds {
        EngineKinds(bits)
    }
}

impl fmt::Debug for EngineKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(EngineKind::ALL.iter().filter(|kind| self.contains(**kind))).finish()
    }
}
