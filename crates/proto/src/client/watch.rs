//! Watches: how they are registered, asked for, removed and reported.

use crate::jute::{Jute, Text};
use crate::record;

/// What happened to a node, in a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum EventType {
    /// The node was created.
    NodeCreated = 1,
    /// The node was deleted.
    NodeDeleted = 2,
    /// Its data was set.
    NodeDataChanged = 3,
    /// A child was created or deleted.
    NodeChildrenChanged = 4,
}

/// The state field of every event that a server sends: SyncConnected.
pub const EVENT_STATE_CONNECTED: i32 = 3;

record! {
    /// A watch event.
    pub struct WatcherEvent {
        /// See [`EventType`].
        pub kind: i32,
        /// [`EVENT_STATE_CONNECTED`].
        pub state: i32,
        /// The node.
        pub path: Text,
    }
}

impl WatcherEvent {
    /// Appends an event without building the record.
    pub fn encode_parts(kind: EventType, path: &str, out: &mut Vec<u8>) {
        (kind as i32).encode(out);
        EVENT_STATE_CONNECTED.encode(out);
        crate::jute::encode_bytes(path.as_bytes(), out);
    }
}

/// How an added watch behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddWatchMode {
    /// Data and child events of one node, until removed.
    Persistent,
    /// Created, deleted and data events of a node and all below it, until removed.
    PersistentRecursive,
}

impl AddWatchMode {
    /// The mode of a number on the wire.
    pub const fn from_wire(mode: i32) -> Option<AddWatchMode> {
        match mode {
            0 => Some(AddWatchMode::Persistent),
            1 => Some(AddWatchMode::PersistentRecursive),
            _ => None,
        }
    }
}

/// Which watches checkWatches and removeWatches mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatcherType {
    /// One-shot child watches.
    Children,
    /// One-shot data and exists watches.
    Data,
    /// Everything on the path.
    Any,
    /// Persistent watches.
    Persistent,
    /// Persistent recursive watches.
    PersistentRecursive,
}

impl WatcherType {
    /// The type of a number on the wire.
    pub const fn from_wire(kind: i32) -> Option<WatcherType> {
        match kind {
            1 => Some(WatcherType::Children),
            2 => Some(WatcherType::Data),
            3 => Some(WatcherType::Any),
            4 => Some(WatcherType::Persistent),
            5 => Some(WatcherType::PersistentRecursive),
            _ => None,
        }
    }
}

/// setWatches and setWatches2: watches to register again, with what the client has seen. No client sends a
/// null list or path; ZooKeeper carries out what stands before it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SetWatches {
    /// The last zxid that the client has seen.
    pub relative_zxid: i64,
    /// Data watches of nodes that existed.
    pub data: Option<Vec<Text>>,
    /// Watches of nodes that did not exist.
    pub exist: Option<Vec<Text>>,
    /// Child watches.
    pub child: Option<Vec<Text>>,
    /// Persistent watches; empty in setWatches.
    pub persistent: Option<Vec<Text>>,
    /// Persistent recursive watches; empty in setWatches.
    pub persistent_recursive: Option<Vec<Text>>,
}
