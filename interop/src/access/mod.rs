//! The same access decisions as Apache ZooKeeper: random access control lists, identities by real x509
//! certificates, SASL users and digest users, and every operation that looks at a permission.

mod certificates;
mod identities;
mod lists;
mod side;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;
use zebu_client::Acl;
use zebu_testing::Launch;

use crate::apache::Edition;
use crate::differential::Random;
use crate::outcome::{self, Ending};
use certificates::Certificates;
use identities::IDENTITIES;
use lists::Vocabulary;
use side::Side;

/// Cases in a line of the report.
const CASES_PER_LINE: usize = 100;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary to compare with Apache; without it two Apaches are compared
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// The reference: `latest` or a version; ACLs with IPv6 addresses need 3.9
    #[arg(long, default_value = "latest", value_name = "EDITION")]
    apache: String,
    /// Seed of the lists; `new` takes one from the clock
    #[arg(long, default_value = "1", value_parser = crate::first_seed)]
    seed: u64,
    /// How many lists
    #[arg(long, default_value_t = 300)]
    cases: usize,
}

/// One access control list: who sets it, and who tries to replace it by which.
#[derive(Debug)]
struct Case {
    number: usize,
    creator: usize,
    list: Vec<Acl>,
    /// An identity that tries to set another list.
    change: Option<(usize, Vec<Acl>)>,
}

/// Runs all cases; the first difference ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let reference = Edition::parse(&arguments.apache);
    let tested = match &arguments.zebu {
        Some(binary) => Launch::zebu(binary.canonicalize()?),
        None => reference.launch()?,
    };
    println!("version {}", reference.version());
    println!("seed {}, {} lists, {} identities", arguments.seed, arguments.cases, IDENTITIES.len());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let certificates = Certificates::make()?;
    let (left, right) =
        (Side::start(reference.launch()?, &certificates)?, Side::start(tested, &certificates)?);
    runtime.block_on(compare(arguments, &certificates, left, right))
}

async fn compare(
    arguments: &Arguments,
    certificates: &Certificates,
    left: Side,
    right: Side,
) -> Result<Ending> {
    let (left, right) = (left.connect(certificates).await?, right.connect(certificates).await?);
    let mut ending = Ending::Good;
    let mut known = Vec::new();
    for (index, identity) in IDENTITIES.iter().enumerate() {
        let name = format!("{} is the same", identity.name);
        let (seen, other) = (left.who_am_i(index).await?, right.who_am_i(index).await?);
        if seen == other {
            outcome::ok(&name);
        } else {
            let fault = anyhow::anyhow!("Apache sees {seen:?}, the other server {other:?}");
            ending = outcome::not_ok(&name, &fault);
        }
        known.extend(seen);
    }
    if ending == Ending::Bad {
        return Ok(ending);
    }
    let vocabulary = Vocabulary::new(known);
    let mut random = Random::new(arguments.seed);
    let (began, mut decisions, mut refused) = (Instant::now(), 0, 0);
    for number in 0..arguments.cases {
        let case = Case::draw(&mut random, &vocabulary, number);
        let (seen, other) = tokio::try_join!(left.play(&case), right.play(&case))?;
        if let Some((one, two)) = seen.iter().zip(&other).find(|(one, two)| one != two) {
            let name = format!("lists from {}", number / CASES_PER_LINE * CASES_PER_LINE);
            let fault = anyhow::anyhow!(
                "seed {}, list {number}: Apache: {one}; the other server: {two}; {case:?}",
                arguments.seed
            );
            return Ok(outcome::not_ok(&name, &fault));
        }
        ensure!(seen.len() == other.len(), "list {number}: {} and {} decisions", seen.len(), other.len());
        decisions += seen.len();
        refused += seen.iter().filter(|line| line.ends_with("NoAuth")).count();
        if (number + 1) % CASES_PER_LINE == 0 || number + 1 == arguments.cases {
            outcome::ok(&format!("lists from {}", number / CASES_PER_LINE * CASES_PER_LINE));
        }
    }
    println!(
        "{} lists, {decisions} decisions alike, {refused} of them refusals, {:.1} s",
        arguments.cases,
        began.elapsed().as_secs_f64()
    );
    if refused == 0 || refused == decisions {
        bail!("no list allowed anything or none refused anything: nothing was tested");
    }
    Ok(Ending::Good)
}

impl Case {
    fn draw(random: &mut Random, vocabulary: &Vocabulary, number: usize) -> Case {
        let creator = random.below(IDENTITIES.len());
        let list = vocabulary.list(random);
        let change = random.percent(40).then(|| (random.below(IDENTITIES.len()), vocabulary.list(random)));
        Case { number, creator, list, change }
    }
}
