//! What an interface is called, how long its packets are, and its offloads, which have to be off where each packet counts.

use std::io;
use std::os::fd::OwnedFd;

use crate::system::{interface_ioctl, interface_request, socket};

/// An interface as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number in its network namespace.
    pub index: u32,
    /// Octets of its longest packet, without link headers.
    pub mtu: usize,
    /// Whether its packets go without link addresses, as those of tunnels and point-to-point links do.
    pub without_neighbours: bool,
}

/// What the interface of this name is now, in the network namespace of the calling thread.
///
/// # Errors
/// `NotFound` or what the kernel says, with the name.
pub fn find(name: &str) -> io::Result<Interface> {
    let control = control_socket()?;
    let index = ask(&control, name, libc::SIOCGIFINDEX, "there is no interface")?;
    // SAFETY: the kernel has written the index.
    let index = unsafe { index.ifr_ifru.ifru_ifindex };
    let mtu = ask(&control, name, libc::SIOCGIFMTU, "the MTU is not known of")?;
    // SAFETY: the kernel has written the MTU.
    let mtu = unsafe { mtu.ifr_ifru.ifru_mtu };
    let flags = ask(&control, name, libc::SIOCGIFFLAGS, "the flags are not known of")?;
    // SAFETY: the kernel has written the flags.
    let flags = i32::from(unsafe { flags.ifr_ifru.ifru_flags });
    Ok(Interface {
        index: index as u32,
        mtu: usize::try_from(mtu).unwrap_or(0),
        without_neighbours: flags & (libc::IFF_NOARP | libc::IFF_POINTOPOINT) != 0,
    })
}

/// Sets the octets of an interface's longest packet.
///
/// # Errors
/// What the kernel says, with the name.
pub fn set_mtu(name: &str, mtu: usize) -> io::Result<()> {
    let control = control_socket()?;
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_mtu = i32::try_from(mtu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the kernel reads the name and the MTU.
    let done = unsafe { interface_ioctl(&control, libc::SIOCSIFMTU, &mut request) };
    done.map_err(|error| named(error, "the MTU cannot be set of", name))
}

/// Sets an interface up or down.
///
/// # Errors
/// What the kernel says, with the name.
pub fn set_up(name: &str, up: bool) -> io::Result<()> {
    let control = control_socket()?;
    let mut request = ask(&control, name, libc::SIOCGIFFLAGS, "the flags are not known of")?;
    // SAFETY: the kernel has written the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let bit = libc::IFF_UP as libc::c_short;
    request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
    // SAFETY: the kernel reads the name and the flags.
    let done = unsafe { interface_ioctl(&control, libc::SIOCSIFFLAGS, &mut request) };
    done.map_err(|error| named(error, "cannot be set up or down:", name))
}

/// An offload: its name, and the commands of `linux/ethtool.h` that ask for it and set it.
struct Offload {
    name: &'static str,
    ask: u32,
    set: u32,
    /// The bits that say it is on.
    bits: u32,
}

/// In the order in which they are turned off: segmentation needs checksums, which the kernel takes off last.
const OFFLOADS: &[Offload] = &[
    Offload { name: "generic receive offload", ask: 0x2b, set: 0x2c, bits: 1 },
    Offload { name: "large receive offload", ask: 0x25, set: 0x26, bits: 1 << 15 },
    Offload { name: "TCP segmentation offload", ask: 0x1e, set: 0x1f, bits: 1 },
    Offload { name: "generic segmentation offload", ask: 0x23, set: 0x24, bits: 1 },
    Offload { name: "transmit checksum offload", ask: 0x16, set: 0x17, bits: 1 },
];

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Turns off what joins, cuts or leaves unfinished the packets of an interface: receive offloads, segmentation offloads and transmit checksums.
///
/// On a virtual Ethernet pair what comes out at one end has the form that the *other* end's offloads gave it, so both are prepared.
///
/// # Errors
/// Names what is still on, and why.
pub fn prepare_interface(name: &str) -> io::Result<()> {
    let control = control_socket()?;
    let mut still_on = Vec::new();
    for offload in OFFLOADS {
        // An interface that cannot be asked has no such offload.
        let Ok(data) = ethtool(&control, name, offload.ask, 0) else { continue };
        if data & offload.bits == 0 {
            continue;
        }
        let set = ethtool(&control, name, offload.set, data & !offload.bits);
        let after = ethtool(&control, name, offload.ask, 0)?;
        if after & offload.bits != 0 {
            let why = set.err().map_or("the interface keeps it".to_owned(), |error| error.to_string());
            still_on.push(format!("{} ({why})", offload.name));
        }
    }
    // An interface that is not there has nothing turned on either.
    find(name)?;
    if still_on.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("{name} still has {}", still_on.join(", "))))
}

/// Asks for or sets one of ethtool's values.
fn ethtool(control: &OwnedFd, name: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut request = interface_request(name)?;
    let mut value = Value { command, data };
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the commands of `OFFLOADS` read and write one `ethtool_value`, which `ifru_data` points to.
    unsafe { interface_ioctl(control, libc::SIOCETHTOOL as libc::Ioctl, &mut request) }?;
    Ok(value.data)
}

/// A socket for requests about interfaces of this thread's network namespace.
fn control_socket() -> io::Result<OwnedFd> {
    socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
}

/// One of the requests that only ask by name.
fn ask(control: &OwnedFd, name: &str, code: libc::Ioctl, what: &str) -> io::Result<libc::ifreq> {
    let mut request = interface_request(name)?;
    // SAFETY: the callers' codes read the name and write a number into the request.
    unsafe { interface_ioctl(control, code, &mut request) }.map_err(|error| named(error, what, name))?;
    Ok(request)
}

fn named(error: io::Error, what: &str, name: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found() {
        let found = find("lo").unwrap();
        assert!(found.index > 0);
        assert!(found.mtu >= 1500);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = find("cm-none").unwrap_err();
        assert!(error.to_string().contains("cm-none"), "{error}");
        assert!(prepare_interface("cm-none").is_err());
        for name in ["", "a-name-that-is-too-long", "a\0b"] {
            assert_eq!(find(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
