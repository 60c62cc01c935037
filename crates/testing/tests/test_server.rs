//! The server for tests, seen by the client that users have.

use std::time::Duration;

use zebu_client::{Client, ErrorCode, EventKind, Retry, SessionState};
use zebu_testing::{TestServer, TestServerError, four_letter};

/// How long anything may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(TIME_LIMIT, future).await.expect("it should have happened by now")
}

async fn until(client: &Client, state: SessionState) {
    let mut states = client.states();
    soon(states.wait_for(|status| status.state == state)).await.expect("the client lives");
}

async fn connected(server: &TestServer) -> Client {
    Client::connect(&server.connect_string()).await.expect("a session")
}

/// A client whose calls fail at once instead of being repeated.
async fn honest(server: &TestServer) -> Client {
    let builder = Client::builder(&server.connect_string()).expect("an address");
    builder.retry(Retry::Never).connect().await.expect("a session")
}

#[tokio::test]
async fn data_and_sessions_survive_stop_and_kill() {
    let server = TestServer::start().await.expect("a server");
    let address = server.address();
    let client = connected(&server).await;
    let session = client.session().id;
    client.create("/kept").data("1").await.expect("created");
    client.create("/mine").ephemeral().await.expect("created");
    for version in 1..=3 {
        match version {
            1 => server.stop().await.expect("stopped"),
            2 => server.kill().await.expect("killed"),
            _ => {}
        }
        server.restart().await.expect("started again");
        assert_eq!(server.address(), address);
        let set = soon(client.set("/kept", "x").idempotent()).await.expect("set");
        assert_eq!(set.version, version);
    }
    assert_eq!(client.session().id, session);
    assert!(client.exists("/mine").await.expect("an answer").is_some());
}

#[tokio::test]
async fn a_stopped_server_answers_nobody() {
    let server = TestServer::start().await.expect("a server");
    let client = connected(&server).await;
    server.stop().await.expect("stopped");
    until(&client, SessionState::Suspended).await;
    assert!(four_letter::ask(server.address(), "ruok", TIME_LIMIT).is_ok_and(|answer| answer.is_empty()));
    let error = server.expire(client.session().id).await.expect_err("there is no server");
    assert!(matches!(error, TestServerError::NotRunning), "{error}");
    server.restart().await.expect("started again");
    until(&client, SessionState::Reconnected).await;
    assert_eq!(four_letter::ask(server.address(), "ruok", TIME_LIMIT).expect("an answer"), "imok");
}

#[tokio::test]
async fn a_killed_server_loses_what_it_has_not_answered_and_nothing_else() {
    let server = TestServer::start().await.expect("a server");
    let client = honest(&server).await;
    client.create("/n").await.expect("created");
    let calls: Vec<_> = (0..2000).map(|_| client.set("/n", "x").send()).collect();
    let mut calls = calls.into_iter();
    soon(calls.next().expect("there are calls")).await.expect("the first is answered");
    server.kill().await.expect("killed");
    let mut answered = 1;
    for call in calls {
        match soon(call).await {
            Ok(_) => answered += 1,
            Err(error) => assert!(error.is_ambiguous() || error.is_not_sent(), "{error}"),
        }
    }
    server.restart().await.expect("started again");
    let version = soon(client.get("/n").retry(Retry::default())).await.expect("read").stat.version;
    assert!((answered..=2000).contains(&version), "{answered} answered, {version} kept");
}

#[tokio::test]
async fn a_session_is_expired_by_its_number() {
    let server = TestServer::start().await.expect("a server");
    let (client, other) = (connected(&server).await, connected(&server).await);
    client.create("/mine").ephemeral().await.expect("created");
    let (first, bystander) = (client.session(), other.session());
    server.expire(first.id).await.expect("expired");
    assert!(other.exists("/mine").await.expect("an answer").is_none(), "gone when expire returns");
    soon(
        client.states().wait_for(|status| status.session.epoch > first.epoch && status.state.is_connected()),
    )
    .await
    .expect("a new session");
    assert_ne!(client.session().id, first.id);
    assert_eq!(other.session(), bystander);
    // Twice is as good as once.
    server.expire(first.id).await.expect("it is over already");
}

