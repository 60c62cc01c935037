//! A client: the shipped session state machine with a workload, a socket and an observer of its frames.

mod feed;
mod frame_observer;
mod private_workload;
mod workload;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zebu_client::core::{
    LinkId, ReadOnlyServers, ServerAddress, ServerMoves, SessionMachine, SessionPolicy, SessionSettings,
    WatcherId,
};
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, Reader};

use crate::clock::{CLIENT_CLOCK, Clocks};
use crate::listing::ListingRead;
use crate::members::EnsembleConfig;
use crate::network::SocketId;
use crate::operation::NodePath;
use crate::queue::{MS, VirtualTime};
use crate::random::SimRandom;
use crate::run_parameters::{RunParameters, Workload};

pub(crate) use feed::{FeedStage, SimFeed};
pub(crate) use frame_observer::{FrameObserver, ReceivedFrame, SentFrame};
pub(crate) use workload::{OperationDrawer, OperationKind};

/// Whether a client still makes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientActivity {
    /// The client makes calls according to its workload.
    Busy,
    /// The client only waits for replies.
    Idle,
}

/// The connection of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLink {
    pub(crate) link: LinkId,
    pub(crate) connection: SocketId,
    pub(crate) server: usize,
}

/// A client.
pub(crate) struct SimClient {
    pub(crate) session: SessionMachine<usize>,
    /// Different for each process that takes this client's place.
    pub(crate) number: u64,
    /// Whether its last server was a read-only one.
    pub(crate) was_read_only: bool,
    pub(crate) link: Option<ClientLink>,
    /// The connection to the server to which the client moves.
    pub(crate) spare: Option<ClientLink>,
    /// A server knows that the client can move.
    pub(crate) can_move: bool,
    pub(crate) wire: FrameObserver,
    /// Calls that the session state machine has accepted and not sent yet, in order.
    pub(crate) waiting: VecDeque<usize>,
    pub(crate) wake_at: Option<VirtualTime>,
    /// Nothing is read before this moment.
    pub(crate) stalled_until: VirtualTime,
    pub(crate) clocks: Clocks,
    pub(crate) activity: ClientActivity,
    pub(crate) random: SimRandom,
    /// The next page of a list that the client walks over.
    pub(crate) next_page: Option<ListingRead>,
    pub(crate) feed: Option<SimFeed>,
    /// For requests that ZooKeeper does not have.
    pub(crate) private_random: SimRandom,
    /// Sequential names that were created, to be used again.
    pub(crate) known: Vec<NodePath>,
    pub(crate) outstanding: usize,
    /// Calls that the client may still make.
    pub(crate) budget: u64,
    pub(crate) watchers: u64,
    /// The version of the latest config that the client has seen.
    pub(crate) known_list: i64,
    /// The instant that stands for virtual time zero.
    epoch: Instant,
}

impl SimClient {
    pub(crate) fn new(shape: &RunParameters, client: usize, number: u64, now: VirtualTime) -> SimClient {
        let workload = &shape.workload;
        let epoch = Instant::now();
        let mut random = SimRandom::of_client(shape.seed, number);
        let settings = SessionSettings {
            session_timeout: Duration::from_millis(workload.session_timeout_ms),
            connection_timeout: Duration::from_millis(workload.session_timeout_ms * 4),
            policy: SessionPolicy::Renew,
            read_only: match shape.accepts_read_only(client) {
                true => ReadOnlyServers::Accept,
                false => ReadOnlyServers::Refuse,
            },
            moves: if shape.moves(client) { ServerMoves::Follow } else { ServerMoves::Ignore },
            ..SessionSettings::default()
        };
        let addresses: Vec<ServerAddress> = shape
            .client_ports()
            .iter()
            .flat_map(|port| (0..shape.servers()).map(|server| address_of(server, *port)))
            .collect();
        let mut session =
            SessionMachine::new(settings, &addresses, random.draw(), epoch + Duration::from_micros(now));
        session.keep_lease(epoch + Duration::from_micros(now));
        SimClient {
            session,
            number,
            was_read_only: false,
            link: None,
            spare: None,
            can_move: false,
            wire: FrameObserver::default(),
            waiting: VecDeque::new(),
            wake_at: None,
            stalled_until: 0,
            clocks: Clocks::default(),
            activity: ClientActivity::Busy,
            random,
            next_page: None,
            feed: None,
            private_random: SimRandom::of_private_requests(shape.seed, number),
            known: Vec::new(),
            outstanding: 0,
            budget: workload.calls_max,
            watchers: 0,
            known_list: 0,
            epoch,
        }
    }

    /// A virtual time as an instant of the session state machine.
    pub(crate) fn instant(&self, now: VirtualTime) -> Instant {
        self.epoch + Duration::from_micros(self.clocks.steady(CLIENT_CLOCK, now))
    }

    /// The client's machine is suspended.
    pub(crate) fn suspend(&mut self, now: VirtualTime, until: VirtualTime) {
        self.stalled_until = self.stalled_until.max(until);
        self.clocks.suspend(now, until);
    }

    /// The client's machine resumes before its time.
    pub(crate) fn go_on(&mut self, now: VirtualTime) {
        self.stalled_until = 0;
        self.clocks.resume(now);
    }

    /// The next deadline of the session state machine.
    pub(crate) fn deadline(&self) -> Option<VirtualTime> {
        let deadline = self.session.deadline()?;
        let steady = deadline.saturating_duration_since(self.epoch).as_micros() as VirtualTime;
        Some(self.clocks.time_of(CLIENT_CLOCK, steady))
    }

    pub(crate) fn watcher(&mut self) -> WatcherId {
        self.watchers += 1;
        WatcherId(self.watchers)
    }

    /// Remembers the version of a config.
    pub(crate) fn learn_list(&mut self, body: &[u8]) {
        let response = GetDataResponse::decode(&mut Reader::new(body)).ok();
        let data = response.and_then(|response| response.data);
        let list = data.and_then(|data| EnsembleConfig::read(std::str::from_utf8(&data).ok()?));
        self.known_list = list.map_or(self.known_list, |list| list.version);
    }

    /// The remaining lease, as the session state machine computes it.
    pub(crate) fn lease_left(&self, now: VirtualTime) -> Duration {
        let until = self.session.lease_deadline();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(self.instant(now)))
    }

    /// The negotiated timeout.
    pub(crate) fn timeout_ms(&self) -> u64 {
        self.session.status().session.timeout.as_millis() as u64
    }
}

/// The address of a server.
pub(crate) fn address_of(server: usize, port: u16) -> ServerAddress {
    ServerAddress { host: format!("s{server}").into(), port }
}

/// The server with this address.
pub(crate) fn server_of(address: &ServerAddress) -> Option<usize> {
    address.host.strip_prefix('s')?.parse().ok()
}

/// The pause before the next burst of calls.
pub(crate) fn pause(random: &mut SimRandom, workload: &Workload) -> VirtualTime {
    random.between(workload.pause / 2, workload.pause * 3 / 2).max(MS / 10)
}
