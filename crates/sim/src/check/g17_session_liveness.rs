//! G17: a session whose client sends in time is never expired. The check applies while no fault can be the
//! cause: client, its server and the leader were undisturbed for longer than the timeout. After any fault, a
//! new leader gives every session its full timeout.

use zebu_proto::txn::Txn;

use super::{Checker, SessionView};
use crate::history::{CheckResult, Violation};
use crate::queue::{MS, VirtualTime};

const NAME: &str = "g17_session_liveness";

/// Since when each client and server is undisturbed.
#[derive(Clone, Debug)]
pub(crate) struct UndisturbedClients {
    servers: Vec<VirtualTime>,
    clients: Vec<ClientContact>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClientContact {
    /// The server that the client is connected to, and since when.
    connected: Option<(usize, VirtualTime)>,
    /// When the client was last disturbed.
    disturbed: VirtualTime,
    /// When the client last got a reply to one of its own requests.
    heard: VirtualTime,
}

impl UndisturbedClients {
    pub(crate) fn new(servers: usize, clients: usize) -> UndisturbedClients {
        UndisturbedClients { servers: vec![0; servers], clients: vec![ClientContact::default(); clients] }
    }

    /// Records a fault at a server that lasts until this moment.
    pub(crate) fn disturb_server(&mut self, server: usize, until: VirtualTime) {
        self.servers[server] = self.servers[server].max(until);
    }

    pub(crate) fn disturb_client(&mut self, client: usize, until: VirtualTime) {
        let client = &mut self.clients[client];
        client.disturbed = client.disturbed.max(until);
    }

    pub(crate) fn connected(&mut self, client: usize, server: usize, now: VirtualTime) {
        self.clients[client].connected = Some((server, now));
    }

    pub(crate) fn disconnected(&mut self, client: usize) {
        self.clients[client].connected = None;
    }

    pub(crate) fn heard(&mut self, client: usize, now: VirtualTime) {
        self.clients[client].heard = now;
    }
}

/// Checks that the last transaction does not expire a live session.
pub(super) fn check_commit(checker: &Checker) -> CheckResult {
    let Some(last) = checker.committed.entries().last() else { return Ok(()) };
    let header = last.entry.header;
    if !matches!(last.entry.txn, Txn::CloseSession(_)) || header.cxid != 0 {
        return Ok(());
    }
    let Some(session) = checker.sessions.get(&header.session).filter(|session| !session.closing) else {
        return Ok(());
    };
    let timeout = session.timeout_ms * MS;
    let led_since = checker.led_since.get(&header.zxid.epoch());
    if let Some(since) = led_since.filter(|since| checker.now < **since + timeout) {
        let text = format!(
            "{} ends session {:#x} {} ms after its leader began, within its {} ms",
            header.zxid,
            header.session.0,
            (checker.now - since) / MS,
            session.timeout_ms
        );
        return Err(Violation::new(NAME, text));
    }
    if is_live(checker, session) {
        let text = format!(
            "{} ends session {:#x} of client {}, which is connected and heard of",
            header.zxid, header.session.0, session.client
        );
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}

/// Whether no fault can be the cause if this session expires: its client is connected and heard of.
pub(super) fn is_live(checker: &Checker, session: &SessionView) -> bool {
    let timeout = session.timeout_ms * MS;
    let needed = 2 * timeout + 4 * checker.tick;
    let client = checker.quiet.clients[session.client];
    let Some((_, since)) = client.connected else { return false };
    let quiet_since =
        checker.quiet.servers.iter().copied().fold(client.disturbed, VirtualTime::max).max(since);
    quiet_since + needed < checker.now && client.heard + timeout / 2 > checker.now
}
