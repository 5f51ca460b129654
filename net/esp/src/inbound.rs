//! Packets that come: their association, the replay window, and what was within them (RFC 4301, 5.2; RFC 4303, 3.4).

use core::time::Duration;

use ciphermill_contract::Direction;

use crate::association::Inbound;
use crate::burst::{Burst, Fate, Packet, Place};
use crate::counters::Drop;
use crate::icmp::Problem;
use crate::ip::{self, Header, protocol};
use crate::limits::{ESP_LEN, IPV4_LEN, IPV6_LEN, UDP_LEN};
use crate::outbound::{LOOKED_UP_FROM, PADDING, STRIDE, head_of, nonce_of};
use crate::outer::decapsulated;
use crate::path::TooBig;
use crate::policy::{Action, Policies};
use crate::replay::Verdict;
use crate::tunnels::{Event, Tunnels, goes_on, tell};

/// What came in a packet.
enum Came {
    /// An ESP packet, from this offset on.
    Esp(usize),
    /// What is no ESP: IKE, keep-alives of a NAT.
    Other,
    /// Anything else, which may pass if policy says so.
    Clear,
}

impl Tunnels {
    /// Looks at packets that came from outside, and lays out those that are ESP. `now` as in [`Tunnels::begin_outbound`].
    pub fn begin_inbound(&mut self, burst: &mut Burst, now: Duration) {
        burst.begin(Direction::Decrypt, &self.kinds, now);
        let is_many = self.inbound.len() >= LOOKED_UP_FROM;
        let mut ahead = [0; 2];
        for at in 0..burst.packets.len() {
            if is_many && at % STRIDE == 0 {
                self.look_ahead_inbound(burst, &mut ahead, at);
            }
            self.received.packets += 1;
            let place = self.begin_one(burst, at).unwrap_or_else(|reason| {
                self.received.drop(reason);
                Place::DROPPED
            });
            burst.packets[at].place = place;
        }
    }

    /// Fetches the associations of the packets that come next, one [`STRIDE`] after the places of their names; `ahead` says for how many packets
    /// each of both is done.
    fn look_ahead_inbound(&self, burst: &Burst, ahead: &mut [usize; 2], at: usize) {
        let Burst { packets, data, .. } = burst;
        let upto = |strides: usize| (at + strides * STRIDE).min(packets.len());
        let [named, fetched] = [upto(2), upto(1)];
        for packet in &packets[ahead[0]..named] {
            if let Some(spi) = likely_spi(packet.octets(data)) {
                self.by_spi.fetch(spi);
            }
        }
        for packet in &packets[ahead[1]..fetched] {
            if let Some(id) = likely_spi(packet.octets(data)).and_then(|spi| self.inbound_of(spi)) {
                self.inbound.fetch(id);
            }
        }
        *ahead = [named, fetched];
    }

