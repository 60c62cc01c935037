//! The layouts of locks and the compatible libraries.

use crate::wait_queue::ContenderNaming;
use zebu_client::ProtectionStyle;

/// The layout of a lock, which defines the compatible libraries.
///
/// A directory has one layout. A lock that finds contenders of a layout that does not count its nodes fails
/// with [`LayoutConflict`](crate::RecipeError::LayoutConflict).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockLayout {
    /// `_c_<uuid>-lock-<number>`: compatible with Curator's `InterProcessMutex` and `LeaderSelector`, and
    /// with Go.
    #[default]
    Curator,
    /// `<32 digits>__lock__<number>`: compatible with Kazoo's `Lock` and `Election`.
    Kazoo,
    /// `_c_<32 digits>-lock-<number>`: compatible with go-zookeeper's `Lock`, and with Curator.
    Go,
}

impl LockLayout {
    pub(crate) const fn naming(self) -> ContenderNaming {
        match self {
            LockLayout::Curator => {
                ContenderNaming { style: ProtectionStyle::Curator, exclusive: "lock-", shared: "" }
            }
            LockLayout::Kazoo => {
                ContenderNaming { style: ProtectionStyle::Kazoo, exclusive: "__lock__", shared: "" }
            }
            LockLayout::Go => ContenderNaming { style: ProtectionStyle::Go, exclusive: "lock-", shared: "" },
        }
    }
}

/// The layout of a read-write lock. The rules of [`LockLayout`] apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RwLockLayout {
    /// `_c_<uuid>-__READ__<number>` and `_c_<uuid>-__WRIT__<number>`: compatible with Curator's
    /// `InterProcessReadWriteLock`.
    #[default]
    Curator,
    /// `<32 digits>__rlock__<number>` and `<32 digits>__lock__<number>`: compatible with Kazoo's `ReadLock`
    /// and `WriteLock`. Kazoo's plain `Lock` does not wait for readers; keep it out of the directory.
    Kazoo,
}

/// The layout of a semaphore. The rules of [`LockLayout`] apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SemaphoreLayout {
    /// `<path>/leases/_c_<uuid>-lease-<number>` and a wait queue in `<path>/locks`: compatible with Curator's
    /// `InterProcessSemaphoreV2`.
    #[default]
    Curator,
    /// `<path>/<32 digits>` and a wait queue in `<path>-__lock__`: compatible with Kazoo's `Semaphore`. The
    /// node at the path has the number of permits; another number is refused.
    Kazoo,
}

impl RwLockLayout {
    pub(crate) const fn naming(self) -> ContenderNaming {
        match self {
            RwLockLayout::Curator => {
                ContenderNaming { style: ProtectionStyle::Curator, exclusive: "__WRIT__", shared: "__READ__" }
            }
            RwLockLayout::Kazoo => {
                ContenderNaming { style: ProtectionStyle::Kazoo, exclusive: "__lock__", shared: "__rlock__" }
            }
        }
    }
}
