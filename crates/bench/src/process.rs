//! What a server process has used, from the system's own books.

use std::io;

use serde::Serialize;

/// Clock ticks per second in the books of every Linux that Zebu runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// What one process has used so far.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct Usage {
    /// CPU seconds, user and system, of all threads.
    pub cpu_seconds: f64,
    /// Resident memory now.
    pub resident_bytes: u64,
}

/// A server process that is looked at from outside.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUsage {
    id: u32,
}

impl ProcessUsage {
    /// The process with this id.
    pub fn of(id: u32) -> ProcessUsage {
        ProcessUsage { id }
    }

    /// Reads the books.
    pub fn read(&self) -> io::Result<Usage> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id))?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let missing = || io::Error::other("the system's books have an unknown form");
        // The name of the process may hold blanks; fields are counted behind its closing parenthesis.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let ticks =
            |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).ok_or_else(missing);
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or_else(missing)?;
        let kib: u64 = resident.trim().trim_end_matches(" kB").trim().parse().map_err(io::Error::other)?;
        Ok(Usage { cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND, resident_bytes: kib * 1024 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        assert!(ProcessUsage::of(std::process::id()).read().unwrap().resident_bytes > 100_000);
    }
}
