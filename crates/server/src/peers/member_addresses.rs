//! The IP addresses of the configured servers, for the places that peer ports reserve. Literals come
//! from the config, addresses of names from the last lookup. They prove no identity.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use zebu_proto::ServerId;

#[derive(Debug, Default)]
pub(super) struct MemberAddresses {
    literals: BTreeSet<IpAddr>,
    /// Bounded by the servers of the config and by the addresses of one lookup.
    resolved: BTreeMap<ServerId, Vec<IpAddr>>,
}

impl MemberAddresses {
    /// Replaces the servers and hosts. Addresses of servers that are gone are forgotten.
    pub(super) fn set(&mut self, servers: &BTreeSet<ServerId>, hosts: &[String]) {
        self.literals = hosts.iter().filter_map(|host| host.parse().ok()).map(canonical).collect();
        self.resolved.retain(|server, _| servers.contains(server));
    }

    /// Stores the addresses of a lookup. The caller knows that the server is configured.
    pub(super) fn set_resolved(&mut self, server: ServerId, addresses: impl Iterator<Item = SocketAddr>) {
        let addresses: Vec<IpAddr> = addresses.map(|address| canonical(address.ip())).collect();
        // A lookup that fails keeps the addresses of the last one.
        if !addresses.is_empty() {
            self.resolved.insert(server, addresses);
        }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let address = canonical(address);
        self.literals.contains(&address) || self.resolved.values().any(|known| known.contains(&address))
    }
}

/// An IPv4 address that a socket of IPv6 reports is the IPv4 address.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
