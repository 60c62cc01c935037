//! Every fault alone, on a plain write: what the caller is told, what the server has done, and when.

use std::time::Duration;

use tokio::time::Instant;
use zebu_client::{Cause, Error, ErrorKind, SessionState};

use crate::model::{Fault, Server, TIMEOUT};
use crate::{builder, client, virtually};

/// What a plain write must end in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    Unknown,
    /// The answer came and makes no sense.
    Unreadable,
}

fn told(result: &Result<zebu_client::Stat, Error>) -> Told {
    match result.as_ref().map_err(Error::kind) {
        Ok(_) => Told::Done,
        Err(ErrorKind::Ambiguous(_)) => Told::Unknown,
        Err(ErrorKind::BadReply(_)) => Told::Unreadable,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn each_fault_has_one_end() {
    let cases = [
        (Fault::None, Told::Done, 1),
        (Fault::CutBefore, Told::Unknown, 0),
        (Fault::CutAfter, Told::Unknown, 1),
        (Fault::CutDuring, Told::Unknown, 1),
        (Fault::WrongXid, Told::Unknown, 1),
        (Fault::BadLength, Told::Unknown, 1),
        (Fault::Truncated, Told::Unreadable, 1),
        (Fault::Slow(5), Told::Done, 1),
        (Fault::Expire, Told::Unknown, 0),
        (Fault::Refuse(3), Told::Unknown, 0),
    ];
    for (fault, expected, carried_out) in cases {
        virtually(async {
            let server = Server::new([fault]);
            let client = client(&server).await;
            let result = client.set("/", "x").await;
            assert_eq!(told(&result), expected, "{fault:?}: {result:?}");
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
