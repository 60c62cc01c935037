//! Connections per remote address: how many there are, and as whom they begin, which is the same for all of them.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use zebu_tree::Credentials;

/// The addresses from which there are connections.
#[derive(Debug, Default)]
pub(crate) struct PerAddress {
    known: Mutex<HashMap<IpAddr, Known, foldhash::fast::RandomState>>,
}

#[derive(Debug)]
struct Known {
    connections: u32,
    credentials: Credentials,
}

impl PerAddress {
    /// Counts a connection unless there are too many already; returns as whom it begins. Whoever is admitted leaves.
    pub(super) fn admit(&self, address: IpAddr, max: Option<u32>) -> Option<Credentials> {
        let mut known = self.lock();
        let known = known
            .entry(address)
            .or_insert_with(|| Known { connections: 0, credentials: Credentials::of_peer(address) });
        if max.is_some_and(|max| known.connections >= max) {
            return None;
        }
        known.connections += 1;
        Some(known.credentials.clone())
    }

    /// A connection is gone.
    pub(super) fn leave(&self, address: IpAddr) {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(&address) {
            known.connections -= 1;
            if known.connections == 0 {
                all.remove(&address);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Known, foldhash::fast::RandomState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_address_has_its_share_and_nothing_stays_of_it() {
        let (here, there) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from([10, 0, 0, 7]));
        let all = PerAddress::default();
        let admit = |address| all.admit(address, Some(2)).is_some();
        assert_eq!((admit(here), admit(here), admit(here), admit(there)), (true, true, false, true));
        all.leave(here);
        assert_eq!((admit(here), admit(here)), (true, false));
        for address in [here, here, there] {
            all.leave(address);
        }
        assert!(all.lock().is_empty());
    }

    #[test]
    fn connections_of_one_address_begin_as_the_same_client() {
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let all = PerAddress::default();
        let mut first = all.admit(address, None).unwrap();
        let second = all.admit(address, None).unwrap();
        assert!(first.iter().eq(&Credentials::of_peer(address)));
        first.add(zebu_proto::Id::new("digest", "a:b"));
        assert!(second.iter().eq(&Credentials::of_peer(address)), "what one adds is its own");
    }
}
