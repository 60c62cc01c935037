//! An ensemble member between its roles: its effects, and its unfinished requests.

use zebu_node::{
    AfterAppend, CommitError, ConnectionPhase, DisconnectReason, Effect, NodeSettings, ServeEffect,
};
use zebu_proto::quorum::Packet;
use zebu_proto::txn::{DIGEST_VERSION, Txn, TxnDigest};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_tree::{Policy, Tree};
use zebu_zab::{
    Action, DiskCommand, EncodedTxn, IoId, LinkCloseReason as LinkClose, PeerEffect, PeerWarning, ServingRole,
};

use crate::client::{close_session, create, hello, set, sync};
use crate::learner::{client, created, learner_and_client};
use crate::node_fixture::{settings, tree_options};
use crate::scripted_peer::{LINK, Member, OTHER_LINK, appended, zxid};

const SESSION: SessionId = SessionId(5);

fn append(io: u64, entry: &Action) -> Action {
    let Action::Deliver(entry) = entry else { panic!("a transaction") };
    Action::Append { io: IoId(io), entry: entry.clone() }
}

fn following() -> ServingRole {
    ServingRole::Following { leader: ServerId(3), epoch: 1 }
}

#[test]
fn nobody_is_served_without_a_leader() {
    let mut member = Member::new();
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(5000));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    assert!(member.take_effects().is_empty());
}

#[test]
fn appends_are_one_batch_until_the_disk_has_other_work() {
    let mut member = Member::new();
    let entries: Vec<Action> =
        (0..4).map(|_| member.transaction(SESSION, 1, Txn::Delete("/x".into()))).collect();
    let send = || Action::Peer(PeerEffect::Send { link: LINK, packet: Packet::UpToDate });
    member.script().last = zxid(0);
    member.want([
        append(1, &entries[0]),
        send(),
        append(2, &entries[1]),
        Action::Disk(DiskCommand::SaveCurrentEpoch { io: IoId(3), epoch: 7 }),
        append(4, &entries[2]),
        append(5, &entries[3]),
    ]);
    let orders = member.take_effects();
    assert_eq!(orders[0], Effect::Peer(PeerEffect::Send { link: LINK, packet: Packet::UpToDate }));
    assert_eq!(appended(&orders[1]), Some((IoId(2), zxid(1), zxid(2), 2)));
    assert_eq!(orders[2], Effect::Disk(DiskCommand::SaveCurrentEpoch { io: IoId(3), epoch: 7 }));
    assert_eq!(appended(&orders[3]), Some((IoId(5), zxid(3), zxid(4), 2)));
    assert_eq!(orders.len(), 4);
}

#[test]
fn a_batch_may_hold_the_end_of_one_epoch_and_the_begin_of_the_next() {
    let mut member = Member::new();
    let append =
        |io, zxid| Action::Append { io: IoId(io), entry: EncodedTxn { zxid, bytes: vec![0; 40].into() } };
    member.want([append(1, Zxid::new(1, 9)), append(2, Zxid::new(2, 1))]);
    assert_eq!(appended(&member.take_effects()[0]), Some((IoId(2), Zxid::new(1, 9), Zxid::new(2, 1), 2)));
}

#[test]
fn a_snapshot_is_due_only_while_the_member_serves() {
    let mut member = Member::with(NodeSettings { snap_count: 4, ..settings() }, Policy::default());
    let after = |member: &mut Member| {
        for io in 0..5 {
            let entry = member.transaction(SESSION, 1, Txn::Delete("/x".into()));
            member.want([append(io, &entry)]);
        }
        let due = |order: &Effect| match order {
            Effect::Append { batch, .. } => batch.after == AfterAppend::RollAndSnapshot,
            _ => false,
        };
        member.take_effects().iter().any(due)
    };
    assert!(!after(&mut member));
    member.follow();
    assert!(after(&mut member));
    member.want([Action::StopServing]);
    assert!(!after(&mut member));
}

#[test]
fn a_member_serves_when_it_has_applied_what_was_decided_before() {
    let mut member = Member::new();
    let first = member.transaction(SESSION, 1, Txn::CreateSession { timeout_ms: 5000 });
    member.want([first, Action::Serve(following())]);
    assert!(member.take_effects().is_empty());
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(5000));
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    member.hear_leader(Packet::Ping { zxid: zxid(1) });
    assert_eq!(member.said(), [Packet::PingReply { zxid: zxid(1), touched: vec![], room: None }]);
    assert_eq!(member.apply(), 1);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::Serve(following()))]);
    client(&mut member);
}

