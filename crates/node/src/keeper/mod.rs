//! The requests of ClickHouse Keeper: lists and checks from the tree, and the virtual nodes by which
//! ClickHouse finds out what this server can do for it now. The writes become transactions of ZooKeeper
//! (`zebu_tree`).

mod reads;
mod virtual_nodes;

pub(crate) use virtual_nodes::is_clickhouse_discovery;

/// How ClickHouse may use this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperSettings {
    /// Whether the requests and nodes exist (`keeperExtensions`).
    pub extensions: bool,
    /// Where this server is (`zebu.zone`).
    pub zone: Option<Box<str>>,
    /// Bytes of the longest request (`jute.maxbuffer`).
    pub request_bytes_max: u32,
}

impl Default for KeeperSettings {
    fn default() -> KeeperSettings {
        KeeperSettings { extensions: true, zone: None, request_bytes_max: 0xf_ffff }
    }
}

/// Bytes of the reply to one list. A request of a few bytes asks for the data of all children of a node.
pub const LIST_BYTES_MAX: usize = 64 << 20;

/// Nodes that one listRecursive visits under one hold of the replica.
pub const LIST_RECURSIVE_NODES_MAX: usize = 200_000;
