//! `netlab`: ensembles on hosts of their own, in network namespaces, with two kinds of addresses, links that
//! fail in the ways of real networks, and machines that fill up, pause and run out of descriptors. Each
//! scenario is a test. The command starts itself again in namespaces of its own, so that nothing of it can
//! stay: it needs root.

pub(crate) mod clocks;
mod disks;
mod dual_stack;
pub(crate) mod fleet;
pub(crate) mod lab;
mod links;
mod machines;
pub(crate) mod preloaded;
mod room;
mod slow_snapshot;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use zebu_testing::Launch;

use self::fleet::Fleet;
use self::lab::Lab;
use crate::apache::Edition;
use crate::outcome::{self, Ending};

/// Says that the command runs in its own namespaces.
const INSIDE: &str = "ZEBU_NETLAB_INSIDE";

/// Hosts of the lab.
pub(crate) const HOSTS: u8 = 3;

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

/// The arguments of a scenario.
struct Bench<'a> {
    lab: &'a Lab,
    home: &'a Path,
    /// One for each host, in order.
    launches: Vec<Launch>,
    /// The number of the server that is Apache ZooKeeper beside those under test.
    apache: Option<u8>,
    nodes: usize,
}

impl Bench<'_> {
    /// How each server is started.
    fn launches(&self) -> Vec<Launch> {
        self.launches.clone()
    }

    /// Starts all servers. An Apache server that is to lead is the slowest to start: one other server waits
    /// for it.
    fn start(&self, fleet: &mut Fleet) -> Result<()> {
        if self.apache != Some(HOSTS) {
            return fleet.start_all();
        }
        fleet.start_first(&[1, HOSTS])?;
        ensure!(fleet.leader()? == HOSTS, "the Apache server does not lead");
        Ok(())
    }
}

/// When a scenario runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// With `--full` only: it takes long, or an Apache server.
    Full,
}

/// The servers of an ensemble. Of servers with equal logs the one with the largest id leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Servers {
    /// All are those under test.
    Tested,
    /// Server 3 is Apache ZooKeeper 3.9 and leads at first.
    ApacheLeads,
    /// Server 1 is Apache ZooKeeper 3.9 and follows at first.
    ApacheFollows,
}

impl Servers {
    /// The number of the Apache server among them.
    fn apache(self) -> Option<u8> {
        match self {
            Servers::Tested => None,
            Servers::ApacheLeads => Some(HOSTS),
            Servers::ApacheFollows => Some(1),
        }
    }

    fn launches(self, tested: &Launch) -> Result<Vec<Launch>> {
        let mut launches = vec![tested.clone(); usize::from(HOSTS)];
        if let Some(number) = self.apache() {
            launches[usize::from(number) - 1] = Edition::parse("latest").launch()?;
        }
        Ok(launches)
    }
}

type Scenario = (&'static str, When, Servers, fn(&Bench) -> Result<String>);

const SCENARIOS: [Scenario; 28] = {
    use Servers::{ApacheFollows, ApacheLeads, Tested};
    use When::{Always, Full};
    [
        ("names with two kinds of addresses", Always, Tested, dual_stack::both_kinds),
        ("IPv6 alone, on all addresses", Full, Tested, dual_stack::six_on_all),
        ("several addresses for each server", Full, Tested, dual_stack::several_addresses),
        ("names with two kinds of addresses, Apache leads", Full, ApacheLeads, dual_stack::with_apache),
        ("names with two kinds of addresses, Apache follows", Full, ApacheFollows, dual_stack::with_apache),
        ("forgotten election connections", Always, Tested, links::forgotten_elections),
        ("forgotten election connections, Apache leads", Full, ApacheLeads, links::forgotten_elections),
        ("forgotten election connections, Apache follows", Full, ApacheFollows, links::forgotten_elections),
        ("a follower behind a firewall", Always, Tested, links::isolated_follower),
        ("a follower behind a firewall, Apache leads", Full, ApacheLeads, links::isolated_follower),
        ("a follower behind a firewall, Apache follows", Full, ApacheFollows, links::isolated_follower),
        ("a leader that hears nothing", Always, Tested, links::deaf_leader),
        ("a leader that hears nothing, Apache leads", Full, ApacheLeads, links::deaf_leader),
        ("a leader that hears nothing, Apache follows", Full, ApacheFollows, links::deaf_leader),
        ("a leader that is not heard", Full, Tested, links::mute_leader),
        ("a leader that is not heard, Apache leads", Full, ApacheLeads, links::mute_leader),
        ("a leader that is not heard, Apache follows", Full, ApacheFollows, links::mute_leader),
        ("a lossy link", Full, Tested, links::lossy),
        ("a full disk", Always, Tested, disks::full),
        ("little room on one disk after the other", Full, Tested, room::in_turn),
        ("little room on all disks", Full, Tested, room::on_all),
        ("a slow disk at a follower", Full, Tested, disks::slow_at_follower),
        ("a slow disk at the leader", Full, Tested, disks::slow_at_leader),
        ("a stopped leader", Full, Tested, machines::stopped_leader),
        ("a stopped leader with a stopped clock", Always, Tested, clocks::frozen_leader),
        ("few descriptors and silent strangers", Always, Tested, machines::few_descriptors),
        ("a machine that vanishes", Full, Tested, machines::vanished),
        ("a snapshot over a slow link", Full, Tested, slow_snapshot::run),
    ]
};

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    if !is_inside() {
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
    for (name, when, servers, scenario) in SCENARIOS {
        let wanted = arguments
            .only
            .as_ref()
            .map_or(arguments.full || when == When::Always, |text| name.contains(text));
        if !wanted {
            continue;
        }
        lab.heal()?;
        let started = Instant::now();
        let launches = servers.launches(&launch)?;
        let (home, apache) = (home.path(), servers.apache());
        let bench = Bench { lab: &lab, home, launches, apache, nodes: arguments.nodes };
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

/// Whether this program runs in namespaces of its own.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Starts this program again in a network, a file system and a process table of its own. All end with it.
pub(crate) fn enter() -> Result<Ending> {
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
