//! A tree of many nodes: made once by each server, then used from copies of its files.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zebu_bench::{Nodes, ProcessUsage};
use zebu_testing::ServerProcess;

use super::contender::{Contender, Name, process};
use super::heap;

/// Leaves below one parent.
const LEAVES_PER_PARENT: usize = 1000;

/// Bytes of data in a leaf.
pub(crate) const DATA_BYTES: usize = 100;

/// Length of a leaf's last name.
const NAME_BYTES: usize = 12;

/// Creates between two lines about the progress.
const PROGRESS_LINES: u64 = 250_000;

pub(crate) fn nodes(leaves: usize) -> Nodes {
    let flat = Nodes::flat("/zebu-bench", leaves).named(NAME_BYTES);
    Nodes { parents: leaves.div_ceil(LEAVES_PER_PARENT), ..flat }
}

/// A stopped server with the tree in its files.
pub(crate) struct Forest {
    pub(crate) by: Name,
    server: ServerProcess,
    pub(crate) filling: Filling,
}

/// What it took to make the tree.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Filling {
    pub(crate) by: Name,
    pub(crate) leaves: usize,
    pub(crate) creates_per_second: f64,
    pub(crate) cpu_us_per_create: f64,
    pub(crate) memory: Memory,
    pub(crate) empty_start_seconds: f64,
    pub(crate) empty_memory: Memory,
}

/// What a server holds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) resident_bytes: u64,
    /// Of Apache: what of the heap is in use after a full collection.
    pub(crate) heap_bytes: Option<u64>,
}

impl Memory {
    pub(crate) fn of(name: Name, server: &ServerProcess) -> Result<Memory> {
        let process = process(server)?;
        // Before the collection, which may give memory back.
        let resident_bytes = ProcessUsage::of(process).read()?.resident_bytes;
        let heap_bytes = match name {
            Name::Apache => Some(heap::used_after_collection(process)?),
            Name::Zebu => None,
        };
        Ok(Memory { resident_bytes, heap_bytes })
    }

    /// Resident bytes per node beyond its name and its data.
    pub(crate) fn resident_per_node(self, empty: Memory, leaves: usize) -> f64 {
        beyond_content(self.resident_bytes, empty.resident_bytes, leaves)
    }

    /// The same by the heap in use, where there is one.
    pub(crate) fn heap_per_node(self, empty: Memory, leaves: usize) -> Option<f64> {
        Some(beyond_content(self.heap_bytes?, empty.heap_bytes?, leaves))
    }
}

fn beyond_content(full: u64, empty: u64, leaves: usize) -> f64 {
    (full as f64 - empty as f64) / leaves as f64 - (NAME_BYTES + DATA_BYTES) as f64
}

impl Forest {
    /// Fills an empty server and stops it.
    pub(crate) fn grow(contender: &Contender, leaves: usize, runtime: &Runtime) -> Result<Forest> {
        let name = contender.name;
        let mut server = contender.start(&[])?;
        server.stop()?;
        let empty_start_seconds = timed_start(&mut server)?.as_secs_f64();
        let empty_memory = Memory::of(name, &server)?;
        let usage = ProcessUsage::of(process(&server)?);
        let cpu_before = usage.read()?.cpu_seconds;
        let started = Instant::now();
        let address = server.address().to_string();
        let filled =
            runtime.block_on(zebu_bench::prepare(&address, &nodes(leaves), DATA_BYTES, |progress| {
                if progress.replies.is_multiple_of(PROGRESS_LINES) {
                    println!(
                        "{name}: {} creates in {:.0} s",
                        progress.replies,
                        progress.elapsed.as_secs_f64()
                    );
                }
            }));
        filled.with_context(|| format!("fill {name}; its output:\n{}", server.output()))?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu_seconds = usage.read()?.cpu_seconds - cpu_before;
        let memory = Memory::of(name, &server)?;
        server.stop()?;
        let filling = Filling {
            by: name,
            leaves,
            creates_per_second: leaves as f64 / seconds,
            cpu_us_per_create: cpu_seconds * 1e6 / leaves as f64,
            memory,
            empty_start_seconds,
            empty_memory,
        };
        Ok(Forest { by: name, server, filling })
    }

    /// Its files.
    pub(crate) fn data(&self) -> PathBuf {
        self.server.data_dir()
    }
}

/// Starts a server and says how long it took until it answered `srvr`.
pub(crate) fn timed_start(server: &mut ServerProcess) -> Result<Duration> {
    let started = Instant::now();
    server.start()?;
    Ok(started.elapsed())
}
