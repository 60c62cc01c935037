//! `netlab`: ensembles on hosts of their own, in network namespaces, with two kinds of addresses, links that fail in the
//! ways of real networks, and machines that fill up, pause and run out of descriptors. Each scenario is a test.
//! The command starts itself again in namespaces of its own, so that nothing of it can stay: it needs root.

mod dual_stack;
mod fleet;
mod lab;
mod links;
mod machines;
mod slow_snapshot;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use zebu_testing::Launch;

use self::lab::Lab;
use crate::apache::Edition;
use crate::outcome::{self, Ending};

/// Says that the command runs in its own namespaces.
const INSIDE: &str = "ZEBU_NETLAB_INSIDE";

/// Hosts of the lab.
const HOSTS: u8 = 3;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary to test; without it the scenarios run with Apache servers
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The long scenarios too
    #[arg(long)]
    full: bool,
    /// Nodes of the tree that crosses a slow link
    #[arg(long, default_value_t = 1_000_000)]
    nodes: usize,
}

/// What a scenario gets.
struct Bench<'a> {
    lab: &'a Lab,
    home: &'a Path,
    launch: Launch,
    nodes: usize,
}

impl Bench<'_> {
    /// Servers that are all the ones under test.
    fn launches(&self) -> Vec<Launch> {
        vec![self.launch.clone(); usize::from(HOSTS)]
    }
}

/// When a scenario runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// With `--full` only: it takes minutes, or an Apache server.
    Full,
}

type Scenario = (&'static str, When, fn(&Bench) -> Result<String>);

const SCENARIOS: [Scenario; 14] = [
    ("names with two kinds of addresses", When::Always, dual_stack::both_kinds),
    ("IPv6 alone, on all addresses", When::Always, dual_stack::six_on_all),
    ("several addresses for each server", When::Always, dual_stack::several_addresses),
    ("names with two kinds of addresses, with Apache", When::Full, dual_stack::with_apache),
    ("forgotten election connections", When::Always, links::forgotten_elections),
    ("a follower behind a firewall", When::Always, links::isolated_follower),
    ("a leader that hears nothing", When::Always, links::deaf_leader),
    ("a leader that is not heard", When::Full, links::mute_leader),
    ("a lossy link", When::Full, links::lossy),
    ("a full disk", When::Always, machines::full_disk),
    ("a stopped leader", When::Always, machines::stopped_leader),
    ("few descriptors and silent strangers", When::Always, machines::few_descriptors),
    ("a machine that vanishes", When::Full, machines::vanished),
    ("a snapshot over a slow link", When::Full, slow_snapshot::run),
];

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    if std::env::var_os(INSIDE).is_none() {
        // Fetched here if it is missing: the lab has no way out.
        Edition::parse("latest").launch()?;
        return enter();
    }
    let launch = match &arguments.zebu {
        Some(binary) => Launch::zebu(binary.canonicalize()?),
        None => Edition::parse("latest").launch()?,
    };
    let home = tempfile::Builder::new().prefix("zebu-netlab").tempdir()?;
    let lab = Lab::new(HOSTS, home.path())?;
    let mut ending = Ending::Good;
    for (name, when, scenario) in SCENARIOS {
        let wanted = arguments
            .only
            .as_ref()
            .map_or(arguments.full || when == When::Always, |text| name.contains(text));
        if !wanted {
            continue;
        }
        lab.heal()?;
        let started = Instant::now();
        let bench = Bench { lab: &lab, home: home.path(), launch: launch.clone(), nodes: arguments.nodes };
        match scenario(&bench) {
            Ok(seen) => {
                println!("{name}: {seen} ({:.1?} in all)", started.elapsed());
                outcome::ok(name);
            }
            Err(fault) => ending = outcome::not_ok(name, &fault),
        }
    }
    Ok(ending)
}

/// Starts this program again in a network, a file system and a process table of its own. All end with it.
fn enter() -> Result<Ending> {
    let program = std::env::current_exe()?;
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    command.arg(program).args(std::env::args_os().skip(1)).env(INSIDE, "yes");
    let status =
        command.process_group(0).status().context("cannot run unshare, of the package util-linux")?;
    ensure!(status.code().is_some(), "the lab was ended by a signal");
    Ok(if status.success() { Ending::Good } else { Ending::Bad })
}
