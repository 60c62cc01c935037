//! Single faults with a known end.

use std::time::Duration;

use tokio::time::Instant;
use zebu_client::{Cause, ConfirmedBy, ErrorCode, ErrorKind, EventKind, Parents, Retry, SessionState};
use zebu_proto::OpCode;

use crate::model::{Fault, Server};
use crate::{builder, client, virtually};

#[test]
fn a_lost_answer_is_never_repeated_for_a_plain_write() {
    virtually(async {
        for fault in [Fault::CutAfter, Fault::CutDuring, Fault::WrongXid, Fault::BadLength] {
            let server = Server::new([fault]);
            let client = client(&server).await;
            let error = client.create("/a").await.unwrap_err();
            assert!(error.is_ambiguous(), "{fault:?}: {error}");
            assert_eq!(error.server(), Some("model:1"));
            assert_eq!(server.model().log.len(), 1);
        }
    });
}

#[test]
fn a_reply_that_does_not_decode_is_an_error_of_its_call() {
    virtually(async {
        let server = Server::new([Fault::Truncated]);
        let client = client(&server).await;
        let error = client.get("/").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BadReply(_)), "{error}");
        assert!(client.get("/").await.is_ok(), "the connection is whole");
        assert_eq!(client.state(), SessionState::Connected);
    });
}

#[test]
fn reads_are_repeated() {
    virtually(async {
        let server = Server::new([Fault::CutAfter, Fault::CutBefore, Fault::Refuse(3), Fault::Slow(20)]);
        let client = client(&server).await;
        assert!(client.children("/").await.is_ok());
        let server = Server::new([Fault::CutAfter]);
        let client = builder().retry(Retry::Never).connect_with(server).await.unwrap();
        assert!(client.children("/").await.unwrap_err().is_ambiguous());
    });
}

#[test]
fn an_idempotent_write_is_repeated_and_recognised() {
    virtually(async {
        let server = Server::new([Fault::CutAfter]);
        let client = client(&server).await;
        let created = client.create("/a").data("x").idempotent().await.unwrap();
        assert_eq!((created.path.as_str(), created.confirmed_by), ("/a", ConfirmedBy::Search));
        server.model().plan.push_back(Fault::CutAfter);
        let version = zebu_client::Version::Exactly(0);
        assert_eq!(client.set("/a", "y").version(version).idempotent().await.unwrap().version, 1);
        server.model().plan.push_back(Fault::CutAfter);
        client.delete("/a").quiet().await.unwrap();
        let kinds: Vec<_> = server.model().log.iter().map(|(kind, ..)| *kind).collect();
        assert_eq!(kinds, ["create", "set", "delete"]);
    });
}

#[test]
fn a_protected_create_that_gives_up_cleans_up() {
    virtually(async {
        let server = Server::new([Fault::CutAfter]);
        let client = builder().retry(Retry::Never).connect_with(server.clone()).await.unwrap();
        let error = client.create("/lock-").sequential().protected().await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        let report = client.close().await.unwrap();
        assert_eq!((report.confirmed, report.left_behind), (true, 0));
        assert_eq!(server.model().nodes.len(), 1);
        assert_eq!(server.model().log.len(), 2, "created and deleted");
    });
}

/// A server that did not look at the request has not answered it.
#[test]
fn a_guaranteed_delete_goes_on_until_a_server_carries_it_out() {
    virtually(async {
        for code in [ErrorCode::ThrottledOp, ErrorCode::NotReadOnly] {
            let server = Server::new([]);
            let client = builder().retry(Retry::Never).connect_with(server.clone()).await.unwrap();
            client.create("/a").await.unwrap();
            server.model().plan.extend([Fault::Answer(code); 3]);
            let error = client.delete("/a").guaranteed().await.unwrap_err();
            assert_eq!(error.code(), Some(code));
            assert_eq!(client.close().await.unwrap().left_behind, 0);
            assert_eq!(server.model().nodes.len(), 1, "{code}: only the root is left");
        }
    });
}

#[test]
fn a_guaranteed_delete_of_a_tree_takes_all_of_it() {
    virtually(async {
        let server = Server::new([]);
        let client = builder().retry(Retry::Never).connect_with(server.clone()).await.unwrap();
        for path in ["/a", "/a/b", "/a/b/c", "/a/d"] {
            client.create(path).await.unwrap();
        }
        server.model().plan.push_back(Fault::CutBefore);
        let error = client.delete("/a").recursive().guaranteed().await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        assert_eq!(client.close().await.unwrap().left_behind, 0);
        assert_eq!(server.model().nodes.len(), 1, "only the root is left");
    });
}

