//! The election port. There is one connection between two members, the one that the larger id has made; each
//! member has one place for what is to be said to each other one, and what is newer replaces what is older.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};
use zebu_proto::quorum::election::{ADDRESS_BYTES_MAX, NOTIFICATION_BYTES_MAX};
use zebu_proto::quorum::{InitialMessage, Notification, PeerState};
use zebu_proto::{Reader, ServerId};

use super::acceptor::Acceptor;
use super::address_book::AddressBook;
use super::arrivals::{Arrival, Arrivals};
use super::dial::{KeepAlive, prepare_for_election};
use super::silence::Silence;
use super::unidentified::Unidentified;
use super::unlisted::OwnListing;
use crate::inbox::Urgent;
use crate::peer_ports::PeerPort;
use crate::shared::Shared;

/// Wait between attempts to reach a member, and after a failed accept.
const RETRY: Duration = Duration::from_millis(100);

/// How long a connection may take to say who it is, where the configuration does not say it.
const INTRODUCTION_DEFAULT: Duration = Duration::from_secs(5);

/// How long a vote may take to be written. A peer that does not read is as good as gone.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// Votes of one server that may wait for the core; its connection is not read on while there are more.
pub(super) const WAITING_VOTES_MAX: usize = 8;

/// Something to be said to a member.
#[derive(Clone, Debug)]
struct Outgoing {
    bytes: Arc<[u8]>,
    /// The round, if the message is a vote that asks for an answer.
    asks_in_round: Option<i64>,
}

/// What is to be said to a member.
#[derive(Debug, Default)]
struct Slot {
    unsent: Option<Outgoing>,
    last: Option<Outgoing>,
}

/// One other member.
#[derive(Debug)]
struct Correspondent {
    slot: Mutex<Slot>,
    changed: Notify,
    arrivals: Arrivals,
    /// Room for its votes before the core.
    room: Arc<Semaphore>,
}

/// How a connection ended.
enum Ended {
    Lost,
    Replaced(TcpStream),
    CallBack,
    Dismissed,
}

/// Those with whom this server votes.
#[derive(Debug)]
struct Roster {
    correspondents: Mutex<BTreeMap<ServerId, Arc<Correspondent>>>,
    shared: Arc<Shared>,
    book: Arc<AddressBook>,
    unidentified: Mutex<Unidentified<AbortHandle>>,
    keep_alive: KeepAlive,
    introduction_max: Duration,
}

impl Roster {
    fn new(shared: Arc<Shared>, book: Arc<AddressBook>) -> Roster {
        let membership = &shared.config.membership;
        let ticks = membership.sync_limit.map(|ticks| shared.config.sessions.tick_time.saturating_mul(ticks));
        let introduction_max =
            membership.peers.introduction_timeout.or(ticks).unwrap_or(INTRODUCTION_DEFAULT);
        let keep_alive = if membership.peers.tcp_keep_alive { KeepAlive::On } else { KeepAlive::Off };
        Roster {
            correspondents: Mutex::default(),
            shared,
            book,
            unidentified: Mutex::new(Unidentified::new(PeerPort::Election)),
            keep_alive,
            introduction_max,
        }
    }

