//! Network namespaces for tests and labs: hosts with interfaces, addresses and routes of their own on one machine, made and removed by the
//! program itself.
//!
//! They are made by the program `ip` (iproute2), as named ones: it takes care of how `/run/netns` is mounted, people can look into them
//! with the same program, and addresses and routes have to be set by it anyway. Entering one is a system call on a thread of its own.
//!
//! Every name begins with [`PREFIX`] and the lab's name, and nothing else is ever removed.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::interface;

/// The switch by which a namespace forwards packets of IPv4.
const IP_FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// What the name of every namespace begins with that is made or removed here.
pub const PREFIX: &str = "ciphermill";
/// Letters of the longest name of a lab or of a namespace in it.
pub const NAME_LEN_MAX: usize = 32;
/// Namespaces of a lab.
pub const NAMESPACES_MAX: usize = 64;
/// Where named namespaces are (`ip-netns(8)`).
const FOLDER: &str = "/run/netns";

/// Whether this process may make network namespaces. If not, the error says why.
///
/// # Errors
/// No `ip`, no right to make namespaces, or none in this kernel. Tests print it and say that they have not run.
pub fn can_have_namespaces() -> io::Result<()> {
    let name = format!("probe{}x{:?}", std::process::id(), std::thread::current().id());
    let name = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let lab = Builder::new(&name.to_ascii_lowercase())?.namespace("one").up()?;
    lab.within("one", || interface::find("lo").map(|_| ()))?
}

/// One end of a pair of virtual Ethernet interfaces.
#[derive(Clone, Debug)]
pub struct End {
    namespace: String,
    interface: String,
    addresses: Vec<String>,
    link: Option<[u8; 6]>,
    keeps_offloads: bool,
}

impl End {
    /// An interface in a namespace of the lab.
    #[must_use]
    pub fn new(namespace: &str, interface: &str) -> End {
        End {
            namespace: namespace.to_owned(),
            interface: interface.to_owned(),
            addresses: Vec::new(),
            link: None,
            keeps_offloads: false,
        }
    }

    /// With an address of its own and the length of the network's prefix.
    #[must_use]
    pub fn address(mut self, address: IpAddr, prefix_len: u8) -> End {
        self.addresses.push(format!("{address}/{prefix_len}"));
        self
    }

    /// With this link address.
    #[must_use]
    pub fn link(mut self, address: [u8; 6]) -> End {
        self.link = Some(address);
        self
    }

    /// With the offloads that the kernel turns on by itself, which are turned off otherwise.
    #[must_use]
    pub fn keeping_offloads(mut self) -> End {
        self.keeps_offloads = true;
        self
    }
}

/// A step that a lab is built by.
#[derive(Clone, Debug)]
enum Step {
    Namespace(String),
    Pair(Box<[End; 2]>, usize),
    Route { namespace: String, network: String, via: IpAddr },
    Neighbour { namespace: String, interface: String, address: IpAddr, link: [u8; 6] },
    Forwarding(String),
}

/// A lab to be built.
#[derive(Clone, Debug)]
pub struct Builder {
    lab: String,
    steps: Vec<Step>,
}

impl Builder {
    /// A lab of this name: small letters and digits.
    ///
    /// # Errors
    /// `InvalidInput` for another name.
    pub fn new(lab: &str) -> io::Result<Builder> {
        check_name(lab)?;
        Ok(Builder { lab: lab.to_owned(), steps: Vec::new() })
    }

    /// With a namespace, whose loopback interface is up.
    #[must_use]
    pub fn namespace(mut self, name: &str) -> Builder {
        self.steps.push(Step::Namespace(name.to_owned()));
        self
    }

    /// With a pair of interfaces that are joined, for packets of at most `mtu` octets.
    #[must_use]
    pub fn pair(mut self, one: End, other: End, mtu: usize) -> Builder {
        self.steps.push(Step::Pair(Box::new([one, other]), mtu));
        self
    }

    /// With a route: a network as `ip-route(8)` writes it, or `default`.
    #[must_use]
    pub fn route(mut self, namespace: &str, network: &str, via: IpAddr) -> Builder {
        self.steps.push(Step::Route { namespace: namespace.to_owned(), network: network.to_owned(), via });
        self
    }

