//! Backups of ensembles under load: members, leader and backup are killed, and every point of the backup is
//! compared with a replay of the members' own logs. Restored directories start as Apache and as Zebu.

mod load;
mod process;
mod reference;
mod restored;
mod round;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use zebu_testing::Launch;

use crate::apache::Edition;
use crate::differential::Random;
use crate::outcome::{self, Ending};
use round::{Kind, Round};

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary
    #[arg(long, value_name = "PATH")]
    zebu: PathBuf,
    /// The Apache ZooKeeper: `latest`, `debian` or a version
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// Rounds; Apache and Zebu take turns as the ensemble
    #[arg(long, default_value_t = 2)]
    rounds: u64,
    /// Kills of each round
    #[arg(long, default_value_t = 3)]
    kills: usize,
    /// Seed of the first round; counted up
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs all rounds.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let binary = arguments.zebu.canonicalize().context("no zebu binary there")?;
    let edition = Edition::parse(&arguments.apache);
    println!("version {} and Zebu", edition.version());
    let (zebu, apache) = (Launch::zebu(&binary), edition.launch()?);
    let mut ending = Ending::Good;
    for number in 0..arguments.rounds {
        let seed = arguments.seed + number;
        let kind = if number % 2 == 0 { Kind::Apache } else { Kind::Zebu };
        let round = Round { kind, binary: &binary, zebu: &zebu, apache: &apache, kills: arguments.kills };
        let name = format!("seed {seed}, {kind}");
        match round.run(&mut Random::new(seed)) {
            Ok(summary) => {
                println!("{name}: {summary}");
                outcome::ok(&name);
            }
            Err(fault) => ending = outcome::not_ok(&name, &fault),
        }
    }
    Ok(ending)
}
