//! How observers are kept: whether they write what they are told, whom they ask for it, and how long they wait
//! before they ask again. Only settings; voters know them too, because they may serve observers or become ones.

/// What an observer is told once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observing {
    /// Whether it has a log.
    pub log: ObserverLog,
    /// Who serves observers.
    pub masters: ObserverMasters,
    /// An observer that has lost its master looks for a leader after a random wait up to this.
    pub election_delay_ms: i64,
    /// It connects after a further random wait up to this.
    pub reconnect_delay_ms: i64,
    /// Decides about random waits and about the order of masters.
    pub seed: u64,
}

/// Whether an observer writes transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObserverLog {
    /// Like everybody else.
    #[default]
    Written,
    /// It keeps them in memory. Its disk holds what it had before it observed, or the last whole state that it got;
    /// before it takes part in anything else it goes back to that.
    InMemory,
}

/// Who serves observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObserverMasters {
    /// The leader.
    #[default]
    LeaderOnly,
    /// Every follower, at a port for that; the leader only if no follower can be reached.
    Followers,
}
