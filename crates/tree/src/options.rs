//! Settings that change what a tree holds. They must be equal on all members of an ensemble, except the
//! hash seed. Settings that only decide whether a request is granted are in [`crate::access`].

/// Whether nodes may carry a time to live, and how a stored owner is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TtlNodes {
    /// An owner with the extended mark is a session like any other.
    #[default]
    Disabled,
    /// The top byte `0xff` marks an extended type.
    Enabled,
    /// As [`TtlNodes::Enabled`], and every other negative owner is a TTL node of release 3.5.3.
    Emulate353,
}

/// Whether the sum over all nodes is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DigestMode {
    /// Kept, and given to every prepared transaction.
    #[default]
    On,
    /// Not computed; transactions carry none.
    Off,
}

/// What a [`Tree`](crate::Tree) is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TreeOptions {
    /// Extended node types.
    pub ttl_nodes: TtlNodes,
    /// Tree digest.
    pub digest: DigestMode,
    /// Seed of the internal hash tables; clients choose names, so it must not be guessable.
    pub hash_seed: u64,
}
