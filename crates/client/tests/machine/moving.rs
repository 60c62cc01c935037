//! Moves to another server when the connected one stops: what is asked, what is sent when, and what the
//! callers see.

use std::time::Duration;

use zebu_client::core::{Cause, Delivery, EventKind, ServerMoves, SessionState, WatchIntent};
use zebu_proto::client::ConnectResponse;
use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::{ErrorCode, OpCode};

use crate::rig::{Rig, SESSION, TIMEOUT, event, push};

const HELLO: i32 = 0x5A42_0000;
const MOVE: i32 = 2;
const FEATURES: &str = "version=1\nfeatures=min_zxid,move\n";

fn rig(servers: &str) -> Rig {
    let mut rig = Rig::new(servers, |settings| settings.moves = ServerMoves::Follow);
    rig.accept();
    rig
}

/// The body of a getData reply, as far as the client reads it.
fn data(text: &str) -> Vec<u8> {
    let mut body = (text.len() as i32).to_be_bytes().to_vec();
    body.extend_from_slice(text.as_bytes());
    body.extend([0; 68]);
    body
}

/// Passes the time to the first ping, and answers the question about features with this text.
fn discover(rig: &mut Rig, text: &str) {
    let before = rig.written.len();
    rig.pass(TIMEOUT / 3);
    let sent: Vec<_> = crate::rig::payloads(&rig.written[before..])
        .iter()
        .map(|payload| crate::rig::decode_request(payload))
        .collect();
    assert_eq!(sent.iter().map(|seen| seen.op).collect::<Vec<_>>(), [OpCode::GetData.wire()]);
    assert_eq!(sent[0].body, b"\0\0\0\x0f/zookeeper/zebu\0");
    rig.reply(sent[0].xid, 1, 0, &data(text));
}

/// A client that has said hello at the first server.
fn greeted(servers: &str) -> Rig {
    let mut rig = rig(servers);
    discover(&mut rig, FEATURES);
    let hello = rig.requests();
    assert_eq!((hello[0].op, &hello[0].body[..]), (HELLO, &[0, 0, 0, 1][..]));
    rig.reply(hello[0].xid, 1, 0, &[0, 0, 0, 1]);
    assert!(rig.requests().is_empty(), "once per connection");
    rig
}

#[test]
fn the_question_takes_the_place_of_the_first_ping() {
    let mut rig = rig("a:1");
    discover(&mut rig, "version=1\nfeatures=min_zxid\n");
    assert!(rig.requests().is_empty(), "no hello to a server that does not push");
    let before = rig.written.len();
    rig.pass(TIMEOUT / 3);
    let sent = crate::rig::payloads(&rig.written[before..]);
    assert_eq!(sent.iter().map(|it| crate::rig::decode_request(it).op).collect::<Vec<_>>(), [11]);
}

#[test]
fn a_server_without_the_node_is_asked_once_and_a_busy_one_too() {
    let mut rig = rig("a:1");
    let mut questions = 0;
    for token in 0..16 {
        let before = rig.written.len();
        rig.pass(TIMEOUT / 24);
        rig.call(token, OpCode::SetData, b"x");
        rig.write();
        let sent = crate::rig::payloads(&rig.written[before..]);
        for request in sent.iter().map(|payload| crate::rig::decode_request(payload)) {
            let is_question = request.op == OpCode::GetData.wire();
            questions += usize::from(is_question);
            let err = if is_question { ErrorCode::NoNode.wire() } else { 0 };
            rig.reply(request.xid, 1, err, b"");
        }
    }
    assert_eq!(questions, 1);
    assert!(rig.link.is_some() && rig.ended.values().all(Result::is_ok));
}

#[test]
fn a_client_that_ignores_moves_asks_nothing() {
    let mut rig = Rig::new("a:1,b:1", |settings| settings.moves = ServerMoves::Ignore);
    rig.accept();
    rig.pass(TIMEOUT / 3);
    assert!(rig.written.windows(15).all(|bytes| bytes != b"/zookeeper/zebu"));
    rig.receive(&push(MOVE));
    assert!(rig.spare.is_none() && rig.link.is_some());
}

