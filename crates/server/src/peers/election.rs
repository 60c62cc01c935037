//! The election port. Two servers share one connection, which the server with the larger id dials.
//! Each peer has one send slot: a newer notification replaces an unsent older one.

mod accept;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};
use zebu_proto::ServerId;
use zebu_proto::quorum::election::NOTIFICATION_BYTES_MAX;
use zebu_proto::quorum::{InitialMessage, Notification, ServerState};
use zebu_security::sasl::quorum::QUORUM_AUTH_MAGIC;

use super::acceptor::PeerAcceptor;
use super::address_book::AddressBook;
use super::dial::prepare_for_election;
use super::incoming::{Incoming, IncomingSlot};
use super::panics::catch_panic;
use super::peer_stream::PeerStream;
use super::peer_tls::PeerTls;
use super::protection::{PROTECTION_TIMEOUT, PeerProtection, PeerRefusal};
use super::unanswered_votes::UnansweredVotes;
use super::unidentified::UnidentifiedConnections;
use super::unlisted::ListingCheck;
use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::ports::peer_ports::PeerPort;

/// Wait between attempts to reach a peer, and after a failed accept.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long a connection may take to identify itself, unless configured.
const IDENTIFICATION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// How long a write of a vote may take. A peer that does not read counts as lost.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the end of a connection that only asked to be dialed back may take.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Votes of one peer that may wait for the core. Beyond that its connection is not read.
pub(super) const WAITING_VOTES_MAX: usize = 8;

/// A notification for a peer.
#[derive(Clone, Debug)]
struct OutgoingNotification {
    bytes: Arc<[u8]>,
    /// The round, if the sender is looking and expects an answer.
    looking_round: Option<i64>,
}

/// The notifications for one peer.
#[derive(Debug, Default)]
struct SendSlot {
    unsent: Option<OutgoingNotification>,
    last_sent: Option<OutgoingNotification>,
}

/// One peer of the election.
#[derive(Debug)]
struct ElectionPeer {
    slot: Mutex<SendSlot>,
    slot_changed: Notify,
    incoming: IncomingSlot,
    /// Bounds its votes in the core's inbox.
    vote_permits: Arc<Semaphore>,
}

/// How a connection ended.
enum ConnectionEnd {
    Lost,
    Replaced(PeerStream),
    DialBack,
    Removed,
}

/// All peers of the election.
#[derive(Debug)]
struct ElectionPeers {
    by_id: Mutex<BTreeMap<ServerId, Arc<ElectionPeer>>>,
    shared: Arc<ServerContext>,
    address_book: Arc<AddressBook>,
    unidentified: Mutex<UnidentifiedConnections<AbortHandle>>,
    keep_alive: bool,
    identification_timeout: Duration,
    protection: Arc<PeerProtection>,
}

impl ElectionPeers {
    fn new(
        shared: Arc<ServerContext>,
        address_book: Arc<AddressBook>,
        tls: Option<Arc<PeerTls>>,
    ) -> ElectionPeers {
        let membership = &shared.config.membership;
        let ticks = membership.sync_limit.map(|ticks| shared.config.sessions.tick_time.saturating_mul(ticks));
        let introduction_max =
            membership.peers.identification_timeout.or(ticks).unwrap_or(IDENTIFICATION_TIMEOUT_DEFAULT);
        let keep_alive = membership.peers.tcp_keep_alive;
        let protection = Arc::new(PeerProtection::new(PeerPort::Election, &shared, &address_book, tls));
        let identification_timeout =
            if protection.is_on() { introduction_max.min(PROTECTION_TIMEOUT) } else { introduction_max };
        ElectionPeers {
            by_id: Mutex::default(),
            shared,
            address_book,
            unidentified: Mutex::new(UnidentifiedConnections::new(PeerPort::Election)),
            keep_alive,
            identification_timeout,
            protection,
        }
    }

