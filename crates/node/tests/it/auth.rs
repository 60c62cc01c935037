//! Credentials: their effect, refusal and limit.

use zebu_node::{AuthEnforcement, ConnectionId, ConnectionPhase};
use zebu_proto::client::ClientInfo;
use zebu_proto::{Acl, ErrorCode, Jute, Permissions};
use zebu_tree::access::{DigestAlgorithm, digest_id};
use zebu_tree::{Policy, Tree};

use crate::client::{Ask, auth, create, create_with_acl, get, get_acl, ping, set, who_am_i};
use crate::node_fixture::{NodeFixture, settings, tree_options};

fn users(fixture: &mut NodeFixture, connection: ConnectionId) -> Vec<(String, String)> {
    let infos =
        fixture.call(connection, who_am_i()).read(|reader| Vec::<ClientInfo>::decode(reader).unwrap());
    let text = |text: Option<Box<str>>| String::from(text.unwrap());
    infos.into_iter().map(|info| (text(info.scheme), text(info.user))).collect()
}

fn of_me() -> Vec<Acl> {
    vec![Acl::new(Permissions::ALL, "digest", digest_id("me:pw", DigestAlgorithm::Sha1))]
}

#[test]
fn a_request_has_the_credentials_of_the_moment_it_was_received() {
    let mut fixture = NodeFixture::new();
    let owner = fixture.client();
    fixture.call(owner, auth("digest", "me:pw"));
    fixture.call(owner, create_with_acl("/mine", of_me()));

    let connection = fixture.client();
    fixture.send_as(connection, 1, &set("/mine", "before"));
    fixture.send_as(connection, 2, &get("/mine"));
    fixture.send_as(connection, 3, &auth("digest", "me:pw"));
    fixture.send_as(connection, 4, &get("/mine"));
    fixture.send_as(connection, 5, &set("/mine", "after"));
    fixture.persist();
    let replies = fixture.replies(connection);
    let errors: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.error)).collect();
    let refused = Some(ErrorCode::NoAuth);
    assert_eq!(errors, [(1, refused), (2, refused), (3, None), (4, None), (5, None)]);
    assert_eq!(replies[2].zxid, 0);
}

#[test]
fn a_write_that_waits_for_the_core_keeps_the_credentials_it_came_with() {
    let mut fixture = NodeFixture::new();
    let owner = fixture.client();
    fixture.call(owner, auth("digest", "me:pw"));
    fixture.call(owner, create_with_acl("/mine", of_me()));
    let connection = fixture.client();
    let early = fixture.receive(connection, &set("/mine", "early").frame(1));
    fixture.receive(connection, &auth("digest", "me:pw").frame(-4));
    let late = fixture.receive(connection, &set("/mine", "late").frame(2));
    fixture.submit(early);
    fixture.submit(late);
    fixture.persist();
    let errors: Vec<_> = fixture.replies(connection).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(errors, [(1, Some(ErrorCode::NoAuth)), (-4, None), (2, None)]);
}

#[test]
fn who_am_i_tells_no_secrets() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, auth("digest", "me:pw"));
    fixture.call(connection, auth("digest", "me:pw"));
    fixture.call(connection, auth("ip", ""));
    let expected = [("digest", "me"), ("ip", "127.0.0.1")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(users(&mut fixture, connection), expected);
}

#[test]
fn digests_are_masked_for_those_who_may_not_change_them() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    let mut acl = of_me();
    acl.push(Acl::new(Permissions::READ, "world", "anyone"));
    fixture.call(connection, create_with_acl("/a", acl.clone()));
    let read = |fixture: &mut NodeFixture| {
        let reply = fixture.call(connection, get_acl("/a"));
        reply.read(|reader| {
            let acl = Vec::<Acl>::decode(reader).unwrap();
            zebu_proto::Stat::decode(reader).unwrap();
            acl
        })
    };
    assert_eq!(read(&mut fixture)[0].id.id.as_deref(), Some("me:x"));
    fixture.call(connection, auth("digest", "me:pw"));
    assert_eq!(read(&mut fixture), acl);
}

#[test]
fn a_refused_auth_is_answered_in_turn_and_ends_the_connection() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    let session = fixture.session(connection);
    fixture.send_as(connection, 1, &create("/a", "", 0));
    fixture.send_as(connection, -4, &auth("unknown", "x"));
    fixture.send_as(connection, 2, &create("/late", "", 0));
    assert_eq!(fixture.received(connection), []);
    assert_eq!(fixture.phase(connection), ConnectionPhase::Draining);
    fixture.persist();
    let replies = fixture.replies(connection);
    assert_eq!(replies.len(), 2);
    assert_eq!((replies[1].xid, replies[1].zxid, replies[1].error), (-4, 0, Some(ErrorCode::AuthFailed)));
    assert!(fixture.connection(connection).is_drained());
    assert!(fixture.replica.tree().node("/late").is_none());
    assert!(fixture.replica.tree().sessions().contains_key(&session), "the session lives on");
}

#[test]
fn an_auth_packet_that_does_not_decode_closes_without_a_word() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.send_as(connection, -4, &Ask::raw(100, &[0, 0]));
    assert!(matches!(fixture.phase(connection), ConnectionPhase::Closed(_)));
    assert_eq!(fixture.connection(connection).outbox_len(), 0);
}

#[test]
fn a_connection_holds_a_bounded_number_of_credentials() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    // The address is the first.
    for number in 1..zebu_node::limits::CREDENTIALS_MAX {
        assert_eq!(fixture.call(connection, auth("digest", &format!("u{number}:pw"))).error, None);
    }
    assert_eq!(
        fixture.call(connection, auth("digest", "u1:pw")).error,
        None,
        "one that it holds costs nothing"
    );
    assert_eq!(fixture.phase(connection), ConnectionPhase::Serving);
    let reply = fixture.call(connection, auth("digest", "one-too-many:pw"));
    assert_eq!(reply.error, Some(ErrorCode::AuthFailed));
    assert_eq!(fixture.phase(connection), ConnectionPhase::Draining);
}

#[test]
fn a_connection_holds_credentials_of_a_bounded_length() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    let half = zebu_node::limits::CREDENTIALS_BYTES_MAX / 2;
    assert_eq!(fixture.call(connection, auth("digest", &format!("{}:pw", "a".repeat(half)))).error, None);
    let reply = fixture.call(connection, auth("digest", &format!("{}:pw", "b".repeat(half))));
    assert_eq!(reply.error, Some(ErrorCode::AuthFailed));
    assert_eq!(fixture.phase(connection), ConnectionPhase::Draining);
}

#[test]
fn enforcement_ends_connections_without_the_scheme() {
    let enforcement = AuthEnforcement::Schemes(vec!["digest".into(), "sasl".into()]);
    let mut fixture =
        NodeFixture::over(Tree::new(tree_options()), settings(), Policy::default(), enforcement);
    for ask in [create("/a", "", 0), get("/"), ping(), Ask::raw(4711, &[])] {
        let connection = fixture.client();
        fixture.send_as(connection, 9, &ask);
        fixture.send_as(connection, 10, &auth("digest", "me:pw"));
        fixture.persist();
        let replies = fixture.replies(connection);
        let error = Some(ErrorCode::SessionClosedRequireSaslAuth);
        assert_eq!((replies.len(), replies[0].xid, replies[0].zxid, replies[0].error), (1, 9, 0, error));
        assert_eq!(fixture.phase(connection), ConnectionPhase::Draining);
    }
    let connection = fixture.client();
    fixture.call(connection, auth("digest", "me:pw"));
    assert_eq!(fixture.call(connection, create("/a", "", 0)).error, None);
}
