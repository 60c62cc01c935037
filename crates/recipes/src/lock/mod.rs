//! Locks: exclusive, shared, counted, several at once. Every guard tells its loss and carries a fencing token.

mod hold;
mod layout;
mod multi;
mod mutex;
mod read_write;
mod revocation;
mod semaphore;
mod semaphore_mutex;
mod simple;

pub use layout::{LockLayout, RwLockLayout, SemaphoreLayout};
pub use multi::{MultiGuard, acquire_all, acquire_all_within};
pub use mutex::{Contender, Mutex, MutexGuard, Owner};
pub use read_write::{ReadGuard, RwLock, WriteGuard};
pub use revocation::{RevocationWord, Revoked};
pub use semaphore::{Permit, Semaphore};
pub use semaphore_mutex::{SemaphoreMutex, SemaphoreMutexGuard};
pub use simple::{SimpleLock, SimpleLockGuard};

pub(crate) use hold::Hold;
pub(crate) use mutex::contenders;
