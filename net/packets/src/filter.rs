//! Which packets of an interface a ring gets: programs of the classic BPF, made from a few wishes.
//!
//! The kernel runs them on each packet before it takes room in the ring. A packet lies before them from its IP header on; what the kernel
//! knows of the frame besides is read at negative offsets (`linux/filter.h`, `SKF_AD_OFF`).

use crate::ip::{ESP, UDP};

/// Which packets a ring gets. Frames with a VLAN tag, frames to other stations and what this host sends are left out in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// IPv4 and IPv6.
    Ip,
    /// ESP by itself (RFC 4303): IP protocol 50, as the first header of an IPv6 packet.
    Esp,
    /// ESP by itself or in UDP to this port (RFC 3948). IKE's messages on the same port pass too; they begin with four zero octets. Of
    /// a datagram in fragments only the first one has a port, and passes.
    EspOrUdp(u16),
}

/// One instruction as the kernel has it (`struct sock_filter`).
pub(crate) type Instruction = libc::sock_filter;

/// Instructions of the longest program.
pub(crate) const PROGRAM_LEN_MAX: usize = 32;

const ETHERTYPE_IPV4: u32 = 0x0800;
const ETHERTYPE_IPV6: u32 = 0x86dd;
/// Packet types from here on are those to other stations and those of this host (`linux/if_packet.h`).
const PACKET_OTHERHOST: u32 = 3;
/// Where a program reads what the kernel knows of a frame.
const AD_OFF: u32 = libc::SKF_AD_OFF as u32;

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const LOAD_HEADER_LEN: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Where a test leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    Accept,
    Reject,
    Ipv6,
}

/// A step of a program whose targets have names.
#[derive(Clone, Copy)]
enum Step {
    Load(u32, u32),
    Test(u32, u32, To, To),
    /// Where [`To::Ipv6`] leads.
    Ipv6,
}

impl Filter {
    /// The program.
    pub(crate) fn program(self) -> Vec<Instruction> {
        use Step::{Ipv6, Load, Test};
        use To::{Accept, Next, Reject};
        let mut steps = vec![
            Load(LOAD_WORD, AD_OFF.wrapping_add(libc::SKF_AD_PKTTYPE as u32)),
            Test(IF_AT_LEAST, PACKET_OTHERHOST, Reject, Next),
            Load(LOAD_WORD, AD_OFF.wrapping_add(libc::SKF_AD_VLAN_TAG_PRESENT as u32)),
            Test(IF_EQUAL, 0, Next, Reject),
            Load(LOAD_WORD, AD_OFF.wrapping_add(libc::SKF_AD_PROTOCOL as u32)),
        ];
        let port = match self {
            Filter::Ip => {
                steps.extend([
                    Test(IF_EQUAL, ETHERTYPE_IPV4, Accept, Next),
                    Test(IF_EQUAL, ETHERTYPE_IPV6, Accept, Reject),
                ]);
                return assemble(&steps);
            }
            Filter::Esp => None,
            Filter::EspOrUdp(port) => Some(u32::from(port)),
        };
        steps.extend([
            Test(IF_EQUAL, ETHERTYPE_IPV6, To::Ipv6, Next),
            Test(IF_EQUAL, ETHERTYPE_IPV4, Next, Reject),
            // IPv4's protocol (RFC 791, section 3.1).
            Load(LOAD_BYTE, 9),
            Test(IF_EQUAL, ESP.into(), Accept, if port.is_some() { Next } else { Reject }),
        ]);
        if let Some(port) = port {
            steps.extend([
                Test(IF_EQUAL, UDP.into(), Next, Reject),
                Load(LOAD_HALF, 6),
                Test(IF_ANY_BIT, 0x1fff, Reject, Next),
                Load(LOAD_HEADER_LEN, 0),
                Load(LOAD_HALF_BEHIND, 2),
                Test(IF_EQUAL, port, Accept, Reject),
            ]);
        }
        // IPv6's next header (RFC 8200, section 3).
        steps.extend([
            Ipv6,
            Load(LOAD_BYTE, 6),
            Test(IF_EQUAL, ESP.into(), Accept, if port.is_some() { Next } else { Reject }),
        ]);
        if let Some(port) = port {
            steps.extend([
                Test(IF_EQUAL, UDP.into(), Next, Reject),
                Load(LOAD_HALF, 42),
                Test(IF_EQUAL, port, Accept, Reject),
            ]);
        }
        assemble(&steps)
    }
}

/// Steps as instructions, with the two endings behind them.
fn assemble(steps: &[Step]) -> Vec<Instruction> {
    let lines = steps.iter().filter(|step| !matches!(step, Step::Ipv6)).count();
    let ipv6 = steps.iter().take_while(|step| !matches!(step, Step::Ipv6)).count();
    let mut program = Vec::with_capacity(lines + 2);
    for step in steps {
        let here = program.len();
        // Jumps are relative to the next instruction; programs are far shorter than the 255 that a jump can say.
        let jump = |to: To| {
            let target = match to {
                To::Next => here + 1,
                To::Accept => lines,
                To::Reject => lines + 1,
                To::Ipv6 => ipv6,
            };
            (target - here - 1) as u8
        };
        match *step {
            Step::Load(code, k) => program.push(Instruction { code: code as u16, jt: 0, jf: 0, k }),
            Step::Test(code, k, yes, no) => {
                program.push(Instruction { code: code as u16, jt: jump(yes), jf: jump(no), k });
            }
            Step::Ipv6 => {}
        }
    }
    program.push(Instruction { code: RETURN as u16, jt: 0, jf: 0, k: u32::MAX });
    program.push(Instruction { code: RETURN as u16, jt: 0, jf: 0, k: 0 });
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
        let read = |at: u32, len: usize| -> Option<u32> {
            match at.wrapping_sub(AD_OFF) {
                0 => return Some(frame.protocol),
                4 => return Some(frame.kind),
                48 => return Some(frame.vlan),
                _ => {}
            }
            let octets = frame.packet.get(at as usize..at as usize + len)?;
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
                LOAD_HALF_BEHIND => read(line.k + x, 2),
                LOAD_HEADER_LEN => {
                    let Some(octet) = read(line.k, 1) else { return false };
                    x = (octet & 0x0f) * 4;
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
                RETURN => return line.k != 0,
                code => panic!("instruction {code:#x} is not known"),
            };
            let Some(value) = loaded else { return false };
            a = value;
        }
    }

    fn ipv4(protocol: u8, options: usize, fragment: u16, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x45 + (options / 4) as u8;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet.extend(port.wrapping_add(1).to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend([0; 12]);
        packet
    }

    fn ipv6(next: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = next;
        packet.extend(port.wrapping_add(1).to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend([0; 12]);
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
        }
        for packet in [ipv4(17, 0, 0, 4500), ipv6(17, 4500)] {
            let header_len = if packet[0] == 0x45 { 20 } else { 40 };
            for len in 1..header_len + 4 {
                let program = Filter::EspOrUdp(4500).program();
                assert!(!accepts(&program, frame(&packet[..len])), "{len} octets");
            }
        }
    }
}
