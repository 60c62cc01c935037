//! The lease: what extends it, by how much, and the syncs that are sent for it.

use std::time::{Duration, Instant};

use zebu_client::core::{ReadOnlyServers, ServerList, ServerMoves, SessionState};
use zebu_proto::client::ConnectResponse;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::{OpCode, SessionId};

use crate::rig::{Rig, SESSION, SentRequest, TIMEOUT, decode_request, payloads, push};

const SYNC: i32 = 9;
const PING: i32 = 11;

/// What a learner needs to report a touch, and a bit.
const REPORT: Duration = Duration::from_millis(12_000 * 5 / 16);

/// The way to the server and back.
const TRIP: Duration = Duration::from_millis(10);

fn lease(rig: &Rig) -> Instant {
    rig.session.lease_deadline().expect("a session")
}

/// Sends a request and answers it after a trip; when it was sent.
fn exchange(rig: &mut Rig, token: u32, op: OpCode, code: i32) -> Instant {
    rig.call(token, op, b"");
    let sent_at = rig.now;
    let sent = rig.requests().pop().expect("a request");
    rig.now += TRIP;
    rig.reply(sent.xid, 5, code, b"");
    sent_at
}

/// A server that answers what is written after a trip, for so long. Gives back what it was asked, and when;
/// and how short the lease ever was.
fn serve(rig: &mut Rig, time: Duration, reads: Option<Duration>) -> (Vec<(Instant, SentRequest)>, Duration) {
    let end = rig.now + time;
    let mut read_at = rig.now;
    let mut token = 1_000_000;
    let (mut seen, mut shortest) = (Vec::new(), TIMEOUT);
    while rig.now < end {
        if reads.is_some() && rig.now >= read_at {
            rig.call(token, OpCode::GetData, b"");
            token += 1;
            read_at = rig.now + reads.unwrap_or_default();
        }
        if rig.session.deadline().is_some_and(|deadline| deadline <= rig.now) {
            rig.session.tick(rig.now);
            rig.pump();
        }
        let asked: Vec<SentRequest> = rig.requests();
        let asked_at = rig.now;
        rig.now += TRIP;
        shortest = shortest.min(lease(rig).saturating_duration_since(rig.now));
        for request in asked {
            rig.reply(request.xid, 5, 0, b"");
            seen.push((asked_at, request));
        }
    }
    (seen, shortest)
}

fn syncs(seen: &[(Instant, SentRequest)]) -> Vec<Instant> {
    seen.iter().filter(|(_, request)| request.op == SYNC).map(|(at, _)| *at).collect()
}

#[test]
fn the_lease_counts_from_when_the_session_was_asked_for() {
    let mut rig = Rig::new("a:1", |_| {});
    assert_eq!(rig.session.lease_deadline(), None);
    rig.open();
    let asked = rig.now;
    rig.pass(Duration::from_secs(1));
    let timeout_ms = TIMEOUT.as_millis() as i32;
    let accepted = ConnectResponse::accepted(SessionId(SESSION), timeout_ms, ReadOnlyField::Present(false));
    rig.respond(&accepted);
    assert_eq!(lease(&rig), asked + TIMEOUT);
    rig.lose();
    assert_eq!(lease(&rig), asked + TIMEOUT, "a lost connection does not end it");
}

#[test]
fn answers_that_a_learner_gives_alone_do_not_extend_it() {
    let mut rig = Rig::connected();
    let first = lease(&rig);
    let reads = [
        OpCode::GetData,
        OpCode::Exists,
        OpCode::GetChildren2,
        OpCode::GetAcl,
        OpCode::MultiRead,
        OpCode::AddWatch,
    ];
    for (token, op) in reads.into_iter().enumerate() {
        rig.pass(TIMEOUT / 4);
        exchange(&mut rig, token as u32, op, 0);
        rig.reply(-2, 5, 0, b"");
    }
    assert_eq!(lease(&rig), first);
}

