//! Client connections per remote address: their number, and the credentials that they share at
//! first.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use zebu_tree::Credentials;

/// The remote addresses with at least one connection.
#[derive(Debug, Default)]
pub(crate) struct AddressLimits {
    addresses: Mutex<HashMap<IpAddr, AddressUse, foldhash::fast::RandomState>>,
}

#[derive(Debug)]
struct AddressUse {
    connections: u32,
    credentials: Credentials,
}

impl AddressLimits {
    /// Counts a connection and returns its first credentials, or `None` if the address has `max`
    /// connections. Every admitted connection calls `release` at its end.
    pub(super) fn admit(&self, address: IpAddr, max: Option<u32>) -> Option<Credentials> {
        let mut known = self.lock();
        let known = known
            .entry(address)
            .or_insert_with(|| AddressUse { connections: 0, credentials: Credentials::of_peer(address) });
        if max.is_some_and(|max| known.connections >= max) {
            return None;
        }
        known.connections += 1;
        Some(known.credentials.clone())
    }

    /// Uncounts a connection that ended.
    pub(super) fn release(&self, address: IpAddr) {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(&address) {
            known.connections -= 1;
            if known.connections == 0 {
                all.remove(&address);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressUse, foldhash::fast::RandomState>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn each_address_has_its_share_and_nothing_stays_of_it() {
        let (here, there) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from([10, 0, 0, 7]));
        let all = AddressLimits::default();
        let admit = |address| all.admit(address, Some(2)).is_some();
        assert_eq!((admit(here), admit(here), admit(here), admit(there)), (true, true, false, true));
        all.release(here);
        assert_eq!((admit(here), admit(here)), (true, false));
        for address in [here, here, there] {
            all.release(address);
        }
        assert!(all.lock().is_empty());
    }

    #[test]
    fn connections_of_one_address_begin_as_the_same_client() {
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let all = AddressLimits::default();
        let mut first = all.admit(address, None).unwrap();
        let second = all.admit(address, None).unwrap();
        assert!(first.iter().eq(&Credentials::of_peer(address)));
        first.add(zebu_proto::Id::new("digest", "a:b"));
        assert!(second.iter().eq(&Credentials::of_peer(address)), "what one adds is its own");
    }
}
