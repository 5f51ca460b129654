//! `struct xfrm_usersa_info` and the attributes that go with it, read and written.

use std::net::IpAddr;

use rustix::io::Errno;

use super::Attributes;
use crate::algorithms;
use crate::association::{
    Algorithms, AssociationId, AssociationState, BITMAP_WORDS_MAX, Counters, Encapsulation, Encryption, ExtraFlags,
    Flags, Integrity, KEY_MAX, KeyBytes, Lifetimes, Limit, Mark, Mode, Replay, SaDirection, SecurityAssociation,
    Statistics,
};
use crate::bytes::{RawAddress, Reader, Writer, family_of};
use crate::constants::*;
use crate::refusal::Refusal;
use crate::selector::{Port, Prefix, Selector};

const NAME_LEN: usize = 64;

pub(super) fn read_selector(from: &mut Reader<'_>, family: u16, any_family: bool) -> Result<Selector, Refusal> {
    let (destination, source) = (from.address()?, from.address()?);
    let port = |from: &mut Reader<'_>| Ok::<_, Refusal>(Port { number: from.be16()?, mask: from.be16()? });
    let (destination_port, source_port) = (port(from)?, port(from)?);
    let (own, destination_len, source_len) = (from.u16()?, from.u8()?, from.u8()?);
    let protocol = from.u8()?;
    from.skip(3)?;
    let (interface, user) = (from.u32()?.cast_signed(), from.u32()?);
    let prefix = |raw: RawAddress, len: u8| {
        let address = raw.of(if own == AF_UNSPEC { family } else { own })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if len > most {
            return Err(Refusal::invalid("a prefix longer than its address"));
        }
        Ok(Prefix { address, len })
    };
    let any_family = any_family && own == AF_UNSPEC;
    let (source, destination) = if any_family {
        (Prefix::ALL, Prefix::ALL)
    } else {
        (prefix(source, source_len)?, prefix(destination, destination_len)?)
    };
    Ok(Selector { any_family, source, destination, protocol, source_port, destination_port, interface, user })
}

pub(super) fn write_selector(to: &mut Writer, selector: &Selector) {
    to.address(selector.destination.address);
    to.address(selector.source.address);
    for port in [selector.destination_port, selector.source_port] {
        to.be16(port.number);
        to.be16(port.mask);
    }
    to.u16(if selector.any_family { AF_UNSPEC } else { family_of(selector.destination.address) });
    to.u8(selector.destination.len);
    to.u8(selector.source.len);
    to.u8(selector.protocol);
    to.zeros(3);
    to.u32(selector.interface.cast_unsigned());
    to.u32(selector.user);
}

pub(super) fn read_lifetimes(from: &mut Reader<'_>) -> Result<Lifetimes, Refusal> {
    let mut limit = || Ok::<_, Refusal>(Limit { soft: from.u64()?, hard: from.u64()? });
    Ok(Lifetimes { bytes: limit()?, packets: limit()?, add_seconds: limit()?, use_seconds: limit()? })
}

pub(super) fn write_lifetimes(to: &mut Writer, lifetimes: &Lifetimes) {
    for limit in [lifetimes.bytes, lifetimes.packets, lifetimes.add_seconds, lifetimes.use_seconds] {
        to.u64(limit.soft);
        to.u64(limit.hard);
    }
}

pub(super) fn read_counters(from: &mut Reader<'_>) -> Result<Counters, Refusal> {
    Ok(Counters { bytes: from.u64()?, packets: from.u64()?, added: from.u64()?, used: from.u64()? })
}

pub(super) fn write_counters(to: &mut Writer, counters: &Counters) {
    for value in [counters.bytes, counters.packets, counters.added, counters.used] {
        to.u64(value);
    }
}

pub(super) fn read_mode(mode: u8) -> Result<Mode, Refusal> {
    match mode {
        0 => Ok(Mode::Transport),
        1 => Ok(Mode::Tunnel),
        4 => Ok(Mode::Beet),
        _ => Err(Refusal::invalid("a mode that is neither transport, tunnel nor BEET")),
    }
}

