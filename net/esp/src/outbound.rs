//! Packets that leave: policy, size, sequence number, headers and padding (RFC 4301, 5.1; RFC 4303, 3.3).

use core::time::Duration;

use ciphermill_contract::Direction;

use crate::association::{Life, Outbound, Shape};
use crate::burst::{Burst, Fate, Found, Packet, Place};
use crate::columns::Group;
use crate::counters::Drop;
use crate::fragment;
use crate::icmp::{self, Problem};
use crate::ip::{self, Flow, Header, protocol};
use crate::limits::{ESP_LEN, IPV6_LEN, PACKET_LEN_MAX, UDP_LEN};
use crate::outer::write_udp_checksum;
use crate::policy::{Action, Decision, Verdict};
use crate::slots::SaId;
use crate::tunnels::{Tunnels, goes_on};

/// Associations from which on they are looked for ahead of their packets: what is looked up for one packet then is on its way from memory while
/// others are worked on. With few, everything is in the nearest cache.
pub(crate) const LOOKED_UP_FROM: usize = 64;

/// Packets that are looked ahead for at once.
pub(crate) const STRIDE: usize = 16;

/// Bytes that padding is taken from: 1, 2, 3 and so on (RFC 4303, 2.4).
pub(crate) const PADDING: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

impl Tunnels {
    /// Looks at packets that are to leave, and gives numbers to those that are protected. `now` is a clock that never goes back, the same for
    /// associations.
    pub fn begin_outbound(&mut self, burst: &mut Burst, now: Duration) {
        burst.begin(Direction::Encrypt, &self.kinds, now);
        burst.found.clear();
        if burst.is_laid_out_later { self.begin_all::<true>(burst) } else { self.begin_all::<false>(burst) }
    }

    /// `LATER`: packets are laid out when the burst is run, while others have the lock.
    fn begin_all<const LATER: bool>(&mut self, burst: &mut Burst) {
        let mut last = Last::NONE;
        let is_many = self.outbound.len() >= LOOKED_UP_FROM;
        let mut ahead = Ahead { packets: burst.packets.len(), done: [0; 2], last: Last::NONE };
        let mut at = 0;
        // Fragments come behind the packets that were pushed.
        while at < burst.packets.len() {
            if is_many && at % STRIDE == 0 && at < ahead.packets {
                self.look_ahead(burst, &mut ahead, at);
            }
            let packet = burst.packets[at];
            self.sent.packets += 1;
            let place = match packet.place.fate() {
                Fate::Dummy => self.begin_dummy::<LATER>(burst, at, packet),
                Fate::Part => {
                    // Parts show no ports, and policies would not know them again.
                    let len = (packet.end - packet.start) as usize;
                    self.begin_packet::<LATER>(
                        burst,
                        at,
                        Found { verdict: Verdict::of(Action::Protect(0)), id: Some(packet.id), len },
                    )
                }
                _ => {
                    let found = burst.found.get(at).copied();
                    let found = found.unwrap_or_else(|| self.find(packet.octets(&burst.data), &mut last));
                    self.begin_packet::<LATER>(burst, at, found)
                }
            };
            let place = place.unwrap_or_else(|reason| {
                self.sent.drop(reason);
                Place::DROPPED
            });
            burst.packets[at].place = place;
            at += 1;
        }
    }

    /// Finds the associations of the packets that come next, and fetches what will be needed of each: every step reads what the step before has
    /// fetched, one [`STRIDE`] of packets later.
    fn look_ahead(&self, burst: &mut Burst, ahead: &mut Ahead, at: usize) {
        let Burst { packets, data, found, .. } = burst;
        let upto = |strides: usize| (at + strides * STRIDE).min(ahead.packets);
        let [policies, decided] = [upto(2), upto(1)];
        for packet in &packets[ahead.done[0]..policies] {
            self.outbound_policies.fetch(packet.octets(data));
        }
        for packet in &packets[ahead.done[1]..decided] {
            let decision = self.find(packet.octets(data), &mut ahead.last);
            if let Some(id) = decision.id {
                self.outbound.fetch(id);
            }
            found.push(decision);
        }
        ahead.done = [policies, decided];
    }

    /// What policy says of a packet, and by which association it leaves; of the next one mostly the same.
    #[inline(always)]
    fn find(&self, data: &[u8], last: &mut Last) -> Found {
        if let Some((addresses, len)) = ip::v4_ends(data) {
            if last.addresses == Some(addresses) {
                return Found { len, ..last.found };
            }
            if let Ok(decision) = self.outbound_policies.find_by_addresses(addresses) {
                let found = self.found(decision, len);
                (last.addresses, last.found) = (Some(addresses), found);
                return found;
            }
        }
        self.find_by_flow(data, &mut last.by_flow)
    }

    /// The same where policies ask for more than addresses, and of version 6.
    #[inline(never)]
    fn find_by_flow(&self, data: &[u8], last: &mut (Flow, Found)) -> Found {
        let mut header = Header::NONE;
        if header.read(data).is_err() {
            return Found { len: 0, ..last.1 };
        }
        if last.0.is_same(&header.flow) {
            return Found { len: header.total_len, ..last.1 };
        }
        let found = self.found(self.outbound_policies.find(&header.flow), header.total_len);
        *last = (header.flow, found);
        found
    }