    fn unidentified(&self) -> MutexGuard<'_, UnidentifiedConnections<AbortHandle>> {
        self.unidentified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn by_id(&self) -> MutexGuard<'_, BTreeMap<ServerId, Arc<ElectionPeer>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: ServerId) -> Option<Arc<ElectionPeer>> {
        self.by_id().get(&id).cloned()
    }

    /// Adds a peer and starts its connection task, unless it exists.
    fn add(self: &Arc<Self>, id: ServerId) -> Arc<ElectionPeer> {
        let mut by_id = self.by_id();
        if let Some(peer) = by_id.get(&id) {
            return peer.clone();
        }
        let peer = Arc::new(ElectionPeer {
            slot: Mutex::default(),
            slot_changed: Notify::new(),
            incoming: IncomingSlot::default(),
            vote_permits: Arc::new(Semaphore::new(WAITING_VOTES_MAX)),
        });
        by_id.insert(id, peer.clone());
        let connection = ElectionConnection {
            id,
            peer: peer.clone(),
            shared: self.shared.clone(),
            address_book: self.address_book.clone(),
            keep_alive: self.keep_alive,
            protection: self.protection.clone(),
        };
        let peers = self.clone();
        tokio::spawn(async move {
            while catch_panic("an election connection", connection.run()).await.is_err()
                && !connection.address_book.is_unlisted(id)
            {
                sleep(RETRY_DELAY).await;
            }
            peers.connection_ended(id);
        });
        peer
    }

    /// Forgets an unlisted server whose connection ended.
    fn connection_ended(&self, id: ServerId) {
        if self.address_book.is_unlisted(id) {
            self.by_id().remove(&id);
            self.address_book.forget_unlisted(id);
        }
    }

    /// Returns the peer for a connecting server. An unlisted server may join later, by a `reconfig`
    /// or by restarts with another config. With a static config it is dialed only at its remote
    /// address.
    fn admit(
        self: &Arc<Self>,
        id: ServerId,
        addresses: &[Box<str>],
        from: SocketAddr,
    ) -> Option<Arc<ElectionPeer>> {
        if id == self.address_book.me {
            return None;
        }
        if self.address_book.is_listed(id) {
            return self.find(id);
        }
        if self.shared.config.reconfig_enabled {
            return self.address_book.remember_address(id, addresses).then(|| self.add(id));
        }
        let is_new = !self.address_book.is_unlisted(id);
        if !self.address_book.remember_unlisted(id, from.ip(), addresses) {
            return None;
        }
        if is_new {
            info!(
                %from,
                server = id.0,
                "a server that is not in the configuration takes part in elections; its votes do not count here"
            );
        }
        Some(self.add(id))
    }
}

/// The election port and the connections to all peers.
#[derive(Debug)]
pub(super) struct ElectionPort {
    peers: Arc<ElectionPeers>,
}

impl ElectionPort {
    pub(super) fn new(
        shared: Arc<ServerContext>,
        address_book: Arc<AddressBook>,
        tls: Option<Arc<PeerTls>>,
    ) -> ElectionPort {
        let peers = Arc::new(ElectionPeers::new(shared, address_book, tls));
        peers.address_book.others().into_iter().for_each(|id| drop(peers.add(id)));
        ElectionPort { peers }
    }

    /// Accepts election connections.
    pub(super) fn listen(&self, acceptor: PeerAcceptor) -> impl Future<Output = ()> + use<> {
        accept::accept_connections(acceptor, self.peers.clone())
    }

    /// Adapts the peers to the address book after a config change.
    pub(super) fn config_changed(&self) {
        let members = self.peers.address_book.others();
        members.iter().for_each(|&id| drop(self.peers.add(id)));
        self.peers.by_id().retain(|id, peer| {
            let stays = members.contains(id);
            if !stays {
                peer.incoming.push(Incoming::Removed);
            }
            stays
        });
    }

    /// Sends a notification to a peer, and replaces an unsent one.
    pub(super) fn send(&self, to: ServerId, notification: &Notification) {
        if let Some(peer) = self.peers.find(to) {
            let mut bytes = Vec::new();
            notification.encode(&mut bytes);
            let asks_in_round = (notification.state == ServerState::Looking).then_some(notification.round);
            peer.slot().unsent =
                Some(OutgoingNotification { bytes: bytes.into(), looking_round: asks_in_round });
            peer.slot_changed.notify_one();
        }
    }
}

