//! Clients connect, disconnect, fall silent and resume at random, with a slow disk. No permit is lost, no
//! session remains, and the log alone restores the state.

use std::collections::BTreeMap;

use proptest::prelude::*;
use zebu_node::{ConnectionId, ConnectionPhase, NodeSettings, SubmittedRequest};
use zebu_proto::SessionId;
use zebu_proto::client::ConnectRequest;
use zebu_proto::txn::Txn;

use crate::client::{
    EPHEMERAL, SEQUENTIAL, add_watch, close_session, create, create_ttl, delete, get_watch, hello, payloads,
    ping, set,
};
use crate::node_fixture::{NodeFixture, settings};

const TIMEOUT_MS: i64 = 5000;

#[derive(Clone, Debug)]
enum Step {
    /// A new connection with a new session.
    Open,
    /// A new connection resumes a session.
    Resume(usize),
    /// A request, which the node handles at once or at `Deliver`.
    Ask(usize, u8, bool),
    Deliver,
    Persist,
    Pass(i64),
    /// The client disconnects; the node hears of it at once or at `Farewells`.
    Leave(usize, bool),
    Farewells,
    Goodbye(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = || 0..8usize;
    let step = prop_oneof![
        2 => Just(Step::Open),
        2 => which().prop_map(Step::Resume),
        10 => (which(), any::<u8>(), any::<bool>()).prop_map(|(connection, kind, now)| Step::Ask(connection, kind, now)),
        3 => Just(Step::Deliver),
        6 => Just(Step::Persist),
        3 => prop::sample::select(vec![1, 300, 1999, 2500, 6000]).prop_map(Step::Pass),
        2 => (which(), any::<bool>()).prop_map(|(connection, now)| Step::Leave(connection, now)),
        2 => Just(Step::Farewells),
        1 => which().prop_map(Step::Goodbye),
    ];
    prop::collection::vec(step, 1..150)
}

#[derive(Default)]
struct Chaos {
    connections: Vec<ConnectionId>,
    known: BTreeMap<SessionId, ConnectRequest>,
    undelivered: Vec<SubmittedRequest>,
    farewells: Vec<zebu_node::ClientEvent>,
    /// When the server last heard of the client of a session that it had accepted.
    touched: BTreeMap<SessionId, i64>,
    /// Transactions that were checked.
    checked: usize,
}

impl Chaos {
    fn pick(&self, number: usize) -> Option<ConnectionId> {
        (!self.connections.is_empty()).then(|| self.connections[number % self.connections.len()])
    }

    fn step(&mut self, fixture: &mut NodeFixture, step: &Step) {
        match step {
            Step::Open => {
                let connection = fixture.open();
                fixture.connect(connection, hello(TIMEOUT_MS as i32));
                self.connections.push(connection);
            }
            Step::Resume(number) => {
                let Some(request) = self.known.values().nth(*number).cloned() else { return };
                let connection = fixture.open();
                fixture.connect(connection, request);
                self.connections.push(connection);
            }
            Step::Ask(number, kind, now) => {
                let Some(connection) = self.pick(*number) else { return };
                let ask = match kind % 10 {
                    0 => create("/e-", "", EPHEMERAL | SEQUENTIAL),
                    1 => create("/a", "", 0),
                    2 => create("/a/e", "", EPHEMERAL),
                    3 => set("/a", "x"),
                    4 => delete("/a"),
                    5 => delete("/a/e"),
                    6 => get_watch("/a"),
                    7 => add_watch("/", 1),
                    8 => create_ttl("/t", 1000),
                    _ => ping(),
                };
                let submission = fixture.receive(connection, &ask.frame(1));
                if *now && self.undelivered.is_empty() {
                    fixture.submit(submission);
                } else {
                    self.undelivered.extend(submission);
                }
            }
            Step::Deliver => {
                for submission in self.undelivered.drain(..) {
                    fixture.submit(Some(submission));
                }
            }
            Step::Persist => fixture.persist_one(),
            Step::Pass(ms) => {
                fixture.pass(*ms);
                if fixture.node.next_deadline() <= fixture.now.monotonic_ms {
                    fixture.tick();
                }
            }
            Step::Leave(number, now) => {
                let Some(connection) = self.pick(*number) else { return };
                self.connections.retain(|other| *other != connection);
                let farewell = fixture.vanish(connection);
                self.farewells.push(farewell);
                if *now {
                    self.step(fixture, &Step::Farewells);
                }
            }
            Step::Farewells => {
                for farewell in self.farewells.drain(..) {
                    fixture.handle(farewell);
                }
            }
            Step::Goodbye(number) => {
                let Some(connection) = self.pick(*number) else { return };
                let submission = fixture.receive(connection, &close_session().frame(2));
                self.undelivered.extend(submission);
            }
        }
    }

