//! What the disk takes for itself: overwriting a little of a file that has its size already, and fdatasync.
//! No write of a server that keeps its promises can be quicker.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use zebu_bench::ProcessUsage;

/// A log record or a few.
const WRITE_BYTES: usize = 512;

/// The size of the file, which is overwritten from the beginning to the end, repeatedly.
const FILE_BYTES: usize = 16 << 20;

/// How long each write with its sync took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct BareSync {
    pub(crate) writes: usize,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// Processor time of a write with its sync: no server can spend less on a write alone.
    pub(crate) cpu_us: f64,
}

/// Writes where the servers of this run have their files.
pub(crate) fn measure(duration: Duration) -> Result<BareSync> {
    let mut file = tempfile::tempfile().context("make a file to sync")?;
    file.write_all(&vec![0; FILE_BYTES])?;
    file.sync_all()?;
    let own = ProcessUsage::of(std::process::id());
    let before = own.read()?.cpu_seconds;
    let started = Instant::now();
    let mut took = Vec::new();
    while started.elapsed() < duration {
        let began = Instant::now();
        overwrite(&mut file, took.len() * WRITE_BYTES % FILE_BYTES).context("write and sync")?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(BareSync::of(took, own.read()?.cpu_seconds - before))
}

fn overwrite(file: &mut File, at: usize) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(at as u64))?;
    file.write_all(&[b'z'; WRITE_BYTES])?;
    file.sync_data()
}

impl BareSync {
    fn of(mut took: Vec<f64>, cpu_seconds: f64) -> BareSync {
        let cpu_us = cpu_seconds * 1e6 / took.len().max(1) as f64;
        took.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (took.len() as f64 * share) as usize;
            took.get(index.min(took.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        BareSync { writes: took.len(), p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0), cpu_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_of_the_distribution() {
        let found = BareSync::of((1..=200).map(f64::from).collect(), 0.002);
        assert_eq!((found.p50_us, found.p99_us, found.max_us, found.cpu_us), (101.0, 199.0, 200.0, 10.0));
        assert_eq!(BareSync::of(Vec::new(), 0.0).p99_us, 0.0);
    }
}
