//! G17: a session whose client is heard of in time is never expired. It counts only what cannot be blamed on
//! a fault: client, its server and the leader were undisturbed for longer than the timeout. And whatever has
//! happened, a new leader gives every session its full time.

use zebu_proto::txn::Txn;

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::queue::{MS, Time};

const NAME: &str = "g17_session_liveness";

/// Since when everybody is undisturbed.
#[derive(Clone, Debug)]
pub(crate) struct Quiet {
    servers: Vec<Time>,
    clients: Vec<Client>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// The server that the client is connected to, and since when.
    connected: Option<(usize, Time)>,
    /// When it was last disturbed.
    disturbed: Time,
    /// When it last had an answer to a word of its own.
    heard: Time,
}

impl Quiet {
    pub(crate) fn new(servers: usize, clients: usize) -> Quiet {
        Quiet { servers: vec![0; servers], clients: vec![Client::default(); clients] }
    }

    /// Something happens to a server, until this moment.
    pub(crate) fn disturb_server(&mut self, server: usize, until: Time) {
        self.servers[server] = self.servers[server].max(until);
    }

    pub(crate) fn disturb_client(&mut self, client: usize, until: Time) {
        let client = &mut self.clients[client];
        client.disturbed = client.disturbed.max(until);
    }

    pub(crate) fn connected(&mut self, client: usize, server: usize, now: Time) {
        self.clients[client].connected = Some((server, now));
    }

    pub(crate) fn disconnected(&mut self, client: usize) {
        self.clients[client].connected = None;
    }

    pub(crate) fn heard(&mut self, client: usize, now: Time) {
        self.clients[client].heard = now;
    }
}

/// The last transaction does not end a session that lives.
pub(super) fn check_commit(judge: &Judge) -> Verdict {
    let Some(last) = judge.ledger.entries().last() else { return Ok(()) };
    let header = last.entry.header;
    if !matches!(last.entry.txn, Txn::CloseSession(_)) || header.cxid != 0 {
        return Ok(());
    }
    let Some(session) = judge.sessions.get(&header.session).filter(|session| !session.closing) else {
        return Ok(());
    };
    let timeout = session.timeout_ms * MS;
    let led_since = judge.led_since.get(&header.zxid.epoch());
    if let Some(since) = led_since.filter(|since| judge.now < **since + timeout) {
        let text = format!(
            "{} ends session {:#x} {} ms after its leader began, within its {} ms",
            header.zxid,
            header.session.0,
            (judge.now - since) / MS,
            session.timeout_ms
        );
        return Err(Violation::new(NAME, text));
    }
    let needed = 2 * timeout + 4 * judge.tick;
    let client = judge.quiet.clients[session.client];
    let Some((_, since)) = client.connected else { return Ok(()) };
    let quiet_since = judge.quiet.servers.iter().copied().fold(client.disturbed, Time::max).max(since);
    if quiet_since + needed < judge.now && client.heard + timeout / 2 > judge.now {
        let text = format!(
            "{} ends session {:#x} of client {}, which is connected and heard of",
            header.zxid, header.session.0, session.client
        );
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}