    /// Checks the invariants after each step.
    fn check(&mut self, fixture: &mut NodeFixture) {
        let connections: Vec<ConnectionId> = fixture.connections.0.keys().copied().collect();
        let mut served = Vec::new();
        for connection in connections {
            // Each outbox contains whole frames.
            payloads(&fixture.take_bytes(connection));
            if let (ConnectionPhase::Serving, Some(session)) =
                (fixture.phase(connection), fixture.connection(connection).session)
            {
                served.push(session.id);
                self.touched.insert(session.id, fixture.connection(connection).touched_ms);
                self.known.insert(
                    session.id,
                    ConnectRequest { timeout_ms: TIMEOUT_MS as i32, ..fixture.hello_again(connection) },
                );
            }
        }
        let count = served.len();
        served.sort_unstable();
        served.dedup();
        assert_eq!(served.len(), count, "a session is served by one connection at a time");
        for session in fixture.replica.tree().sessions_with_ephemerals() {
            assert!(fixture.replica.tree().sessions().contains_key(&session), "{session} has ephemerals");
        }
        let tracked: Vec<SessionId> =
            fixture.node.session_report().buckets.into_iter().flat_map(|(_, sessions)| sessions).collect();
        for session in fixture.replica.tree().sessions().keys() {
            assert!(tracked.contains(session), "{session} would live for ever");
        }
        self.check_expiries(fixture);
    }

    /// The server closes no session before its timeout.
    fn check_expiries(&mut self, fixture: &NodeFixture) {
        for entry in &fixture.history[self.checked..] {
            if let (Txn::CloseSession(_), 0) = (&entry.txn, entry.header.cxid)
                && let Some(touched_ms) = self.touched.get(&entry.header.session)
            {
                let silent_ms = fixture.now.monotonic_ms - touched_ms;
                assert!(silent_ms >= TIMEOUT_MS, "{} expired after {silent_ms} ms", entry.header.session);
            }
        }
        self.checked = fixture.history.len();
    }
}

fn run(steps: &[Step]) {
    let mut fixture = NodeFixture::with(NodeSettings {
        throttled_op_wait_ms: 4000,
        container_check_ms: 3000,
        ..settings()
    });
    let mut chaos = Chaos::default();
    for step in steps {
        chaos.step(&mut fixture, step);
        chaos.check(&mut fixture);
    }
    // All clients disconnect, and all transactions become durable.
    while !chaos.connections.is_empty() {
        chaos.step(&mut fixture, &Step::Leave(0, true));
    }
    chaos.step(&mut fixture, &Step::Deliver);
    chaos.step(&mut fixture, &Step::Farewells);
    fixture.persist();
    assert!(fixture.replica.watches().is_empty());
    fixture.run_until(fixture.now.monotonic_ms + 30_000);
    let tree = fixture.replica.tree();
    assert!(tree.sessions().is_empty(), "{:?}", tree.sessions());
    assert_eq!(tree.ephemerals_count(), 0);
    assert!(fixture.node.session_report().buckets.is_empty());
    let (digest, zxid) = (tree.digest(), tree.last_zxid());
    let fixture = fixture.restart();
    assert_eq!((fixture.replica.tree().digest(), fixture.replica.last_zxid()), (digest, zxid));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_is_left_behind(steps in steps()) {
        run(&steps);
    }
}