#[test]
fn what_a_learner_asks_before_its_leader_serves_is_not_lost() {
    let mut member = Member::new();
    let first = member.transaction(SESSION, 1, Txn::CreateSession { timeout_ms: 5000 });
    member.script().last = zxid(1);
    member.want([first, Action::Serve(ServingRole::Leading { epoch: 1 })]);
    let ask = create("/a", "", 0);
    let packet =
        Packet::Request { session: SESSION, cxid: 3, op: ask.op, payload: ask.body.into(), auth: None };
    member.hear_learner(LINK, packet.clone());
    assert!(member.proposed().is_empty());
    member.apply();
    assert!(matches!(member.decide_all()[0].txn, Txn::Create(_)));
    member.want([Action::StopServing]);
    member.hear_learner(LINK, packet);
    assert!(member.proposed().is_empty(), "it spoke to nobody");
}

#[test]
fn a_role_that_ends_before_it_begins_leaves_no_trace() {
    let mut member = Member::new();
    let first = member.transaction(SESSION, 1, Txn::CreateSession { timeout_ms: 5000 });
    member.want([first, Action::Serve(following()), Action::StopServing]);
    assert_eq!(member.apply(), 1, "what is decided stays decided");
    assert!(member.take_effects().is_empty());
    assert_eq!(member.fixture.replica.last_zxid(), zxid(1));
}

#[test]
fn a_learner_that_lost_its_leader_closes_everybody() {
    let (mut member, connection, session) = learner_and_client();
    let (connecting, returning, leaving) =
        (member.fixture.open(), member.fixture.open(), client(&mut member));
    member.take_effects();
    member.fixture.send_as(connection, 1, &set("/a", ""));
    member.fixture.send_as(connection, 2, &sync("/"));
    member.fixture.send_as(leaving, 1, &close_session());
    let leaving_session = member.fixture.session(leaving);
    member.deliver(leaving_session, 1, Txn::CloseSession(Some(vec![])));
    member.fixture.connect(connecting, hello(5000));
    let again = member.fixture.hello_again(connection);
    let late = member.fixture.receive(connection, &set("/a", "").frame(3));
    member.script().committed = zxid(99);
    member.hear_leader(Packet::Sync);
    member.want([Action::StopServing]);
    assert_eq!(member.take_effects(), [Effect::Serve(ServeEffect::Stop)]);
    for closed in [connection, connecting] {
        assert_eq!(member.fixture.phase(closed), ConnectionPhase::Closed(DisconnectReason::NotServing));
    }
    assert_eq!(member.fixture.phase(leaving), ConnectionPhase::Draining, "its farewell is on the way");
    assert_eq!((member.fixture.answered, member.fixture.node.in_flight()), (3, 0));

    // The next role does not know earlier requests.
    member.fixture.submit(late);
    assert_eq!(member.fixture.answered, 4);
    member.follow();
    member.said();
    let late = member.fixture.receive(connection, &set("/a", "").frame(4));
    assert!(late.is_none(), "a closed connection takes nothing");
    member.deliver(session, 1, Txn::Create(created("/late", "")));
    assert_eq!(member.fixture.answered, 4);
    member.fixture.connect(returning, again);
    assert_eq!(member.said(), [Packet::Revalidate { session, timeout_ms: 30_000 }]);
}

#[test]
fn a_request_from_before_a_role_ended_is_void_in_the_next() {
    let mut member = Member::leader();
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    member.decide_all();
    let late = member.fixture.receive(connection, &create("/late", "", 0).frame(1));
    member.want([Action::StopServing, Action::Serve(ServingRole::Leading { epoch: 1 })]);
    member.fixture.submit(late);
    member.collect();
    assert!(member.proposed().is_empty());
    assert_eq!((member.fixture.submitted, member.fixture.answered), (1, 1));
}

