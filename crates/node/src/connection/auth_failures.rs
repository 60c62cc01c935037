//! The count of refused authentications of a connection.

use super::ClientConnection;

impl ClientConnection {
    /// Refused authentications since the last report.
    pub fn unreported_auth_failures(&self) -> u64 {
        self.unreported_stats.auth_failures.into()
    }

    /// Counts a refused authentication.
    pub(crate) fn count_auth_failure(&mut self) {
        self.unreported_stats.auth_failures += 1;
    }
}
