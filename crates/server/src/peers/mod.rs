//! The other members of the ensemble: the election port, the quorum port, and the links between a leader and
//! its learners. It carries what the brain says and brings what the others say; it decides nothing.

mod address_book;
mod behind_state;
mod election;
mod link;
mod links;
mod state_stream;
mod sync_report;

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tracing::{debug, warn};
use zebu_node::Order;
use zebu_proto::Zxid;
use zebu_storage::{Directories, FileDisk, read_after};
use zebu_tree::Tree;
use zebu_zab::{Entry, Event, LinkId, LogRead};

use crate::inbox::Urgent;
use crate::serve_error::ServeError;
use crate::shared::Shared;
use address_book::AddressBook;
use election::Election;
use links::Links;

/// Bytes of old transactions that are read for a learner at a time.
const READ_LOG_BYTES: usize = 1 << 20;

/// The way to the other members.
pub(crate) struct Peers {
    runtime: Handle,
    election: Election,
    links: Arc<Links>,
}

impl Peers {
    /// Opens both ports and starts to listen. Must be called inside the runtime.
    pub(crate) async fn open(shared: Arc<Shared>) -> Result<Peers, ServeError> {
        let book = Arc::new(AddressBook::new(&shared.config));
        let election_port = bind(&book.own_election()).await?;
        let quorum_port = bind(&book.own_quorum()).await?;
        let election = Election::start(shared.clone(), book.clone(), election_port);
        let links = Arc::new(Links::new(shared, book));
        tokio::spawn(links.clone().listen(quorum_port));
        Ok(Peers { runtime: Handle::current(), election, links })
    }

    /// Carries out an order that concerns the network; returns any other.
    pub(crate) fn perform(&self, order: Order) -> Option<Order> {
        let _context = self.runtime.enter();
        match order {
            Order::Notify { to, notification } => self.election.send(to, &notification),
            Order::Dial { link, to } => self.links.dial(link, to),
            Order::Send { link, packet } => {
                sync_report::sent(link, &packet, self.links.metrics());
                self.links.send(link, packet);
            }
            Order::Close { link, reason } => {
                debug!(link = link.0, %reason, "a link to another member is closed");
                self.links.close(link);
            }
            Order::StreamSnapshot { link, .. } => self.links.stream(link),
            Order::DiscardSnapshot { link } => drop(self.links.take_received(link)),
            Order::ReadLog { .. } | Order::Disk(_) | Order::Serve(_) | Order::StopServing => {
                return Some(order);
            }
        }
        None
    }

    /// Reads old transactions for a learner, beside everything else.
    pub(crate) fn read_log(
        &self,
        shared: &Arc<Shared>,
        directories: &Directories,
        link: LinkId,
        after: Zxid,
        up_to: Zxid,
    ) {
        let (shared, directories) = (shared.clone(), directories.clone());
        self.runtime.spawn_blocking(move || {
            let read = match read_after(&FileDisk, &directories, after, up_to, READ_LOG_BYTES) {
                Ok(Some(entries)) if !entries.is_empty() => LogRead::Entries(
                    entries.into_iter().map(|entry| Entry { zxid: entry.zxid, bytes: entry.bytes }).collect(),
                ),
                Ok(_) => LogRead::Unavailable,
                Err(error) => {
                    warn!(%error, "the log cannot be read for a learner; it gets the whole state");
                    LogRead::Unavailable
                }
            };
            shared.inbox.push_urgent(Urgent::Peer(Event::LogRead { link, read }));
        });
    }

    /// The state that came on a link.
    pub(crate) fn take_received(&self, link: LinkId) -> Option<Tree> {
        self.links.take_received(link)
    }
}

async fn bind(address: &(String, u16)) -> Result<TcpListener, ServeError> {
    let failed = |error: io::Error| ServeError::Listen {
        address: format!("{}:{}", address.0, address.1),
        reason: error.to_string(),
    };
    TcpListener::bind((address.0.as_str(), address.1)).await.map_err(failed)
}
