//! The ways in which one watcher can watch one path in one table; several can hold at once.

/// The kind of watch that a client sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// getData, exists: data events, once.
    Data,
    /// getChildren: child events, once.
    Child,
    /// addWatch: data and child events, until removed.
    Persistent,
    /// addWatch: data events of the node and all below it, until removed.
    PersistentRecursive,
}

/// A set of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Modes(u8);

impl Modes {
    pub(super) const NONE: Modes = Modes(0);
    /// Fires once.
    pub(super) const STANDARD: Modes = Modes(1);
    /// Fires until removed.
    pub(super) const PERSISTENT: Modes = Modes(2);
    /// Fires for all descendants too.
    pub(super) const RECURSIVE: Modes = Modes(4);
    pub(super) const ALL: Modes = Modes(7);

    pub(super) fn with(self, other: Modes) -> Modes {
        Modes(self.0 | other.0)
    }

    pub(super) fn without(self, other: Modes) -> Modes {
        Modes(self.0 & !other.0)
    }

    pub(super) fn intersects(self, other: Modes) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
