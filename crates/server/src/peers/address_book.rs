//! Where the members are, and where this server listens for them. Names are resolved again at every attempt: addresses
//! change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use zebu_proto::ServerId;
use zebu_proto::quorum::election::ADDRESS_BYTES_MAX;
use zebu_zab::membership::Addresses;

use super::dial;
use super::unlisted::Unlisted;
use crate::config::ServerConfig;
use crate::config::membership::{Member, PeerAddress};
use crate::host_address::with_port;
use crate::peer_ports::{Endpoint, Interfaces, PeerPort, endpoints};

/// Members and strangers that are known at a time; ids are one byte of a session's.
const KNOWN_MAX: usize = 300;

/// The addresses of all members.
#[derive(Debug)]
pub(super) struct AddressBook {
    pub(super) me: ServerId,
    /// Where this server is, also while it is no member.
    own: Mutex<Vec<PeerAddress>>,
    members: Mutex<BTreeMap<ServerId, Vec<PeerAddress>>>,
    /// Where they are if what is proposed was decided meanwhile.
    proposed: Mutex<BTreeMap<ServerId, Vec<PeerAddress>>>,
    /// Where servers are that have called and are not in a list that never changes.
    unlisted: Mutex<Unlisted>,
    interfaces: Interfaces,
    /// How many of its addresses this server announces.
    announced: Addresses,
    observer_master_port: Option<u16>,
    connect_timeout: Duration,
}

impl AddressBook {
    pub(super) fn new(config: &ServerConfig) -> AddressBook {
        let membership = &config.membership;
        // The configuration of a member was refused without it.
        let me = membership.my_id.unwrap_or(ServerId(0));
        let book = AddressBook {
            me,
            own: Mutex::default(),
            members: Mutex::default(),
            proposed: Mutex::default(),
            unlisted: Mutex::default(),
            interfaces: Interfaces::of(config),
            announced: membership.peers.addresses,
            observer_master_port: membership.observers.master_port,
            connect_timeout: membership.peers.connect_timeout,
        };
        book.replace(&membership.members);
        book
    }

    /// From now on these are the members.
    pub(super) fn replace(&self, members: &BTreeMap<ServerId, Member>) {
        if let Some(own) = members.get(&self.me) {
            locked(&self.own).clone_from(&own.addresses);
        }
        *locked(&self.members) = members.iter().map(|(id, member)| (*id, member.addresses.clone())).collect();
        locked(&self.proposed).clear();
    }

    /// These may become the members.
    pub(super) fn propose(&self, members: &BTreeMap<ServerId, Member>) {
        *locked(&self.proposed) =
            members.iter().map(|(id, member)| (*id, member.addresses.clone())).collect();
    }

    /// Notes where somebody says that its election port is who is no member. Returns whether that makes sense.
    pub(super) fn meet(&self, stranger: ServerId, addresses: &[Box<str>]) -> bool {
        let mut members = locked(&self.members);
        if members.len() >= KNOWN_MAX {
            return false;
        }
        let said = addresses.iter().filter_map(|address| {
            let (host, port) = address.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some(PeerAddress { host, quorum_port: 0, election_port: port.parse().ok()? })
        });
        members.entry(stranger).or_insert_with(|| said.collect());
        true
    }

    /// Whether a server is a member, or may become one.
    pub(super) fn is_listed(&self, server: ServerId) -> bool {
        locked(&self.members).contains_key(&server) || locked(&self.proposed).contains_key(&server)
    }

    /// Notes a server that is not in the list, which never changes. Returns `false` if there are too many.
    pub(super) fn meet_unlisted(&self, server: ServerId, from: IpAddr, announced: &[Box<str>]) -> bool {
        locked(&self.unlisted).meet(server, from, announced)
    }

    pub(super) fn is_unlisted(&self, server: ServerId) -> bool {
        locked(&self.unlisted).contains(server)
    }

    pub(super) fn forget_unlisted(&self, server: ServerId) {
        locked(&self.unlisted).forget(server);
    }

    pub(super) fn others(&self) -> Vec<ServerId> {
        let mut all: BTreeSet<ServerId> = locked(&self.members).keys().copied().collect();
        all.extend(locked(&self.proposed).keys());
        all.remove(&self.me);
        all.into_iter().collect()
    }

