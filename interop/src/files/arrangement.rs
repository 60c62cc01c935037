//! How the servers of one round are set up: the same for all of them.

use std::fmt;

use zebu_testing::{Launch, ServerProcess, ServerProcessBuilder};

use crate::differential::{Random, SUPER_DIGEST};

/// Where the logs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogPlace {
    WithSnapshots,
    Apart,
}

/// Whether containers and TTL nodes are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sweeping {
    On,
    Off,
}

/// The settings of one round.
#[derive(Clone, Debug)]
pub(super) struct Arrangement {
    compression: &'static str,
    pub(super) log_place: LogPlace,
    snap_count: usize,
    preallocate_kib: usize,
    purge_hours: usize,
}

const CHECK_INTERVAL: &str = "znode.container.checkIntervalMs";

impl Arrangement {
    /// Every combination of compression and place comes up within six rounds; the rest is drawn.
    pub(super) fn of_round(round: u64, random: &mut Random) -> Arrangement {
        Arrangement {
            compression: ["", "gz", "snappy"][(round % 3) as usize],
            log_place: if round.is_multiple_of(2) { LogPlace::WithSnapshots } else { LogPlace::Apart },
            snap_count: *random.pick(&[20, 50, 50, 120]),
            preallocate_kib: *random.pick(&[1, 16, 64, 1024]),
            purge_hours: *random.pick(&[0, 1]),
        }
    }

    /// A server with these settings.
    pub(super) fn builder(&self, launch: Launch) -> ServerProcessBuilder {
        let mut builder = ServerProcess::launch(launch)
            .property("zookeeper.extendedTypesEnabled", "true")
            .property("zookeeper.4lw.commands.whitelist", "*")
            .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
            .property("zookeeper.snapCount", self.snap_count.to_string())
            .property("zookeeper.preAllocSize", self.preallocate_kib.to_string())
            .property("zookeeper.snapshot.compression.method", self.compression)
            .line("minSessionTimeout=2000")
            .line("maxSessionTimeout=600000")
            .line(format!("autopurge.purgeInterval={}", self.purge_hours));
        if self.log_place == LogPlace::Apart {
            builder = builder.line("dataLogDir=./logs");
        }
        builder
    }
}

impl Sweeping {
    /// What the next start of `server` does with containers and TTL nodes.
    pub(super) fn set(self, server: &mut ServerProcess) {
        let interval_ms = match self {
            Sweeping::On => "300",
            Sweeping::Off => "86400000",
        };
        server.set_property(CHECK_INTERVAL, interval_ms);
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compression = if self.compression.is_empty() { "plain" } else { self.compression };
        let place = match self.log_place {
            LogPlace::WithSnapshots => "one directory",
            LogPlace::Apart => "logs apart",
        };
        let purge = if self.purge_hours == 0 { "no purge" } else { "purge" };
        write!(
            formatter,
            "{compression} snapshots, {place}, snapCount {}, preAllocSize {} KiB, {purge}",
            self.snap_count, self.preallocate_kib
        )
    }
}
