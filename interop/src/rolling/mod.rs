//! Rolling restarts of three servers under load. Each client stays at one server. When another server stops,
//! the leader included, Zebu closes none of its connections, and loses and doubles no write. A Rust client
//! that knows all servers sees no failure at all, if they are asked to stop.

mod account;
mod client;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use zebu_client::Client;
use zebu_testing::Launch;

use crate::apache::Edition;
use crate::bench::{Table, median};
use crate::outcome::{self, Ending};
use crate::trio::{SERVERS, Trio};
use account::Account;
use client::{RollingClient, RollingKind};

/// The parent of all nodes.
const TOP: &str = "/rolling";

/// How long clients write between two restarts.
const STAY: Duration = Duration::from_millis(1500);

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary
    #[arg(long, value_name = "PATH")]
    zebu: PathBuf,
    /// The Apache ZooKeeper whose Java client writes: `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// Servers; the suite has three
    #[arg(long, default_value_t = SERVERS, value_parser = three)]
    servers: usize,
    /// How often each server is restarted
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Kinds of clients; each server gets one of each kind, and `moving` knows all servers
    #[arg(long, value_delimiter = ',', default_value = "rust,moving,java,curator,kazoo,go")]
    clients: Vec<RollingKind>,
    /// Restart only the leader, this often, instead of every server
    #[arg(long, value_name = "TIMES")]
    leaders: Option<usize>,
    /// Kill servers with SIGKILL instead of SIGTERM
    #[arg(long)]
    kill: bool,
    /// Run the same with servers of Apache ZooKeeper first, where closed connections are only counted
    #[arg(long)]
    compare: bool,
}

fn three(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(SERVERS) => Ok(SERVERS),
        Ok(_) | Err(_) => Err(format!("the suite has {SERVERS} servers")),
    }
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let zebu = Launch::zebu(arguments.zebu.canonicalize().context("no zebu binary there")?);
    let edition = Edition::parse(&arguments.apache);
    let runtime = tokio::runtime::Runtime::new()?;
    if arguments.compare {
        let apache = edition.launch()?;
        let mut trio = Trio::new([apache.clone(), apache.clone(), apache], "")?;
        trio.start_all()?;
        println!("{} servers:", edition.version());
        roll(&mut trio, arguments, &edition, &runtime)?;
        println!("Zebu servers:");
    }
    let mut trio = Trio::new([zebu.clone(), zebu.clone(), zebu], "")?;
    trio.start_all()?;
    let result = roll(&mut trio, arguments, &edition, &runtime).and_then(|outcome| outcome.judge(arguments));
    Ok(match result {
        Ok(()) => outcome::ok("rolling restarts"),
        Err(fault) => outcome::not_ok("rolling restarts", &fault),
    })
}

/// What the clients of one ensemble saw.
#[derive(Default)]
struct RollingOutcome {
    /// Connections that were lost at servers that were not restarted.
    closed: usize,
    /// Longest pauses of writers while a server that was not theirs led and ended.
    pauses: BTreeMap<String, Vec<Duration>>,
    /// The clients that knew all servers.
    moving: Vec<Account>,
}

impl RollingOutcome {
    fn judge(&self, arguments: &Arguments) -> Result<()> {
        ensure!(
            self.closed == 0,
            "{} connections were closed on servers that were not restarted",
            self.closed
        );
        for account in self.moving.iter().filter(|_| !arguments.kill) {
            let (lost, unknown) = (account.lost, account.unknown.len());
            ensure!(
                lost == 0 && unknown == 0,
                "a client that can move lost {lost} connections, and {unknown} of its writes failed"
            );
        }
        Ok(())
    }

    fn print_pauses(&self) {
        let mut table = Table::new(["client", "ends of a leader", "median pause ms", "longest pause ms"]);
        for (kind, pauses) in &self.pauses {
            let millis = || pauses.iter().map(|pause| pause.as_secs_f64() * 1000.0);
            table.row([
                kind.clone(),
                pauses.len().to_string(),
                format!("{:.0}", median(millis())),
                format!("{:.0}", millis().fold(0.0, f64::max)),
            ]);
        }
        print!("{table}");
    }
}

