//! Moves to another server when the connected one asks for it, because it stops soon. The client keeps its
//! session and sends on while it dials another server. Then it sends nothing more, awaits what is out, and
//! continues on the new connection. Without another server it stays.
//!
//! A server asks only a client that has said hello, and a client says hello only to a server that has the
//! feature. The client finds out by one read per connection, in the place of its first ping: servers without
//! the feature get no request more. Once a server had the feature, the client reads at the begin of each
//! connection, so that a server that stops next finds a client that moves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zebu_proto::client::{ClientHello, FEATURE_MOVE, MovePush, PUSH_MOVE};
use zebu_proto::{Jute, OpCode, Reader};

use super::action::{LogEvent, SessionAction};
use super::connect_string::ServerAddress;
use super::phase::{ConnectionUse, LinkId, ServerLink, SessionPhase};
use super::queue::RequestPurpose;
use super::request::ServerReply;
use super::session::SessionMachine;
use super::settings::ServerMoves;
use super::status::SessionState;

/// The virtual node of Zebu servers with their features.
pub(crate) const FEATURES_NODE: &str = "/zookeeper/zebu";

/// The feature of a server that asks its clients to move.
const MOVE: &str = "move";

/// The pause after all servers were dialed in vain.
const ROUND_PAUSE: Duration = Duration::from_millis(250);

/// The names of the features in the data of [`FEATURES_NODE`].
pub(crate) fn feature_names(data: &str) -> impl Iterator<Item = &str> {
    data.lines().find_map(|line| line.strip_prefix("features=")).unwrap_or("").split(',')
}

/// The connection to another server, next to the current one.
#[derive(Debug)]
enum SpareConnection {
    /// All servers were dialed in vain.
    Pause { until: Instant },
    /// The driver opens a stream. The servers behind it follow if it fails.
    Dialing { link: ServerLink, deadline: Instant, others: VecDeque<ServerAddress> },
    /// The stream is open. The answers that are out come on the current connection first.
    Open { link: ServerLink },
}

/// The state of moves.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// A server of this client had the feature.
    is_known: bool,
    /// The server of this connection was asked for its features.
    is_discovered: bool,
    /// The client is between two servers, which the state of the session does not show until this time.
    unnoticed_until: Option<Instant>,
    spare: Option<SpareConnection>,
}

impl Moves {
    /// Whether the client has left a server for another one, and no reply shows yet that it is there.
    pub(super) fn is_between_servers(&self) -> bool {
        self.unnoticed_until.is_some()
    }

    /// The move ends with its session.
    pub(super) fn end(&mut self) {
        self.unnoticed_until = None;
    }

    fn spare_link(&self) -> Option<LinkId> {
        match self.spare.as_ref()? {
            SpareConnection::Pause { .. } => None,
            SpareConnection::Dialing { link, .. } | SpareConnection::Open { link } => Some(link.id),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.spare.as_ref()? {
            SpareConnection::Pause { until } => Some(*until),
            SpareConnection::Dialing { deadline, .. } => Some(*deadline),
            SpareConnection::Open { .. } => None,
        }
    }
}

impl<T> SessionMachine<T> {
    /// A connection begins to serve.
    pub(super) fn begin_discovery(&mut self, now: Instant) {
        self.moves.unnoticed_until = None;
        self.moves.is_discovered = false;
        if self.moves.is_known && self.discovery_due().is_some() {
            self.discover(now);
        }
    }

    /// When the server is asked for its features, if it was not yet: when an idle connection would ping.
    pub(super) fn discovery_due(&self) -> Option<Instant> {
        if self.moves.is_discovered || self.settings.moves == ServerMoves::Ignore {
            return None;
        }
        match &self.phase {
            SessionPhase::Connected { since, search: None, usage: ConnectionUse::Serving, .. } => {
                Some(*since + self.timeout / 3)
            }
            _ => None,
        }
    }

    pub(super) fn discover_if_due(&mut self, now: Instant) {
        if self.discovery_due().is_some_and(|due| now >= due) {
            self.discover(now);
        }
    }

    fn discover(&mut self, now: Instant) {
        self.moves.is_discovered = true;
        let mut body = Vec::new();
        Box::<str>::from(FEATURES_NODE).encode(&mut body);
        false.encode(&mut body);
        self.send_now(now, OpCode::GetData, &body, RequestPurpose::Discover);
        self.last_sent = now;
    }

    /// Says hello to a server that has the feature.
    pub(super) fn discovered(&mut self, now: Instant, reply: &ServerReply) {
        let mut reader = Reader::new(&reply.body);
        let data = if reply.code == 0 { reader.buffer().ok().flatten() } else { None };
        let data = String::from_utf8_lossy(data.unwrap_or_default());
        self.moves.is_known = feature_names(&data).any(|name| name == MOVE);
        let serves = matches!(&self.phase, SessionPhase::Connected { usage: ConnectionUse::Serving, .. });
        if self.moves.is_known && serves {
            let mut body = Vec::new();
            ClientHello { features: FEATURE_MOVE }.encode(&mut body);
            self.send_now(now, OpCode::Hello, &body, RequestPurpose::Hello);
            self.last_sent = now;
        }
    }

    /// A server that refuses hello is not asked again on this connection.
    pub(super) fn hello_answered(&mut self, code: i32) {
        if code != 0 {
            self.moves.is_known = false;
        }
    }

