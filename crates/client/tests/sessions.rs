//! Sessions against a real server: loss, expiry, hand-over, credentials, and what callers are told.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::time::{Duration, Instant};

use common::proxy::{Proxy, Wire};
use common::{Server, own_root, soon, until};
use zebu_client::{
    Cause, Client, ConfirmedBy, ConnectError, ErrorCode, ErrorKind, Retry, SessionPolicy, SessionState,
};

async fn through(server: &Server) -> (Proxy, Client) {
    let proxy = Proxy::start(server.address()).await;
    let builder = Client::builder(&proxy.address().to_string()).unwrap();
    let client = builder.session_timeout(Duration::from_secs(20)).connect().await.unwrap();
    let client = own_root(&client).await;
    (proxy, client)
}

#[tokio::test]
async fn a_session_survives_its_connection() {
    let server = Server::start().await;
    let (proxy, client) = through(&server).await;
    client.create("/e").ephemeral().await.unwrap();
    let before = client.session();
    assert_eq!((client.state(), before.epoch), (SessionState::Connected, 1));
    assert_eq!(before.server.as_deref(), Some(proxy.address().to_string().as_str()));
    let lease = client.lease_deadline().expect("a lease");
    assert!(lease > Instant::now() && lease <= Instant::now() + before.timeout);

    proxy.set(Wire::Cut);
    until(&client, SessionState::Suspended).await;
    let waiting = client.get("/e").send();
    proxy.set(Wire::Whole);
    until(&client, SessionState::Reconnected).await;
    assert!(soon(waiting).await.is_ok(), "a call made while suspended waits for the connection");
    let after = client.session();
    assert_eq!((after.id, after.epoch), (before.id, 1));
    assert!(client.exists("/e").await.unwrap().is_some());
    assert!(client.lease_deadline() > Some(lease));
}

#[tokio::test]
async fn an_expired_session_is_reported_and_replaced() {
    let server = Server::start().await;
    let (proxy, client) = through(&server).await;
    client.create("/e").ephemeral().await.unwrap();
    let credentials = client.credentials().await.unwrap();
    let mut states = client.states();
    proxy.set(Wire::Cut);
    until(&client, SessionState::Suspended).await;
    let thief = server.builder().resume(credentials).connect().await.unwrap();
    assert_eq!(thief.session().id, credentials.id);
    assert!(thief.close().await.unwrap().confirmed);
    states.mark_unchanged();
    proxy.set(Wire::Whole);
    let renewed =
        soon(states.wait_for(|status| status.state == SessionState::Connected)).await.unwrap().clone();
    assert_eq!(renewed.session.epoch, 2);
    assert_ne!(renewed.session.id, credentials.id);
    assert_eq!(client.exists("/e").await.unwrap(), None, "the ephemeral node went with its session");
    client.create("/e").ephemeral().await.unwrap();
}

#[tokio::test]
async fn a_terminal_session_ends_the_client() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.address()).await;
    let builder = Client::builder(&proxy.address().to_string()).unwrap();
    let client = builder.session_policy(SessionPolicy::Terminal).connect().await.unwrap();
    let credentials = client.credentials().await.unwrap();
    proxy.set(Wire::Cut);
    until(&client, SessionState::Suspended).await;
    let waiting = client.get("/").retry(Retry::Never).send();
    let thief = server.builder().resume(credentials).connect().await.unwrap();
    thief.close().await.unwrap();
    proxy.set(Wire::Whole);
    until(&client, SessionState::Expired).await;
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::SessionExpired));
    let error = client.get("/").retry(Retry::Never).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::SessionExpired));
    assert!(error.is_session_fatal());
}

#[tokio::test]
async fn a_lost_answer_is_an_unknown_outcome() {
    let server = Server::start().await;
    let (mut proxy, client) = through(&server).await;
    client.create("/a").data("0").await.unwrap();
    for round in 1..=3 {
        let before = proxy.count();
        proxy.set(Wire::Deaf);
        let set = client.set("/a", round.to_string()).send();
        let read = client.get("/a").send();
        soon(proxy.passed(before)).await;
        proxy.set(Wire::Whole);
        let error = soon(set).await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        assert_eq!(error.server(), Some(proxy.address().to_string().as_str()));
        // A read is repeated by itself. The write was carried out at most once.
        let node = soon(read).await.unwrap();
        assert!(node.stat.version <= round, "{node:?}");
    }
}

