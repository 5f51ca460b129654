//! Where it is measured: generator, west, east, generator, in namespaces of their own that are joined by veth pairs.
//!
//! A pair hands packets over on the core of whoever sends them: what the first gateway's kernel does for what the generator sends is done on
//! the generator's core, and not counted, whatever the stack. Receive packet steering would move it, at the price of an interrupt from core to
//! core for each packet, which an interface of hardware spares: on a virtual machine that is more than all that a gateway does, and half of
//! what gateways carried and most of their latency was these interrupts.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ciphermill_packets::namespace::{Builder, End, Lab};

/// One of both gateways. The generator's ends beside them are called [`Side::host`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    West,
    East,
}

pub(super) const SIDES: [Side; 2] = [Side::West, Side::East];

/// The interface towards the generator, of gateways and generator alike.
pub(super) const INSIDE: &str = "in";
/// The interface between the gateways.
pub(super) const OUTSIDE: &str = "out";
/// Octets of the packets of a frame of 1518.
const MTU_INSIDE: usize = 1500;
/// As many and what tunnels add to them, so that nothing is cut; with the ring's own header it is within 2 KiB, which a ring allocates.
pub(super) const MTU_OUTSIDE: usize = 1700;

/// How urgent generator and gateways are for the scheduler (`setpriority(2)`): the most of the ordinary class, so that other programs wait for
/// them. Not a real-time class, whose threads the kernel stops when they never sleep.
pub(super) const URGENT: i32 = -20;

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::West => "west",
            Side::East => "east",
        }
    }

    pub(super) fn peer(self) -> Side {
        match self {
            Side::West => Side::East,
            Side::East => Side::West,
        }
    }

    /// The namespace of the generator's end.
    pub(super) fn host(self) -> &'static str {
        match self {
            Side::West => "left",
            Side::East => "right",
        }
    }

    fn number(self) -> u8 {
        match self {
            Side::West => 1,
            Side::East => 2,
        }
    }

    /// The network behind the gateway.
    pub(super) fn network(self) -> String {
        format!("10.77.{}.0/24", self.number())
    }

    /// The gateway's address there.
    pub(super) fn inner(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number(), 1)
    }

    /// The address that packets are sent from and to. No host has it, so that no kernel answers.
    pub(super) fn station(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number(), 9)
    }

    /// The gateway's address towards the other one (RFC 5737).
    pub(super) fn outer(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, self.number())
    }

    /// Link addresses, locally administered: the gateway's inside, its outside, the generator's.
    fn links(self) -> [[u8; 6]; 3] {
        [1, 2, 3].map(|which| [2, 0, 0, 0x77, self.number(), which])
    }
}

/// The cores that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// Of the generator, which is busy all the time.
    pub(super) generator: usize,
    /// Of both gateways.
    pub(super) gateways: usize,
}

impl Cores {
    /// The generator's as it is asked for, or else the first, and the last of the others; `None` if there is one only.
    pub(super) fn among(cores: &[usize], asked: Option<usize>) -> Option<Cores> {
        let generator = asked.or_else(|| cores.first().copied())?;
        let gateways = cores.iter().rev().find(|core| **core != generator)?;
        Some(Cores { generator, gateways: *gateways })
    }
}

/// The namespaces, as long as this value lives.
pub(super) struct Ground {
    pub(super) lab: Lab,
}

impl Ground {
    /// Makes the namespaces. With `forwards` the kernels of both gateways forward; the way to the network behind the other one is for the gateway
    /// to say, so that nothing passes by it.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn make(name: &str, forwards: bool) -> io::Result<Ground> {
        Ok(Ground { lab: builder(name, forwards)?.up()? })
    }
}

fn builder(name: &str, forwards: bool) -> io::Result<Builder> {
    let mut builder = Builder::new(name)?;
    for side in SIDES {
        builder = builder.namespace(side.host()).namespace(side.name());
        if forwards {
            builder = builder.forwarding(side.name());
        }
    }
    for side in SIDES {
        let [inside, _, host] = side.links();
        let left = End::new(side.host(), INSIDE).address(IpAddr::from([10, 77, side.number(), 2]), 24).link(host);
        let right = End::new(side.name(), INSIDE).address(side.inner().into(), 24).link(inside);
        builder = builder
            .pair(left, right, MTU_INSIDE)
            .route(side.host(), "default", side.inner().into())
            .neighbour(side.host(), INSIDE, side.inner().into(), inside)
            .neighbour(side.name(), INSIDE, side.station().into(), host);
    }
    let outside = |side: Side| {
        let [_, outside, _] = side.links();
        End::new(side.name(), OUTSIDE).address(side.outer().into(), 24).link(outside)
    };
    builder = builder.pair(outside(Side::West), outside(Side::East), MTU_OUTSIDE);
    for side in SIDES {
        let [_, outside, _] = side.peer().links();
        builder = builder.neighbour(side.name(), OUTSIDE, side.peer().outer().into(), outside);
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_differ() {
        assert_eq!(Cores::among(&[0, 1], None), Some(Cores { generator: 0, gateways: 1 }));
        assert_eq!(Cores::among(&[0, 1, 5], Some(5)), Some(Cores { generator: 5, gateways: 1 }));
        assert_eq!(Cores::among(&[3], None), None);
        assert_eq!(Cores::among(&[], None), None);
    }
}