fn roll(
    trio: &mut Trio,
    arguments: &Arguments,
    edition: &Edition,
    runtime: &tokio::runtime::Runtime,
) -> Result<RollingOutcome> {
    let servers = trio.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    runtime.block_on(async {
        let client = Client::connect(&servers).await?;
        client.create(TOP).await?;
        client.close().await?;
        anyhow::Ok(())
    })?;
    let clients = start_clients(trio, arguments, edition, runtime)?;
    std::thread::sleep(STAY);
    let mut outcome = RollingOutcome::default();
    let restarts = match arguments.leaders {
        Some(times) => times,
        None => arguments.rounds * SERVERS,
    };
    for number in 1..=restarts {
        for (_, client) in &clients {
            // The pause of a client whose own server was restarted is none of the next restart.
            client.await_progress(client.written())?;
            client.take_longest_pause();
        }
        let leader = trio.leader()?;
        let server = if arguments.leaders.is_some() { leader } else { (number - 1) % SERVERS };
        outcome.closed += restart(trio, server, arguments.kill, &clients)
            .with_context(|| format!("restart {number}, server {}", server + 1))?;
        let role = if server == leader { "leader" } else { "follower" };
        println!(
            "restart {number} of {restarts}: server {} ({role}); closed elsewhere so far: {}",
            server + 1,
            outcome.closed
        );
        for (at, client) in &clients {
            let pause = client.take_longest_pause();
            if server == leader && at.is_some_and(|at| at != server) {
                outcome.pauses.entry(client.kind.to_string()).or_default().push(pause);
            }
        }
    }
    let kinds: Vec<RollingKind> = clients.iter().map(|(_, client)| client.kind).collect();
    let accounts: Vec<_> = clients.into_iter().map(|(_, client)| client.finish()).collect::<Result<_>>()?;
    check_tree(trio, &accounts, runtime)?;
    outcome.print_pauses();
    let moving = |(kind, account)| (kind == RollingKind::Moving).then_some(account);
    outcome.moving = kinds.into_iter().zip(accounts).filter_map(moving).collect();
    Ok(outcome)
}

/// Starts the clients, each with the server at which it stays.
fn start_clients(
    trio: &Trio,
    arguments: &Arguments,
    edition: &Edition,
    runtime: &tokio::runtime::Runtime,
) -> Result<Vec<(Option<usize>, RollingClient)>> {
    let mut clients = Vec::new();
    for &kind in &arguments.clients {
        if kind == RollingKind::Moving {
            let prefix = format!("{TOP}/{kind}");
            clients.push((None, RollingClient::start(kind, &trio.addresses(), &prefix, edition, runtime)?));
            continue;
        }
        for server in 0..SERVERS {
            let prefix = format!("{TOP}/{kind}{server}");
            let address = [trio.address(server)];
            clients.push((Some(server), RollingClient::start(kind, &address, &prefix, edition, runtime)?));
        }
    }
    Ok(clients)
}

/// Every server has what the clients know of their writes.
fn check_tree(trio: &Trio, accounts: &[Account], runtime: &tokio::runtime::Runtime) -> Result<()> {
    let mut table = Table::new(["client", "written", "unknown", "connections lost"]);
    for account in accounts {
        table.row([
            account.prefix.clone(),
            account.written.len().to_string(),
            account.unknown.len().to_string(),
            account.lost.to_string(),
        ]);
    }
    print!("{table}");
    for server in 0..SERVERS {
        let address = trio.address(server).to_string();
        let names: BTreeSet<String> = runtime.block_on(async {
            let client = Client::connect(&address).await?;
            client.sync("/").await?;
            let names = client.children(TOP).await?.names.iter().map(|name| name.to_string()).collect();
            client.close().await?;
            anyhow::Ok(names)
        })?;
        for account in accounts {
            account.check(TOP, &names).with_context(|| format!("at server {}", server + 1))?;
        }
    }
    Ok(())
}

/// Restarts a server. Returns how many connections the clients of other servers have lost.
fn restart(
    trio: &mut Trio,
    server: usize,
    kill: bool,
    clients: &[(Option<usize>, RollingClient)],
) -> Result<usize> {
    let others =
        || clients.iter().filter(|(at, _)| at.is_some_and(|at| at != server)).map(|(_, client)| client);
    let lost_before: usize = others().map(RollingClient::lost).sum();
    let before: Vec<usize> = others().map(RollingClient::written).collect();
    if kill {
        trio.kill(server)?;
    } else {
        trio.terminate(server)?;
    }
    trio.reap(server)?;
    trio.start(server)?;
    trio.await_service()?;
    std::thread::sleep(STAY);
    for (client, before) in others().zip(before) {
        client.await_progress(before)?;
    }
    let lost: usize = others().map(RollingClient::lost).sum();
    Ok(lost - lost_before)
}
