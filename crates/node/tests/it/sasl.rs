//! SASL exchanges: order of replies, ids, limits and outcomes. The mechanism is a script.

use std::collections::VecDeque;

use zebu_node::limits::SASL_EXCHANGE_MS_MAX;
use zebu_node::{
    AuthEnforcement, ConnectionId, ConnectionPhase, DisconnectReason, SaslFailedClients, SaslMechanism,
    SaslOutcome, SaslSettings,
};
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, Id, OpCode, Permissions};
use zebu_security::sasl::principal::PrincipalRules;
use zebu_security::sasl::{ROUNDS_MAX, SaslFailure, SaslIdentity, SaslServer, SaslServerStep, TOKEN_MAX};
use zebu_tree::access::{EnsembleScheme, SaslScheme};
use zebu_tree::{Policy, Tree};

use crate::client::{Ask, ask, auth, create, create_with_acl, get, ping};
use crate::node_fixture::{NodeFixture, settings, tree_options};

/// A mechanism that gives these answers, and then refuses.
struct ScriptedMechanism(VecDeque<SaslServerStep>);

impl SaslServer for ScriptedMechanism {
    fn step(&mut self, _: Option<&[u8]>) -> SaslServerStep {
        self.0.pop_front().unwrap_or(SaslServerStep::Failed(SaslFailure::Finished))
    }
}

fn script(steps: &[SaslServerStep]) -> SaslMechanism {
    Box::new(ScriptedMechanism(steps.iter().cloned().collect()))
}

fn challenge() -> SaslServerStep {
    SaslServerStep::Continue(b"challenge".to_vec())
}

fn complete(name: &str) -> SaslServerStep {
    let identity = SaslIdentity { authentication_id: name.to_owned(), authorization_id: Some("root".into()) };
    SaslServerStep::Complete { token: Some(b"proof".to_vec()), identity }
}

fn failed() -> SaslServerStep {
    SaslServerStep::Failed(SaslFailure::BadCredentials)
}

fn token(bytes: &[u8]) -> Ask {
    ask(OpCode::Sasl, |out| encode_bytes(bytes, out))
}

fn fixture(failed_clients: SaslFailedClients, enforcement: AuthEnforcement) -> NodeFixture {
    let mut policy = Policy::default();
    policy.auth.sasl = Some(SaslScheme::default());
    policy.auth.ensemble = Some(EnsembleScheme { names: Some(vec!["east".into()]) });
    let mut fixture = NodeFixture::over(Tree::new(tree_options()), settings(), policy, enforcement);
    let settings =
        SaslSettings { rules: PrincipalRules::default(), super_users: vec!["super".into()], failed_clients };
    fixture.replica = fixture.replica.with_sasl(Some(settings));
    fixture
}

fn usual() -> NodeFixture {
    fixture(SaslFailedClients::Closed, AuthEnforcement::Off)
}

/// Runs the waiting token, as the edge does.
fn run(fixture: &mut NodeFixture, id: ConnectionId, steps: &[SaslServerStep]) -> SaslOutcome {
    let connection = fixture.connections.0.get_mut(&id).unwrap();
    let round = connection.take_sasl_round().expect("a token waits");
    assert!(connection.take_sasl_round().is_none() && !connection.has_room(), "one token at a time");
    let result = round.run(|| Ok(script(steps)));
    let outcome = fixture.replica.finish_sasl_round(connection, result);
    assert!(!connection.awaits_sasl_mechanism());
    outcome
}

/// Xid, zxid, error and body of each reply.
fn replies(fixture: &mut NodeFixture, id: ConnectionId) -> Vec<(i32, i64, i32, Vec<u8>)> {
    let bytes = fixture.take_bytes(id);
    let mut rest = &bytes[..];
    let mut replies = Vec::new();
    while let Framed::Complete { length } = peek(rest, usize::MAX) {
        let (frame, after) = rest[LENGTH_SIZE..].split_at(length);
        rest = after;
        let xid = i32::from_be_bytes(frame[..4].try_into().unwrap());
        let zxid = i64::from_be_bytes(frame[4..12].try_into().unwrap());
        let error = i32::from_be_bytes(frame[12..16].try_into().unwrap());
        replies.push((xid, zxid, error, frame[16..].to_vec()));
    }
    replies
}

fn buffer(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_bytes(bytes, &mut out);
    out
}

const NULL: [u8; 4] = [0xff; 4];

#[test]
fn a_server_without_sasl_refuses_and_closes() {
    let mut fixture = NodeFixture::new();
    let id = fixture.client();
    let session = fixture.session(id);
    fixture.send_as(id, 7, &token(b""));
    assert_eq!(replies(&mut fixture, id), [(7, 0, -115, NULL.to_vec())]);
    assert_eq!(fixture.phase(id), ConnectionPhase::Draining);
    assert!(fixture.replica.tree().sessions().contains_key(&session), "the session lives on");
}

