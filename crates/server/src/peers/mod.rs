//! Connections to the peers of the ensemble: the election port, the quorum port, and the links
//! between a leader and its learners. It sends packets for the core and delivers received ones, and
//! takes no decision about Zab.

mod acceptor;
mod address_book;
mod close_log;
mod dial;
mod election;
mod incoming;
mod introduction;
pub(crate) mod learner_links;
mod link;
mod links;
mod log_feed;
mod member_addresses;
mod outbox;
mod panics;
mod peer_sasl;
mod peer_stream;
mod peer_tls;
mod protected_accept;
mod protection;
pub(crate) mod quorum_dialer;
mod read_gate;
mod sync_log;
#[cfg(test)]
mod tests;
mod unanswered_votes;
mod unidentified;
mod unlisted;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use zebu_storage::Directories;
use zebu_tree::Tree;
use zebu_zab::{Configuration, LearnerPort, LinkId, PeerEffect, PeerEvent, ServingRole};

use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::panic_guard::PanicGuard;
use crate::ports::peer_ports::PeerPort;
use crate::serve_error::ServeError;
use acceptor::PeerAcceptor;
use address_book::AddressBook;
use election::ElectionPort;
use links::Links;
use log_feed::LogReadRequest;
use panics::CloseOnPanic;
use peer_tls::PeerTls;

/// Executes effects of the core on the network.
pub(crate) struct Peers {
    shared: Arc<ServerContext>,
    runtime: Handle,
    address_book: Arc<AddressBook>,
    election: Arc<ElectionPort>,
    links: Arc<Links>,
    listeners: Mutex<PeerListeners>,
}

/// The listener tasks of this server's ports.
struct PeerListeners {
    election: JoinHandle<()>,
    quorum: JoinHandle<()>,
    /// Open only while this server follows, as in ZooKeeper.
    observer_master: Option<JoinHandle<()>>,
}

impl Peers {
    /// Opens both ports and starts to listen. The caller must be inside the runtime.
    pub(crate) async fn open(shared: Arc<ServerContext>) -> Result<Peers, ServeError> {
        let address_book = Arc::new(AddressBook::new(&shared.config));
        let retries = shared.config.membership.peers.bind_retries;
        let open = |port| PeerAcceptor::open(port, address_book.own_endpoints(port), retries);
        let tls = PeerTls::open(&shared.config.security.quorum_tls, &address_book)?;
        if let Some(tls) = &tls {
            shared.protection.set_quorum_tls(tls.family());
        }
        let election_port = open(PeerPort::Election).await?;
        let quorum_port = open(PeerPort::Quorum).await?;
        let election = Arc::new(ElectionPort::new(shared.clone(), address_book.clone(), tls.clone()));
        let links = Arc::new(Links::new(shared.clone(), address_book.clone(), tls));
        links.protection().log_settings();
        let listeners = PeerListeners {
            election: listener(&shared, PeerPort::Election, election.listen(election_port)),
            quorum: listener(
                &shared,
                PeerPort::Quorum,
                links.clone().listen(quorum_port, LearnerPort::Quorum),
            ),
            observer_master: None,
        };
        Ok(Peers {
            shared,
            runtime: Handle::current(),
            address_book,
            election,
            links,
            listeners: Mutex::new(listeners),
        })
    }

    /// Adds the servers of a proposed config.
    pub(crate) fn set_proposed_config(&self, configuration: &Configuration) {
        let _context = self.runtime.enter();
        self.address_book.set_proposed(&configuration.members);
        self.election.config_changed();
    }

