//! Which packets of an interface a ring gets: programs of the classic BPF, made from a few wishes.
//!
//! The kernel runs them on each packet before it takes room in the ring, and in another form where packets are kept from its own network code
//! ([`crate::takeover`]). A packet lies before them from its IP header on; what the kernel knows of the frame besides is read at negative
//! offsets (`linux/filter.h`, `SKF_AD_OFF`).

use std::net::IpAddr;

use crate::ip::{ESP, UDP};

/// Which packets a ring gets. Frames with a VLAN tag, frames to other stations and what this host sends are left out in any case.
///
/// With ESP come ICMP errors that say that a packet of it was too long (RFC 1191, RFC 8201); the kernel has these too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// IPv4 and IPv6.
    Ip,
    /// ESP by itself (RFC 4303): IP protocol 50, as the first header of an IPv6 packet.
    Esp,
    /// ESP by itself or in UDP to this port (RFC 3948). IKE's messages on the same port begin with four zero octets, and keep-alives have
    /// one octet: they are left to the daemon. Of a datagram in fragments only the first one has a port, and passes.
    EspOrUdp(u16),
}

/// One instruction as the kernel has it (`struct sock_filter`).
pub(crate) type Instruction = libc::sock_filter;

/// Instructions of the longest program.
pub(crate) const PROGRAM_LEN_MAX: usize = 128;
/// Addresses that a program may spare.
pub(crate) const SPARED_MAX: usize = 8;
const _: () = assert!(32 + SPARED_MAX * 10 <= PROGRAM_LEN_MAX && PROGRAM_LEN_MAX < 255, "a jump says at most 255");

const ETHERTYPE_IPV4: u32 = 0x0800;
const ETHERTYPE_IPV6: u32 = 0x86dd;
/// Packet types from here on are those to other stations and those of this host (`linux/if_packet.h`).
const PACKET_OTHERHOST: u32 = 3;
/// Where a program reads what the kernel knows of a frame.
const AD_OFF: u32 = libc::SKF_AD_OFF as u32;

const ICMP: u32 = 1;
const ICMP_V6: u32 = 58;
/// Type and code of "fragmentation needed" (RFC 792) and "packet too big" (RFC 4443, section 3.2).
const TOO_BIG_V4: u32 = 0x0304;
const TOO_BIG_V6: u32 = 0x0200;

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_BYTE_BEHIND: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const LOAD_HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const LOAD_WORD_BEHIND: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_IND;
const LOAD_HEADER_LEN: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Where a program finds a packet's IP header, and what it returns.
#[derive(Clone, Copy)]
struct Place {
    base: u32,
    accept: u32,
    reject: u32,
    /// The first type of packets that is rejected.
    kinds_end: u32,
}

/// On a socket of datagrams the packet begins with its IP header. The value says how much of a packet is kept.
const ON_SOCKET: Place = Place { base: 0, accept: u32::MAX, reject: 0, kinds_end: PACKET_OTHERHOST };
/// Where packets enter, they begin with the link header. The value is what becomes of them (`linux/pkt_cls.h`): `TC_ACT_SHOT`, or
/// `TC_ACT_UNSPEC` for whatever filter is next. Only what is sent to this station alone is taken, so that groups work as ever.
const AT_INGRESS: Place = Place { base: libc::SKF_NET_OFF as u32, accept: 2, reject: u32::MAX, kinds_end: 1 };

/// Where a test leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    Accept,
    Reject,
    /// To the mark of this number.
    Mark(usize),
}

/// A step of a program whose targets have names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Load(u32, u32),
    Test(u32, u32, To, To),
    /// Where [`To::Mark`] leads.
    Mark(usize),
}

use Step::{Load, Mark, Test};
use To::{Accept, Next, Reject};

