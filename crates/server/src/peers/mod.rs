//! The other members of the ensemble: the election port, the quorum port, and the links between a leader and
//! its learners. It carries what the brain says and brings what the others say; it decides nothing.

mod acceptor;
mod address_book;
mod arrivals;
mod behind_state;
mod close_report;
mod dial;
mod election;
mod link;
mod links;
mod log_feed;
mod outbox;
mod silence;
mod state_stream;
mod sync_report;
#[cfg(test)]
mod tests;
mod unidentified;
mod unlisted;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use zebu_node::Order;
use zebu_proto::Zxid;
use zebu_storage::Directories;
use zebu_tree::Tree;
use zebu_zab::{Configuration, Door, Event, LinkId, LogPurpose, Serving};

use crate::inbox::Urgent;
use crate::peer_ports::PeerPort;
use crate::serve_error::ServeError;
use crate::shared::Shared;
use acceptor::Acceptor;
use address_book::AddressBook;
use election::Election;
use links::Links;
use log_feed::Wanted;

/// The way to the other members.
pub(crate) struct Peers {
    runtime: Handle,
    book: Arc<AddressBook>,
    election: Arc<Election>,
    links: Arc<Links>,
    doors: Mutex<Doors>,
}

/// Who listens on the ports of this server.
struct Doors {
    election: JoinHandle<()>,
    quorum: JoinHandle<()>,
    /// Open only while this server follows, as ZooKeeper has it.
    observers: Option<JoinHandle<()>>,
}

impl Peers {
    /// Opens both ports and starts to listen. Must be called inside the runtime.
    pub(crate) async fn open(shared: Arc<Shared>) -> Result<Peers, ServeError> {
        let book = Arc::new(AddressBook::new(&shared.config));
        let retries = shared.config.membership.peers.bind_retries;
        let open = |port| Acceptor::open(port, book.own_endpoints(port), retries);
        let election_port = open(PeerPort::Election).await?;
        let quorum_port = open(PeerPort::Quorum).await?;
        let election = Arc::new(Election::new(shared.clone(), book.clone()));
        let links = Arc::new(Links::new(shared, book.clone()));
        let doors = Doors {
            election: tokio::spawn(election.listen(election_port)),
            quorum: tokio::spawn(links.clone().listen(quorum_port, Door::Quorum)),
            observers: None,
        };
        Ok(Peers { runtime: Handle::current(), book, election, links, doors: Mutex::new(doors) })
    }

    /// These may become the members.
    pub(crate) fn propose(&self, configuration: &Configuration) {
        let _context = self.runtime.enter();
        self.book.propose(&configuration.members);
        self.election.members_changed();
    }

    /// From now on these are the members.
    pub(crate) fn reconfigure(&self, configuration: &Configuration) {
        let _context = self.runtime.enter();
        let own = |port| self.book.own_endpoints(port);
        let before = (own(PeerPort::Election), own(PeerPort::Quorum));
        self.book.replace(&configuration.members);
        self.election.members_changed();
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let after = (own(PeerPort::Election), own(PeerPort::Quorum));
        if before.0 != after.0 {
            doors.election.abort();
            let election = self.election.clone();
            let reopened = Acceptor::reopen(PeerPort::Election, after.0);
            doors.election = tokio::spawn(async move { election.listen(reopened.await).await });
        }
        if before.1 != after.1 {
            doors.quorum.abort();
            let links = self.links.clone();
            let reopened = Acceptor::reopen(PeerPort::Quorum, after.1);
            doors.quorum = tokio::spawn(async move { links.listen(reopened.await, Door::Quorum).await });
        }
    }

    /// This server serves in another way, or not any more: observers find it only while it follows.
    pub(crate) fn serves(&self, serving: Option<Serving>) {
        let _context = self.runtime.enter();
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(observers) = doors.observers.take() {
            observers.abort();
        }
        let endpoints = self.book.own_endpoints(PeerPort::ObserverMaster);
        if matches!(serving, Some(Serving::Following { .. })) && !endpoints.is_empty() {
            let links = self.links.clone();
            let reopened = Acceptor::reopen(PeerPort::ObserverMaster, endpoints);
            let listen = async move { links.listen(reopened.await, Door::ObserverMaster).await };
            doors.observers = Some(tokio::spawn(listen));
        }
    }

    /// Carries out an order that concerns the network; returns any other.
    pub(crate) fn perform(&self, order: Order) -> Option<Order> {
        let _context = self.runtime.enter();
        match order {
            Order::Notify { to, notification } => self.election.send(to, &notification),
            Order::Dial { link, to, door } => self.links.dial(link, to, door),
            Order::Send { link, packet } => {
                sync_report::sent(link, &packet, self.links.metrics());
                self.links.send(link, packet);
            }
            Order::Close { link, reason } => {
                close_report::closed(link, &reason);
                self.links.close(link);
            }
            Order::StreamSnapshot { link, .. } => self.links.stream(link),
            Order::DiscardSnapshot { link } => drop(self.links.take_received(link)),
            Order::ReadLog { .. }
            | Order::Disk(_)
            | Order::Remember { .. }
            | Order::Locate { .. }
            | Order::Activate { .. }
            | Order::Report(_)
            | Order::Serve(_)
            | Order::ServeReadOnly
            | Order::StopServing => return Some(order),
        }
        None
    }

    /// Lets everything leave that was sent since the last time.
    pub(crate) fn flush(&self) {
        self.links.flush();
    }

    /// Reads old transactions for a learner, beside everything else.
    pub(crate) fn read_log(
        &self,
        shared: &Arc<Shared>,
        directories: &Directories,
        link: LinkId,
        (after, up_to): (Zxid, Zxid),
        purpose: LogPurpose,
    ) {
        let (shared, directories, links) = (shared.clone(), directories.clone(), self.links.clone());
        let wanted = Wanted { link, after, up_to, purpose };
        self.runtime.spawn_blocking(move || {
            let read = links.log_feed().read(&wanted, &directories, &shared);
            // It may have ended meanwhile; whichever of the two comes last leaves nothing behind.
            if !links.is_open(link) {
                links.log_feed().forget(link);
            }
            shared.inbox.push_urgent(Urgent::Peer(Event::LogRead { link, read }));
        });
    }

    /// The state that came on a link.
    pub(crate) fn take_received(&self, link: LinkId) -> Option<Tree> {
        self.links.take_received(link)
    }
}
