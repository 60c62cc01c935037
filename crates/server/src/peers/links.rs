//! All links between this server and its peers, by link id. The core knows which server a link
//! belongs to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tracing::{debug, warn};
use zebu_metrics::Summary;
use zebu_proto::ServerId;
use zebu_proto::quorum::Packet;
use zebu_runtime::apply_tail;
use zebu_tree::Tree;
use zebu_zab::{EncodedTxn, LearnerPort, LinkId, PeerEvent};

use super::acceptor::PeerAcceptor;
use super::address_book::AddressBook;
use super::link::{self, LinkOrigin, LinkPeer};
use super::log_feed::LogFeed;
use super::outbox::Outbox;
use super::panics::close_on_panic;
use super::peer_stream::{LinkWriter, PeerStream};
use super::peer_tls::PeerTls;
use super::protected_accept::{UnauthenticatedLearners, accept_protected};
use super::protection::{PeerProtection, PeerRefusal};
use super::unidentified::UnidentifiedConnections;
use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::metrics::ServerMetrics;
use crate::ports::peer_ports::PeerPort;
use crate::sync::{Mutex, MutexGuard};

/// Wait after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Links {
    shared: Arc<ServerContext>,
    address_book: Arc<AddressBook>,
    state: Mutex<OpenLinks>,
    log_feed: LogFeed,
    accepted_count: AtomicU64,
    protection: PeerProtection,
    unauthenticated: UnauthenticatedLearners,
}

#[derive(Debug)]
struct OpenLinks {
    outboxes: BTreeMap<LinkId, Arc<Outbox>>,
    /// Accepted links of unknown servers, over all ports.
    unidentified: UnidentifiedConnections<LinkId>,
    /// Snapshots received on links that are still open.
    received_snapshots: BTreeMap<LinkId, Tree>,
    /// Outboxes to flush at the end of a round.
    unflushed: Vec<(LinkId, Arc<Outbox>)>,
    /// The bytes that wait for each identified learner.
    queue_bytes: BTreeMap<LinkId, Arc<Summary>>,
}

impl Links {
    pub(super) fn new(
        shared: Arc<ServerContext>,
        address_book: Arc<AddressBook>,
        tls: Option<Arc<PeerTls>>,
    ) -> Links {
        let open = OpenLinks {
            outboxes: BTreeMap::new(),
            unidentified: UnidentifiedConnections::new(PeerPort::Quorum),
            received_snapshots: BTreeMap::new(),
            unflushed: Vec::new(),
            queue_bytes: BTreeMap::new(),
        };
        let protection = PeerProtection::new(PeerPort::Quorum, &shared, &address_book, tls);
        Links {
            shared,
            address_book,
            state: Mutex::new(open),
            log_feed: LogFeed::default(),
            accepted_count: AtomicU64::new(0),
            protection,
            unauthenticated: UnauthenticatedLearners::default(),
        }
    }