#[test]
fn a_move_awaits_what_is_out_and_then_goes_on_in_order() {
    let mut rig = greeted("a:1,b:1");
    rig.watch(10, WatchIntent::Data, "/w");
    rig.call(1, OpCode::SetData, b"1");
    let sent = rig.requests();
    rig.reply(sent[0].xid, 4, 0, b"");
    rig.receive(&push(MOVE));
    let old = rig.opened[0].clone();
    assert_ne!(rig.spare.as_ref().unwrap().1, old);
    rig.call(2, OpCode::SetData, b"2");
    let sent_meanwhile = rig.requests();
    assert_eq!(sent_meanwhile.len(), 1, "it sends on while it dials");
    rig.open_spare();
    rig.call(3, OpCode::SetData, b"3");
    assert!(rig.requests().is_empty() && !rig.has_moved, "two answers are out");
    rig.reply(sent[1].xid, 5, 0, b"");
    assert!(!rig.has_moved);
    rig.reply(sent_meanwhile[0].xid, 6, 0, b"");
    assert!(rig.ended[&1].is_ok() && rig.ended[&2].is_ok());
    assert_eq!(rig.state(), SessionState::Connected, "nothing was lost");
    let request = rig.greet();
    assert_eq!((request.session_id, request.last_zxid_seen), (SESSION, 6));
    let next = rig.requests();
    let ops: Vec<_> = next.iter().map(|seen| seen.op).collect();
    assert_eq!(ops, [101, OpCode::GetData.wire(), 5], "watches, the question, then the waiting call");
    assert_eq!(next[2].body, b"3");
    rig.reply(next[0].xid, 6, 0, b"");
    rig.reply(next[1].xid, 6, 0, &data(FEATURES));
    rig.reply(next[2].xid, 7, 0, b"");
    assert!(rig.ended[&3].is_ok());
    assert_eq!(rig.states, [SessionState::Connected, SessionState::Reconnected]);
    rig.receive(&event(3, "/w", 8));
    assert_eq!(rig.events, [(10, EventKind::NodeDataChanged, "/w".to_owned())]);
    assert_eq!(rig.requests()[0].op, HELLO);
}

/// The next server may not know a private request.
#[test]
fn a_call_that_is_bound_to_its_connection_is_not_sent_on_the_next_one() {
    let mut rig = greeted("a:1,b:1");
    rig.call(1, OpCode::SetData, b"1");
    let sent = rig.requests();
    rig.receive(&push(MOVE));
    let bound = rig.session.connection();
    assert!(bound.is_some());
    rig.open_spare();
    assert_eq!(rig.session.connection(), None, "nothing more is sent on this connection");
    rig.call_on(2, OpCode::With, b"2", bound);
    rig.call(3, OpCode::SetData, b"3");
    rig.reply(sent[0].xid, 4, 0, b"");
    let failure = rig.ended[&2].clone().unwrap_err();
    assert_eq!((failure.cause, failure.delivery), (Cause::ConnectionLost, Delivery::NotSent));
    rig.call_on(4, OpCode::With, b"4", bound);
    rig.greet();
    let ops: Vec<_> = rig.requests().iter().map(|seen| seen.op).collect();
    assert_eq!(ops, [OpCode::GetData.wire(), OpCode::SetData.wire()]);
    rig.call_on(5, OpCode::With, b"5", bound);
    assert!([4, 5].iter().all(|token| rig.ended[token].is_err()));
    rig.call_on(6, OpCode::With, b"6", rig.session.connection());
    assert_eq!(rig.requests()[0].body, b"6");
}

