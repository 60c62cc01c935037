//! Random requests of several clients, with a slow disk. The frames of each client follow from the log, in
//! the only allowed order.

use proptest::prelude::*;
use zebu_node::ConnectionId;
use zebu_proto::client::CreateOp;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{ErrorCode, Jute};

use crate::client::{
    Ask, EPHEMERAL, Frame, Reply, add_watch, auth, children_watch, create, create2, delete, exists,
    exists_watch, get, get_watch, multi, multi_create, multi_delete, multi_set, ping, remove_watches, set,
    sync,
};
use crate::node_fixture::NodeFixture;
use crate::order_model::{Past, Watches};

const CLIENTS: usize = 3;
const PATHS: [&str; 5] = ["/a", "/a/x", "/a/y", "/b", "/b/x"];

#[derive(Clone, Debug)]
enum Op {
    Create(&'static str, i32),
    Create2(&'static str),
    Delete(&'static str),
    Set(&'static str, u8),
    Multi(Vec<(u8, &'static str)>),
    Get(&'static str, bool),
    Exists(&'static str, bool),
    Children(&'static str),
    AddWatch(&'static str, i32),
    RemoveWatches(&'static str),
    Sync,
    Ping,
    Auth,
    Undecodable,
}

impl Op {
    fn is_write(&self) -> bool {
        matches!(self, Op::Create(..) | Op::Create2(_) | Op::Delete(_) | Op::Set(..) | Op::Multi(_))
    }

    fn ask(&self) -> Ask {
        match self {
            Op::Create(path, flags) => create(path, "new", *flags),
            Op::Create2(path) => create2(path, "new2", 0),
            Op::Delete(path) => delete(path),
            Op::Set(path, value) => set(path, &value.to_string()),
            Op::Multi(parts) => {
                let ops: Vec<_> = parts
                    .iter()
                    .map(|(kind, path)| match kind {
                        0 => multi_create(CreateOp::Create2, path, 0),
                        1 => multi_delete(path),
                        _ => multi_set(path, "multi"),
                    })
                    .collect();
                multi(&ops)
            }
            Op::Get(path, false) => get(path),
            Op::Get(path, true) => get_watch(path),
            Op::Exists(path, false) => exists(path),
            Op::Exists(path, true) => exists_watch(path),
            Op::Children(path) => children_watch(path),
            Op::AddWatch(path, mode) => add_watch(path, *mode),
            Op::RemoveWatches(path) => remove_watches(path, 3),
            Op::Sync => sync("/"),
            Op::Ping => ping(),
            Op::Auth => auth("digest", "me:pw"),
            Op::Undecodable => Ask::raw(5, &[1]),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, Op),
    Persist,
}

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&PATHS[..])
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (path(), prop::sample::select(vec![0, 0, EPHEMERAL]))
            .prop_map(|(path, flags)| Op::Create(path, flags)),
        1 => path().prop_map(Op::Create2),
        3 => path().prop_map(Op::Delete),
        4 => (path(), any::<u8>()).prop_map(|(path, value)| Op::Set(path, value)),
        1 => prop::collection::vec((0..3u8, path()), 0..4).prop_map(Op::Multi),
        4 => (path(), any::<bool>()).prop_map(|(path, watch)| Op::Get(path, watch)),
        3 => (path(), any::<bool>()).prop_map(|(path, watch)| Op::Exists(path, watch)),
        2 => prop::sample::select(vec!["/", "/a", "/b"]).prop_map(Op::Children),
        1 => (prop::sample::select(vec!["/", "/a", "/b/x"]), 0..2)
            .prop_map(|(path, mode)| Op::AddWatch(path, mode)),
        1 => prop::sample::select(vec!["/", "/a", "/b/x"]).prop_map(Op::RemoveWatches),
        1 => Just(Op::Sync),
        1 => Just(Op::Ping),
        1 => Just(Op::Auth),
        1 => Just(Op::Undecodable),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..CLIENTS, op()).prop_map(|(client, op)| Step::Ask(client, op)),
        1 => Just(Step::Persist),
    ];
    prop::collection::vec(step, 1..120)
}

/// One client: what it asked and what it was sent.
struct Transcript {
    connection: ConnectionId,
    asked: Vec<Op>,
    received: Vec<Frame>,
}

impl Transcript {
    fn answers(&self) -> usize {
        self.received.iter().filter(|frame| matches!(frame, Frame::Reply(_))).count()
    }
}

fn run(steps: &[Step]) {
    let mut fixture = NodeFixture::new();
    let client = |_| fixture.client();
    let connections: Vec<ConnectionId> = (0..CLIENTS).map(client).collect();
    let begin = fixture.replica.last_zxid().0;
    let mut transcripts: Vec<Transcript> = connections
        .iter()
        .map(|&connection| Transcript { connection, asked: Vec::new(), received: Vec::new() })
        .collect();
    for step in steps {
        match step {
            Step::Persist => fixture.persist_one(),
            Step::Ask(client, op) => {
                let transcript = &mut transcripts[*client];
                let waits = transcript.asked.len() > transcript.answers();
                fixture.send(transcript.connection, op.ask());
                transcript.asked.push(op.clone());
                transcript.received.extend(fixture.received(transcript.connection));
                let answered = transcript.asked.len() == transcript.answers();
                assert_eq!(
                    answered,
                    !waits && !op.is_write(),
                    "a read waits for its own writes, and for nothing else"
                );
            }
        }
        for transcript in &mut transcripts {
            transcript.received.extend(fixture.received(transcript.connection));
        }
    }
    fixture.persist();
    let past = Past::of(&fixture.history);
    for mut transcript in transcripts {
        transcript.received.extend(fixture.received(transcript.connection));
        check(&fixture, &past, begin, &transcript);
    }
}

/// Follows a client through what it was sent.
fn check(fixture: &NodeFixture, past: &Past, begin: i64, transcript: &Transcript) {
    let session = fixture.session(transcript.connection);
    let zxid_of = |xid: i32| {
        let mine =
            |entry: &&zebu_proto::txn::TxnEntry| (entry.header.session, entry.header.cxid) == (session, xid);
        fixture.history.iter().find(mine).unwrap().header.zxid.0
    };
    let mut watches = Watches::default();
    let mut seen = begin;
    let mut events = Vec::new();
    let mut asked = transcript.asked.iter().zip(1..);
    for frame in &transcript.received {
        let reply = match frame {
            Frame::Event { zxid, kind, path } => {
                events.push((*zxid, *kind, path.clone()));
                continue;
            }
            Frame::Reply(reply) => reply,
        };
        let (op, xid) = asked.next().unwrap();
        assert_eq!(
            reply.xid,
            if matches!(op, Op::Ping) { -2 } else { xid },
            "answers come in the order of requests"
        );
        if matches!(op, Op::Auth) {
            assert_eq!((reply.zxid, reply.error), (0, None));
            continue;
        }
        assert!(reply.zxid >= seen, "the state never goes back");
        assert_eq!(past.events(&mut watches, seen, reply.zxid), events, "before the answer to {op:?}");
        events.clear();
        seen = reply.zxid;
        if op.is_write() {
            assert_eq!(reply.zxid, zxid_of(xid));
        } else {
            let mut later =
                transcript.asked.iter().zip(1..).skip(xid as usize).filter(|(op, _)| op.is_write());
            if let Some((_, next)) = later.next() {
                assert!(reply.zxid < zxid_of(next), "{op:?} runs before the next write");
            }
        }
        check_reply(past, &mut watches, op, reply);
    }
    assert_eq!(asked.next().map(|(op, _)| op.ask().op), None, "everything is answered");
    assert_eq!(
        past.events(&mut watches, seen, fixture.replica.last_zxid().0),
        events,
        "after the last answer"
    );
}

/// Checks what a read says, and registers its watch.
fn check_reply(past: &Past, watches: &mut Watches, op: &Op, reply: &Reply) {
    let node = |path: &str| past.at(reply.zxid).get(path);
    let missing = |path: &str| node(path).is_none().then_some(ErrorCode::NoNode);
    match op {
        Op::Get(path, watch) => {
            assert_eq!(reply.error, missing(path));
            if let Some((data, version)) = node(path) {
                let found = reply.read(|reader| GetDataResponse::decode(reader).unwrap());
                assert_eq!((found.data.as_deref(), found.stat.version), (Some(data.as_bytes()), *version));
                if *watch {
                    watches.data.insert((*path).to_owned());
                }
            }
        }
        Op::Exists(path, watch) => {
            assert_eq!(reply.error, missing(path));
            if let Some((_, version)) = node(path) {
                assert_eq!(reply.stat().version, *version);
            }
            if *watch {
                watches.data.insert((*path).to_owned());
            }
        }
        Op::Children(path) => {
            assert_eq!(reply.error, missing(path));
            if reply.error.is_none() {
                let mut expected: Vec<String> = past.children(reply.zxid, path).into_iter().collect();
                if *path == "/" {
                    expected.push("zookeeper".to_owned());
                }
                let mut found = reply.names();
                found.sort();
                assert_eq!(found, expected);
                watches.child.insert((*path).to_owned());
            }
        }
        Op::AddWatch(path, mode) => {
            let set = if *mode == 0 { &mut watches.persistent } else { &mut watches.recursive };
            set.insert((*path).to_owned());
        }
        Op::RemoveWatches(path) => {
            let expected = if watches.remove(path) { None } else { Some(ErrorCode::NoWatcher) };
            assert_eq!(reply.error, expected);
        }
        Op::Undecodable => assert_eq!(reply.error, Some(ErrorCode::MarshallingError)),
        Op::Sync => assert_eq!(reply.path(), "/"),
        Op::Set(path, value) => match reply.error {
            None => {
                assert_eq!(node(path), Some(&(value.to_string(), reply.stat().version)));
            }
            Some(error) => assert_eq!((error, node(path)), (ErrorCode::NoNode, None)),
        },
        Op::Create(..) | Op::Create2(_) | Op::Delete(_) | Op::Multi(_) | Op::Ping | Op::Auth => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_that_a_client_is_sent_follows_from_the_log(steps in steps()) {
        run(&steps);
    }
}
