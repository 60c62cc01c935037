//! One step of a run: what one session does while the others wait.

use zebu_proto::OpCode;

use super::request::{Body, Effect, Request};

/// Sessions of a run.
pub(crate) const SESSIONS: usize = 3;

/// What happens to the connection after the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It stays.
    Open,
    /// The server closes it; the session lives on.
    Closed,
    /// The server closes it, and the session has ended.
    SessionEnded,
}

/// How a session comes (back) to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A new session.
    New,
    /// A new session of a client that sends no read-only byte.
    NewFromOldClient,
    /// The same session on a new connection; an open old one is closed by the server.
    Resume,
    /// The same with an old client and a shorter timeout.
    ResumeFromOldClient,
}

/// A connection attempt that must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intrusion {
    /// A known session with a wrong password. ZooKeeper closes the session's connection before it checks.
    WrongPassword,
    /// An unknown session.
    UnknownSession,
    /// A client that has seen more than the server has.
    FutureZxid,
}

/// What one session does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Sends these in one write and waits for all replies.
    Send {
        /// In order.
        requests: Vec<Request>,
        /// What follows.
        ending: Ending,
    },
    /// Sends requests that are not the same for both servers, because one of them must not get it.
    SendDifferent {
        /// For the left server, which stands for what the right one should do.
        left: Box<Request>,
        /// For the right server.
        right: Box<Request>,
        /// What follows.
        ending: Ending,
        /// Row of the table of deviations.
        deviation: &'static str,
    },
    /// Sends bytes that are no request; no reply is expected and the server closes.
    SendBytes(&'static [u8]),
    /// Comes with a connection.
    Arrive(Arrival),
    /// A connection attempt that the server must refuse.
    Intrude(Intrusion),
    /// Both servers are stopped and started again; every session comes back.
    Restart,
}

/// A step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Who acts.
    pub(crate) session: usize,
    /// What it does.
    pub(crate) action: Action,
}

impl Step {
    /// One request that leaves the connection open.
    pub(crate) fn single(session: usize, request: Request) -> Step {
        Step { session, action: Action::Send { requests: vec![request], ending: Ending::Open } }
    }

    /// One request after which the server closes.
    pub(crate) fn closing(session: usize, request: Request) -> Step {
        Step { session, action: Action::Send { requests: vec![request], ending: Ending::Closed } }
    }

    /// The session ends.
    pub(crate) fn close_session(session: usize) -> Step {
        let request = Request::write(OpCode::CloseSession, String::new(), Vec::new(), Body::default());
        Step { session, action: Action::Send { requests: vec![request], ending: Ending::SessionEnded } }
    }

    /// Whether other sessions may get events by it.
    pub(crate) fn may_fire(&self) -> bool {
        match &self.action {
            Action::Send { requests, .. } => requests.iter().any(|request| request.effect == Effect::Write),
            Action::SendDifferent { .. } => true,
            Action::SendBytes(_) | Action::Arrive(_) | Action::Intrude(_) | Action::Restart => false,
        }
    }

    /// Whether its events come in no particular order: the ephemeral nodes of a session that ends are
    /// removed in the order of a hash set.
    pub(crate) fn fires_in_any_order(&self) -> bool {
        matches!(&self.action, Action::Send { ending: Ending::SessionEnded, .. })
    }

    /// How many requests it sends.
    pub(crate) fn requests(&self) -> usize {
        match &self.action {
            Action::Send { requests, .. } => requests.len(),
            Action::SendDifferent { .. } | Action::SendBytes(_) => 1,
            Action::Arrive(_) | Action::Intrude(_) | Action::Restart => 1,
        }
    }

    /// One line for the report.
    pub(crate) fn describe(&self) -> String {
        let session = self.session;
        match &self.action {
            Action::Send { requests, ending } => {
                let list: Vec<&str> = requests.iter().map(|request| request.what.as_str()).collect();
                format!("session {session} sends {} (then {ending:?}): {}", list.len(), list.join(" | "))
            }
            Action::SendDifferent { left, right, .. } => {
                format!("session {session} sends left: {}, right: {}", left.what, right.what)
            }
            Action::SendBytes(bytes) => format!("session {session} sends bytes {bytes:02x?}"),
            Action::Arrive(arrival) => format!("session {session} arrives: {arrival:?}"),
            Action::Intrude(intrusion) => format!("on session {session}: {intrusion:?}"),
            Action::Restart => "both servers restart".to_owned(),
        }
    }
}
