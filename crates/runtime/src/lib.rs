//! Runs a node: the order of an event round, the files, the disk commands, and snapshots to disk and to
//! learners. The server and the simulator share this crate, so that the simulator runs the shipped code.
//!
//! No sockets, threads, clock or randomness: the caller, an [`Edge`], schedules each step.

mod disk_error;
mod disk_room;
mod disk_worker;
mod known_config;
mod restored_state;
mod round;
mod send_queue;
mod snapshot_store;
mod snapshot_stream;
mod snapshot_task;
mod startup;
mod strip_digest;

pub use disk_error::DiskError;
pub use disk_room::{RoomKeeper, RoomMarks, RoomReport, RoomSettings};
pub use disk_worker::{
    DiskEvent, DiskOutcome, DiskSettings, DiskWorker, InstalledState, RestoreOutcome, Synced, apply_tail,
};
pub use known_config::{CONFIG_NODE, config_to_show, last_seen_config};
pub use restored_state::{InstallableState, RestoreFlaw, RestoredState};
pub use round::{Edge, ExclusiveWork, Round, SharedWork};
pub use send_queue::{QueuedItem, SendQueue};
pub use snapshot_store::{SnapshotHead, SnapshotSections, SnapshotStore};
pub use snapshot_stream::{SendProgress, SnapshotReceiver, SnapshotSender, StreamAbort};
pub use snapshot_task::{NODE_BYTES, SnapshotStep, SnapshotTask};
pub use startup::{
    LoadOptions, OnDamage, OpenedMember, StartReport, StateTarget, is_new, load, open_log, open_member,
};
