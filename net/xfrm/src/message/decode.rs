//! Requests, as daemons send them.

use rustix::io::Errno;

use super::association::{self, check, read_id, read_info, read_mark, read_replay};
use super::policy::{self, read_key, read_policy};
use super::{Attributes, Header};
use crate::association::{AssociationKey, ListFilter, ReplayUpdate, SecurityAssociation, SpiRequest};
use crate::bytes::Reader;
use crate::constants::*;
use crate::policy::{Policy, PolicyKey, Thresholds};
use crate::refusal::Refusal;
use crate::selector::Prefix;

/// What a daemon asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new association (`XFRM_MSG_NEWSA`).
    Add(Box<SecurityAssociation>),
    /// One in the place of the larval one with its SPI, or other lifetimes for one that is there (`XFRM_MSG_UPDSA`).
    Update(Box<SecurityAssociation>),
    /// `XFRM_MSG_DELSA`.
    Delete(AssociationKey),
    /// `XFRM_MSG_GETSA`.
    Query(AssociationKey),
    /// `XFRM_MSG_GETSA` with `NLM_F_DUMP`.
    List(ListFilter),
    /// `XFRM_MSG_ALLOCSPI`.
    AllocateSpi(Box<SpiRequest>),
    /// All associations of a protocol; 0 for all (`XFRM_MSG_FLUSHSA`).
    Flush(u8),
    /// `XFRM_MSG_NEWPOLICY`.
    AddPolicy(Box<Policy>),
    /// `XFRM_MSG_UPDPOLICY`.
    UpdatePolicy(Box<Policy>),
    /// `XFRM_MSG_DELPOLICY`.
    DeletePolicy(Box<PolicyKey>),
    /// `XFRM_MSG_GETPOLICY`.
    QueryPolicy(Box<PolicyKey>),
    /// `XFRM_MSG_GETPOLICY` with `NLM_F_DUMP`.
    ListPolicies,
    /// All policies of a table: 0 for the main one (`XFRM_MSG_FLUSHPOLICY`).
    FlushPolicies(u8),
    /// `XFRM_MSG_GETSADINFO`, with the flags to be repeated.
    CountAssociations(u32),
    /// `XFRM_MSG_GETSPDINFO`, with the flags to be repeated.
    CountPolicies(u32),
    /// `XFRM_MSG_NEWSPDINFO`: of IPv4 and IPv6, what is set.
    SetThresholds {
        /// Bits of local and remote prefixes.
        ipv4: Option<(u8, u8)>,
        /// The same of IPv6.
        ipv6: Option<(u8, u8)>,
    },
    /// `XFRM_MSG_GETAE`, with what is asked for (`XFRM_AE_…`).
    QueryReplay(AssociationKey, u32),
    /// `XFRM_MSG_NEWAE`.
    SetReplay(Box<ReplayUpdate>),
}

/// Reads a request; `body` is what [`messages`](super::messages) gives with its header.
///
/// # Errors
/// What a kernel would refuse, by the same number. `XFRM_MSG_MIGRATE` is `ENOPROTOOPT`, as in kernels that are built without it;
/// daemons then delete associations and add them with other addresses.
pub fn parse_request(header: &Header, body: &[u8]) -> Result<Request, Refusal> {
    let mut from = Reader::new(body);
    let from = &mut from;
    let listing = header.flags & NLM_F_DUMP != 0;
    Ok(match header.kind {
        XFRM_MSG_NEWSA => Request::Add(read_association(from)?),
        XFRM_MSG_UPDSA => Request::Update(read_association(from)?),
        XFRM_MSG_GETSA if listing => Request::List(read_filter(body)?),
        XFRM_MSG_DELSA => Request::Delete(read_association_key(from)?),
        XFRM_MSG_GETSA => Request::Query(read_association_key(from)?),
        XFRM_MSG_ALLOCSPI => Request::AllocateSpi(Box::new(read_spi_request(from)?)),
        XFRM_MSG_FLUSHSA => Request::Flush(from.u8()?),
        XFRM_MSG_NEWPOLICY => Request::AddPolicy(read_whole_policy(from)?),
        XFRM_MSG_UPDPOLICY => Request::UpdatePolicy(read_whole_policy(from)?),
        XFRM_MSG_GETPOLICY if listing => Request::ListPolicies,
        XFRM_MSG_DELPOLICY => Request::DeletePolicy(read_policy_key(from)?),
        XFRM_MSG_GETPOLICY => Request::QueryPolicy(read_policy_key(from)?),
        XFRM_MSG_FLUSHPOLICY => {
            let attributes = Attributes::parse(body)?;
            Request::FlushPolicies(attributes.read(XFRMA_POLICY_TYPE, Reader::u8)?.unwrap_or_default())
        }
        XFRM_MSG_GETSADINFO => Request::CountAssociations(from.u32()?),
        XFRM_MSG_GETSPDINFO => Request::CountPolicies(from.u32()?),
        XFRM_MSG_NEWSPDINFO => read_thresholds(from)?,
        XFRM_MSG_GETAE => {
            let (key, flags) = read_event_id(from)?;
            Request::QueryReplay(key, flags)
        }
        XFRM_MSG_NEWAE => Request::SetReplay(Box::new(read_replay_update(header, from)?)),
        XFRM_MSG_MIGRATE => return Err(Refusal::new(Errno::NOPROTOOPT, "migration is not supported")),
        _ => return Err(Refusal::invalid("a kind of message that is not known")),
    })
}

