//! The paper's own figures, as printed: its tables 1 and 2 (IXP1200 at 200 MHz, data in SRAM; the variants on one
//! microengine, "thread parallel" on its four hardware threads).
//!
//! Two of them do not agree with its text and are given as printed: Blowfish's latency hiding is below its unoptimised
//! figure in table 2, where the text says that the throughput is "more than three times of the raw one".

use crate::{Algorithm, Variant};

/// A row of table 1, "Characteristics of different cryptographic algorithms".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Characteristics {
    /// Instruction space.
    pub instruction_space: u32,
    /// Rounds, where the paper gives them.
    pub rounds: Option<u32>,
    /// Memory accesses a round.
    pub accesses: u32,
}

/// A cell of table 2, "SRAM throughput and Microengine utilization rate under different optimizations".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Throughput in Mb/s.
    pub mbps: f64,
    /// Utilisation of the microengine in percent.
    pub utilisation: f64,
}

/// Table 1.
pub fn characteristics(algorithm: Algorithm) -> Characteristics {
    let (instruction_space, rounds, accesses) = match algorithm {
        Algorithm::Blowfish => (39, Some(16), 4),
        Algorithm::Khufu | Algorithm::Khafre => (20, Some(32), 1),
        Algorithm::Rc4 => (39, None, 7),
        Algorithm::Seal => (100, None, 15),
        Algorithm::Md5 => (744, None, 2),
    };
    Characteristics { instruction_space, rounds, accesses }
}

/// Table 2. Its column "thread parallel" is the better of M1 and M2, so that both have it here.
pub fn figure(algorithm: Algorithm, variant: Variant) -> Option<Figure> {
    let [unoptimised, computation, hiding, parallel] = match algorithm {
        Algorithm::Blowfish => [(268.1, 20.5), (281.4, 17.4), (219.06, 39.4), (775.87, 86.1)],
        Algorithm::Khufu | Algorithm::Khafre => [(242.3, 31.5), (261.0, 22.8), (280.8, 24.3), (1103.7, 80.6)],
        Algorithm::Rc4 => [(263.5, 21.2), (270.7, 19.6), (352.0, 22.0), (1104.0, 69.0)],
        Algorithm::Seal => [(298.4, 22.8), (301.5, 22.0), (390.4, 24.9), (1292.7, 79.2)],
        Algorithm::Md5 => [(127.7, 91.5), (157.5, 89.2), (167.8, 95.5), (176.2, 99.2)],
    };
    let (mbps, utilisation) = match variant {
        Variant::Unoptimised => unoptimised,
        Variant::ComputationOriented => computation,
        Variant::LatencyHiding => hiding,
        Variant::ThreadParallelM1 | Variant::ThreadParallelM2 => parallel,
        Variant::HelperThread => match algorithm {
            Algorithm::Rc4 => (545.2, 69.0),
            Algorithm::Md5 => (171.2, 97.5),
            _ => return None,
        },
        Variant::Lanes => return None,
    };
    Some(Figure { mbps, utilisation })
}
