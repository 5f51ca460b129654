//! Numbers of `linux/netlink.h` and `linux/xfrm.h`, by the headers' names.
#![allow(missing_docs, reason = "the names are those of the headers, which say what they mean")]

pub const AF_UNSPEC: u16 = 0;
pub const AF_INET: u16 = 2;
pub const AF_INET6: u16 = 10;

pub const IPPROTO_ESP: u8 = 50;
pub const IPPROTO_AH: u8 = 51;
pub const IPPROTO_COMP: u8 = 108;

pub const NLMSG_ERROR: u16 = 2;
pub const NLMSG_DONE: u16 = 3;
/// Numbers below are netlink's own.
pub const NLMSG_MIN_TYPE: u16 = 0x10;

pub const NLM_F_REQUEST: u16 = 0x1;
pub const NLM_F_MULTI: u16 = 0x2;
pub const NLM_F_ACK: u16 = 0x4;
pub const NLM_F_REPLACE: u16 = 0x100;
pub const NLM_F_DUMP: u16 = 0x300;
pub const NLM_F_CAPPED: u16 = 0x100;
pub const NLM_F_ACK_TLVS: u16 = 0x200;
pub const NLMSGERR_ATTR_MSG: u16 = 1;
/// Bits of an attribute's type that are no part of its number: nested, and in network order.
pub const NLA_TYPE_MASK: u16 = 0x3fff;

pub const XFRM_MSG_NEWSA: u16 = 0x10;
pub const XFRM_MSG_DELSA: u16 = 0x11;
pub const XFRM_MSG_GETSA: u16 = 0x12;
pub const XFRM_MSG_NEWPOLICY: u16 = 0x13;
pub const XFRM_MSG_DELPOLICY: u16 = 0x14;
pub const XFRM_MSG_GETPOLICY: u16 = 0x15;
pub const XFRM_MSG_ALLOCSPI: u16 = 0x16;
pub const XFRM_MSG_ACQUIRE: u16 = 0x17;
pub const XFRM_MSG_EXPIRE: u16 = 0x18;
pub const XFRM_MSG_UPDPOLICY: u16 = 0x19;
pub const XFRM_MSG_UPDSA: u16 = 0x1a;
pub const XFRM_MSG_FLUSHSA: u16 = 0x1c;
pub const XFRM_MSG_FLUSHPOLICY: u16 = 0x1d;
pub const XFRM_MSG_NEWAE: u16 = 0x1e;
pub const XFRM_MSG_GETAE: u16 = 0x1f;
pub const XFRM_MSG_MIGRATE: u16 = 0x21;
pub const XFRM_MSG_NEWSADINFO: u16 = 0x22;
pub const XFRM_MSG_GETSADINFO: u16 = 0x23;
pub const XFRM_MSG_NEWSPDINFO: u16 = 0x24;
pub const XFRM_MSG_GETSPDINFO: u16 = 0x25;
pub const XFRM_MSG_MAPPING: u16 = 0x26;

pub const XFRMA_ALG_AUTH: u16 = 1;
pub const XFRMA_ALG_CRYPT: u16 = 2;
pub const XFRMA_ALG_COMP: u16 = 3;
pub const XFRMA_ENCAP: u16 = 4;
pub const XFRMA_TMPL: u16 = 5;
pub const XFRMA_SA: u16 = 6;
pub const XFRMA_POLICY: u16 = 7;
pub const XFRMA_LTIME_VAL: u16 = 9;
pub const XFRMA_REPLAY_VAL: u16 = 10;
pub const XFRMA_REPLAY_THRESH: u16 = 11;
pub const XFRMA_ETIMER_THRESH: u16 = 12;
pub const XFRMA_LASTUSED: u16 = 15;
pub const XFRMA_POLICY_TYPE: u16 = 16;
pub const XFRMA_ALG_AEAD: u16 = 18;
pub const XFRMA_ALG_AUTH_TRUNC: u16 = 20;
pub const XFRMA_MARK: u16 = 21;
pub const XFRMA_TFCPAD: u16 = 22;
pub const XFRMA_REPLAY_ESN_VAL: u16 = 23;
pub const XFRMA_SA_EXTRA_FLAGS: u16 = 24;
pub const XFRMA_PROTO: u16 = 25;
pub const XFRMA_ADDRESS_FILTER: u16 = 26;
pub const XFRMA_OFFLOAD_DEV: u16 = 28;
pub const XFRMA_SET_MARK: u16 = 29;
pub const XFRMA_SET_MARK_MASK: u16 = 30;
pub const XFRMA_IF_ID: u16 = 31;
pub const XFRMA_SA_DIR: u16 = 33;
pub const XFRMA_NAT_KEEPALIVE_INTERVAL: u16 = 34;

pub const XFRMA_SAD_CNT: u16 = 1;
pub const XFRMA_SAD_HINFO: u16 = 2;
pub const XFRMA_SPD_INFO: u16 = 1;
pub const XFRMA_SPD_HINFO: u16 = 2;
pub const XFRMA_SPD_IPV4_HTHRESH: u16 = 3;
pub const XFRMA_SPD_IPV6_HTHRESH: u16 = 4;

pub const XFRM_OFFLOAD_PACKET: u8 = 4;

pub const XFRM_AE_RTHR: u32 = 1;
pub const XFRM_AE_RVAL: u32 = 2;
pub const XFRM_AE_LVAL: u32 = 4;
pub const XFRM_AE_ETHR: u32 = 8;
pub const XFRM_AE_CU: u32 = 64;

pub const UDP_ENCAP_ESPINUDP: u16 = 2;

/// A limit that is none.
pub const XFRM_INF: u64 = u64::MAX;

pub const XFRMNLGRP_ACQUIRE: u32 = 1;
pub const XFRMNLGRP_EXPIRE: u32 = 2;
pub const XFRMNLGRP_SA: u32 = 3;
pub const XFRMNLGRP_POLICY: u32 = 4;
pub const XFRMNLGRP_AEVENTS: u32 = 5;
pub const XFRMNLGRP_MAPPING: u32 = 8;
