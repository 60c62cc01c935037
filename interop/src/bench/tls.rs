//! TLS on the client port of both servers in turn: CPU per request beside plain connections, and full
//! handshakes per CPU second for each version. Apache serves with Netty, its only way to TLS; clients show
//! certificates.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zebu_bench::{BenchServer, connects};
use zebu_client::{Tls, TlsConnector};
use zebu_testing::ServerProcess;
use zebu_testing::port::free_address;

use super::contender::{Contender, process};
use super::middle::median;
use super::side::Side;
use super::table::{Table, figure, ratio};
use super::target::Target;
use super::throughput::{Plan, Scenario, measure};

/// Kinds of requests.
const MIXES: [&str; 2] = ["get", "set"];

/// Sessions, and requests in flight per session.
const SHAPES: [(usize, usize); 2] = [(32, 32), (200, 1)];

/// Connections of one measurement of handshakes, and how many at a time.
const CONNECTIONS: usize = 3000;
const AT_ONCE: usize = 16;

/// Less CPU per request through TLS than Apache.
const REQUEST_FLOOR: f64 = 5.0;
/// More full handshakes per CPU second than Apache.
const HANDSHAKE_FLOOR: f64 = 2.0;

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Channel {
    Plain,
    Tls12,
    Tls13,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Channel::Plain => "plain",
            Channel::Tls12 => "TLSv1.2",
            Channel::Tls13 => "TLSv1.3",
        })
    }
}

/// Both servers under one load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestOutcome {
    mix: String,
    shape: (usize, usize),
    channel: Channel,
    apache: Side,
    zebu: Side,
}

/// CPU microseconds per connection with one word.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandshakeOutcome {
    channel: Channel,
    apache_us: f64,
    zebu_us: f64,
}

/// All of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TlsOutcome {
    requests: Vec<RequestOutcome>,
    handshakes: Vec<HandshakeOutcome>,
}

/// A server with both ports.
struct TlsTarget {
    server: ServerProcess,
    target: Target,
    secure: String,
    certificates: Certificates,
}

/// The files of `zebu cert`.
#[derive(Clone)]
struct Certificates {
    authority: PathBuf,
    server: PathBuf,
    client: PathBuf,
}

impl Certificates {
    fn make(zebu: &Path, home: &Path) -> Result<Certificates> {
        for words in [&["cert", "server"][..], &["cert", "client", "bench"]] {
            let made = Command::new(zebu).args(words).current_dir(home).output().context("run zebu cert")?;
            ensure!(made.status.success(), "{words:?}: {}", String::from_utf8_lossy(&made.stderr));
        }
        let file = |name: &str| home.join("zebu-certs").join(name);
        Ok(Certificates { authority: file("ca.pem"), server: file("server.pem"), client: file("bench.pem") })
    }

    fn connector(&self, versions: &str) -> Result<TlsConnector> {
        let tls = Tls::new().trust_file(&self.authority)?.key_store(&self.client, "")?;
        Ok(tls.protocols(versions)?.connector()?)
    }
}

