//! The data of a new node. ZooKeeper distinguishes null from empty data, and Java programs may fail on null.
//! A node has null data only on request.

use std::sync::Arc;

use bytes::Bytes;

use super::compression::Compression;

/// The data of a new node.
#[derive(Clone, Debug, Default)]
pub(super) enum NodeContent {
    /// Empty data; never compressed.
    #[default]
    Empty,
    /// Null data.
    Null,
    Given(Bytes),
}

impl NodeContent {
    /// The stored form.
    pub(super) fn packed(self, compression: Compression) -> NodeContent {
        match self {
            NodeContent::Given(data) => NodeContent::Given(compression.pack(data)),
            NodeContent::Empty | NodeContent::Null => self,
        }
    }

    /// The form for callers.
    pub(super) fn bytes(&self) -> Bytes {
        match self {
            NodeContent::Empty | NodeContent::Null => Bytes::new(),
            NodeContent::Given(data) => data.clone(),
        }
    }

    /// The form on the wire.
    pub(super) fn wire(&self) -> Option<Arc<[u8]>> {
        match self {
            NodeContent::Empty => Some(Arc::from([])),
            NodeContent::Null => None,
            NodeContent::Given(data) => Some(Arc::from(&**data)),
        }
    }
}
