//! Starts an ensemble, writes, breaks it, heals it, and compares.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use zebu_testing::{Launch, four_letter};

use super::faults::Fault;
use super::load::{Writer, check, contents};
use super::members::Members;
use crate::apache::Edition;
use crate::differential::Random;

/// Writers, each with a session of its own.
const WRITERS: usize = 4;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary; without it Apache ZooKeeper takes its place, and any fault is its own or this program's
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
}

fn launch(member: &str, zebu: Option<&Path>) -> Result<(String, Launch)> {
    let edition = match (member, zebu) {
        ("zebu", Some(binary)) => return Ok(("Zebu".to_owned(), Launch::zebu(binary.canonicalize()?))),
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
    let home = tempfile::Builder::new().prefix("zebu-ensemble").tempdir()?;
    let mut members = Members::new(home.path().to_owned(), launches)?;
    (0..members.len()).try_for_each(|index| members.start(index))?;
    members.await_service()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _context = runtime.enter();
    let servers = members.connect_string();
    let writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::start(&servers, number)).collect();
    let mut random = Random::new(arguments.seed);
    let mut counts: BTreeMap<Fault, usize> = BTreeMap::new();
    let (started, mut slowest) = (Instant::now(), Duration::ZERO);
    for number in 1..=arguments.faults {
        std::thread::sleep(Duration::from_millis(200 + random.below(800) as u64));
        let fault = Fault::draw(&mut random);
        fault.happen(&mut members, &mut random)?;
        slowest = slowest.max(members.await_service()?);
        *counts.entry(fault).or_default() += 1;
        println!("ok fault {number} {fault:?}");
    }
    let took = started.elapsed();
    runtime.block_on(compare(&members, writers))?;
    for (fault, count) in counts {
        println!("  {count} x {fault:?}");
    }
    for index in 0..members.len() {
        println!("  {} led {} times", members.name(index), members.led[index]);
    }
    println!("{} faults in {took:.0?}; service came back after {slowest:.1?} at most", arguments.faults);
    Ok(())
}

async fn compare(members: &Members, writers: Vec<Writer>) -> Result<()> {
    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.finish().await?);
    }
    let directories: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let mut first = None;
    for index in 0..members.len() {
        let found = contents(&members.address(index).to_string(), &directories).await?;
        for (directory, written) in &all {
            check(directory, written, &found)?;
        }
        let reference = first.get_or_insert_with(|| found.clone());
        ensure!(
            *reference == found,
            "{} (member {}) differs from the first member",
            members.name(index),
            index + 1
        );
        println!("ok member {} ({}) has {} nodes", index + 1, members.name(index), found.len());
        digests_agree(members, index)?;
    }
    let acknowledged: usize = all.iter().map(|(_, written)| written.acknowledged.len()).sum();
    let unknown: usize = all.iter().map(|(_, written)| written.unknown).sum();
    let expired: usize = all.iter().map(|(_, written)| written.expired).sum();
    println!(
        "{acknowledged} acknowledged creates, none lost; {unknown} of unknown outcome; {expired} expired"
    );
    Ok(())
}

/// No member has seen a digest that its tree does not have.
fn digests_agree(members: &Members, index: usize) -> Result<()> {
    let text = four_letter::ask(members.address(index), "mntr", Duration::from_secs(5))?;
    let count = text.lines().find_map(|line| line.strip_prefix("zk_digest_mismatches_count\t"));
    ensure!(
        count.is_none_or(|count| count.trim() == "0"),
        "member {}: digest mismatches {count:?}",
        index + 1
    );
    Ok(())
}
