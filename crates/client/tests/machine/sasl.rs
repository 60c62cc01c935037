//! SASL in the session machine: its place on a connection, every refusal, and its repetition. The accepting
//! side is the one that servers use.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_client::core::{
    Cause, Delivery, KerberosFault, KerberosLogin, LinkId, LogEvent, MechanismInput, SaslLogin, SaslRefusal,
    SaslSettings, SessionState, WatchIntent,
};
use zebu_proto::client::auth::SaslToken;
use zebu_proto::{Jute, OpCode, Reader};
use zebu_security::sasl::digest_md5::{DigestProfile, DigestServer, DigestUsers, NONCE_BYTES};
use zebu_security::sasl::gssapi::GssError;
use zebu_security::sasl::{SaslClientStep, SaslFailure, SaslServer, SaslServerStep};
use zebu_security::secret::SecretText;

use crate::rig::{Rig, SentRequest, TIMEOUT};

const SASL: i32 = 102;

fn rig_with(servers: &str, password: &str) -> Rig {
    let login = SaslLogin::digest_md5("bob", password);
    Rig::new(servers, |settings| settings.sasl = Some(SaslSettings { login, nonce_seed: [7; 32] }))
}

pub(crate) fn server() -> DigestServer {
    let mut users = DigestUsers::default();
    users.insert("bob", SecretText::new("bobsecret"));
    DigestServer::new(DigestProfile::CLIENTS, Arc::new(users), [3; NONCE_BYTES])
}

