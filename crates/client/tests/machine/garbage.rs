//! Any bytes, any order of events, any passing of time: nothing panics, nothing is busy without end, and
//! every call ends exactly once.

use std::time::Duration;

use proptest::prelude::*;
use zebu_client::core::{SaslLogin, SaslSettings, ServerList, ServerMoves, WatchIntent, WatcherId};
use zebu_proto::client::ConnectResponse;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::{OpCode, SessionId};

use crate::rig::{Rig, event, push, reply};
use crate::sasl::answer_token;

#[derive(Clone, Debug)]
enum Step {
    Call,
    Watch(u8),
    Unwatch(u8),
    Auth,
    /// The server takes the SASL tokens that are written, as one that knows the user.
    Authenticate,
    Write,
    Open,
    Accept(bool),
    Lose,
    Bytes(Vec<u8>),
    Reply {
        off: i8,
        err: i32,
        body: Vec<u8>,
    },
    Event(i32),
    Ping,
    Pass(u16),
    Servers(bool),
    Probed(bool),
    Push(i32),
    OpenSpare(bool),
    Greet,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..60);
    let codes = prop_oneof![Just(0), Just(-101), Just(-112), Just(-115), Just(-124), Just(-6), any::<i32>()];
    prop_oneof![
        6 => Just(Step::Call),
        3 => any::<u8>().prop_map(Step::Watch),
        2 => any::<u8>().prop_map(Step::Unwatch),
        1 => Just(Step::Auth),
        4 => Just(Step::Authenticate),
        6 => Just(Step::Write),
        2 => Just(Step::Open),
        6 => any::<bool>().prop_map(Step::Accept),
        2 => Just(Step::Lose),
        1 => bytes().prop_map(Step::Bytes),
        6 => (prop_oneof![9 => Just(0i8), 1 => any::<i8>()], codes, bytes())
            .prop_map(|(off, err, body)| Step::Reply { off, err, body }),
        2 => (-1..6i32).prop_map(Step::Event),
        1 => Just(Step::Ping),
        3 => any::<u16>().prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Servers),
        1 => any::<bool>().prop_map(Step::Probed),
        2 => (1..4i32).prop_map(Step::Push),
        4 => prop::bool::weighted(0.8).prop_map(Step::OpenSpare),
        4 => Just(Step::Greet),
        1 => Just(Step::Close),
    ]
}

fn intent(number: u8) -> WatchIntent {
    match number % 5 {
        0 => WatchIntent::Data,
        1 => WatchIntent::Exists,
        2 => WatchIntent::Children,
        3 => WatchIntent::Persistent,
        _ => WatchIntent::Recursive,
    }
}

/// The number of the oldest request that waits for its answer, as a server would know it.
#[derive(Default)]
struct Awaited(std::collections::VecDeque<i32>);

fn run(steps: Vec<Step>, authenticates: bool) {
    let login = SaslLogin::digest_md5("bob", "bobsecret");
    let mut rig = Rig::new("a:1,b:1", |settings| {
        settings.connection_timeout = Duration::from_secs(2);
        settings.moves = ServerMoves::Follow;
        settings.sasl = authenticates.then_some(SaslSettings { login, nonce_seed: [1; 32] });
    });
    let mut mechanism = crate::sasl::server();
    let mut awaited = Awaited::default();
    let mut tokens = 0;
    for step in steps {
        let token = tokens;
        match step {
            Step::Call => {
                tokens += 1;
                rig.call(token, OpCode::SetData, b"x");
            }
            Step::Watch(number) => {
                tokens += 1;
                rig.watch(token, intent(number), &format!("/{}", number % 3));
            }
            Step::Unwatch(number) => rig.session.unwatch(rig.now, WatcherId(u64::from(number) % 40)),
            Step::Auth => {
                tokens += 1;
                rig.session.add_auth(rig.now, "digest", vec![token as u8 % 3].into(), token);
            }
            Step::Authenticate if rig.link.is_some() => {
                for request in rig.requests() {
                    match answer_token(&mut rig, &request, &mut mechanism) {
                        true => {}
                        false if request.xid > 0 => awaited.0.push_back(request.xid),
                        false => {}
                    }
                }
            }
            Step::Write if rig.link.is_some() => {
                awaited.0.extend(rig.requests().into_iter().filter(|seen| seen.xid > 0).map(|seen| seen.xid))
            }
            Step::Open if rig.opening.is_some() => {
                awaited.0.clear();
                mechanism = crate::sasl::server();
                rig.open();
            }
            Step::Accept(read_only) if rig.opening.is_some() => {
                awaited.0.clear();
                mechanism = crate::sasl::server();
                rig.accept_as(i64::from(tokens) + 1, read_only);
            }
            Step::Lose if rig.link.is_some() || rig.opening.is_some() => rig.lose(),
            Step::Bytes(bytes) => rig.receive(&bytes),
            Step::Reply { off, err, body } => {
                let xid = awaited.0.pop_front().unwrap_or(1);
                rig.receive(&reply(xid.wrapping_add(off.into()), 5, err, &body));
            }
            Step::Event(kind) => rig.receive(&event(kind, "/1", 5)),
            Step::Ping => rig.reply(-2, 5, 0, b""),
            Step::Pass(millis) => rig.pass(Duration::from_millis(millis.into())),
            Step::Servers(other) => {
                let list: ServerList = if other { "c:1,d:1,e:1" } else { "a:1,b:1" }.parse().unwrap();
                rig.session.set_servers(rig.now, list.servers());
            }
            Step::Probed(takes_writes) => {
                if let Some(server) = rig.probes.pop() {
                    rig.session.probed(rig.now, server, takes_writes);
                }
            }
            Step::Push(kind) => rig.receive(&push(kind)),
            Step::OpenSpare(opens) if rig.spare.is_some() => {
                if opens {
                    rig.open_spare();
                } else {
                    rig.lose_spare();
                }
            }
            Step::Greet if rig.has_moved => {
                awaited.0.clear();
                mechanism = crate::sasl::server();
                rig.has_moved = false;
                let response = ConnectResponse::accepted(SessionId(7), 12_000, ReadOnlyField::Present(false));
                rig.respond(&response);
            }
            Step::Close => {
                tokens += 1;
                rig.session.close(rig.now, token);
            }
            Step::Authenticate
            | Step::Write
            | Step::Open
            | Step::Accept(_)
            | Step::Lose
            | Step::OpenSpare(_)
            | Step::Greet => {}
        }
        rig.pump();
    }
    // The end of the client is the end of every call.
    rig.session.close(rig.now, u32::MAX);
    rig.pump();
    rig.pass(Duration::from_secs(60));
    for token in 0..tokens {
        assert!(rig.ended.contains_key(&token), "call {token} never ended");
    }
    assert!(rig.over);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_exactly_once(steps in proptest::collection::vec(step(), 0..120)) {
        run(steps, false);
    }

    #[test]
    fn every_call_of_an_authenticated_user_ends_exactly_once(
        steps in proptest::collection::vec(step(), 0..120)
    ) {
        run(steps, true);
    }
}
