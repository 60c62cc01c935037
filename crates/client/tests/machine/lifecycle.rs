//! The life of a session: the handshake, credentials, expiry, read-only servers, moving, the end.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::core::{
    Cause, Delivery, ReadOnlyServers, ServerList, SessionCredentials, SessionPolicy, SessionState,
};
use zebu_proto::client::ConnectResponse;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::{OpCode, SessionId};

use crate::rig::{Rig, SESSION, TIMEOUT};

fn rejected() -> ConnectResponse {
    ConnectResponse::rejected(ReadOnlyField::Present(false))
}

#[test]
fn the_first_words_are_those_of_the_protocol() {
    let mut rig = Rig::new("a:1", |settings| settings.session_timeout = Duration::from_secs(30));
    rig.open();
    let mut expected = vec![0, 0, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x75, 0x30];
    expected.extend([0; 8]);
    expected.extend([0, 0, 0, 16]);
    expected.extend([0; 17]);
    assert_eq!(rig.written, expected);
}

#[test]
fn a_reconnect_names_the_session_and_what_was_seen() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::GetData, b"");
    rig.write();
    rig.reply(1, 42, 0, b"");
    rig.reply(-2, 99, 0, b"");
    rig.lose();
    let request = rig.open();
    assert_eq!((request.session_id, request.last_zxid_seen), (SESSION, 42), "pings do not count");
    assert_eq!(request.timeout_ms, TIMEOUT.as_millis() as i32);
    assert_ne!(request.password.as_deref(), Some(&[0; 16][..]));
}

#[test]
fn credentials_go_first_on_every_connection() {
    let mut rig = Rig::new("a:1", |_| {});
    rig.session.add_auth(rig.now, "digest", Bytes::from_static(b"u:p"), 100);
    rig.call(1, OpCode::GetData, b"");
    rig.accept();
    for round in 0..2 {
        let sent = rig.requests();
        assert_eq!((sent[0].xid, sent[0].op), (-4, 100));
        assert!(sent[0].body.ends_with(b"u:p"));
        rig.reply(-4, 0, 0, b"");
        if round == 0 {
            assert_eq!(sent[1].op, 4);
            assert!(rig.ended[&100].is_ok());
        }
        rig.lose();
        rig.accept();
    }
    // The same credential again is sent, and kept once.
    rig.write();
    rig.reply(-4, 0, 0, b"");
    rig.session.add_auth(rig.now, "digest", Bytes::from_static(b"u:p"), 101);
    assert_eq!(rig.requests().len(), 1);
    rig.reply(-4, 0, 0, b"");
    assert!(rig.ended[&101].is_ok());
    rig.lose();
    rig.accept();
    assert_eq!(rig.requests().len(), 1);
}

#[test]
fn a_refused_credential_is_the_end() {
    for (xid, err) in [(-4, -115), (1, -124)] {
        let mut rig = Rig::connected();
        rig.session.add_auth(rig.now, "nonsense", Bytes::new(), 100);
        rig.call(1, OpCode::GetData, b"");
        rig.write();
        rig.call(2, OpCode::GetData, b"");
        rig.reply(xid, 0, err, b"");
        assert_eq!((rig.state(), rig.over), (SessionState::AuthFailed, true));
        for token in [1, 2, 100] {
            assert_eq!(rig.ended[&token].as_ref().unwrap_err().cause, Cause::AuthFailed);
        }
        rig.call(3, OpCode::GetData, b"");
        let failure = rig.ended[&3].as_ref().unwrap_err();
        assert_eq!((&failure.cause, failure.delivery), (&Cause::AuthFailed, Delivery::NotSent));
        assert_eq!(rig.session.deadline(), None);
    }
}

#[test]
fn a_state_is_published_before_the_calls_that_fail_with_it() {
    let in_flight_and_queued = || {
        let mut rig = Rig::connected();
        rig.session.add_auth(rig.now, "nonsense", Bytes::new(), 100);
        rig.call(1, OpCode::GetData, b"");
        rig.write();
        rig.call(2, OpCode::GetData, b"");
        rig
    };
    let assert_states = |rig: &Rig, tokens: &[u32], state| {
        for token in tokens {
            assert_eq!(rig.states_at_end[token], Some(state), "call {token}");
        }
    };
    let mut rig = in_flight_and_queued();
    rig.reply(-4, 0, -115, b"");
    assert_states(&rig, &[1, 2, 100], SessionState::AuthFailed);

    let mut rig = in_flight_and_queued();
    rig.lose();
    assert_states(&rig, &[1, 2], SessionState::Suspended);
    rig.call(3, OpCode::GetData, b"");
    rig.open();
    rig.respond(&rejected());
    assert_states(&rig, &[3], SessionState::Expired);
}