#[test]
fn the_leaders_answer_proves_what_was_answered_long_enough_before() {
    let writes =
        [OpCode::Sync, OpCode::Create2, OpCode::Delete, OpCode::SetData, OpCode::SetAcl, OpCode::Multi];
    for op in writes {
        let mut rig = Rig::connected();
        let first = lease(&rig);
        rig.pass(Duration::from_secs(1));
        let read_at = exchange(&mut rig, 1, OpCode::GetData, 0);
        let heard_at = rig.now;
        rig.pass(heard_at + REPORT - Duration::from_millis(1) - rig.now);
        exchange(&mut rig, 2, op, 0);
        assert_eq!(lease(&rig), first, "{op:?}: the learner may not have told the leader yet");
        exchange(&mut rig, 3, op, 0);
        assert_eq!(lease(&rig), read_at + TIMEOUT, "{op:?}: now it must have");
    }
}

#[test]
fn a_message_counts_from_its_sending_and_waits_from_its_answer() {
    let mut rig = Rig::connected();
    let first = lease(&rig);
    rig.call(1, OpCode::GetData, b"");
    let read = rig.requests().pop().expect("a read");
    // It was on its way for long, and the sync behind it came with it.
    rig.now += REPORT * 3 / 2;
    rig.call(2, OpCode::Sync, b"");
    let sync = rig.requests().pop().expect("a sync");
    rig.reply(read.xid, 5, 0, b"");
    rig.reply(sync.xid, 5, 0, b"");
    assert_eq!(lease(&rig), first, "the read was not reported when the sync came to the learner");
}

#[test]
fn errors_prove_nothing() {
    // Eager checks of access, throttling, a body that does not decode: answers of a learner.
    for code in [-102, -127, -5, -101, -119] {
        for op in [OpCode::Sync, OpCode::Create2, OpCode::SetData, OpCode::Multi] {
            let mut rig = Rig::connected();
            let first = lease(&rig);
            exchange(&mut rig, 1, OpCode::GetData, 0);
            rig.pass(REPORT);
            exchange(&mut rig, 2, op, code);
            assert_eq!(lease(&rig), first, "{op:?} {code}");
        }
    }
}

#[test]
fn an_answer_proves_nothing_that_was_said_to_another_server() {
    let mut rig = Rig::connected();
    rig.pass(Duration::from_secs(1));
    exchange(&mut rig, 1, OpCode::GetData, 0);
    rig.pass(REPORT);
    rig.lose();
    rig.accept_as(SESSION, true);
    let first = lease(&rig);
    exchange(&mut rig, 2, OpCode::Sync, 0);
    assert_eq!(lease(&rig), first, "not by a server that takes no writes either");
    rig.lose();
    rig.accept();
    let connected_at = rig.now;
    assert_eq!(lease(&rig), connected_at + TIMEOUT);
    exchange(&mut rig, 3, OpCode::Sync, 0);
    assert_eq!(lease(&rig), connected_at + TIMEOUT);
}

#[test]
fn without_users_nothing_is_sent_for_the_lease() {
    let mut rig = Rig::connected();
    let first = lease(&rig);
    let (seen, _) = serve(&mut rig, TIMEOUT * 10, None);
    assert!(seen.len() >= 29 && seen.iter().all(|(_, request)| request.op == PING), "{seen:?}");
    assert_eq!(lease(&rig), first);
    // No user again, after two.
    rig.session.keep_lease(rig.now);
    rig.session.keep_lease(rig.now);
    let (seen, _) = serve(&mut rig, TIMEOUT, None);
    assert!(!syncs(&seen).is_empty());
    rig.session.release_lease();
    let (seen, _) = serve(&mut rig, TIMEOUT, None);
    assert!(!syncs(&seen).is_empty(), "one of two is left");
    rig.session.release_lease();
    let (seen, _) = serve(&mut rig, TIMEOUT * 3, None);
    assert_eq!(syncs(&seen), Vec::<Instant>::new());
}

