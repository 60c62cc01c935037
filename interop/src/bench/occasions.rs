//! What happens to a server besides steady load: many sessions at once, one change that many wait for,
//! sessions that do nothing.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zebu_bench::{FanOutReport, IdleReport, Nodes, StormReport};
use zebu_testing::ServerProcess;

use super::contender::{Contender, process};
use super::middle::median;
use super::table::{Table, figure, ratio};

const MIB: f64 = (1 << 20) as f64;

/// The system counts CPU time in these steps.
const TICK_MS: f64 = 10.0;

/// The node that all watch.
const WATCHED: &str = "/zebu-bench";

/// How large the occasions are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) storm_sessions: usize,
    pub(crate) watchers: usize,
    pub(crate) idle_sessions: usize,
    pub(crate) idle: Duration,
}

/// How often the node is changed while all watch it.
const CHANGES: usize = 20;

/// Both servers, and what the kernel takes for itself in the same rounds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Occasions {
    pub(crate) apache: Outcome,
    pub(crate) zebu: Outcome,
    bare_sends_ms: Vec<f64>,
}

/// One server's rounds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    storms: Vec<StormReport>,
    fan_outs: Vec<FanOutReport>,
    idle: Vec<IdleReport>,
}

impl Outcome {
    /// Until the last of many sessions was there.
    pub(crate) fn storm_ms(&self) -> f64 {
        median(self.storms.iter().map(|storm| storm.seconds * 1000.0))
    }

    /// Until all watchers were told.
    pub(crate) fn fan_out_ms(&self) -> f64 {
        median(self.fan_outs.iter().map(|fan_out| fan_out.all_told_us.p50 as f64 / 1000.0))
    }

    /// CPU milliseconds of each second with idle sessions. Less than the system's clock can tell counts as
    /// one tick.
    pub(crate) fn idle_cpu_ms(&self) -> f64 {
        let per_second = |idle: &IdleReport| {
            let cpu_ms = idle.servers.iter().map(|server| server.cpu_seconds * 1000.0).sum::<f64>();
            cpu_ms.max(TICK_MS) / idle.seconds
        };
        median(self.idle.iter().map(per_second))
    }

    /// Memory that idle sessions took.
    pub(crate) fn idle_mib(&self) -> f64 {
        median(self.idle.iter().flat_map(|idle| &idle.grown_bytes).map(|bytes| *bytes as f64 / MIB))
    }
}

/// Every occasion on both servers in turn.
pub(crate) fn run(plan: &Plan, contenders: &[Contender; 2], runtime: &Runtime) -> Result<Occasions> {
    let servers = [contenders[0].start(&[])?, contenders[1].start(&[])?];
    let mut occasions = Occasions::default();
    // The first round is for Java, which compiles while it runs.
    for round in 0..=plan.rounds.max(1) {
        for (server, outcome) in servers.iter().zip([&mut occasions.apache, &mut occasions.zebu]) {
            let (storm, fan_out) = runtime.block_on(burst(plan, server))?;
            if round > 0 {
                outcome.storms.push(storm);
                outcome.fan_outs.push(fan_out);
            }
        }
        if round > 0 {
            occasions.bare_sends_ms.push(super::bare_sends::measure(plan.watchers, CHANGES)?);
        }
    }
    // Idle sessions need a fresh server; earlier load would distort its memory.
    drop(servers);
    for _ in 0..plan.rounds.max(1) {
        for (contender, outcome) in contenders.iter().zip([&mut occasions.apache, &mut occasions.zebu]) {
            let server = contender.start(&[])?;
            let (addresses, processes) = ([server.address().to_string()], [process(&server)?]);
            let idle = zebu_bench::idle(&addresses, plan.idle_sessions, plan.idle, &processes);
            outcome.idle.push(runtime.block_on(idle)?);
        }
    }
    Ok(occasions)
}

async fn burst(plan: &Plan, server: &ServerProcess) -> Result<(StormReport, FanOutReport)> {
    let (addresses, processes) = ([server.address().to_string()], [process(server)?]);
    let storm = zebu_bench::storm(&addresses, plan.storm_sessions, &processes).await?;
    zebu_bench::prepare(&addresses[0], &Nodes::flat(WATCHED, 0), 0, |_| ()).await?;
    let fan_out = zebu_bench::fan_out(&addresses, WATCHED, plan.watchers, CHANGES, &processes).await?;
    Ok((storm, fan_out))
}

/// Ratios are so that more is better for Zebu.
pub(crate) fn table(occasions: &Occasions) -> Table {
    let Occasions { apache, zebu, bare_sends_ms } = occasions;
    let mut table = Table::new(["occasion", "figure", "Apache", "Zebu", "ratio", "sends alone"]);
    let mut row = |occasion: &str, what: &str, of: &dyn Fn(&Outcome) -> f64, alone: String| {
        let (apache, zebu) = (of(apache), of(zebu));
        let (occasion, what) = (occasion.to_owned(), what.to_owned());
        table.row([occasion, what, figure(apache), figure(zebu), ratio(apache, zebu), alone]);
    };
    let first = |of: &dyn Fn(&Outcome) -> Option<usize>| of(zebu).unwrap_or_default();
    let sessions = first(&|side| side.storms.first().map(|storm| storm.sessions));
    let storm = format!("{sessions} sessions connect at once");
    let nothing = || "-".to_owned();
    row(&storm, "ms until the last is there", &Outcome::storm_ms, nothing());
    let storm_cpu = |side: &Outcome| {
        median(side.storms.iter().flat_map(|storm| &storm.servers).map(|server| server.cpu_seconds * 1000.0))
    };
    row(&storm, "server CPU ms", &storm_cpu, nothing());
    let watchers = first(&|side| side.fan_outs.first().map(|fan_out| fan_out.watchers));
    let sends = figure(median(bare_sends_ms.iter().copied()));
    row(&format!("one change, {watchers} watchers"), "ms until all are told", &Outcome::fan_out_ms, sends);
    let sessions = first(&|side| side.idle.first().map(|idle| idle.sessions));
    let idle = format!("{sessions} idle sessions");
    row(&idle, "server CPU ms per second", &Outcome::idle_cpu_ms, nothing());
    row(&idle, "MiB more than without", &Outcome::idle_mib, nothing());
    table
}
