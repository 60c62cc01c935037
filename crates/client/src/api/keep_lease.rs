//! A lease that is renewed for as long as somebody relies on it.

use tokio::sync::mpsc::WeakUnboundedSender;

use super::client::Client;
use crate::net::Command;

/// The lease is renewed while this lives; see [`Client::keep_lease`]. It does not keep the session open.
#[derive(Debug)]
#[must_use = "the lease is not renewed any more when this is dropped"]
pub struct KeptLease {
    commands: WeakUnboundedSender<Command>,
}

impl Client {
    /// Lets [`lease_deadline`](Client::lease_deadline) move on for as long as what this returns lives: the client
    /// asks the leader for a sign of life three to five times in a session timeout, by a sync, instead of most pings.
    /// Reads that are made at such a moment are answered after it. Any number of callers may do so; it costs the same
    /// as one.
    ///
    /// With an ensemble that works about a third of the timeout is left at any time. The recipes do this by
    /// themselves for what they hold.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use std::time::Instant;
    ///
    /// let _kept = client.keep_lease();
    /// while client.lease_deadline().is_some_and(|deadline| Instant::now() < deadline) {
    ///     // What this session holds is nobody else's.
    /// #   break;
    /// }
    /// # Ok(()) });
    /// ```
    pub fn keep_lease(&self) -> KeptLease {
        // A closed client has no lease.
        let _ = self.shared.commands.send(Command::KeepLease);
        KeptLease { commands: self.shared.commands.downgrade() }
    }
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        if let Some(commands) = self.commands.upgrade() {
            // A closed client renews nothing.
            let _ = commands.send(Command::LetLeaseGo);
        }
    }
}
