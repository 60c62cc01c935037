//! Runs Zebu and Apache ZooKeeper side by side and compares what clients see, and what it costs.
#![expect(clippy::print_stdout, reason = "a command-line tool: its report goes to standard output")]

mod access;
mod apache;
mod backup;
mod bench;
mod cache_storm;
mod client;
mod differential;
mod dump;
mod ensemble;
mod failover;
mod files;
mod heavy;
mod kill;
mod linearizability;
mod load;
mod local_sessions;
mod micro;
mod mixed;
mod netlab;
mod observers;
mod outcome;
mod protected;
mod reconfig;
mod rolling;
mod steady;
mod stores;
mod trio;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use zebu_testing::Launch;
use zebu_testing::vectors::{self, Order, Release, Servers};

use crate::apache::Edition;
use crate::differential::{Deviations, Dialect, Pairing, Plan, Sync};

#[derive(Parser)]
#[command(name = "zebu-interop", about = "Zebu against Apache ZooKeeper")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play the recorded client exchanges against a server
    Vectors(VectorsArguments),
    /// Send the same random requests to Apache and Zebu (or to two Apaches) and compare every reply
    Differential(DifferentialArguments),
    /// Hand one data directory from Zebu to Apache and back, several times, and compare the whole tree
    Files(FilesArguments),
    /// Kill Zebu under load, again and again, and ask for every acknowledged write after each restart
    Kill(KillArguments),
    /// Break an ensemble of Zebu and Apache servers under load, again and again, and compare all members
    Ensemble(ensemble::Arguments),
    /// Replace Apache servers by Zebu servers one by one while clients write, and back
    Reconfig(reconfig::Arguments),
    /// Take the leader of an ensemble away under load, Apache's and Zebu's in turn, and time the outage
    Failover(failover::Arguments),
    /// Restart three Zebu servers one by one under load, again and again, and count what clients notice
    Rolling(rolling::Arguments),
    /// Restart three Zebu servers one by one under cached clients, and compare what the servers send with
    /// reading everything again
    CacheStorm(cache_storm::Arguments),
    /// Put much on an ensemble: a member that needs the whole of a large tree, or a flood of clients
    Heavy(heavy::Arguments),
    /// Record histories of an ensemble under kills, pauses and partitions, and let porcupine judge them
    Linearizability(linearizability::Arguments),
    /// Let sessions that only one server knows come, go and become global, at Zebu and Apache servers alike
    LocalSessions(local_sessions::Arguments),
    /// Bring about every kind of synchronisation between Apache and Zebu, and migrate an ensemble under load
    Mixed(mixed::Arguments),
    /// Run ensembles on hosts of their own, in network namespaces, and break links and machines
    Netlab(netlab::Arguments),
    /// Form ensembles of Apache and Zebu in groups with weights, with observers at followers and without a
    /// log
    Observers(observers::Arguments),
    /// Compare who may do what with Apache: random ACLs and identities by x509, SASL and digest
    Access(access::Arguments),
    /// Connect the shell and the tools by TLS and SASL to a server of Apache or Zebu
    Protected(protected::Arguments),
    /// Measure Apache and Zebu under the same load, one after the other, and print both
    Bench(bench::Arguments),
    /// Back up ensembles under kills, and compare points of the backup with the members' own logs
    Backup(backup::Arguments),
    /// Time single steps of a server: decode, prepare, apply, watches, log, snapshot
    Micro(micro::Arguments),
    /// Answer every frame on a free port with a constant: the upper bound for any server
    Echo,
}

#[derive(Args)]
struct FilesArguments {
    /// The zebu binary to test; without it only Apaches are on the route, and any fault is theirs or this
    /// program's
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// The Apaches on the route, in order: `latest`, `debian` or a version
    #[arg(long, value_name = "EDITION", default_values = ["debian", "latest"])]
    apache: Vec<String>,
    /// How many directories travel the route
    #[arg(long, default_value_t = 2)]
    rounds: u64,
    /// Seed of the first round; counted up
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes per stay
    #[arg(long, default_value_t = 300)]
    writes: usize,
}

#[derive(Args)]
struct KillArguments {
    /// The zebu binary to test; without it an Apache server is tested
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// How often to kill it
    #[arg(long, default_value_t = 20)]
    cycles: usize,
    /// Decides what is written and when it is killed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct DifferentialArguments {
    /// The zebu binary to compare with Apache
    #[arg(long, value_name = "PATH", required_unless_present = "apache_vs_apache")]
    zebu: Option<PathBuf>,
    /// Compare two Apache servers: any difference is a mistake of this program
    #[arg(long, conflicts_with = "zebu")]
    apache_vs_apache: bool,
    /// The reference: `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// The second Apache, if it is not to be the same
    #[arg(long, requires = "apache_vs_apache", value_name = "EDITION")]
    other: Option<String>,
    /// First seed; `new` takes one that no run before has had, from the clock
    #[arg(long, default_value = "1", value_parser = first_seed)]
    seed: u64,
    /// How many seeds, counted up from the first; each runs on fresh servers
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Requests per seed, to each server
    #[arg(long, default_value_t = 10_000)]
    requests: usize,
    /// Restart both servers after this many steps, again and again
    #[arg(long, value_name = "STEPS")]
    restart_every: Option<usize>,
    /// Print what was met: replies by operation and error, events by type
    #[arg(long)]
    coverage: bool,
    /// Fail if a row of the table of deviations is never met: it has outlived its reason, or the run is short
    #[arg(long)]
    every_deviation: bool,
    /// Let the servers sync their logs to disk, as in production
    #[arg(long)]
    force_sync: bool,
}

