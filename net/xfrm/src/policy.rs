//! Policies in plain words (`struct xfrm_userpolicy_info` and what goes with it).

use std::net::IpAddr;

use crate::association::{Counters, Lifetimes, Mark, Mode};
use crate::selector::Selector;

/// Most templates of a policy (`XFRM_MAX_DEPTH`).
pub const TEMPLATES_MAX: usize = 6;

/// Which packets a policy looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// To this machine.
    In = 0,
    /// From it, or through it before they are protected.
    Out = 1,
    /// Through it, after they were unprotected.
    Forward = 2,
}

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// They pass as the templates say, or as they are where there is none.
    Allow = 0,
    /// They are dropped.
    Block = 1,
}

/// An association that a policy's packets need (`struct xfrm_user_tmpl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// The tunnel's end; unspecified where any does.
    pub destination: IpAddr,
    /// Its beginning; unspecified where any does.
    pub source: IpAddr,
    /// The SPI; 0 for any.
    pub spi: u32,
    /// The protocol: 50 for ESP.
    pub protocol: u8,
    /// The association's `reqid`; 0 for any.
    pub reqid: u32,
    /// How packets are wrapped.
    pub mode: Mode,
    /// Who may share the association (`XFRM_SHARE_…`).
    pub share: u8,
    /// Packets on the way in may do without.
    pub optional: bool,
    /// Bits of the MACs that do, by the numbers of PF_KEY; all ones for any.
    pub integrity: u32,
    /// Bits of the ciphers that do.
    pub encryption: u32,
    /// Bits of the compressions that do.
    pub compression: u32,
}

/// A policy, as a daemon installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which packets it is for.
    pub selector: Selector,
    /// Where it looks at them.
    pub direction: Direction,
    /// 0 for the main table, 1 for the other (`XFRM_POLICY_TYPE_…`).
    pub kind: u8,
    /// What becomes of them.
    pub action: Action,
    /// Smaller ones come first.
    pub priority: u32,
    /// The kernel's number for it, whose lowest three bits are the direction; 0 while it has none.
    pub index: u32,
    /// Bits of `XFRM_POLICY_LOCALOK` and `XFRM_POLICY_ICMP`.
    pub flags: u8,
    /// Who may share it.
    pub share: u8,
    /// How long it lives.
    pub lifetimes: Lifetimes,
    /// What its packets need; all of them, from the inside outwards.
    pub templates: Vec<Template>,
    /// Which marks find it.
    pub mark: Option<Mark>,
    /// The XFRM interface it belongs to; 0 for none.
    pub if_id: u32,
}

impl Policy {
    /// What tells it from others.
    #[must_use]
    pub fn key(&self) -> PolicyKey {
        PolicyKey {
            direction: self.direction,
            kind: self.kind,
            index: 0,
            selector: self.selector,
            mark: self.mark.unwrap_or_default(),
            if_id: self.if_id,
        }
    }
}

/// A policy with what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyState {
    /// The policy, with its index.
    pub policy: Policy,
    /// What it has let through; `used` is the last time, which daemons look at to find idle peers.
    pub counters: Counters,
}

/// A policy that is asked for: by index, or by what else tells policies apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyKey {
    /// Which way its packets go.
    pub direction: Direction,
    /// Which table it is in.
    pub kind: u8,
    /// Its number; 0 if the selector says which is meant.
    pub index: u32,
    /// Its selector.
    pub selector: Selector,
    /// Its mark.
    pub mark: Mark,
    /// Its XFRM interface.
    pub if_id: u32,
}

impl PolicyKey {
    /// Whether that is the policy.
    #[must_use]
    pub fn names(&self, policy: &Policy) -> bool {
        self.direction == policy.direction
            && self.kind == policy.kind
            && self.if_id == policy.if_id
            && self.mark == policy.mark.unwrap_or_default()
            && if self.index == 0 { self.selector == policy.selector } else { self.index == policy.index }
    }
}

/// How prefixes are hashed (`XFRMA_SPD_IPV4_HTHRESH`): kept and told again, since nothing here hashes that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Bits of local and remote prefixes of IPv4.
    pub ipv4: (u8, u8),
    /// The same of IPv6.
    pub ipv6: (u8, u8),
}

impl Default for Thresholds {
    /// Linux's own.
    fn default() -> Self {
        Self { ipv4: (32, 32), ipv6: (128, 128) }
    }
}
