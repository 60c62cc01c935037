//! Much at once: a member that needs the whole of a large tree while others write, and a flood of clients.
//! Each fails if what is promised does not hold.

mod flood;
mod snap;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use zebu_testing::Launch;

use crate::apache::Edition;
use crate::steady::Acknowledged;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary
    #[arg(long, value_name = "PATH", global = true)]
    zebu: Option<PathBuf>,
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand, Debug)]
enum Trial {
    /// A member without data joins a large tree under a steady write load
    Snap(snap::Arguments),
    /// Many clients send as much as they can
    Flood(flood::Arguments),
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let zebu = arguments.zebu.as_ref().context("--zebu names no binary")?;
    match &arguments.trial {
        Trial::Snap(arguments) => snap::run(arguments, zebu),
        Trial::Flood(arguments) => flood::run(arguments, zebu),
    }
}

/// `zebu`, or an edition of Apache ZooKeeper with a heap for a large tree.
fn launch(kind: &str, zebu: &Path) -> Result<Launch> {
    if kind == "zebu" {
        return Ok(Launch::zebu(zebu.canonicalize().context("no zebu binary there")?));
    }
    let mut launch = Edition::parse(kind).launch()?;
    launch.before = ["-Xmx3g", "-XX:+UseSerialGC"].map(Into::into).to_vec();
    Ok(launch)
}

/// Latencies of writes, in milliseconds.
struct Latencies {
    count: usize,
    middle: f64,
    p99: f64,
    max: f64,
}

impl Latencies {
    fn of(writes: &[Acknowledged]) -> Latencies {
        let mut all: Vec<Duration> = writes.iter().map(|write| write.answered - write.sent).collect();
        all.sort();
        let at = |share: f64| {
            let index = ((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1));
            all.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
        };
        Latencies { count: all.len(), middle: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Latencies { count, middle, p99, max } = self;
        write!(f, "{count} writes, median {middle:.1} ms, p99 {p99:.0} ms, max {max:.0} ms")
    }
}
