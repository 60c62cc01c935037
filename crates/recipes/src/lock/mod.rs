//! Locks: exclusive, shared, counting, several at once. Every guard reports the loss of the lock and has a
//! fencing token.

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
pub use revocation::{RevocationMessage, Revoked};
pub use semaphore::{Permit, Semaphore};
pub use semaphore_mutex::{SemaphoreMutex, SemaphoreMutexGuard};
pub use simple::{SimpleLock, SimpleLockGuard};

pub(crate) use mutex::contenders;