#[tokio::test]
async fn a_reply_is_lost_after_the_write_was_carried_out() {
    let server = TestServer::start().await.expect("a server");
    let (client, other) = (honest(&server).await, connected(&server).await);
    server.drop_next_reply(client.session().id);
    let error = soon(client.create("/n")).await.expect_err("the answer was lost");
    assert!(error.is_ambiguous(), "{error}");
    assert!(other.exists("/n").await.expect("an answer").is_some(), "it was carried out");
    // Only one reply, and only of that session.
    until(&client, SessionState::Reconnected).await;
    let error = soon(client.create("/n")).await.expect_err("it exists");
    assert_eq!(error.code(), Some(ErrorCode::NodeExists));
}

#[tokio::test]
async fn replies_before_the_lost_one_arrive() {
    let server = TestServer::start().await.expect("a server");
    let client = honest(&server).await;
    client.create("/n").await.expect("created");
    server.pause_all().await;
    let early = client.get("/n").send();
    server.resume_all().await;
    soon(early).await.expect("answered");
    server.drop_next_reply(client.session().id);
    let lost = client.set("/n", "1").send();
    let behind = client.set("/n", "2").send();
    assert!(soon(lost).await.expect_err("lost").is_ambiguous());
    assert!(soon(behind).await.expect_err("lost with it").is_ambiguous());
}

#[tokio::test]
async fn a_paused_session_waits_and_the_others_go_on() {
    let server = TestServer::start().await.expect("a server");
    let (client, other) = (connected(&server).await, connected(&server).await);
    let session = client.session().id;
    server.pause(session).await;
    let mut held = std::pin::pin!(client.create("/n").send());
    other.create("/other").await.expect("created");
    assert!(other.exists("/n").await.expect("an answer").is_none(), "nothing has arrived");
    let early = tokio::time::timeout(Duration::from_millis(50), &mut held).await;
    assert!(early.is_err(), "there can be no answer yet");
    server.resume(session).await;
    soon(held).await.expect("created");
    assert_eq!(client.session().id, session);
}

#[tokio::test]
async fn a_session_that_is_paused_for_too_long_expires() {
    let server = TestServer::start().await.expect("a server");
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let client = builder.session_timeout(Duration::from_millis(400)).connect().await.expect("a session");
    let other = connected(&server).await;
    client.create("/mine").ephemeral().await.expect("created");
    let epoch = client.session().epoch;
    let (_, gone) = other.get("/mine").watched().await.expect("watched");
    server.pause(client.session().id).await;
    assert_eq!(soon(gone).await.kind, EventKind::NodeDeleted, "the node goes with its session");
    soon(client.states().wait_for(|status| status.session.epoch > epoch)).await.expect("a new session");
}

#[tokio::test]
async fn all_connections_are_paused_new_ones_too() {
    let server = TestServer::start().await.expect("a server");
    server.pause_all().await;
    let client = Client::builder(&server.connect_string()).expect("an address").start();
    let early = tokio::time::timeout(Duration::from_millis(50), client.ready()).await;
    assert!(early.is_err(), "there can be no session yet");
    server.resume_all().await;
    soon(client.ready()).await.expect("a session");
    server.cut_all();
    until(&client, SessionState::Reconnected).await;
}

#[tokio::test]
async fn a_bad_line_is_named() {
    let error = TestServer::builder().line("tickTime=never").start().await.expect_err("no configuration");
    assert!(error.to_string().contains("tickTime"), "{error}");
}

#[tokio::test]
async fn settings_reach_the_server() {
    let server = TestServer::builder().line("maxSessionTimeout=700").start().await.expect("a server");
    let client = connected(&server).await;
    assert_eq!(client.session().timeout, Duration::from_millis(700));
    client.create("/brief").ttl(Duration::from_secs(60)).await.expect("TTL nodes are on");
}

#[test]
fn many_servers_come_and_go_outside_of_a_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let servers: Vec<TestServer> =
        (0..5).map(|_| runtime.block_on(TestServer::start()).expect("a server")).collect();
    let directories: Vec<_> = servers.iter().map(TestServer::data_dir).collect();
    drop(servers);
    assert!(directories.iter().all(|directory| !directory.exists()));
}