#[test]
fn a_leader_that_stops_forgets_what_is_not_decided_and_applies_what_is() {
    let mut member = Member::leader();
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    member.decide_all();
    for (path, xid) in [("/decided", 1), ("/lost", 2)] {
        member.fixture.send_as(connection, xid, &create(path, "", 0));
    }
    member.fixture.send_as(connection, 3, &sync("/"));
    let first = member.script().proposed[0].clone();
    member.want([Action::Deliver(first), Action::StopServing]);
    assert_eq!(member.fixture.phase(connection), ConnectionPhase::Closed(DisconnectReason::NotServing));
    assert_eq!(member.apply(), 1);
    let tree = member.fixture.replica.tree();
    assert!(tree.node("/decided").is_some() && tree.node("/lost").is_none());
    assert_eq!((member.fixture.submitted, member.fixture.answered), (3, 3));
    // The next role prepares against the current tree.
    member.script().last = zxid(2);
    member.script().proposed.clear();
    member.want([Action::Serve(ServingRole::Leading { epoch: 1 })]);
    let connection = member.fixture.open();
    member.fixture.connect(connection, hello(30_000));
    member.decide_all();
    member.fixture.send_as(connection, 1, &create("/lost", "", 0));
    assert!(matches!(member.decide_all()[0].txn, Txn::Create(_)));
}

#[test]
fn the_state_is_sent_when_it_holds_what_it_is_said_to_hold() {
    let mut member = Member::leader();
    member.take_effects();
    let stream = |link| Action::Peer(PeerEffect::StreamSnapshot { link, zxid: zxid(1) });
    member.want([stream(LINK)]);
    assert_eq!(
        member.take_effects(),
        [Effect::Peer(PeerEffect::StreamSnapshot { link: LINK, zxid: zxid(1) })]
    );
    let entry = member.transaction(SESSION, 1, Txn::CreateSession { timeout_ms: 5000 });
    let close = Action::Peer(PeerEffect::Close { link: OTHER_LINK, reason: LinkClose::TimedOut });
    member.want([entry, stream(LINK), stream(OTHER_LINK), close]);
    assert_eq!(
        member.take_effects(),
        [Effect::Peer(PeerEffect::Close { link: OTHER_LINK, reason: LinkClose::TimedOut })]
    );
    member.apply();
    assert_eq!(
        member.take_effects(),
        [Effect::Peer(PeerEffect::StreamSnapshot { link: LINK, zxid: zxid(1) })]
    );
}

#[test]
fn what_was_decided_is_not_applied_to_a_state_that_has_it() {
    let mut member = Member::new();
    let deliveries: Vec<Action> =
        (1..=3).map(|cxid| member.transaction(SESSION, cxid, Txn::Create(created("/a", "")))).collect();
    member.want(deliveries);
    let mut tree = Tree::new(tree_options());
    let header = zebu_proto::txn::TxnHeader { session: SESSION, cxid: 0, zxid: zxid(2), time_ms: 0 };
    tree.apply(&header, &Txn::Delete("/none".into()), &mut |_| ());
    member.fixture.replica.replace_tree(tree);
    assert_eq!(member.apply(), 1, "only what is behind the state");
    let deliveries = [member.transaction(SESSION, 4, Txn::Delete("/a".into()))];
    member.want(deliveries);
    member.want([Action::Disk(DiskCommand::Quarantine { io: IoId(1) })]);
    assert_eq!(member.take_effects(), [Effect::Disk(DiskCommand::Quarantine { io: IoId(1) })]);
    assert_eq!(member.apply(), 0, "an empty state begins anew");
}

#[test]
fn what_cannot_be_read_stops_the_server_at_its_place() {
    let mut member = Member::learner();
    let good = member.transaction(SESSION, 1, Txn::Create(created("/a", "")));
    let Action::Deliver(EncodedTxn { bytes, .. }) = member.transaction(SESSION, 2, Txn::Delete("/a".into()))
    else {
        panic!("a transaction");
    };
    let mut unknown = bytes.to_vec();
    unknown[28..32].copy_from_slice(&4711i32.to_be_bytes());
    let bad = Action::Deliver(EncodedTxn { zxid: zxid(2), bytes: unknown.into() });
    let behind = member.transaction(SESSION, 3, Txn::Create(created("/b", "")));
    member.want([good, bad, behind]);
    let fixture = &mut member.fixture;
    for _ in 0..2 {
        let result = fixture.node.commit(&mut fixture.replica, &mut fixture.connections, fixture.now);
        let Err(CommitError::Undecodable { zxid: place, .. }) = &result else { panic!("{result:?}") };
        assert_eq!(*place, zxid(2));
        let text = result.unwrap_err().to_string();
        assert!(text.contains("0x100000002") && text.contains("4711"), "{text}");
    }
    assert_eq!(fixture.replica.last_zxid(), zxid(1));
    assert!(fixture.replica.tree().node("/a").is_some() && fixture.replica.tree().node("/b").is_none());
}