/// The mark where IPv6 begins; those behind it are of spared addresses.
const IPV6: usize = 0;
/// Where a packet is none of neighbour discovery, and none of ICMP of either version.
const OTHER: usize = IPV6 + 1 + SPARED_MAX;
const OTHER_V4: usize = OTHER + 1;
const OTHER_V6: usize = OTHER + 2;

impl Filter {
    /// The program for a ring's socket.
    pub(crate) fn program(self) -> Vec<Instruction> {
        self.assemble(ON_SOCKET, &[])
    }

    /// The program that drops the same packets where they enter the interface, but for those to at most [`SPARED_MAX`] addresses.
    pub(crate) fn ingress_program(self, spared: &[IpAddr]) -> Vec<Instruction> {
        self.assemble(AT_INGRESS, spared)
    }

    fn assemble(self, place: Place, spared: &[IpAddr]) -> Vec<Instruction> {
        let at = |offset: u32| place.base.wrapping_add(offset);
        let mut steps = vec![
            Load(LOAD_WORD, AD_OFF.wrapping_add(libc::SKF_AD_PKTTYPE as u32)),
            Test(IF_AT_LEAST, place.kinds_end, Reject, Next),
            Load(LOAD_WORD, AD_OFF.wrapping_add(libc::SKF_AD_VLAN_TAG_PRESENT as u32)),
            Test(IF_EQUAL, 0, Next, Reject),
            Load(LOAD_WORD, AD_OFF.wrapping_add(libc::SKF_AD_PROTOCOL as u32)),
            Test(IF_EQUAL, ETHERTYPE_IPV6, To::Mark(IPV6), Next),
            Test(IF_EQUAL, ETHERTYPE_IPV4, Next, Reject),
        ];
        for (number, address) in spared.iter().enumerate().filter(|(_, address)| address.is_ipv4()) {
            spare(&mut steps, at(16), *address, IPV6 + 1 + number);
        }
        // The kernel keeps errors too: only the ring asks for them. They quote our own header, which has no options.
        let with_errors = place.base == ON_SOCKET.base && self != Filter::Ip;
        if with_errors {
            steps.extend([
                Load(LOAD_BYTE, at(9)),
                Test(IF_EQUAL, ICMP, Next, To::Mark(OTHER_V4)),
                Load(LOAD_HALF, at(6)),
                Test(IF_ANY_BIT, 0x1fff, Reject, Next),
                Load(LOAD_HEADER_LEN, at(0)),
                Load(LOAD_HALF_BEHIND, at(0)),
                Test(IF_EQUAL, TOO_BIG_V4, Next, Reject),
            ]);
            self.quoted(&mut steps, Load(LOAD_BYTE_BEHIND, at(8 + 9)), Load(LOAD_HALF_BEHIND, at(8 + 20)));
            steps.push(Mark(OTHER_V4));
        }
        // IPv4's protocol (RFC 791, section 3.1); UDP lies behind a header of any length, in the first fragment.
        self.transport(
            &mut steps,
            Load(LOAD_BYTE, at(9)),
            &[Load(LOAD_HALF, at(6)), Test(IF_ANY_BIT, 0x1fff, Reject, Next), Load(LOAD_HEADER_LEN, at(0))],
            [Load(LOAD_HALF_BEHIND, at(2)), Load(LOAD_WORD_BEHIND, at(8))],
        );
        steps.push(Mark(IPV6));
        for (number, address) in spared.iter().enumerate().filter(|(_, address)| address.is_ipv6()) {
            spare(&mut steps, at(24), *address, IPV6 + 1 + number);
        }
        if self == Filter::Ip {
            // Neighbour discovery is the link's own, and never passed on (RFC 4861, section 4: types 133 to 137): the kernel wants its answers,
            // to whichever of its addresses they go.
            let other = To::Mark(OTHER);
            steps.extend([
                Load(LOAD_BYTE, at(6)),
                Test(IF_EQUAL, ICMP_V6, Next, other),
                Load(LOAD_BYTE, at(40)),
                Test(IF_AT_LEAST, 138, other, Next),
                Test(IF_AT_LEAST, 133, Reject, Next),
                Mark(OTHER),
            ]);
        }
        if with_errors {
            steps.extend([
                Load(LOAD_BYTE, at(6)),
                Test(IF_EQUAL, ICMP_V6, Next, To::Mark(OTHER_V6)),
                Load(LOAD_HALF, at(40)),
                Test(IF_EQUAL, TOO_BIG_V6, Next, Reject),
            ]);
            self.quoted(&mut steps, Load(LOAD_BYTE, at(48 + 6)), Load(LOAD_HALF, at(48 + 40)));
            steps.push(Mark(OTHER_V6));
        }
        // IPv6's next header (RFC 8200, section 3).
        let udp = [Load(LOAD_HALF, at(42)), Load(LOAD_WORD, at(48))];
        self.transport(&mut steps, Load(LOAD_BYTE, at(6)), &[], udp);
        link(&steps, place)
    }

