//! Random clients, crashes and partitions. Acknowledged writes stay, and the requests of a client keep their
//! order. No client sees an older state, and all servers end with the same state.

use std::collections::{BTreeMap, BTreeSet};

use zebu_node::{ConnectionId, ConnectionPhase, LocalSessionSupport, SplitMix64};
use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, ServerId, SessionId};
use zebu_zab::HistoryLimits;

use crate::client::{
    Ask, EPHEMERAL, Frame, close_session, create, delete, get_watch, hello, multi, multi_set, ping, set, sync,
};
use crate::three_nodes::{Logs, ThreeNodes};

/// A client and its observations.
#[derive(Debug, Default)]
struct Client {
    at: Option<(ServerId, ConnectionId)>,
    session: Option<SessionId>,
    next_xid: i32,
    /// The requests on this connection: xid, and whether it is a write.
    asked: Vec<(i32, Does)>,
    last_zxid: i64,
    acknowledged: Vec<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Write,
    Read,
}

struct Run {
    ensemble: ThreeNodes,
    random: SplitMix64,
    clients: Vec<Client>,
    /// Whether a farewell becomes a transaction depends on the session, if sessions are local at first.
    farewell: Does,
}

impl Run {
    fn new(seed: u64, local_sessions: LocalSessionSupport) -> Run {
        let mut random = SplitMix64::new(seed);
        let entries = [3, 1000][random.below(2) as usize];
        let history = HistoryLimits { entries, bytes: 1 << 20 };
        let mut ensemble = ThreeNodes::with_local_sessions(random.below(2) as i64, history, local_sessions);
        ensemble.logs = if random.below(2) == 0 { Logs::Kept } else { Logs::Purged };
        let farewell = match local_sessions {
            LocalSessionSupport::Off => Does::Write,
            LocalSessionSupport::WithUpgrade | LocalSessionSupport::WithoutUpgrade => Does::Read,
        };
        Run { ensemble, random, clients: (0..4).map(|_| Client::default()).collect(), farewell }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn ask(&mut self) -> (Ask, Does) {
        let path = self.pick(&["/a", "/b", "/c"]);
        match self.random.below(9) {
            0 | 1 => (create(path, "", 0), Does::Write),
            2 => (create(path, "", EPHEMERAL), Does::Write),
            3 => (delete(path), Does::Write),
            4 | 5 => (set(path, "x"), Does::Write),
            6 => (multi(&[multi_set("/a", "m"), multi_set("/b", "m")]), Does::Write),
            7 => (sync(path), Does::Read),
            _ => (get_watch(path), Does::Read),
        }
    }

    fn step(&mut self) {
        let ids: Vec<ServerId> = self.ensemble.servers.keys().copied().collect();
        match self.random.below(100) {
            0..70 => {
                let client = self.random.below(self.clients.len() as u64) as usize;
                self.act(client);
            }
            70..90 => {
                let ms = self.pick(&[1, 10, 500, 2500]);
                self.ensemble.run(ms);
            }
            90..93 if ids.len() > 2 => {
                let id = self.pick(&ids);
                self.crash(id);
            }
            93..95 => {
                let id = self.pick(&ids);
                self.ensemble.cut_off(id);
            }
            95..97 => self.ensemble.heal(),
            _ => {
                for id in (1..=4).map(ServerId).filter(|&id| self.ensemble.is_down(id)).collect::<Vec<_>>() {
                    self.ensemble.start(id);
                }
            }
        }
        match self.random.below(6) {
            0 => self.ensemble.settle(),
            1..4 => self.ensemble.deliver_some(&mut self.random),
            _ => {}
        }
        (0..self.clients.len()).for_each(|client| self.listen(client));
    }

    fn crash(&mut self, id: ServerId) {
        (0..self.clients.len()).for_each(|client| self.listen(client));
        for client in &mut self.clients {
            client.at = client.at.filter(|(at, _)| *at != id);
        }
        self.ensemble.crash(id);
    }

    fn act(&mut self, index: usize) {
        let ids: Vec<ServerId> = self.ensemble.servers.keys().copied().collect();
        let id = self.pick(&ids);
        let choice = self.random.below(20);
        match self.clients[index].at {
            None => self.knock(index, id),
            // The client connects to another server while its connection is open.
            Some(_) if choice == 0 => self.knock(index, id),
            Some((at, connection)) if choice == 1 => {
                self.listen(index);
                self.ensemble.server(at).fixture.disconnect(connection);
                self.clients[index].at = None;
            }
            Some((at, connection)) if choice == 2 && self.random.below(4) == 0 => {
                self.send(index, (at, connection), &close_session(), self.farewell);
            }
            Some((at, connection)) if choice < 5 => {
                self.ensemble.server(at).fixture.send_as(connection, -2, &ping())
            }
            Some(at) => {
                let (ask, does) = self.ask();
                self.send(index, at, &ask, does);
            }
        }
    }

    fn send(&mut self, index: usize, (at, connection): (ServerId, ConnectionId), ask: &Ask, does: Does) {
        let fixture = &mut self.ensemble.server(at).fixture;
        if fixture.phase(connection) == ConnectionPhase::Serving {
            let client = &mut self.clients[index];
            client.next_xid += 1;
            client.asked.push((client.next_xid, does));
            fixture.send_as(connection, client.next_xid, ask);
        }
    }

    fn knock(&mut self, index: usize, id: ServerId) {
        self.listen(index);
        let client = &mut self.clients[index];
        let mut request = hello(6000);
        if let Some(session) = client.session {
            request.session_id = session.0;
            request.password = Some(zebu_proto::password::session_password(session).into());
            request.last_zxid_seen = client.last_zxid;
        }
        let connection = self.ensemble.knock(id, request);
        let greeting = self.ensemble.server(id).fixture.greeting(connection);
        let client = &mut self.clients[index];
        match greeting {
            Some(greeting) if greeting.session_id == 0 => {
                *client = Client { next_xid: client.next_xid, ..Client::default() };
            }
            Some(greeting) => {
                client.session = Some(SessionId(greeting.session_id));
                client.at = Some((id, connection));
                client.asked.clear();
            }
            // The server refuses or does not answer: the client retries.
            None => self.ensemble.server(id).fixture.disconnect(connection),
        }
    }

    /// Reads and checks the replies.
    fn listen(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some((at, connection)) = client.at else { return };
        let fixture = &mut self.ensemble.servers.get_mut(&at).unwrap().fixture;
        for frame in fixture.received(connection) {
            let (xid, zxid) = match &frame {
                Frame::Event { zxid, .. } => (None, *zxid),
                Frame::Reply(reply) => (Some(reply.xid), reply.zxid),
            };
            assert!(zxid >= client.last_zxid, "time goes on: {frame:?} after {:#x}", client.last_zxid);
            client.last_zxid = zxid;
            if let Some(xid) = xid.filter(|&xid| xid != -2) {
                let (asked, does) = client.asked.remove(0);
                assert_eq!(asked, xid, "answers come in the order of the questions");
                if does == Does::Write {
                    client.acknowledged.push(zxid);
                }
            }
        }
        if let ConnectionPhase::Closed(_) = fixture.phase(connection) {
            fixture.disconnect(connection);
            client.at = None;
        }
    }

    fn finish(mut self) -> usize {
        self.ensemble.heal();
        for id in (1..=4).map(ServerId).filter(|&id| self.ensemble.is_down(id)).collect::<Vec<_>>() {
            self.ensemble.start(id);
        }
        self.ensemble.run(30_000);
        (0..self.clients.len()).for_each(|client| self.listen(client));
        self.ensemble.assert_equal();
        let leader = self.ensemble.leader().unwrap();
        let tree = self.ensemble.servers[&leader].fixture.replica.tree();
        for owner in tree.sessions_with_ephemerals() {
            assert!(tree.sessions().contains_key(&owner), "somebody will remove what {owner:?} leaves");
        }
        let history = self.ensemble.history(leader);
        let mut sessions = BTreeSet::new();
        let mut by_zxid = BTreeMap::new();
        for entry in &history {
            match entry.txn {
                Txn::CreateSession { .. } => {
                    assert!(sessions.insert(entry.header.session), "ids are used once")
                }
                Txn::CloseSession(_) => {}
                Txn::Error(code) if code == ErrorCode::SessionMoved.wire() => {}
                _ => {}
            }
            by_zxid.insert(entry.header.zxid.0, entry);
        }
        for client in &self.clients {
            let mut last = 0;
            for zxid in &client.acknowledged {
                assert!(*zxid > last, "one place for every write");
                last = *zxid;
                let entry = by_zxid.get(zxid).expect("what was acknowledged stays");
                assert_eq!(Some(entry.header.session), client.session);
            }
        }
        self.clients.iter().map(|client| client.acknowledged.len()).sum()
    }
}

/// The number of acknowledged writes.
fn run_seeds(seeds: std::ops::Range<u64>, local_sessions: LocalSessionSupport) -> usize {
    let run_seed = |seed| {
        let mut run = Run::new(seed, local_sessions);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            for _ in 0..400 {
                run.step();
            }
            run.finish()
        }));
        result.unwrap_or_else(|_| panic!("seed {seed}"))
    };
    seeds.map(run_seed).sum()
}

#[test]
fn whatever_happens_the_promises_hold() {
    let acknowledged = run_seeds(0..60, LocalSessionSupport::Off);
    assert!(acknowledged > 1000, "only {acknowledged} writes were acknowledged");
}

#[test]
fn the_promises_hold_for_sessions_that_are_local_at_first() {
    let acknowledged = run_seeds(0..60, LocalSessionSupport::WithUpgrade);
    assert!(acknowledged > 1000, "only {acknowledged} writes were acknowledged");
}