#[test]
fn a_rejected_session_is_expired_and_renewed() {
    let mut rig = Rig::connected();
    rig.lose();
    rig.call(1, OpCode::SetData, b"x");
    rig.open();
    rig.respond(&rejected());
    let failure = rig.ended[&1].as_ref().unwrap_err();
    assert_eq!((&failure.cause, failure.delivery), (&Cause::SessionExpired, Delivery::NotSent));
    assert_eq!(rig.state(), SessionState::Expired);
    assert_eq!(rig.session.lease_deadline(), None);
    let request = rig.accept_as(SESSION + 1, false);
    assert_eq!((request.session_id, request.last_zxid_seen), (0, 0));
    let status = rig.session.status();
    assert_eq!((status.state, status.session.epoch), (SessionState::Connected, 2));
}

#[test]
fn a_terminal_session_is_not_renewed() {
    let mut rig = Rig::new("a:1", |settings| settings.policy = SessionPolicy::Terminal);
    rig.accept();
    rig.lose();
    rig.open();
    rig.respond(&rejected());
    assert_eq!((rig.state(), rig.over), (SessionState::Expired, true));
}

#[test]
fn without_a_word_from_any_server_the_session_is_dead_in_the_end() {
    let mut rig = Rig::new("a:1,b:1", |_| {});
    rig.accept();
    rig.lose();
    rig.pass(TIMEOUT * 4 / 3 - Duration::from_millis(1));
    assert_eq!(rig.state(), SessionState::Suspended);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.state(), SessionState::Expired);
    rig.pass(TIMEOUT * 100);
    let request = rig.accept();
    assert_eq!((request.session_id, rig.state()), (0, SessionState::Connected));
}

#[test]
fn words_that_are_no_handshake_do_not_keep_a_session_alive() {
    let mut rig = Rig::connected();
    rig.lose();
    for _ in 0..40 {
        if rig.state() == SessionState::Expired {
            return;
        }
        rig.open();
        rig.receive(&[0, 0, 0, 1, 7]);
    }
    panic!("{:?}", rig.state());
}

#[test]
fn a_session_is_taken_over() {
    let credentials = SessionCredentials { id: SessionId(77), password: [9; 16] };
    let mut rig = Rig::new("a:1", |settings| settings.resume = Some(credentials));
    let request = rig.accept();
    assert_eq!((request.session_id, request.password.as_deref()), (77, Some(&[9; 16][..])));
    assert_eq!(rig.state(), SessionState::Connected);
    assert_eq!(rig.session.credentials().map(|held| held.id), Some(SessionId(77)));
}

#[test]
fn a_read_only_server_is_left_for_one_that_takes_writes() {
    let mut rig = Rig::new("a:1,b:1", |settings| settings.read_only = ReadOnlyServers::Accept);
    let request = rig.accept_as(SESSION, true);
    assert_eq!(request.read_only, ReadOnlyField::Present(true));
    assert_eq!((rig.state(), rig.session.credentials()), (SessionState::ReadOnly, None));
    assert_eq!(rig.session.lease_deadline(), None, "nothing can be held by it");
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.probes.len(), 1);
    rig.pass(Duration::from_millis(200));
    assert_eq!(rig.probes.len(), 2, "the pauses double");
    rig.call(1, OpCode::GetData, b"");
    rig.write();
    let found = rig.probes[1].clone();
    rig.session.probed(rig.now, found.clone(), false);
    rig.session.probed(rig.now, found.clone(), true);
    rig.pump();
    rig.call(2, OpCode::GetData, b"");
    assert_eq!(rig.requests(), [], "what comes now is for the other server");
    assert_eq!(rig.state(), SessionState::ReadOnly, "the call in flight is answered first");
    rig.reply(1, 5, 0, b"");
    assert!(rig.ended[&1].is_ok());
    assert_eq!(rig.opening.as_ref().map(|(_, server)| server.clone()), Some(found));
    let request = rig.accept_as(SESSION + 1, false);
    assert_eq!(request.session_id, 0, "a session of a read-only server is not valid elsewhere");
    assert_eq!(rig.state(), SessionState::Connected);
    assert_eq!(rig.requests().len(), 1);
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.probes.len(), 2);
}

