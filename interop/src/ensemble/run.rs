//! Starts an ensemble, loads it, breaks it, heals it, and judges what clients have seen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use zebu_sim::live::{BrokenPromise, CheckSummary, check_record};
use zebu_testing::Launch;

use super::faults::Hand;
use super::history;
use super::load::{Load, SESSION_TIMEOUT};
use super::members::{Members, TICK_MS, ZEBU};
use super::plan::{Fault, Plan};
use super::syncs::Syncs;
use crate::apache::Edition;
use crate::differential::Random;

/// Records that are kept of what came before a broken promise.
const RECORDS_SHOWN: usize = 5000;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary; without it Apache ZooKeeper takes its place, and any fault is its own or this
    /// program's
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// Who the members are, in order: `zebu`, `latest`, `debian` or a version of Apache ZooKeeper
    #[arg(long, value_name = "MEMBER", value_delimiter = ',', default_values = ["zebu", "zebu", "zebu"])]
    members: Vec<String>,
    /// How many faults
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// Decides which
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only kinds of faults whose names have this in them
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Leaves files and logs of the members where they are
    #[arg(long)]
    keep: bool,
}

/// What happened under faults of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: usize,
    longest: Duration,
    sum: Duration,
}

fn launch(member: &str, zebu: Option<&Path>) -> Result<(String, Launch)> {
    let edition = match (member, zebu) {
        ("zebu", Some(binary)) => return Ok((ZEBU.to_owned(), Launch::zebu(binary.canonicalize()?))),
        ("zebu", None) => Edition::parse("latest"),
        (apache, _) => Edition::parse(apache),
    };
    Ok((edition.to_string(), edition.launch()?))
}

/// Runs it; the first thing that is wrong is an error.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let launches: Vec<_> = arguments
        .members
        .iter()
        .map(|member| launch(member, arguments.zebu.as_deref()))
        .collect::<Result<_>>()?;
    ensure!(launches.len() >= 3, "an ensemble that can lose a member has three at least");
    let mut home = tempfile::Builder::new().prefix("zebu-ensemble").tempdir()?;
    home.disable_cleanup(arguments.keep);
    let result = run_in(home.path(), launches, arguments);
    if result.is_err() {
        home.disable_cleanup(true);
        println!("seed {}; files and logs are in {}", arguments.seed, home.path().display());
    }
    result
}

fn run_in(home: &Path, launches: Vec<(String, Launch)>, arguments: &Arguments) -> Result<()> {
    let mut members = Members::new(home, launches)?;
    let result = load_and_break(home, &mut members, arguments);
    if result.is_err() || arguments.keep {
        members.keep_files(home)?;
    }
    result
}

fn load_and_break(home: &Path, members: &mut Members, arguments: &Arguments) -> Result<()> {
    (0..members.len()).try_for_each(|index| members.start(index))?;
    members.await_service()?;
    let mut load = Load::start(members.public_addresses(), arguments.seed);
    load.await_writes()?;
    let started = Instant::now();
    let (tallies, stubborn) = break_it(members, &load, arguments)?;
    let took = started.elapsed();
    load.settle()?;
    println!("ok every client could write in the end");
    let summary = collect_and_check(home, members, &mut load)?;
    print_tables(members, &tallies, stubborn, took, &summary);
    Ok(())
}

fn break_it(
    members: &mut Members,
    load: &Load,
    arguments: &Arguments,
) -> Result<(BTreeMap<Fault, Tally>, usize)> {
    let mut random = Random::new(arguments.seed);
    let can_be_full = members.disk(0).is_some();
    if !can_be_full {
        println!("no file system may be mounted here: no disk gets full");
    }
    let is_meant =
        |fault: &Fault| arguments.only.as_ref().is_none_or(|words| fault.to_string().contains(words));
    let kinds: Vec<Fault> = Fault::ALL
        .into_iter()
        .filter(|fault| can_be_full || *fault != Fault::FullDisk)
        .filter(is_meant)
        .collect();
    ensure!(!kinds.is_empty(), "no kind of fault has that in its name");
    let mut plan = Plan::new(kinds);
    let mut tallies: BTreeMap<Fault, Tally> = BTreeMap::new();
    let (started, mut stubborn) = (Instant::now(), 0);
    for number in 1..=arguments.faults {
        std::thread::sleep(Duration::from_millis(200 + random.below(800) as u64));
        load.longest_silence();
        let fault = plan.next(&mut random);
        let during = || format!("fault {number} of seed {}: {fault}", arguments.seed);
        Hand { members, load, random: &mut random, stubborn: &mut stubborn }
            .make(fault)
            .with_context(during)?;
        members.await_service().with_context(during)?;
        load.await_writes().with_context(during)?;
        let silence = load.longest_silence();
        let tally = tallies.entry(fault).or_default();
        tally.count += 1;
        tally.longest = tally.longest.max(silence);
        tally.sum += silence;
        println!(
            "ok fault {number} {fault} (no write acknowledged for {silence:.1?}; {:.0?} in all)",
            started.elapsed()
        );
    }
    Ok((tallies, stubborn))
}