impl TlsTarget {
    fn start(contender: &Contender, certificates: &Certificates) -> Result<TlsTarget> {
        let secure = free_address()?;
        let server = ServerProcess::launch(contender.launch.clone())
            .line(format!("secureClientPort={}", secure.port()))
            .line("secureClientPortAddress=127.0.0.1")
            // The connections that are counted ask for a word.
            .line("4lw.commands.whitelist=*")
            .line("serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
            .line("ssl.enabledProtocols=TLSv1.2,TLSv1.3")
            .line(format!("ssl.keyStore.location={}", certificates.server.display()))
            .line(format!("ssl.trustStore.location={}", certificates.authority.display()))
            .start()
            .with_context(|| format!("start {} with TLS", contender.name))?;
        let target = Target::standalone(&server)?;
        Ok(TlsTarget { server, target, secure: secure.to_string(), certificates: certificates.clone() })
    }

    fn bench_server(&self, channel: Channel) -> Result<BenchServer> {
        let versions = match channel {
            Channel::Plain => return Ok(self.server.address().to_string().into()),
            Channel::Tls12 => "TLSv1.2",
            Channel::Tls13 => "TLSv1.3",
        };
        let tls = Some(self.certificates.connector(versions)?);
        Ok(BenchServer { address: self.secure.clone(), tls, sasl: None })
    }
}

/// Measures requests, then handshakes, the servers in turn.
pub(crate) fn run(plan: &Plan, contenders: &[Contender; 2], runtime: &Runtime) -> Result<TlsOutcome> {
    let home = TempDir::new()?;
    let certificates = Certificates::make(&contenders[1].launch.program, home.path())?;
    let targets =
        [TlsTarget::start(&contenders[0], &certificates)?, TlsTarget::start(&contenders[1], &certificates)?];
    let mut requests = Vec::new();
    for mix in MIXES {
        for (sessions, in_flight) in SHAPES {
            for channel in [Channel::Plain, Channel::Tls13] {
                let scenario = Scenario::small(mix, sessions, in_flight);
                requests.push(request_outcome(plan, &scenario, channel, &targets, runtime)?);
            }
        }
    }
    let channels = [Channel::Plain, Channel::Tls12, Channel::Tls13];
    let handshakes = channels.into_iter().map(|channel| handshake_outcome(plan, channel, &targets, runtime));
    Ok(TlsOutcome { requests, handshakes: handshakes.collect::<Result<_>>()? })
}

fn request_outcome(
    plan: &Plan,
    scenario: &Scenario,
    channel: Channel,
    targets: &[TlsTarget; 2],
    runtime: &Runtime,
) -> Result<RequestOutcome> {
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..plan.rounds.max(1) {
        for (target, reports) in targets.iter().zip(&mut rounds) {
            // Java compiles while it runs.
            let warm_up = if round == 0 { plan.first_warm_up } else { plan.warm_up };
            let mut load = scenario.load(&target.target, warm_up, plan.duration);
            load.servers = vec![target.bench_server(channel)?];
            reports.push(measure(&load, runtime)?);
            target.target.purge()?;
        }
    }
    let [apache, zebu] = rounds.map(Side::of);
    println!(
        "{}, {} x {}, {channel}: CPU us/op {} and {}",
        scenario.mix,
        scenario.sessions,
        scenario.in_flight,
        figure(apache.cpu_us_per_operation),
        figure(zebu.cpu_us_per_operation)
    );
    let mix = scenario.mix.to_string();
    let mix = mix.strip_suffix("=1").unwrap_or(&mix).to_owned();
    Ok(RequestOutcome { mix, shape: (scenario.sessions, scenario.in_flight), channel, apache, zebu })
}

fn handshake_outcome(
    plan: &Plan,
    channel: Channel,
    targets: &[TlsTarget; 2],
    runtime: &Runtime,
) -> Result<HandshakeOutcome> {
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..=plan.rounds.max(1) {
        for (target, times) in targets.iter().zip(&mut rounds) {
            let server = target.bench_server(channel)?;
            let processes = [process(&target.server)?];
            let report = runtime.block_on(connects(&server, CONNECTIONS, AT_ONCE, &processes))?;
            // The first round warms Java up.
            if round > 0 {
                times.push(report.cpu_us_per_connection());
            }
        }
    }
    let [apache_us, zebu_us] = rounds.map(median);
    println!("{channel} connections: CPU us {} and {}", figure(apache_us), figure(zebu_us));
    Ok(HandshakeOutcome { channel, apache_us, zebu_us })
}

/// CPU per request.
pub(crate) fn request_table(outcome: &TlsOutcome) -> Table {
    let mut table =
        Table::new(["load", "sessions", "channel", "CPU us/op Apache", "Zebu", "ratio", "floor", "errors"]);
    for RequestOutcome { mix, shape: (sessions, in_flight), channel, apache, zebu } in &outcome.requests {
        let floor = if *channel == Channel::Plain { String::new() } else { format!("{REQUEST_FLOOR}") };
        table.row([
            mix.clone(),
            format!("{sessions} x {in_flight}"),
            channel.to_string(),
            figure(apache.cpu_us_per_operation),
            figure(zebu.cpu_us_per_operation),
            ratio(apache.cpu_us_per_operation, zebu.cpu_us_per_operation),
            floor,
            (apache.errors + zebu.errors).to_string(),
        ]);
    }
    table
}

/// Connections per CPU second: accept, handshake, one word, close.
pub(crate) fn handshake_table(outcome: &TlsOutcome) -> Table {
    let mut table = Table::new(["channel", "connections/CPU s Apache", "Zebu", "ratio", "floor"]);
    for HandshakeOutcome { channel, apache_us, zebu_us } in &outcome.handshakes {
        let floor = if *channel == Channel::Plain { String::new() } else { format!("{HANDSHAKE_FLOOR}") };
        table.row([
            channel.to_string(),
            format!("{:.0}", 1e6 / apache_us),
            format!("{:.0}", 1e6 / zebu_us),
            ratio(*apache_us, *zebu_us),
            floor,
        ]);
    }
    table
}
