//! Bytes read and written one field after another, in the order of a C structure on a 64-bit processor.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zeroize::Zeroizing;

use crate::constants::{AF_INET, AF_INET6};
use crate::refusal::Refusal;

/// Most bytes of a datagram that is written: strongSwan reads into one page.
pub(crate) const DATAGRAM_MAX: usize = 4096;

const SHORT: Refusal = Refusal::invalid("a structure is shorter than it has to be");

/// The rest of a structure.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn skip(&mut self, len: usize) -> Result<(), Refusal> {
        self.take(len).map(|_| ())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Refusal> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Refusal> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Refusal> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Refusal> {
        self.array().map(u64::from_ne_bytes)
    }

    /// In network order, as ports are.
    pub(crate) fn be16(&mut self) -> Result<u16, Refusal> {
        self.array().map(u16::from_be_bytes)
    }

    /// In network order, as SPIs are.
    pub(crate) fn be32(&mut self) -> Result<u32, Refusal> {
        self.array().map(u32::from_be_bytes)
    }

    /// The 16 bytes of `xfrm_address_t`, whose family stands elsewhere.
    pub(crate) fn address(&mut self) -> Result<RawAddress, Refusal> {
        self.array().map(RawAddress)
    }
}

/// An address before its family is known.
#[derive(Clone, Copy)]
pub(crate) struct RawAddress([u8; 16]);

impl RawAddress {
    /// The address of a family, which has to be IPv4 or IPv6.
    pub(crate) fn of(self, family: u16) -> Result<IpAddr, Refusal> {
        let [a, b, c, d, ..] = self.0;
        match family {
            AF_INET => Ok(Ipv4Addr::new(a, b, c, d).into()),
            AF_INET6 => Ok(Ipv6Addr::from(self.0).into()),
            _ => Err(Refusal::invalid("an address family that is neither IPv4 nor IPv6")),
        }
    }
}

/// `AF_INET` or `AF_INET6`.
pub(crate) fn family_of(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

/// One message or datagram in the making. Its bytes are wiped when it goes; it has room for the longest from the beginning, so
/// that no key stays behind in memory that it grew out of.
pub(crate) struct Writer {
    bytes: Zeroizing<Vec<u8>>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(DATAGRAM_MAX)) }
    }

    pub(crate) fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn zeros(&mut self, count: usize) {
        let len = self.bytes.len() + count;
        self.bytes.resize(len, 0);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_ne_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_ne_bytes());
    }

    pub(crate) fn be16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn be32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(four) => {
                self.bytes(&four.octets());
                self.zeros(12);
            }
            IpAddr::V6(six) => self.bytes(&six.octets()),
        }
    }

    /// To the boundary of four bytes that messages and attributes begin at.
    pub(crate) fn align(&mut self) {
        self.zeros(self.bytes.len().next_multiple_of(4) - self.bytes.len());
    }

    /// An attribute with what `content` writes.
    pub(crate) fn attribute(&mut self, kind: u16, content: impl FnOnce(&mut Self)) {
        let begin = self.bytes.len();
        self.u16(0);
        self.u16(kind);
        content(self);
        let len = self.bytes.len() - begin;
        self.patch(begin, &u16::try_from(len).unwrap_or(u16::MAX).to_ne_bytes());
        self.align();
    }

    /// Writes over what stands at `at`.
    pub(crate) fn patch(&mut self, at: usize, with: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + with.len()) {
            place.copy_from_slice(with);
        }
    }
}