#[tokio::test]
async fn a_protected_create_survives_a_lost_answer() {
    let server = Server::start().await;
    let (mut proxy, client) = through(&server).await;
    let mut found = 0;
    for _ in 0..5 {
        let before = proxy.count();
        proxy.set(Wire::Deaf);
        let create = client.create("/lock-").ephemeral().sequential().protected().send();
        soon(proxy.passed(before)).await;
        // The server has the request when it answers a later request of another client.
        let other = server.builder().connect().await.unwrap();
        other.sync("/").await.unwrap();
        proxy.set(Wire::Whole);
        let created = soon(create).await.unwrap();
        found += u32::from(created.confirmed_by == ConfirmedBy::Search);
        assert_eq!(created.stat.ephemeral_owner, client.session().id.0);
        assert!(created.sequence.is_some());
    }
    assert_eq!(client.children("/").await.unwrap().names.len(), 5, "one node for each create");
    assert!(found > 0);
}

#[tokio::test]
async fn a_guaranteed_delete_is_done_in_the_end() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.address()).await;
    let builder = Client::builder(&proxy.address().to_string()).unwrap();
    let client = builder.connection_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let client = own_root(&client).await;
    let other = server.builder().connect().await.unwrap().namespaced(client.root()).unwrap();
    client.create("/a").await.unwrap();
    let (_, deleted) = other.exists("/a").watched().await.unwrap();
    proxy.set(Wire::Cut);
    until(&client, SessionState::Suspended).await;
    let error = client.delete("/a").guaranteed().retry(Retry::Never).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::NotConnected));
    proxy.set(Wire::Whole);
    soon(deleted).await;
    assert_eq!(client.close().await.unwrap().left_behind, 0);
}

#[tokio::test]
async fn a_session_that_is_handed_over_lives_on_with_another_client() {
    let server = Server::start().await;
    let (_proxy, client) = through(&server).await;
    let (twin, root) = (client.clone(), client.root().to_owned());
    client.create("/mine").ephemeral().await.unwrap();
    // Calls made before are carried out.
    let sent: Vec<_> = (0..100).map(|n| client.set("/mine", n.to_string()).send()).collect();
    let session = client.hand_over().await.unwrap();
    for call in sent {
        soon(call).await.unwrap();
    }
    assert_eq!((twin.state(), twin.lease_deadline()), (SessionState::Closed, None));
    let error = twin.get("/mine").await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::Closed));
    let waiter = server.builder().resume(session).connect().await.unwrap().namespaced(&root).unwrap();
    let mut states = waiter.states();
    assert_eq!(
        (waiter.session().id, states.borrow_and_update().state),
        (session.id, SessionState::Connected)
    );
    // The former client lets go of the connection for good: neither its clones nor their end touch the
    // session.
    drop(twin);
    waiter.sync("/").await.unwrap();
    assert_eq!(waiter.get("/mine").await.unwrap().data, "99");
    assert!(!states.has_changed().unwrap(), "{:?}", waiter.state());
    assert!(waiter.close().await.unwrap().confirmed);
}

#[tokio::test]
async fn a_client_without_a_connection_can_hand_its_session_over() {
    let server = Server::start().await;
    let (proxy, client) = through(&server).await;
    let session = client.session().id;
    proxy.set(Wire::Cut);
    until(&client, SessionState::Suspended).await;
    let waiting = client.get("/").retry(Retry::Never).send();
    let credentials = client.hand_over().await.unwrap();
    assert!(soon(waiting).await.unwrap_err().is_not_sent());
    let waiter = server.builder().resume(credentials).connect().await.unwrap();
    assert_eq!(waiter.session().id, session);
}

#[tokio::test]
async fn only_a_session_can_be_handed_over() {
    let client = Client::builder("127.0.0.1:1").unwrap().start();
    let twin = client.clone();
    let error = soon(client.hand_over()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidOptions(_)), "{error}");
    assert_eq!(twin.state(), SessionState::Connecting, "it goes on");
    twin.close().await.unwrap();
}

