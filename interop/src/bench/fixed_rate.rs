//! Latency where both servers have the same to do: half of what Apache can at most, sent whether or not
//! answers come, and beside it what the disk takes for a write alone.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use zebu_bench::Pace;

use super::bare_sync::{self, BareSync};
use super::contender::Contender;
use super::middle::median;
use super::pauses::{self, Pauses};
use super::side::Side;
use super::table::{Table, figure, ratio};
use super::target::Target;
use super::throughput::{Plan, Scenario, measure};

/// The measured kinds of requests.
const MIXES: [&str; 2] = ["get", "set"];

/// Sessions that share the rate.
const SESSIONS: usize = 8;

/// How often and how long the disk is asked alone.
const BARE: Duration = Duration::from_secs(2);

/// Both servers at one rate.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) mix: String,
    pub(crate) apache_at_most: f64,
    pub(crate) rate: u32,
    pub(crate) apache: Side,
    pub(crate) zebu: Side,
    /// Once before each round.
    pub(crate) bare: Vec<BareSync>,
    /// Once before each round.
    #[serde(default)]
    pub(crate) pauses: Vec<Pauses>,
}

impl Outcome {
    pub(crate) fn bare_p50_us(&self) -> f64 {
        median(self.bare.iter().map(|bare| bare.p50_us))
    }

    pub(crate) fn bare_p99_us(&self) -> f64 {
        median(self.bare.iter().map(|bare| bare.p99_us))
    }
}

/// Alternates the servers, standalone, after Apache has shown what it can.
pub(crate) fn run(plan: &Plan, contenders: &[Contender; 2], runtime: &Runtime) -> Result<Vec<Outcome>> {
    let servers = [contenders[0].start(&[])?, contenders[1].start(&[])?];
    let targets = [Target::standalone(&servers[0])?, Target::standalone(&servers[1])?];
    let mut outcomes = Vec::new();
    for mix in MIXES {
        let scenario = Scenario::small(mix, SESSIONS, 1);
        let most = Scenario::small(mix, 32, 32).load(&targets[0], plan.first_warm_up, plan.duration);
        let apache_at_most = measure(&most, runtime)?.operations_per_second;
        let rate = (apache_at_most / 2.0).max(1.0) as u32;
        println!("{mix}: Apache does {apache_at_most:.0} a second at most, both get {rate}");
        let (mut rounds, mut bare, mut pauses) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
        for _ in 0..plan.rounds.max(1) {
            bare.push(bare_sync::measure(BARE)?);
            pauses.push(pauses::measure(BARE));
            for (target, reports) in targets.iter().zip(&mut rounds) {
                let mut load = scenario.load(target, plan.warm_up, plan.duration);
                load.pace = Pace::PerSecond(rate);
                reports.push(measure(&load, runtime)?);
            }
        }
        let [apache, zebu] = rounds.map(Side::of);
        outcomes.push(Outcome { mix: mix.to_owned(), apache_at_most, rate, apache, zebu, bare, pauses });
    }
    Ok(outcomes)
}

/// Latencies in milliseconds, from when each request was due.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "load",
        "rate/s",
        "p50 ms Apache",
        "Zebu",
        "ratio",
        "p99 ms Apache",
        "Zebu",
        "ratio",
        "p99 ms, worst second, Apache",
        "Zebu",
        "fdatasync alone p50 ms",
        "p99 ms",
        "CPU us",
        "machine stands still",
        "longest ms",
    ]);
    for outcome in outcomes {
        let Outcome { mix, rate, apache, zebu, .. } = outcome;
        let ms = |us: f64| figure(us / 1000.0);
        table.row([
            mix.clone(),
            rate.to_string(),
            ms(apache.p50_us),
            ms(zebu.p50_us),
            ratio(apache.p50_us, zebu.p50_us),
            ms(apache.p99_us),
            ms(zebu.p99_us),
            ratio(apache.p99_us, zebu.p99_us),
            ms(apache.worst_second_p99_us),
            ms(zebu.worst_second_p99_us),
            ms(outcome.bare_p50_us()),
            ms(outcome.bare_p99_us()),
            figure(median(outcome.bare.iter().map(|bare| bare.cpu_us))),
            format!("{:.2} %", 100.0 * median(outcome.pauses.iter().map(|pauses| pauses.share))),
            figure(median(outcome.pauses.iter().map(|pauses| pauses.longest_ms))),
        ]);
    }
    table
}