#[test]
fn the_ids_of_an_exchange_apply_to_later_requests() {
    let mut fixture = usual();
    let id = fixture.client();
    fixture.call(id, create_with_acl("/bob", vec![Acl::new(Permissions::ALL, "sasl", "bob")]));
    fixture.send_as(id, 1, &token(b""));
    assert_eq!(run(&mut fixture, id, &[challenge(), complete("bob")]), SaslOutcome::Continues);
    fixture.send_as(id, 2, &get("/bob"));
    fixture.send_as(id, 3, &token(b"response"));
    assert_eq!(run(&mut fixture, id, &[]), SaslOutcome::Authenticated("bob".into()));
    fixture.send_as(id, 4, &get("/bob"));
    let replies = replies(&mut fixture, id);
    assert_eq!(replies[0], (1, 0, 0, buffer(b"challenge")));
    assert_eq!((replies[1].0, replies[1].2), (2, -102), "requests between the rounds are carried out");
    assert_eq!(replies[2], (3, 0, 0, buffer(b"proof")));
    assert_eq!((replies[3].0, replies[3].2), (4, 0));
    let ids: Vec<&Id> = fixture.connection(id).credentials.iter().collect();
    assert_eq!(ids, [&Id::new("ip", "127.0.0.1"), &Id::new("sasl", "bob")], "not the id that was asked for");
    assert_eq!(fixture.connection(id).sasl_deadline_ms(), None);
}

#[test]
fn super_users_by_id() {
    let mut fixture = usual();
    let id = fixture.client();
    fixture.send_as(id, 1, &token(b""));
    run(&mut fixture, id, &[complete("super")]);
    assert!(fixture.connection(id).credentials.is_super());
}

#[test]
fn replies_wait_for_earlier_requests() {
    let mut fixture = usual();
    let id = fixture.client();
    fixture.send_as(id, 1, &create("/a", "", 0));
    fixture.send_as(id, 2, &token(b""));
    run(&mut fixture, id, &[challenge()]);
    fixture.send_as(id, 3, &token(b"bad"));
    run(&mut fixture, id, &[]);
    assert_eq!(fixture.phase(id), ConnectionPhase::Draining);
    fixture.send_as(id, 4, &ping());
    assert_eq!(replies(&mut fixture, id), []);
    fixture.persist();
    let replies = replies(&mut fixture, id);
    let short: Vec<_> = replies.iter().map(|reply| (reply.0, reply.2)).collect();
    assert_eq!(short, [(1, 0), (2, 0), (3, -115)]);
    assert_eq!(replies[2].3, NULL);
    assert!(fixture.connection(id).is_drained());
}

#[test]
fn a_failure_is_answered_with_a_null_token() {
    let enforced = || AuthEnforcement::Schemes(vec!["digest".into(), "sasl".into()]);
    for (failed_clients, enforcement, error, phase) in [
        (SaslFailedClients::Closed, AuthEnforcement::Off, -115, ConnectionPhase::Draining),
        (SaslFailedClients::Kept, AuthEnforcement::Off, 0, ConnectionPhase::Serving),
        (SaslFailedClients::Closed, enforced(), -124, ConnectionPhase::Draining),
        (SaslFailedClients::Kept, enforced(), -124, ConnectionPhase::Draining),
    ] {
        let mut fixture = fixture(failed_clients, enforcement);
        let id = fixture.client();
        fixture.send_as(id, 1, &token(b""));
        let outcome = run(&mut fixture, id, &[failed()]);
        assert_eq!(outcome, SaslOutcome::Failed("unknown user or wrong password".into()));
        assert_eq!(replies(&mut fixture, id), [(1, 0, error, NULL.to_vec())]);
        assert_eq!(fixture.phase(id), phase);
        assert_eq!(fixture.connection(id).credentials.len(), 1);
    }
}

#[test]
fn a_name_without_rule_has_no_id() {
    for name in ["al@ice", "a/b/c@R", "@R", "a@", ""] {
        let mut fixture = usual();
        let id = fixture.client();
        fixture.send_as(id, 1, &token(b""));
        assert!(matches!(run(&mut fixture, id, &[complete(name)]), SaslOutcome::Failed(_)), "{name}");
        assert_eq!(replies(&mut fixture, id), [(1, 0, -115, NULL.to_vec())], "{name}");
        assert_eq!(fixture.connection(id).credentials.len(), 1, "{name}");
    }
}