#[test]
fn with_users_it_is_renewed_long_before_its_end() {
    let paces =
        [None, Some(TRIP * 2), Some(TIMEOUT / 50), Some(TIMEOUT / 10), Some(TIMEOUT / 4), Some(TIMEOUT / 2)];
    for reads in paces {
        let mut rig = Rig::connected();
        rig.session.keep_lease(rig.now);
        let (seen, shortest) = serve(&mut rig, TIMEOUT * 20, reads);
        assert!(shortest > TIMEOUT / 3, "{reads:?}: {shortest:?}");
        let syncs = syncs(&seen);
        for pair in syncs.windows(2) {
            assert!(pair[1] - pair[0] <= TIMEOUT / 3, "{reads:?}: {:?}", pair[1] - pair[0]);
        }
        let pings = seen.iter().filter(|(_, request)| request.op == PING).count();
        assert!(syncs.len() <= 5 * 20, "{reads:?}: {} in twenty timeouts", syncs.len());
        // One is needed to begin: at first nothing is there that could be proven.
        assert!(pings <= 1, "{reads:?}: {pings} pings; a sync is a sign of life too");
    }
}

#[test]
fn a_late_user_has_a_lease_at_once() {
    // Wherever between two pings.
    for offset in 0..48 {
        let mut rig = Rig::connected();
        serve(&mut rig, TIMEOUT * 3 + TIMEOUT * offset / 96, None);
        assert!(lease(&rig) < rig.now, "nobody has asked for it");
        rig.session.keep_lease(rig.now);
        rig.call(1, OpCode::GetData, b"");
        let sent = rig.requests();
        assert_eq!(sent.iter().map(|seen| seen.op).collect::<Vec<_>>(), [SYNC, 4], "it goes in front");
        rig.now += TRIP;
        rig.reply(sent[0].xid, 5, 0, b"");
        rig.reply(sent[1].xid, 5, 0, b"");
        assert!(lease(&rig) > rig.now + TIMEOUT / 3);
        let (_, shortest) = serve(&mut rig, TIMEOUT * 3, None);
        assert!(shortest > TIMEOUT / 3, "{offset}: {shortest:?}");
    }
}

#[test]
fn a_sync_that_is_not_answered_is_the_only_one() {
    let mut rig = Rig::connected();
    rig.session.keep_lease(rig.now);
    serve(&mut rig, TIMEOUT * 2, None);
    // Cut off from its leader, the server answers pings.
    let mut asked: Vec<i32> = Vec::new();
    let before = rig.written.len();
    for _ in 0..200 {
        rig.pass(TIMEOUT / 100);
        let sent = rig.written.len();
        rig.write();
        assert_eq!(sent, rig.written.len());
        rig.reply(-2, 5, 0, b"");
    }
    asked.extend(payloads(&rig.written[before..]).iter().map(|payload| decode_request(payload).op));
    assert_eq!(asked.iter().filter(|op| **op == SYNC).count(), 1, "{asked:?}");
    assert!(asked.iter().filter(|op| **op == PING).count() >= 4, "{asked:?}");
    assert_eq!(rig.state(), SessionState::Connected, "the server is not silent");
    assert!(lease(&rig) < rig.now);
    // Another connection begins anew.
    rig.lose();
    rig.accept();
    assert!(lease(&rig) > rig.now);
    let (seen, shortest) = serve(&mut rig, TIMEOUT * 3, None);
    assert!(shortest > TIMEOUT / 3 && syncs(&seen).len() >= 8);
    assert!(rig.ended.is_empty(), "nobody asked for these");
}

#[test]
fn a_refused_sync_extends_nothing_and_is_not_repeated_at_once() {
    let mut rig = Rig::connected();
    let first = lease(&rig);
    rig.session.keep_lease(rig.now);
    let mut count = 0;
    for _ in 0..1000 {
        rig.now += TIMEOUT / 100;
        rig.session.tick(rig.now);
        rig.pump();
        for request in rig.requests() {
            count += u32::from(request.op == SYNC);
            rig.reply(request.xid, 5, if request.op == SYNC { -6 } else { 0 }, b"");
        }
    }
    assert!((20..=33).contains(&count), "{count} in ten timeouts");
    assert_eq!(lease(&rig), first);
}

#[test]
fn several_in_flight_prove_what_was_known_when_each_was_sent() {
    let mut rig = Rig::connected();
    rig.pass(Duration::from_secs(1));
    let first_read = exchange(&mut rig, 1, OpCode::GetData, 0);
    rig.pass(Duration::from_secs(1));
    let second_read = exchange(&mut rig, 2, OpCode::GetData, 0);
    rig.now = first_read + TRIP + REPORT;
    rig.call(3, OpCode::Sync, b"");
    let early = rig.requests().pop().expect("a sync");
    rig.now = second_read + TRIP + REPORT;
    rig.call(4, OpCode::SetData, b"");
    let late = rig.requests().pop().expect("a write");
    rig.reply(early.xid, 5, 0, b"");
    assert_eq!(lease(&rig), first_read + TIMEOUT, "though the second one is as old now");
    rig.reply(late.xid, 6, 0, b"");
    assert_eq!(lease(&rig), second_read + TIMEOUT);
}

