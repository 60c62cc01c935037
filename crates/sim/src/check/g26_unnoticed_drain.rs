//! G26: a server that stops sends its clients away without a loss. It pushes only to clients that have said
//! hello, and closes the connection of another client only when it has answered every request that it has
//! received. When a drain is the only fault, a client that can move sees neither a failed call nor a lost
//! connection.

use crate::history::{CheckResult, Violation};

const NAME: &str = "g26_unnoticed_drain";

/// Checks a connection that a draining server closes at a moment that it takes for a quiet one.
pub(crate) fn check_quiet_close(server: usize, received: u64, answered: u64) -> CheckResult {
    if received == answered {
        return Ok(());
    }
    let unanswered = received.wrapping_sub(answered);
    Err(Violation::new(
        NAME,
        format!("server {server} closes a connection with {unanswered} unanswered requests"),
    ))
}

/// Checks a push.
pub(crate) fn check_push(client: usize, has_said_hello: bool) -> CheckResult {
    if has_said_hello {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("client {client} gets a push, and has not said hello")))
}

/// What a client that can move may not see when a drain is the only fault.
pub(crate) fn noticed(client: usize, what: &str) -> Violation {
    Violation::new(NAME, format!("client {client} could move, and sees {what}"))
}