/// The reason is known long before the connection timeout is over.
#[tokio::test]
async fn the_reason_for_unreachable_servers_is_reported_at_once() {
    let server = Server::start().await;
    let (one, other) = (Proxy::start(server.address()).await, Proxy::start(server.address()).await);
    one.set(Wire::Cut);
    other.set(Wire::Cut);
    let text = format!("{},{},no-such-host.invalid:1", one.address(), other.address());
    let builder = Client::builder(&text).unwrap().connection_timeout(Duration::from_secs(3600));
    let client = builder.start();
    let mut failures = client.connection_failures();
    let error = soon(client.ready_or_unreachable()).await.unwrap_err();
    let ConnectError::Unreachable { failures: each } = &error else { panic!("{error}") };
    assert_eq!(each.len(), 3, "{error}");
    for server in text.split(',') {
        assert!(error.to_string().contains(&format!("{server}: ")), "{error}");
    }
    // The client goes on by itself, and what has failed is forgotten when it is connected.
    assert!(failures.borrow_and_update().attempts() >= 3);
    other.set(Wire::Whole);
    soon(client.ready()).await.unwrap();
    soon(failures.wait_for(|failures| failures.last().is_none())).await.unwrap();
    assert_eq!(client.ready_or_unreachable().await.unwrap().id, client.session().id);
}

#[tokio::test]
async fn closing_ends_the_session_at_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let other = server.builder().connect().await.unwrap().namespaced(client.root()).unwrap();
    client.create("/e").ephemeral().await.unwrap();
    let twin = client.clone();
    let report = client.close().await.unwrap();
    assert!(report.confirmed);
    assert_eq!(other.exists("/e").await.unwrap(), None);
    assert_eq!(twin.state(), SessionState::Closed);
    let error = twin.get("/").await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::Closed));
    twin.close().await.unwrap();

    let dropped = server.builder().connect().await.unwrap().namespaced(other.root()).unwrap();
    dropped.create("/d").ephemeral().await.unwrap();
    let (_, gone) = other.exists("/d").watched().await.unwrap();
    let started = Instant::now();
    drop(dropped);
    soon(gone).await;
    assert!(started.elapsed() < Duration::from_secs(10), "closed, not expired");
}

#[tokio::test]
async fn a_refused_credential_ends_the_client() {
    let server = Server::start().await;
    let client = server.builder().connect().await.unwrap();
    let error = soon(client.add_auth("nonsense", "x")).await.unwrap_err();
    assert!(error.is_session_fatal(), "{error}");
    assert_eq!(client.state(), SessionState::AuthFailed);
    let error = client.get("/").await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::AuthFailed));
}

#[tokio::test]
async fn credentials_come_back_with_the_connection() {
    let server = Server::start().await;
    let (proxy, client) = through(&server).await;
    client.add_auth("digest", "user:secret").await.unwrap();
    let acl = vec![zebu_client::Acl::new(31, "auth", "")];
    client.create("/mine").acl(acl).await.unwrap();
    let mut states = client.states();
    states.mark_unchanged();
    proxy.snap();
    soon(states.wait_for(|status| status.state == SessionState::Reconnected)).await.unwrap();
    assert!(client.get("/mine").await.is_ok());
    let other = server.builder().connect().await.unwrap().namespaced(client.root()).unwrap();
    assert_eq!(other.get("/mine").await.unwrap_err().code(), Some(ErrorCode::NoAuth));
}

#[tokio::test]
async fn a_new_list_of_servers_loses_no_call() {
    let server = Server::start().await;
    let (first, client) = through(&server).await;
    let second = Proxy::start(server.address()).await;
    client.create("/a").await.unwrap();
    let session = client.session().id;
    // The current server is not on the list: the client has to move.
    let calls: Vec<_> =
        (0..500).map(|n| client.set("/a", n.to_string()).retry(Retry::Never).send()).collect();
    client.update_servers(&second.address().to_string()).unwrap();
    let more: Vec<_> = (0..500).map(|n| client.set("/a", n.to_string()).retry(Retry::Never).send()).collect();
    for call in calls.into_iter().chain(more) {
        soon(call).await.unwrap();
    }
    let now = client.session();
    assert_eq!((now.id, now.server.as_deref()), (session, Some(second.address().to_string().as_str())));
    assert_eq!(client.get("/a").await.unwrap().stat.version, 1000);
    drop(first);
}

#[tokio::test]
async fn dead_servers_are_passed_over() {
    let server = Server::start().await;
    let dead = Proxy::start(server.address()).await;
    dead.set(Wire::Cut);
    let text = format!("{},{},localhost:{}", dead.address(), dead.address(), server.address().port());
    for seed in 0..4 {
        let client = Client::builder(&text).unwrap().seed(seed).connect().await.unwrap();
        client.get("/").await.unwrap();
        client.close().await.unwrap();
    }
    let builder = Client::builder(&dead.address().to_string()).unwrap();
    let error = builder.connection_timeout(Duration::from_millis(200)).connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
    let error = Client::connect("no server").await.unwrap_err();
    assert!(matches!(error, ConnectError::ConnectString(_)), "{error}");
}
