//! Processes as the kernel names them, and what is whose business.

/// A process as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number when it connected; zero for one that this process cannot see. It may have ended since, and the number may be another
    /// process's.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl Peer {
    /// Whether what concerns everybody is its business: root, and the service's own user.
    pub(crate) fn manages(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    /// Whether it may know of another process that is connected.
    pub(crate) fn may_see(&self, other: &Peer) -> bool {
        self.manages() || self.uid == other.uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_see_their_own_and_managers_all() {
        let own = rustix::process::geteuid().as_raw();
        let of = |uid| Peer { pid: 1, uid, gid: 0 };
        let (one, other) = (of(own.wrapping_add(1000)), of(own.wrapping_add(1001)));
        assert!([of(0), of(own)].iter().all(|manager| manager.manages() && manager.may_see(&one)));
        assert!(!one.manages() && one.may_see(&one) && !one.may_see(&other) && !one.may_see(&of(0)));
    }
}