fn read_association(from: &mut Reader<'_>) -> Result<Box<SecurityAssociation>, Refusal> {
    let mut state = read_info(from)?;
    check_protocol(&state.association)?;
    let attributes = Attributes::parse(from.rest())?;
    association::read_attributes(&mut state, &attributes)?;
    check(&state.association, &attributes)?;
    Ok(Box::new(state.association))
}

fn check_protocol(association: &SecurityAssociation) -> Result<(), Refusal> {
    match association.id.protocol {
        IPPROTO_ESP => Ok(()),
        IPPROTO_AH | IPPROTO_COMP => Err(Refusal::new(Errno::PROTONOSUPPORT, "a protocol other than ESP")),
        _ => Err(Refusal::invalid("a protocol that has no associations")),
    }
}

fn read_association_key(from: &mut Reader<'_>) -> Result<AssociationKey, Refusal> {
    let id = read_id(from)?;
    let attributes = Attributes::parse(from.rest())?;
    Ok(AssociationKey { id, mark: read_mark(&attributes)?.unwrap_or_default() })
}

/// A listing's filter. Other programs send the body of another message here, which a kernel does not look at either.
fn read_filter(body: &[u8]) -> Result<ListFilter, Refusal> {
    let Ok(attributes) = Attributes::parse(body) else { return Ok(ListFilter::default()) };
    let addresses = attributes.read(XFRMA_ADDRESS_FILTER, |from| {
        let (source, destination, family) = (from.address()?, from.address()?, from.u16()?);
        let lens = (from.u8()?, from.u8()?);
        if family == AF_UNSPEC {
            return Ok(None);
        }
        let (source, destination) = (source.of(family)?, destination.of(family)?);
        Ok(Some((Prefix { address: source, len: lens.0 }, Prefix { address: destination, len: lens.1 })))
    })?;
    Ok(ListFilter {
        protocol: attributes.read(XFRMA_PROTO, Reader::u8)?.unwrap_or_default(),
        addresses: addresses.flatten(),
    })
}

fn read_spi_request(from: &mut Reader<'_>) -> Result<SpiRequest, Refusal> {
    let mut state = read_info(from)?;
    let (min, max) = (from.u32()?, from.u32()?);
    check_protocol(&state.association)?;
    let attributes = Attributes::parse(from.rest())?;
    association::read_attributes(&mut state, &attributes)?;
    if min > max {
        return Err(Refusal::invalid("a range of SPIs that ends before it begins"));
    }
    Ok(SpiRequest { association: state.association, min, max })
}

fn read_whole_policy(from: &mut Reader<'_>) -> Result<Box<Policy>, Refusal> {
    let mut policy = read_policy(from)?.policy;
    policy::read_attributes(&mut policy, &Attributes::parse(from.rest())?)?;
    Ok(Box::new(policy))
}

fn read_policy_key(from: &mut Reader<'_>) -> Result<Box<PolicyKey>, Refusal> {
    let mut head = *from;
    from.skip(64)?;
    Ok(Box::new(read_key(&mut head, &Attributes::parse(from.rest())?)?))
}

fn read_thresholds(from: &mut Reader<'_>) -> Result<Request, Refusal> {
    from.skip(4)?;
    let attributes = Attributes::parse(from.rest())?;
    let bits = |kind, most: (u8, u8)| {
        let bits = attributes.read(kind, |from| Ok((from.u8()?, from.u8()?)))?;
        if bits.is_some_and(|bits| bits.0 > most.0 || bits.1 > most.1) {
            return Err(Refusal::invalid("more bits than an address has"));
        }
        Ok(bits)
    };
    let most = Thresholds::default();
    Ok(Request::SetThresholds {
        ipv4: bits(XFRMA_SPD_IPV4_HTHRESH, most.ipv4)?,
        ipv6: bits(XFRMA_SPD_IPV6_HTHRESH, most.ipv6)?,
    })
}

/// `struct xfrm_aevent_id` and the mark; leaves the reader in front of the attributes.
fn read_event_id(from: &mut Reader<'_>) -> Result<(AssociationKey, u32), Refusal> {
    let id = read_id(from)?;
    from.skip(16)?;
    let flags = from.u32()?;
    from.skip(4)?;
    let attributes = Attributes::parse(from.rest())?;
    Ok((AssociationKey { id, mark: read_mark(&attributes)?.unwrap_or_default() }, flags))
}

fn read_replay_update(header: &Header, from: &mut Reader<'_>) -> Result<ReplayUpdate, Refusal> {
    let (key, _) = read_event_id(from)?;
    let attributes = Attributes::parse(from.rest())?;
    let replay = read_replay(&attributes)?;
    let counters = attributes.read(XFRMA_LTIME_VAL, association::read_counters)?;
    if header.flags & NLM_F_REPLACE == 0 {
        return Err(Refusal::invalid("a replay service is only ever replaced"));
    }
    if replay.is_none() && counters.is_none() {
        return Err(Refusal::invalid("a replay service without its values"));
    }
    Ok(ReplayUpdate { key, replay, counters })
}
