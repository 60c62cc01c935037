//! Connections that break before, while and after a call is sent, slow servers and wrong answers.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::core::{Cause, Delivery, LogEvent, SessionRequest, SessionState};
use zebu_proto::OpCode;

use crate::rig::{Rig, TIMEOUT, event, reply};

#[track_caller]
fn failed(rig: &Rig, token: u32, delivery: Delivery, cause: impl FnOnce(&Cause) -> bool) {
    let failure = rig.ended[&token].as_ref().expect_err("it has no answer");
    assert_eq!(failure.delivery, delivery, "{failure:?}");
    assert!(cause(&failure.cause), "{failure:?}");
}

fn lost(cause: &Cause) -> bool {
    *cause == Cause::ConnectionLost
}

fn bad(cause: &Cause) -> bool {
    matches!(cause, Cause::BadReply(_))
}

#[test]
fn lost_before_sending() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    rig.lose();
    failed(&rig, 1, Delivery::NotSent, lost);
    // Nothing of it appears on the next connection.
    rig.accept();
    assert_eq!(rig.requests(), []);
}

#[test]
fn calls_made_without_a_connection_wait_for_one() {
    let mut rig = Rig::new("a:1,b:1", |_| {});
    rig.call(1, OpCode::SetData, b"x");
    rig.lose();
    rig.open();
    rig.lose();
    rig.pass(Duration::from_secs(1));
    rig.accept();
    let sent = rig.requests();
    assert_eq!((sent.len(), sent[0].op, &sent[0].body[..]), (1, 5, &b"x"[..]));
    rig.reply(sent[0].xid, 9, 0, b"y");
    let answer = rig.ended[&1].as_ref().unwrap();
    assert_eq!((answer.zxid, &answer.body[..]), (9, &b"y"[..]));
}

#[test]
fn a_call_without_a_connection_fails_in_time() {
    let mut rig = Rig::new("a:1", |settings| settings.connection_timeout = Duration::from_secs(3));
    rig.pass(Duration::from_secs(10));
    rig.call(1, OpCode::SetData, b"x");
    rig.pass(Duration::from_millis(2999));
    assert!(rig.ended.is_empty());
    rig.pass(Duration::from_millis(1));
    failed(&rig, 1, Delivery::NotSent, |cause| *cause == Cause::NotConnected);
    // A session that never was is tried for ever.
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.state(), SessionState::Connecting);
    assert!(rig.opened.len() > 100);
    rig.accept();
    assert_eq!(rig.state(), SessionState::Connected);
}

#[test]
fn lost_after_sending() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    assert_eq!(rig.requests().len(), 1);
    rig.call(2, OpCode::SetData, b"y");
    rig.lose();
    failed(&rig, 1, Delivery::Sent, lost);
    failed(&rig, 2, Delivery::NotSent, lost);
    assert_eq!(rig.ended[&1].as_ref().unwrap_err().server.as_deref(), Some("a:1"));
    rig.accept();
    assert_eq!(rig.requests(), [], "a call is never repeated by itself");
    assert_eq!(rig.states, [SessionState::Connected, SessionState::Suspended, SessionState::Reconnected]);
}

#[test]
fn a_call_made_before_the_loss_was_known_does_not_overtake() {
    let mut rig = Rig::connected();
    let before = rig.session.disconnects();
    rig.call(1, OpCode::SetData, b"x");
    rig.write();
    rig.lose();
    let request = |disconnects_seen| SessionRequest {
        op: OpCode::SetData,
        body: Bytes::new(),
        watch: None,
        disconnects_seen,
        connection: None,
    };
    rig.session.submit(rig.now, request(before), 2);
    rig.pump();
    failed(&rig, 2, Delivery::NotSent, lost);
    rig.session.submit(rig.now, request(rig.session.disconnects()), 3);
    rig.accept();
    assert_eq!(rig.requests().len(), 1);
    // The loss of a connection without calls in flight refuses no later call.
    rig.reply(2, 5, 0, b"");
    let before = rig.session.disconnects();
    rig.lose();
    assert_eq!(rig.session.disconnects(), before);
}

#[test]
fn lost_during_the_reply() {
    let whole = reply(1, 5, 0, b"body");
    for cut in 1..whole.len() {
        let mut rig = Rig::connected();
        rig.call(1, OpCode::SetData, b"x");
        rig.write();
        rig.receive(&whole[..cut]);
        assert!(rig.ended.is_empty());
        rig.lose();
        failed(&rig, 1, Delivery::Sent, lost);
        // The rest of it cannot be taken for something else.
        rig.accept();
        rig.call(2, OpCode::GetData, b"");
        let sent = rig.requests();
        rig.reply(sent[0].xid, 6, 0, b"z");
        assert_eq!(&rig.ended[&2].as_ref().unwrap().body[..], b"z");
    }
}

#[test]
fn replies_may_come_in_any_pieces() {
    let mut rig = Rig::connected();
    let mut bytes = Vec::new();
    for token in 1..=50 {
        rig.call(token, OpCode::GetData, b"");
        bytes.extend(reply(token as i32, 5, 0, &token.to_be_bytes()));
        if token % 7 == 0 {
            bytes.extend(event(3, "/a", 4));
        }
    }
    rig.write();
    for piece in bytes.chunks(3) {
        rig.receive(piece);
    }
    for token in 1..=50u32 {
        assert_eq!(rig.ended[&token].as_ref().unwrap().body[..], token.to_be_bytes());
    }
}

