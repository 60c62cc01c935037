//! One of the two servers, with the connections of all sessions. A step is played in two halves, sending
//! and receiving, so that both servers work at the same time.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use zebu_proto::client::ConnectResponse;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::{OpCode, Reader, SessionId, Xid};
use zebu_testing::raw::new_session_request;
use zebu_testing::{RawClient, Received, ServerProcess, Session, four_letter};

use super::observed::{Observed, Translation};
use super::request::Request;
use super::step::{Action, Arrival, Ending, Intrusion, SESSIONS, Step};

/// A server that takes longer than this for one request is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The reference.
    Left,
    /// The server under comparison.
    Right,
}

/// What each session saw in one step.
pub(crate) type Sight = [Vec<Observed>; SESSIONS];

/// One connection of a session, and the session itself.
#[derive(Debug, Default)]
struct Seat {
    client: Option<RawClient>,
    session: Option<Session>,
    next_xid: i32,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Peer {
    side: Side,
    server: ServerProcess,
    seats: [Seat; SESSIONS],
    translation: Translation,
    /// The connection that a step has opened.
    newcomer: Option<RawClient>,
}

impl Peer {
    pub(crate) fn new(side: Side, server: ServerProcess) -> Result<Peer> {
        let base = four_letter::last_zxid(server.address(), PATIENCE)?.0;
        let seats = Default::default();
        Ok(Peer { side, server, seats, translation: Translation::from(base), newcomer: None })
    }

    /// What the process has written, for the report.
    pub(crate) fn output(&self) -> String {
        self.server.output()
    }

    /// Whether the process is still there.
    pub(crate) fn is_running(&mut self) -> bool {
        self.server.is_running()
    }

    /// The first half of a step.
    pub(crate) fn send(&mut self, step: &Step) -> Result<()> {
        match &step.action {
            Action::Send { requests, .. } => self.send_requests(step.session, requests),
            Action::SendDifferent { left, right, .. } => {
                let request = if self.side == Side::Left { left } else { right };
                self.send_requests(step.session, std::slice::from_ref(request))
            }
            Action::SendBytes(bytes) => Ok(self.client(step.session)?.send_bytes(bytes)?),
            Action::Arrive(arrival) => self.arrive(step.session, *arrival),
            Action::Intrude(intrusion) => self.intrude(step.session, *intrusion),
            Action::Restart => {
                self.seats.iter_mut().for_each(|seat| seat.client = None);
                Ok(self.server.restart()?)
            }
        }
    }

    /// The second half: everything that the acting session sees.
    pub(crate) fn receive(&mut self, step: &Step, sight: &mut Sight) -> Result<()> {
        let seen = &mut sight[step.session];
        match &step.action {
            Action::Send { requests, ending } => {
                for request in requests {
                    self.receive_reply(step.session, request.op, seen)?;
                }
                self.finish(step.session, *ending, seen)
            }
            Action::SendDifferent { left, ending, .. } => {
                // Both replies are read as the left one, or the reports would differ in the name.
                self.receive_reply(step.session, left.op, seen)?;
                self.finish(step.session, *ending, seen)
            }
            Action::SendBytes(_) => self.finish(step.session, Ending::Closed, seen),
            Action::Arrive(arrival) => self.receive_arrival(step.session, *arrival, seen),
            Action::Intrude(intrusion) => self.receive_intrusion(step.session, *intrusion, seen),
            Action::Restart => Ok(()),
        }
    }

    /// Asks every session but `except` for a ping: what was fired for it has been sent before the answer.
    pub(crate) fn send_barrier(&mut self, except: usize) -> Result<()> {
        for (_, seat) in self.seats.iter_mut().enumerate().filter(|(index, _)| *index != except) {
            if let Some(client) = &mut seat.client {
                client.queue_as(Xid::PING, OpCode::Ping.wire(), |_| {});
                client.flush()?;
            }
        }
        Ok(())
    }

    /// What the other sessions saw, up to the answer of their ping.
    pub(crate) fn receive_barrier(&mut self, except: usize, sight: &mut Sight) -> Result<()> {
        for (index, seen) in sight.iter_mut().enumerate().filter(|(index, _)| *index != except) {
            if self.seats[index].client.is_some() {
                self.receive_reply(index, OpCode::Ping.wire(), seen)?;
            }
        }
        Ok(())
    }

    fn client(&mut self, session: usize) -> Result<&mut RawClient> {
        self.seats[session].client.as_mut().ok_or_else(|| anyhow!("session {session} has no connection"))
    }

    fn send_requests(&mut self, session: usize, requests: &[Request]) -> Result<()> {
        let base = self.translation.base;
        let seat = &mut self.seats[session];
        let client = seat.client.as_mut().ok_or_else(|| anyhow!("session {session} has no connection"))?;
        for request in requests {
            let xid = match OpCode::from_wire(request.op) {
                Some(OpCode::Ping) => Xid::PING,
                Some(OpCode::Auth) => Xid::AUTH,
                _ => Xid(seat.next_xid),
            };
            seat.next_xid += 1;
            client.queue_as(xid, request.op, |out| out.extend_from_slice(&request.body_from(base)));
        }
        Ok(client.flush()?)
    }