    /// With a neighbour whose link address is not asked for.
    #[must_use]
    pub fn neighbour(mut self, namespace: &str, interface: &str, address: IpAddr, link: [u8; 6]) -> Builder {
        let (namespace, interface) = (namespace.to_owned(), interface.to_owned());
        self.steps.push(Step::Neighbour { namespace, interface, address, link });
        self
    }

    /// With a namespace that forwards packets between its interfaces.
    #[must_use]
    pub fn forwarding(mut self, namespace: &str) -> Builder {
        self.steps.push(Step::Forwarding(namespace.to_owned()));
        self
    }

    /// Builds the lab. What was built until an error is removed again.
    ///
    /// # Errors
    /// No `ip`, no right, a name that is taken, or what `ip` says of a step.
    pub fn up(&self) -> io::Result<Lab> {
        if !rustix::process::geteuid().is_root() {
            let message = "network namespaces need root (CAP_NET_ADMIN and CAP_SYS_ADMIN)";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let mut lab = Lab { name: self.lab.clone(), namespaces: Vec::new() };
        for step in &self.steps {
            lab.build(step)?;
        }
        Ok(lab)
    }
}

/// A lab that is there, and removed when this value is dropped.
#[derive(Debug)]
pub struct Lab {
    name: String,
    /// Those that this value has made, by their full names.
    namespaces: Vec<String>,
}

impl Lab {
    /// The full name of a namespace, as `ip netns` has it.
    #[must_use]
    pub fn full_name(&self, namespace: &str) -> String {
        full_name(&self.name, namespace)
    }

    /// Runs something on a thread in a namespace and returns what it returns. Sockets stay in the namespace that they were opened in, so what is
    /// opened there can be used anywhere.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    ///
    /// # Panics
    /// If `run` does.
    pub fn within<T: Send>(&self, namespace: &str, run: impl FnOnce() -> T + Send) -> io::Result<T> {
        let path = Path::new(FOLDER).join(self.full_name(namespace));
        let file = File::open(&path).map_err(|error| named(&error, &path.display().to_string()))?;
        enter(&file, run).map_err(|error| named(&error, &path.display().to_string()))
    }

