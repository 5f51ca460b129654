//! Packets from and to a TUN device: what the host sends to it is received here, and what is sent here the host receives
//! (`Documentation/networking/tuntap.rst`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use crate::system::{interface_ioctl, interface_request, wait_readable, wait_writable};
use crate::{PACKET_LEN_MAX, Received, Sent, Sink, Source, interface, ip, packet_at};

/// Packets that a source hands out in one call.
pub const BURST_MAX: usize = 256;
/// Octets of the shortest packet that every link carries whole (RFC 791, section 3.2).
pub const MTU_MIN: usize = 68;
/// How long a call of a sink waits for room.
const WAIT: Duration = Duration::from_millis(1);

/// Makes a TUN device, or attaches to a persistent one of that name, sets its MTU and sets it up. The device is gone when both ends are.
///
/// # Errors
/// `InvalidInput` for a name or an MTU that cannot be; what the kernel says: `PermissionDenied` without `CAP_NET_ADMIN`.
pub fn open(name: &str, mtu: usize) -> io::Result<(TunSource, TunSink)> {
    if !(MTU_MIN..=PACKET_LEN_MAX).contains(&mtu) {
        let message = format!("a device has packets of {MTU_MIN} to {PACKET_LEN_MAX} octets");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let options = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let fd = OwnedFd::from(options.map_err(|error| named(error, "/dev/net/tun"))?);
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the kernel reads name and flags, and writes the name.
    unsafe { interface_ioctl(&fd, libc::TUNSETIFF, &mut request) }.map_err(|error| named(error, name))?;
    interface::set_mtu(name, mtu)?;
    interface::set_up(name, true)?;
    let sink = TunSink { file: File::from(fd.try_clone()?), mtu, counters: Sent::default() };
    let buffer = vec![0; PACKET_LEN_MAX].into_boxed_slice();
    Ok((TunSource { file: File::from(fd), buffer, waiting: 0, counters: Received::default() }, sink))
}

/// What the host sends to a device.
///
/// [`Received::no_room`] stays zero: what the kernel drops before us is in the device's own statistics alone, as `tx_dropped`.
#[derive(Debug)]
pub struct TunSource {
    file: File,
    buffer: Box<[u8]>,
    /// Octets of the packet in `buffer` that was refused; 0 if none was.
    waiting: usize,
    counters: Received,
}

impl TunSource {
    /// Reads the next packet into the buffer. None if there is none.
    fn read(&mut self) -> io::Result<Option<usize>> {
        loop {
            match self.file.read(&mut self.buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Source for TunSource {
    fn receive(&mut self, wait: Duration, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<usize> {
        let (mut taken, mut has_waited) = (0, wait.is_zero());
        for _ in 0..BURST_MAX {
            let read = if self.waiting > 0 { Some(std::mem::take(&mut self.waiting)) } else { self.read()? };
            let read = match read {
                None if taken == 0 && !has_waited => {
                    has_waited = true;
                    if !wait_readable(&self.file, wait)? {
                        break;
                    }
                    self.read()?
                }
                read => read,
            };
            let Some(len) = read else { break };
            let octets = self.buffer.get(..len).unwrap_or(&[]);
            let Some(packet) = ip::packet_len(octets).and_then(|len| octets.get(..len)) else {
                self.counters.not_ip += 1;
                continue;
            };
            if !take(packet) {
                self.waiting = len;
                break;
            }
            self.counters.packets += 1;
            self.counters.octets += packet.len() as u64;
            taken += 1;
        }
        Ok(taken)
    }

    fn counters(&self) -> Received {
        self.counters
    }
}

/// What the host receives from a device.
#[derive(Debug)]
pub struct TunSink {
    file: File,
    mtu: usize,
    counters: Sent,
}

impl TunSink {
    /// Writes one packet, waiting for room until `until` at most. False if there was none.
    fn write(&mut self, packet: &[u8], until: Instant) -> io::Result<bool> {
        loop {
            match self.file.write(packet) {
                // A device takes a packet whole or not at all.
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() || !wait_writable(&self.file, left)? {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Sink for TunSink {
    fn send(&mut self, buffer: &[u8], packets: &[[u32; 2]]) -> io::Result<usize> {
        let until = Instant::now() + WAIT;
        let mut left = 0;
        for (at, pair) in packets.iter().enumerate() {
            let packet = packet_at(buffer, *pair)?;
            if ip::packet_len(packet) != Some(packet.len()) {
                self.counters.not_ip += 1;
            } else if packet.len() > self.mtu {
                self.counters.too_long += 1;
            } else {
                match self.write(packet, until) {
                    Ok(true) => {
                        self.counters.packets += 1;
                        self.counters.octets += packet.len() as u64;
                        left += 1;
                    }
                    Ok(false) => self.counters.no_room += 1,
                    // The kernel would not have this packet (EINVAL); anything else is the device's end.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.counters.refused += 1,
                    Err(error) => {
                        self.counters.refused += (packets.len() - at) as u64;
                        return Err(error);
                    }
                }
            }
        }
        Ok(left)
    }

    fn counters(&self) -> Sent {
        self.counters
    }
}

fn named(error: io::Error, name: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        for mtu in [67, 65_536] {
            assert_eq!(open("cm0", mtu).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