pub(super) fn read_mark(attributes: &Attributes<'_>) -> Result<Option<Mark>, Refusal> {
    attributes.read(XFRMA_MARK, |from| Ok(Mark { value: from.u32()?, mask: from.u32()? }))
}

/// `struct xfrm_usersa_id`, with its mark among the attributes.
pub(super) fn read_id(from: &mut Reader<'_>) -> Result<AssociationId, Refusal> {
    let destination = from.address()?;
    let (spi, family, protocol) = (from.be32()?, from.u16()?, from.u8()?);
    from.skip(1)?;
    Ok(AssociationId { destination: destination.of(family)?, spi, protocol })
}

pub(super) fn write_id(to: &mut Writer, id: &AssociationId) {
    to.address(id.destination);
    to.be32(id.spi);
    to.u16(family_of(id.destination));
    to.u8(id.protocol);
    to.zeros(1);
}

/// What `struct xfrm_usersa_info` holds, before attributes and without checks of what goes with what.
pub(super) fn read_info(from: &mut Reader<'_>) -> Result<AssociationState, Refusal> {
    let mut head = *from;
    from.skip(56)?;
    let destination = from.address()?;
    let (spi, protocol) = (from.be32()?, from.u8()?);
    from.skip(3)?;
    let source = from.address()?;
    let lifetimes = read_lifetimes(from)?;
    let counters = read_counters(from)?;
    let statistics = Statistics { outside_window: from.u32()?, replayed: from.u32()?, integrity_failed: from.u32()? };
    let (acquire, reqid, family) = (from.u32()?, from.u32()?, from.u16()?);
    let (mode, window, flags) = (from.u8()?, from.u8()?, Flags(from.u8()?));
    from.skip(7)?;
    let association = SecurityAssociation {
        id: AssociationId { destination: destination.of(family)?, spi, protocol },
        source: source.of(family)?,
        mode: read_mode(mode)?,
        reqid,
        acquire,
        algorithms: None,
        replay: Replay { window: window.into(), ..Replay::default() },
        encapsulation: None,
        lifetimes,
        flags,
        extra_flags: ExtraFlags::default(),
        selector: read_selector(&mut head, family, flags.has(Flags::ANY_FAMILY))?,
        mark: None,
        output_mark: None,
        if_id: 0,
        tfc_padding: 0,
        direction: None,
        nat_keepalive_seconds: 0,
    };
    Ok(AssociationState { association, counters, statistics, last_used: None })
}

/// Reads the attributes of an association into it.
pub(super) fn read_attributes(state: &mut AssociationState, attributes: &Attributes<'_>) -> Result<(), Refusal> {
    let family = family_of(state.association.id.destination);
    let association = &mut state.association;
    association.algorithms = read_algorithms(attributes)?;
    association.encapsulation = attributes.read(XFRMA_ENCAP, |from| read_encapsulation(from, family))?;
    let flags = attributes.u32(XFRMA_SA_EXTRA_FLAGS)?;
    association.extra_flags = ExtraFlags(flags.unwrap_or_default());
    association.mark = read_mark(attributes)?;
    let output = attributes.u32(XFRMA_SET_MARK)?;
    let mask = attributes.u32(XFRMA_SET_MARK_MASK)?.unwrap_or(u32::MAX);
    association.output_mark = output.map(|value| Mark { value, mask });
    association.if_id = attributes.u32(XFRMA_IF_ID)?.unwrap_or_default();
    association.tfc_padding = attributes.u32(XFRMA_TFCPAD)?.unwrap_or_default();
    association.nat_keepalive_seconds = attributes.u32(XFRMA_NAT_KEEPALIVE_INTERVAL)?.unwrap_or_default();
    association.direction = attributes.read(XFRMA_SA_DIR, |from| match from.u8()? {
        1 => Ok(SaDirection::In),
        2 => Ok(SaDirection::Out),
        _ => Err(Refusal::invalid("a direction that is neither in nor out")),
    })?;
    let legacy_window = association.replay.window;
    if let Some(replay) = read_replay(attributes)? {
        association.replay = replay;
        if attributes.find(XFRMA_REPLAY_ESN_VAL).is_none() {
            association.replay.window = legacy_window;
        } else if legacy_window != 0 {
            return Err(Refusal::invalid("a replay window in two places"));
        }
    }
    state.last_used = attributes.read(XFRMA_LASTUSED, Reader::u64)?;
    Ok(())
}