#[test]
fn a_connection_has_one_exchange() {
    let mut fixture = usual();
    let id = fixture.client();
    fixture.send_as(id, 1, &token(b""));
    run(&mut fixture, id, &[complete("bob")]);
    fixture.send_as(id, 2, &token(b""));
    assert_eq!(run(&mut fixture, id, &[complete("eve")]), SaslOutcome::Failed("the exchange is over".into()));
    let replies = replies(&mut fixture, id);
    assert_eq!(replies[1], (2, 0, -115, NULL.to_vec()));
    assert_eq!(fixture.phase(id), ConnectionPhase::Draining);
}

#[test]
fn tokens_are_counted_even_if_failed_clients_are_kept() {
    let mut fixture = fixture(SaslFailedClients::Kept, AuthEnforcement::Off);
    let id = fixture.client();
    for number in 1..=ROUNDS_MAX as i32 {
        fixture.send_as(id, number, &token(b""));
        run(&mut fixture, id, &[failed()]);
        assert_eq!(replies(&mut fixture, id), [(number, 0, 0, NULL.to_vec())]);
    }
    fixture.send_as(id, 99, &token(b""));
    run(&mut fixture, id, &[failed()]);
    assert_eq!(replies(&mut fixture, id), [(99, 0, -115, NULL.to_vec())]);
    assert_eq!(fixture.phase(id), ConnectionPhase::Draining);
}

#[test]
fn long_tokens_and_slow_exchanges_fail() {
    let mut fixture = usual();
    let id = fixture.client();
    fixture.send_as(id, 1, &token(&vec![0; TOKEN_MAX]));
    assert_eq!(run(&mut fixture, id, &[challenge(), complete("bob")]), SaslOutcome::Continues);
    let started_ms = fixture.now.monotonic_ms;
    assert_eq!(fixture.connection(id).sasl_deadline_ms(), Some(started_ms + SASL_EXCHANGE_MS_MAX));
    fixture.pass(SASL_EXCHANGE_MS_MAX + 1);
    fixture.send_as(id, 2, &token(b""));
    assert_eq!(run(&mut fixture, id, &[]), SaslOutcome::Failed("the exchange took too long".into()));
    assert_eq!(replies(&mut fixture, id)[1], (2, 0, -115, NULL.to_vec()));

    let id = fixture.client();
    fixture.send_as(id, 1, &token(&vec![0; TOKEN_MAX + 1]));
    assert!(matches!(run(&mut fixture, id, &[complete("bob")]), SaslOutcome::Failed(_)));
    assert_eq!(fixture.connection(id).credentials.len(), 1);
}

#[test]
fn an_exchange_may_end_after_its_connection() {
    let mut fixture = usual();
    let id = fixture.client();
    fixture.send_as(id, 1, &token(b""));
    let connection = fixture.connections.0.get_mut(&id).unwrap();
    let round = connection.take_sasl_round().unwrap();
    let request = round.request();
    let result = round.run(|| Ok(script(&[complete("bob")])));
    connection.close(DisconnectReason::SessionEnded);
    assert_eq!(fixture.replica.finish_sasl_round(connection, result), SaslOutcome::Continues);
    assert_eq!((connection.credentials.len(), connection.outbox_len()), (1, 0));
    let late = request.abandon(SaslFailure::TooSlow);
    assert_eq!(fixture.replica.finish_sasl_round(connection, late), SaslOutcome::Continues);
}

#[test]
fn a_null_token_and_a_missing_body_close_without_a_reply() {
    for body in [&[0xff; 4][..], &[], &[0, 0, 0, 9, 1]] {
        let mut fixture = usual();
        let id = fixture.client();
        fixture.send_as(id, 1, &Ask::raw(OpCode::Sasl.wire(), body));
        assert_eq!(fixture.phase(id), ConnectionPhase::Closed(DisconnectReason::BadFrame));
        assert_eq!(fixture.connection(id).outbox_len(), 0);
    }
}

#[test]
fn clients_of_another_ensemble_are_closed_without_a_reply() {
    let mut fixture = usual();
    let id = fixture.client();
    for name in ["east", ""] {
        assert_eq!(fixture.call(id, auth("ensemble", name)).error, None);
    }
    fixture.send_as(id, 9, &auth("ensemble", "west"));
    assert_eq!(fixture.phase(id), ConnectionPhase::Closed(DisconnectReason::OtherEnsemble));
    assert_eq!(fixture.connection(id).outbox_len(), 0);
    let counts = fixture.replica.ensemble_auth_counts();
    assert_eq!((counts.success, counts.fail, counts.skip), (1, 1, 1));
    assert_eq!(fixture.connection(id).credentials.len(), 1, "a name is no identity");
}