    /// Handles a push. Kinds that this client does not know are ignored.
    pub(super) fn pushed(&mut self, now: Instant, body: &Bytes) {
        let is_move = MovePush::decode(&mut Reader::new(body)).is_ok_and(|push| push.kind == PUSH_MOVE);
        let serves = matches!(&self.phase, SessionPhase::Connected { usage: ConnectionUse::Serving, .. });
        let follows = self.settings.moves == ServerMoves::Follow && self.moves.spare.is_none();
        if is_move && serves && follows {
            self.dial_others(now);
        }
    }

    /// Dials the other servers in turn, and the name of the current one last: it may stand for several.
    fn dial_others(&mut self, now: Instant) {
        let Some(current) = self.phase.link() else { return };
        let others = self.host_provider.others_first(&current.address);
        self.dial_spare(now, others);
    }

    fn dial_spare(&mut self, now: Instant, mut others: VecDeque<ServerAddress>) {
        let Some(address) = others.pop_front() else {
            self.moves.spare = Some(SpareConnection::Pause { until: now + ROUND_PAUSE });
            return;
        };
        self.links += 1;
        let name: Arc<str> = address.to_string().into();
        let link = ServerLink { id: LinkId(self.links), address: address.clone(), name };
        let timeout = self.attempt_timeout();
        self.actions.push_back(SessionAction::Open { link: link.id, server: address, timeout });
        self.moves.spare = Some(SpareConnection::Dialing { link, deadline: now + timeout, others });
    }

    /// Whether the link is that of the connection to another server.
    pub(super) fn is_spare(&self, link: LinkId) -> bool {
        self.moves.spare_link() == Some(link)
    }

    /// The stream to another server is open: nothing more is sent on the current one.
    pub(super) fn spare_opened(&mut self, now: Instant) {
        let Some(SpareConnection::Dialing { link, .. }) = self.moves.spare.take() else { return };
        let deadline = now + self.timeout / 3;
        if let SessionPhase::Connected { usage: usage @ ConnectionUse::Serving, .. } = &mut self.phase {
            *usage = ConnectionUse::Leaving { deadline };
            self.moves.spare = Some(SpareConnection::Open { link });
            self.move_if_idle(now);
        } else {
            self.actions.push_back(SessionAction::Drop { link: link.id });
        }
    }

    /// The stream to another server is lost, or was not opened: the client stays and tries the next one.
    pub(super) fn spare_lost(&mut self, now: Instant) {
        if let Some(link) = self.moves.spare_link() {
            self.actions.push_back(SessionAction::Drop { link });
        }
        match self.moves.spare.take() {
            Some(SpareConnection::Dialing { others, .. }) => self.dial_spare(now, others),
            Some(SpareConnection::Open { .. }) => {
                if let SessionPhase::Connected { usage: usage @ ConnectionUse::Leaving { .. }, .. } =
                    &mut self.phase
                {
                    *usage = ConnectionUse::Serving;
                }
                self.dial_others(now);
            }
            Some(SpareConnection::Pause { .. }) | None => {}
        }
    }

    /// Gives up the connection to another server.
    pub(super) fn drop_spare(&mut self) {
        if let Some(link) = self.moves.spare_link() {
            self.actions.push_back(SessionAction::Drop { link });
        }
        self.moves.spare = None;
    }

    pub(super) fn spare_deadline(&self) -> Option<Instant> {
        self.moves.deadline()
    }

    pub(super) fn tick_spare(&mut self, now: Instant) {
        if self.spare_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.moves.spare_link() {
            Some(_) => self.spare_lost(now),
            None => self.dial_others(now),
        }
    }

    /// Continues on the connection to another server, if it is open. No request is out on the current one.
    /// The state of the session stays: nothing was lost, and calls go on in their order.
    pub(super) fn continue_elsewhere(&mut self, now: Instant) -> bool {
        let Some(SpareConnection::Open { link }) =
            self.moves.spare.take_if(|spare| matches!(spare, SpareConnection::Open { .. }))
        else {
            return false;
        };
        let Some(old) = self.phase.link().cloned() else { return false };
        let event = LogEvent::Moving { from: old.name.clone(), to: link.name.clone() };
        self.actions.push_back(SessionAction::Log(event));
        self.actions.push_back(SessionAction::Drop { link: old.id });
        self.fail_bound_calls();
        self.lose_feeds();
        self.pings.clear();
        self.lease.disconnect();
        self.auth_in_flight.clear();
        self.moves.unnoticed_until = Some(now + self.timeout / 3);
        let (id, deadline) = (link.id, now + self.attempt_timeout());
        self.phase = SessionPhase::Opening { link, deadline };
        self.opened(now, id);
        true
    }

    /// When the state shows that the client has no server, although it was asked to move: the next server may
    /// be behind it, and another one takes it.
    pub(super) fn suspension_due(&self) -> Option<Instant> {
        self.moves.unnoticed_until
    }

    /// Shows that the client has no connection, unless it is about to have one. An expired session must not
    /// be shown as suspended.
    pub(super) fn suspend_if_due(&mut self, now: Instant) {
        if self.moves.unnoticed_until.is_some_and(|until| now < until) {
            return;
        }
        self.moves.unnoticed_until = None;
        if self.state.is_connected() {
            self.set_state(SessionState::Suspended);
        }
    }
}