#[test]
fn a_session_is_kept_while_only_reads_are_answered() {
    let mut rig = Rig::new("a:1,b:1", |settings| settings.read_only = ReadOnlyServers::Accept);
    rig.accept();
    let leased = rig.session.lease_deadline();
    assert!(leased.is_some());
    rig.lose();
    let request = rig.accept_as(SESSION + 1, true);
    assert_eq!((request.session_id, rig.state()), (SESSION, SessionState::ReadOnly));
    assert_eq!(rig.session.credentials().map(|held| held.id), Some(SessionId(SESSION)));
    for _ in 0..10 {
        rig.pass(TIMEOUT / 3);
        rig.write();
        rig.reply(-2, 5, 0, b"");
    }
    assert_eq!(rig.state(), SessionState::ReadOnly, "the server answers, so nothing is over");
    assert_eq!(rig.session.lease_deadline(), leased, "but it keeps no session alive");
    let epoch = rig.session.status().session.epoch;
    let found = rig.probes[0].clone();
    rig.session.probed(rig.now, found, true);
    rig.pump();
    let asked = rig.now;
    let request = rig.accept_as(SESSION + 1, false);
    assert_eq!((request.session_id, rig.state()), (SESSION, SessionState::Reconnected));
    assert_eq!(rig.session.status().session.epoch, epoch);
    assert!(rig.session.lease_deadline() >= Some(asked + TIMEOUT));
}

#[test]
fn moving_waits_for_answers_but_not_for_ever() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    rig.write();
    let list: ServerList = "b:1".parse().unwrap();
    rig.session.set_servers(rig.now, list.servers());
    rig.pump();
    rig.call(2, OpCode::SetData, b"y");
    rig.pass(TIMEOUT / 3);
    let failure = rig.ended[&1].as_ref().unwrap_err();
    assert_eq!((&failure.cause, failure.delivery), (&Cause::ConnectionLost, Delivery::Sent));
    let failure = rig.ended[&2].as_ref().unwrap_err();
    assert_eq!((&failure.cause, failure.delivery), (&Cause::ConnectionLost, Delivery::NotSent));
    assert_eq!(rig.opened.last().unwrap().to_string(), "b:1");
    rig.accept();
    assert!(rig.requests().is_empty());
    assert_eq!(rig.state(), SessionState::Reconnected);
}

#[test]
fn closing_answers_what_came_before() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    rig.session.close(rig.now, 50);
    rig.call(2, OpCode::SetData, b"y");
    assert_eq!(rig.ended[&2].as_ref().unwrap_err().cause, Cause::Closed);
    let sent = rig.requests();
    assert_eq!(sent.iter().map(|seen| seen.op).collect::<Vec<_>>(), [5, -11]);
    rig.reply(sent[0].xid, 5, 0, b"");
    rig.reply(sent[1].xid, 6, 0, b"");
    assert!(rig.ended[&1].is_ok() && rig.ended[&50].is_ok());
    assert_eq!((rig.state(), rig.over), (SessionState::Closed, true));
}

#[test]
fn a_session_that_is_being_closed_has_no_lease() {
    let mut rig = Rig::connected();
    assert!(rig.session.lease_deadline().is_some());
    rig.session.close(rig.now, 1);
    // From here on a server may have ended it.
    assert_eq!(rig.session.lease_deadline(), None);
    let sent = rig.requests();
    rig.reply(sent[0].xid, 5, 0, b"");
    assert!(rig.over);
    assert_eq!(rig.session.lease_deadline(), None);
}

#[test]
fn closing_does_not_wait_for_ever() {
    let mut rig = Rig::connected();
    rig.session.close(rig.now, 50);
    rig.write();
    rig.pass(TIMEOUT);
    assert!(rig.ended[&50].is_err() && rig.over);
    let mut rig = Rig::new("a:1", |_| {});
    rig.session.close(rig.now, 50);
    rig.pump();
    assert!(rig.ended[&50].is_err() && rig.over);
    assert_eq!(rig.state(), SessionState::Closed);
}

#[test]
fn thousands_of_calls_leave_in_a_few_writes() {
    let mut rig = Rig::new("a:1", |settings| settings.queue_limit = 10_000);
    rig.accept();
    for token in 0..10_000 {
        rig.call(token, OpCode::GetData, &[7; 40]);
    }
    rig.call(10_000, OpCode::GetData, b"");
    assert_eq!(rig.ended[&10_000].as_ref().unwrap_err().cause, Cause::QueueFull);
    let mut writes = Vec::new();
    while rig.session.wants_write() {
        writes.push(rig.write().len());
    }
    assert!(writes.len() <= 3, "{writes:?}");
    assert_eq!(rig.session.outstanding(), 10_000);
}