    fn begin_one(&mut self, burst: &mut Burst, at: usize) -> Result<Place, Drop> {
        let packet = burst.packets[at];
        let start = packet.start as usize;
        let data = &burst.data[start..packet.end as usize];
        let mut header = Header::NONE;
        header.read(data).map_err(|_| Drop::Malformed)?;
        let end = packet.start + header.total_len as u32;
        burst.packets[at].end = end;
        let esp_at = match self.came(data, &header)? {
            Came::Esp(esp_at) => esp_at,
            Came::Other => {
                self.received.not_esp += 1;
                return Ok(Place::DROPPED);
            }
            Came::Clear => {
                let is_icmp = matches!(header.flow.protocol(), protocol::ICMP | protocol::ICMP_V6);
                if is_icmp && self.hears_of_path(data, &header, burst.now) {
                    self.received.icmp_heard += 1;
                    return Ok(Place::DROPPED);
                }
                if self.inbound_policies.action(&header.flow) != Some(Action::Bypass) {
                    return Err(Drop::Policy);
                }
                self.received.bypassed += 1;
                return Ok(Place::BYPASS);
            }
        };
        let Some(esp) = data[esp_at..header.total_len].first_chunk::<ESP_LEN>() else { return Err(Drop::Malformed) };
        let [s0, s1, s2, s3, n0, n1, n2, n3] = *esp;
        let (spi, low) = ([s0, s1, s2, s3], u32::from_be_bytes([n0, n1, n2, n3]));
        let id = self.inbound_of(u32::from_be_bytes(spi)).ok_or(Drop::UnknownSpi)?;
        let one = self.inbound.get(id).ok_or(Drop::UnknownSpi)?;
        let (iv_len, icv_len) = (usize::from(one.common.iv_len), usize::from(one.common.icv_len));
        let esp_at = start + esp_at;
        let sealed_len = (end as usize).checked_sub(esp_at + ESP_LEN + iv_len + icv_len).ok_or(Drop::Malformed)?;
        if sealed_len < 2 || sealed_len & (usize::from(one.common.alignment) - 1) != 0 {
            return Err(Drop::Malformed);
        }
        let number = one.number_of(low)?;
        let common = &one.common;
        let nonce = match data.get(esp_at - start + ESP_LEN..).and_then(|behind| behind.first_chunk::<8>()) {
            Some(iv) if iv_len == 8 => nonce_of(*common.salt, common.salt_len, *iv),
            _ => 0,
        };
        let head = head_of(spi, number, common.kind.is_extended);
        let span = [(esp_at + common.kind.lead()) as u32, end];
        let (group, keys) = (common.group, common.keys);
        let index = burst.groups[usize::from(group)].push(span, keys, nonce, head);
        let packet = &mut burst.packets[at];
        (packet.esp, packet.id, packet.number) = (esp_at as u32, id, number);
        Ok(Place::column(group, index))
    }

    /// Which kind of packet came.
    fn came(&self, data: &[u8], header: &Header) -> Result<Came, Drop> {
        let at = header.payload_at;
        match (header.flow.protocol(), header.flow.ports()) {
            // RFC 4303, 3.4.1: ESP is what was put together again, which is not ours to do.
            (protocol::ESP, _) if header.is_fragment => Err(Drop::Fragment),
            (protocol::ESP, _) => Ok(Came::Esp(at)),
            (protocol::UDP, Some([_, port])) if self.is_udp_port(port) => {
                let Some(payload) = data[at..header.total_len].get(UDP_LEN..) else { return Err(Drop::Malformed) };
                Ok(match payload {
                    // RFC 3948, 2.3 and 2.2: one byte of ones keeps a NAT's mapping; IKE has zeros where an SPI would be.
                    [0xff] | [0, 0, 0, 0, ..] => Came::Other,
                    _ => Came::Esp(at + UDP_LEN),
                })
            }
            _ => Ok(Came::Clear),
        }
    }

    /// Listens to a packet that is no ESP: whether it is a router's word about a packet that an association has just sent. Whoever has not seen
    /// that packet would have to guess its SPI and its number. What goes the same way is shorter from then on.
    #[cold]
    fn hears_of_path(&mut self, packet: &[u8], header: &Header, now: Duration) -> bool {
        let Some(said) = TooBig::of(packet, header) else { return false };
        // Each is looked for among all associations.
        if !self.listening.allows(now) {
            return false;
        }
        self.listening.take();
        let is_meant = self.outbound.iter().any(|(_, one)| {
            let parameters = &one.common.parameters;
            one.common.spi == said.spi
                && (parameters.source, parameters.destination) == (said.source, said.destination)
                && said.is_recent(one.last)
        });
        if is_meant && self.paths.path_mtu(said.destination).is_none_or(|known| said.path_mtu < known) {
            self.set_path_mtu(said.destination, said.path_mtu, now);
        }
        is_meant
    }

