//! What a load costs the processes that are named: their books before and after.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::process::{ProcessUsage, Usage};
use crate::run::BenchError;

/// What the load cost one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerCost {
    /// Its process id.
    pub process: u32,
    /// CPU seconds during the measurement.
    pub cpu_seconds: f64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
}

impl fmt::Display for ServerCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.resident_bytes as f64 / f64::from(1 << 20);
        write!(f, "process {}: {:.2} CPU seconds, {mib:.0} MiB resident", self.process, self.cpu_seconds)
    }
}

/// Processes whose cost is counted from a moment on.
pub(crate) struct Watched {
    before: Vec<(u32, Usage)>,
}

impl Watched {
    pub(crate) fn begin(processes: &[u32]) -> Result<Watched, BenchError> {
        let before = processes.iter().map(|&id| Ok((id, usage(id)?))).collect::<Result<_, BenchError>>()?;
        Ok(Watched { before })
    }

    /// What it has cost so far.
    pub(crate) fn end(&self) -> Result<Vec<ServerCost>, BenchError> {
        let cost = |&(process, before): &(u32, Usage)| {
            let after = usage(process)?;
            let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
            Ok(ServerCost { process, cpu_seconds, resident_bytes: after.resident_bytes })
        };
        self.before.iter().map(cost).collect()
    }

    /// CPU seconds of all of them so far.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, BenchError> {
        Ok(self.end()?.iter().map(|server| server.cpu_seconds).sum())
    }

    /// How much more memory the same processes have now.
    pub(crate) fn grown(&self, now: &[ServerCost]) -> Vec<i64> {
        let of = |((_, before), now): (&(u32, Usage), &ServerCost)| {
            now.resident_bytes.cast_signed() - before.resident_bytes.cast_signed()
        };
        self.before.iter().zip(now).map(of).collect()
    }
}

fn usage(id: u32) -> Result<Usage, BenchError> {
    ProcessUsage::of(id).read().map_err(|source| BenchError::Process { id, source })
}
