//! The names that exclusive locks can have, and with whom they are shared.

use crate::line::{IdStyle, Naming};

/// How the nodes of a lock are named, which decides with whom it is shared.
///
/// A directory is used in one layout by everybody. A lock that finds contenders of a layout that does not
/// count its own nodes gives up with [`LayoutConflict`](crate::RecipeError::LayoutConflict) instead of
/// pretending to exclude them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockLayout {
    /// `_c_<uuid>-lock-<number>`: shared with Curator's `InterProcessMutex` and `LeaderSelector`, and with Go.
    #[default]
    Curator,
    /// `<32 digits>__lock__<number>`: shared with Kazoo's `Lock` and `Election`.
    Kazoo,
    /// `_c_<32 digits>-lock-<number>`: shared with go-zookeeper's `Lock`, and with Curator.
    Go,
}

impl LockLayout {
    pub(crate) const fn naming(self) -> Naming {
        match self {
            LockLayout::Curator => Naming { style: IdStyle::Curator, exclusive: "lock-", shared: "" },
            LockLayout::Kazoo => Naming { style: IdStyle::Kazoo, exclusive: "__lock__", shared: "" },
            LockLayout::Go => Naming { style: IdStyle::Go, exclusive: "lock-", shared: "" },
        }
    }
}

/// How the nodes of a read-write lock are named. The rules of [`LockLayout`] hold here too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RwLockLayout {
    /// `_c_<uuid>-__READ__<number>` and `_c_<uuid>-__WRIT__<number>`: shared with Curator's
    /// `InterProcessReadWriteLock`.
    #[default]
    Curator,
    /// `<32 digits>__rlock__<number>` and `<32 digits>__lock__<number>`: shared with Kazoo's `ReadLock` and
    /// `WriteLock`. Kazoo's plain `Lock` does not wait for readers; keep it out of the directory.
    Kazoo,
}

/// How the nodes of a semaphore are named. The rules of [`LockLayout`] hold here too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SemaphoreLayout {
    /// `<path>/leases/_c_<uuid>-lease-<number>` and a line in `<path>/locks`: shared with Curator's
    /// `InterProcessSemaphoreV2`.
    #[default]
    Curator,
    /// `<path>/<32 digits>` and a line in `<path>-__lock__`: shared with Kazoo's `Semaphore`. The number of permits
    /// stands in the node at the path, and who asks with another number is refused.
    Kazoo,
}

impl RwLockLayout {
    pub(crate) const fn naming(self) -> Naming {
        match self {
            RwLockLayout::Curator => {
                Naming { style: IdStyle::Curator, exclusive: "__WRIT__", shared: "__READ__" }
            }
            RwLockLayout::Kazoo => {
                Naming { style: IdStyle::Kazoo, exclusive: "__lock__", shared: "__rlock__" }
            }
        }
    }
}
