//! How close Zebu is to a server that does nothing: the same load on both, in turn.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use zebu_bench::{Load, Mix, Nodes, Pace, Report};

use super::contender::{Contender, process};
use super::middle::median;
use super::table::{Table, figure, percent};

/// What a get of 100 bytes is answered with behind the header: a length, the data, a stat.
const REPLY_BYTES: usize = 4 + 100 + 68;

/// Sessions and requests in flight.
const SHAPES: [(usize, usize); 2] = [(32, 32), (1, 1)];

/// Answers every frame with a constant, until its input ends.
pub(crate) fn serve() -> Result<()> {
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
        tokio::select! {
            served = zebu_bench::serve_echo(listener, REPLY_BYTES) => Ok(served?),
            _ = ended => Ok(()),
        }
    })
}

/// The server that does nothing, in a process of its own so that its CPU can be told.
struct Echo {
    child: Child,
    address: String,
}

impl Echo {
    fn start() -> Result<Echo> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the echo server")?;
        let output = child.stdout.take().context("the echo server has no output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address)?;
        Ok(Echo { child, address: address.trim().to_owned() })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Both servers under one load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    sessions: usize,
    pub(crate) in_flight: usize,
    echo: Vec<Report>,
    zebu: Vec<Report>,
}

impl Outcome {
    /// Operations per CPU-second, as a part of what the echo server has.
    pub(crate) fn share(&self) -> f64 {
        cpu(&self.echo) / cpu(&self.zebu).max(1e-9)
    }

    /// The median latency of the echo server in microseconds.
    pub(crate) fn echo_p50_us(&self) -> f64 {
        p50(&self.echo)
    }
}

fn cpu(rounds: &[Report]) -> f64 {
    median(rounds.iter().filter_map(|report| report.cpu_us_per_operation))
}

fn p50(rounds: &[Report]) -> f64 {
    median(rounds.iter().map(|report| report.latency_us.p50 as f64))
}

/// Gets of 100 bytes on the echo server and on Zebu, in turn.
pub(crate) fn run(
    zebu: &Contender,
    rounds: usize,
    duration: Duration,
    runtime: &Runtime,
) -> Result<Vec<Outcome>> {
    let (echo, zebu) = (Echo::start()?, zebu.start(&[])?);
    let targets = [(echo.address.clone(), echo.child.id()), (zebu.address().to_string(), process(&zebu)?)];
    let mut outcomes = Vec::new();
    for (sessions, in_flight) in SHAPES {
        let mut reports = [Vec::new(), Vec::new()];
        for _ in 0..rounds.max(1) {
            for ((address, process), reports) in targets.iter().zip(&mut reports) {
                let load = Load {
                    servers: vec![address.clone().into()],
                    sessions,
                    pace: Pace::InFlight(in_flight),
                    mix: "get".parse::<Mix>()?,
                    data_bytes: 100,
                    nodes: Nodes::flat("/zebu-bench", 1000),
                    warm_up: Duration::from_secs(1),
                    duration,
                    processes: vec![*process],
                };
                reports.push(runtime.block_on(async {
                    zebu_bench::prepare(address, &load.nodes, load.data_bytes, |_| ()).await?;
                    zebu_bench::run(&load, |_| ()).await
                })?);
            }
        }
        let [echo, zebu] = reports;
        outcomes.push(Outcome { sessions, in_flight, echo, zebu });
    }
    Ok(outcomes)
}

/// The share of the ceiling that was reached.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "get, 100 bytes",
        "CPU us/op echo",
        "Zebu",
        "share of the ceiling",
        "p50 us echo",
        "Zebu",
    ]);
    for outcome in outcomes {
        let Outcome { sessions, in_flight, echo, zebu } = outcome;
        table.row([
            format!("{sessions} x {in_flight}"),
            figure(cpu(echo)),
            figure(cpu(zebu)),
            percent(outcome.share()),
            figure(p50(echo)),
            figure(p50(zebu)),
        ]);
    }
    table
}
