//! Connections of clients: bytes in, bytes out, as the edge of the real server moves them.

use zebu_node::{ClientConnection, ClientEvent, ConnectionId, ConnectionPhase, DisconnectReason};
use zebu_proto::client::{ConnectRequest, ReplyHeader};
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek};
use zebu_proto::{Id, Jute, Reader, Xid};
use zebu_tree::Credentials;

use super::{Death, Process, Service};
use crate::check::ServerMode;
use crate::check::client_connections::{ConnectionClose, RoleAtClose};
use crate::check::g26_unnoticed_drain::check_quiet_close;
use crate::check::read_only_state::check_unchanged;
use crate::context::SimContext;
use crate::coverage::CoveredPath;
use crate::network::{NetworkMessage, SocketId, SocketSide};
use crate::queue::{MS, SimEvent, VirtualTime};

const FRAME_MAX: usize = 1 << 20;

/// The time from one slice of a listing to the next.
const SLICE_PAUSE: VirtualTime = MS / 20;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    First,
    Connecting,
    Serving,
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct SimClientConnection {
    pub(crate) lane: ConnectionId,
    stage: Stage,
    input: Vec<u8>,
    /// Requests after the connect request, and replies to them.
    requests: u64,
    replies: u64,
    /// [`Process::roles`] when its connect request was read.
    role: u64,
}

impl Process {
    /// A client has connected.
    pub(crate) fn accept_client(&mut self, connection: SocketId, core: &mut SimContext) {
        let lane = ConnectionId(self.next_lane);
        self.next_lane += 1;
        let now = self.moment(core);
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let mut credentials = Credentials::of_peer(address);
        let dialer = core.network.host(connection, SocketSide::Dialer).map(|host| host.0);
        let operator = core.parameters.operator().map(|client| core.parameters.servers() + client);
        if operator.is_some() && dialer == operator {
            credentials.add(Id::new("super", ""));
        }
        self.lanes.0.insert(lane, ClientConnection::new(lane, credentials, now.wall_ms, now.monotonic_ms));
        let client = SimClientConnection {
            lane,
            stage: Stage::First,
            input: Vec::new(),
            requests: 0,
            replies: 0,
            role: self.roles,
        };
        self.clients.insert(connection, client);
    }

