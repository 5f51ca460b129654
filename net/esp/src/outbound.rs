//! Packets that leave: policy, size, sequence number, headers and padding (RFC 4301, 5.1; RFC 4303, 3.3).

use core::time::Duration;

use ciphermill_contract::Direction;

use crate::association::{Life, Outbound};
use crate::burst::{Burst, Found, Packet, Place};
use crate::columns::Group;
use crate::counters::Drop;
use crate::fragment;
use crate::icmp::{self, Problem};
use crate::ip::{self, Flow, Header, protocol};
use crate::limits::{ESP_LEN, IPV6_LEN, PACKET_LEN_MAX, UDP_LEN};
use crate::outer::write_udp_checksum;
use crate::policy::Action;
use crate::slots::SaId;
use crate::tunnels::{Event, Tunnels, tell};

/// Associations from which on they are looked for in a pass of its own: what is looked up for one packet then is on its way from memory while others
/// are looked up. With few, everything is in the nearest cache.
const LOOKED_UP_FROM: usize = 64;

/// Bytes that padding is taken from: 1, 2, 3 and so on (RFC 4303, 2.4).
const PADDING: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

impl Tunnels {
    /// Looks at packets that are to leave, and lays out those that are protected. `now` is a clock that never goes back, the same for
    /// associations.
    pub fn begin_outbound(&mut self, burst: &mut Burst, now: Duration) {
        burst.begin(Direction::Encrypt, &self.kinds, now);
        self.look_up(burst);
        // No packet has this flow.
        let mut last = Found { flow: Header::NONE.flow, action: None, id: None };
        let mut at = 0;
        // Fragments come behind the packets that were pushed.
        while at < burst.packets.len() {
            let packet = burst.packets[at];
            self.sent.packets += 1;
            let place = match packet.place {
                Place::Dummy => self.begin_dummy(burst, at, packet),
                _ => self.begin_packet(burst, at, packet, &mut last),
            };
            let place = place.unwrap_or_else(|reason| {
                self.sent.drop(reason);
                Place::Dropped
            });
            burst.packets[at].place = place;
            at += 1;
        }
    }

    /// Finds the associations of a burst's packets, and touches what will be needed of each.
    fn look_up(&self, burst: &mut Burst) {
        burst.found.clear();
        if self.outbound.len() < LOOKED_UP_FROM {
            return;
        }
        let Burst { packets, data, found, .. } = burst;
        let mut header = Header::NONE;
        for packet in packets.iter() {
            let is_packet = header.read(&data[packet.start as usize..packet.end as usize]).is_ok();
            // Of what is no packet nothing is asked.
            let flow = if is_packet { header.flow } else { Header::NONE.flow };
            found.push(Found { flow, action: None, id: None });
        }
        for found in found.iter_mut() {
            *found = self.find(&found.flow);
        }
        let mut touched = 0;
        for found in found.iter() {
            touched ^= found.id.and_then(|id| self.outbound.get(id)).map_or(0, Outbound::touch);
        }
        core::hint::black_box(touched);
    }

    #[inline]
    fn find(&self, flow: &Flow) -> Found {
        let action = self.outbound_policies.find(flow).map(|found| found.action);
        let id = match action {
            Some(Action::Protect(tunnel)) => self.current.get(&tunnel).copied(),
            _ => None,
        };
        Found { flow: *flow, action, id }
    }

    fn begin_packet(&mut self, burst: &mut Burst, at: usize, packet: Packet, last: &mut Found) -> Result<Place, Drop> {
        let data = &mut burst.data[packet.start as usize..packet.end as usize];
        let mut header = Header::NONE;
        header.read(data).map_err(|_| Drop::Malformed)?;
        // What lies behind the packet is a link's padding.
        let len = header.total_len;
        burst.packets[at].end = packet.start + len as u32;
        let packet = burst.packets[at];
        // Parts show no ports, and policies would not know them again.
        let decided = if packet.place == Place::Part {
            Some(packet.id)
        } else {
            let (action, id) = match burst.found.get(at) {
                Some(found) if found.flow == header.flow => (found.action, found.id),
                _ => {
                    if last.flow != header.flow {
                        *last = self.find(&header.flow);
                    }
                    (last.action, last.id)
                }
            };
            self.decide(&header.flow, action, id)?
        };
        let id = match decided {
            Some(id) => id,
            None => {
                self.sent.bypassed += 1;
                return Ok(Place::Bypass);
            }
        };
        let Some(one) = self.outbound.get(id) else { return Err(Drop::NoAssociation) };
        if len > usize::from(one.inner_max) {
            let inner_max = one.inner_max;
            return self.too_big(burst, Packet { id, ..packet }, inner_max);
        }
        if !ip::hop(data) {
            self.answer(burst, packet, Problem::TimeExceeded);
            return Err(Drop::TimeToLive);
        }
        let next_header = if header.flow.version() == 4 { protocol::IPV4 } else { protocol::IPV6 };
        self.seal(burst, at, Sealed { id, start: packet.start as usize, len, next_header })
    }

