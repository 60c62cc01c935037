//! The addresses of the peers, and the endpoints on which this server listens for them. Names are
//! resolved at every attempt, because addresses change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use zebu_proto::ServerId;
use zebu_proto::quorum::election::ADDRESS_BYTES_MAX;
use zebu_zab::membership::MultiAddress;

use super::dial;
use super::member_addresses::MemberAddresses;
use super::unidentified::Standing;
use super::unlisted::UnlistedServers;
use crate::config::ServerConfig;
use crate::config::membership::{PeerAddress, ServerSpec};
use crate::ports::host_address::format_host_port;
use crate::ports::peer_ports::{Endpoint, ListenInterfaces, PeerPort, endpoints};

/// Most servers known at a time, listed or not. A server id is one byte of a session id.
const KNOWN_MAX: usize = 300;

#[derive(Debug)]
pub(super) struct AddressBook {
    pub(super) me: ServerId,
    /// The addresses of this server, also while it is not in the config.
    own_addresses: Mutex<Vec<PeerAddress>>,
    members: Mutex<BTreeMap<ServerId, Vec<PeerAddress>>>,
    /// The hosts of the committed config only. `members` also has servers that announced themselves.
    configured_hosts: Mutex<BTreeMap<ServerId, Vec<String>>>,
    /// The addresses in the proposed config, which may have been committed meanwhile.
    proposed: Mutex<BTreeMap<ServerId, Vec<PeerAddress>>>,
    /// The addresses of the servers in the committed and in the proposed config.
    member_addresses: Mutex<MemberAddresses>,
    /// Servers that connected and are not in a static config.
    unlisted: Mutex<UnlistedServers>,
    interfaces: ListenInterfaces,
    /// Whether this server announces one or all of its addresses.
    announced_addresses: MultiAddress,
    observer_master_port: Option<u16>,
    connect_timeout: Duration,
}

impl AddressBook {
    pub(super) fn new(config: &ServerConfig) -> AddressBook {
        let membership = &config.membership;
        // The configuration of an ensemble member without an id was refused.
        let me = membership.my_id.unwrap_or(ServerId(0));
        let address_book = AddressBook {
            me,
            own_addresses: Mutex::default(),
            members: Mutex::default(),
            configured_hosts: Mutex::default(),
            proposed: Mutex::default(),
            member_addresses: Mutex::default(),
            unlisted: Mutex::default(),
            interfaces: ListenInterfaces::of(config),
            announced_addresses: membership.peers.address_support,
            observer_master_port: membership.observers.master_port,
            connect_timeout: membership.peers.connect_timeout,
        };
        address_book.set_members(&membership.members);
        address_book
    }

    /// Replaces the servers by those of a committed config.
    pub(super) fn set_members(&self, members: &BTreeMap<ServerId, ServerSpec>) {
        if let Some(own) = members.get(&self.me) {
            lock(&self.own_addresses).clone_from(&own.addresses);
        }
        *lock(&self.configured_hosts) =
            members.iter().map(|(id, member)| (*id, hosts_of(&member.addresses))).collect();
        *lock(&self.members) = members.iter().map(|(id, member)| (*id, member.addresses.clone())).collect();
        lock(&self.proposed).clear();
        self.update_member_addresses();
    }

    /// Sets the servers of a proposed config.
    pub(super) fn set_proposed(&self, members: &BTreeMap<ServerId, ServerSpec>) {
        *lock(&self.proposed) = members.iter().map(|(id, member)| (*id, member.addresses.clone())).collect();
        self.update_member_addresses();
    }

    /// Servers that only announced themselves are no members here.
    fn update_member_addresses(&self) {
        let mut servers: BTreeSet<ServerId> = lock(&self.configured_hosts).keys().copied().collect();
        servers.extend(lock(&self.proposed).keys());
        lock(&self.member_addresses).set(&servers, &self.all_hosts());
    }

    /// The standing of a connection that comes from this address.
    pub(super) fn standing_of(&self, from: IpAddr) -> Standing {
        if lock(&self.member_addresses).contains(from) { Standing::MemberAddress } else { Standing::Stranger }
    }

    /// Stores the announced election addresses of a server that is not in the config. Returns
    /// `false` if too many servers are known.
    pub(super) fn remember_address(&self, server: ServerId, addresses: &[Box<str>]) -> bool {
        let mut members = lock(&self.members);
        if members.len() >= KNOWN_MAX {
            return false;
        }
        let said = addresses.iter().filter_map(|address| {
            let (host, port) = address.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some(PeerAddress { host, quorum_port: 0, election_port: port.parse().ok()? })
        });
        members.entry(server).or_insert_with(|| said.collect());
        true
    }

    /// Whether the committed or the proposed config lists a server.
    pub(super) fn is_listed(&self, server: ServerId) -> bool {
        lock(&self.members).contains_key(&server) || lock(&self.proposed).contains_key(&server)
    }

