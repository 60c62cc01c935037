//! How long a start takes with many nodes, and what they take in memory: each server on its own files and on
//! the other's.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::contender::{Contender, Name};
use super::forest::{Filling, Forest, Memory, timed_start};
use super::middle::median;
use super::table::{Table, figure};

/// One server on one server's files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) server: Name,
    pub(crate) files_of: Name,
    /// Until `srvr` was answered, each round, in seconds.
    starts: Vec<f64>,
    memory: Option<Memory>,
    empty: Memory,
    leaves: usize,
    /// Why it did not start.
    failure: Option<String>,
}

impl Outcome {
    /// The middle of the starts in seconds, if all were possible.
    pub(crate) fn seconds(&self) -> Option<f64> {
        (self.failure.is_none() && !self.starts.is_empty()).then(|| median(self.starts.iter().copied()))
    }

    /// Resident bytes per leaf beyond its name and data.
    pub(crate) fn bytes_per_leaf(&self) -> Option<f64> {
        self.memory.map(|memory| memory.resident_per_node(self.empty, self.leaves))
    }
}

/// Starts both servers on copies of both servers' files, in turn.
pub(crate) fn run(contenders: &[Contender; 2], forests: &[Forest; 2], rounds: usize) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for forest in forests {
        for (contender, own) in contenders.iter().zip(forests) {
            let mut outcome = Outcome {
                server: contender.name,
                files_of: forest.by,
                starts: Vec::new(),
                memory: None,
                empty: own.filling.empty_memory,
                leaves: forest.filling.leaves,
                failure: None,
            };
            if let Err(error) = start_often(contender, forest, rounds, &mut outcome) {
                outcome.failure = Some(format!("{error:#}"));
            }
            println!("{} on {}'s files: {:?} s", outcome.server, outcome.files_of, outcome.starts);
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

fn start_often(contender: &Contender, forest: &Forest, rounds: usize, outcome: &mut Outcome) -> Result<()> {
    for _ in 0..rounds.max(1) {
        // A fresh copy each time: a start may write a snapshot, and the next one would be another start.
        let mut server = contender.on_copy_of(&forest.data(), &[])?;
        outcome.starts.push(timed_start(&mut server)?.as_secs_f64());
        outcome.memory = Some(Memory::of(contender.name, &server)?);
    }
    Ok(())
}

/// What the filling cost and what the servers held then.
pub(crate) fn filling_table(fillings: &[Filling]) -> Table {
    let mut table = Table::new([
        "server",
        "start, empty, s",
        "MiB, empty",
        "creates/s",
        "CPU us/create",
        "MiB after",
        "heap MiB after",
    ]);
    for filling in fillings {
        table.row([
            filling.by.to_string(),
            figure(filling.empty_start_seconds),
            figure(mib(filling.empty_memory.resident_bytes)),
            format!("{:.0}", filling.creates_per_second),
            figure(filling.cpu_us_per_create),
            figure(mib(filling.memory.resident_bytes)),
            filling.memory.heap_bytes.map_or("-".to_owned(), |bytes| figure(mib(bytes))),
        ]);
    }
    table
}

/// The starts.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "server",
        "files of",
        "start, s",
        "MiB resident",
        "heap MiB",
        "bytes/node by heap",
        "bytes/node resident",
    ]);
    for outcome in outcomes {
        let start = match &outcome.failure {
            Some(failure) => format!("failed: {}", failure.lines().next().unwrap_or_default()),
            None => figure(median(outcome.starts.iter().copied())),
        };
        let of_memory = |show: &dyn Fn(Memory) -> String| outcome.memory.map_or("-".to_owned(), show);
        table.row([
            outcome.server.to_string(),
            outcome.files_of.to_string(),
            start,
            of_memory(&|memory| figure(mib(memory.resident_bytes))),
            of_memory(&|memory| memory.heap_bytes.map_or("-".to_owned(), |bytes| figure(mib(bytes)))),
            of_memory(&|memory| {
                memory.heap_per_node(outcome.empty, outcome.leaves).map_or("-".to_owned(), figure)
            }),
            of_memory(&|memory| figure(memory.resident_per_node(outcome.empty, outcome.leaves))),
        ]);
    }
    table
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
