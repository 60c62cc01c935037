//! Servers that are in the configuration of one side only, while an ensemble gets other members by restarts with another
//! list. They are answered in elections and may learn; nothing that they say counts. A limited number of them is known
//! at a time, and they are called back only at the address that they called from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tracing::{info, warn};
use zebu_proto::ServerId;
use zebu_proto::quorum::{Notification, Packet};
use zebu_zab::{Configuration, LinkId};

use super::address_book::AddressBook;
use crate::config::membership::PeerAddress;

/// Servers at a time that are not in the configuration.
pub(super) const UNLISTED_MAX: usize = 32;

/// Where servers are that are not in the configuration.
#[derive(Debug, Default)]
pub(super) struct Unlisted {
    places: BTreeMap<ServerId, Vec<PeerAddress>>,
}

impl Unlisted {
    /// Notes a server that has called from an address and announces these. Returns `false` if there are too many.
    pub(super) fn meet(&mut self, server: ServerId, from: IpAddr, announced: &[Box<str>]) -> bool {
        if !self.places.contains_key(&server) && self.places.len() >= UNLISTED_MAX {
            return false;
        }
        self.places.insert(server, places(from, announced));
        true
    }

    pub(super) fn contains(&self, server: ServerId) -> bool {
        self.places.contains_key(&server)
    }

    pub(super) fn find(&self, server: ServerId) -> Vec<PeerAddress> {
        self.places.get(&server).cloned().unwrap_or_default()
    }

    pub(super) fn forget(&mut self, server: ServerId) {
        self.places.remove(&server);
    }
}

/// The announced ports, at the address that the call came from. Its quorum port is not announced.
fn places(from: IpAddr, announced: &[Box<str>]) -> Vec<PeerAddress> {
    let mut places: Vec<PeerAddress> = Vec::new();
    for address in announced {
        let Some(port) = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()) else { continue };
        if !places.iter().any(|place| place.election_port == port) {
            places.push(PeerAddress { host: from.to_string(), quorum_port: 0, election_port: port });
        }
    }
    places
}

/// Tells when a learner connects that is not in the configuration.
pub(super) fn report_learner(link: LinkId, packet: &Packet, book: &AddressBook) {
    if let Packet::FollowerInfo { info, .. } | Packet::ObserverInfo { info, .. } = packet
        && !book.is_listed(info.server)
    {
        info!(
            link = link.0,
            server = info.server.0,
            "a learner that is not in the configuration has connected; its acknowledgements do not count"
        );
    }
}

/// Tells when another server's configuration does not list this one. One for each connection.
#[derive(Debug)]
pub(super) struct OwnListing {
    me: ServerId,
    other: ServerId,
    /// The last text that was looked at.
    text: Box<str>,
}

impl OwnListing {
    pub(super) fn new(me: ServerId, other: ServerId) -> OwnListing {
        OwnListing { me, other, text: Box::default() }
    }

    /// Looks at the configuration that comes with a vote.
    pub(super) fn look_at(&mut self, notification: &Notification) {
        let Some(text) = &notification.config else { return };
        if *text == self.text {
            return;
        }
        self.text.clone_from(text);
        if !self.is_listed() {
            warn!(
                server = self.other.0,
                me = self.me.0,
                "the configuration of another server does not list this server: it does not count this server's \
                 votes and acknowledgements until it is restarted with a list that names it"
            );
        }
    }

    /// A text that names no server, or that cannot be read, says nothing.
    fn is_listed(&self) -> bool {
        Configuration::parse(&self.text).map_or(true, |configuration| {
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
        let mut unlisted = Unlisted::default();
        let addresses = announced(&["victim.example:3888", "[::1]:3889", "other:3888", "nothing", "x:99999"]);
        assert!(unlisted.meet(ServerId(4), FROM, &addresses));
        let at = |election_port| PeerAddress { host: "10.0.0.7".to_owned(), quorum_port: 0, election_port };
        assert_eq!(unlisted.find(ServerId(4)), [at(3888), at(3889)]);
        unlisted.forget(ServerId(4));
        assert!(!unlisted.contains(ServerId(4)));
        assert_eq!(unlisted.find(ServerId(4)), []);
    }

    #[test]
    fn only_so_many_are_known() {
        let mut unlisted = Unlisted::default();
        let met = (0..1000).filter(|&server| unlisted.meet(ServerId(server), FROM, &[])).count();
        assert_eq!(met, UNLISTED_MAX);
        assert!(unlisted.meet(ServerId(0), FROM, &[]), "it is known already");
    }

    #[test]
    fn a_configuration_that_names_others_does_not_list_this_server() {
        let listed =
            |text: &str| OwnListing { me: ServerId(4), other: ServerId(1), text: text.into() }.is_listed();
        assert!(!listed("server.1=a:1:2:participant\nversion=0"));
        assert!(listed("server.1=a:1:2:participant\nserver.4=d:1:2:participant\nversion=0"));
        assert!(listed("version=0"));
        assert!(listed("?"));
    }
}