    /// Bytes of a client.
    pub(crate) fn client_bytes(
        &mut self,
        connection: SocketId,
        bytes: &[u8],
        core: &mut SimContext,
    ) -> Result<(), Death> {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.input.extend_from_slice(bytes);
        }
        self.settle(core)
    }

    /// The connection of a client is gone.
    pub(crate) fn client_gone(&mut self, connection: SocketId, core: &mut SimContext) -> Result<(), Death> {
        self.forget_client(connection);
        self.settle(core)
    }

    fn forget_client(&mut self, connection: SocketId) {
        let Some(client) = self.clients.remove(&connection) else { return };
        let Some(mut lane) = self.lanes.0.remove(&client.lane) else { return };
        self.replica.remove_connection(&mut lane);
        let session = lane.session.map(|session| session.id);
        let event =
            ClientEvent::Disconnected { connection: client.lane, session, touched_ms: lane.touched_ms };
        self.inbox.event(event);
    }

    /// Accepts requests that fit, sends pending replies, closes ended connections. True if a request was
    /// accepted that may have effects.
    pub(super) fn pump_clients(&mut self, core: &mut SimContext) -> bool {
        let connections: Vec<SocketId> = self.clients.keys().copied().collect();
        let mut consequences = false;
        for connection in connections {
            consequences |= self.take_frames(connection, core);
            consequences |= self.run_listing(connection, core);
            consequences |= self.send_answers(connection, core);
        }
        consequences
    }

    fn take_frames(&mut self, connection: SocketId, core: &mut SimContext) -> bool {
        let now = self.moment(core);
        let Some(client) = self.clients.get_mut(&connection) else { return false };
        let lane_id = client.lane;
        let mut input = std::mem::take(&mut client.input);
        let mut stage = client.stage;
        let roles = self.roles;
        let mut role = client.role;
        let (mut taken, mut requests) = (0, 0);
        while let Framed::Complete { length } = peek(&input[taken..], FRAME_MAX) {
            let Some(lane) = self.lanes.0.get_mut(&lane_id) else { break };
            if stage == Stage::Connecting && lane.phase == ConnectionPhase::Serving {
                stage = Stage::Serving;
            }
            let payload = &input[taken + LENGTH_SIZE..taken + LENGTH_SIZE + length];
            match stage {
                Stage::First => {
                    stage = Stage::Connecting;
                    role = roles;
                    lane.count_received();
                    match ConnectRequest::decode(&mut Reader::new(payload)) {
                        Ok(request) => {
                            let event = ClientEvent::Connect { connection: lane_id, request };
                            self.inbox.event(event);
                        }
                        Err(_) => lane.close(DisconnectReason::BadFrame),
                    }
                }
                Stage::Connecting => break,
                Stage::Serving if !lane.has_room() => break,
                Stage::Serving => {
                    requests += 1;
                    if let Some(submission) = self.replica.receive(lane, payload, now.monotonic_ms) {
                        self.inbox.event(ClientEvent::Request(submission));
                    }
                }
            }
            taken += LENGTH_SIZE + length;
        }
        input.drain(..taken);
        if let Some(client) = self.clients.get_mut(&connection) {
            client.input = input;
            client.requests += requests;
            client.stage = stage;
            client.role = role;
        }
        taken > 0
    }

    /// Does a slice of the work for a listing. Other events run before the next slice.
    fn run_listing(&mut self, connection: SocketId, core: &mut SimContext) -> bool {
        let now_ms = self.moment(core).monotonic_ms;
        let Some(client) = self.clients.get(&connection) else { return false };
        let Some(lane) = self.lanes.0.get_mut(&client.lane) else { return false };
        if !lane.has_listing_to_run() {
            return false;
        }
        if self.replica.continue_listing(lane, now_ms) {
            core.count(CoveredPath::ListingSlice);
            let (server, incarnation) = (self.server, self.incarnation);
            core.push(core.now + SLICE_PAUSE, SimEvent::ServerTurn { server, incarnation });
            return false;
        }
        self.take_frames(connection, core);
        true
    }

    fn send_answers(&mut self, connection: SocketId, core: &mut SimContext) -> bool {
        let (is_resigning, is_draining) = (self.node().is_resigning(), self.node().is_draining());
        let Some(client) = self.clients.get_mut(&connection) else { return false };
        let Some(lane) = self.lanes.0.get_mut(&client.lane) else { return false };
        if lane.outbox_len() > 0 && core.network.has_room(connection, SocketSide::Listener) {
            let mut bytes = Vec::new();
            let _ = lane.take_outbox(&mut bytes);
            client.replies += count_replies(&bytes);
            core.network.send(
                connection,
                SocketSide::Listener,
                NetworkMessage::Bytes(bytes),
                core.now,
                &mut core.queue,
            );
            if lane.phase == ConnectionPhase::Serving {
                let last = self.replica.last_zxid();
                match self.service {
                    // A connection that was kept without a leader shows committed states too.
                    Service::Open | Service::Closed => core.checker.shown(self.server, last.0),
                    Service::ReadOnly(began_at) => {
                        core.checker.report(check_unchanged(self.server, began_at, last));
                    }
                }
            }
        }
        if client.input.is_empty() && lane.leave_if_quiet() {
            core.count(CoveredPath::ConnectionDrained);
            let verdict = check_quiet_close(self.server, client.requests, client.replies);
            core.checker.report(verdict);
        }
        let over = match lane.phase {
            ConnectionPhase::Closed(reason) => {
                core.trace_line(format_args!("s{} closes a client: {reason:?}", self.server));
                let is_same = client.role == self.roles && !is_resigning;
                let role = match self.service {
                    Service::Open if is_same => RoleAtClose::Same,
                    Service::ReadOnly(_) if is_same => RoleAtClose::ReadOnly,
                    Service::Open | Service::ReadOnly(_) | Service::Closed => RoleAtClose::Ended,
                };
                if let Some(host) = core.network.waiting_dialer(connection) {
                    let client = host.0 - core.parameters.servers();
                    let accepts = core.parameters.accepts_read_only(client);
                    core.checker.client_closed(&ConnectionClose {
                        server: self.server,
                        client,
                        reason,
                        session: lane.session.map(|session| session.id),
                        applied: self.replica.last_zxid().0,
                        role,
                        has_served: self.has_served,
                        accepts: if accepts { ServerMode::ReadOnly } else { ServerMode::ReadWrite },
                        is_draining,
                    });
                }
                true
            }
            ConnectionPhase::Draining => lane.is_drained(),
            ConnectionPhase::Handshake | ConnectionPhase::Serving => false,
        };
        if over {
            core.network.close(connection, SocketSide::Listener, core.now, &mut core.queue);
            self.forget_client(connection);
        }
        over
    }
}

/// Replies to requests among the frames that leave. The greeting has the protocol version for an xid.
fn count_replies(mut bytes: &[u8]) -> u64 {
    let mut replies = 0;
    while let Framed::Complete { length } = peek(bytes, usize::MAX) {
        let (frame, rest) = bytes.split_at(LENGTH_SIZE + length);
        bytes = rest;
        let header = ReplyHeader::decode(&mut Reader::new(&frame[LENGTH_SIZE..]));
        let is_reply =
            |header: ReplyHeader| !matches!(Xid(header.xid), Xid(0) | Xid::NOTIFICATION | Xid::PUSH);
        replies += u64::from(header.is_ok_and(is_reply));
    }
    replies
}
