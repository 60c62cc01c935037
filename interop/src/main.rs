//! Runs Zebu and Apache ZooKeeper side by side and compares what clients see.
#![expect(clippy::print_stdout, reason = "a command-line tool: its report goes to standard output")]

mod apache;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use zebu_testing::Launch;
use zebu_testing::vectors::{self, Order, Release, Servers};

use crate::apache::Edition;

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

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Vectors(arguments) => run_vectors(&arguments),
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
    print!("{report}");
    Ok(if report.failures().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