/// Where a replay service stands, of either form.
pub(super) fn read_replay(attributes: &Attributes<'_>) -> Result<Option<Replay>, Refusal> {
    if let Some(replay) = attributes.read(XFRMA_REPLAY_ESN_VAL, read_esn)? {
        return Ok(Some(replay));
    }
    attributes.read(XFRMA_REPLAY_VAL, |from| {
        let (sent, received, bitmap) = (from.u32()?, from.u32()?, from.u32()?);
        Ok(Replay { window: 0, sent: sent.into(), received: received.into(), bitmap: vec![bitmap] })
    })
}

fn read_esn(from: &mut Reader<'_>) -> Result<Replay, Refusal> {
    let words = from.u32()? as usize;
    let (sent, received) = (from.u32()?, from.u32()?);
    let (sent_high, received_high, window) = (from.u32()?, from.u32()?, from.u32()?);
    if words > BITMAP_WORDS_MAX {
        return Err(Refusal::invalid("a replay window of more than 4096 packets"));
    }
    if window as usize > words * 32 {
        return Err(Refusal::invalid("a replay window longer than its bitmap"));
    }
    // `ip xfrm` leaves out a bitmap that is empty.
    let bitmap = if from.rest().is_empty() {
        vec![0; words]
    } else {
        (0..words).map(|_| from.u32()).collect::<Result<_, _>>()?
    };
    let wide = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    Ok(Replay { window, sent: wide(sent_high, sent), received: wide(received_high, received), bitmap })
}

/// Whether a window has the form that holds more than 32 packets and 64-bit numbers.
pub(super) fn is_long(association: &SecurityAssociation) -> bool {
    association.esn() || association.replay.window > 32
}

pub(super) fn write_replay(to: &mut Writer, replay: &Replay, long: bool) {
    let (sent, received) = (replay.sent as u32, replay.received as u32);
    if !long {
        return to.attribute(XFRMA_REPLAY_VAL, |to| {
            to.u32(sent);
            to.u32(received);
            to.u32(replay.bitmap.first().copied().unwrap_or_default());
        });
    }
    let words = replay.bitmap.len().max(replay.window.div_ceil(32) as usize).min(BITMAP_WORDS_MAX);
    to.attribute(XFRMA_REPLAY_ESN_VAL, |to| {
        to.u32(words as u32);
        to.u32(sent);
        to.u32(received);
        to.u32((replay.sent >> 32) as u32);
        to.u32((replay.received >> 32) as u32);
        to.u32(replay.window);
        let present = replay.bitmap.iter().copied().take(words);
        present.chain(std::iter::repeat(0)).take(words).for_each(|word| to.u32(word));
    });
}

fn read_encapsulation(from: &mut Reader<'_>, family: u16) -> Result<Encapsulation, Refusal> {
    let (kind, source_port, destination_port) = (from.u16()?, from.be16()?, from.be16()?);
    from.skip(2)?;
    let address = from.address()?.of(family)?;
    if kind != UDP_ENCAP_ESPINUDP {
        return Err(Refusal::invalid("an encapsulation other than that of RFC 3948"));
    }
    let original_address = Some(address).filter(|address| !address.is_unspecified());
    Ok(Encapsulation { source_port, destination_port, original_address })
}