    /// Accepts an error about a packet of this filter's: where the protocol of that is read, and its source port.
    fn quoted(self, steps: &mut Vec<Step>, protocol: Step, port_at: Step) {
        let Filter::EspOrUdp(port) = self else {
            steps.extend([protocol, Test(IF_EQUAL, ESP.into(), Accept, Reject)]);
            return;
        };
        steps.extend([
            protocol,
            Test(IF_EQUAL, ESP.into(), Accept, Next),
            Test(IF_EQUAL, UDP.into(), Next, Reject),
            port_at,
            Test(IF_EQUAL, port.into(), Accept, Reject),
        ]);
    }

    /// Tests the transport of a packet: where its number is read, what comes before UDP's header is read, its port, and its data.
    fn transport(self, steps: &mut Vec<Step>, protocol: Step, before: &[Step], [port_at, data_at]: [Step; 2]) {
        let port = match self {
            Filter::Ip => {
                // Whatever the number is.
                steps.extend([protocol, Test(IF_AT_LEAST, 0, Accept, Accept)]);
                return;
            }
            Filter::Esp => {
                steps.extend([protocol, Test(IF_EQUAL, ESP.into(), Accept, Reject)]);
                return;
            }
            Filter::EspOrUdp(port) => port,
        };
        steps.extend([protocol, Test(IF_EQUAL, ESP.into(), Accept, Next), Test(IF_EQUAL, UDP.into(), Next, Reject)]);
        steps.extend(before);
        steps.extend([port_at, Test(IF_EQUAL, port.into(), Next, Reject)]);
        // IKE's marker is zero where ESP has its SPI (RFC 3948, section 2.2).
        steps.extend([data_at, Test(IF_EQUAL, 0, Reject, Accept)]);
    }
}

/// Rejects what goes to an address, which is compared word by word; `mark` is where another address leads.
fn spare(steps: &mut Vec<Step>, at: u32, address: IpAddr, mark: usize) {
    let octets = match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks::<4>();
    for (number, word) in (1..).zip(words) {
        let is_last = number == words.len();
        let same = if is_last { Reject } else { Next };
        steps.push(Load(LOAD_WORD, at.wrapping_add(4 * (number as u32 - 1))));
        steps.push(Test(IF_EQUAL, u32::from_be_bytes(*word), same, To::Mark(mark)));
    }
    steps.push(Mark(mark));
}

