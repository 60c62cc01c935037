//! Every fault alone, on a plain write: what the caller is told, what the server has done, and when.

use std::time::Duration;

use tokio::time::Instant;
use zebu_client::{Cause, Error, ErrorKind, SessionState};

use crate::model::{Fault, Server, TIMEOUT};
use crate::{builder, client, virtually};

/// The outcome of a plain write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Unknown,
    /// The reply cannot be decoded.
    Unreadable,
}

fn outcome(result: &Result<zebu_client::Stat, Error>) -> Outcome {
    match result.as_ref().map_err(Error::kind) {
        Ok(_) => Outcome::Done,
        Err(ErrorKind::Ambiguous(_)) => Outcome::Unknown,
        Err(ErrorKind::BadReply(_)) => Outcome::Unreadable,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn each_fault_has_one_end() {
    let cases = [
        (Fault::None, Outcome::Done, 1),
        (Fault::CutBefore, Outcome::Unknown, 0),
        (Fault::CutAfter, Outcome::Unknown, 1),
        (Fault::CutDuring, Outcome::Unknown, 1),
        (Fault::WrongXid, Outcome::Unknown, 1),
        (Fault::BadLength, Outcome::Unknown, 1),
        (Fault::Truncated, Outcome::Unreadable, 1),
        (Fault::Slow(5), Outcome::Done, 1),
        (Fault::Expire, Outcome::Unknown, 0),
        (Fault::Refuse(3), Outcome::Unknown, 0),
    ];
    for (fault, expected, carried_out) in cases {
        virtually(async {
            let server = Server::new([fault]);
            let client = client(&server).await;
            let result = client.set("/", "x").await;
            assert_eq!(outcome(&result), expected, "{fault:?}: {result:?}");
            assert_eq!(server.model().log.len(), carried_out, "{fault:?}");
            if let Err(error) = result {
                let text = error.to_string();
                assert!(text.starts_with("set /: ") && text.ends_with("(server model:1)"), "{text}");
            }
            // Whatever it was, the client goes on.
            client.set("/", "y").await.expect("the next write");
            assert_eq!(server.model().log.len(), carried_out + 1, "{fault:?}");
        });
    }
}

#[test]
fn a_server_that_is_too_slow_is_left_in_time() {
    virtually(async {
        let server = Server::new([Fault::Slow(60)]);
        let client = client(&server).await;
        let started = Instant::now();
        let error = client.set("/", "x").await.expect_err("no answer");
        assert!(error.is_ambiguous(), "{error}");
        let elapsed = started.elapsed();
        assert!(elapsed >= TIMEOUT * 2 / 3 - Duration::from_millis(10) && elapsed < TIMEOUT, "{elapsed:?}");
        client.set("/", "y").await.expect("on the next connection");
        // The late one finds that its session has moved.
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(server.model().log.len(), 1);
        assert_eq!(client.session().epoch, 1, "the session was never lost");
    });
}

#[test]
fn what_never_left_says_so_and_why() {
    virtually(async {
        let server = Server::new([Fault::Refuse(255)]);
        let timeout = Duration::from_secs(2);
        let client =
            builder().connection_timeout(timeout).connect_with(server.clone()).await.expect("a session");
        client.set("/", "x").retry(zebu_client::Retry::Never).await.expect_err("it is cut");
        assert_eq!(client.state(), SessionState::Suspended);
        let started = Instant::now();
        let error = client.set("/", "y").retry(zebu_client::Retry::Never).await.expect_err("nobody is there");
        assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::NotConnected));
        assert_eq!(started.elapsed().as_secs(), timeout.as_secs());
        let text = error.to_string();
        assert!(text.contains("the last failure was model:1: connection refused"), "{text}");
        assert_eq!(server.model().log.len(), 0);
    });
}
