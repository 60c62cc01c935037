//! Watches: their registration, queries, removal and events.

use crate::jute::{Jute, Text};
use crate::op::OpCode;
use crate::record;

/// The type of a watch event.
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

impl EventType {
    /// The event of a number on the wire; servers send no other.
    pub const fn from_wire(kind: i32) -> Option<EventType> {
        match kind {
            1 => Some(EventType::NodeCreated),
            2 => Some(EventType::NodeDeleted),
            3 => Some(EventType::NodeDataChanged),
            4 => Some(EventType::NodeChildrenChanged),
            _ => None,
        }
    }
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
    /// Created, deleted and data events of a node and its descendants, until removed.
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

    /// The number on the wire.
    pub const fn wire(self) -> i32 {
        match self {
            AddWatchMode::Persistent => 0,
            AddWatchMode::PersistentRecursive => 1,
        }
    }
}

/// The watches that checkWatches and removeWatches select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatcherType {
    /// One-shot child watches.
    Children,
    /// One-shot data and exists watches.
    Data,
    /// All watches on the path.
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

    /// The number on the wire.
    pub const fn wire(self) -> i32 {
        match self {
            WatcherType::Children => 1,
            WatcherType::Data => 2,
            WatcherType::Any => 3,
            WatcherType::Persistent => 4,
            WatcherType::PersistentRecursive => 5,
        }
    }
}

/// setWatches and setWatches2: watches to register again, with the last zxid that the client has seen. No
/// client sends a null list or path; ZooKeeper registers the watches before it.
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

impl SetWatches {
    /// setWatches2 if there is a persistent watch, which servers before 3.6 do not know.
    pub fn op_code(&self) -> OpCode {
        let empty = |list: &Option<Vec<Text>>| list.as_ref().is_none_or(Vec::is_empty);
        if empty(&self.persistent) && empty(&self.persistent_recursive) {
            OpCode::SetWatches
        } else {
            OpCode::SetWatches2
        }
    }

    /// Appends the record of [`SetWatches::op_code`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.relative_zxid.encode(out);
        self.data.encode(out);
        self.exist.encode(out);
        self.child.encode(out);
        if self.op_code() == OpCode::SetWatches2 {
            self.persistent.encode(out);
            self.persistent_recursive.encode(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Request, read::ReadRequest};
    use crate::jute::Reader;

    #[test]
    fn numbers_and_names_are_each_others_inverse() {
        for kind in 1..=4 {
            assert_eq!(EventType::from_wire(kind).map(|kind| kind as i32), Some(kind));
        }
        for kind in 1..=5 {
            assert_eq!(WatcherType::from_wire(kind).map(WatcherType::wire), Some(kind));
        }
        for mode in 0..=1 {
            assert_eq!(AddWatchMode::from_wire(mode).map(AddWatchMode::wire), Some(mode));
        }
    }

    #[test]
    fn watches_are_read_back_as_they_were_written() {
        let mut watches = SetWatches {
            relative_zxid: 9,
            data: Some(vec![Some("/a".into())]),
            exist: Some(vec![]),
            child: Some(vec![Some("/b".into()), Some("/c".into())]),
            persistent: Some(vec![]),
            persistent_recursive: Some(vec![]),
        };
        for op in [OpCode::SetWatches, OpCode::SetWatches2] {
            assert_eq!(watches.op_code(), op);
            let mut bytes = Vec::new();
            watches.encode(&mut bytes);
            let request = Request::decode(op.wire(), &mut Reader::new(&bytes)).unwrap();
            assert_eq!(request, Request::Read(ReadRequest::SetWatches(Box::new(watches.clone()))));
            watches.persistent_recursive = Some(vec![Some("/d".into())]);
        }
    }
}