    /// The hosts of one server in the committed and in the proposed config.
    pub(super) fn hosts_of(&self, server: ServerId) -> Vec<String> {
        let mut hosts = lock(&self.configured_hosts).get(&server).cloned().unwrap_or_default();
        hosts.extend(
            lock(&self.proposed).get(&server).map(|addresses| hosts_of(addresses)).unwrap_or_default(),
        );
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// The hosts of all servers in the committed and in the proposed config.
    pub(super) fn all_hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> = lock(&self.configured_hosts).values().flatten().cloned().collect();
        lock(&self.proposed).values().for_each(|addresses| hosts.extend(hosts_of(addresses)));
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// Stores a server that is not in the static config. Returns `false` if there are too many.
    pub(super) fn remember_unlisted(&self, server: ServerId, from: IpAddr, announced: &[Box<str>]) -> bool {
        lock(&self.unlisted).remember(server, from, announced)
    }

    pub(super) fn is_unlisted(&self, server: ServerId) -> bool {
        lock(&self.unlisted).contains(server)
    }

    pub(super) fn forget_unlisted(&self, server: ServerId) {
        lock(&self.unlisted).remove(server);
    }

    pub(super) fn others(&self) -> Vec<ServerId> {
        let mut all: BTreeSet<ServerId> = lock(&self.members).keys().copied().collect();
        all.extend(lock(&self.proposed).keys());
        all.remove(&self.me);
        all.into_iter().collect()
    }

    /// Whether a server may connect. The number of known servers is bounded.
    pub(super) fn is_known(&self, server: ServerId) -> bool {
        self.is_listed(server) || self.is_unlisted(server)
    }

    /// The endpoints on which this server listens; none for an observer master port that is off.
    pub(super) fn own_endpoints(&self, port: PeerPort) -> Vec<Endpoint> {
        if port == PeerPort::ObserverMaster && self.observer_master_port.is_none() {
            return Vec::new();
        }
        endpoints(&lock(&self.own_addresses), self.interfaces, |address| self.port_number(address, port))
    }

    /// The addresses that this server announces on the election port. Releases before 3.6
    /// understand only one.
    pub(super) fn own_election_addresses(&self) -> Vec<Box<str>> {
        let own = lock(&self.own_addresses);
        let announced = match self.announced_addresses {
            MultiAddress::Disabled => &own[..own.len().min(1)],
            MultiAddress::Enabled => &own[..],
        };
        let mut bytes = 0;
        let mut texts: Vec<Box<str>> = Vec::new();
        for address in announced {
            let text = format_host_port(&address.host, address.election_port);
            bytes += text.len() + 1;
            if bytes > ADDRESS_BYTES_MAX {
                break;
            }
            texts.push(text.into());
        }
        texts
    }

    fn port_number(&self, address: &PeerAddress, port: PeerPort) -> u16 {
        match port {
            PeerPort::Election => address.election_port,
            PeerPort::Quorum => address.quorum_port,
            PeerPort::ObserverMaster => self.observer_master_port.unwrap_or(0),
        }
    }

    /// Connects to a server at the first of its addresses that answers.
    pub(super) async fn connect(&self, to: ServerId, port: PeerPort) -> io::Result<TcpStream> {
        let mut addresses = lock(&self.members).get(&to).cloned().unwrap_or_default();
        addresses.extend(lock(&self.proposed).get(&to).cloned().unwrap_or_default());
        if addresses.is_empty() {
            addresses = lock(&self.unlisted).addresses_of(to);
        }
        let mut hosts: Vec<(String, u16)> = Vec::new();
        for address in addresses {
            let host_port = (address.host.clone(), self.port_number(&address, port));
            if !hosts.contains(&host_port) {
                hosts.push(host_port);
            }
        }
        let dialed = dial::resolve(hosts, self.connect_timeout).await;
        if !self.hosts_of(to).is_empty() {
            lock(&self.member_addresses).set_resolved(to, dialed.addresses());
        }
        dialed.connect(self.connect_timeout).await
    }
}

/// Host names and literals without the zone of an interface, which no certificate has.
fn hosts_of(addresses: &[PeerAddress]) -> Vec<String> {
    let bare = |host: &str| host.split_once('%').map_or(host, |(bare, _)| bare).to_owned();
    addresses.iter().map(|address| bare(&address.host)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use zebu_zab::membership::parse_server_spec;

    use super::*;

    fn address_book(own: &str, addresses: MultiAddress) -> AddressBook {
        let mut config = ServerConfig::built_in();
        let membership = &mut config.membership;
        membership.my_id = Some(ServerId(1));
        membership.peers.address_support = addresses;
        membership.members.insert(ServerId(1), parse_server_spec(own, MultiAddress::Enabled).unwrap());
        membership.members.insert(ServerId(2), parse_server_spec("b:1:2", MultiAddress::Disabled).unwrap());
        AddressBook::new(&config)
    }

    fn listed(address_book: &AddressBook, port: PeerPort) -> Vec<String> {
        address_book.own_endpoints(port).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_own_addresses_are_opened_and_announced() {
        let address_book = address_book("a:1:2|[fe80::1%eth0]:3:4", MultiAddress::Enabled);
        assert_eq!(listed(&address_book, PeerPort::Quorum), ["a:1", "[fe80::1%eth0]:3"]);
        assert_eq!(listed(&address_book, PeerPort::Election), ["a:2", "[fe80::1%eth0]:4"]);
        assert_eq!(listed(&address_book, PeerPort::ObserverMaster), [""; 0]);
        assert_eq!(address_book.own_election_addresses(), [Box::from("a:2"), Box::from("[fe80::1%eth0]:4")]);
        assert!(address_book.is_known(ServerId(2)) && !address_book.is_known(ServerId(3)));
    }

    #[test]
    fn one_address_is_announced_unless_several_are_allowed() {
        let address_book = address_book("a:1:2|b:3:4", MultiAddress::Disabled);
        assert_eq!(listed(&address_book, PeerPort::Quorum), ["a:1", "b:3"]);
        assert_eq!(address_book.own_election_addresses(), [Box::from("a:2")]);
    }

    #[test]
    fn no_more_is_announced_than_a_message_holds() {
        let addresses: Vec<String> = (0..300).map(|number| format!("host{number:03}:1:2")).collect();
        let texts = address_book(&addresses.join("|"), MultiAddress::Enabled).own_election_addresses();
        assert!(texts.join("|").len() <= ADDRESS_BYTES_MAX && texts.len() > 100, "{}", texts.len());
    }
}
