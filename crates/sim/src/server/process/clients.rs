//! Connections of clients: bytes in, bytes out, as the edge of the real server moves them.

use zebu_node::{CloseReason, Event, Lane, LaneId, Phase};
use zebu_proto::client::ConnectRequest;
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek};
use zebu_proto::{Id, Reader};
use zebu_tree::Credentials;

use super::{Death, Process, Service};
use crate::check::client_connections::{Closing, RoleThen};
use crate::core::Core;
use crate::network::{ConnectionId, Message, Side};

const FRAME_MAX: usize = 1 << 20;

/// How far a conversation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    First,
    Connecting,
    Serving,
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(crate) lane: LaneId,
    stage: Stage,
    input: Vec<u8>,
    /// [`Process::roles`] when its connect request was read.
    role: u64,
}

impl Process {
    /// A client has connected.
    pub(crate) fn accept_client(&mut self, connection: ConnectionId, core: &mut Core) {
        let lane = LaneId(self.next_lane);
        self.next_lane += 1;
        let now = self.moment(core);
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let mut credentials = Credentials::of_peer(address);
        let dialer = core.network.host(connection, Side::Dialer).map(|host| host.0);
        let operator = core.shape.operator().map(|client| core.shape.servers() + client);
        if operator.is_some() && dialer == operator {
            credentials.add(Id::new("super", ""));
        }
        self.lanes.0.insert(lane, Lane::new(lane, credentials, now.wall_ms, now.monotonic_ms));
        let stage = Stage::First;
        self.clients
            .insert(connection, ClientConnection { lane, stage, input: Vec::new(), role: self.roles });
    }

    /// Bytes of a client.
    pub(crate) fn client_bytes(
        &mut self,
        connection: ConnectionId,
        bytes: &[u8],
        core: &mut Core,
    ) -> Result<(), Death> {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.input.extend_from_slice(bytes);
        }
        self.settle(core)
    }

    /// The connection of a client is gone.
    pub(crate) fn client_gone(&mut self, connection: ConnectionId, core: &mut Core) -> Result<(), Death> {
        self.forget_client(connection);
        self.settle(core)
    }

    fn forget_client(&mut self, connection: ConnectionId) {
        let Some(client) = self.clients.remove(&connection) else { return };
        let Some(mut lane) = self.lanes.0.remove(&client.lane) else { return };
        self.replica.forget_lane(&mut lane);
        let session = lane.session.map(|session| session.id);
        let event = Event::Disconnected { lane: client.lane, session, touched_ms: lane.touched_ms };
        self.inbox.event(event);
    }

    /// Takes requests for which there is room, sends what is to be sent, ends what is over. True if anything
    /// was taken that may have consequences.
    pub(super) fn pump_clients(&mut self, core: &mut Core) -> bool {
        let connections: Vec<ConnectionId> = self.clients.keys().copied().collect();
        let mut consequences = false;
        for connection in connections {
            consequences |= self.take_frames(connection, core);
            consequences |= self.send_answers(connection, core);
        }
        consequences
    }

    fn take_frames(&mut self, connection: ConnectionId, core: &mut Core) -> bool {
        let now = self.moment(core);
        let Some(client) = self.clients.get_mut(&connection) else { return false };
        let lane_id = client.lane;
        let mut input = std::mem::take(&mut client.input);
        let mut stage = client.stage;
        let roles = self.roles;
        let mut role = client.role;
        let mut taken = 0;
        while let Framed::Complete { length } = peek(&input[taken..], FRAME_MAX) {
            let Some(lane) = self.lanes.0.get_mut(&lane_id) else { break };
            if stage == Stage::Connecting && lane.phase == Phase::Serving {
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
                            let event = Event::Connect { lane: lane_id, request };
                            self.inbox.event(event);
                        }
                        Err(_) => lane.close(CloseReason::BadFrame),
                    }
                }
                Stage::Connecting => break,
                Stage::Serving if !lane.has_room() => break,
                Stage::Serving => {
                    if let Some(submission) = self.replica.receive(lane, payload, now.monotonic_ms) {
                        self.inbox.event(Event::Write(submission));
                    }
                }
            }
            taken += LENGTH_SIZE + length;
        }
        input.drain(..taken);
        if let Some(client) = self.clients.get_mut(&connection) {
            client.input = input;
            client.stage = stage;
            client.role = role;
        }
        taken > 0
    }

    fn send_answers(&mut self, connection: ConnectionId, core: &mut Core) -> bool {
        let Some(client) = self.clients.get(&connection) else { return false };
        let Some(lane) = self.lanes.0.get_mut(&client.lane) else { return false };
        if lane.outbox_len() > 0 && core.network.has_room(connection, Side::Listener) {
            let mut bytes = Vec::new();
            let _ = lane.take_outbox(&mut bytes);
            core.network.send(connection, Side::Listener, Message::Bytes(bytes), core.now, &mut core.queue);
            if self.service == Service::Open && lane.phase == Phase::Serving {
                core.judge.shown(self.server, self.replica.last_zxid().0);
            }
        }
        let over = match lane.phase {
            Phase::Closed(reason) => {
                core.tell(format_args!("s{} closes a client: {reason:?}", self.server));
                let is_same = self.service == Service::Open
                    && client.role == self.roles
                    && !self.node.is_handing_over();
                if let Some(host) = core.network.waiting_dialer(connection) {
                    core.judge.client_closed(&Closing {
                        server: self.server,
                        client: host.0 - core.shape.servers(),
                        reason,
                        session: lane.session.map(|session| session.id),
                        applied: self.replica.last_zxid().0,
                        role: if is_same { RoleThen::Same } else { RoleThen::Ended },
                    });
                }
                true
            }
            Phase::Draining => lane.is_drained(),
            Phase::Handshake | Phase::Serving => false,
        };
        if over {
            core.network.close(connection, Side::Listener, core.now, &mut core.queue);
            self.forget_client(connection);
        }
        over
    }
}
