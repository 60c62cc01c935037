//! Cycles of start, check, load and SIGKILL on one directory. The disk is synced as in production; what a
//! power failure does beyond that is not tested here.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zebu_proto::Acl;
use zebu_proto::client::{CreateOp, CreateRequest, WriteRequest};
use zebu_testing::{Launch, ServerProcess, four_letter};

use crate::client::Client;
use crate::differential::{Random, SUPER_DIGEST};
use crate::dump::Dump;
use crate::load::Load;
use crate::outcome::{self, Ending};

/// Writers, each with a session and a directory of its own.
const WRITERS: usize = 4;

/// The longest time between a start and the kill.
const LOAD_MS: usize = 600;

/// A start that takes longer than this for so small a tree is a fault.
const START_LIMIT: Duration = Duration::from_secs(20);

const PATIENCE: Duration = Duration::from_secs(10);

/// The session of the checks themselves.
const CHECK_TIMEOUT_MS: i32 = 10_000;

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) launch: Launch,
    pub(crate) cycles: usize,
    pub(crate) seed: u64,
}

/// How it went.
#[derive(Debug, Default)]
struct Summary {
    cycles: usize,
    crashes_while_starting: usize,
    nodes: usize,
    unacknowledged: usize,
    sessions: usize,
    under_load: Duration,
    slowest_start: Duration,
}

/// Runs all cycles, a line for each; the first fault ends it. Says how many went well.
pub(crate) fn run(plan: &Plan) -> Result<Ending> {
    println!("seed {}", plan.seed);
    let mut random = Random::new(plan.seed);
    let mut server = ServerProcess::launch(plan.launch.clone())
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
        // Snapshots and new logs all the time, so that a kill meets them.
        .property("zookeeper.snapCount", "300")
        .property("zookeeper.preAllocSize", "64")
        .line("maxSessionTimeout=600000")
        .start()?;
    let mut load = prepare(&server, &mut random)?;
    let mut summary = Summary::default();
    let mut shown = (0, Duration::ZERO);
    for cycle in 1..=plan.cycles {
        let name = format!("cycle {cycle}");
        if let Err(fault) = play(&mut server, &mut load, &mut random, &mut summary) {
            println!("the server wrote:\n{}", tail(&server.output()));
            return Ok(outcome::not_ok(&name, &fault.context(format!("seed {}", plan.seed))));
        }
        outcome::ok(&name);
        summary.cycles += 1;
        if cycle % 10 == 0 || cycle == plan.cycles {
            let acknowledged = load.acknowledged();
            let rate = (acknowledged - shown.0) as f64 / (summary.under_load - shown.1).as_secs_f64();
            println!("cycle {cycle}: {acknowledged} writes acknowledged, lately {rate:.0} per second");
            shown = (acknowledged, summary.under_load);
        }
    }
    println!(
        "{} cycles ({} with a crash while starting), {} acknowledged writes checked, {} more found that were \
         not acknowledged, {} nodes compared, {} sessions resumed, slowest start {:.0?}",
        summary.cycles,
        summary.crashes_while_starting,
        load.acknowledged(),
        summary.unacknowledged,
        summary.nodes,
        summary.sessions,
        summary.slowest_start
    );
    Ok(Ending::Good)
}

fn prepare(server: &ServerProcess, random: &mut Random) -> Result<Load> {
    let mut client = Client::open(server.address(), CHECK_TIMEOUT_MS)?;
    let create = CreateRequest {
        op: CreateOp::Create,
        path: Some("/load".into()),
        data: None,
        acl: Some(Acl::open().into()),
        flags: 0,
        ttl_ms: -1,
    };
    let answer = client.write(&WriteRequest::Create(create))?;
    ensure!(answer.error == 0, "/load was not created: {answer:?}");
    client.write(&WriteRequest::CloseSession)?;
    Load::new(server.address(), "/load", WRITERS, random)
}

/// Load, kill, start, check.
fn play(
    server: &mut ServerProcess,
    load: &mut Load,
    random: &mut Random,
    summary: &mut Summary,
) -> Result<()> {
    let delay = Duration::from_millis(10 + random.below(LOAD_MS) as u64);
    load.run_until_killed(server, delay)?;
    summary.under_load += delay;
    if random.percent(20) {
        server.crash_while_starting(Duration::from_millis(random.below(60) as u64))?;
        summary.crashes_while_starting += 1;
    }
    let started = Instant::now();
    server.start()?;
    let took = started.elapsed();
    summary.slowest_start = summary.slowest_start.max(took);
    ensure!(took < START_LIMIT, "the start took {took:.1?}");
    let zxid = four_letter::last_zxid(server.address(), PATIENCE)?.0;
    ensure!(zxid >= load.last_zxid(), "zxid 0x{zxid:x}, a client has seen 0x{:x}", load.last_zxid());
    summary.sessions += load.check_sessions(server.address())?;
    let mut client = Client::open_super(server.address(), CHECK_TIMEOUT_MS)?;
    let dump = Dump::read(&mut client)?;
    client.write(&WriteRequest::CloseSession)?;
    let verified = load.verify(&dump)?;
    summary.nodes += verified.nodes;
    summary.unacknowledged += verified.unacknowledged;
    Ok(())
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