#[test]
fn an_ephemeral_of_a_dead_session_is_not_adopted() {
    virtually(async {
        let server = Server::new([Fault::CutAfter]);
        let client = client(&server).await;
        let first = client.session().id.0;
        let create = client.create("/lock-").ephemeral().sequential().protected().send();
        // The server forgets the session but not yet its nodes.
        while server.model().log.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.model().sessions.remove(&first);
        let created = create.await.unwrap();
        assert_eq!(created.stat.ephemeral_owner, client.session().id.0);
        assert_ne!(created.stat.ephemeral_owner, first);
        client.close().await.unwrap();
        assert_eq!(server.model().nodes.len(), 1, "the old one was removed as well");
    });
}

#[test]
fn parents_are_made_through_faults() {
    virtually(async {
        let faults = [Fault::None, Fault::CutAfter, Fault::None, Fault::CutBefore, Fault::CutAfter];
        let server = Server::new(faults);
        let client = client(&server).await;
        client.create("/a/b/c").protected().parents(Parents::Persistent).await.unwrap();
        assert_eq!(server.model().nodes.len(), 4);
    });
}

#[test]
fn a_parent_that_is_deleted_meanwhile_is_created_again() {
    virtually(async {
        // The server deletes an empty container between the creates of two parents.
        let container_deleted = Fault::Answer(ErrorCode::NoNode);
        let server = Server::new([Fault::None, Fault::None, Fault::None, Fault::None, container_deleted]);
        let client = client(&server).await;
        client.create("/a/b/c").parents(Parents::Containers).await.unwrap();
        assert_eq!(server.model().nodes.len(), 4);
        let server = Server::new([Fault::None, Fault::None, Fault::None, container_deleted]);
        let client = super::client(&server).await;
        client.ensure_path("/a/b").await.unwrap();
        assert_eq!(server.model().nodes.len(), 3);
    });
}

#[test]
fn a_server_before_three_five_creates_as_well() {
    virtually(async {
        let server = Server::new([]);
        server.model().knows_create2 = false;
        let client = client(&server).await;
        let created = client.create("/a").await.unwrap();
        assert!(created.stat.czxid > 0);
        client.create("/b").await.unwrap();
        let requests = server.model().requests.clone();
        let asked = requests.iter().filter(|op| **op == OpCode::Create2).count();
        assert_eq!(asked, 1, "it is asked once: {requests:?}");
    });
}

#[test]
fn retries_end_when_the_policy_says_so() {
    virtually(async {
        let server = Server::new([]);
        let builder = builder().connection_timeout(Duration::from_secs(1));
        let client = builder.connect_with(server.clone()).await.unwrap();
        server.model().plan.push_back(Fault::Refuse(255));
        let policy =
            Retry::UntilElapsed { total: Duration::from_secs(10), pause: Duration::from_millis(500) };
        let started = Instant::now();
        let error = client.set("/", "x").retry(policy).await.unwrap_err();
        assert!(error.is_ambiguous(), "the first attempt was sent: {error}");
        let error = client.set("/", "x").retry(policy).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::NotConnected));
        let elapsed = started.elapsed();
        assert!(elapsed > Duration::from_secs(8) && elapsed < Duration::from_secs(12), "{elapsed:?}");
    });
}

#[test]
fn a_watch_ends_with_its_session() {
    virtually(async {
        let server = Server::new([]);
        let client = client(&server).await;
        let (_, changed) = client.get("/").watched().await.unwrap();
        server.model().plan.push_back(Fault::Expire);
        assert!(client.get("/").await.is_ok(), "on the new session");
        assert_eq!(changed.await.kind, EventKind::WatchLost);
        assert_eq!((client.session().epoch, client.state()), (2, SessionState::Connected));
    });
}

#[test]
fn states_are_reported_in_order() {
    virtually(async {
        let server = Server::new([]);
        let client = client(&server).await;
        let mut states = client.states();
        let watcher = tokio::spawn(async move {
            let mut seen = vec![states.borrow_and_update().state];
            while states.changed().await.is_ok() {
                seen.push(states.borrow_and_update().state);
            }
            seen
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        server.model().plan.push_back(Fault::Refuse(2));
        client.get("/").await.unwrap();
        client.close().await.unwrap();
        let seen = watcher.await.unwrap();
        use SessionState::*;
        assert_eq!(seen, [Connected, Suspended, Reconnected, Closed]);
    });
}
