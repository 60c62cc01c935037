//! Where the members are. Names are resolved again at every attempt: addresses change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use zebu_proto::ServerId;

use super::unlisted::Unlisted;
use crate::config::ServerConfig;
use crate::config::membership::{Member, PeerAddress};

/// Members and strangers that are known at a time; ids are one byte of a session's.
const KNOWN_MAX: usize = 300;

/// Which port of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Election,
    Quorum,
    /// Where followers serve observers: the same number everywhere.
    ObserverMaster,
}

/// The addresses of all members.
#[derive(Debug)]
pub(super) struct AddressBook {
    pub(super) me: ServerId,
    /// Where this server is, also while it is no member.
    own: Mutex<Option<PeerAddress>>,
    members: Mutex<BTreeMap<ServerId, Vec<PeerAddress>>>,
    /// Where they are if what is proposed was decided meanwhile.
    proposed: Mutex<BTreeMap<ServerId, Vec<PeerAddress>>>,
    /// Where servers are that have called and are not in a list that never changes.
    unlisted: Mutex<Unlisted>,
    listen_everywhere: bool,
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
            listen_everywhere: membership.listen_on_all_addresses,
            observer_master_port: membership.observers.master_port,
            connect_timeout: membership.election_connect_timeout,
        };
        book.replace(&membership.members);
        book
    }

    /// From now on these are the members.
    pub(super) fn replace(&self, members: &BTreeMap<ServerId, Member>) {
        if let Some(own) = members.get(&self.me).and_then(|member| member.addresses.first()) {
            *locked(&self.own) = Some(own.clone());
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

    pub(super) fn own_election(&self) -> (String, u16) {
        self.own(|address| address.election_port)
    }

    pub(super) fn own_quorum(&self) -> (String, u16) {
        self.own(|address| address.quorum_port)
    }

    /// Where this server serves observers while it follows, if it is to.
    pub(super) fn own_observer_master(&self) -> Option<(String, u16)> {
        self.observer_master_port.map(|port| self.own(|_| port))
    }

    fn own(&self, port: impl Fn(&PeerAddress) -> u16) -> (String, u16) {
        let own = locked(&self.own);
        let host = match &*own {
            Some(address) if !self.listen_everywhere => address.host.clone(),
            _ => "0.0.0.0".to_owned(),
        };
        (host, own.as_ref().map_or(0, port))
    }

    /// What this server calls itself on the election port.
    pub(super) fn own_election_text(&self) -> Box<str> {
        let own = locked(&self.own);
        let Some(PeerAddress { host, election_port: port, .. }) = &*own else { return "".into() };
        if host.contains(':') { format!("[{host}]:{port}").into() } else { format!("{host}:{port}").into() }
    }

    /// Connects to a member, at the first of its addresses that answers.
    pub(super) async fn connect(&self, to: ServerId, port: Port) -> io::Result<TcpStream> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the server is not in the configuration");
        let mut addresses = locked(&self.members).get(&to).cloned().unwrap_or_default();
        addresses.extend(locked(&self.proposed).get(&to).cloned().unwrap_or_default());
        addresses.dedup();
        if addresses.is_empty() {
            addresses = locked(&self.unlisted).find(to);
        }
        for address in addresses {
            let number = match port {
                Port::Election => address.election_port,
                Port::Quorum => address.quorum_port,
                Port::ObserverMaster => self.observer_master_port.unwrap_or(0),
            };
            let attempt = TcpStream::connect((address.host.as_str(), number));
            match timeout(self.connect_timeout, attempt).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failure)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
