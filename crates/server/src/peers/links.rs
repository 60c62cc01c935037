//! All links between this server and other members: who is at the other end is the brain's business, here they
//! have numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tracing::{debug, warn};
use zebu_proto::ServerId;
use zebu_proto::quorum::Packet;
use zebu_tree::Tree;
use zebu_zab::{Door, Event, LinkId};

use super::address_book::{AddressBook, Port};
use super::link;
use super::log_feed::LogFeed;
use super::outbox::{Outbox, Put};
use crate::inbox::Urgent;
use crate::metrics::Metrics;
use crate::shared::Shared;

/// Wait after a failed accept.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Links {
    shared: Arc<Shared>,
    book: Arc<AddressBook>,
    open: Mutex<Open>,
    received: Mutex<BTreeMap<LinkId, Tree>>,
    log_feed: LogFeed,
    accepted: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    outboxes: BTreeMap<LinkId, Arc<Outbox>>,
    /// Those that have something to be written at the end of a round.
    filled: Vec<(LinkId, Arc<Outbox>)>,
}

impl Links {
    pub(super) fn new(shared: Arc<Shared>, book: Arc<AddressBook>) -> Links {
        Links {
            shared,
            book,
            open: Mutex::default(),
            received: Mutex::default(),
            log_feed: LogFeed::default(),
            accepted: AtomicU64::new(0),
        }
    }

    /// Accepts learners at a port; whether this server leads them is the brain's business.
    pub(super) async fn listen(self: Arc<Self>, listener: TcpListener, door: Door) {
        loop {
            match listener.accept().await {
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
                Door::Quorum => Port::Quorum,
                Door::ObserverMaster => Port::ObserverMaster,
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

    /// What was sent before still leaves.
    pub(super) fn close(&self, link: LinkId) {
        if let Some(outbox) = self.open().outboxes.remove(&link) {
            outbox.close();
        }
        self.log_feed.forget(link);
    }

    pub(super) fn is_open(&self, link: LinkId) -> bool {
        self.open().outboxes.contains_key(&link)
    }

    /// Old transactions for those who learn over these links.
    pub(super) fn log_feed(&self) -> &LogFeed {
        &self.log_feed
    }

    pub(super) fn take_received(&self, link: LinkId) -> Option<Tree> {
        self.received().remove(&link)
    }

    pub(super) fn keep_received(&self, link: LinkId, tree: Tree) {
        self.received().insert(link, tree);
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
        if self.open().outboxes.remove(&link).is_some() {
            self.tell(Event::LinkDown { link });
        }
        self.log_feed.forget(link);
    }

    /// The brain hears of a link before anything comes from it, and when it can be closed already: its answer may
    /// be a close.
    fn start(self: &Arc<Self>, link: LinkId, stream: TcpStream, news: Event) {
        let (reader, writer) = stream.into_split();
        let outbox = Arc::new(Outbox::new(writer));
        self.open().outboxes.insert(link, outbox.clone());
        self.tell(news);
        tokio::spawn(link::run(link, reader, outbox, self.clone(), self.shared.clone()));
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received(&self) -> MutexGuard<'_, BTreeMap<LinkId, Tree>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
