//! What a kernel says: answers, notices of what has changed, and events; and how clients read it.

use std::net::IpAddr;

use rustix::io::Errno;

use super::association::{
    self, Keys, is_long, read_id, read_info, write_counters, write_id, write_replay, write_selector,
};
use super::policy::{self, read_policy, read_templates, write_key, write_kind};
use super::{Attributes, Header, write_message};
use crate::association::{AssociationId, AssociationState, Replay};
use crate::bytes::{Reader, Writer, family_of};
use crate::constants::*;
use crate::kernel::Counts;
use crate::policy::{PolicyKey, PolicyState, Template, Thresholds};
use crate::refusal::Refusal;
use crate::selector::Selector;

/// A packet needs an association that is not there (`XFRM_MSG_ACQUIRE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The number that the association shall come with.
    pub number: u32,
    /// The tunnel's beginning.
    pub source: IpAddr,
    /// Its end.
    pub destination: IpAddr,
    /// The packet: its addresses, protocol and ports.
    pub packet: Selector,
    /// The policy that it fell under, whose first template is what is needed.
    pub policy: PolicyState,
}

/// A peer whose packets come from elsewhere now (`XFRM_MSG_MAPPING`, RFC 7296, 2.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The association that they belong to.
    pub id: AssociationId,
    /// Its `reqid`.
    pub reqid: u32,
    /// Where they came from: address and port.
    pub old: (IpAddr, u16),
    /// Where they come from.
    pub new: (IpAddr, u16),
}

/// What a daemon is told unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An association is needed.
    Acquire(Box<Acquire>),
    /// One has reached its soft limit, or its hard one, with which it ended.
    Expire {
        /// The association.
        state: Box<AssociationState>,
        /// Whether it ended.
        hard: bool,
    },
    /// A peer is behind another address or port.
    Mapping(Mapping),
}

