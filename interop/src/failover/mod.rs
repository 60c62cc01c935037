//! How long an ensemble takes no writes when its leader goes: Apache ZooKeeper and Zebu in turn, three
//! servers each with default limits, under load. It reports, and fails if what is promised does not hold.

mod outage;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use zebu_testing::Launch;

use crate::apache::Edition;
use crate::bench::{Machine, Table, figure, median};
use crate::trio::Trio;
use outage::{End, Outage};

/// What a fail-over of Zebu may take of Apache's.
const SHARE_MAX: f64 = 0.5;

/// What a hand-over may take.
const HAND_OVER_MAX_MS: f64 = 100.0;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary
    #[arg(long, value_name = "PATH")]
    zebu: PathBuf,
    /// The Apache ZooKeeper: `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// How often each leader is killed, and how often it is asked to stop
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Writers, each with a session
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// How long the load runs before the leader goes, in milliseconds
    #[arg(long, default_value_t = 1500)]
    warm_up: u64,
    /// Leaves Apache out
    #[arg(long)]
    zebu_only: bool,
    /// Fails if Zebu takes more than half of Apache's time, or 100 ms for a hand-over
    #[arg(long)]
    strict: bool,
}

struct Contender {
    name: &'static str,
    trio: Trio,
    outages: Vec<Outage>,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let zebu = arguments.zebu.canonicalize().context("no zebu binary there")?;
    let zebu = Launch::zebu(zebu);
    let mut contenders = Vec::new();
    if !arguments.zebu_only {
        let apache = Edition::parse(&arguments.apache).launch()?;
        contenders.push(contender("Apache", &apache)?);
    }
    contenders.push(contender("Zebu", &zebu)?);
    println!("{}", Machine::look());
    let warm_up = Duration::from_millis(arguments.warm_up);
    for end in [End::Killed, End::Asked] {
        for round in 1..=arguments.rounds {
            for contender in &mut contenders {
                let outage = outage::measure(&mut contender.trio, end, arguments.writers, warm_up)?;
                println!("round {round} {:<7} {outage}", contender.name);
                contender.outages.push(outage);
            }
        }
    }
    report(&contenders, arguments)
}

fn contender(name: &'static str, launch: &Launch) -> Result<Contender> {
    let mut trio = Trio::new([launch.clone(), launch.clone(), launch.clone()], "")?;
    trio.start_all()?;
    Ok(Contender { name, trio, outages: Vec::new() })
}

fn report(contenders: &[Contender], arguments: &Arguments) -> Result<()> {
    let mut table =
        Table::new(["leader", "server", "writes again ms", "all writers ms", "new leader ms", "at most ms"]);
    let mut killed = Vec::new();
    let mut handed_over = 0.0;
    for end in [End::Killed, End::Asked] {
        for contender in contenders {
            let outages: Vec<&Outage> = contender.outages.iter().filter(|outage| outage.end == end).collect();
            let middle = |of: fn(&Outage) -> f64| median(outages.iter().map(|outage| of(outage)));
            let writes = middle(|outage| outage.writes_ms);
            let longest = outages.iter().map(|outage| outage.writes_ms).fold(0.0, f64::max);
            table.row([
                end.to_string(),
                contender.name.to_owned(),
                figure(writes),
                figure(middle(|outage| outage.all_writers_ms)),
                figure(middle(|outage| outage.leader_ms)),
                figure(longest),
            ]);
            match end {
                End::Killed => killed.push(writes),
                End::Asked => handed_over = writes,
            }
        }
    }
    let expired: usize =
        contenders.iter().flat_map(|contender| &contender.outages).map(|one| one.expired).sum();
    print!("{table}");
    println!("{expired} sessions expired");
    if let [apache, zebu] = killed[..] {
        println!("killed: Zebu takes {:.2} of Apache's time; hand-over {handed_over:.0} ms", zebu / apache);
        ensure!(!arguments.strict || zebu <= apache * SHARE_MAX, "that is more than {SHARE_MAX}");
    }
    ensure!(!arguments.strict || handed_over < HAND_OVER_MAX_MS, "a hand-over took {handed_over:.0} ms");
    println!("ok fail-over");
    Ok(())
}
