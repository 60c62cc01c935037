//! `zebu bench`: load for a server, and what it cost.

use std::fmt::Display;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use zebu_bench::{BenchError, BenchServer, Load, Mix, Nodes, Pace, Progress};

use crate::console::{print_error, print_line};
use crate::protection::ProtectionArguments;

/// Send load to a server and report operations, latencies and the server's CPU time
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  zebu bench                                        reads from 127.0.0.1:2181 for ten seconds
  zebu bench --mix get=9,set=1 --sessions 50 --in-flight 20
  zebu bench --mix set --size 1024 --pid 4711 --json
  zebu bench --mix set --rate 2000                  latency from when each request was due
  zebu bench --server zk1:2181 --server zk2:2181    sessions are spread over both
  zebu bench storm --sessions 2000                  all sessions connect at once
  zebu bench fan-out --watchers 1000                one change that many wait for
  zebu bench idle --sessions 1000 --pid 4711        what sessions cost that do nothing
  zebu bench --tls-ca ca.pem --tls-cert me.pem --server localhost:2281

Everything happens below --root (default /zebu-bench), which stays there afterwards. Never point it at a
server that others depend on."
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    occasion: Option<Occasion>,

    #[command(flatten)]
    target: Target,

    /// Sessions, each with a connection of its own
    #[arg(long, default_value_t = 16)]
    sessions: usize,

    /// Requests that each session keeps in flight
    #[arg(long, default_value_t = 16)]
    in_flight: usize,

    /// Requests per second of all sessions together, sent whether or not answers come
    #[arg(long, conflicts_with = "in_flight")]
    rate: Option<u32>,

    /// Operations and their weights: get, linear-get, exists, children, set, create, ephemeral, multi,
    /// multi-read, ping, sync
    #[arg(long, default_value = "get")]
    mix: Mix,

    /// Bytes of data per node
    #[arg(long, default_value_t = 100)]
    size: usize,

    /// Bytes of a node's last name; the path is --root, a slash and the name
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(8..=1024))]
    name_size: u16,

    /// Nodes that are used
    #[arg(long, default_value_t = 1000)]
    nodes: usize,

    /// Node under which everything happens
    #[arg(long, default_value = "/zebu-bench")]
    root: String,

    /// Seconds before the measurement
    #[arg(long, default_value_t = 2)]
    warm_up: u64,

    /// Seconds of the measurement
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// The servers to measure and the format of the report.
#[derive(Debug, Args)]
struct Target {
    /// Server to load; may be given several times
    #[arg(long = "server", value_name = "HOST:PORT", default_value = "127.0.0.1:2181")]
    servers: Vec<String>,

    /// Server process on this machine whose CPU and memory are reported; may be given several times
    #[arg(long = "pid")]
    processes: Vec<u32>,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    protection: ProtectionArguments,
}

/// Things that happen to a server besides steady load.
#[derive(Debug, Subcommand)]
enum Occasion {
    /// Open many sessions at once, and say how long it took until the last was there
    #[command(after_help = "\
Examples:
  zebu bench storm                                  2,000 sessions on 127.0.0.1:2181
  zebu bench storm --sessions 500 --server zk1:2181 --server zk2:2181")]
    Storm {
        #[command(flatten)]
        target: Target,
        /// Sessions that connect at the same moment
        #[arg(long, default_value_t = 2000)]
        sessions: usize,
    },
    /// Change a node that many sessions watch, and say how long it took until the last was told
    #[command(after_help = "\
Examples:
  zebu bench fan-out                                1,000 sessions watch /zebu-bench
  zebu bench fan-out --watchers 5000 --rounds 5 --json")]
    FanOut {
        #[command(flatten)]
        target: Target,
        /// Sessions that watch the node
        #[arg(long, default_value_t = 1000)]
        watchers: usize,
        /// How often the node is changed
        #[arg(long, default_value_t = 20)]
        rounds: usize,
        /// The node; it is created
        #[arg(long, default_value = "/zebu-bench")]
        root: String,
    },
    /// Keep sessions that do nothing but ping, and say what they cost
    #[command(after_help = "\
Examples:
  zebu bench idle --pid 4711                        1,000 sessions for half a minute
  zebu bench idle --sessions 10000 --seconds 60 --pid 4711 --json")]
    Idle {
        #[command(flatten)]
        target: Target,
        /// Sessions
        #[arg(long, default_value_t = 1000)]
        sessions: usize,
        /// How long they stay
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
}

impl Bench {
    /// Runs the load.
    pub(crate) fn run(self) -> ExitCode {
        match self.measure() {
            Ok(text) => {
                print_line(text.trim_end());
                ExitCode::SUCCESS
            }
            Err(why) => {
                print_error(why);
                ExitCode::FAILURE
            }
        }
    }