#[test]
fn an_idle_connection_that_is_lost_has_another_number_than_the_next() {
    let mut rig = Rig::connected();
    let (bound, before) = (rig.session.connection(), rig.session.disconnects());
    rig.lose();
    assert_eq!((rig.session.connection(), rig.session.disconnects()), (None, before));
    rig.accept();
    assert!(rig.session.connection() > bound);
    rig.call_on(1, OpCode::With, b"", bound);
    assert!(rig.ended[&1].is_err() && rig.requests().is_empty());
}

#[test]
fn without_another_server_the_client_stays_and_tries_again() {
    let mut rig = greeted("a:1,b:1");
    rig.receive(&push(MOVE));
    for _ in 0..2 {
        rig.lose_spare();
    }
    assert!(rig.spare.is_none());
    rig.call(1, OpCode::SetData, b"1");
    let sent = rig.requests();
    rig.reply(sent[0].xid, 4, 0, b"");
    assert!(rig.ended[&1].is_ok(), "the client is served where it is");
    rig.pass(Duration::from_secs(1));
    rig.open_spare();
    rig.greet();
    assert_eq!(rig.state(), SessionState::Reconnected);
}

#[test]
fn an_attempt_that_takes_too_long_is_given_up() {
    let mut rig = greeted("a:1,b:1,c:1");
    rig.receive(&push(MOVE));
    let first = rig.spare.clone().unwrap();
    rig.pass(TIMEOUT / 3 + Duration::from_millis(1));
    assert_ne!(rig.spare.as_ref().unwrap().1, first.1);
    rig.session.opened(rig.now, first.0);
    rig.pump();
    assert!(rig.spare.is_some() && !rig.has_moved, "a late stream is not used");
}

#[test]
fn a_broken_connection_ends_the_move() {
    let mut rig = greeted("a:1,b:1");
    rig.call(1, OpCode::SetData, b"1");
    rig.requests();
    rig.receive(&push(MOVE));
    rig.open_spare();
    rig.lose();
    assert!(!rig.has_moved || rig.link.is_none());
    assert!(rig.ended[&1].is_err());
    assert_eq!(rig.state(), SessionState::Suspended);
    rig.has_moved = false;
    rig.accept();
    assert_eq!(rig.state(), SessionState::Reconnected);
}

#[test]
fn a_close_during_a_move_ends_on_the_old_connection() {
    let mut rig = greeted("a:1,b:1");
    rig.call(1, OpCode::SetData, b"1");
    let sent = rig.requests();
    rig.receive(&push(MOVE));
    rig.open_spare();
    rig.session.close(rig.now, 9);
    rig.pump();
    rig.reply(sent[0].xid, 4, 0, b"");
    let close = rig.requests();
    assert_eq!(close[0].op, -11);
    rig.reply(close[0].xid, 5, 0, b"");
    assert!(rig.ended[&1].is_ok() && rig.ended[&9].is_ok() && rig.over);
}

/// A client that has left its server; its call waits for the next one.
fn between_servers() -> Rig {
    let mut rig = greeted("a:1,b:1");
    rig.call(1, OpCode::SetData, b"1");
    let sent = rig.requests();
    rig.receive(&push(MOVE));
    rig.open_spare();
    rig.call(3, OpCode::SetData, b"3");
    rig.reply(sent[0].xid, 4, 0, b"");
    assert!(rig.has_moved && rig.state() == SessionState::Connected);
    rig
}

#[test]
fn a_close_between_two_servers_closes_the_session_on_the_next_one() {
    let mut rig = between_servers();
    rig.session.close(rig.now, 9);
    rig.pump();
    rig.call(4, OpCode::SetData, b"4");
    let failure = rig.ended[&4].clone().unwrap_err();
    assert_eq!((failure.cause, failure.delivery), (Cause::Closed, Delivery::NotSent));
    assert_eq!(rig.session.hand_over(rig.now), None);
    assert_eq!(rig.session.lease_deadline(), None);
    rig.greet();
    let sent = rig.requests();
    assert_eq!(sent.iter().map(|seen| seen.op).collect::<Vec<_>>(), [OpCode::SetData.wire(), -11]);
    assert_eq!(sent[0].body, b"3");
    rig.reply(sent[0].xid, 5, 0, b"");
    rig.reply(sent[1].xid, 6, 0, b"");
    assert!(rig.ended[&3].is_ok() && rig.ended[&9].is_ok() && rig.over);
}