    /// Accepts packets in the order in which they came, and says which leave.
    pub fn commit_inbound(&mut self, burst: &mut Burst) {
        for at in 0..burst.packets.len() {
            let packet = burst.packets[at];
            let (group, index) = match packet.place.fate() {
                Fate::Column(group, index) => (group, index),
                Fate::Bypass => {
                    burst.leaving.push([packet.start, packet.end]);
                    continue;
                }
                _ => continue,
            };
            let status = burst.groups[group].status(index);
            let opened = match status {
                status if status.is_done() => self.accept(burst, packet),
                ciphermill_contract::ColumnStatus::AUTH_FAILED => Err(Drop::Integrity),
                _ if self.inbound.get(packet.id).is_none() => Err(Drop::Gone),
                _ => Err(Drop::Engine),
            };
            match opened {
                Ok(Some(span)) => {
                    self.received.done += 1;
                    self.received.bytes += u64::from(span[1] - span[0]);
                    burst.leaving.push(span);
                }
                Ok(None) => self.received.dummies += 1,
                Err(reason) => self.received.drop(reason),
            }
        }
    }

    /// Where the inner packet of an authentic one lies; nothing in a dummy.
    fn accept(&mut self, burst: &mut Burst, packet: Packet) -> Result<Option<[u32; 2]>, Drop> {
        let Some(one) = self.inbound.get_mut(packet.id) else { return Err(Drop::Gone) };
        // RFC 4303, 3.4.3: the window moves for what is authentic alone. Looked at again, since the packet may be in the burst twice.
        match one.window.accept(packet.number) {
            Verdict::New => {}
            Verdict::Replayed => return Err(Drop::Replayed),
            Verdict::Old => return Err(Drop::Old),
        }
        let (span, version) = one.payload(&burst.data, &packet)?;
        let len = if version == 0 { 0 } else { (span[1] - span[0]) as usize };
        goes_on(packet.id, one.meter.take(len, burst.now_ns), &mut self.events, &mut self.received)?;
        if version == 0 {
            self.follow(burst, packet);
            return Ok(None);
        }
        let inner = one.unwrap(&mut burst.data, &packet, span, version, &self.inbound_policies);
        if one.common.has_udp {
            self.follow(burst, packet);
        }
        let (span, is_alive) = inner?;
        if !is_alive {
            self.answer(burst, Packet { start: span[0], end: span[1], ..packet }, Problem::TimeExceeded);
            return Err(Drop::TimeToLive);
        }
        Ok(Some(span))
    }

    /// Tells where an authentic packet came from, when that is new.
    fn follow(&mut self, burst: &Burst, packet: Packet) {
        let data = &burst.data[packet.start as usize..packet.end as usize];
        let Ok(header) = Header::of(data) else { return };
        // Without UDP around it there is no port to answer to.
        let Some([port, _]) = header.flow.ports() else { return };
        let source = header.flow.source_address();
        let Some(one) = self.inbound.get_mut(packet.id) else { return };
        let parameters = &one.common.parameters;
        let Some(ports) = parameters.encapsulation else { return };
        // Packets that were overtaken come from where the peer was.
        let is_newest = one.window.top() == packet.number;
        if is_newest && (source, port) != one.moved_to.unwrap_or((parameters.source, ports.source_port)) {
            one.moved_to = Some((source, port));
            tell(&mut self.events, &mut self.received, Event::Moved { id: packet.id, source, port });
        }
    }
}

impl Inbound {
    /// Where the payload of an authentic packet lies, and the version of the inner one; zero of a dummy.
    #[inline]
    fn payload(&self, data: &[u8], packet: &Packet) -> Result<([u32; 2], u8), Drop> {
        let (iv_len, icv_len) = (u32::from(self.common.iv_len), u32::from(self.common.icv_len));
        let start = packet.esp + ESP_LEN as u32 + iv_len;
        let trailer = packet.end - icv_len - 2;
        let (padding, next_header) = (data[trailer as usize], data[trailer as usize + 1]);
        let end = trailer.checked_sub(u32::from(padding)).filter(|end| *end >= start).ok_or(Drop::Padding)?;
        if !is_padding(&data[..trailer as usize], usize::from(padding)) {
            return Err(Drop::Padding);
        }
        let version = match next_header {
            protocol::IPV4 => 4,
            protocol::IPV6 => 6,
            protocol::NONE => 0,
            _ => return Err(Drop::NextHeader),
        };
        Ok(([start, end], version))
    }

