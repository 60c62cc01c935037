//! Histories of a real ensemble under kills, pauses, frozen clocks and partitions, judged by porcupine. Old
//! clients read behind a sync, clients of `zebu-client` with linearizable reads; all write. It runs in the
//! lab of `netlab` and needs root and Go.

mod fault;
mod history;
mod judge;
mod old_client;
mod worker;
mod zebu_client;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use zebu_testing::Launch;

use self::fault::{Fault, Scene};
use self::history::{History, Outcome};
use self::worker::{Draws, Shared};
use crate::differential::Random;
use crate::netlab::fleet::{Fleet, Shape};
use crate::netlab::lab::Lab;
use crate::netlab::preloaded::Preloaded;
use crate::netlab::{self, HOSTS};
use crate::outcome::{self, Ending};

/// A server that hears nothing gives up after four of these.
const TICK_MS: u64 = 100;
const NODES: usize = 2;
const OLD_CLIENTS: usize = 3;
const ZEBU_CLIENTS: usize = 3;
/// Of one client in one history: the search for an order stays short.
const OPERATIONS_MAX: usize = 150;
/// Histories that are judged together.
const BATCH: usize = 50;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary to test
    #[arg(long, value_name = "PATH")]
    zebu: PathBuf,
    /// How many histories
    #[arg(long, default_value_t = 1000)]
    histories: usize,
    /// Decides what is called and what breaks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The binary is known to be wrong: some history must show it
    #[arg(long)]
    expect_violation: bool,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    if !netlab::is_inside() {
        judge::build()?;
        return netlab::enter();
    }
    let home = tempfile::Builder::new().prefix("zebu-linearizability").tempdir()?;
    let lab = Lab::new(HOSTS, home.path())?;
    let launch = Launch::zebu(arguments.zebu.canonicalize()?);
    let clock = Preloaded::slow_clock(home.path())?;
    let mut shape = Shape::named(HOSTS, "-v4");
    shape.tick_ms = TICK_MS;
    let mut fleet = Fleet::new(home.path(), vec![launch; usize::from(HOSTS)], &shape)?;
    let numbers: Vec<u8> = fleet.numbers().collect();
    numbers.iter().for_each(|number| clock.load_into(&mut fleet, *number));
    fleet.start_all()?;

    let mut random = Random::new(arguments.seed);
    let (mut counts, mut violations) = (Counts::default(), Vec::new());
    let mut waiting = Vec::new();
    for number in 0..arguments.histories {
        let fault = fault::draw(&mut random);
        let lasts = Duration::from_millis(600 + random.below(900) as u64);
        let name = format!("{number}-{fault:?}");
        let mut scene = Scene { lab: &lab, fleet: &mut fleet, clock: &clock };
        let history = record(&mut scene, name, fault, lasts, arguments.seed ^ (number as u64) << 20)
            .with_context(|| format!("history {number}, {fault}"))?;
        counts.add(fault, &history);
        waiting.push(history);
        if waiting.len() == BATCH || number + 1 == arguments.histories {
            let kept = crate::apache::cache()?.join(format!("linearizability-{}.json", number / BATCH));
            let found = judge::violations(&waiting, &kept)?;
            println!("{} histories, {} of them violations", number + 1, violations.len() + found.len());
            violations.extend(found.into_iter().map(|name| format!("{name} in {}", kept.display())));
            waiting.clear();
            if arguments.expect_violation && !violations.is_empty() {
                break;
            }
        }
    }
    report(&counts, &violations, arguments)
}

/// One history: clients at work, one fault in their middle, and all servers in service afterwards.
fn record(scene: &mut Scene<'_>, name: String, fault: Fault, lasts: Duration, seed: u64) -> Result<History> {
    scene.fleet.await_all()?;
    let paths: Vec<String> = (0..NODES).map(|node| format!("/{name}-{node}")).collect();
    for path in &paths {
        scene.fleet.create(1, path, &history::data(0))?;
    }
    let shared =
        Shared { began: Instant::now(), stop: AtomicBool::new(false), paths, operations_max: OPERATIONS_MAX };
    let servers = scene.fleet.addresses();
    let list: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let list = list.join(",");
    let operations = std::thread::scope(|scope| {
        let (shared, servers, list) = (&shared, &servers, &list);
        let draws = |client: usize| Draws::new(seed ^ (client as u64) << 8, client, NODES);
        let mut workers = Vec::new();
        for client in 0..OLD_CLIENTS {
            let mut draws = draws(client);
            workers.push(scope.spawn(move || Ok(old_client::work(shared, servers, client, &mut draws))));
        }
        for client in OLD_CLIENTS..OLD_CLIENTS + ZEBU_CLIENTS {
            let mut draws = draws(client);
            workers.push(scope.spawn(move || zebu_client::work(shared, list, &mut draws)));
        }
        std::thread::sleep(Duration::from_millis(100));
        let suffered = scene.suffer(fault, lasts);
        std::thread::sleep(Duration::from_millis(200));
        shared.stop.store(true, Ordering::Release);
        let mut operations = Vec::new();
        for worker in workers {
            operations.extend(worker.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
        }
        suffered.map(|()| operations)
    })?;
    Ok(History { name, operations })
}

/// What the histories consist of.
#[derive(Default)]
struct Counts {
    histories: BTreeMap<Fault, usize>,
    operations: usize,
    unknown: usize,
}

impl Counts {
    fn add(&mut self, fault: Fault, history: &History) {
        *self.histories.entry(fault).or_default() += 1;
        self.operations += history.operations.len();
        let unknown = history.operations.iter().filter(|operation| operation.outcome == Outcome::Unknown);
        self.unknown += unknown.count();
    }
}

fn report(counts: &Counts, violations: &[String], arguments: &Arguments) -> Result<Ending> {
    for (fault, count) in &counts.histories {
        println!("{count:6} {fault}");
    }
    println!("{} operations, {} of them writes without an answer", counts.operations, counts.unknown);
    for violation in violations {
        println!("not linearizable: {violation}");
    }
    ensure!(counts.operations > 20 * counts.histories.len(), "the clients did almost nothing");
    match (violations.is_empty(), arguments.expect_violation) {
        (true, false) => Ok(outcome::ok("linearizable histories")),
        (false, true) => Ok(outcome::ok("a violation is found")),
        (true, true) => bail!("no history shows that the binary is wrong"),
        (false, false) => {
            let fault =
                anyhow::anyhow!("{} histories are not linearizable: {violations:?}", violations.len());
            Ok(outcome::not_ok("linearizable histories", &fault))
        }
    }
}