#[test]
fn a_ping_that_is_answered_in_front_of_an_older_call_counts_as_what_it_is() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::GetData, b"");
    let read = rig.requests().pop().expect("a read");
    rig.pass(TIMEOUT / 3);
    let pinged_at = rig.now;
    rig.now += TRIP;
    rig.reply(-2, 5, 0, b"");
    rig.now += TIMEOUT / 16;
    rig.reply(read.xid, 5, 0, b"");
    rig.now += REPORT;
    exchange(&mut rig, 2, OpCode::Sync, 0);
    assert_eq!(lease(&rig), pinged_at + TIMEOUT);
}

#[test]
fn nothing_is_sent_for_it_where_it_cannot_be_had() {
    let mut rig = Rig::new("a:1,b:1", |settings| settings.read_only = ReadOnlyServers::Accept);
    rig.session.keep_lease(rig.now);
    rig.accept();
    rig.lose();
    rig.accept_as(SESSION + 1, true);
    assert_eq!(rig.state(), SessionState::ReadOnly);
    let (seen, _) = serve(&mut rig, TIMEOUT, None);
    assert_eq!(syncs(&seen), Vec::<Instant>::new(), "by a server that takes no writes");

    let mut rig = Rig::connected();
    rig.session.keep_lease(rig.now);
    rig.call(1, OpCode::SetData, b"");
    rig.write();
    let list: ServerList = "b:1".parse().unwrap();
    rig.session.set_servers(rig.now, list.servers());
    rig.pump();
    let before = rig.written.len();
    rig.pass(TIMEOUT / 3 - Duration::from_millis(1));
    assert!(
        payloads(&rig.written[before..]).iter().all(|payload| decode_request(payload).op != SYNC),
        "while it leaves"
    );
}

#[test]
fn its_syncs_name_the_root() {
    let mut rig = Rig::new("a:1/apps/shop", |_| {});
    rig.accept();
    rig.session.keep_lease(rig.now);
    let (seen, _) = serve(&mut rig, TIMEOUT, None);
    let bodies: Vec<_> = seen.iter().filter(|(_, request)| request.op == SYNC).collect();
    assert!(bodies.len() >= 2 && bodies.iter().all(|(_, request)| request.body == [0, 0, 0, 1, b'/']));
}

/// How much is left of the lease when a client dials again that was asked to move, after this time of
/// service, and that one reply kept on its connection; and how long it stayed there.
fn left_after_a_slow_move(service: Duration, keeps_lease: bool) -> (Duration, Duration) {
    let mut rig = Rig::new("a:1,b:1", |settings| settings.moves = ServerMoves::Follow);
    rig.accept();
    if keeps_lease {
        rig.session.keep_lease(rig.now);
    }
    serve(&mut rig, service, None);
    rig.call(1, OpCode::GetData, b"");
    rig.write();
    rig.receive(&push(2));
    rig.open_spare();
    let begun = rig.now;
    while rig.opening.is_none() {
        rig.pass(Duration::from_millis(10));
    }
    assert!(rig.ended[&1].is_err());
    (lease(&rig).saturating_duration_since(rig.now), rig.now - begun)
}

#[test]
fn a_slow_move_leaves_time_to_renew_the_lease_at_the_next_server() {
    for step in 0..50 {
        let service = TIMEOUT * 2 + Duration::from_millis(100) * step;
        let (left, stay) = left_after_a_slow_move(service, true);
        assert!(left > TIMEOUT / 8, "{left:?} after {service:?}");
        assert!(stay > TIMEOUT / 6, "{stay:?}: other replies are awaited");
    }
    let (_, stay) = left_after_a_slow_move(TIMEOUT * 2, false);
    assert!(stay >= TIMEOUT / 3, "without a lease to keep there is no hurry");
}
