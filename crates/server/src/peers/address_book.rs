//! Where the members are. Names are resolved again at every attempt: addresses change.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use zebu_proto::ServerId;

use crate::config::ServerConfig;
use crate::config::membership::PeerAddress;

/// Which port of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Election,
    Quorum,
}

/// The addresses of all members.
#[derive(Debug)]
pub(super) struct AddressBook {
    pub(super) me: ServerId,
    members: BTreeMap<ServerId, Vec<PeerAddress>>,
    listen_everywhere: bool,
    connect_timeout: Duration,
}

impl AddressBook {
    pub(super) fn new(config: &ServerConfig) -> AddressBook {
        let membership = &config.membership;
        let members = membership.members.iter().map(|(id, member)| (*id, member.addresses.clone())).collect();
        AddressBook {
            // The configuration of a member was refused without it.
            me: membership.my_id.unwrap_or(ServerId(0)),
            members,
            listen_everywhere: membership.listen_on_all_addresses,
            connect_timeout: membership.election_connect_timeout,
        }
    }

    pub(super) fn others(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.members.keys().copied().filter(|id| *id != self.me)
    }

    pub(super) fn own_election(&self) -> (String, u16) {
        self.own(|address| address.election_port)
    }

    pub(super) fn own_quorum(&self) -> (String, u16) {
        self.own(|address| address.quorum_port)
    }

    fn own(&self, port: impl Fn(&PeerAddress) -> u16) -> (String, u16) {
        let own = self.members.get(&self.me).and_then(|addresses| addresses.first());
        let host = match own {
            Some(address) if !self.listen_everywhere => address.host.clone(),
            _ => "0.0.0.0".to_owned(),
        };
        (host, own.map_or(0, port))
    }

    /// What this server calls itself on the election port.
    pub(super) fn own_election_text(&self) -> Box<str> {
        let Some(address) = self.members.get(&self.me).and_then(|addresses| addresses.first()) else {
            return "".into();
        };
        let host = &address.host;
        let port = address.election_port;
        if host.contains(':') { format!("[{host}]:{port}").into() } else { format!("{host}:{port}").into() }
    }

    /// Connects to a member, at the first of its addresses that answers.
    pub(super) async fn connect(&self, to: ServerId, port: Port) -> io::Result<TcpStream> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the server is not in the configuration");
        for address in self.members.get(&to).into_iter().flatten() {
            let number = match port {
                Port::Election => address.election_port,
                Port::Quorum => address.quorum_port,
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
