//! All links between this server and other members: who is at the other end is the brain's business, here they
//! have numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::{debug, warn};
use zebu_proto::ServerId;
use zebu_proto::quorum::Packet;
use zebu_tree::Tree;
use zebu_zab::{Door, Event, LinkId};

use super::acceptor::Acceptor;
use super::address_book::AddressBook;
use super::link;
use super::outbox::{Outbox, Put};
use super::unidentified::Unidentified;
use crate::inbox::Urgent;
use crate::metrics::Metrics;
use crate::peer_ports::PeerPort;
use crate::shared::Shared;

/// Wait after a failed accept.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Links {
    shared: Arc<Shared>,
    book: Arc<AddressBook>,
    open: Mutex<Open>,
    accepted: AtomicU64,
}

#[derive(Debug)]
struct Open {
    outboxes: BTreeMap<LinkId, Arc<Outbox>>,
    /// Accepted links whose server is not known, of all ports.
    unidentified: Unidentified<LinkId>,
    /// Whole states that came on links that are still open here.
    received: BTreeMap<LinkId, Tree>,
    /// Those that have something to be written at the end of a round.
    filled: Vec<(LinkId, Arc<Outbox>)>,
}

impl Links {
    pub(super) fn new(shared: Arc<Shared>, book: Arc<AddressBook>) -> Links {
        let open = Open {
            outboxes: BTreeMap::new(),
            unidentified: Unidentified::new(PeerPort::Quorum),
            received: BTreeMap::new(),
            filled: Vec::new(),
        };
        Links { shared, book, open: Mutex::new(open), accepted: AtomicU64::new(0) }
    }

    /// Accepts learners at a port; whether this server leads them is the brain's business.
    pub(super) async fn listen(self: Arc<Self>, mut acceptor: Acceptor, door: Door) {
        loop {
            match acceptor.accept().await {
                Ok((stream, from)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        debug!(%from, %error, "a learner was gone before it was heard");
                        continue;
                    }
                    let link = LinkId::accepted(self.accepted.fetch_add(1, Relaxed) + 1);
                    let news = match door {
                        Door::Quorum => Event::Accepted { link },
                        Door::ObserverMaster => Event::ObserverAccepted { link },
                    };
                    self.start(link, stream, news);
                    self.expect_identity(link);
                }
                Err(error) => {
                    warn!(%error, "a learner could not be accepted; trying again");
                    sleep(RETRY).await;
                }
            }
        }
    }

    pub(super) fn dial(self: &Arc<Self>, link: LinkId, to: ServerId, door: Door) {
        let links = self.clone();
        tokio::spawn(async move {
            let port = match door {
                Door::Quorum => PeerPort::Quorum,
                Door::ObserverMaster => PeerPort::ObserverMaster,
            };
            match links.book.connect(to, port).await {
                Ok(stream) => {
                    links.start(link, stream, Event::Dialed { link });
                }
                Err(error) => {
                    debug!(server = to.0, %error, "a leader cannot be reached");
                    links.tell(Event::DialFailed { link });
                }
            }
        });
    }

    pub(super) fn book(&self) -> &AddressBook {
        &self.book
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Leaves with the next [`Links::flush`], or earlier. If the link has ended, its end is on its way to the brain.
    pub(super) fn send(&self, link: LinkId, packet: Packet) {
        let mut open = self.open();
        let Some(outbox) = open.outboxes.get(&link) else { return };
        if outbox.put(packet) == Put::First {
            let outbox = outbox.clone();
            open.filled.push((link, outbox));
        }
    }

    pub(super) fn stream(&self, link: LinkId) {
        if let Some(outbox) = self.open().outboxes.get(&link) {
            outbox.put_state();
        }
    }

    /// Writes what was sent, as far as that can be done without waiting.
    pub(super) fn flush(&self) {
        for (link, outbox) in self.open().filled.drain(..) {
            let weight = outbox.flush();
            if weight > 0 {
                // Called by the core, which is awake.
                self.mention(Event::Sent { link, weight });
            }
        }
    }

    /// What was sent before still leaves. A state that came on the link has no use any more.
    pub(super) fn close(&self, link: LinkId) {
        let mut open = self.open();
        open.unidentified.remove(link.0);
        open.received.remove(&link);
        if let Some(outbox) = open.outboxes.remove(&link) {
            outbox.close();
        }
    }

    /// Bounds the links that do not say who they are: the oldest goes.
    fn expect_identity(&self, link: LinkId) {
        let mut open = self.open();
        if !open.outboxes.contains_key(&link) {
            return;
        }
        let Some(oldest) = open.unidentified.add(link.0, link) else { return };
        if let Some(outbox) = open.outboxes.remove(&oldest) {
            outbox.close();
            drop(open);
            self.tell(Event::LinkDown { link: oldest });
        }
    }

    /// A link has said that it comes from this server. A server that is not known stays among the unidentified.
    pub(super) fn identified(&self, link: LinkId, server: ServerId) {
        if self.book.knows(server) {
            self.open().unidentified.remove(link.0);
        }
    }

    pub(super) fn take_received(&self, link: LinkId) -> Option<Tree> {
        self.open().received.remove(&link)
    }

    /// Keeps a state until it is installed. The role that it was for may have ended, and its link with it.
    pub(super) fn keep_received(&self, link: LinkId, tree: Tree) {
        let mut open = self.open();
        if open.outboxes.contains_key(&link) {
            open.received.insert(link, tree);
        }
    }

    pub(super) fn tell(&self, event: Event) {
        self.shared.inbox.push_urgent(Urgent::Peer(event));
    }

    /// Tells what the brain need not wake up for.
    pub(super) fn mention(&self, event: Event) {
        self.shared.inbox.mention(Urgent::Peer(event));
    }

    /// A link has ended by itself.
    pub(super) fn ended(&self, link: LinkId) {
        let mut open = self.open();
        open.unidentified.remove(link.0);
        let was_open = open.outboxes.remove(&link).is_some();
        drop(open);
        if was_open {
            self.tell(Event::LinkDown { link });
        }
    }

    /// The brain hears of a link before anything comes from it, and when it can be closed already: its answer may
    /// be a close.
    pub(super) fn start(self: &Arc<Self>, link: LinkId, stream: TcpStream, news: Event) {
        let (reader, writer) = stream.into_split();
        let outbox = Arc::new(Outbox::new(writer));
        self.open().outboxes.insert(link, outbox.clone());
        self.tell(news);
        tokio::spawn(link::run(link, reader, outbox, self.clone(), self.shared.clone()));
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
