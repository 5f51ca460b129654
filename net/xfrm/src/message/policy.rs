//! `struct xfrm_userpolicy_info` and the attributes that go with it, read and written.

use super::Attributes;
use super::association::{
    read_counters, read_lifetimes, read_mark, read_mode, read_selector, write_counters, write_lifetimes, write_mark,
    write_selector,
};
use crate::bytes::{Reader, Writer, family_of};
use crate::constants::*;
use crate::policy::{Action, Direction, Policy, PolicyKey, PolicyState, TEMPLATES_MAX, Template};
use crate::refusal::Refusal;

/// Bytes of `struct xfrm_user_tmpl`.
const TEMPLATE_LEN: usize = 64;

fn read_direction(direction: u8) -> Result<Direction, Refusal> {
    match direction {
        0 => Ok(Direction::In),
        1 => Ok(Direction::Out),
        2 => Ok(Direction::Forward),
        _ => Err(Refusal::invalid("a direction that is none of in, out and forward")),
    }
}

fn read_kind(attributes: &Attributes<'_>) -> Result<u8, Refusal> {
    let kind = attributes.read(XFRMA_POLICY_TYPE, Reader::u8)?.unwrap_or_default();
    if kind > 1 {
        return Err(Refusal::invalid("a type of policies that is neither main nor sub"));
    }
    Ok(kind)
}

/// `struct xfrm_userpolicy_info` with its attributes. The selector's family has to be there, as nothing else says it.
pub(super) fn read_policy(from: &mut Reader<'_>) -> Result<PolicyState, Refusal> {
    let selector = read_selector(from, AF_UNSPEC, false)?;
    let lifetimes = read_lifetimes(from)?;
    let counters = read_counters(from)?;
    let (priority, index) = (from.u32()?, from.u32()?);
    let (direction, action) = (read_direction(from.u8()?)?, from.u8()?);
    let (flags, share) = (from.u8()?, from.u8()?);
    from.skip(4)?;
    if index != 0 && index & 7 != direction as u32 {
        return Err(Refusal::invalid("an index that belongs to another direction"));
    }
    let action = match action {
        0 => Action::Allow,
        1 => Action::Block,
        _ => return Err(Refusal::invalid("an action that is neither allow nor block")),
    };
    if share > 3 {
        return Err(Refusal::invalid("a way of sharing that is not known"));
    }
    let policy = Policy {
        selector,
        direction,
        kind: 0,
        action,
        priority,
        index,
        flags,
        share,
        lifetimes,
        templates: Vec::new(),
        mark: None,
        if_id: 0,
    };
    Ok(PolicyState { policy, counters })
}

pub(super) fn read_attributes(policy: &mut Policy, attributes: &Attributes<'_>) -> Result<(), Refusal> {
    let family = family_of(policy.selector.destination.address);
    policy.templates = attributes.read(XFRMA_TMPL, |from| read_templates(from, family))?.unwrap_or_default();
    policy.kind = read_kind(attributes)?;
    policy.mark = read_mark(attributes)?;
    policy.if_id = attributes.u32(XFRMA_IF_ID)?.unwrap_or_default();
    Ok(())
}

pub(super) fn read_templates(from: &Reader<'_>, family: u16) -> Result<Vec<Template>, Refusal> {
    let (templates, rest) = from.rest().as_chunks::<TEMPLATE_LEN>();
    if !rest.is_empty() || templates.len() > TEMPLATES_MAX {
        return Err(Refusal::invalid("more templates than six, or a part of one"));
    }
    templates.iter().map(|bytes| read_template(&mut Reader::new(bytes), family)).collect()
}

fn read_template(from: &mut Reader<'_>, family: u16) -> Result<Template, Refusal> {
    let destination = from.address()?;
    let (spi, protocol) = (from.be32()?, from.u8()?);
    from.skip(3)?;
    let own = from.u16()?;
    from.skip(2)?;
    let source = from.address()?;
    let (reqid, mode, share, optional) = (from.u32()?, from.u8()?, from.u8()?, from.u8()?);
    from.skip(1)?;
    let (integrity, encryption, compression) = (from.u32()?, from.u32()?, from.u32()?);
    let family = if own == AF_UNSPEC { family } else { own };
    if ![IPPROTO_ESP, IPPROTO_AH, IPPROTO_COMP].contains(&protocol) {
        return Err(Refusal::invalid("a template for a protocol other than ESP, AH and IPComp"));
    }
    Ok(Template {
        destination: destination.of(family)?,
        source: source.of(family)?,
        spi,
        protocol,
        reqid,
        mode: read_mode(mode)?,
        share,
        optional: optional != 0,
        integrity,
        encryption,
        compression,
    })
}

pub(super) fn write_info(to: &mut Writer, state: &PolicyState) {
    let policy = &state.policy;
    write_selector(to, &policy.selector);
    write_lifetimes(to, &policy.lifetimes);
    write_counters(to, &state.counters);
    to.u32(policy.priority);
    to.u32(policy.index);
    to.u8(policy.direction as u8);
    to.u8(policy.action as u8);
    to.u8(policy.flags);
    to.u8(policy.share);
    to.zeros(4);
}

pub(super) fn write_attributes(to: &mut Writer, policy: &Policy) {
    if !policy.templates.is_empty() {
        to.attribute(XFRMA_TMPL, |to| policy.templates.iter().for_each(|template| write_template(to, template)));
    }
    write_kind(to, policy.kind);
    write_mark(to, policy.mark);
    if policy.if_id != 0 {
        to.attribute(XFRMA_IF_ID, |to| to.u32(policy.if_id));
    }
}

pub(super) fn write_kind(to: &mut Writer, kind: u8) {
    to.attribute(XFRMA_POLICY_TYPE, |to| {
        to.u8(kind);
        to.zeros(5);
    });
}

fn write_template(to: &mut Writer, template: &Template) {
    to.address(template.destination);
    to.be32(template.spi);
    to.u8(template.protocol);
    to.zeros(3);
    to.u16(family_of(template.destination));
    to.zeros(2);
    to.address(template.source);
    to.u32(template.reqid);
    to.u8(template.mode as u8);
    to.u8(template.share);
    to.u8(template.optional.into());
    to.zeros(1);
    to.u32(template.integrity);
    to.u32(template.encryption);
    to.u32(template.compression);
}

/// `struct xfrm_userpolicy_id` with its attributes. The selector counts only without an index.
pub(super) fn read_key(from: &mut Reader<'_>, attributes: &Attributes<'_>) -> Result<PolicyKey, Refusal> {
    let mut head = *from;
    from.skip(56)?;
    let (index, direction) = (from.u32()?, from.u8()?);
    from.skip(3)?;
    Ok(PolicyKey {
        direction: read_direction(direction)?,
        kind: read_kind(attributes)?,
        index,
        selector: read_selector(&mut head, AF_UNSPEC, index != 0)?,
        mark: read_mark(attributes)?.unwrap_or_default(),
        if_id: attributes.u32(XFRMA_IF_ID)?.unwrap_or_default(),
    })
}

pub(super) fn write_key(to: &mut Writer, key: &PolicyKey) {
    write_selector(to, &key.selector);
    to.u32(key.index);
    to.u8(key.direction as u8);
    to.zeros(3);
}