#[test]
fn calls_beyond_the_limit_in_flight_wait_in_their_order() {
    let mut rig = Rig::new("a:1", |settings| settings.in_flight_limit = 4);
    rig.accept();
    rig.call(1, OpCode::SetData, &[1; 2048]);
    rig.call(2, OpCode::SetData, &[2; 2048]);
    rig.call(3, OpCode::SetData, &[3]);
    let first = rig.requests();
    assert_eq!(first.len(), 1, "the small one does not pass the large one before it");
    assert!(!rig.session.wants_write());
    rig.reply(first[0].xid, 5, 0, b"");
    let rest = rig.requests();
    assert_eq!(rest.iter().map(|seen| seen.body[0]).collect::<Vec<_>>(), [2, 3]);
    // The largest call leaves alone, whatever the limit is.
    rig.call(4, OpCode::SetData, &[4; 9000]);
    assert!(rig.requests().is_empty());
    rest.iter().for_each(|seen| rig.reply(seen.xid, 5, 0, b""));
    assert_eq!(rig.requests().len(), 1);
    // Lost calls take no capacity on the next connection.
    rig.lose();
    rig.accept();
    rig.call(5, OpCode::SetData, &[5; 2048]);
    assert_eq!(rig.requests().len(), 1);
}

#[test]
fn calls_behind_a_lost_one_fail_also_while_the_client_moves() {
    for (is_answered, expected) in [(true, None), (false, Some(Cause::ConnectionLost))] {
        let mut rig = Rig::new("a:1", |_| {});
        rig.accept();
        rig.call(1, OpCode::SetData, b"x");
        let sent = rig.requests();
        let list: ServerList = "b:1".parse().unwrap();
        rig.session.set_servers(rig.now, list.servers());
        rig.pump();
        rig.call(2, OpCode::SetData, b"y");
        match is_answered {
            true => rig.reply(sent[0].xid, 5, 0, b""),
            false => rig.lose(),
        }
        assert_eq!(rig.ended.get(&2).map(|end| end.as_ref().unwrap_err().cause.clone()), expected);
        rig.accept();
        assert_eq!(rig.requests().len(), usize::from(is_answered));
    }
}

/// A client that ends with much to send gets it all sent, as long as the server answers.
#[test]
fn closing_waits_while_answers_come() {
    let mut rig = Rig::new("a:1", |settings| settings.in_flight_limit = 1);
    rig.accept();
    (0..10).for_each(|token| rig.call(token, OpCode::SetData, b"x"));
    rig.session.close(rig.now, 50);
    for _ in 0..10 {
        let sent = rig.requests();
        rig.pass(TIMEOUT / 4);
        rig.reply(sent[0].xid, 5, 0, b"");
    }
    let sent = rig.requests();
    assert_eq!(sent.iter().map(|seen| seen.op).collect::<Vec<_>>(), [-11]);
    rig.pass(TIMEOUT);
    assert!(rig.over && (0..10).all(|token| rig.ended[&token].is_ok()));
}

#[test]
fn a_machine_that_hands_over_lets_go_behind_its_last_answer() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    let credentials = rig.session.hand_over(rig.now).unwrap();
    rig.pump();
    assert_eq!((credentials.id, rig.over), (SessionId(SESSION), false));
    assert_eq!(rig.session.lease_deadline(), None);
    rig.call(2, OpCode::SetData, b"y");
    assert_eq!(rig.ended[&2].as_ref().unwrap_err().cause, Cause::Closed);
    // A close after the handover does not end the session.
    rig.session.close(rig.now, 50);
    let sent = rig.requests();
    assert_eq!(sent.iter().map(|seen| seen.op).collect::<Vec<_>>(), [5]);
    rig.reply(sent[0].xid, 5, 0, b"");
    assert!(rig.ended[&1].is_ok() && rig.ended[&50].is_err() && rig.over);
    assert_eq!((rig.state(), rig.session.credentials()), (SessionState::Closed, Some(credentials)));

    // It does not wait for ever.
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    rig.write();
    rig.session.hand_over(rig.now).unwrap();
    rig.pass(TIMEOUT / 3);
    assert!(rig.ended[&1].is_err() && rig.over);
    assert_eq!(rig.session.credentials(), Some(credentials));
    assert_eq!(rig.session.hand_over(rig.now), None);
}