/// What there is to tell of, one of many.
#[derive(Clone, Copy)]
pub(crate) enum State<'a> {
    Association(&'a AssociationState),
    Policy(&'a PolicyState),
    /// `XFRM_MSG_NEWAE`, with what was asked for.
    Replay(&'a AssociationState, u32),
    Associations(Counts, u32),
    Policies(Counts, Thresholds, u32),
}

/// A change that is told to groups.
#[derive(Clone, Copy)]
pub(crate) enum Notice<'a> {
    Added(&'a AssociationState),
    Updated(&'a AssociationState),
    Deleted(&'a AssociationState),
    Flushed(u8),
    Replay(&'a AssociationState),
    PolicyAdded(&'a PolicyState),
    PolicyUpdated(&'a PolicyState),
    PolicyDeleted(&'a PolicyState),
    PoliciesFlushed(u8),
}

/// `NLMSG_ERROR`, which is also how success is told. Of the request only the header comes back (`NLM_F_CAPPED`): it has keys.
pub(crate) fn write_ack(to: &mut Writer, request: &Header, port: u32, outcome: Result<(), Refusal>, words: bool) {
    let why = outcome.err().filter(|_| words);
    let flags = NLM_F_CAPPED | if why.is_some() { NLM_F_ACK_TLVS } else { 0 };
    let header = Header { kind: NLMSG_ERROR, flags, sequence: request.sequence, port };
    write_message(to, header, |to| {
        to.u32(outcome.map_or_else(|refusal| -refusal.errno.raw_os_error(), |()| 0).cast_unsigned());
        to.u32(super::HEADER_LEN as u32);
        to.u16(request.kind);
        to.u16(request.flags);
        to.u32(request.sequence);
        to.u32(request.port);
        if let Some(Refusal { why, .. }) = why {
            to.attribute(NLMSGERR_ATTR_MSG, |to| {
                to.bytes(why.as_bytes());
                to.u8(0);
            });
        }
    });
}

/// The end of a listing.
pub(crate) fn write_done(to: &mut Writer, sequence: u32, port: u32) {
    let header = Header { kind: NLMSG_DONE, flags: NLM_F_MULTI, sequence, port };
    write_message(to, header, |to| to.u32(0));
}

/// One thing of those that were asked for; `header` has the request's number, and `NLM_F_MULTI` in a listing.
pub(crate) fn write_state(to: &mut Writer, mut header: Header, state: State<'_>) {
    header.kind = match state {
        State::Association(_) => XFRM_MSG_NEWSA,
        State::Policy(_) => XFRM_MSG_NEWPOLICY,
        State::Replay(..) => XFRM_MSG_NEWAE,
        State::Associations(..) => XFRM_MSG_NEWSADINFO,
        State::Policies(..) => XFRM_MSG_NEWSPDINFO,
    };
    write_message(to, header, |to| match state {
        State::Association(state) => write_association(to, state, Keys::Shown),
        State::Policy(state) => write_policy(to, state),
        State::Replay(state, flags) => write_replay_state(to, state, flags),
        State::Associations(counts, flags) => {
            to.u32(flags);
            to.attribute(XFRMA_SAD_CNT, |to| to.u32(counts.associations));
            to.attribute(XFRMA_SAD_HINFO, |to| write_numbers(to, &[8, 1 << 20]));
        }
        State::Policies(counts, thresholds, flags) => {
            to.u32(flags);
            // The last three are policies of sockets, which there are none of.
            let [incoming, outgoing, forward] = counts.policies;
            to.attribute(XFRMA_SPD_INFO, |to| write_numbers(to, &[incoming, outgoing, forward, 0, 0, 0]));
            to.attribute(XFRMA_SPD_HINFO, |to| write_numbers(to, &[8, 1 << 20]));
            for (kind, bits) in [(XFRMA_SPD_IPV4_HTHRESH, thresholds.ipv4), (XFRMA_SPD_IPV6_HTHRESH, thresholds.ipv6)] {
                to.attribute(kind, |to| to.bytes(&[bits.0, bits.1]));
            }
        }
    });
}

fn write_numbers(to: &mut Writer, numbers: &[u32]) {
    numbers.iter().for_each(|&number| to.u32(number));
}

fn write_association(to: &mut Writer, state: &AssociationState, keys: Keys) {
    association::write_info(to, state);
    association::write_attributes(to, state, keys);
}

fn write_policy(to: &mut Writer, state: &PolicyState) {
    policy::write_info(to, state);
    policy::write_attributes(to, &state.policy);
}

fn write_replay_state(to: &mut Writer, state: &AssociationState, flags: u32) {
    let association = &state.association;
    write_id(to, &association.id);
    to.address(association.source);
    to.u32(flags | XFRM_AE_RVAL | XFRM_AE_LVAL);
    to.u32(association.reqid);
    write_replay(to, &association.replay, is_long(association));
    to.attribute(XFRMA_LTIME_VAL, |to| write_counters(to, &state.counters));
    // Thresholds at which a kernel would tell of the replay service unasked, which this one does not.
    for (bit, kind) in [(XFRM_AE_RTHR, XFRMA_REPLAY_THRESH), (XFRM_AE_ETHR, XFRMA_ETIMER_THRESH)] {
        if flags & bit != 0 {
            to.attribute(kind, |to| to.u32(0));
        }
    }
    association::write_mark(to, association.mark);
}

/// A notice, and the group that it is for.
pub(crate) fn write_notice(to: &mut Writer, mut header: Header, notice: Notice<'_>) -> u32 {
    let (kind, group) = match notice {
        Notice::Added(_) => (XFRM_MSG_NEWSA, XFRMNLGRP_SA),
        Notice::Updated(_) => (XFRM_MSG_UPDSA, XFRMNLGRP_SA),
        Notice::Deleted(_) => (XFRM_MSG_DELSA, XFRMNLGRP_SA),
        Notice::Flushed(_) => (XFRM_MSG_FLUSHSA, XFRMNLGRP_SA),
        Notice::Replay(_) => (XFRM_MSG_NEWAE, XFRMNLGRP_AEVENTS),
        Notice::PolicyAdded(_) => (XFRM_MSG_NEWPOLICY, XFRMNLGRP_POLICY),
        Notice::PolicyUpdated(_) => (XFRM_MSG_UPDPOLICY, XFRMNLGRP_POLICY),
        Notice::PolicyDeleted(_) => (XFRM_MSG_DELPOLICY, XFRMNLGRP_POLICY),
        Notice::PoliciesFlushed(_) => (XFRM_MSG_FLUSHPOLICY, XFRMNLGRP_POLICY),
    };
    header.kind = kind;
    write_message(to, header, |to| match notice {
        Notice::Added(state) | Notice::Updated(state) => write_association(to, state, Keys::Zeroed),
        Notice::Deleted(state) => {
            write_id(to, &state.association.id);
            to.attribute(XFRMA_SA, |to| association::write_info(to, state));
            association::write_attributes(to, state, Keys::Zeroed);
        }
        Notice::Flushed(protocol) => to.u8(protocol),
        Notice::Replay(state) => write_replay_state(to, state, XFRM_AE_CU),
        Notice::PolicyAdded(state) | Notice::PolicyUpdated(state) => write_policy(to, state),
        Notice::PolicyDeleted(state) => {
            write_key(to, &key_of(state));
            to.attribute(XFRMA_POLICY, |to| policy::write_info(to, state));
            policy::write_attributes(to, &state.policy);
        }
        Notice::PoliciesFlushed(kind) => write_kind(to, kind),
    });
    group
}

fn key_of(state: &PolicyState) -> PolicyKey {
    let policy = &state.policy;
    PolicyKey {
        direction: policy.direction,
        kind: policy.kind,
        index: policy.index,
        selector: policy.selector,
        mark: policy.mark.unwrap_or_default(),
        if_id: policy.if_id,
    }
}

/// An event, and the group that it is for.
pub(crate) fn write_event(to: &mut Writer, event: &Event) -> u32 {
    let (kind, group) = match event {
        Event::Acquire(_) => (XFRM_MSG_ACQUIRE, XFRMNLGRP_ACQUIRE),
        Event::Expire { .. } => (XFRM_MSG_EXPIRE, XFRMNLGRP_EXPIRE),
        Event::Mapping(_) => (XFRM_MSG_MAPPING, XFRMNLGRP_MAPPING),
    };
    let header = Header { kind, flags: 0, sequence: 0, port: 0 };
    write_message(to, header, |to| match event {
        Event::Acquire(acquire) => write_acquire(to, acquire),
        Event::Expire { state, hard } => {
            association::write_info(to, state);
            to.u8((*hard).into());
            to.zeros(7);
            association::write_mark(to, state.association.mark);
            if state.association.if_id != 0 {
                to.attribute(XFRMA_IF_ID, |to| to.u32(state.association.if_id));
            }
        }
        Event::Mapping(mapping) => {
            write_id(to, &mapping.id);
            to.u32(mapping.reqid);
            to.address(mapping.old.0);
            to.address(mapping.new.0);
            to.be16(mapping.old.1);
            to.be16(mapping.new.1);
        }
    });
    group
}

fn write_acquire(to: &mut Writer, acquire: &Acquire) {
    let needed = acquire.policy.policy.templates.first();
    to.address(acquire.destination);
    to.be32(0);
    to.u8(needed.map_or(IPPROTO_ESP, |template| template.protocol));
    to.zeros(3);
    to.address(acquire.source);
    write_selector(to, &acquire.packet);
    policy::write_info(to, &acquire.policy);
    let any = |bits: fn(&Template) -> u32| needed.map_or(u32::MAX, bits);
    to.u32(any(|template| template.integrity));
    to.u32(any(|template| template.encryption));
    to.u32(any(|template| template.compression));
    to.u32(acquire.number);
    policy::write_attributes(to, &acquire.policy.policy);
}

/// What a client reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer to a request: done, or why not.
    Outcome(Result<(), Errno>),
    /// The end of a listing.
    Done,
    /// An association: asked for, or added, or updated.
    Association(Box<AssociationState>),
    /// A policy: asked for, or added, or updated.
    Policy(Box<PolicyState>),
    /// Where the replay service of an association stands.
    Replay(AssociationId, Replay),
    /// An event.
    Event(Event),
    /// Something else, by its number.
    Other(u16),
}

/// Reads what a kernel says.
///
/// # Errors
/// `EINVAL` where a structure or an attribute is shorter than it says.
pub fn parse_reply(header: &Header, body: &[u8]) -> Result<Reply, Refusal> {
    let mut from = Reader::new(body);
    let from = &mut from;
    Ok(match header.kind {
        NLMSG_ERROR => Reply::Outcome(match from.u32()?.cast_signed().checked_neg() {
            Some(0) => Ok(()),
            Some(errno) => Err(Errno::from_raw_os_error(errno)),
            None => return Err(Refusal::invalid("an error without a number")),
        }),
        NLMSG_DONE => Reply::Done,
        XFRM_MSG_NEWSA | XFRM_MSG_UPDSA => {
            let mut state = read_info(from)?;
            association::read_attributes(&mut state, &Attributes::parse(from.rest())?)?;
            Reply::Association(Box::new(state))
        }
        XFRM_MSG_NEWPOLICY | XFRM_MSG_UPDPOLICY => {
            let mut state = read_policy(from)?;
            policy::read_attributes(&mut state.policy, &Attributes::parse(from.rest())?)?;
            Reply::Policy(Box::new(state))
        }
        XFRM_MSG_NEWAE => {
            let id = read_id(from)?;
            from.skip(24)?;
            let replay = association::read_replay(&Attributes::parse(from.rest())?)?;
            Reply::Replay(id, replay.ok_or(Refusal::invalid("no replay service"))?)
        }
        XFRM_MSG_ACQUIRE => Reply::Event(Event::Acquire(Box::new(read_acquire(from)?))),
        XFRM_MSG_EXPIRE => {
            let mut state = read_info(from)?;
            let hard = from.u8()? != 0;
            from.skip(7)?;
            association::read_attributes(&mut state, &Attributes::parse(from.rest())?)?;
            Reply::Event(Event::Expire { state: Box::new(state), hard })
        }
        XFRM_MSG_MAPPING => Reply::Event(Event::Mapping(read_mapping(from)?)),
        other => Reply::Other(other),
    })
}

fn read_acquire(from: &mut Reader<'_>) -> Result<Acquire, Refusal> {
    let destination = from.address()?;
    from.skip(8)?;
    let source = from.address()?;
    let packet = association::read_selector(from, AF_UNSPEC, false)?;
    let mut policy = read_policy(from)?;
    from.skip(12)?;
    let number = from.u32()?;
    let attributes = Attributes::parse(from.rest())?;
    policy::read_attributes(&mut policy.policy, &attributes)?;
    // The family of a tunnel is its template's; the packet's may be another.
    let family = family_of(packet.destination.address);
    let templates = attributes.read(XFRMA_TMPL, |from| read_templates(from, family))?.unwrap_or_default();
    let family = templates.first().map_or(family, |template| family_of(template.destination));
    Ok(Acquire { number, source: source.of(family)?, destination: destination.of(family)?, packet, policy })
}

fn read_mapping(from: &mut Reader<'_>) -> Result<Mapping, Refusal> {
    let id = read_id(from)?;
    let reqid = from.u32()?;
    let family = family_of(id.destination);
    let (old, new) = (from.address()?.of(family)?, from.address()?.of(family)?);
    Ok(Mapping { id, reqid, old: (old, from.be16()?), new: (new, from.be16()?) })
}