#[test]
fn a_silent_server_is_left() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    rig.write();
    rig.pass(TIMEOUT * 2 / 3 - Duration::from_millis(1));
    assert_eq!(rig.state(), SessionState::Connected);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.state(), SessionState::Suspended);
    failed(&rig, 1, Delivery::Sent, lost);
    assert_eq!(rig.opened.len(), 2);
}

#[test]
fn a_slow_server_that_answers_pings_is_kept() {
    let mut rig = Rig::connected();
    rig.call(1, OpCode::SetData, b"x");
    rig.write();
    rig.written.clear();
    for _ in 0..100 {
        rig.pass(TIMEOUT / 3);
        rig.reply(-2, 5, 0, b"");
    }
    let pings = crate::rig::payloads(&rig.written);
    assert_eq!(pings.len(), 100);
    assert!(pings.iter().all(|ping| ping[..] == [255, 255, 255, 254, 0, 0, 0, 11]));
    assert_eq!(rig.state(), SessionState::Connected);
    assert!(rig.ended.is_empty());
    rig.reply(1, 6, 0, b"");
    assert!(rig.ended[&1].is_ok());
}

#[test]
fn a_server_that_does_not_finish_the_handshake_is_left() {
    let mut rig = Rig::new("a:1,b:1", |_| {});
    rig.open();
    rig.pass(TIMEOUT);
    assert!(rig.opened.len() >= 2, "{:?}", rig.opened);
    assert_ne!(rig.opened[0], rig.opened[1]);
}

#[test]
fn wrong_words_end_the_connection_and_nothing_else() {
    let negative = (-5i32).to_be_bytes().to_vec();
    let huge = 0x7fff_ffffi32.to_be_bytes().to_vec();
    let short_header = [&[0, 0, 0, 15][..], &[0; 15]].concat();
    let short_event = reply(-1, 5, 0, &[0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 9, b'/']);
    let other_xid = reply(77, 5, 0, b"");
    let zero_xid = reply(0, 5, 0, b"");
    for words in [negative, huge, short_header, short_event, other_xid, zero_xid] {
        let mut rig = Rig::connected();
        rig.call(1, OpCode::SetData, b"x");
        rig.write();
        rig.call(2, OpCode::SetData, b"y");
        rig.receive(&words);
        failed(&rig, 1, Delivery::Sent, bad);
        failed(&rig, 2, Delivery::NotSent, bad);
        assert_eq!(rig.state(), SessionState::Suspended);
        rig.accept();
        assert_eq!(rig.state(), SessionState::Reconnected);
    }
}

#[test]
fn an_unsolicited_reply_ends_the_connection() {
    let mut rig = Rig::connected();
    rig.reply(1, 5, 0, b"");
    assert_eq!(rig.state(), SessionState::Suspended);
    // Pings and credentials that were not sent are harmless.
    rig.accept();
    rig.reply(-2, 5, 0, b"");
    rig.reply(-4, 5, 0, b"");
    assert_eq!(rig.state(), SessionState::Reconnected);
}

#[test]
fn an_unknown_event_is_left_aside() {
    let mut rig = Rig::connected();
    for kind in [-1, 0, 5, 99, i32::MIN] {
        rig.receive(&event(kind, "/a", 5));
    }
    assert_eq!(rig.log.len(), 5);
    assert_eq!(rig.state(), SessionState::Connected);
}

#[test]
fn a_wrong_handshake_is_no_session() {
    for words in
        [reply(1, 2, 3, b""), vec![0, 0, 0, 0], vec![255; 8], [&[0, 0, 0, 36][..], &[0; 36]].concat()]
    {
        let mut rig = Rig::new("a:1", |_| {});
        rig.open();
        rig.receive(&words);
        assert_eq!(rig.state(), SessionState::Connecting, "{words:?}");
        rig.pass(Duration::from_secs(2));
        rig.accept();
        assert_eq!(rig.state(), SessionState::Connected);
    }
}

#[test]
fn a_refusal_instead_of_a_handshake_is_named() {
    let mut rig = Rig::new("a:1", |_| {});
    rig.open();
    // Apache's read-only servers without local sessions answer a new session like this.
    rig.receive(&reply(0, 2, -119, b""));
    let reason = "the server refused a new session: NotReadOnly (-119)".into();
    assert_eq!(rig.log, [LogEvent::ConnectionLost { server: "a:1".into(), reason }]);
    rig.pass(Duration::from_secs(2));
    rig.open();
    // A port of TLS answers with an alert.
    rig.receive(&[21, 3, 3, 0, 2, 2, 10]);
    let reason = "the server speaks TLS on this port".into();
    assert_eq!(rig.log[1..], [LogEvent::ConnectionLost { server: "a:1".into(), reason }]);
}

#[test]
fn reports_about_an_old_link_are_stale() {
    let mut rig = Rig::connected();
    let old = rig.link.unwrap();
    rig.lose();
    rig.accept();
    rig.session.lost(rig.now, old, "late");
    rig.session.received(rig.now, old, &[255; 64]);
    rig.session.opened(rig.now, old);
    rig.pump();
    assert_eq!(rig.state(), SessionState::Reconnected);
}