fn body(token: Option<&[u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    SaslToken { token: token.map(Into::into) }.encode(&mut body);
    body
}

/// The token of the only request that the machine writes now.
fn token_of(rig: &mut Rig) -> (i32, Vec<u8>) {
    let sent = rig.requests();
    assert_eq!(sent.iter().map(|request| request.op).collect::<Vec<_>>(), [SASL], "only the token is sent");
    let token = SaslToken::decode(&mut Reader::new(&sent[0].body)).unwrap().token.unwrap();
    (sent[0].xid, token.to_vec())
}

/// Answers a request if it is a token.
pub(crate) fn answer_token(rig: &mut Rig, request: &SentRequest, server: &mut DigestServer) -> bool {
    if request.op != SASL {
        return false;
    }
    let token = SaslToken::decode(&mut Reader::new(&request.body)).unwrap().token.unwrap();
    match server.step(Some(&token)) {
        SaslServerStep::Continue(token) => rig.reply(request.xid, 0, 0, &body(Some(&token))),
        SaslServerStep::Complete { token, .. } => rig.reply(request.xid, 0, 0, &body(token.as_deref())),
        SaslServerStep::Failed(_) => rig.reply(request.xid, 0, -115, &body(None)),
    }
    true
}

/// Answers tokens until the server is content.
fn authenticate(rig: &mut Rig) -> String {
    let mut server = server();
    loop {
        let (xid, token) = token_of(rig);
        match server.step(Some(&token)) {
            SaslServerStep::Continue(challenge) => rig.reply(xid, 0, 0, &body(Some(&challenge))),
            SaslServerStep::Complete { token: proof, .. } => {
                rig.reply(xid, 0, 0, &body(proof.as_deref()));
                return String::from_utf8(token).unwrap();
            }
            SaslServerStep::Failed(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn the_exchange_comes_before_every_other_request() {
    let mut rig = rig_with("a:1", "bobsecret");
    rig.session.add_auth(rig.now, "digest", Bytes::from_static(b"u:p"), 100);
    rig.watch(1, WatchIntent::Data, "/a");
    rig.accept();
    assert_eq!(rig.state(), SessionState::Connecting, "the session is there, but not usable");
    authenticate(&mut rig);
    assert_eq!(rig.state(), SessionState::Connected);
    let sent: Vec<i32> = rig.requests().iter().map(|request| request.op).collect();
    assert_eq!(sent, [100, 4]);
}

#[test]
fn every_connection_authenticates_with_a_nonce_of_its_own() {
    let mut rig = rig_with("a:1", "bobsecret");
    rig.accept();
    let first = authenticate(&mut rig);
    rig.watch(1, WatchIntent::Data, "/a");
    let get = rig.requests();
    rig.reply(get[0].xid, 5, 0, b"");
    rig.lose();
    assert_eq!(rig.state(), SessionState::Suspended);
    rig.accept();
    assert_eq!(rig.state(), SessionState::Suspended);
    let second = authenticate(&mut rig);
    assert_eq!(rig.state(), SessionState::Reconnected);
    let sent: Vec<i32> = rig.requests().iter().map(|request| request.op).collect();
    assert_eq!(sent, [OpCode::SetWatches.wire()], "watches follow the exchange");
    let nonce = |response: &str| response.split("cnonce=").nth(1).unwrap()[..20].to_owned();
    assert_ne!(nonce(&first), nonce(&second));
}

/// Refuses the exchange at its first or second token and checks the end of the machine.
fn refused(rounds: usize, err: i32, token: Option<&[u8]>) -> SaslRefusal {
    let mut rig = rig_with("a:1,b:1", "bobsecret");
    rig.call(1, OpCode::GetData, b"");
    rig.accept();
    let mut server = server();
    for _ in 1..rounds {
        let (xid, token) = token_of(&mut rig);
        let SaslServerStep::Continue(challenge) = server.step(Some(&token)) else { panic!("no challenge") };
        rig.reply(xid, 0, 0, &body(Some(&challenge)));
    }
    let (xid, _) = token_of(&mut rig);
    rig.reply(xid, 0, err, &body(token));
    assert!(rig.over, "no other server is asked");
    assert_eq!(rig.state(), SessionState::AuthFailed);
    let failure = rig.ended[&1].as_ref().unwrap_err();
    assert_eq!(failure.delivery, Delivery::NotSent);
    let Cause::SaslRefused(refusal) = failure.cause else { panic!("{}", failure.cause) };
    assert!(rig.log.iter().any(|event| matches!(event, LogEvent::SaslRefused { .. })));
    rig.call(2, OpCode::GetData, b"");
    assert_eq!(rig.ended[&2].as_ref().unwrap_err().cause, Cause::SaslRefused(refusal));
    refusal
}

#[test]
fn a_refusal_ends_the_client_for_good() {
    for round in [1, 2] {
        for code in [-115, -124, -6] {
            assert_eq!(refused(round, code, None), SaslRefusal::Rejected);
        }
        assert_eq!(refused(round, 0, None), SaslRefusal::NoToken);
        assert_eq!(refused(round, 0, Some(&[b'a'; 5000])), SaslRefusal::BadToken);
    }
    assert_eq!(refused(1, 0, Some(b"\"")), SaslRefusal::BadToken);
    let other = b"rspauth=00000000000000000000000000000000";
    assert_eq!(refused(2, 0, Some(other)), SaslRefusal::ServerNotProved);
    assert_eq!(refused(2, 0, Some(b"")), SaslRefusal::ServerNotProved);
}

#[test]
fn a_wrong_password_is_refused() {
    let mut rig = rig_with("a:1", "wrong");
    rig.accept();
    let mut server = server();
    let (xid, token) = token_of(&mut rig);
    let SaslServerStep::Continue(challenge) = server.step(Some(&token)) else { panic!("no challenge") };
    rig.reply(xid, 0, 0, &body(Some(&challenge)));
    let (xid, token) = token_of(&mut rig);
    assert!(matches!(server.step(Some(&token)), SaslServerStep::Failed(_)));
    rig.reply(xid, 0, -115, &body(None));
    assert_eq!((rig.state(), rig.over), (SessionState::AuthFailed, true));
}

/// A fault of the server, given the xid of the token in flight.
type SaslFault = fn(&mut Rig, i32);

#[test]
fn a_broken_exchange_is_repeated_at_the_next_server() {
    // The connection ends, the server is silent, answers another request, or has an error of its own.
    let faults: [SaslFault; 5] = [
        |rig, _| rig.lose(),
        |rig, _| rig.pass(TIMEOUT / 2),
        |rig, xid| rig.reply(xid + 1, 0, 0, b""),
        |rig, xid| rig.reply(xid, 0, -4, b""),
        |rig, xid| rig.reply(xid, 0, 0, b""),
    ];
    for fault in faults {
        let mut rig = rig_with("a:1,b:1", "bobsecret");
        rig.accept();
        // After the handshake, so that the call can wait for the next server.
        rig.call(1, OpCode::GetData, b"");
        let (xid, _) = token_of(&mut rig);
        fault(&mut rig, xid);
        assert!(!rig.over && rig.ended.is_empty(), "queued calls wait: {:?}", rig.ended);
        let request = rig.accept();
        assert_ne!(request.session_id, 0, "the session is resumed");
        authenticate(&mut rig);
        assert_eq!(rig.state(), SessionState::Connected, "it is the first use of the session");
        assert!(rig.requests().iter().any(|sent| sent.op == 4));
    }
}

#[test]
fn events_and_closing_during_the_exchange() {
    let mut rig = rig_with("a:1", "bobsecret");
    rig.accept();
    let (xid, _) = token_of(&mut rig);
    rig.receive(&crate::rig::event(3, "/a", 9));
    assert!(rig.events.is_empty());
    rig.reply(xid, 0, 0, &body(Some(b"realm=\"zk-sasl-md5\",nonce=\"n\",charset=utf-8,algorithm=md5-sess")));
    assert_eq!(token_of(&mut rig).0, xid + 1);
    rig.session.close(rig.now, 9);
    rig.pump();
    assert!(rig.over);
    assert_eq!(rig.state(), SessionState::Closed);
}

#[test]
fn nothing_secret_is_printed() {
    let mut rig = rig_with("a:1", "bobsecret");
    rig.accept();
    authenticate(&mut rig);
    assert!(!format!("{:?}", rig.session).contains("bobsecret"));
    rig.pass(Duration::from_secs(1));
}

/// The frames of an Apache 3.9.5 server in a recorded conversation with another client.
fn recorded(scenario: &str) -> Vec<Vec<u8>> {
    let lines = include_str!("../../testdata/sasl-replies.txt").lines();
    let frames = lines.filter_map(|line| line.split_once(' ')).filter(|(name, _)| *name == scenario);
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    frames.map(|(_, hex)| hex.as_bytes().chunks(2).map(byte).collect()).collect()
}

#[test]
fn replies_of_a_recorded_server() {
    for (scenario, refusal) in [
        ("kazoo-bob-wrong-password", SaslRefusal::Rejected),
        // The recorded proof is for the nonce of the other client.
        ("kazoo-bob-ok", SaslRefusal::ServerNotProved),
        ("java-bob-ok", SaslRefusal::ServerNotProved),
    ] {
        let mut rig = rig_with("a:1", "bobsecret");
        rig.call(1, OpCode::GetData, b"");
        rig.open();
        let frames = recorded(scenario);
        assert_eq!(frames.len(), 3, "connect response, challenge, outcome");
        for frame in &frames {
            rig.receive(frame);
            rig.write();
        }
        assert_eq!(rig.ended[&1].as_ref().unwrap_err().cause, Cause::SaslRefused(refusal), "{scenario}");
    }
}

fn rig_with_kerberos() -> Rig {
    let login = SaslLogin::kerberos(KerberosLogin::new());
    Rig::new("a:1", |settings| settings.sasl = Some(SaslSettings { login, nonce_seed: [7; 32] }))
}

/// The only input that waits for the mechanism of the driver.
fn input_of(rig: &mut Rig) -> (LinkId, MechanismInput) {
    rig.pump();
    let mut inputs = std::mem::take(&mut rig.mechanism_inputs);
    assert_eq!(inputs.len(), 1);
    let (link, server, input) = inputs.remove(0);
    assert_eq!((&*server.host, server.port), ("a", 1));
    (link, input)
}

fn step(rig: &mut Rig, link: LinkId, step: SaslClientStep) {
    rig.session.authentication_step(rig.now, link, step);
    rig.pump();
}

fn failed(fault: KerberosFault) -> SaslClientStep {
    SaslClientStep::Failed(SaslFailure::Kerberos(GssError { text: "library".to_owned(), fault }))
}

#[test]
fn the_driver_runs_a_mechanism_that_may_block() {
    let mut rig = rig_with_kerberos();
    rig.call(1, OpCode::GetData, b"");
    rig.accept();
    let (link, input) = input_of(&mut rig);
    assert_eq!(input, MechanismInput::Start);
    assert_eq!(rig.requests(), [], "nothing is sent before the first token");
    step(&mut rig, LinkId(link.0 + 1), SaslClientStep::Complete);
    assert_eq!(rig.state(), SessionState::Connecting, "a report of another connection has no effect");
    step(&mut rig, link, SaslClientStep::Respond(b"AP-REQ".to_vec()));
    let (xid, token) = token_of(&mut rig);
    assert_eq!(token, b"AP-REQ");
    step(&mut rig, link, SaslClientStep::Complete);
    assert_eq!(rig.state(), SessionState::Connecting, "the server has not answered");
    rig.reply(xid, 0, 0, &body(Some(b"offer")));
    assert_eq!(input_of(&mut rig), (link, MechanismInput::Token(Some(b"offer".to_vec()))));
    step(&mut rig, link, SaslClientStep::Respond(b"choice".to_vec()));
    let (xid, _) = token_of(&mut rig);
    rig.reply(xid, 0, 0, &body(None));
    assert_eq!(input_of(&mut rig), (link, MechanismInput::Token(None)));
    step(&mut rig, link, SaslClientStep::Complete);
    assert_eq!(rig.state(), SessionState::Connected);
    assert_eq!(rig.requests().len(), 1, "the call follows the exchange");
}

#[test]
fn a_ticket_that_does_not_serve_ends_the_client() {
    let mut rig = rig_with_kerberos();
    rig.accept();
    let (link, _) = input_of(&mut rig);
    step(&mut rig, link, failed(KerberosFault::NoCredentials));
    assert!(rig.over);
    let refusal = SaslRefusal::Kerberos(KerberosFault::NoCredentials);
    assert!(refusal.to_string().contains("kinit"));
    rig.call(2, OpCode::GetData, b"");
    assert_eq!(rig.ended[&2].as_ref().unwrap_err().cause, Cause::SaslRefused(refusal));
}

#[test]
fn a_kdc_that_does_not_answer_is_asked_again() {
    let mut rig = rig_with_kerberos();
    rig.accept();
    let (link, _) = input_of(&mut rig);
    step(&mut rig, link, failed(KerberosFault::Unreachable));
    assert!(!rig.over);
    assert!(rig.log.iter().any(|event| matches!(event, LogEvent::ConnectionLost { .. })));
    rig.accept();
    let (second, input) = input_of(&mut rig);
    assert_eq!(input, MechanismInput::Start);
    assert_ne!(link, second);
}

#[test]
fn a_reply_while_the_mechanism_runs_ends_the_connection() {
    let mut rig = rig_with_kerberos();
    rig.accept();
    input_of(&mut rig);
    rig.reply(1, 0, 0, &body(Some(b"early")));
    assert!(!rig.over);
    assert!(rig.log.iter().any(|event| matches!(event, LogEvent::ConnectionLost { .. })));
}
