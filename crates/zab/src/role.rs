//! The role of a server in the config, which it also announces to its leader.

/// Whether a server votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server votes and may lead. It connects to a leader with FOLLOWERINFO.
    Participant,
    /// The server does not vote; it learns the leader from the voters. It connects with OBSERVERINFO.
    Observer,
}