/// Reads everything from every member twice: while all sessions live, and when all of them are over. Then the
/// members are stopped, and everything that clients have said and heard is compared with their logs.
fn collect_and_check(home: &Path, members: &mut Members, load: &mut Load) -> Result<CheckSummary> {
    for index in 0..members.len() {
        let nodes = load.read_everything(members.address(index))?;
        println!("ok member {} ({}) was read: {nodes} nodes", index + 1, members.name(index));
    }
    load.leave()?;
    // Sessions of clients that have vanished, or never heard that they were given one, expire.
    std::thread::sleep(SESSION_TIMEOUT + Duration::from_millis(4 * TICK_MS));
    for index in 0..members.len() {
        load.read_everything(members.address(index))?;
    }
    let mut digests = Vec::new();
    for index in 0..members.len() {
        no_mismatches(members, index)?;
        digests.extend(digests_of(members, index));
    }
    same_zxid(members)?;
    members.stop()?;
    let directories: Vec<&Path> = (0..members.len()).map(|index| members.data(index)).collect();
    let history = history::read(&directories)?;
    let records = load.take_records();
    let syncs = Syncs::of(members)?;
    match check_record(&records, &history, &digests, TICK_MS, |answer| syncs.are_checked(answer)) {
        Ok(summary) => Ok(summary),
        Err(BrokenPromise { violation, at }) => {
            let shown = &records[at.saturating_sub(RECORDS_SHOWN)..records.len().min(at + 1)];
            let lines: Vec<String> = shown.iter().map(|record| format!("{record:?}\n")).collect();
            std::fs::write(home.join("records"), lines.concat())?;
            bail!("{}: {}; the file records has what clients saw before", violation.checker, violation.text)
        }
    }
}

/// No member has seen a digest that its tree does not have.
fn no_mismatches(members: &Members, index: usize) -> Result<()> {
    let text = members.ask(index, "mntr").context("mntr was not answered")?;
    let count = text.lines().find_map(|line| line.strip_prefix("zk_digest_mismatches_count\t"));
    ensure!(
        count.is_none_or(|count| count.trim() == "0"),
        "g22_replica_equality: member {} has seen digest mismatches: {count:?}",
        index + 1
    );
    Ok(())
}

/// What the trees of a member have hashed to, as it remembers.
fn digests_of(members: &Members, index: usize) -> Vec<(usize, i64, i64)> {
    let text = members.ask(index, "hash").unwrap_or_default();
    let parse = |line: &str| {
        let (zxid, digest) = line.split_once(':')?;
        Some((index + 1, i64::from_str_radix(zxid.trim(), 16).ok()?, digest.trim().parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

/// All members have got as far as the others.
fn same_zxid(members: &Members) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let zxid = |index: usize| {
            let text = members.ask(index, "srvr").unwrap_or_default();
            text.lines().find_map(|line| line.strip_prefix("Zxid: ").map(str::to_owned))
        };
        let zxids: Vec<_> = (0..members.len()).map(zxid).collect();
        if zxids.iter().all(|it| it.is_some() && *it == zxids[0]) {
            println!("ok all members are at {}", zxids[0].as_deref().unwrap_or_default());
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "g09_timeliness: the members stay at {zxids:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn print_tables(
    members: &Members,
    tallies: &BTreeMap<Fault, Tally>,
    stubborn: usize,
    took: Duration,
    summary: &CheckSummary,
) {
    println!("{:<34} {:>6} {:>10} {:>10}", "fault", "count", "mean", "longest");
    for (fault, tally) in tallies {
        let mean = tally.sum / tally.count.max(1) as u32;
        println!("{fault:<34} {:>6} {mean:>10.1?} {:>10.1?}", tally.count, tally.longest);
    }
    let count: usize = tallies.values().map(|tally| tally.count).sum();
    let longest = tallies.values().map(|tally| tally.longest).max().unwrap_or_default();
    println!("{count} faults in {took:.0?}; the longest time without an acknowledged write: {longest:.1?}");
    for index in 0..members.len() {
        println!(
            "member {} ({}) was seen to lead {} times",
            index + 1,
            members.name(index),
            members.led[index]
        );
    }
    if stubborn > 0 {
        println!("{stubborn} times a member went on with a sick disk and was killed");
    }
    println!(
        "judged: {} transactions, {} calls, {} answers, {} events, {} digests; {} sessions, {} expired under a client",
        summary.transactions,
        summary.calls,
        summary.answered,
        summary.events,
        summary.digests,
        summary.sessions,
        summary.expired
    );
    println!("ok no promise was broken");
}