    fn begin_dummy(&mut self, burst: &mut Burst, at: usize, packet: Packet) -> Result<Place, Drop> {
        let len = (packet.end - packet.start) as usize;
        let one = self.outbound.get(packet.id).ok_or(Drop::Gone)?;
        if len > usize::from(one.inner_max) {
            return Err(Drop::TooBig);
        }
        let sealed = Sealed { id: packet.id, start: packet.start as usize, len, next_header: protocol::NONE };
        let place = self.seal(burst, at, sealed)?;
        self.sent.dummies += 1;
        Ok(place)
    }

    /// The association that policy wants a packet protected by; none where it passes as it is.
    #[inline]
    fn decide(&mut self, flow: &Flow, action: Option<Action>, id: Option<SaId>) -> Result<Option<SaId>, Drop> {
        match (action, id) {
            (Some(Action::Protect(_)), Some(id)) => Ok(Some(id)),
            (Some(Action::Protect(tunnel)), None) => {
                tell(&mut self.events, &mut self.sent, Event::Acquire { tunnel, flow: *flow });
                Err(Drop::NoAssociation)
            }
            (Some(Action::Bypass), _) => Ok(None),
            (Some(Action::Discard) | None, _) => Err(Drop::Policy),
        }
    }

    /// A packet that does not fit: in pieces, or its sender is told.
    #[cold]
    fn too_big(&mut self, burst: &mut Burst, packet: Packet, inner_max: u16) -> Result<Place, Drop> {
        let (start, end) = (packet.start as usize, packet.end as usize);
        if ip::forbids_fragments(&burst.data[start..end]) {
            self.answer(burst, packet, Problem::TooBig(inner_max));
            return Err(Drop::TooBig);
        }
        let whole = burst.data[start..end].to_vec();
        let before = burst.packets.len();
        if !fragment::cut(&whole, usize::from(inner_max), |part| burst.push_part(packet.id, part)) {
            // Without all of them the others are of no use.
            burst.packets.truncate(before);
            return Err(Drop::NoRoom);
        }
        self.sent.fragments += (burst.packets.len() - before) as u64;
        // Counted by its fragments.
        self.sent.packets -= 1;
        Ok(Place::Dropped)
    }

    /// An ICMP error to a packet's sender.
    #[cold]
    pub(crate) fn answer(&mut self, burst: &mut Burst, packet: Packet, problem: Problem) {
        let data = &burst.data[packet.start as usize..packet.end as usize];
        let is_v4 = data.first().is_some_and(|first| first >> 4 == 4);
        let own = self.own.iter().find(|own| own.is_ipv4() == is_v4).copied();
        let start = burst.answers.len();
        let is_sent = own
            .is_some_and(|own| self.limiter.allows(burst.now) && icmp::append(&mut burst.answers, data, own, problem));
        if is_sent {
            self.limiter.take();
            burst.answer_spans.push([start as u32, burst.answers.len() as u32]);
            self.sent.icmp_sent += 1;
        } else {
            self.sent.icmp_withheld += 1;
        }
    }

    /// Gives a packet its number, trailer and headers, and its place in the columns.
    #[inline]
    fn seal(&mut self, burst: &mut Burst, at: usize, sealed: Sealed) -> Result<Place, Drop> {
        let Some(one) = self.outbound.get_mut(sealed.id) else { return Err(Drop::Gone) };
        if one.last >= one.last_max {
            // RFC 4303, 3.3.3: numbers never come again.
            tell(&mut self.events, &mut self.sent, Event::Over(sealed.id));
            return Err(Drop::SequenceOverflow);
        }
        let (icv_len, alignment) = (usize::from(one.common.icv_len), usize::from(one.common.alignment));
        if one.shown_len(sealed.len) - sealed.len + alignment + 1 + icv_len > burst.tail_room() {
            // The burst was made for associations that pad less; what lies behind is another packet's.
            return Err(Drop::NoRoom);
        }
        match one.common.meter.take(sealed.len, burst.now) {
            Life::Good => {}
            Life::Ending => tell(&mut self.events, &mut self.sent, Event::Ending(sealed.id)),
            Life::Over => {
                tell(&mut self.events, &mut self.sent, Event::Over(sealed.id));
                return Err(Drop::Expired);
            }
            Life::Past => return Err(Drop::Expired),
        }
        let group = &mut burst.groups[usize::from(one.common.group)];
        let laid = one.lay_out(&mut burst.data, &sealed, group);
        let packet = &mut burst.packets[at];
        (packet.start, packet.end, packet.esp, packet.id) = (laid.start, laid.end, laid.esp, sealed.id);
        packet.inner_len = sealed.len as u16;
        Ok(Place::column(one.common.group, laid.index))
    }