    /// Everything up to the answer to one request of operation `op`.
    fn receive_reply(&mut self, session: usize, op: i32, seen: &mut Vec<Observed>) -> Result<()> {
        let Some(client) = &mut self.seats[session].client else { return Ok(()) };
        loop {
            let observed = match client.receive(PATIENCE)? {
                Received::Frame(payload) => self.translation.message(&payload, op),
                Received::Closed => Observed::Closed,
                Received::Nothing => Observed::Silence,
            };
            let event = matches!(observed, Observed::Event { .. });
            if observed == Observed::Closed {
                self.seats[session].client = None;
                seen.push(observed);
                return Ok(());
            }
            seen.push(observed);
            if !event {
                return Ok(());
            }
        }
    }

    fn finish(&mut self, session: usize, ending: Ending, seen: &mut Vec<Observed>) -> Result<()> {
        if ending == Ending::Open {
            return Ok(());
        }
        if let Some(client) = self.seats[session].client.take() {
            self.expect_close(client, seen)?;
        }
        if ending == Ending::SessionEnded {
            self.seats[session].session = None;
        }
        Ok(())
    }

    /// Everything that comes until the server closes.
    /// Reads up to the close of a connection that must end.
    fn expect_close(&self, mut client: RawClient, seen: &mut Vec<Observed>) -> Result<()> {
        loop {
            match client.receive(PATIENCE)? {
                Received::Frame(payload) => seen.push(self.translation.message(&payload, 0)),
                Received::Closed => {
                    seen.push(Observed::Closed);
                    return Ok(());
                }
                Received::Nothing => {
                    seen.push(Observed::Silence);
                    return Ok(());
                }
            }
        }
    }

    fn arrive(&mut self, session: usize, arrival: Arrival) -> Result<()> {
        let mut request = match arrival {
            Arrival::New | Arrival::NewFromOldClient => new_session_request(),
            Arrival::Resume | Arrival::ResumeFromOldClient => self.session(session)?.resume_request(),
        };
        match arrival {
            Arrival::New | Arrival::Resume => {}
            Arrival::NewFromOldClient => request.read_only = ReadOnlyField::Absent,
            Arrival::ResumeFromOldClient => {
                request.read_only = ReadOnlyField::Absent;
                request.timeout_ms = 33_333;
            }
        }
        let mut client = RawClient::connect(self.server.address())?;
        client.send_connect(&request)?;
        self.newcomer = Some(client);
        Ok(())
    }

    fn receive_arrival(&mut self, session: usize, arrival: Arrival, seen: &mut Vec<Observed>) -> Result<()> {
        let mut client = self.newcomer.take().context("no connection was opened")?;
        let response = match client.receive(PATIENCE)? {
            Received::Frame(payload) => ConnectResponse::decode(&mut Reader::new(&payload))?,
            other => {
                seen.push(if other == Received::Closed { Observed::Closed } else { Observed::Silence });
                return Ok(());
            }
        };
        if matches!(arrival, Arrival::New | Arrival::NewFromOldClient) {
            let id = SessionId(response.session_id);
            self.translation.add_session(id);
            self.seats[session].session = Some(Session { id, password: response.password });
        }
        seen.push(self.translation.connected(&response));
        if let Some(old) = self.seats[session].client.take() {
            self.expect_close(old, seen)?;
        }
        self.seats[session].client = Some(client);
        self.seats[session].next_xid = 1;
        Ok(())
    }

    fn session(&self, session: usize) -> Result<Session> {
        self.seats[session].session.ok_or_else(|| anyhow!("session {session} does not exist"))
    }

    fn intrude(&mut self, session: usize, intrusion: Intrusion) -> Result<()> {
        let request = match intrusion {
            Intrusion::WrongPassword => {
                let mut session = self.session(session)?;
                session.password[0] ^= 1;
                session.resume_request()
            }
            Intrusion::UnknownSession => Session::of(SessionId(0x0123_4567_89ab)).resume_request(),
            Intrusion::FutureZxid => {
                let mut request = self.session(session)?.resume_request();
                request.last_zxid_seen = i64::MAX;
                request
            }
        };
        let mut client = RawClient::connect(self.server.address())?;
        client.send_connect(&request)?;
        self.newcomer = Some(client);
        Ok(())
    }

    fn receive_intrusion(
        &mut self,
        session: usize,
        intrusion: Intrusion,
        seen: &mut Vec<Observed>,
    ) -> Result<()> {
        let mut client = self.newcomer.take().context("no connection was opened")?;
        match client.receive(PATIENCE)? {
            Received::Frame(payload) => {
                let response = ConnectResponse::decode(&mut Reader::new(&payload))?;
                seen.push(self.translation.connected(&response));
                self.expect_close(client, seen)?;
            }
            Received::Closed => seen.push(Observed::Closed),
            Received::Nothing => seen.push(Observed::Silence),
        }
        if intrusion == Intrusion::WrongPassword
            && let Some(old) = self.seats[session].client.take()
        {
            seen.push(disturbed(old));
        }
        Ok(())
    }
}

/// Whether a connection survived an intrusion: it answers a ping, or it is closed.
fn disturbed(mut client: RawClient) -> Observed {
    client.queue_as(Xid::PING, OpCode::Ping.wire(), |_| {});
    if client.flush().is_err() {
        return Observed::Closed;
    }
    match client.receive(PATIENCE) {
        Ok(Received::Frame(_)) => Observed::Undisturbed,
        Ok(Received::Closed) | Err(_) => Observed::Closed,
        Ok(Received::Nothing) => Observed::Silence,
    }
}
