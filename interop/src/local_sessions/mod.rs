//! Local sessions in ensembles of Zebu, of Apache ZooKeeper and of both: the same steps at every server, and
//! the same results wanted from all of them.

mod home;
mod loss;
mod steps;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use zebu_testing::Launch;

use crate::apache::Edition;
use crate::client::Client;
use crate::outcome::{self, Ending};
use crate::trio::{SERVERS, Trio};
use home::{Ensemble, Home, Maker, Upgrade};

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary; without it Apache ZooKeeper takes its place, and any fault is its own or this
    /// program's
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// Three members, the last of which leads: `zebu`, `latest`, `debian` or a version; once or more
    #[arg(long, value_name = "MEMBERS", default_values = ["zebu,zebu,zebu"])]
    members: Vec<String>,
    /// Whether sessions can become global; both in turn if nothing is said
    #[arg(long, value_enum)]
    upgrade: Option<Upgrade>,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let mut ending = Ending::Good;
    for members in &arguments.members {
        for upgrade in arguments.upgrade.map_or(vec![Upgrade::On, Upgrade::Off], |only| vec![only]) {
            let (trio, makers) = start(arguments, members, upgrade)?;
            let mut ensemble = Ensemble { trio, makers };
            if check(&mut ensemble, members, upgrade) == Ending::Bad {
                ending = Ending::Bad;
            }
        }
    }
    Ok(ending)
}

/// Starts the last server and the first. The last one leads: both logs are empty, and its id is greater.
fn start(arguments: &Arguments, members: &str, upgrade: Upgrade) -> Result<(Trio, [Maker; SERVERS])> {
    let mut launches = Vec::new();
    let mut makers = Vec::new();
    for member in members.split(',') {
        let (maker, launch) = match (member, &arguments.zebu) {
            ("zebu", Some(binary)) => (Maker::Zebu, Launch::zebu(binary.canonicalize()?)),
            ("zebu", None) => (Maker::Apache, Edition::parse("latest").launch()?),
            (edition, _) => (Maker::Apache, Edition::parse(edition).launch()?),
        };
        launches.push(launch);
        makers.push(maker);
    }
    let wrong = || format!("{members:?} names not {SERVERS} members");
    let launches = launches.try_into().ok().with_context(wrong)?;
    let makers = makers.try_into().ok().with_context(wrong)?;
    let upgrading = match upgrade {
        Upgrade::On => "true",
        Upgrade::Off => "false",
    };
    // A kept connection would keep its local session over the loss of the leader; Apache keeps none.
    let lines = format!(
        "zebu.electionGrace=0\ntickTime=500\ninitLimit=40\nsyncLimit=20\nlocalSessionsEnabled=true\n\
         localSessionsUpgradingEnabled={upgrading}\n"
    );
    let mut trio = Trio::new(launches, &lines)?;
    trio.start(SERVERS - 1)?;
    trio.start(0)?;
    trio.await_service()?;
    for index in 1..SERVERS - 1 {
        trio.start(index)?;
    }
    trio.await_service()?;
    anyhow::ensure!(trio.leader()? == SERVERS - 1, "the last member was to lead");
    // A member that has applied nothing yet does not say where it stands.
    let mut client = Client::open(trio.address(SERVERS - 1), home::LONG_MS)?;
    home::succeed(&mut client, &home::persistent("/begun"))?;
    home::close(client)?;
    Ok((trio, makers))
}

type Step = (&'static str, fn(&Home<'_>) -> Result<()>);

const ALWAYS: &[Step] = &[
    ("sessions begin and end without a transaction", steps::come_and_go),
    ("sessions expire without a transaction", steps::expire),
    ("a session writes", steps::write),
    ("a session comes back to its server and to no other", steps::stay_at_home),
];

const WITH_UPGRADE: &[Step] = &[
    ("create makes a session global", steps::upgrade_by_create),
    ("create2 makes a session global", steps::upgrade_by_create2),
    ("a multi makes a session global", steps::upgrade_by_multi),
    ("a create that fails makes a session global", steps::upgrade_by_failure),
    ("requests behind the upgrade keep their order", steps::pipeline),
    ("an upgraded session goes anywhere", steps::go_anywhere),
    ("an upgraded session lives by pings and dies of silence", steps::live_by_pings),
    ("a connection that is lost in the upgrade leaves nothing", steps::lose_connection),
];

const WITHOUT_UPGRADE: &[Step] = &[
    ("create is refused an ephemeral node", steps::refuse_create),
    ("a multi is refused an ephemeral node", steps::refuse_multi),
];

fn check(ensemble: &mut Ensemble, members: &str, upgrade: Upgrade) -> Ending {
    let (more, how) = match upgrade {
        Upgrade::On => (WITH_UPGRADE, "with upgrade"),
        Upgrade::Off => (WITHOUT_UPGRADE, "without upgrade"),
    };
    let mut ending = Ending::Good;
    let mut tell = |name: String, result: Result<()>| match result {
        Ok(()) => drop(outcome::ok(&name)),
        Err(fault) => ending = outcome::not_ok(&name, &fault),
    };
    for index in 0..SERVERS {
        for (step, action) in ALWAYS.iter().chain(more) {
            let name = format!("{members} {how}, at server {}, {step}", index + 1);
            tell(name, action(&Home { ensemble, index }));
        }
    }
    if upgrade == Upgrade::On {
        let name = format!("{members} {how}, a new leader knows the upgraded sessions only");
        tell(name, loss::of_leader(ensemble));
    }
    ending
}