    /// A command that will run a program in a namespace; arguments are added by the caller.
    #[must_use]
    pub fn command(&self, namespace: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.full_name(namespace), program]);
        command
    }

    /// Leaves the lab there when this value is dropped; [`remove`] ends it.
    pub fn keep(mut self) {
        self.namespaces.clear();
    }

    fn build(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Namespace(name) => self.build_namespace(name),
            Step::Pair(ends, mtu) => self.build_pair(ends, *mtu),
            Step::Route { namespace, network, via } => {
                run("ip", &["-n", &self.full_name(namespace), "route", "add", network, "via", &via.to_string()])
            }
            Step::Neighbour { namespace, interface, address, link } => {
                let (name, address) = (self.full_name(namespace), address.to_string());
                let link = link_text(link);
                let arguments =
                    ["neighbour", "replace", &address, "lladdr", &link, "dev", interface, "nud", "permanent"];
                run("ip", &[&["-n", &name], &arguments[..]].concat())
            }
            Step::Forwarding(namespace) => self.set_forwarding(namespace, "1"),
        }
    }

    fn set_forwarding(&self, namespace: &str, value: &str) -> io::Result<()> {
        self.within(namespace, || {
            let switches = [IP_FORWARD, "/proc/sys/net/ipv6/conf/all/forwarding"];
            switches.iter().try_for_each(|path| std::fs::write(path, value).map_err(|error| named(&error, path)))
        })?
    }

    fn build_namespace(&mut self, name: &str) -> io::Result<()> {
        check_name(name)?;
        if self.namespaces.len() >= NAMESPACES_MAX {
            let message = format!("a lab has at most {NAMESPACES_MAX} namespaces");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let full = self.full_name(name);
        run("ip", &["netns", "add", &full])?;
        // From here on it is ours to remove: one that was there before made `ip` fail.
        self.namespaces.push(full.clone());
        run("ip", &["-n", &full, "link", "set", "dev", "lo", "up"])?;
        // A new namespace may have what the first one has (`net.core.devconf_inherit_init_net`).
        let forwards = self.within(name, || std::fs::read_to_string(IP_FORWARD))?;
        if forwards.is_ok_and(|value| value.trim() != "0") { self.set_forwarding(name, "0") } else { Ok(()) }
    }

    fn build_pair(&self, ends: &[End; 2], mtu: usize) -> io::Result<()> {
        let [one, other] = ends;
        let (here, there) = (self.full_name(&one.namespace), self.full_name(&other.namespace));
        let mtu = mtu.to_string();
        let arguments =
            ["link", "add", "name", &one.interface, "mtu", &mtu, "type", "veth", "peer", "name", &other.interface];
        run("ip", &[&["-n", &here], &arguments[..], &["mtu", &mtu, "netns", &there]].concat())?;
        for (end, number) in ends.iter().zip(1..) {
            let name = self.full_name(&end.namespace);
            let set = ["-n", &name, "link", "set", "dev", &end.interface];
            // The kernel makes no addresses of its own accord, and sends little that would lie among what is measured.
            run("ip", &[&set[..], &["addrgenmode", "none"]].concat())?;
            if let Some(link) = &end.link {
                run("ip", &[&set[..], &["address", &link_text(link)]].concat())?;
            }
            let mut addresses = end.addresses.clone();
            if addresses.iter().any(|address| address.contains(':')) {
                // Neighbours are looked for from a link-local address (RFC 4861, section 4.3), which would look for routers too.
                addresses.push(format!("fe80::{number}/64"));
                let path = format!("/proc/sys/net/ipv6/conf/{}/router_solicitations", end.interface);
                self.within(&end.namespace, || std::fs::write(&path, "0"))?.map_err(|error| named(&error, &path))?;
            }
            for address in &addresses {
                let add = ["-n", &name, "address", "add", address, "dev", &end.interface];
                // Duplicates are not looked for, which would take a second; IPv4 knows no such thing.
                let more: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
                run("ip", &[&add[..], more].concat())?;
            }
            if !end.keeps_offloads {
                self.within(&end.namespace, || interface::prepare_interface(&end.interface))??;
            }
        }
        for end in ends {
            run("ip", &["-n", &self.full_name(&end.namespace), "link", "set", "dev", &end.interface, "up"])?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in &self.namespaces {
            // What cannot be removed stays for `remove`, which says why.
            let _removed = run("ip", &["netns", "delete", name]);
        }
    }
}

/// Removes all namespaces of a lab, whoever made them, and returns how many there were.
///
/// # Errors
/// A name that no lab has, or what `ip` says.
pub fn remove(lab: &str) -> io::Result<usize> {
    check_name(lab)?;
    let prefix = full_name(lab, "");
    let mut removed = 0;
    let folder = match std::fs::read_dir(FOLDER) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(named(&error, FOLDER)),
    };
    for entry in folder {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.strip_prefix(&prefix).is_some_and(|rest| check_name(rest).is_ok()) {
            run("ip", &["netns", "delete", name])?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Runs something on a thread in a network namespace that a file stands for.
pub(crate) fn enter<T: Send>(namespace: &File, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    let entered = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok::<T, rustix::io::Errno>(run())
        });
        thread.join()
    });
    match entered {
        Ok(entered) => Ok(entered?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn full_name(lab: &str, namespace: &str) -> String {
    format!("{PREFIX}-{lab}-{namespace}")
}

/// Names have no hyphens, so that the lab `a` has none of the namespaces of the lab `a-b`.
fn check_name(name: &str) -> io::Result<()> {
    let is_good = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.bytes().all(is_good) {
        let message = format!("{name:?} is no name: 1 to {NAME_LEN_MAX} small letters and digits");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

fn link_text(link: &[u8; 6]) -> String {
    link.map(|octet| format!("{octet:02x}")).join(":")
}

/// Runs a program of iproute2; what it says on its error output becomes the error.
pub(crate) fn run(program: &str, arguments: &[&str]) -> io::Result<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| named(&error, &format!("the program {program} (iproute2)")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {}: {}", arguments.join(" "), said.trim())))
}

fn named(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["", "a-b", "A", "../x", "a b", "a123456789b123456789c123456789d123"] {
            assert!(Builder::new(name).is_err(), "{name}");
            assert!(remove(name).is_err(), "{name}");
        }
        assert!(check_name("left0").is_ok());
        assert_eq!(link_text(&[2, 0, 0, 0, 0xab, 1]), "02:00:00:00:ab:01");
    }
}
