//! Watches against a real server: what fires, what survives a lost connection, what is removed.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::time::Duration;

use common::dedicated_server::DedicatedServer;
use common::proxy::{Proxy, Wire};
use common::{Server, own_root, soon};
use zebu_client::{Client, EventKind, Retry, SessionState, WatchMode, WatchStream};

async fn next(events: &mut WatchStream) -> (EventKind, String) {
    let event = soon(events.next()).await.expect("the watch lives");
    (event.kind, event.path.to_string())
}

#[tokio::test]
async fn one_shot_watches_fire_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let (missing, created) = client.exists("/a").watched().await.unwrap();
    assert_eq!(missing, None);
    client.create("/a").await.unwrap();
    let event = soon(created).await;
    assert_eq!((event.kind, &*event.path), (EventKind::NodeCreated, "/a"));

    let (_, data) = client.get("/a").watched().await.unwrap();
    let (_, also) = client.exists("/a").watched().await.unwrap();
    let (_, children) = client.children("/a").watched().await.unwrap();
    client.create("/a/b").await.unwrap();
    assert_eq!(soon(children).await.kind, EventKind::NodeChildrenChanged);
    client.set("/a", "x").await.unwrap();
    assert_eq!(soon(data).await.kind, EventKind::NodeDataChanged);
    assert_eq!(soon(also).await.kind, EventKind::NodeDataChanged);
    let (_, children) = client.children("/a/b").watched().await.unwrap();
    let (_, data) = client.get("/a/b").watched().await.unwrap();
    client.delete("/a/b").await.unwrap();
    assert_eq!(soon(children).await.kind, EventKind::NodeDeleted);
    assert_eq!(soon(data).await.kind, EventKind::NodeDeleted);
    assert!(client.get("/a/b").watched().await.is_err());
}