    /// Accepts learners at a port. The core decides whether this server leads them.
    pub(super) async fn listen(self: Arc<Self>, mut acceptor: PeerAcceptor, learner_port: LearnerPort) {
        loop {
            match acceptor.accept().await {
                Ok((stream, from)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        debug!(%from, %error, "a learner was gone before it was heard");
                        continue;
                    }
                    if self.protection.is_on() {
                        accept_protected(&self, stream, from, learner_port);
                    } else {
                        self.start_accepted(PeerStream::plain(stream), from, learner_port);
                    }
                }
                Err(error) => {
                    warn!(%error, "a learner could not be accepted; trying again");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    /// Starts the link of a learner whose connection is protected as configured.
    pub(super) fn start_accepted(
        self: &Arc<Self>,
        stream: PeerStream,
        from: SocketAddr,
        learner_port: LearnerPort,
    ) {
        let link = LinkId::accepted(self.accepted_count.fetch_add(1, Relaxed) + 1);
        let event = match learner_port {
            LearnerPort::Quorum => PeerEvent::Accepted { link },
            LearnerPort::ObserverMaster => PeerEvent::ObserverAccepted { link },
        };
        self.start_link(link, stream, LinkOrigin::Accepted { from }, event);
        self.track_unidentified(link, from);
    }

    pub(super) fn dial(self: &Arc<Self>, link: LinkId, to: ServerId, learner_port: LearnerPort) {
        let links = self.clone();
        let dial = async move {
            let port = match learner_port {
                LearnerPort::Quorum => PeerPort::Quorum,
                LearnerPort::ObserverMaster => PeerPort::ObserverMaster,
            };
            let connecting = async {
                let stream = links.address_book.connect(to, port).await?;
                let mut stream = links.protection.dial_tls(stream, to).await?;
                links.protection.dial_sasl(&mut stream, to).await?;
                Ok::<PeerStream, PeerRefusal>(stream)
            };
            match connecting.await {
                Ok(stream) => {
                    links.start_link(link, stream, LinkOrigin::Dialed { to }, PeerEvent::Dialed { link });
                }
                Err(refusal) => {
                    links.protection.log_dial_failure(to, &refusal);
                    links.push_event(PeerEvent::DialFailed { link });
                }
            }
        };
        let links = self.clone();
        let failed = move || links.push_event(PeerEvent::DialFailed { link });
        tokio::spawn(close_on_panic("a link that is dialed", failed, dial));
    }

    pub(super) fn address_book(&self) -> &AddressBook {
        &self.address_book
    }

    pub(super) fn protection(&self) -> &PeerProtection {
        &self.protection
    }

    pub(super) fn unauthenticated(&self) -> &UnauthenticatedLearners {
        &self.unauthenticated
    }

    pub(super) fn shared(&self) -> &ServerContext {
        &self.shared
    }

    pub(super) fn metrics(&self) -> &ServerMetrics {
        &self.shared.metrics
    }

    /// Queues a packet for the next [`Links::flush`]. If the link has ended, the event of its end
    /// is already in the inbox.
    pub(super) fn send(&self, link: LinkId, packet: Packet) {
        let mut open = self.lock();
        let Some(outbox) = open.outboxes.get(&link) else { return };
        let needs_flush = outbox.push(packet);
        if needs_flush {
            let outbox = outbox.clone();
            open.unflushed.push((link, outbox));
        }
    }

    pub(super) fn send_snapshot(&self, link: LinkId) {
        if let Some(outbox) = self.lock().outboxes.get(&link) {
            outbox.push_snapshot();
        }
    }

    pub(super) fn pause_reading(&self, link: LinkId) {
        if let Some(outbox) = self.lock().outboxes.get(&link) {
            outbox.read_gate().close();
        }
    }

    pub(super) fn resume_reading(&self, link: LinkId) {
        if let Some(outbox) = self.lock().outboxes.get(&link) {
            outbox.read_gate().open();
        }
    }

    /// Writes the queued packets, as far as the sockets take them without waiting.
    pub(super) fn flush(&self) {
        let mut open = self.lock();
        let OpenLinks { unflushed, queue_bytes, .. } = &mut *open;
        for (link, outbox) in unflushed.drain(..) {
            let weight = outbox.flush();
            if let Some(summary) = queue_bytes.get(&link) {
                summary.record(outbox.queued_bytes() as u64);
            }
            if weight > 0 {
                // The core calls this and runs already, so no wakeup is needed.
                self.push_event_lazy(PeerEvent::Sent { link, weight });
            }
        }
    }

    /// Closes a link. Queued packets are still sent; a received snapshot is dropped.
    pub(super) fn close(&self, link: LinkId) {
        let mut open = self.lock();
        open.unidentified.remove(link.0);
        open.received_snapshots.remove(&link);
        open.queue_bytes.remove(&link);
        if let Some(outbox) = open.outboxes.remove(&link) {
            outbox.close();
        }
        self.log_feed.remove(link);
    }

    pub(super) fn is_open(&self, link: LinkId) -> bool {
        self.lock().outboxes.contains_key(&link)
    }

    /// The log readers of the learners on these links.
    pub(super) fn log_feed(&self) -> &LogFeed {
        &self.log_feed
    }

    /// Bounds the links that have not identified their server.
    fn track_unidentified(&self, link: LinkId, from: SocketAddr) {
        let standing = self.address_book.standing_of(from.ip());
        let mut open = self.lock();
        if !open.outboxes.contains_key(&link) {
            return;
        }
        let Some(closed) = open.unidentified.add(link.0, from.ip(), standing, link) else { return };
        if let Some(outbox) = open.outboxes.remove(&closed) {
            outbox.close();
            drop(open);
            self.push_event(PeerEvent::LinkDown { link: closed });
        }
    }

    /// Records the server of a link. A link of an unknown server stays among the unidentified.
    pub(super) fn mark_identified(&self, link: LinkId, server: ServerId) {
        if self.address_book.is_known(server) {
            let queue = self.shared.metrics.learner_queue_bytes.of(&server.0.to_string());
            let mut open = self.lock();
            open.unidentified.remove(link.0);
            if open.outboxes.contains_key(&link) {
                open.queue_bytes.insert(link, queue);
            }
        }
    }

    pub(super) fn take_snapshot(&self, link: LinkId) -> Option<Tree> {
        self.lock().received_snapshots.remove(&link)
    }

    /// Applies transactions to a received snapshot. An unreadable transaction discards the
    /// snapshot; its installation then ends the process.
    pub(super) fn load_received(&self, link: LinkId, entries: &[EncodedTxn]) {
        // Only the core takes snapshots, and it is the caller.
        let Some(mut tree) = self.take_snapshot(link) else { return };
        match apply_tail(&mut tree, entries) {
            Ok(()) => drop(self.lock().received_snapshots.insert(link, tree)),
            Err(error) => warn!(link = link.0, %error, "cannot apply transactions to a received snapshot"),
        }
    }

    /// Keeps a received snapshot until it is installed, unless the link was closed meanwhile.
    pub(super) fn store_snapshot(&self, link: LinkId, tree: Tree) {
        let mut open = self.lock();
        if open.outboxes.contains_key(&link) {
            open.received_snapshots.insert(link, tree);
        }
    }

    pub(super) fn push_event(&self, event: PeerEvent) {
        self.shared.inbox.push_control(ControlEvent::Peer(event));
    }

    /// Pushes an event that needs no wakeup of the core.
    pub(super) fn push_event_lazy(&self, event: PeerEvent) {
        self.shared.inbox.push_lazy(ControlEvent::Peer(event));
    }

    /// Removes a link that ended, and reports its end if it was open.
    pub(super) fn link_ended(&self, link: LinkId) {
        self.shared.learner_links.remove(link);
        let mut open = self.lock();
        open.unidentified.remove(link.0);
        open.queue_bytes.remove(&link);
        let was_open = open.outboxes.remove(&link).is_some();
        drop(open);
        if was_open {
            self.push_event(PeerEvent::LinkDown { link });
        }
        self.log_feed.remove(link);
    }

    /// Starts a link. It is registered before the core learns of it, because the core may close it
    /// at once. The event comes before all packets.
    pub(super) fn start_link(
        self: &Arc<Self>,
        link: LinkId,
        stream: PeerStream,
        origin: LinkOrigin,
        event: PeerEvent,
    ) {
        let certificate = stream.certificate().clone();
        let (reader, writer) = stream.into_link_halves();
        let outbox = self.register(link, writer, event);
        if let LinkOrigin::Accepted { from } = origin {
            // The end of the task removes it.
            let wall_ms = self.shared.clock.now().wall_ms;
            self.shared.learner_links.add(link, from, wall_ms, outbox.counters());
        }
        let peer = LinkPeer { origin, certificate };
        self.spawn(link, link::run_link(link, peer, reader, outbox, self.clone(), self.shared.clone()));
    }

    pub(super) fn register(
        &self,
        link: LinkId,
        writer: impl Into<LinkWriter>,
        event: PeerEvent,
    ) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox::new(writer));
        self.lock().outboxes.insert(link, outbox.clone());
        self.push_event(event);
        outbox
    }

    /// Starts the task of a link. A panic of the task ends the link.
    pub(super) fn spawn(self: &Arc<Self>, link: LinkId, task: impl Future<Output = ()> + Send + 'static) {
        let links = self.clone();
        tokio::spawn(close_on_panic("a link", move || links.link_ended(link), task));
    }

    fn lock(&self) -> MutexGuard<'_, OpenLinks> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
