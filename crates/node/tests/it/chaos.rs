//! Clients that come, go, fall silent and come back at random moments, with a slow disk: whatever happens,
//! no room is lost, no session is left behind, and the log alone brings everything back.

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
use crate::world::{World, settings};

const TIMEOUT_MS: i64 = 5000;

#[derive(Clone, Debug)]
enum Step {
    /// A new connection with a new session.
    Open,
    /// A new connection takes up a session that some connection had.
    Resume(usize),
    /// A request, with the core looking at it at once, or when `Deliver` says so.
    Ask(usize, u8, bool),
    Deliver,
    Persist,
    Pass(i64),
    /// The client leaves; the core is told at once, or by `Farewells`.
    Leave(usize, bool),
    Farewells,
    Goodbye(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = || 0..8usize;
    let step = prop_oneof![
        2 => Just(Step::Open),
        2 => which().prop_map(Step::Resume),
        10 => (which(), any::<u8>(), any::<bool>()).prop_map(|(lane, kind, now)| Step::Ask(lane, kind, now)),
        3 => Just(Step::Deliver),
        6 => Just(Step::Persist),
        3 => prop::sample::select(vec![1, 300, 1999, 2500, 6000]).prop_map(Step::Pass),
        2 => (which(), any::<bool>()).prop_map(|(lane, now)| Step::Leave(lane, now)),
        2 => Just(Step::Farewells),
        1 => which().prop_map(Step::Goodbye),
    ];
    prop::collection::vec(step, 1..150)
}

#[derive(Default)]
struct Chaos {
    lanes: Vec<ConnectionId>,
    known: BTreeMap<SessionId, ConnectRequest>,
    undelivered: Vec<SubmittedRequest>,
    farewells: Vec<zebu_node::ClientEvent>,
    /// When the server last heard of the client of a session that it had accepted.
    touched: BTreeMap<SessionId, i64>,
    /// Transactions that were looked at.
    checked: usize,
}

impl Chaos {
    fn pick(&self, number: usize) -> Option<ConnectionId> {
        (!self.lanes.is_empty()).then(|| self.lanes[number % self.lanes.len()])
    }

    fn step(&mut self, world: &mut World, step: &Step) {
        match step {
            Step::Open => {
                let lane = world.open();
                world.connect(lane, hello(TIMEOUT_MS as i32));
                self.lanes.push(lane);
            }
            Step::Resume(number) => {
                let Some(request) = self.known.values().nth(*number).cloned() else { return };
                let lane = world.open();
                world.connect(lane, request);
                self.lanes.push(lane);
            }
            Step::Ask(number, kind, now) => {
                let Some(lane) = self.pick(*number) else { return };
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
                let submission = world.receive(lane, &ask.frame(1));
                if *now && self.undelivered.is_empty() {
                    world.submit(submission);
                } else {
                    self.undelivered.extend(submission);
                }
            }
            Step::Deliver => {
                for submission in self.undelivered.drain(..) {
                    world.submit(Some(submission));
                }
            }
            Step::Persist => world.persist_one(),
            Step::Pass(ms) => {
                world.pass(*ms);
                if world.node.next_deadline() <= world.now.monotonic_ms {
                    world.tick();
                }
            }
            Step::Leave(number, now) => {
                let Some(lane) = self.pick(*number) else { return };
                self.lanes.retain(|other| *other != lane);
                let farewell = world.vanish(lane);
                self.farewells.push(farewell);
                if *now {
                    self.step(world, &Step::Farewells);
                }
            }
            Step::Farewells => {
                for farewell in self.farewells.drain(..) {
                    world.handle(farewell);
                }
            }
            Step::Goodbye(number) => {
                let Some(lane) = self.pick(*number) else { return };
                let submission = world.receive(lane, &close_session().frame(2));
                self.undelivered.extend(submission);
            }
        }
    }

    /// What must hold after every step.
    fn check(&mut self, world: &mut World) {
        let lanes: Vec<ConnectionId> = world.lanes.0.keys().copied().collect();
        let mut served = Vec::new();
        for lane in lanes {
            // Whole frames, whatever happened.
            payloads(&world.take_bytes(lane));
            if let (ConnectionPhase::Serving, Some(session)) = (world.phase(lane), world.lane(lane).session) {
                served.push(session.id);
                self.touched.insert(session.id, world.lane(lane).touched_ms);
                self.known.insert(
                    session.id,
                    ConnectRequest { timeout_ms: TIMEOUT_MS as i32, ..world.hello_again(lane) },
                );
            }
        }
        let count = served.len();
        served.sort_unstable();
        served.dedup();
        assert_eq!(served.len(), count, "a session is served by one connection at a time");
        for session in world.replica.tree().sessions_with_ephemerals() {
            assert!(world.replica.tree().sessions().contains_key(&session), "{session} has ephemerals");
        }
        let tracked: Vec<SessionId> =
            world.node.session_report().buckets.into_iter().flat_map(|(_, sessions)| sessions).collect();
        for session in world.replica.tree().sessions().keys() {
            assert!(tracked.contains(session), "{session} would live for ever");
        }
        self.check_expiries(world);
    }

    /// No session is closed by the server before its timeout is over.
    fn check_expiries(&mut self, world: &World) {
        for entry in &world.history[self.checked..] {
            if let (Txn::CloseSession(_), 0) = (&entry.txn, entry.header.cxid)
                && let Some(touched_ms) = self.touched.get(&entry.header.session)
            {
                let silent_ms = world.now.monotonic_ms - touched_ms;
                assert!(silent_ms >= TIMEOUT_MS, "{} expired after {silent_ms} ms", entry.header.session);
            }
        }
        self.checked = world.history.len();
    }
}

fn run(steps: &[Step]) {
    let mut world =
        World::with(NodeSettings { throttled_op_wait_ms: 4000, container_check_ms: 3000, ..settings() });
    let mut chaos = Chaos::default();
    for step in steps {
        chaos.step(&mut world, step);
        chaos.check(&mut world);
    }
    // Everybody leaves and the disk catches up.
    while !chaos.lanes.is_empty() {
        chaos.step(&mut world, &Step::Leave(0, true));
    }
    chaos.step(&mut world, &Step::Deliver);
    chaos.step(&mut world, &Step::Farewells);
    world.persist();
    assert!(world.replica.watches().is_empty());
    world.run_until(world.now.monotonic_ms + 30_000);
    let tree = world.replica.tree();
    assert!(tree.sessions().is_empty(), "{:?}", tree.sessions());
    assert_eq!(tree.ephemerals_count(), 0);
    assert!(world.node.session_report().buckets.is_empty());
    let (digest, zxid) = (tree.digest(), tree.last_zxid());
    let world = world.restart();
    assert_eq!((world.replica.tree().digest(), world.replica.last_zxid()), (digest, zxid));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_is_left_behind(steps in steps()) {
        run(&steps);
    }
}