#[test]
fn a_transaction_at_the_wrong_place_stops_the_server() {
    let mut member = Member::learner();
    let Action::Deliver(EncodedTxn { bytes, .. }) = member.transaction(SESSION, 1, Txn::Delete("/a".into()))
    else {
        panic!("a transaction");
    };
    member.want([Action::Deliver(EncodedTxn { zxid: zxid(7), bytes })]);
    let fixture = &mut member.fixture;
    let result = fixture.node.commit(&mut fixture.replica, &mut fixture.connections, fixture.now);
    assert_eq!(result, Err(CommitError::ZxidMismatch { zxid: zxid(7), found: zxid(1) }));
}

#[test]
fn digests_that_differ_are_counted() {
    let mut member = Member::learner();
    let digest = |version, tree_digest| Some(TxnDigest { version, tree_digest });
    let right = 1_371_985_504;
    for (digest, mismatches) in [
        (None, 0),
        (digest(DIGEST_VERSION, right), 0),
        (digest(DIGEST_VERSION, right + 1), 1),
        (digest(DIGEST_VERSION + 1, right + 1), 1),
        (digest(DIGEST_VERSION, 0), 2),
    ] {
        let delivery = member.transaction_with(SESSION, 1, Txn::CreateSession { timeout_ms: 5000 }, digest);
        member.want([delivery]);
        member.apply();
        assert_eq!(member.fixture.node.digest_mismatches(), mismatches);
    }
}

/// The first mismatch of a series is reported with both digests.
#[test]
fn a_digest_that_differs_is_told() {
    let mut member = Member::learner();
    let mut told = |tree_digest| {
        let digest = Some(TxnDigest { version: DIGEST_VERSION, tree_digest });
        let delivery = member.transaction_with(SESSION, 1, Txn::CreateSession { timeout_ms: 5000 }, digest);
        member.want([delivery]);
        member.apply();
        let report = |order| match order {
            Effect::Report(finding) => Some(finding),
            _ => None,
        };
        member.take_effects().into_iter().filter_map(report).collect::<Vec<_>>()
    };
    let found = 1_371_985_504;
    assert_eq!(told(found), []);
    assert_eq!(told(5), [PeerWarning::DigestMismatch { zxid: zxid(2), expected: 5, found }]);
    assert_eq!(told(6), []);
    assert_eq!(told(found), [PeerWarning::DigestMatchesAgain { zxid: zxid(4), differed: 2 }]);
}

/// An observer without a log returns to the state on disk. The leader sends unapplied transactions again; the
/// observer must not apply them to a state that lacks earlier ones.
#[test]
fn what_is_not_applied_goes_with_what_is_not_on_disk() {
    let mut member = Member::learner();
    let session = SessionId(7);
    member.deliver(session, 0, Txn::CreateSession { timeout_ms: 4000 });
    let delivery = member.transaction(session, 0, Txn::CreateSession { timeout_ms: 5000 });
    member.want([
        Action::StopServing,
        delivery,
        Action::Disk(DiskCommand::Truncate { io: IoId(9), to: zxid(1) }),
    ]);
    assert!(!member.fixture.node.has_committed());
    let orders = member.take_effects();
    assert!(
        orders
            .iter()
            .any(|order| matches!(order, Effect::Disk(DiskCommand::Truncate { to, .. }) if *to == zxid(1)))
    );

    // Transactions on disk remain to be applied.
    let delivery = member.transaction(session, 0, Txn::CreateSession { timeout_ms: 6000 });
    member.want([delivery, Action::Disk(DiskCommand::Truncate { io: IoId(10), to: zxid(3) })]);
    assert!(member.fixture.node.has_committed());
}
