//! Requests written, for clients: tests are some.

use zeroize::Zeroizing;

use super::association::{self, Keys, write_counters, write_id, write_mark, write_replay};
use super::policy::{self, write_key, write_kind};
use super::{Header, Request, write_message};
use crate::association::{
    AssociationKey, AssociationState, Counters, ListFilter, Mark, ReplayUpdate, SecurityAssociation, Statistics,
};
use crate::bytes::{Writer, family_of};
use crate::constants::*;
use crate::policy::{Policy, PolicyKey, PolicyState};

impl Request {
    /// The message's number.
    #[must_use]
    pub fn kind(&self) -> u16 {
        match self {
            Self::Add(_) => XFRM_MSG_NEWSA,
            Self::Update(_) => XFRM_MSG_UPDSA,
            Self::Delete(_) => XFRM_MSG_DELSA,
            Self::Query(_) | Self::List(_) => XFRM_MSG_GETSA,
            Self::AllocateSpi(_) => XFRM_MSG_ALLOCSPI,
            Self::Flush(_) => XFRM_MSG_FLUSHSA,
            Self::AddPolicy(_) => XFRM_MSG_NEWPOLICY,
            Self::UpdatePolicy(_) => XFRM_MSG_UPDPOLICY,
            Self::DeletePolicy(_) => XFRM_MSG_DELPOLICY,
            Self::QueryPolicy(_) | Self::ListPolicies => XFRM_MSG_GETPOLICY,
            Self::FlushPolicies(_) => XFRM_MSG_FLUSHPOLICY,
            Self::CountAssociations(_) => XFRM_MSG_GETSADINFO,
            Self::CountPolicies(_) => XFRM_MSG_GETSPDINFO,
            Self::SetThresholds { .. } => XFRM_MSG_NEWSPDINFO,
            Self::QueryReplay(..) => XFRM_MSG_GETAE,
            Self::SetReplay(_) => XFRM_MSG_NEWAE,
        }
    }

    /// The flags that belong to it, beside `NLM_F_ACK`.
    fn flags(&self) -> u16 {
        NLM_F_REQUEST
            | match self {
                Self::List(_) | Self::ListPolicies => NLM_F_DUMP,
                Self::SetReplay(_) => NLM_F_REPLACE,
                _ => 0,
            }
    }
}

/// A request as a datagram, which is wiped when it goes. With `acknowledged`, the answer says so too where nothing else comes.
#[must_use]
pub fn encode_request(request: &Request, sequence: u32, acknowledged: bool) -> Zeroizing<Vec<u8>> {
    let flags = request.flags() | if acknowledged { NLM_F_ACK } else { 0 };
    let header = Header { kind: request.kind(), flags, sequence, port: 0 };
    let mut to = Writer::new();
    write_message(&mut to, header, |to| write_body(to, request));
    to.into_bytes()
}

fn write_body(to: &mut Writer, request: &Request) {
    match request {
        Request::Add(association) | Request::Update(association) => {
            let state = fresh(association);
            association::write_info(to, &state);
            association::write_attributes(to, &state, Keys::Shown);
        }
        Request::Delete(key) | Request::Query(key) => {
            write_id(to, &key.id);
            write_asked_mark(to, key.mark);
        }
        Request::List(filter) => write_filter(to, filter),
        Request::AllocateSpi(request) => {
            let state = fresh(&request.association);
            association::write_info(to, &state);
            to.u32(request.min);
            to.u32(request.max);
            association::write_attributes(to, &state, Keys::Shown);
        }
        Request::Flush(protocol) => to.u8(*protocol),
        Request::AddPolicy(policy) | Request::UpdatePolicy(policy) => write_policy(to, policy),
        Request::DeletePolicy(key) | Request::QueryPolicy(key) => write_asked_policy(to, key),
        Request::ListPolicies => {}
        Request::FlushPolicies(kind) => write_kind(to, *kind),
        Request::CountAssociations(flags) | Request::CountPolicies(flags) => to.u32(*flags),
        Request::SetThresholds { ipv4, ipv6 } => {
            to.u32(0);
            for (kind, bits) in [(XFRMA_SPD_IPV4_HTHRESH, ipv4), (XFRMA_SPD_IPV6_HTHRESH, ipv6)] {
                if let Some((local, remote)) = bits {
                    to.attribute(kind, |to| to.bytes(&[*local, *remote]));
                }
            }
        }
        Request::QueryReplay(key, flags) => write_event_id(to, key, *flags),
        Request::SetReplay(update) => write_replay_update(to, update),
    }
}

fn fresh(association: &SecurityAssociation) -> AssociationState {
    AssociationState {
        association: association.clone(),
        counters: Counters::default(),
        statistics: Statistics::default(),
        last_used: None,
    }
}

fn write_asked_mark(to: &mut Writer, mark: Mark) {
    write_mark(to, Some(mark).filter(|mark| *mark != Mark::default()));
}

fn write_filter(to: &mut Writer, filter: &ListFilter) {
    if filter.protocol != 0 {
        to.attribute(XFRMA_PROTO, |to| to.u8(filter.protocol));
    }
    if let Some((source, destination)) = filter.addresses {
        to.attribute(XFRMA_ADDRESS_FILTER, |to| {
            to.address(source.address);
            to.address(destination.address);
            to.u16(family_of(source.address));
            to.bytes(&[source.len, destination.len]);
        });
    }
}

fn write_policy(to: &mut Writer, policy: &Policy) {
    policy::write_info(to, &PolicyState { policy: policy.clone(), counters: Counters::default() });
    policy::write_attributes(to, policy);
}

fn write_asked_policy(to: &mut Writer, key: &PolicyKey) {
    write_key(to, key);
    write_kind(to, key.kind);
    write_asked_mark(to, key.mark);
    if key.if_id != 0 {
        to.attribute(XFRMA_IF_ID, |to| to.u32(key.if_id));
    }
}

fn write_event_id(to: &mut Writer, key: &AssociationKey, flags: u32) {
    write_id(to, &key.id);
    to.zeros(16);
    to.u32(flags);
    to.u32(0);
    write_asked_mark(to, key.mark);
}

fn write_replay_update(to: &mut Writer, update: &ReplayUpdate) {
    write_event_id(to, &update.key, 0);
    if let Some(replay) = &update.replay {
        write_replay(to, replay, replay.window > 0);
    }
    if let Some(counters) = &update.counters {
        to.attribute(XFRMA_LTIME_VAL, |to| write_counters(to, counters));
    }
}