    fn unidentified(&self) -> MutexGuard<'_, Unidentified<AbortHandle>> {
        self.unidentified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn correspondents(&self) -> MutexGuard<'_, BTreeMap<ServerId, Arc<Correspondent>>> {
        self.correspondents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: ServerId) -> Option<Arc<Correspondent>> {
        self.correspondents().get(&id).cloned()
    }

    /// Begins to talk to a server, if that has not begun yet.
    fn add(self: &Arc<Self>, id: ServerId) -> Arc<Correspondent> {
        let mut correspondents = self.correspondents();
        if let Some(correspondent) = correspondents.get(&id) {
            return correspondent.clone();
        }
        let correspondent = Arc::new(Correspondent {
            slot: Mutex::default(),
            changed: Notify::new(),
            arrivals: Arrivals::default(),
            room: Arc::new(Semaphore::new(WAITING_VOTES_MAX)),
        });
        correspondents.insert(id, correspondent.clone());
        let desk = Desk {
            id,
            correspondent: correspondent.clone(),
            shared: self.shared.clone(),
            book: self.book.clone(),
            keep_alive: self.keep_alive,
        };
        let roster = self.clone();
        tokio::spawn(async move {
            desk.run().await;
            roster.ended(id);
        });
        correspondent
    }

    /// A conversation has ended. A server that is not in the configuration takes no place any more.
    fn ended(&self, id: ServerId) {
        if self.book.is_unlisted(id) {
            self.correspondents().remove(&id);
            self.book.forget_unlisted(id);
        }
    }

    /// A server that is no member may become one, by a `reconfig` or by restarts with another list. Where lists never
    /// change while servers run, it is called back only where it came from.
    fn admit(
        self: &Arc<Self>,
        id: ServerId,
        addresses: &[Box<str>],
        from: SocketAddr,
    ) -> Option<Arc<Correspondent>> {
        if id == self.book.me {
            return None;
        }
        if self.book.is_listed(id) {
            return self.find(id);
        }
        if self.shared.config.reconfig_enabled {
            return self.book.meet(id, addresses).then(|| self.add(id));
        }
        let is_new = !self.book.is_unlisted(id);
        if !self.book.meet_unlisted(id, from.ip(), addresses) {
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

/// The election port and the connections to all members.
#[derive(Debug)]
pub(super) struct Election {
    roster: Arc<Roster>,
}

impl Election {
    pub(super) fn new(shared: Arc<Shared>, book: Arc<AddressBook>) -> Election {
        let roster = Arc::new(Roster::new(shared, book));
        roster.book.others().into_iter().for_each(|id| drop(roster.add(id)));
        Election { roster }
    }

    /// Accepts those who vote.
    pub(super) fn listen(&self, acceptor: Acceptor) -> impl Future<Output = ()> + use<> {
        accept(acceptor, self.roster.clone())
    }

    /// The members are others now, and the address book knows them.
    pub(super) fn members_changed(&self) {
        let members = self.roster.book.others();
        members.iter().for_each(|&id| drop(self.roster.add(id)));
        self.roster.correspondents().retain(|id, correspondent| {
            let stays = members.contains(id);
            if !stays {
                correspondent.arrivals.push(Arrival::Dismissal);
            }
            stays
        });
    }

    /// Says something to a member; what was not said yet is replaced.
    pub(super) fn send(&self, to: ServerId, notification: &Notification) {
        if let Some(correspondent) = self.roster.find(to) {
            let mut bytes = Vec::new();
            notification.encode(&mut bytes);
            let asks_in_round = (notification.state == PeerState::Looking).then_some(notification.round);
            correspondent.slot().unsent = Some(Outgoing { bytes: bytes.into(), asks_in_round });
            correspondent.changed.notify_one();
        }
    }
}

impl Correspondent {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Outgoing> {
        let mut slot = self.slot();
        let message = slot.unsent.take()?;
        slot.last = Some(message.clone());
        Some(message)
    }
}

/// Keeps the connection to one member.
struct Desk {
    id: ServerId,
    correspondent: Arc<Correspondent>,
    shared: Arc<Shared>,
    book: Arc<AddressBook>,
    keep_alive: KeepAlive,
}

impl Desk {
    async fn run(self) {
        let mut next = None;
        loop {
            let stream = match next.take() {
                Some(stream) => stream,
                None => match self.await_connection().await {
                    Some(stream) => stream,
                    None => return,
                },
            };
            match self.converse(stream).await {
                Ended::Dismissed => return,
                Ended::Lost if self.book.is_unlisted(self.id) => return,
                Ended::Lost => sleep(RETRY).await,
                Ended::Replaced(stream) => next = Some(stream),
                Ended::CallBack => {
                    next = self.call().await;
                    if next.is_none() && self.book.is_unlisted(self.id) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until there is something to say, or until the member has come by itself.
    async fn await_connection(&self) -> Option<TcpStream> {
        let arrivals = &self.correspondent.arrivals;
        loop {
            let waiting = self.correspondent.slot().unsent.is_some();
            if !waiting {
                tokio::select! {
                    arrival = arrivals.next() => match arrival {
                        Arrival::Connection(stream) => return Some(stream),
                        Arrival::CallBack => {}
                        Arrival::Dismissal => return None,
                    },
                    () = self.correspondent.changed.notified() => {}
                }
            }
            if let Some(stream) = self.call().await {
                return Some(stream);
            }
            if self.book.is_unlisted(self.id) {
                return None;
            }
            // The member answers with a call of its own if its id is the larger one.
            tokio::select! {
                arrival = arrivals.next() => match arrival {
                    Arrival::Connection(stream) => return Some(stream),
                    Arrival::CallBack => {}
                    Arrival::Dismissal => return None,
                },
                () = sleep(RETRY) => {}
            }
        }
    }

    /// Calls the member. The call of the smaller id only tells the other one to call back.
    async fn call(&self) -> Option<TcpStream> {
        let attempt = async {
            let mut stream = self.book.connect(self.id, PeerPort::Election).await?;
            prepare_for_election(&stream, self.keep_alive)?;
            let mut bytes = Vec::new();
            let addresses = self.book.own_election_texts();
            InitialMessage { server: self.book.me, addresses }.encode(&mut bytes);
            // In one piece: some releases read the address with a single read.
            stream.write_all(&bytes).await?;
            io::Result::Ok(stream)
        };
        match attempt.await {
            Ok(stream) if self.book.me > self.id => Some(stream),
            Ok(_) => None,
            Err(error) => {
                debug!(server = self.id.0, %error, "a member cannot be reached on its election port");
                None
            }
        }
    }

    /// Where the list never changes while servers run, both sides should have the same one.
    fn own_listing(&self) -> Option<OwnListing> {
        (!self.shared.config.reconfig_enabled).then(|| OwnListing::new(self.book.me, self.id))
    }

    async fn converse(&self, stream: TcpStream) -> Ended {
        let correspondent = &self.correspondent;
        let (reader, mut writer) = stream.into_split();
        let heard = AtomicBool::new(false);
        let listening = self.listen(reader, &heard);
        tokio::pin!(listening);
        let mut silence = Silence::default();
        let mut asked: Option<Outgoing> = None;
        let mut message = {
            let mut slot = correspondent.slot();
            let first = slot.unsent.take().or_else(|| slot.last.clone());
            slot.last.clone_from(&first);
            first
        };
        loop {
            if let Some(outgoing) = message.take() {
                if heard.swap(false, Relaxed) {
                    silence.heard();
                }
                let round = outgoing.asks_in_round;
                if round.is_some_and(|round| silence.is_dead(round, Instant::now())) {
                    debug!(
                        server = self.id.0,
                        "a member answers no votes; its election connection is made anew"
                    );
                    correspondent.slot().unsent.get_or_insert(outgoing);
                    return Ended::Lost;
                }
                let written = timeout(WRITE_MAX, writer.write_all(&outgoing.bytes)).await;
                if !matches!(written, Ok(Ok(()))) {
                    correspondent.slot().unsent.get_or_insert(outgoing);
                    return Ended::Lost;
                }
                asked = round.map(|_| outgoing);
            } else {
                tokio::select! {
                    result = &mut listening => {
                        if let Err(error) = result {
                            debug!(server = self.id.0, %error, "an election connection has ended");
                        }
                        // A vote that went nowhere is sent again at once, not with the next one.
                        if let Some((vote, round)) = asked.and_then(|vote| vote.asks_in_round.map(|round| (vote, round)))
                            && !heard.load(Relaxed)
                            && silence.is_dead(round, Instant::now())
                        {
                            correspondent.slot().unsent.get_or_insert(vote);
                        }
                        return Ended::Lost;
                    }
                    arrival = correspondent.arrivals.next() => return match arrival {
                        Arrival::Connection(stream) => Ended::Replaced(stream),
                        Arrival::CallBack => Ended::CallBack,
                        Arrival::Dismissal => Ended::Dismissed,
                    },
                    () = correspondent.changed.notified() => {}
                }
            }
            message = correspondent.next();
        }
    }

    /// Takes votes from a connection until it ends.
    async fn listen(&self, mut reader: OwnedReadHalf, heard: &AtomicBool) -> io::Result<()> {
        let from = self.id;
        let mut listing = self.own_listing();
        loop {
            let length = reader.read_i32().await?;
            let length =
                usize::try_from(length).ok().filter(|length| (1..=NOTIFICATION_BYTES_MAX).contains(length));
            let Some(length) = length else { return Err(io::ErrorKind::InvalidData.into()) };
            // Nobody closes it.
            let Ok(permit) = self.correspondent.room.clone().acquire_owned().await else { return Ok(()) };
            let payload = read_exactly(&mut reader, length).await?;
            heard.store(true, Relaxed);
            match Notification::decode(&payload) {
                Ok(notification) => {
                    if let Some(listing) = &mut listing {
                        listing.look_at(&notification);
                    }
                    self.shared.inbox.push_urgent(Urgent::Vote { from, notification, permit });
                }
                Err(error) => debug!(server = from.0, %error, "a vote that cannot be read is ignored"),
            }
        }
    }
}

/// Reads so many bytes. Memory grows with what has come, not with what was announced.
async fn read_exactly(reader: &mut OwnedReadHalf, length: usize) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    let read = reader.take(length as u64).read_to_end(&mut payload).await?;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(payload) }
}

async fn accept(mut acceptor: Acceptor, roster: Arc<Roster>) {
    let mut number = 0;
    loop {
        match acceptor.accept().await {
            Ok((stream, from)) => {
                number += 1;
                let mut unidentified = roster.unidentified();
                // The task finds itself in the list: the lock is held until it is there.
                let task = tokio::spawn(welcome(number, stream, from, roster.clone()));
                if let Some(oldest) = unidentified.add(number, task.abort_handle()) {
                    oldest.abort();
                }
            }
            Err(error) => {
                warn!(%error, "an election connection could not be accepted; trying again");
                sleep(RETRY).await;
            }
        }
    }
}

/// Hears who has connected, and hands the connection over.
async fn welcome(number: u64, stream: TcpStream, from: SocketAddr, roster: Arc<Roster>) {
    let introduced = timeout(roster.introduction_max, introduce(stream, roster.keep_alive)).await;
    roster.unidentified().remove(number);
    let Ok(Ok((message, stream))) = introduced else {
        debug!(%from, "a connection on the election port did not say who it is");
        return;
    };
    let server = message.server;
    match roster.admit(server, &message.addresses, from) {
        None => warn!(
            %from,
            server = server.0,
            "a server on the election port was refused: it has the id of this server, or too many that are not in the \
             configuration are there"
        ),
        Some(member) => {
            // The desk may have been dismissed; then the server comes again.
            member.arrivals.push(if server > roster.book.me {
                Arrival::Connection(stream)
            } else {
                Arrival::CallBack
            });
        }
    }
}

/// Reads who connects.
async fn introduce(mut stream: TcpStream, keep_alive: KeepAlive) -> io::Result<(InitialMessage, TcpStream)> {
    prepare_for_election(&stream, keep_alive)?;
    let mut bytes = vec![0; 8];
    stream.read_exact(&mut bytes).await?;
    if bytes[0] & 0x80 != 0 {
        bytes.resize(20, 0);
        stream.read_exact(&mut bytes[8..]).await?;
        let length = i32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        let length = usize::try_from(length).ok().filter(|length| *length <= ADDRESS_BYTES_MAX);
        let Some(length) = length else { return Err(io::ErrorKind::InvalidData.into()) };
        bytes.resize(20 + length, 0);
        stream.read_exact(&mut bytes[20..]).await?;
    }
    let message = InitialMessage::decode(&mut Reader::new(&bytes));
    let message = message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((message, stream))
}