#[derive(Args)]
struct VectorsArguments {
    /// The zebu binary to test; without it an Apache server is tested
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// Mix the vectors by this seed
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Only vectors whose name starts with this
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
}

fn first_seed(text: &str) -> Result<u64, String> {
    match text {
        "new" => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_secs())
            .map_err(|error| error.to_string()),
        number => number.parse().map_err(|_| format!("{number:?} is neither a number nor `new`")),
    }
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Vectors(arguments) => run_vectors(&arguments),
        Command::Differential(arguments) => run_differential(&arguments),
        Command::Files(arguments) => run_files(&arguments),
        Command::Kill(arguments) => run_kill(&arguments),
        Command::Ensemble(arguments) => ensemble::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Reconfig(arguments) => reconfig::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Failover(arguments) => failover::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Rolling(arguments) => Ok(rolling::run(&arguments)?.into()),
        Command::CacheStorm(arguments) => Ok(cache_storm::run(&arguments)?.into()),
        Command::Heavy(arguments) => heavy::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::LocalSessions(arguments) => Ok(local_sessions::run(&arguments)?.into()),
        Command::Mixed(arguments) => Ok(mixed::run(&arguments)?.into()),
        Command::Netlab(arguments) => Ok(netlab::run(&arguments)?.into()),
        Command::Linearizability(arguments) => Ok(linearizability::run(&arguments)?.into()),
        Command::Observers(arguments) => Ok(observers::run(&arguments)?.into()),
        Command::Access(arguments) => Ok(access::run(&arguments)?.into()),
        Command::Protected(arguments) => Ok(protected::run_all(&arguments)?.into()),
        Command::Bench(arguments) => bench::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Backup(arguments) => Ok(backup::run(&arguments)?.into()),
        Command::Micro(arguments) => micro::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Echo => bench::serve_echo().map(|()| ExitCode::SUCCESS),
    }
}

fn run_vectors(arguments: &VectorsArguments) -> Result<ExitCode> {
    let edition = Edition::parse(&arguments.apache);
    let (launch, release) = match &arguments.zebu {
        Some(binary) => (Launch::zebu(binary.canonicalize()?), Release::V3_9_5),
        None => (edition.launch()?, edition.release()),
    };
    let mut all = Vec::new();
    for file in vectors::files()? {
        all.extend(vectors::load(&file)?);
    }
    if let Some(prefix) = &arguments.only {
        all.retain(|vector| vector.name.starts_with(prefix.as_str()));
    }
    let order = arguments.shuffle.map_or(Order::File, Order::Shuffled);
    let report = vectors::run_all(&mut Servers::new(launch), all, release, order)?;
    for outcome in &report.outcomes {
        match &outcome.mismatch {
            None => println!("ok {}", outcome.name),
            Some(mismatch) => println!("not ok {}: step {}: {}", outcome.name, mismatch.step, mismatch.what),
        }
    }
    print!("{report}");
    Ok(if report.failures().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_differential(arguments: &DifferentialArguments) -> Result<ExitCode> {
    let reference = Edition::parse(&arguments.apache);
    let left = reference.launch()?;
    let (right, pairing) = match &arguments.zebu {
        Some(binary) => (Launch::zebu(binary.canonicalize()?), Pairing::ApacheAndZebu),
        None => {
            let other = arguments.other.as_ref().unwrap_or(&arguments.apache);
            (Edition::parse(other).launch()?, Pairing::TwoApaches)
        }
    };
    let plan = Plan {
        left,
        right,
        pairing,
        dialect: Dialect::of(reference.release()),
        deviations: if arguments.every_deviation { Deviations::MustOccur } else { Deviations::MayOccur },
        first_seed: arguments.seed,
        seeds: arguments.seeds,
        requests: arguments.requests,
        restart_every: arguments.restart_every.filter(|steps| *steps > 0),
        sync: if arguments.force_sync { Sync::Forced } else { Sync::Relaxed },
    };
    println!("version {}", reference.version());
    let summary = differential::run(&plan)?;
    if arguments.coverage {
        print!("{}", summary.coverage);
    }
    Ok(if summary.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_files(arguments: &FilesArguments) -> Result<ExitCode> {
    let zebu = match &arguments.zebu {
        Some(binary) => Some(Launch::zebu(binary.canonicalize()?)),
        None => None,
    };
    let ending = files::run(&files::Plan {
        zebu,
        apaches: arguments.apache.iter().map(|text| Edition::parse(text)).collect(),
        rounds: arguments.rounds,
        seed: arguments.seed,
        writes: arguments.writes,
    })?;
    Ok(ending.into())
}

fn run_kill(arguments: &KillArguments) -> Result<ExitCode> {
    let launch = match &arguments.zebu {
        Some(binary) => Launch::zebu(binary.canonicalize()?),
        None => Edition::parse(&arguments.apache).launch()?,
    };
    let plan = kill::Plan { launch, cycles: arguments.cycles, seed: arguments.seed };
    Ok(kill::run(&plan)?.into())
}