#[tokio::test]
async fn persistent_watches_go_on() {
    let server = Server::start().await;
    let client = server.client().await;
    client.create("/a").await.unwrap();
    let mut node = client.watch("/a", WatchMode::Node).await.unwrap();
    let mut tree = client.watch("/", WatchMode::Tree).await.unwrap();
    for _ in 0..2 {
        client.create("/a/b").await.unwrap();
        client.set("/a", "x").await.unwrap();
        client.set("/a/b", "x").await.unwrap();
        client.delete("/a/b").await.unwrap();
        let a = || "/a".to_owned();
        assert_eq!(next(&mut node).await, (EventKind::NodeChildrenChanged, a()));
        assert_eq!(next(&mut node).await, (EventKind::NodeDataChanged, a()));
        assert_eq!(next(&mut node).await, (EventKind::NodeChildrenChanged, a()));
        let b = || "/a/b".to_owned();
        assert_eq!(next(&mut tree).await, (EventKind::NodeCreated, b()));
        assert_eq!(next(&mut tree).await, (EventKind::NodeDataChanged, a()));
        assert_eq!(next(&mut tree).await, (EventKind::NodeDataChanged, b()));
        assert_eq!(next(&mut tree).await, (EventKind::NodeDeleted, b()));
    }
    client.close().await.unwrap();
    assert_eq!(soon(node.next()).await.map(|event| event.kind), Some(EventKind::WatchLost));
    assert_eq!(soon(node.next()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_watch_is_removed_from_the_server() {
    // An own server: watches of other clients must not be counted.
    let server = DedicatedServer::start().await;
    let client = server.builder().connect().await.unwrap();
    client.create("/a").await.unwrap();
    let before = server.monitored("watch_count");
    let expect = |more: i64| assert_eq!(server.monitored("watch_count"), before + more);
    let (_, data) = client.get("/a").watched().await.unwrap();
    let (_, same) = client.exists("/a").watched().await.unwrap();
    let (_, children) = client.children("/a").watched().await.unwrap();
    expect(2);
    drop(data);
    // A call after the drop is carried out after the removal.
    client.sync("/").await.unwrap();
    expect(2);
    drop((same, children));
    client.sync("/").await.unwrap();
    expect(0);
    let node = client.watch("/a", WatchMode::Node).await.unwrap();
    let twin = client.watch("/a", WatchMode::Node).await.unwrap();
    drop(node);
    client.sync("/").await.unwrap();
    let mut twin = twin;
    client.set("/a", "x").await.unwrap();
    assert_eq!(next(&mut twin).await.0, EventKind::NodeDataChanged);
    drop(twin);
    let tree = client.watch("/a", WatchMode::Tree).await.unwrap();
    drop(tree);
    // Servers before 3.9 need a second question to remove a persistent watch.
    client.sync("/").await.unwrap();
    client.sync("/").await.unwrap();
    expect(0);
    // The session has not suffered.
    assert_eq!(client.state(), SessionState::Connected);
}

async fn behind_a_proxy(server: &Server) -> (Proxy, Client, Client) {
    let proxy = Proxy::start(server.address()).await;
    let builder = Client::builder(&proxy.address().to_string()).unwrap();
    let client = builder.session_timeout(Duration::from_secs(20)).connect().await.unwrap();
    let client = own_root(&client).await;
    let other = server.builder().connect().await.unwrap().namespaced(client.root()).unwrap();
    (proxy, client, other)
}

#[tokio::test]
async fn watches_survive_a_lost_connection() {
    let server = Server::start().await;
    let (proxy, client, other) = behind_a_proxy(&server).await;
    for path in ["/changed", "/quiet", "/parent", "/deleted", "/tree"] {
        client.create(path).await.unwrap();
    }
    let (_, changed) = client.get("/changed").watched().await.unwrap();
    let (_, quiet) = client.get("/quiet").watched().await.unwrap();
    let (_, parent) = client.children("/parent").watched().await.unwrap();
    let (_, deleted) = client.get("/deleted").watched().await.unwrap();
    let (_, created) = client.exists("/created").watched().await.unwrap();
    let mut node = client.watch("/changed", WatchMode::Node).await.unwrap();
    let mut tree = client.watch("/tree", WatchMode::Tree).await.unwrap();
    let session = client.session().id;

    proxy.set(Wire::Cut);
    let mut states = client.states();
    soon(states.wait_for(|status| status.state == SessionState::Suspended)).await.unwrap();
    other.set("/changed", "x").await.unwrap();
    other.create("/parent/child").await.unwrap();
    other.delete("/deleted").await.unwrap();
    other.create("/created").await.unwrap();
    other.create("/tree/missed").await.unwrap();
    proxy.set(Wire::Whole);
    soon(states.wait_for(|status| status.state == SessionState::Reconnected)).await.unwrap();

    assert_eq!(soon(changed).await.kind, EventKind::NodeDataChanged);
    assert_eq!(soon(parent).await.kind, EventKind::NodeChildrenChanged);
    assert_eq!(soon(deleted).await.kind, EventKind::NodeDeleted);
    assert_eq!(soon(created).await.kind, EventKind::NodeCreated);
    assert_eq!(next(&mut tree).await, (EventKind::Resynced, "/tree".to_owned()));
    other.create("/tree/seen").await.unwrap();
    assert_eq!(next(&mut tree).await, (EventKind::NodeCreated, "/tree/seen".to_owned()));
    // The catch-up event of the one-shot watch on the same node reaches the persistent one as well.
    let mut kinds = vec![next(&mut node).await.0, next(&mut node).await.0];
    kinds.sort();
    assert_eq!(kinds, [EventKind::NodeDataChanged, EventKind::Resynced]);
    other.set("/quiet", "x").await.unwrap();
    assert_eq!(soon(quiet).await.kind, EventKind::NodeDataChanged);
    assert_eq!(client.session().id, session);
}

#[tokio::test]
async fn persistent_watches_move_to_a_new_session() {
    let server = Server::start().await;
    let (proxy, client, other) = behind_a_proxy(&server).await;
    client.create("/a").await.unwrap();
    let (_, once) = client.get("/a").watched().await.unwrap();
    let mut tree = client.watch("/", WatchMode::Tree).await.unwrap();
    let credentials = client.credentials().await.unwrap();
    proxy.set(Wire::Cut);
    let mut states = client.states();
    soon(states.wait_for(|status| status.state == SessionState::Suspended)).await.unwrap();
    let thief = server.builder().resume(credentials).connect().await.unwrap();
    assert!(thief.close().await.unwrap().confirmed);
    proxy.set(Wire::Whole);
    assert_eq!(soon(once).await.kind, EventKind::WatchLost);
    assert_eq!(next(&mut tree).await.0, EventKind::Resynced);
    other.set("/a", "x").await.unwrap();
    assert_eq!(next(&mut tree).await, (EventKind::NodeDataChanged, "/a".to_owned()));
    assert_ne!(client.session().id, credentials.id);
}

#[tokio::test]
async fn many_watches_are_registered_again() {
    let server = Server::start().await;
    let (proxy, client, other) = behind_a_proxy(&server).await;
    let long = "x".repeat(100);
    let paths: Vec<_> = (0..5000).map(|n| format!("/{long}{n}")).collect();
    let watches: Vec<_> = paths.iter().map(|path| client.exists(path).watched().send()).collect();
    let mut watchers = Vec::new();
    for watch in watches {
        watchers.push(watch.await.unwrap().1);
    }
    let mut states = client.states();
    states.mark_unchanged();
    proxy.snap();
    soon(states.wait_for(|status| status.state == SessionState::Reconnected)).await.unwrap();
    client.get("/").retry(Retry::default()).await.unwrap();
    for path in [&paths[0], &paths[2500], &paths[4999]] {
        other.create(path).await.unwrap();
    }
    for index in [4999, 2500, 0] {
        assert_eq!(soon(watchers.swap_remove(index)).await.kind, EventKind::NodeCreated);
    }
}