    fn measure(mut self) -> Result<String, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the load cannot be started: {error}"))?;
        match self.occasion.take() {
            None => runtime.block_on(self.load()),
            Some(occasion) => runtime.block_on(occasion.measure()),
        }
    }

    async fn load(self) -> Result<String, String> {
        let load = Load {
            servers: self.target.servers()?,
            sessions: self.sessions,
            pace: self.rate.map_or(Pace::InFlight(self.in_flight), Pace::PerSecond),
            mix: self.mix,
            data_bytes: self.size,
            nodes: Nodes::flat(self.root, self.nodes).named(self.name_size.into()),
            warm_up: Duration::from_secs(self.warm_up),
            duration: Duration::from_secs(self.seconds),
            processes: self.target.processes.clone(),
        };
        let bar = progress_bar(load.warm_up + load.duration);
        if let Some(server) = load.servers.first() {
            let prepared = zebu_bench::prepare(server, &load.nodes, load.data_bytes, |_| ()).await;
            prepared.map_err(|error| error.to_string())?;
        }
        let mut before = 0;
        let report = zebu_bench::run(&load, |progress| {
            show(&bar, progress, progress.replies - before);
            before = progress.replies;
        })
        .await;
        bar.finish_and_clear();
        self.target.tell(report)
    }
}

impl Occasion {
    async fn measure(self) -> Result<String, String> {
        match self {
            Occasion::Storm { target, sessions } => {
                let report = zebu_bench::storm(&target.servers()?, sessions, &target.processes).await;
                target.tell(report)
            }
            Occasion::FanOut { target, watchers, rounds, root } => {
                let servers = target.servers()?;
                if let Some(server) = servers.first() {
                    let prepared = zebu_bench::prepare(server, &Nodes::flat(&root, 0), 0, |_| ()).await;
                    prepared.map_err(|error| error.to_string())?;
                }
                let report = zebu_bench::fan_out(&servers, &root, watchers, rounds, &target.processes).await;
                target.tell(report)
            }
            Occasion::Idle { target, sessions, seconds } => {
                let duration = Duration::from_secs(seconds);
                let report =
                    zebu_bench::idle(&target.servers()?, sessions, duration, &target.processes).await;
                target.tell(report)
            }
        }
    }
}

impl Target {
    /// The servers, with TLS and SASL if they were asked for.
    fn servers(&self) -> Result<Vec<BenchServer>, String> {
        let protection = self.protection.open().map_err(|error| error.to_string())?;
        protection.notes.iter().for_each(print_error);
        let server = |address: &String| BenchServer {
            address: address.clone(),
            tls: protection.tls.clone(),
            sasl: protection.sasl.clone(),
        };
        Ok(self.servers.iter().map(server).collect())
    }

    /// The report in the form that was asked for.
    fn tell<R: Serialize + Display>(&self, report: Result<R, BenchError>) -> Result<String, String> {
        let report = report.map_err(|error| error.to_string())?;
        if self.json {
            serde_json::to_string_pretty(&report).map_err(|error| error.to_string())
        } else {
            Ok(report.to_string())
        }
    }
}

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(total: Duration) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} s, {msg}").expect("the template is right");
    ProgressBar::new(total.as_secs()).with_style(style)
}

/// `news` are the replies since the last call, about a second ago.
fn show(bar: &ProgressBar, progress: Progress, news: u64) {
    bar.set_position(progress.elapsed.as_secs());
    bar.set_message(format!("{news} replies in the last second, {} in all", progress.replies));
}
