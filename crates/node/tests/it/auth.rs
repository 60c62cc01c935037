//! Credentials: when they count, what a refusal does, and how many a connection may hold.

use zebu_node::{AuthEnforcement, ConnectionId, ConnectionPhase};
use zebu_proto::client::ClientInfo;
use zebu_proto::{Acl, ErrorCode, Jute, Permissions};
use zebu_tree::access::{DigestAlgorithm, digest_id};
use zebu_tree::{Policy, Tree};

use crate::client::{Ask, auth, create, create_with_acl, get, get_acl, ping, set, who_am_i};
use crate::world::{World, settings, tree_options};

fn users(world: &mut World, lane: ConnectionId) -> Vec<(String, String)> {
    let infos = world.call(lane, who_am_i()).read(|reader| Vec::<ClientInfo>::decode(reader).unwrap());
    let text = |text: Option<Box<str>>| String::from(text.unwrap());
    infos.into_iter().map(|info| (text(info.scheme), text(info.user))).collect()
}

fn of_me() -> Vec<Acl> {
    vec![Acl::new(Permissions::ALL, "digest", digest_id("me:pw", DigestAlgorithm::Sha1))]
}

#[test]
fn a_request_has_the_credentials_of_the_moment_it_was_received() {
    let mut world = World::new();
    let owner = world.client();
    world.call(owner, auth("digest", "me:pw"));
    world.call(owner, create_with_acl("/mine", of_me()));

    let lane = world.client();
    world.send_as(lane, 1, &set("/mine", "before"));
    world.send_as(lane, 2, &get("/mine"));
    world.send_as(lane, 3, &auth("digest", "me:pw"));
    world.send_as(lane, 4, &get("/mine"));
    world.send_as(lane, 5, &set("/mine", "after"));
    world.persist();
    let replies = world.replies(lane);
    let errors: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.error)).collect();
    let refused = Some(ErrorCode::NoAuth);
    assert_eq!(errors, [(1, refused), (2, refused), (3, None), (4, None), (5, None)]);
    assert_eq!(replies[2].zxid, 0);
}

#[test]
fn a_write_that_waits_for_the_core_keeps_the_credentials_it_came_with() {
    let mut world = World::new();
    let owner = world.client();
    world.call(owner, auth("digest", "me:pw"));
    world.call(owner, create_with_acl("/mine", of_me()));
    let lane = world.client();
    let early = world.receive(lane, &set("/mine", "early").frame(1));
    world.receive(lane, &auth("digest", "me:pw").frame(-4));
    let late = world.receive(lane, &set("/mine", "late").frame(2));
    world.submit(early);
    world.submit(late);
    world.persist();
    let errors: Vec<_> = world.replies(lane).iter().map(|reply| (reply.xid, reply.error)).collect();
    assert_eq!(errors, [(1, Some(ErrorCode::NoAuth)), (-4, None), (2, None)]);
}

#[test]
fn who_am_i_tells_no_secrets() {
    let mut world = World::new();
    let lane = world.client();
    world.call(lane, auth("digest", "me:pw"));
    world.call(lane, auth("digest", "me:pw"));
    world.call(lane, auth("ip", ""));
    let expected = [("digest", "me"), ("ip", "127.0.0.1")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(users(&mut world, lane), expected);
}

#[test]
fn digests_are_masked_for_those_who_may_not_change_them() {
    let mut world = World::new();
    let lane = world.client();
    let mut acl = of_me();
    acl.push(Acl::new(Permissions::READ, "world", "anyone"));
    world.call(lane, create_with_acl("/a", acl.clone()));
    let read = |world: &mut World| {
        let reply = world.call(lane, get_acl("/a"));
        reply.read(|reader| {
            let acl = Vec::<Acl>::decode(reader).unwrap();
            zebu_proto::Stat::decode(reader).unwrap();
            acl
        })
    };
    assert_eq!(read(&mut world)[0].id.id.as_deref(), Some("me:x"));
    world.call(lane, auth("digest", "me:pw"));
    assert_eq!(read(&mut world), acl);
}

#[test]
fn a_refused_auth_is_answered_in_turn_and_ends_the_connection() {
    let mut world = World::new();
    let lane = world.client();
    let session = world.session(lane);
    world.send_as(lane, 1, &create("/a", "", 0));
    world.send_as(lane, -4, &auth("unknown", "x"));
    world.send_as(lane, 2, &create("/late", "", 0));
    assert_eq!(world.received(lane), []);
    assert_eq!(world.phase(lane), ConnectionPhase::Draining);
    world.persist();
    let replies = world.replies(lane);
    assert_eq!(replies.len(), 2);
    assert_eq!((replies[1].xid, replies[1].zxid, replies[1].error), (-4, 0, Some(ErrorCode::AuthFailed)));
    assert!(world.lane(lane).is_drained());
    assert!(world.replica.tree().node("/late").is_none());
    assert!(world.replica.tree().sessions().contains_key(&session), "the session lives on");
}

#[test]
fn an_auth_packet_that_does_not_decode_closes_without_a_word() {
    let mut world = World::new();
    let lane = world.client();
    world.send_as(lane, -4, &Ask::raw(100, &[0, 0]));
    assert!(matches!(world.phase(lane), ConnectionPhase::Closed(_)));
    assert_eq!(world.lane(lane).outbox_len(), 0);
}

#[test]
fn a_connection_holds_a_bounded_number_of_credentials() {
    let mut world = World::new();
    let lane = world.client();
    // The address is the first.
    for number in 1..zebu_node::limits::CREDENTIALS_MAX {
        assert_eq!(world.call(lane, auth("digest", &format!("u{number}:pw"))).error, None);
    }
    assert_eq!(world.call(lane, auth("digest", "u1:pw")).error, None, "one that it holds costs nothing");
    assert_eq!(world.phase(lane), ConnectionPhase::Serving);
    let reply = world.call(lane, auth("digest", "one-too-many:pw"));
    assert_eq!(reply.error, Some(ErrorCode::AuthFailed));
    assert_eq!(world.phase(lane), ConnectionPhase::Draining);
}

#[test]
fn a_connection_holds_credentials_of_a_bounded_length() {
    let mut world = World::new();
    let lane = world.client();
    let half = zebu_node::limits::CREDENTIALS_BYTES_MAX / 2;
    assert_eq!(world.call(lane, auth("digest", &format!("{}:pw", "a".repeat(half)))).error, None);
    let reply = world.call(lane, auth("digest", &format!("{}:pw", "b".repeat(half))));
    assert_eq!(reply.error, Some(ErrorCode::AuthFailed));
    assert_eq!(world.phase(lane), ConnectionPhase::Draining);
}

#[test]
fn enforcement_ends_connections_without_the_scheme() {
    let enforcement = AuthEnforcement::Schemes(vec!["digest".into(), "sasl".into()]);
    let mut world = World::over(Tree::new(tree_options()), settings(), Policy::default(), enforcement);
    for ask in [create("/a", "", 0), get("/"), ping(), Ask::raw(4711, &[])] {
        let lane = world.client();
        world.send_as(lane, 9, &ask);
        world.send_as(lane, 10, &auth("digest", "me:pw"));
        world.persist();
        let replies = world.replies(lane);
        let error = Some(ErrorCode::SessionClosedRequireSaslAuth);
        assert_eq!((replies.len(), replies[0].xid, replies[0].zxid, replies[0].error), (1, 9, 0, error));
        assert_eq!(world.phase(lane), ConnectionPhase::Draining);
    }
    let lane = world.client();
    world.call(lane, auth("digest", "me:pw"));
    assert_eq!(world.call(lane, create("/a", "", 0)).error, None);
}
