//! Renewal of the lease on request.

use super::client::Client;
use crate::net::WeakCommandSender;

/// Renews the lease until it is dropped; see [`Client::keep_lease`]. It does not keep the session open.
#[derive(Debug)]
#[must_use = "dropping it ends the renewal of the lease"]
pub struct LeaseRenewal {
    commands: WeakCommandSender,
}

impl Client {
    /// Extends [`lease_deadline`](Client::lease_deadline) continuously until the returned value is dropped.
    /// The client sends a sync three to five times per session timeout, instead of most pings. Concurrent
    /// reads are answered after the sync. Any number of callers costs the same as one.
    ///
    /// With a healthy ensemble about a third of the timeout is left at any time. The recipes do this for
    /// everything that they own.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use std::time::Instant;
    ///
    /// let _kept = client.keep_lease();
    /// while client.lease_deadline().is_some_and(|deadline| Instant::now() < deadline) {
    ///     // The locks of this session are safe.
    /// #   break;
    /// }
    /// # Ok(()) });
    /// ```
    pub fn keep_lease(&self) -> LeaseRenewal {
        self.shared.commands.add_lease_user();
        LeaseRenewal { commands: self.shared.commands.downgrade() }
    }
}

impl Drop for LeaseRenewal {
    fn drop(&mut self) {
        self.commands.remove_lease_user();
    }
}