#[test]
fn a_session_that_is_handed_over_between_two_servers_answers_its_calls_first() {
    let mut rig = between_servers();
    let credentials = rig.session.hand_over(rig.now);
    assert!(credentials.is_some() && credentials == rig.session.hand_over(rig.now));
    rig.pump();
    rig.greet();
    let sent = rig.requests();
    assert_eq!(sent.iter().map(|seen| &seen.body[..]).collect::<Vec<_>>(), [b"3"]);
    rig.reply(sent[0].xid, 5, 0, b"");
    assert!(rig.ended[&3].is_ok() && rig.over);
    // Without a call there is nothing to wait for on the next server.
    let mut rig = greeted("a:1,b:1");
    rig.receive(&push(MOVE));
    rig.open_spare();
    rig.session.hand_over(rig.now).unwrap();
    rig.greet();
    assert!(rig.over);
    assert_eq!(rig.session.credentials(), credentials);
}

#[test]
fn an_end_between_two_servers_waits_for_a_limited_time() {
    for closes in [true, false] {
        let mut rig = between_servers();
        rig.has_moved = false;
        if closes {
            rig.session.close(rig.now, 9);
        } else {
            rig.session.hand_over(rig.now).unwrap();
        }
        rig.lose();
        assert!(!rig.over, "another server may take the session");
        rig.pass(TIMEOUT / 3);
        assert!(rig.over && rig.ended[&3].is_err());
        assert_eq!((closes, rig.ended.contains_key(&9)), (closes, closes));
    }
}

#[test]
fn a_session_that_expires_between_two_servers_is_not_opened_again_for_its_end() {
    let mut rig = between_servers();
    rig.session.close(rig.now, 9);
    rig.has_moved = false;
    rig.respond(&ConnectResponse::rejected(ReadOnlyField::Present(false)));
    assert_eq!((rig.over, rig.state()), (true, SessionState::Expired));
    assert_eq!(rig.ended[&3].clone().unwrap_err().cause, Cause::SessionExpired);
    assert!(rig.ended[&9].is_err());
}

#[test]
fn a_server_that_is_behind_is_passed_over_without_a_word() {
    let mut rig = greeted("a:1,b:1,c:1");
    rig.receive(&push(MOVE));
    rig.open_spare();
    rig.has_moved = false;
    rig.call(1, OpCode::SetData, b"1");
    rig.lose();
    assert_eq!(rig.state(), SessionState::Connected);
    rig.accept();
    assert_eq!(rig.states, [SessionState::Connected, SessionState::Reconnected]);
    let sent = rig.requests();
    let call = sent.iter().find(|seen| seen.op == OpCode::SetData.wire()).unwrap();
    rig.reply(sent[0].xid, 1, 0, &data(FEATURES));
    rig.reply(call.xid, 4, 0, b"");
    assert!(rig.ended[&1].is_ok());
}

#[test]
fn a_move_that_fails_for_long_is_shown() {
    let mut rig = greeted("a:1,b:1");
    rig.receive(&push(MOVE));
    rig.open_spare();
    rig.has_moved = false;
    rig.lose();
    rig.pass(TIMEOUT / 3);
    assert_eq!(rig.state(), SessionState::Suspended);
}

#[test]
fn other_pushes_are_ignored() {
    let mut rig = greeted("a:1,b:1");
    rig.receive(&push(3));
    rig.reply(-23106, 1, 0, b"");
    assert!(rig.spare.is_none() && rig.link.is_some());
}
