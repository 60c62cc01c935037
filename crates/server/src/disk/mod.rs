//! The files of a running server: the disk thread and its backlog, snapshots, purge, and the recovery at
//! a start.

pub(crate) mod backlog;
pub(crate) mod disk_thread;
pub(crate) mod purger;
pub(crate) mod recovery;
pub(crate) mod room_status;
mod room_watch;
pub(crate) mod snapshotter;
