//! The settings of observers. Voters have them too, because a voter may be an observer master or become an
//! observer.

/// The settings of observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObserverSettings {
    /// Whether an observer writes a transaction log.
    pub log: ObserverLog,
    /// The servers that accept observers.
    pub masters: ObserverMasters,
    /// The upper bound of the random delay before an observer that lost its master starts an election, in
    /// milliseconds.
    pub election_delay_ms: i64,
    /// The upper bound of the random delay before an observer connects, in milliseconds.
    pub reconnect_delay_ms: i64,
    /// The seed for random delays and for the order of masters.
    pub seed: u64,
}

/// Whether an observer writes transactions to its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObserverLog {
    /// The observer writes a transaction log, as a follower does.
    #[default]
    OnDisk,
    /// The observer keeps transactions in memory. Its disk holds its data from before it became an observer,
    /// or the last snapshot it received. It reloads that data before it leaves this role.
    InMemory,
}

/// The servers that accept observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObserverMasters {
    /// Only the leader.
    #[default]
    LeaderOnly,
    /// Every follower, on the observer master port. The leader is used only if no follower is reachable.
    Followers,
}
