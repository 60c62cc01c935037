//! A client: the shipped session machine with a workload, a socket and a pair of eyes on the wire.

mod wire;
mod workload;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zebu_client::core::{LinkId, ServerAddress, Session, SessionPolicy, Settings, WatcherId};
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, Reader};

use crate::clock::{CLIENT_CLOCK, Clocks};
use crate::members::List;
use crate::network::ConnectionId;
use crate::operation::Path;
use crate::queue::{MS, Time};
use crate::random::Random;
use crate::shape::{Shape, Workload};

pub(crate) use wire::{Received, Requested, Wire};
pub(crate) use workload::{Drawer, Kind};

/// Whether a client still asks for things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zeal {
    /// It makes calls as its workload says.
    Busy,
    /// It only waits for answers.
    Idle,
}

/// The connection of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) link: LinkId,
    pub(crate) connection: ConnectionId,
    pub(crate) server: usize,
}

/// A client.
pub(crate) struct Client {
    pub(crate) session: Session<usize>,
    pub(crate) link: Option<Link>,
    pub(crate) wire: Wire,
    /// Calls that the machine has taken and not sent yet, in order.
    pub(crate) waiting: VecDeque<usize>,
    pub(crate) wake_at: Option<Time>,
    /// Nothing is read before this moment.
    pub(crate) stalled_until: Time,
    pub(crate) clocks: Clocks,
    pub(crate) zeal: Zeal,
    pub(crate) random: Random,
    /// Names that were created with a counter, to be used again.
    pub(crate) known: Vec<Path>,
    pub(crate) outstanding: usize,
    /// Calls that it may still make.
    pub(crate) budget: u64,
    pub(crate) watchers: u64,
    /// The version of the list of members that it has heard of last.
    pub(crate) known_list: i64,
    /// What the session machine takes for the beginning of time.
    epoch: Instant,
}

impl Client {
    pub(crate) fn new(shape: &Shape, number: u64, now: Time) -> Client {
        let workload = &shape.workload;
        let epoch = Instant::now();
        let mut random = Random::new(shape.seed, 1000 + number);
        let settings = Settings {
            session_timeout: Duration::from_millis(workload.session_timeout_ms),
            connection_timeout: Duration::from_millis(workload.session_timeout_ms * 4),
            policy: SessionPolicy::Renew,
            ..Settings::default()
        };
        let addresses: Vec<ServerAddress> = shape
            .client_ports()
            .iter()
            .flat_map(|port| (0..shape.servers()).map(|server| address_of(server, *port)))
            .collect();
        let mut session =
            Session::new(settings, &addresses, random.draw(), epoch + Duration::from_micros(now));
        session.keep_lease(epoch + Duration::from_micros(now));
        Client {
            session,
            link: None,
            wire: Wire::default(),
            waiting: VecDeque::new(),
            wake_at: None,
            stalled_until: 0,
            clocks: Clocks::default(),
            zeal: Zeal::Busy,
            random,
            known: Vec::new(),
            outstanding: 0,
            budget: workload.calls_max,
            watchers: 0,
            known_list: 0,
            epoch,
        }
    }

    /// A moment in the words of the session machine.
    pub(crate) fn instant(&self, now: Time) -> Instant {
        self.epoch + Duration::from_micros(self.clocks.steady(CLIENT_CLOCK, now))
    }

    /// Its machine is suspended.
    pub(crate) fn suspend(&mut self, now: Time, until: Time) {
        self.stalled_until = self.stalled_until.max(until);
        self.clocks.suspend(now, until);
    }

    /// It goes on before its time.
    pub(crate) fn go_on(&mut self, now: Time) {
        self.stalled_until = 0;
        self.clocks.resume(now);
    }

    /// When the session machine wants to be woken.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let deadline = self.session.deadline()?;
        let steady = deadline.saturating_duration_since(self.epoch).as_micros() as Time;
        Some(self.clocks.time_of(CLIENT_CLOCK, steady))
    }

    pub(crate) fn watcher(&mut self) -> WatcherId {
        self.watchers += 1;
        WatcherId(self.watchers)
    }

    /// Remembers the version of a list of members.
    pub(crate) fn learn_list(&mut self, body: &[u8]) {
        let response = GetDataResponse::decode(&mut Reader::new(body)).ok();
        let data = response.and_then(|response| response.data);
        let list = data.and_then(|data| List::read(std::str::from_utf8(&data).ok()?));
        self.known_list = list.map_or(self.known_list, |list| list.version);
    }

    /// How long the session certainly lives, as its machine knows.
    pub(crate) fn lease_left(&self, now: Time) -> Duration {
        let until = self.session.lease_deadline();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(self.instant(now)))
    }

    /// The negotiated timeout.
    pub(crate) fn timeout_ms(&self) -> u64 {
        self.session.status().session.timeout.as_millis() as u64
    }
}

/// How a server is called.
fn address_of(server: usize, port: u16) -> ServerAddress {
    ServerAddress { host: format!("s{server}").into(), port }
}

/// Who is called that.
pub(crate) fn server_of(address: &ServerAddress) -> Option<usize> {
    address.host.strip_prefix('s')?.parse().ok()
}

/// The pause before the next burst of calls.
pub(crate) fn pause(random: &mut Random, workload: &Workload) -> Time {
    random.between(workload.pause / 2, workload.pause * 3 / 2).max(MS / 10)
}
