//! The election port. There is one connection between two members, the one that the larger id has made; each
//! member has one place for what is to be said to each other one, and what is newer replaces what is older.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};
use zebu_proto::quorum::election::{ADDRESS_BYTES_MAX, NOTIFICATION_BYTES_MAX};
use zebu_proto::quorum::{InitialMessage, Notification};
use zebu_proto::{Reader, ServerId};
use zebu_zab::Event;

use super::address_book::{AddressBook, Port};
use super::unlisted::OwnListing;
use crate::inbox::Urgent;
use crate::shared::Shared;

/// Wait between attempts to reach a member, and after a failed accept.
const RETRY: Duration = Duration::from_millis(100);

/// How long a connection may take to say who it is.
const INTRODUCTION_MAX: Duration = Duration::from_secs(5);

/// What is to be said to a member.
#[derive(Debug, Default)]
struct Slot {
    unsent: Option<Arc<[u8]>>,
    last: Option<Arc<[u8]>>,
}

/// One other member.
#[derive(Debug)]
struct Correspondent {
    slot: Mutex<Slot>,
    changed: Notify,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

/// What came from a member.
#[derive(Debug)]
enum Arrival {
    /// A connection that is to be used.
    Connection(TcpStream),
    /// It wants to be called: its id is the smaller one.
    CallBack,
    /// It is no member any more.
    Dismissal,
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
}

impl Roster {
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
        let (arrivals, received) = mpsc::unbounded_channel();
        let correspondent =
            Arc::new(Correspondent { slot: Mutex::default(), changed: Notify::new(), arrivals });
        correspondents.insert(id, correspondent.clone());
        let desk = Desk {
            id,
            correspondent: correspondent.clone(),
            shared: self.shared.clone(),
            book: self.book.clone(),
        };
        let roster = self.clone();
        tokio::spawn(async move {
            desk.run(received).await;
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
        let roster = Arc::new(Roster { correspondents: Mutex::default(), shared, book });
        roster.book.others().into_iter().for_each(|id| drop(roster.add(id)));
        Election { roster }
    }

    /// Accepts those who vote.
    pub(super) fn listen(&self, listener: TcpListener) -> impl Future<Output = ()> + use<> {
        accept(listener, self.roster.clone())
    }

    /// The members are others now, and the address book knows them.
    pub(super) fn members_changed(&self) {
        let members = self.roster.book.others();
        members.iter().for_each(|&id| drop(self.roster.add(id)));
        self.roster.correspondents().retain(|id, correspondent| {
            let stays = members.contains(id);
            if !stays {
                let _ = correspondent.arrivals.send(Arrival::Dismissal);
            }
            stays
        });
    }

    /// Says something to a member; what was not said yet is replaced.
    pub(super) fn send(&self, to: ServerId, notification: &Notification) {
        if let Some(correspondent) = self.roster.find(to) {
            let mut bytes = Vec::new();
            notification.encode(&mut bytes);
            correspondent.slot().unsent = Some(bytes.into());
            correspondent.changed.notify_one();
        }
    }
}

impl Correspondent {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Arc<[u8]>> {
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
}

impl Desk {
    async fn run(self, mut arrivals: mpsc::UnboundedReceiver<Arrival>) {
        let mut next = None;
        loop {
            let stream = match next.take() {
                Some(stream) => stream,
                None => match self.await_connection(&mut arrivals).await {
                    Some(stream) => stream,
                    None => return,
                },
            };
            match self.converse(stream, &mut arrivals).await {
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
    async fn await_connection(&self, arrivals: &mut mpsc::UnboundedReceiver<Arrival>) -> Option<TcpStream> {
        loop {
            let waiting = self.correspondent.slot().unsent.is_some();
            if !waiting {
                tokio::select! {
                    arrival = arrivals.recv() => match arrival? {
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
                arrival = arrivals.recv() => match arrival? {
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
            let mut stream = self.book.connect(self.id, Port::Election).await?;
            let mut bytes = Vec::new();
            let addresses = vec![self.book.own_election_text()];
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

    async fn converse(&self, stream: TcpStream, arrivals: &mut mpsc::UnboundedReceiver<Arrival>) -> Ended {
        let (reader, mut writer) = stream.into_split();
        let listening = listen(self.id, reader, self.shared.clone(), self.own_listing());
        tokio::pin!(listening);
        let first = {
            let mut slot = self.correspondent.slot();
            let first = slot.unsent.take().or_else(|| slot.last.clone());
            slot.last.clone_from(&first);
            first
        };
        let mut message = first;
        loop {
            if let Some(bytes) = message.take() {
                if writer.write_all(&bytes).await.is_err() {
                    self.correspondent.slot().unsent.get_or_insert(bytes);
                    return Ended::Lost;
                }
            } else {
                tokio::select! {
                    result = &mut listening => {
                        if let Err(error) = result {
                            debug!(server = self.id.0, %error, "an election connection has ended");
                        }
                        return Ended::Lost;
                    }
                    arrival = arrivals.recv() => return match arrival {
                        Some(Arrival::Connection(stream)) => Ended::Replaced(stream),
                        Some(Arrival::CallBack) => Ended::CallBack,
                        Some(Arrival::Dismissal) | None => Ended::Dismissed,
                    },
                    () = self.correspondent.changed.notified() => {}
                }
            }
            message = self.correspondent.next();
        }
    }
}

/// Takes votes from a connection until it ends.
async fn listen(
    from: ServerId,
    mut reader: OwnedReadHalf,
    shared: Arc<Shared>,
    mut listing: Option<OwnListing>,
) -> io::Result<()> {
    loop {
        let length = reader.read_i32().await?;
        let length =
            usize::try_from(length).ok().filter(|length| (1..=NOTIFICATION_BYTES_MAX).contains(length));
        let Some(length) = length else { return Err(io::ErrorKind::InvalidData.into()) };
        let mut payload = vec![0; length];
        reader.read_exact(&mut payload).await?;
        match Notification::decode(&payload) {
            Ok(notification) => {
                if let Some(listing) = &mut listing {
                    listing.look_at(&notification);
                }
                shared.inbox.push_urgent(Urgent::Peer(Event::Notification { from, notification }));
            }
            Err(error) => debug!(server = from.0, %error, "a vote that cannot be read is ignored"),
        }
    }
}

async fn accept(listener: TcpListener, roster: Arc<Roster>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let roster = roster.clone();
                tokio::spawn(async move {
                    let introduced = timeout(INTRODUCTION_MAX, introduce(stream)).await;
                    let Ok(Ok((message, stream))) = introduced else {
                        debug!(%from, "somebody on the election port did not say who it is");
                        return;
                    };
                    let server = message.server;
                    match roster.admit(server, &message.addresses, from) {
                        None => {
                            warn!(
                                %from,
                                server = server.0,
                                "a server on the election port was refused: it has the id of this server, or too \
                                 many that are not in the configuration are there"
                            )
                        }
                        Some(member) => {
                            let arrival = if server > roster.book.me {
                                Arrival::Connection(stream)
                            } else {
                                Arrival::CallBack
                            };
                            // The desk may have been dismissed; then the server comes again.
                            let _ = member.arrivals.send(arrival);
                        }
                    }
                });
            }
            Err(error) => {
                warn!(%error, "an election connection could not be accepted; trying again");
                sleep(RETRY).await;
            }
        }
    }
}

/// Reads who connects.
async fn introduce(mut stream: TcpStream) -> io::Result<(InitialMessage, TcpStream)> {
    stream.set_nodelay(true)?;
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