/// Steps as instructions, with the two endings behind them.
fn link(steps: &[Step], place: Place) -> Vec<Instruction> {
    let is_line = |step: &&Step| !matches!(step, Mark(_));
    let lines = steps.iter().filter(is_line).count();
    // Each mark is set once, behind whatever leads to it.
    let line_of = |mark| steps.iter().take_while(|step| **step != Mark(mark)).filter(is_line).count();
    let mut program = Vec::with_capacity(lines + 2);
    for step in steps {
        let here = program.len();
        // Jumps are relative to the next instruction.
        let jump = |to: To| {
            let target = match to {
                Next => here + 1,
                Accept => lines,
                Reject => lines + 1,
                To::Mark(mark) => line_of(mark),
            };
            (target - here - 1) as u8
        };
        match *step {
            Load(code, k) => program.push(Instruction { code: code as u16, jt: 0, jf: 0, k }),
            Test(code, k, yes, no) => {
                program.push(Instruction { code: code as u16, jt: jump(yes), jf: jump(no), k });
            }
            Mark(_) => {}
        }
    }
    program.push(Instruction { code: RETURN as u16, jt: 0, jf: 0, k: place.accept });
    program.push(Instruction { code: RETURN as u16, jt: 0, jf: 0, k: place.reject });
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel knows of a frame.
    #[derive(Clone, Copy)]
    struct Frame<'a> {
        kind: u32,
        vlan: u32,
        protocol: u32,
        packet: &'a [u8],
    }

    /// Runs a program as `net/core/filter.c` does: what is read beyond the packet rejects it.
    fn accepts(program: &[Instruction], frame: Frame<'_>) -> bool {
        run(program, frame) == Some(u32::MAX)
    }

    /// Whether the kernel's own code does not see the packet; a program that reads beyond it lets it pass.
    fn is_dropped(program: &[Instruction], frame: Frame<'_>) -> bool {
        run(program, frame) == Some(2)
    }

    fn run(program: &[Instruction], frame: Frame<'_>) -> Option<u32> {
        let read = |at: u32, len: usize| -> Option<u32> {
            match at.wrapping_sub(AD_OFF) {
                0 => return Some(frame.protocol),
                4 => return Some(frame.kind),
                48 => return Some(frame.vlan),
                _ => {}
            }
            let at = if at < AT_INGRESS.base { at } else { at - AT_INGRESS.base } as usize;
            let octets = frame.packet.get(at..at + len)?;
            Some(octets.iter().fold(0, |value, octet| value << 8 | u32::from(*octet)))
        };
        let (mut a, mut x, mut pc) = (0u32, 0u32, 0usize);
        loop {
            let line = program[pc];
            pc += 1;
            let jump = |taken: bool| usize::from(if taken { line.jt } else { line.jf });
            let loaded = match u32::from(line.code) {
                LOAD_WORD => read(line.k, 4),
                LOAD_HALF => read(line.k, 2),
                LOAD_BYTE => read(line.k, 1),
                LOAD_BYTE_BEHIND => read(line.k + x, 1),
                LOAD_HALF_BEHIND => read(line.k + x, 2),
                LOAD_WORD_BEHIND => read(line.k + x, 4),
                LOAD_HEADER_LEN => {
                    x = (read(line.k, 1)? & 0x0f) * 4;
                    continue;
                }
                IF_EQUAL => {
                    pc += jump(a == line.k);
                    continue;
                }
                IF_AT_LEAST => {
                    pc += jump(a >= line.k);
                    continue;
                }
                IF_ANY_BIT => {
                    pc += jump(a & line.k != 0);
                    continue;
                }
                RETURN => return Some(line.k),
                code => panic!("instruction {code:#x} is not known"),
            };
            a = loaded?;
        }
    }

    fn ipv4(protocol: u8, options: usize, fragment: u16, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x45 + (options / 4) as u8;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet.extend(port.wrapping_add(1).to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend([0, 0, 0, 0, 0, 0, 1, 0]);
        packet
    }

    fn ipv6(next: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = next;
        packet.extend(port.wrapping_add(1).to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend([0, 0, 0, 0, 0, 0, 1, 0]);
        packet
    }

    fn frame(packet: &[u8]) -> Frame<'_> {
        let protocol = if packet[0] >> 4 == 4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        Frame { kind: 0, vlan: 0, protocol, packet }
    }

    #[test]
    fn each_filter_passes_what_it_says() {
        // The packet, whether it is ESP, and whether it is UDP to port 4500.
        let cases = [
            (ipv4(50, 0, 0, 0), true, false),
            (ipv4(50, 8, 0x2001, 0), true, false),
            (ipv4(17, 0, 0x4000, 4500), false, true),
            (ipv4(17, 40, 0, 4500), false, true),
            (ipv4(17, 0, 0x2000, 4500), false, true),
            (ipv4(17, 0, 0x2001, 4500), false, false),
            (ipv4(17, 0, 0, 500), false, false),
            (ipv4(6, 0, 0, 4500), false, false),
            (ipv4(1, 0, 0, 4500), false, false),
            (ipv6(50, 0), true, false),
            (ipv6(17, 4500), false, true),
            (ipv6(17, 4501), false, false),
            (ipv6(6, 4500), false, false),
            (ipv6(44, 4500), false, false),
        ];
        for (at, (packet, esp, udp)) in cases.iter().enumerate() {
            assert!(accepts(&Filter::Ip.program(), frame(packet)), "case {at}");
            assert_eq!(accepts(&Filter::Esp.program(), frame(packet)), *esp, "case {at}");
            assert_eq!(accepts(&Filter::EspOrUdp(4500).program(), frame(packet)), *esp || *udp, "case {at}");
            let dropped = |filter: Filter| is_dropped(&filter.ingress_program(&[]), frame(packet));
            let all = [Filter::Ip, Filter::Esp, Filter::EspOrUdp(4500)].map(dropped);
            assert_eq!(all, [true, *esp, *esp || *udp], "case {at}");
        }
    }

    #[test]
    fn frames_that_are_not_for_us_never_pass() {
        let packet = ipv4(50, 0, 0, 0);
        for filter in [Filter::Ip, Filter::Esp, Filter::EspOrUdp(4500)] {
            let program = filter.program();
            for kind in 0..8 {
                assert_eq!(accepts(&program, Frame { kind, ..frame(&packet) }), kind < 3, "{filter:?}, type {kind}");
            }
            assert!(!accepts(&program, Frame { vlan: 1, ..frame(&packet) }), "{filter:?}");
            assert!(!accepts(&program, Frame { protocol: 0x0806, ..frame(&packet) }), "{filter:?}");
        }
    }

    #[test]
    fn short_packets_are_rejected_and_programs_are_short() {
        for filter in [Filter::Ip, Filter::Esp, Filter::EspOrUdp(4500)] {
            assert!(filter.program().len() <= PROGRAM_LEN_MAX);
            assert!(filter.ingress_program(&[IpAddr::from([7; 16]); SPARED_MAX]).len() <= PROGRAM_LEN_MAX);
        }
        for packet in [ipv4(17, 0, 0, 4500), ipv6(17, 4500)] {
            // Keep-alives too: a header and one octet.
            for len in 1..packet.len() {
                let program = Filter::EspOrUdp(4500).program();
                assert!(!accepts(&program, frame(&packet[..len])), "{len} octets");
            }
        }
    }

    #[test]
    fn neighbour_discovery_is_the_kernels() {
        for (kind, is_discovery) in
            [(1, false), (128, false), (132, false), (133, true), (135, true), (137, true), (138, false)]
        {
            let mut packet = ipv6(58, 0);
            packet[40] = kind;
            assert_eq!(accepts(&Filter::Ip.program(), frame(&packet)), !is_discovery, "type {kind}");
            assert_eq!(is_dropped(&Filter::Ip.ingress_program(&[]), frame(&packet)), !is_discovery, "type {kind}");
        }
    }

    /// An ICMP error of this type and code about a packet with this protocol and source port.
    fn error(is_v6: bool, kind: [u8; 2], protocol: u8, port: u16) -> Vec<u8> {
        let (mut packet, quoted) = match is_v6 {
            false => (ipv4(1, 8, 0, 0), ipv4(protocol, 0, 0, port.wrapping_sub(1))),
            true => (ipv6(58, 0), ipv6(protocol, port.wrapping_sub(1))),
        };
        packet.truncate(if is_v6 { 40 } else { 28 });
        packet.extend(kind);
        packet.extend([0; 6]);
        packet.extend(quoted);
        packet
    }

    #[test]
    fn errors_about_the_path_come_with_esp_and_stay_with_the_kernel() {
        for (is_v6, kind) in [(false, [3, 4]), (true, [2, 0])] {
            let passes = |filter: Filter, packet: &[u8]| {
                assert!(!is_dropped(&filter.ingress_program(&[]), frame(packet)), "{filter:?}");
                accepts(&filter.program(), frame(packet))
            };
            let both = |packet: &[u8]| [Filter::Esp, Filter::EspOrUdp(4500)].map(|filter| passes(filter, packet));
            assert_eq!(both(&error(is_v6, kind, 50, 0)), [true, true]);
            assert_eq!(both(&error(is_v6, kind, 17, 4500)), [false, true]);
            assert_eq!(both(&error(is_v6, kind, 17, 4501)), [false, false]);
            assert_eq!(both(&error(is_v6, kind, 6, 4500)), [false, false]);
            for other in [[3, 3], [11, 0], [0, 0], [128, 0], [2, 4]] {
                assert_eq!(both(&error(is_v6, other, 50, 0)), [false, false], "{other:?}");
            }
            let whole = error(is_v6, kind, 50, 0);
            let quoted_at = if is_v6 { 48 } else { 36 };
            for len in 1..quoted_at {
                assert_eq!(both(&whole[..len]), [false, false], "{len} octets");
            }
        }
        let mut part = error(false, [3, 4], 50, 0);
        part[7] = 1;
        assert!(!accepts(&Filter::Esp.program(), frame(&part)), "not the first fragment");
    }

    #[test]
    fn messages_of_ike_are_left_to_its_daemon() {
        for mut packet in [ipv4(17, 12, 0, 4500), ipv6(17, 4500)] {
            let data = packet.len() - 4;
            assert!(accepts(&Filter::EspOrUdp(4500).program(), frame(&packet)));
            packet[data..].fill(0);
            assert!(!accepts(&Filter::EspOrUdp(4500).program(), frame(&packet)));
            assert!(!is_dropped(&Filter::EspOrUdp(4500).ingress_program(&[]), frame(&packet)));
        }
    }

    #[test]
    fn the_kernel_keeps_what_goes_to_spared_addresses_and_to_groups() {
        let (mut four, mut six) = (ipv4(50, 0, 0, 0), ipv6(50, 0));
        four[16..20].copy_from_slice(&[10, 0, 0, 2]);
        six[24..40].copy_from_slice(&[9; 16]);
        let mut others = [[9; 16]; 4];
        for (at, other) in others.iter_mut().enumerate() {
            other[4 * at + 3] = 8;
        }
        let [a, b, c, d] = others.map(IpAddr::from);
        let far = [IpAddr::from([10, 0, 0, 3]), a, b, c, d, IpAddr::from([10, 0, 1, 2])];
        let near = [&far[..], &[IpAddr::from([10, 0, 0, 2]), IpAddr::from([9; 16])]].concat();
        assert!(near.len() <= SPARED_MAX);
        for filter in [Filter::Ip, Filter::Esp, Filter::EspOrUdp(4500)] {
            for packet in [&four, &six] {
                assert!(is_dropped(&filter.ingress_program(&far), frame(packet)));
                assert!(!is_dropped(&filter.ingress_program(&near), frame(packet)));
                for kind in 1..8 {
                    assert!(!is_dropped(&filter.ingress_program(&far), Frame { kind, ..frame(packet) }));
                }
            }
        }
    }
}
