//! The mode in which a server serves clients. The node, the server and the four-letter words use it.

use std::fmt;

use zebu_zab::ServingRole;

/// The mode in which a server serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingMode {
    /// This server orders writes alone.
    Standalone,
    /// This server orders writes for the ensemble.
    Leader,
    /// This server forwards writes to the leader, and votes.
    Follower,
    /// This server forwards writes to the leader, and does not vote.
    Observer,
    /// No server takes writes: this server is partitioned from its ensemble.
    ReadOnly,
}

impl From<ServingRole> for ServingMode {
    fn from(role: ServingRole) -> ServingMode {
        match role {
            ServingRole::Leading { .. } => ServingMode::Leader,
            ServingRole::Following { .. } => ServingMode::Follower,
            ServingRole::Observing { .. } => ServingMode::Observer,
        }
    }
}

/// The name of the mode in the replies of four-letter words.
impl fmt::Display for ServingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServingMode::Standalone => "standalone",
            ServingMode::Leader => "leader",
            ServingMode::Follower => "follower",
            ServingMode::Observer => "observer",
            ServingMode::ReadOnly => "read-only",
        })
    }
}