    /// Whether a server is one of those that may connect. Their number is bounded.
    pub(super) fn knows(&self, server: ServerId) -> bool {
        self.is_listed(server) || self.is_unlisted(server)
    }

    /// Where this server listens; nowhere if a port has no number.
    pub(super) fn own_endpoints(&self, port: PeerPort) -> Vec<Endpoint> {
        if port == PeerPort::ObserverMaster && self.observer_master_port.is_none() {
            return Vec::new();
        }
        endpoints(&locked(&self.own), self.interfaces, |address| self.number(address, port))
    }

    /// What this server calls itself on the election port. Releases before 3.6 understand one address only.
    pub(super) fn own_election_texts(&self) -> Vec<Box<str>> {
        let own = locked(&self.own);
        let announced = match self.announced {
            Addresses::One => &own[..own.len().min(1)],
            Addresses::Many => &own[..],
        };
        let mut bytes = 0;
        let mut texts: Vec<Box<str>> = Vec::new();
        for address in announced {
            let text = with_port(&address.host, address.election_port);
            bytes += text.len() + 1;
            if bytes > ADDRESS_BYTES_MAX {
                break;
            }
            texts.push(text.into());
        }
        texts
    }

    fn number(&self, address: &PeerAddress, port: PeerPort) -> u16 {
        match port {
            PeerPort::Election => address.election_port,
            PeerPort::Quorum => address.quorum_port,
            PeerPort::ObserverMaster => self.observer_master_port.unwrap_or(0),
        }
    }

    /// Connects to a member, at the first of all its addresses that answers.
    pub(super) async fn connect(&self, to: ServerId, port: PeerPort) -> io::Result<TcpStream> {
        let mut addresses = locked(&self.members).get(&to).cloned().unwrap_or_default();
        addresses.extend(locked(&self.proposed).get(&to).cloned().unwrap_or_default());
        if addresses.is_empty() {
            addresses = locked(&self.unlisted).find(to);
        }
        let mut places: Vec<(String, u16)> = Vec::new();
        for address in addresses {
            let place = (address.host.clone(), self.number(&address, port));
            if !places.contains(&place) {
                places.push(place);
            }
        }
        dial::connect(places, self.connect_timeout).await
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use zebu_zab::membership::parse_member;

    use super::*;

    fn book(own: &str, addresses: Addresses) -> AddressBook {
        let mut config = ServerConfig::built_in();
        let membership = &mut config.membership;
        membership.my_id = Some(ServerId(1));
        membership.peers.addresses = addresses;
        membership.members.insert(ServerId(1), parse_member(own, Addresses::Many).unwrap());
        membership.members.insert(ServerId(2), parse_member("b:1:2", Addresses::One).unwrap());
        AddressBook::new(&config)
    }

    fn listed(book: &AddressBook, port: PeerPort) -> Vec<String> {
        book.own_endpoints(port).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_own_addresses_are_opened_and_announced() {
        let book = book("a:1:2|[fe80::1%eth0]:3:4", Addresses::Many);
        assert_eq!(listed(&book, PeerPort::Quorum), ["a:1", "[fe80::1%eth0]:3"]);
        assert_eq!(listed(&book, PeerPort::Election), ["a:2", "[fe80::1%eth0]:4"]);
        assert_eq!(listed(&book, PeerPort::ObserverMaster), [""; 0]);
        assert_eq!(book.own_election_texts(), [Box::from("a:2"), Box::from("[fe80::1%eth0]:4")]);
        assert!(book.knows(ServerId(2)) && !book.knows(ServerId(3)));
    }

    #[test]
    fn one_address_is_announced_unless_several_are_allowed() {
        let book = book("a:1:2|b:3:4", Addresses::One);
        assert_eq!(listed(&book, PeerPort::Quorum), ["a:1", "b:3"]);
        assert_eq!(book.own_election_texts(), [Box::from("a:2")]);
    }

    #[test]
    fn no_more_is_announced_than_a_message_holds() {
        let addresses: Vec<String> = (0..300).map(|number| format!("host{number:03}:1:2")).collect();
        let texts = book(&addresses.join("|"), Addresses::Many).own_election_texts();
        assert!(texts.join("|").len() <= ADDRESS_BYTES_MAX && texts.len() > 100, "{}", texts.len());
    }
}
