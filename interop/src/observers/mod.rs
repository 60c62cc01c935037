//! Ensembles of Apache ZooKeeper and Zebu in which not all members are alike: groups with weights, observers
//! that are served by followers, and observers without a log.

mod groups;
mod masters;
mod seats;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use zebu_testing::Launch;

use crate::apache::Edition;
use crate::outcome::{self, Ending};
use seats::Kind;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary; without it Apache ZooKeeper takes its place, and any fault is its own or this
    /// program's
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// The Apache ZooKeeper beside it: `latest`, `debian` or a version
    #[arg(long, value_name = "EDITION", default_value = "latest")]
    apache: String,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Keep configurations, logs and data below this directory
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

/// How each kind of server is started.
pub(crate) struct Launches {
    apache: Launch,
    zebu: Launch,
}

impl Launches {
    /// The same with further words on every command line.
    fn with_words(&self, words: &[String]) -> Launches {
        let add = |launch: &Launch| {
            let mut launch = launch.clone();
            launch.before.extend(words.iter().map(Into::into));
            launch
        };
        Launches { apache: add(&self.apache), zebu: add(&self.zebu) }
    }
}

type Test = fn(&Path, &Launches) -> Result<()>;

const TESTS: &[(&str, Test)] = &[
    ("groups: an Apache leader, members that do not change", |home, launches| {
        groups::fixed(home, launches, [Kind::Zebu, Kind::Apache])
    }),
    ("groups: a Zebu leader, members that do not change", |home, launches| {
        groups::fixed(home, launches, [Kind::Apache, Kind::Zebu])
    }),
    ("groups: an Apache leader changes groups and weights", |home, launches| {
        groups::changing(home, launches, [Kind::Zebu, Kind::Apache])
    }),
    ("groups: a Zebu leader changes groups and weights", |home, launches| {
        groups::changing(home, launches, [Kind::Apache, Kind::Zebu])
    }),
    ("observers: Zebu at Apache followers", |home, launches| {
        masters::run(home, launches, &[Kind::Apache; 3], &[Kind::Zebu, Kind::Zebu])
    }),
    ("observers: Apache at Zebu followers", |home, launches| {
        masters::run(home, launches, &[Kind::Zebu; 3], &[Kind::Apache, Kind::Apache])
    }),
    ("observers: both kinds, an Apache leader, followers of both kinds", |home, launches| {
        masters::run(home, launches, &[Kind::Apache, Kind::Zebu, Kind::Apache], &[Kind::Apache, Kind::Zebu])
    }),
    ("observers: both kinds, a Zebu leader, followers of both kinds", |home, launches| {
        masters::run(home, launches, &[Kind::Apache, Kind::Zebu, Kind::Zebu], &[Kind::Apache, Kind::Zebu])
    }),
    ("observers: both kinds with TLS and SASL, an Apache leader", |home, launches| {
        let voters = [Kind::Apache, Kind::Zebu, Kind::Apache];
        masters::run_protected(home, launches, &voters, &[Kind::Apache, Kind::Zebu])
    }),
    ("observers: both kinds with TLS and SASL, a Zebu leader", |home, launches| {
        let voters = [Kind::Apache, Kind::Zebu, Kind::Zebu];
        masters::run_protected(home, launches, &voters, &[Kind::Apache, Kind::Zebu])
    }),
    ("observers: both kinds without a log", masters::without_log),
    ("observers: members are killed one after the other", masters::under_kills),
];

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let edition = Edition::parse(&arguments.apache);
    let apache = edition.launch()?;
    let zebu = match &arguments.zebu {
        Some(binary) => Launch::zebu(binary.canonicalize()?),
        None => edition.launch()?,
    };
    let launches = Launches { apache, zebu };
    println!("version {}", edition.version());
    let mut ending = Ending::Good;
    for (number, (name, test)) in TESTS.iter().enumerate() {
        if arguments.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let temporary = tempfile::Builder::new().prefix("zebu-observers").tempdir()?;
        let home = match &arguments.keep {
            Some(directory) => directory.join(number.to_string()),
            None => temporary.path().to_owned(),
        };
        std::fs::create_dir_all(&home)?;
        match test(&home.canonicalize()?, &launches) {
            Ok(()) => drop(outcome::ok(name)),
            Err(fault) => ending = outcome::not_ok(name, &fault),
        }
    }
    Ok(ending)
}
