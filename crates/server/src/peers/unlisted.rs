//! Servers that only one side's static config lists, while an ensemble changes its servers by
//! rolling restarts.
//!
//! They get replies in elections and may learn, but their votes and acks do not count. Their number
//! is bounded. They are dialed only at the address that they connected from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tracing::{info, warn};
use zebu_proto::ServerId;
use zebu_proto::quorum::{Notification, Packet};
use zebu_zab::{Configuration, LinkId};

use super::address_book::AddressBook;
use crate::config::membership::PeerAddress;

/// Most unlisted servers at a time.
pub(super) const UNLISTED_MAX: usize = 32;

/// The addresses of unlisted servers.
#[derive(Debug, Default)]
pub(super) struct UnlistedServers {
    addresses: BTreeMap<ServerId, Vec<PeerAddress>>,
}

impl UnlistedServers {
    /// Stores a server by the address that it connected from and its announced ports. Returns
    /// `false` if there are too many.
    pub(super) fn remember(&mut self, server: ServerId, from: IpAddr, announced: &[Box<str>]) -> bool {
        if !self.addresses.contains_key(&server) && self.addresses.len() >= UNLISTED_MAX {
            return false;
        }
        self.addresses.insert(server, addresses_at(from, announced));
        true
    }

    pub(super) fn contains(&self, server: ServerId) -> bool {
        self.addresses.contains_key(&server)
    }

    pub(super) fn addresses_of(&self, server: ServerId) -> Vec<PeerAddress> {
        self.addresses.get(&server).cloned().unwrap_or_default()
    }

    pub(super) fn remove(&mut self, server: ServerId) {
        self.addresses.remove(&server);
    }
}

/// Combines the announced election ports with the remote address. The quorum port is not announced.
fn addresses_at(from: IpAddr, announced: &[Box<str>]) -> Vec<PeerAddress> {
    let mut addresses: Vec<PeerAddress> = Vec::new();
    for address in announced {
        let Some(port) = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()) else { continue };
        if !addresses.iter().any(|address| address.election_port == port) {
            addresses.push(PeerAddress { host: from.to_string(), quorum_port: 0, election_port: port });
        }
    }
    addresses
}

/// Logs that an unlisted learner has connected.
pub(super) fn log_unlisted_learner(link: LinkId, packet: &Packet, address_book: &AddressBook) {
    if let Packet::FollowerInfo { info, .. } | Packet::ObserverInfo { info, .. } = packet
        && !address_book.is_listed(info.server)
    {
        info!(
            link = link.0,
            server = info.server.0,
            "a learner that is not in the configuration has connected; its acknowledgements do not count"
        );
    }
}

/// Logs that a peer's config does not list this server. One per connection.
#[derive(Debug)]
pub(super) struct ListingCheck {
    me: ServerId,
    other: ServerId,
    /// The last config text that was checked.
    last_config: Box<str>,
}

impl ListingCheck {
    pub(super) fn new(me: ServerId, other: ServerId) -> ListingCheck {
        ListingCheck { me, other, last_config: Box::default() }
    }

    /// Checks the config that comes with a vote.
    pub(super) fn check(&mut self, notification: &Notification) {
        let Some(text) = &notification.config else { return };
        if *text == self.last_config {
            return;
        }
        self.last_config.clone_from(text);
        if !self.is_listed() {
            warn!(
                server = self.other.0,
                me = self.me.0,
                "the configuration of another server does not list this server: it does not count this server's \
                 votes and acknowledgements until it is restarted with a list that names it"
            );
        }
    }

    /// A config that names no server or is unreadable counts as listing this server.
    fn is_listed(&self) -> bool {
        Configuration::parse(&self.last_config).map_or(true, |configuration| {
            configuration.members.is_empty() || configuration.members.contains_key(&self.me)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

    fn announced(addresses: &[&str]) -> Vec<Box<str>> {
        addresses.iter().map(|address| Box::from(*address)).collect()
    }

    #[test]
    fn a_call_goes_back_to_where_it_came_from() {
        let mut unlisted = UnlistedServers::default();
        let addresses = announced(&["victim.example:3888", "[::1]:3889", "other:3888", "nothing", "x:99999"]);
        assert!(unlisted.remember(ServerId(4), FROM, &addresses));
        let at = |election_port| PeerAddress { host: "10.0.0.7".to_owned(), quorum_port: 0, election_port };
        assert_eq!(unlisted.addresses_of(ServerId(4)), [at(3888), at(3889)]);
        unlisted.remove(ServerId(4));
        assert!(!unlisted.contains(ServerId(4)));
        assert_eq!(unlisted.addresses_of(ServerId(4)), []);
    }

    #[test]
    fn only_so_many_are_known() {
        let mut unlisted = UnlistedServers::default();
        let met = (0..1000).filter(|&server| unlisted.remember(ServerId(server), FROM, &[])).count();
        assert_eq!(met, UNLISTED_MAX);
        assert!(unlisted.remember(ServerId(0), FROM, &[]), "it is known already");
    }

    #[test]
    fn a_configuration_that_names_others_does_not_list_this_server() {
        let listed = |text: &str| {
            ListingCheck { me: ServerId(4), other: ServerId(1), last_config: text.into() }.is_listed()
        };
        assert!(!listed("server.1=a:1:2:participant\nversion=0"));
        assert!(listed("server.1=a:1:2:participant\nserver.4=d:1:2:participant\nversion=0"));
        assert!(listed("version=0"));
        assert!(listed("?"));
    }
}