    /// Looks at the inner packet: its lengths, whether it may come this way, and what the outer header says of congestion. Returns where it lies,
    /// and whether it has hops left.
    #[inline]
    fn unwrap(
        &mut self,
        data: &mut [u8],
        packet: &Packet,
        [start, end]: [u32; 2],
        version: u8,
        policies: &Policies,
    ) -> Result<([u32; 2], bool), Drop> {
        let mut header = Header::NONE;
        header.read(&data[start as usize..end as usize]).map_err(|_| Drop::Malformed)?;
        if header.flow.version() != version {
            return Err(Drop::NextHeader);
        }
        let epoch = policies.epoch();
        if self.allowed_at != epoch || !self.allowed.is_same(&header.flow) {
            self.look_up(&header, policies)?;
            (self.allowed, self.allowed_at) = (header.flow, epoch);
        }
        // What lies behind is padding against traffic analysis.
        let span = [start, start + header.total_len as u32];
        let outer = ip::traffic_class(&data[packet.start as usize..]);
        let inner = &mut data[span[0] as usize..span[1] as usize];
        let class = ip::traffic_class(inner);
        match decapsulated(outer, class) {
            Some(now) if now != class => ip::set_traffic_class(inner, now),
            Some(_) => {}
            None => return Err(Drop::Ecn),
        }
        Ok((span, ip::hop(inner)))
    }

    /// Whether a packet may come by this association (RFC 4301, 5.2, step 4).
    fn look_up(&self, header: &Header, policies: &Policies) -> Result<(), Drop> {
        let parameters = &self.common.parameters;
        if parameters.selector.as_ref().is_some_and(|selector| !selector.matches(&header.flow)) {
            return Err(Drop::Selector);
        }
        match policies.action(&header.flow) {
            Some(Action::Protect(tunnel)) if tunnel == parameters.tunnel => Ok(()),
            Some(_) | None => Err(Drop::Selector),
        }
    }

    /// The whole number of a packet that may be new.
    #[inline]
    fn number_of(&self, low: u32) -> Result<u64, Drop> {
        let number = match self.common.kind.is_extended {
            true => self.window.extend(low).ok_or(Drop::Old)?,
            false => u64::from(low),
        };
        match self.window.look(number) {
            Verdict::New => Ok(number),
            Verdict::Replayed => Err(Drop::Replayed),
            Verdict::Old => Err(Drop::Old),
        }
    }
}

/// Where most packets have their SPI: behind a header without options, and UDP if that is there.
#[inline(always)]
fn likely_spi(packet: &[u8]) -> Option<u32> {
    let (next_header, header_len) = match *packet.first()? >> 4 {
        4 => (*packet.get(9)?, IPV4_LEN),
        _ => (*packet.get(6)?, IPV6_LEN),
    };
    let at = if next_header == protocol::UDP { header_len + UDP_LEN } else { header_len };
    packet.get(at..)?.first_chunk::<4>().map(|spi| u32::from_be_bytes(*spi))
}

/// Whether the last `len` bytes count up from one (RFC 4303, 2.4: a receiver should look).
#[inline]
fn is_padding(data: &[u8], len: usize) -> bool {
    match (len, data.last_chunk::<16>()) {
        (0, _) => true,
        // Mostly: at once, instead of byte by byte.
        (1..=16, Some(last)) => {
            let others = 128 - 8 * len;
            (u128::from_le_bytes(*last) ^ u128::from_le_bytes(PADDING) << others) >> others == 0
        }
        _ => data[data.len() - len..].iter().zip(1u8..=255).all(|(byte, expected)| *byte == expected),
    }
}
