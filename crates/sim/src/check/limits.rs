//! The times and settings that a guarantee may depend on.

use super::g10_sync;
use crate::queue::VirtualTime;
use crate::run_parameters::ServerKinds;

/// The times that a guarantee may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckerLimits {
    pub(crate) tick: VirtualTime,
    /// Ticks.
    pub(crate) sync_limit: u64,
    pub(crate) transaction_bytes_max: usize,
    pub(crate) syncs: g10_sync::SyncScope,
    pub(crate) kinds: ServerKinds,
}