impl ElectionPeer {
    fn slot(&self) -> MutexGuard<'_, SendSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_unsent(&self) -> Option<OutgoingNotification> {
        let mut slot = self.slot();
        let message = slot.unsent.take()?;
        slot.last_sent = Some(message.clone());
        Some(message)
    }
}

/// Keeps the connection to one peer.
struct ElectionConnection {
    id: ServerId,
    peer: Arc<ElectionPeer>,
    shared: Arc<ServerContext>,
    address_book: Arc<AddressBook>,
    keep_alive: bool,
    protection: Arc<PeerProtection>,
}

impl ElectionConnection {
    async fn run(&self) {
        let mut next = None;
        loop {
            let stream = match next.take() {
                Some(stream) => stream,
                None => match self.await_connection().await {
                    Some(stream) => stream,
                    None => return,
                },
            };
            match self.run_connection(stream).await {
                ConnectionEnd::Removed => return,
                ConnectionEnd::Lost if self.address_book.is_unlisted(self.id) => return,
                ConnectionEnd::Lost => sleep(RETRY_DELAY).await,
                ConnectionEnd::Replaced(stream) => next = Some(stream),
                ConnectionEnd::DialBack => {
                    next = self.dial().await;
                    if next.is_none() && self.address_book.is_unlisted(self.id) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for a notification to send or for a connection of the peer. `None` if the peer was
    /// removed.
    async fn await_connection(&self) -> Option<PeerStream> {
        let incoming = &self.peer.incoming;
        loop {
            let waiting = self.peer.slot().unsent.is_some();
            if !waiting {
                tokio::select! {
                    event = incoming.next() => match event {
                        Incoming::Connection(stream) => return Some(stream),
                        Incoming::DialBack => {}
                        Incoming::Removed => return None,
                    },
                    () = self.peer.slot_changed.notified() => {}
                }
            }
            if let Some(stream) = self.dial().await {
                return Some(stream);
            }
            if self.address_book.is_unlisted(self.id) {
                return None;
            }
            // A peer with the larger id answers the attempt by dialing back.
            tokio::select! {
                event = incoming.next() => match event {
                    Incoming::Connection(stream) => return Some(stream),
                    Incoming::DialBack => {}
                    Incoming::Removed => return None,
                },
                () = sleep(RETRY_DELAY) => {}
            }
        }
    }

    /// Dials the peer. A dial by the smaller id only asks the peer to dial back.
    async fn dial(&self) -> Option<PeerStream> {
        let attempt = async {
            let stream = self.address_book.connect(self.id, PeerPort::Election).await?;
            prepare_for_election(&stream, self.keep_alive)?;
            let mut stream = self.protection.dial_tls(stream, self.id).await?;
            let mut bytes = Vec::new();
            let addresses = self.address_book.own_election_addresses();
            InitialMessage { server: self.address_book.me, addresses }.encode(&mut bytes);
            // One write, because some releases read the address with a single read.
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            self.protection.dial_sasl(&mut stream, self.id).await?;
            Ok::<PeerStream, PeerRefusal>(stream)
        };
        match attempt.await {
            Ok(stream) if self.address_book.me > self.id => Some(stream),
            Ok(stream) => {
                if let Ok(Err(error)) = timeout(FINISH_TIMEOUT, stream.finish()).await {
                    self.protection.log_refused_by(self.id, error);
                }
                None
            }
            Err(refusal) => {
                self.protection.log_dial_failure(self.id, &refusal);
                None
            }
        }
    }

    /// With a static config both sides should have the same one.
    fn listing_check(&self) -> Option<ListingCheck> {
        (!self.shared.config.reconfig_enabled).then(|| ListingCheck::new(self.address_book.me, self.id))
    }

    async fn run_connection(&self, stream: PeerStream) -> ConnectionEnd {
        let peer = &self.peer;
        let (reader, mut writer) = tokio::io::split(stream);
        let answered = AtomicBool::new(false);
        let listening = self.receive_votes(reader, &answered);
        tokio::pin!(listening);
        let mut unanswered = UnansweredVotes::default();
        let mut last_vote: Option<OutgoingNotification> = None;
        let mut message = {
            let mut slot = peer.slot();
            let first = slot.unsent.take().or_else(|| slot.last_sent.clone());
            slot.last_sent.clone_from(&first);
            first
        };
        loop {
            if let Some(outgoing) = message.take() {
                if answered.swap(false, Relaxed) {
                    unanswered.mark_answered();
                }
                let round = outgoing.looking_round;
                if round.is_some_and(|round| unanswered.is_unresponsive(round, Instant::now())) {
                    debug!(
                        server = self.id.0,
                        "a member answers no votes; its election connection is made anew"
                    );
                    peer.slot().unsent.get_or_insert(outgoing);
                    return ConnectionEnd::Lost;
                }
                let writing = async {
                    writer.write_all(&outgoing.bytes).await?;
                    writer.flush().await
                };
                let written = timeout(WRITE_TIMEOUT, writing).await;
                if !matches!(written, Ok(Ok(()))) {
                    peer.slot().unsent.get_or_insert(outgoing);
                    return ConnectionEnd::Lost;
                }
                last_vote = round.map(|_| outgoing);
            } else {
                tokio::select! {
                    result = &mut listening => {
                        if let Err(error) = result {
                            debug!(server = self.id.0, %error, "an election connection has ended");
                            self.protection.log_refused_by(self.id, error);
                        }
                        // A lost vote is sent again at once, not with the next one.
                        if let Some((vote, round)) = last_vote.and_then(|vote| vote.looking_round.map(|round| (vote, round)))
                            && !answered.load(Relaxed)
                            && unanswered.is_unresponsive(round, Instant::now())
                        {
                            peer.slot().unsent.get_or_insert(vote);
                        }
                        return ConnectionEnd::Lost;
                    }
                    event = peer.incoming.next() => return match event {
                        Incoming::Connection(stream) => ConnectionEnd::Replaced(stream),
                        Incoming::DialBack => ConnectionEnd::DialBack,
                        Incoming::Removed => ConnectionEnd::Removed,
                    },
                    () = peer.slot_changed.notified() => {}
                }
            }
            message = peer.take_unsent();
        }
    }

    /// The error for a length that no vote has. The magic number of SASL begins with such a length.
    fn refuse_length(&self, announced: i32) -> io::Error {
        if announced.to_be_bytes() == QUORUM_AUTH_MAGIC.to_be_bytes()[..4] {
            self.protection.log_dial_failure(self.id, &PeerRefusal::UnexpectedSasl);
        }
        io::ErrorKind::InvalidData.into()
    }

    /// Receives votes until the connection ends.
    async fn receive_votes(
        &self,
        mut reader: impl AsyncRead + Unpin,
        answered: &AtomicBool,
    ) -> io::Result<()> {
        let from = self.id;
        let mut listing = self.listing_check();
        loop {
            let announced = reader.read_i32().await?;
            let length = usize::try_from(announced)
                .ok()
                .filter(|length| (1..=NOTIFICATION_BYTES_MAX).contains(length));
            let Some(length) = length else { return Err(self.refuse_length(announced)) };
            // The semaphore is never closed.
            let Ok(permit) = self.peer.vote_permits.clone().acquire_owned().await else { return Ok(()) };
            let payload = read_exactly(&mut reader, length).await?;
            answered.store(true, Relaxed);
            match Notification::decode(&payload) {
                Ok(notification) => {
                    if let Some(listing) = &mut listing {
                        listing.check(&notification);
                    }
                    self.shared.inbox.push_control(ControlEvent::Vote { from, notification, permit });
                }
                Err(error) => debug!(server = from.0, %error, "a vote that cannot be read is ignored"),
            }
        }
    }
}

/// Reads this many bytes. Memory grows with received bytes, not with the announced length.
async fn read_exactly(reader: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    let read = reader.take(length as u64).read_to_end(&mut payload).await?;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(payload) }
}
