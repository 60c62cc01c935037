//! Counters that the admin server fills.

use zebu_metrics::{Counter, Summary};

/// Counters of the admin server and its commands.
#[derive(Debug, Default)]
pub struct AdminCounters {
    /// Snapshots that came too soon.
    pub snapshots_rate_limited: Counter,
    /// Milliseconds of one restore.
    pub restore_ms: Summary,
    /// Restores that failed.
    pub restore_errors: Counter,
    /// Restores that came too soon.
    pub restores_rate_limited: Counter,
    /// Plain connections to a port that also offers TLS.
    pub insecure_connections: Counter,
}

impl AdminCounters {
    /// Begins anew for `mntr`.
    pub(crate) fn reset(&self) {
        let AdminCounters {
            snapshots_rate_limited,
            restore_ms,
            restore_errors,
            restores_rate_limited,
            insecure_connections,
        } = self;
        for counter in [snapshots_rate_limited, restore_errors, restores_rate_limited, insecure_connections] {
            counter.reset();
        }
        restore_ms.reset();
    }
}