    /// Says which packets leave, and counts.
    pub fn commit_outbound(&mut self, burst: &mut Burst) {
        let (mut done, mut bytes) = (0, 0);
        for packet in &burst.packets {
            let (group, index) = match packet.place {
                Place::Column(place) => place.parts(),
                Place::Bypass => {
                    burst.leaving.push([packet.start, packet.end]);
                    continue;
                }
                _ => continue,
            };
            if !burst.groups[group].status(index).is_done() {
                let reason = if self.outbound.get(packet.id).is_some() { Drop::Engine } else { Drop::Gone };
                self.sent.drop(reason);
                continue;
            }
            if (packet.esp - packet.start) as usize == IPV6_LEN + UDP_LEN {
                write_udp_checksum(&mut burst.data[packet.start as usize..packet.end as usize]);
            }
            done += 1;
            bytes += u64::from(packet.inner_len);
            burst.leaving.push([packet.start, packet.end]);
        }
        self.sent.done += done;
        self.sent.bytes += bytes;
    }
}

/// An inner packet on its way into a tunnel.
struct Sealed {
    id: SaId,
    start: usize,
    len: usize,
    next_header: u8,
}

/// Where it lies then.
struct Laid {
    start: u32,
    end: u32,
    esp: u32,
    index: u32,
}

impl Outbound {
    /// Reads a word of each line of the cache that a packet needs.
    #[inline(always)]
    fn touch(&self) -> u64 {
        let common = &self.common;
        self.last ^ u64::from(self.inner_max) ^ self.outer.touch() ^ u64::from(common.icv_len) ^ common.meter.touch()
    }

    /// How long an inner packet of so many bytes is made to look. RFC 4303, 2.7: padding against traffic analysis lies behind the inner
    /// packet, whose own length tells where that ends.
    #[inline]
    fn shown_len(&self, len: usize) -> usize {
        len.max(usize::from(self.pad_to.min(self.inner_max)))
    }

    /// Writes what stands around an inner packet.
    #[inline]
    fn lay_out(&mut self, data: &mut [u8], sealed: &Sealed, group: &mut Group) -> Laid {
        let Sealed { start, len, next_header, .. } = *sealed;
        self.last += 1;
        let number = self.last;
        let common = &self.common;
        let (iv_len, icv_len) = (usize::from(common.iv_len), usize::from(common.icv_len));
        let shown = self.shown_len(len);
        // The alignment is a power of two.
        let padding = (shown + 2).wrapping_neg() & (usize::from(common.alignment) - 1);
        let trailer = start + shown + padding;
        if shown > len {
            data[start + len..start + shown].fill(0);
        }
        data[start + shown..start + shown + PADDING.len()].copy_from_slice(&PADDING);
        data[trailer] = padding as u8;
        data[trailer + 1] = next_header;
        let end = trailer + 2 + icv_len;
        let esp = start - iv_len - ESP_LEN;
        let outer = esp - self.outer.len();
        // A dummy packet has no header to copy from.
        let (class, forbids) = match next_header {
            protocol::NONE => (0, true),
            _ => (ip::traffic_class(&data[start..]), ip::forbids_fragments(&data[start..])),
        };
        self.outer.write(&mut data[outer..end], class, forbids);
        let spi = self.common.spi;
        let low = (number as u32).to_be_bytes();
        data[esp..esp + 4].copy_from_slice(&spi);
        data[esp + 4..esp + 8].copy_from_slice(&low);
        let common = &self.common;
        let nonce = if common.kind.draws_ivs() || iv_len == 0 {
            0
        } else {
            // RFC 4106, 3.1: the number is a nonce that does not come again.
            let iv = number.to_be_bytes();
            data[esp + 8..esp + 16].copy_from_slice(&iv);
            nonce_of(*common.salt, common.salt_len, iv)
        };
        let head = head_of(spi, number, common.kind.is_extended);
        let span = [(esp + common.kind.lead()) as u32, end as u32];
        let index = group.push(span, common.keys, nonce, head);
        Laid { start: outer as u32, end: end as u32, esp: esp as u32, index }
    }
}

/// Salt and IV: twelve bytes, of which CCM has eleven, the first one lowest. In a register: bytes that are stored and then loaded in other pieces
/// wait for each other.
#[inline(always)]
pub(crate) fn nonce_of(salt: [u8; 4], salt_len: u8, iv: [u8; 8]) -> u128 {
    let (salt, iv) = (u128::from(u32::from_le_bytes(salt)), u128::from(u64::from_le_bytes(iv)));
    if salt_len == 4 { salt | iv << 32 } else { salt & 0xff_ffff | iv << 24 }
}

/// What is authenticated of a packet's head: SPI and the whole number (RFC 4106, 5); of a short number four bytes.
#[inline(always)]
pub(crate) fn head_of(spi: [u8; 4], number: u64, is_extended: bool) -> u128 {
    let number = if is_extended { number.swap_bytes() } else { u64::from((number as u32).swap_bytes()) };
    u128::from(u32::from_le_bytes(spi)) | u128::from(number) << 32
}

const _: () = assert!(PACKET_LEN_MAX <= u16::MAX as usize);