    #[inline(always)]
    fn found(&self, decision: Option<&Decision>, len: usize) -> Found {
        match decision {
            Some(decision) => {
                let id = decision.led_by.get().or_else(|| self.lead(decision));
                Found { verdict: decision.verdict, id, len }
            }
            None => Found { len, ..Found::NOTHING },
        }
    }

    /// Has a policy know the association that its tunnel's packets leave by, if there is one.
    #[cold]
    fn lead(&self, decision: &Decision) -> Option<SaId> {
        let id = self.current.get(&decision.verdict.tunnel()?).copied();
        decision.led_by.set(id);
        id
    }

    fn begin_packet<const LATER: bool>(&mut self, burst: &mut Burst, at: usize, found: Found) -> Result<Place, Drop> {
        if found.len == 0 {
            return Err(Drop::Malformed);
        }
        // What lies behind the packet is a link's padding.
        let packet = &mut burst.packets[at];
        packet.end = packet.start + found.len as u32;
        let packet = *packet;
        let leading = found.id.filter(|id| self.outbound.get(*id).is_some_and(|one| one.leads));
        let id = match leading {
            Some(id) => id,
            None => match self.decide(packet.octets(&burst.data), &found, burst.now)? {
                Some(id) => id,
                None => {
                    self.sent.bypassed += 1;
                    return Ok(Place::BYPASS);
                }
            },
        };
        let Some(one) = self.outbound.get_mut(id) else { return Err(Drop::NoAssociation) };
        if found.len > usize::from(one.inner_max) {
            let inner_max = one.inner_max;
            return self.too_big(burst, Packet { id, ..packet }, inner_max);
        }
        let data = &mut burst.data[packet.start as usize..packet.end as usize];
        if !ip::hop(data) {
            self.answer(burst, packet, Problem::TimeExceeded);
            return Err(Drop::TimeToLive);
        }
        let next_header = if data[0] >> 4 == 4 { protocol::IPV4 } else { protocol::IPV6 };
        let (place, life) = one.number::<LATER>(burst, at, id, next_header)?;
        goes_on(id, life, &mut self.events, &mut self.sent)?;
        Ok(place)
    }

    fn begin_dummy<const LATER: bool>(&mut self, burst: &mut Burst, at: usize, packet: Packet) -> Result<Place, Drop> {
        let one = self.outbound.get_mut(packet.id).ok_or(Drop::Gone)?;
        if packet.end - packet.start > u32::from(one.inner_max) {
            return Err(Drop::TooBig);
        }
        let (place, life) = one.number::<LATER>(burst, at, packet.id, protocol::NONE)?;
        goes_on(packet.id, life, &mut self.events, &mut self.sent)?;
        self.sent.dummies += 1;
        Ok(place)
    }

