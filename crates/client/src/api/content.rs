//! What a new node holds. ZooKeeper tells no data from no bytes, and so do clients in Java: a program that does not expect
//! null fails on it. Only who asks for null gets it.

use std::sync::Arc;

use bytes::Bytes;

use super::compression::Compression;

/// The data of a node that is to be created.
#[derive(Clone, Debug, Default)]
pub(super) enum Content {
    /// No bytes; never compressed.
    #[default]
    Empty,
    /// Not even that.
    Null,
    /// These bytes.
    Given(Bytes),
}

impl Content {
    /// As it is stored.
    pub(super) fn packed(self, compression: Compression) -> Content {
        match self {
            Content::Given(data) => Content::Given(compression.pack(data)),
            Content::Empty | Content::Null => self,
        }
    }

    /// As clients of this library see it.
    pub(super) fn bytes(&self) -> Bytes {
        match self {
            Content::Empty | Content::Null => Bytes::new(),
            Content::Given(data) => data.clone(),
        }
    }

    /// As it is sent.
    pub(super) fn wire(&self) -> Option<Arc<[u8]>> {
        match self {
            Content::Empty => Some(Arc::from([])),
            Content::Null => None,
            Content::Given(data) => Some(Arc::from(&**data)),
        }
    }
}