fn read_algorithms(attributes: &Attributes<'_>) -> Result<Option<Algorithms>, Refusal> {
    if attributes.find(XFRMA_ALG_COMP).is_some() {
        return Err(Refusal::new(Errno::PROTONOSUPPORT, "IPComp is not supported"));
    }
    let aead = attributes.read(XFRMA_ALG_AEAD, |from| {
        let (name, bits, icv_bits) = (read_name(from)?, from.u32()?, from.u32()?);
        Ok(Algorithms::Aead { name: algorithms::full_name(name).to_owned(), key: read_key(from, bits)?, icv_bits })
    })?;
    let encryption = attributes.read(XFRMA_ALG_CRYPT, |from| {
        let (name, bits) = (read_name(from)?, from.u32()?);
        Ok(Encryption { name: algorithms::full_name(name).to_owned(), key: read_key(from, bits)? })
    })?;
    let integrity = match attributes.read(XFRMA_ALG_AUTH_TRUNC, |from| read_integrity(from, true))? {
        None => attributes.read(XFRMA_ALG_AUTH, |from| read_integrity(from, false))?,
        there => there,
    };
    match (aead, encryption, integrity) {
        (None, None, None) => Ok(None),
        (None, Some(encryption), integrity) => Ok(Some(Algorithms::Separate { encryption, integrity })),
        (aead @ Some(_), None, None) => Ok(aead),
        (Some(_), ..) => Err(Refusal::invalid("an AEAD algorithm beside others")),
        (None, None, Some(_)) => Err(Refusal::invalid("ESP without a cipher; the null cipher is one")),
    }
}

fn read_integrity(from: &mut Reader<'_>, truncated: bool) -> Result<Integrity, Refusal> {
    let (name, bits) = (read_name(from)?, from.u32()?);
    let name = algorithms::full_name(name);
    let icv_bits = if truncated { from.u32()? } else { 0 };
    // A kernel takes 0 for its own length, too.
    let icv_bits = if icv_bits == 0 { algorithms::default_icv_bits(name)? } else { icv_bits };
    Ok(Integrity { name: name.to_owned(), key: read_key(from, bits)?, icv_bits })
}

fn read_name<'a>(from: &mut Reader<'a>) -> Result<&'a str, Refusal> {
    let bytes = from.take(NAME_LEN)?;
    let len = bytes.iter().position(|&byte| byte == 0).ok_or(Refusal::invalid("a name without an end"))?;
    let name = bytes.get(..len).and_then(|name| std::str::from_utf8(name).ok());
    name.filter(|name| name.chars().all(|c| c.is_ascii_graphic())).ok_or(Refusal::invalid("a name that is no text"))
}

fn read_key(from: &mut Reader<'_>, bits: u32) -> Result<KeyBytes, Refusal> {
    let len = bits.div_ceil(8) as usize;
    if len > KEY_MAX {
        return Err(Refusal::invalid("a key longer than any algorithm's"));
    }
    Ok(KeyBytes::new(from.take(len).map_err(|_| Refusal::invalid("a key shorter than it says"))?))
}

/// Whether keys are written, or zeros in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// To whom asks for an association: daemons move one to other addresses that way.
    Shown,
    /// To whom is told of one, as kernels do that are locked down.
    Zeroed,
}

/// `struct xfrm_usersa_info`.
pub(super) fn write_info(to: &mut Writer, state: &AssociationState) {
    let association = &state.association;
    write_selector(to, &association.selector);
    to.address(association.id.destination);
    to.be32(association.id.spi);
    to.u8(association.id.protocol);
    to.zeros(3);
    to.address(association.source);
    write_lifetimes(to, &association.lifetimes);
    write_counters(to, &state.counters);
    to.u32(state.statistics.outside_window);
    to.u32(state.statistics.replayed);
    to.u32(state.statistics.integrity_failed);
    to.u32(association.acquire);
    to.u32(association.reqid);
    to.u16(family_of(association.id.destination));
    to.u8(association.mode as u8);
    to.u8(if is_long(association) { 0 } else { association.replay.window as u8 });
    to.u8(association.flags.0);
    to.zeros(7);
}