    /// Replaces the servers by those of a committed config, and reopens ports that changed.
    pub(crate) fn activate_config(&self, configuration: &Configuration) {
        let _context = self.runtime.enter();
        let own = |port| self.address_book.own_endpoints(port);
        let before = (own(PeerPort::Election), own(PeerPort::Quorum));
        self.address_book.set_members(&configuration.members);
        self.election.config_changed();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let after = (own(PeerPort::Election), own(PeerPort::Quorum));
        if before.0 != after.0 {
            listeners.election.abort();
            let election = self.election.clone();
            let reopened = PeerAcceptor::reopen(PeerPort::Election, after.0);
            let listen = async move { election.listen(reopened.await).await };
            listeners.election = listener(&self.shared, PeerPort::Election, listen);
        }
        if before.1 != after.1 {
            listeners.quorum.abort();
            let links = self.links.clone();
            let reopened = PeerAcceptor::reopen(PeerPort::Quorum, after.1);
            let listen = async move { links.listen(reopened.await, LearnerPort::Quorum).await };
            listeners.quorum = listener(&self.shared, PeerPort::Quorum, listen);
        }
    }

    /// Adapts to the serving role: the observer master port is open only while this server follows.
    pub(crate) fn set_serving(&self, serving: Option<ServingRole>) {
        let _context = self.runtime.enter();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(observers) = listeners.observer_master.take() {
            observers.abort();
        }
        let endpoints = self.address_book.own_endpoints(PeerPort::ObserverMaster);
        if matches!(serving, Some(ServingRole::Following { .. })) && !endpoints.is_empty() {
            let links = self.links.clone();
            let reopened = PeerAcceptor::reopen(PeerPort::ObserverMaster, endpoints);
            let listen = async move { links.listen(reopened.await, LearnerPort::ObserverMaster).await };
            listeners.observer_master = Some(listener(&self.shared, PeerPort::ObserverMaster, listen));
        }
    }

    /// Executes an effect on the network. Old transactions are read from the log in `directories`.
    pub(crate) fn execute(&self, effect: PeerEffect, directories: &Directories) {
        let _context = self.runtime.enter();
        match effect {
            PeerEffect::Notify { to, notification } => self.election.send(to, &notification),
            PeerEffect::Dial { link, to, port } => self.links.dial(link, to, port),
            PeerEffect::Send { link, packet } => {
                sync_log::record_sent(link, &packet, self.links.metrics());
                self.links.send(link, packet);
            }
            PeerEffect::Close { link, reason } => {
                close_log::log_close(link, &reason);
                self.links.close(link);
            }
            PeerEffect::PauseReading { link } => self.links.pause_reading(link),
            PeerEffect::ResumeReading { link } => self.links.resume_reading(link),
            PeerEffect::StreamSnapshot { link, .. } => self.links.send_snapshot(link),
            PeerEffect::LoadReceived { link, entries } => self.links.load_received(link, &entries),
            PeerEffect::DiscardSnapshot { link } => drop(self.links.take_snapshot(link)),
            PeerEffect::ReadLog { link, after, up_to, purpose } => {
                self.read_log(directories, LogReadRequest { link, after, up_to, purpose });
            }
        }
    }

    /// Sends all packets that were queued since the last flush.
    pub(crate) fn flush(&self) {
        self.links.flush();
    }

    /// Reads old transactions for a learner on a blocking thread.
    fn read_log(&self, directories: &Directories, request: LogReadRequest) {
        let (directories, links) = (directories.clone(), self.links.clone());
        self.runtime.spawn_blocking(move || {
            let (link, shared) = (request.link, links.shared());
            let _guard = CloseOnPanic::new("the log for a learner", || links.link_ended(link));
            let read = links.log_feed().read(&request, &directories, shared);
            // The link may have ended during the read. The later of the two removes the reader.
            if !links.is_open(link) {
                links.log_feed().remove(link);
            }
            shared.inbox.push_control(ControlEvent::Peer(PeerEvent::LogRead { link, read }));
        });
    }

    /// Takes the snapshot that was received on a link.
    pub(crate) fn take_snapshot(&self, link: LinkId) -> Option<Tree> {
        self.links.take_snapshot(link)
    }
}

/// Starts a listener. Its panic ends the process, because the server needs it.
fn listener(
    shared: &Arc<ServerContext>,
    port: PeerPort,
    listen: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let part = match port {
        PeerPort::Election => "the listener of the election port",
        PeerPort::Quorum => "the listener of the quorum port",
        PeerPort::ObserverMaster => "the listener for observers",
    };
    tokio::spawn(PanicGuard::run_task(shared.clone(), part, listen))
}
