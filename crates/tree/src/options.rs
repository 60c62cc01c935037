//! Settings that change the content of a tree. They must be equal on all servers of an ensemble, except the
//! hash seed. Settings that only decide whether a request is granted are in [`crate::access`].

/// Whether nodes may have a time to live, and how a stored owner is interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TtlNodes {
    /// An owner with the extended mark is an ordinary session.
    #[default]
    Disabled,
    /// The top byte `0xff` marks an extended type.
    Enabled,
    /// As [`TtlNodes::Enabled`], and every other negative owner is a TTL node of release 3.5.3.
    Emulate353,
}

/// Whether the tree digest is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DigestMode {
    /// Computed, and added to every prepared transaction.
    #[default]
    On,
    /// Not computed; transactions carry none.
    Off,
}

/// The options of a [`Tree`](crate::Tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TreeOptions {
    /// Extended node types.
    pub ttl_nodes: TtlNodes,
    /// Tree digest.
    pub digest: DigestMode,
    /// Seed of the internal hash tables; clients choose names, so it must not be guessable.
    pub hash_seed: u64,
}