    /// The association that policy wants a packet protected by, of which it did not know one that leads; none where the packet passes as it is.
    #[inline(never)]
    fn decide(&mut self, data: &[u8], found: &Found, now: Duration) -> Result<Option<SaId>, Drop> {
        match found.verdict.action() {
            Some(Action::Protect(tunnel)) => {
                let header = Header::of(data).map_err(|_| Drop::Malformed)?;
                let decision = self.outbound_policies.find(&header.flow);
                if let Some(id) = decision.and_then(|decision| self.lead(decision)) {
                    return Ok(Some(id));
                }
                self.ask(tunnel, header.flow, now);
                Err(Drop::NoAssociation)
            }
            Some(Action::Bypass) => Ok(None),
            Some(Action::Discard) | None => Err(Drop::Policy),
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
        Ok(Place::DROPPED)
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

    /// Says which packets leave, and counts.
    pub fn commit_outbound(&mut self, burst: &mut Burst) {
        let (mut done, mut bytes) = (0, 0);
        for packet in &burst.packets {
            let (group, index) = match packet.place.fate() {
                Fate::Column(group, index) => (group, index),
                Fate::Bypass => {
                    burst.leaving.push([packet.start, packet.end]);
                    continue;
                }
                // The burst was not run.
                Fate::Numbered(_) => {
                    self.sent.drop(Drop::Engine);
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

/// How far it was looked ahead in a burst.
struct Ahead {
    /// Those that were pushed.
    packets: usize,
    /// For how many of them each step is done.
    done: [usize; 2],
    last: Last,
}

/// What was found for the packets before.
struct Last {
    /// The addresses of the last one of which no more was asked.
    addresses: Option<u64>,
    found: Found,
    /// The last one that was found by more, and what.
    by_flow: (Flow, Found),
}

impl Last {
    /// There were none.
    const NONE: Last = Last { addresses: None, found: Found::NOTHING, by_flow: (Header::NONE.flow, Found::NOTHING) };
}

impl Outbound {
    /// Gives a packet its number, unless the association's life is over, and lays it out if that is not left for later.
    #[inline(always)]
    fn number<const LATER: bool>(
        &mut self,
        burst: &mut Burst,
        at: usize,
        id: SaId,
        next_header: u8,
    ) -> Result<(Place, Life), Drop> {
        if self.last >= self.last_max() {
            return Ok((Place::DROPPED, Life::UsedUp));
        }
        let packet = &burst.packets[at];
        let len = (packet.end - packet.start) as usize;
        // RFC 4303, 2.7: padding against traffic analysis lies behind the inner packet, whose own length tells where that ends.
        let shown_len = len.max(usize::from(self.pad_to.min(self.inner_max)));
        if shown_len - len + usize::from(self.tail_max) > burst.tail_room() {
            // The burst was made for associations that pad less; what lies behind is another packet's.
            return Err(Drop::NoRoom);
        }
        let life = self.meter.take(len, burst.now_ns);
        if !matches!(life, Life::Good | Life::Ending) {
            return Ok((Place::DROPPED, life));
        }
        self.last += 1;
        burst.count_run(id);
        let shape = if LATER { burst.keep_shape(id, &self.shape) } else { 0 };
        let packet = &mut burst.packets[at];
        (packet.id, packet.number, packet.shape) = (id, self.last, shape);
        (packet.inner_len, packet.shown_len) = (len as u16, shown_len as u16);
        if LATER {
            return Ok((Place::numbered(next_header), life));
        }
        let group = &mut burst.groups[usize::from(self.shape.group)];
        group.push_keys(self.shape.keys, 1);
        let place = self.shape.lay_out(packet, next_header, &mut burst.data, group);
        Ok((place, life))
    }
}

impl Burst {
    /// Writes what stands around the packets that have their numbers, and gives them their places in the columns.
    pub(crate) fn lay_out(&mut self) {
        let Burst { packets, data, groups, shapes, .. } = self;
        let (mut rest, mut number) = (packets.as_mut_slice(), 0);
        for (_, shape) in shapes.iter() {
            let count = shape.lay_out_all(rest, number, data, &mut groups[usize::from(shape.group)]);
            (rest, number) = (&mut rest[count..], number + 1);
        }
        shapes.clear();
    }
}

impl Shape {
    /// Lays the first packets out, as many as have this shape's number; says behind how many others begin.
    // By itself, since the compiler knows of arguments that they do not overlap.
    #[inline(never)]
    fn lay_out_all(&self, packets: &mut [Packet], shape: u32, data: &mut [u8], group: &mut Group) -> usize {
        let (mut count, mut keys) = (0, 0);
        for packet in packets {
            if let Fate::Numbered(next_header) = packet.place.fate() {
                if packet.shape != shape {
                    break;
                }
                packet.place = self.lay_out(packet, next_header, data, group);
                keys += 1;
            }
            count += 1;
        }
        group.push_keys(self.keys, keys);
        count
    }

    /// Writes what stands around an inner packet, and gives it its place in the columns; whoever calls tells those the keys.
    #[inline(always)]
    fn lay_out(&self, packet: &mut Packet, next_header: u8, data: &mut [u8], group: &mut Group) -> Place {
        let (start, len) = (packet.start as usize, usize::from(packet.inner_len));
        let (shown, number) = (usize::from(packet.shown_len), packet.number);
        let (iv_len, icv_len) = (usize::from(self.iv_len), usize::from(self.icv_len));
        // The alignment is a power of two.
        let padding = (shown + 2).wrapping_neg() & (usize::from(self.alignment) - 1);
        let trailer = start + shown + padding;
        if shown > len {
            data[start + len..start + shown].fill(0);
        }
        data[start + shown..start + shown + PADDING.len()].copy_from_slice(&PADDING);
        data[trailer..trailer + 2].copy_from_slice(&[padding as u8, next_header]);
        let end = trailer + 2 + icv_len;
        let esp = start - iv_len - ESP_LEN;
        let outer = esp - self.outer.len();
        // A dummy packet has no header to copy from.
        let (class, forbids) = match next_header {
            protocol::NONE => (0, true),
            _ => (ip::traffic_class(&data[start..]), ip::forbids_fragments(&data[start..])),
        };
        self.outer.write(&mut data[outer..end], class, forbids, number as u32);
        let head = u64::from(u32::from_le_bytes(self.spi)) | u64::from((number as u32).swap_bytes()) << 32;
        data[esp..esp + ESP_LEN].copy_from_slice(&head.to_le_bytes());
        let nonce = if self.counts_ivs {
            // RFC 4106, 3.1: the number is a nonce that does not come again.
            let iv = number.to_be_bytes();
            data[esp + 8..esp + 16].copy_from_slice(&iv);
            nonce_of(*self.salt, self.salt_len, iv)
        } else {
            0
        };
        let head = head_of(self.spi, number, self.is_extended);
        let span = [(esp + usize::from(self.lead)) as u32, end as u32];
        let index = group.push_packet(span, nonce, head);
        (packet.start, packet.end, packet.esp) = (outer as u32, end as u32, esp as u32);
        Place::column(self.group, index)
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