pub(super) fn write_attributes(to: &mut Writer, state: &AssociationState, keys: Keys) {
    let association = &state.association;
    if let Some(last_used) = state.last_used {
        to.attribute(XFRMA_LASTUSED, |to| to.u64(last_used));
    }
    match &association.algorithms {
        None => {}
        Some(Algorithms::Aead { name, key, icv_bits }) => {
            to.attribute(XFRMA_ALG_AEAD, |to| write_algorithm(to, name, key, Some(*icv_bits), keys));
        }
        Some(Algorithms::Separate { encryption, integrity }) => {
            if let Some(Integrity { name, key, icv_bits }) = integrity {
                to.attribute(XFRMA_ALG_AUTH, |to| write_algorithm(to, name, key, None, keys));
                to.attribute(XFRMA_ALG_AUTH_TRUNC, |to| write_algorithm(to, name, key, Some(*icv_bits), keys));
            }
            to.attribute(XFRMA_ALG_CRYPT, |to| write_algorithm(to, &encryption.name, &encryption.key, None, keys));
        }
    }
    if let Some(encapsulation) = &association.encapsulation {
        to.attribute(XFRMA_ENCAP, |to| write_encapsulation(to, encapsulation, association.id.destination));
    }
    write_replay(to, &association.replay, is_long(association));
    let mut number = |kind, value: u32| {
        if value != 0 {
            to.attribute(kind, |to| to.u32(value));
        }
    };
    number(XFRMA_SA_EXTRA_FLAGS, association.extra_flags.0);
    number(XFRMA_TFCPAD, association.tfc_padding);
    number(XFRMA_IF_ID, association.if_id);
    number(XFRMA_NAT_KEEPALIVE_INTERVAL, association.nat_keepalive_seconds);
    write_mark(to, association.mark);
    if let Some(mark) = association.output_mark {
        to.attribute(XFRMA_SET_MARK, |to| to.u32(mark.value));
        to.attribute(XFRMA_SET_MARK_MASK, |to| to.u32(mark.mask));
    }
    if let Some(direction) = association.direction {
        to.attribute(XFRMA_SA_DIR, |to| to.u8(direction as u8));
    }
}

pub(super) fn write_mark(to: &mut Writer, mark: Option<Mark>) {
    if let Some(mark) = mark {
        to.attribute(XFRMA_MARK, |to| {
            to.u32(mark.value);
            to.u32(mark.mask);
        });
    }
}

fn write_algorithm(to: &mut Writer, name: &str, key: &KeyBytes, icv_bits: Option<u32>, keys: Keys) {
    let name = name.as_bytes();
    let name = name.get(..NAME_LEN - 1).unwrap_or(name);
    to.bytes(name);
    to.zeros(NAME_LEN - name.len());
    to.u32(u32::try_from(key.len() * 8).unwrap_or_default());
    if let Some(bits) = icv_bits {
        to.u32(bits);
    }
    match keys {
        Keys::Shown => to.bytes(key.expose()),
        Keys::Zeroed => to.zeros(key.len()),
    }
}

fn write_encapsulation(to: &mut Writer, encapsulation: &Encapsulation, destination: IpAddr) {
    to.u16(UDP_ENCAP_ESPINUDP);
    to.be16(encapsulation.source_port);
    to.be16(encapsulation.destination_port);
    to.zeros(2);
    match encapsulation.original_address.filter(|address| address.is_ipv4() == destination.is_ipv4()) {
        Some(address) => to.address(address),
        None => to.zeros(16),
    }
}

/// What a kernel checks before it lets an association in.
pub(super) fn check(association: &SecurityAssociation, attributes: &Attributes<'_>) -> Result<(), Refusal> {
    if association.algorithms.is_none() {
        return Err(Refusal::invalid("ESP without algorithms"));
    }
    if association.esn() && attributes.find(XFRMA_REPLAY_ESN_VAL).is_none() {
        return Err(Refusal::invalid("64-bit sequence numbers without their replay service"));
    }
    if association.esn() && association.replay.window == 0 && association.direction != Some(SaDirection::Out) {
        return Err(Refusal::invalid("64-bit sequence numbers need a replay window"));
    }
    if association.tfc_padding != 0 && association.mode != Mode::Tunnel {
        return Err(Refusal::invalid("traffic flow padding in a mode other than tunnel"));
    }
    let offload = attributes.read(XFRMA_OFFLOAD_DEV, |from| from.skip(4).and_then(|()| from.u8()))?;
    if offload.is_some_and(|flags| flags & XFRM_OFFLOAD_PACKET != 0) {
        return Err(Refusal::invalid("packets cannot be offloaded to a device"));
    }
    Ok(())
}
