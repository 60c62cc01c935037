//! `interop`: programs that we did not write, against the release binary. Owns the run: which suites, against
//! which server, and the verdict at the end. What a suite is stands in interop/suites.toml, what may fail in
//! interop/allowed.toml.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::bail;

use crate::step::{cargo, project_root, run as run_step};

mod allowed;
mod apache;
mod own_crate;
mod pattern;
// The file and not the crate: xtask builds without the server.
#[allow(dead_code, unreachable_pub, reason = "public in its own crate, and not all of it is used here")]
#[path = "../../../crates/testing/src/port.rs"]
mod port;
mod program;
#[cfg(test)]
mod registries;
mod renewed;
mod report;
mod results;
mod schedule;
mod script;
mod server;
mod suites;
mod table;
mod zkcli;

use allowed::Deviation;
use program::Call;
use report::Report;
use results::Outcome;
use server::{Peer, RunningServer, Target};
use suites::{Failure, Runner, Source, Suite};
use table::Rows;

/// What to run, and against which server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Suites to run; all of them if none is named
    names: Vec<String>,
    /// Run all of each suite, not only the quick part
    #[arg(long)]
    full: bool,
    /// Write the table of the newest full result of every suite into docs/compatibility.md, or only the rows
    /// of the named suites; without --full nothing runs before
    #[arg(long, conflicts_with = "server")]
    write_table: bool,
    /// Name the suites and end
    #[arg(long)]
    list: bool,
    /// Use a server that already runs, for the suites that take one
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "apache")]
    server: Option<String>,
    /// Start Apache ZooKeeper instead of Zebu, to check the suites themselves
    #[arg(long)]
    apache: bool,
    /// Suites that run at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Print every line of the suites, not only the failures
    #[arg(long)]
    verbose: bool,
}

/// How much of each suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Quick,
    Full,
}

impl Part {
    /// Its name for programs.
    fn word(self) -> &'static str {
        match self {
            Part::Quick => "quick",
            Part::Full => "full",
        }
    }
}

/// How much of a suite's talk is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Failures,
    Everything,
}

/// One run of the harness.
struct Run {
    target: Target,
    part: Part,
    shown: Shown,
    jobs: usize,
    /// A directory with programs that go before those of the system.
    programs: Option<PathBuf>,
}

impl Run {
    fn new(arguments: &Arguments) -> anyhow::Result<Run> {
        let target = match (&arguments.server, arguments.apache) {
            (Some(address), _) => Target::Given(address.clone()),
            (None, true) => Target::Started(Peer::Apache),
            (None, false) => Target::Started(Peer::Zebu),
        };
        let part = if arguments.full { Part::Full } else { Part::Quick };
        let shown = if arguments.verbose { Shown::Everything } else { Shown::Failures };
        let jobs = arguments.jobs.max(1);
        let programs = if jobs > 1 { schedule::one_maven(&program::cache()?)? } else { None };
        Ok(Run { target, part, shown, jobs, programs })
    }

    /// Whose deviations count. A server that is given is taken for ours.
    fn peer(&self) -> Peer {
        match self.target {
            Target::Started(peer) => peer,
            Target::Given(_) => Peer::Zebu,
        }
    }

    /// The suite, and once more if its failure has to be seen twice. Full runs are evidence: they are never
    /// repeated.
    fn judged(&self, suite: &Suite, deviations: &[Deviation]) -> Outcome {
        let first = self.attempt(suite, deviations);
        if !first.has_failed() || suite.failure == Failure::Counts || self.part == Part::Full {
            return first;
        }
        println!("{}", first.line());
        first.judgement.failures.iter().for_each(|failure| println!("   {failure}"));
        println!("== {} once more", suite.name);
        Outcome { unsteady: first.judgement.failures, ..self.attempt(suite, deviations) }
    }

    fn attempt(&self, suite: &Suite, deviations: &[Deviation]) -> Outcome {
        let started = Instant::now();
        let mut report = self.suite(suite).unwrap_or_else(|error| Report::broken(&error));
        Outcome {
            suite: suite.name.clone(),
            peer: self.peer(),
            day: results::today(),
            version: report.version.take().or_else(|| suite.version.clone()).unwrap_or_default(),
            own_deviations: std::mem::take(&mut report.deviations),
            judgement: allowed::judge(&suite.name, report, deviations, self.peer(), self.part),
            unsteady: Vec::new(),
            took: started.elapsed(),
        }
    }

    fn suite(&self, suite: &Suite) -> anyhow::Result<Report> {
        let cache = program::cache()?;
        let call = Call {
            suite: &suite.name,
            peer: self.peer(),
            part: self.part,
            limit: suite.limit(self.part),
            shown: self.shown,
            cache: &cache,
            programs: self.programs.as_deref(),
        };
        let is_given = matches!(self.target, Target::Given(_));
        if is_given && suite.server == Source::Own && suite.runs != Runner::ZkCli {
            bail!("{} starts its own servers; leave --server out", suite.name);
        }
        match &suite.runs {
            Runner::Crate(name) => own_crate::run(name, suite, &call),
            Runner::ZkCli => zkcli::run(&self.target, self.shown),
            Runner::Program(path) => {
                let command = command_of(path, suite, self.part);
                match suite.server {
                    Source::Own => program::run(command, None, &call),
                    Source::Given => {
                        let mut server = RunningServer::start(&self.target)?;
                        let report = program::run(command, Some(&mut server), &call);
                        server.finish(report)
                    }
                }
            }
        }
    }
}

/// The program of a suite. One that is given a server gets its address as the only argument, later.
fn command_of(path: &str, suite: &Suite, part: Part) -> Command {
    let mut command = Command::new(project_root().join(path));
    if suite.server == Source::Own {
        command.args(suite.arguments(part));
    }
    command
}

/// Runs the suites, each with fresh servers.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let run = Run::new(arguments)?;
    let available = suites::read()?;
    if arguments.list {
        available.iter().for_each(|suite| println!("{}", suite.name));
        return Ok(());
    }
    let has_failed = if arguments.write_table && run.part == Part::Quick {
        false
    } else {
        run_suites(&run, &arguments.names, &available)?
    };
    if arguments.write_table {
        write_table(&arguments.names, &available)?;
    }
    if has_failed {
        bail!("interop: a suite failed");
    }
    Ok(())
}

/// With names only their rows are written: the others need no result here.
fn write_table(names: &[String], available: &[Suite]) -> anyhow::Result<()> {
    let chosen = suites::choose(names, available, Part::Full)?;
    let pairs = results::newest(&chosen)?;
    let order: Vec<&str> = available.iter().map(|suite| &*suite.name).collect();
    let rows = if names.is_empty() { Rows::All } else { Rows::Some(&order) };
    table::write_document(&pairs, rows)
}

/// Runs them, keeps the results of full runs, prints the table and says whether one failed.
fn run_suites(run: &Run, names: &[String], available: &[Suite]) -> anyhow::Result<bool> {
    let chosen = suites::choose(names, available, run.part)?;
    let deviations = allowed::read()?;
    for entry in &deviations {
        if !available.iter().any(|suite| suite.name == entry.suite) {
            bail!("interop/allowed.toml speaks of {}, which is no suite", entry.suite);
        }
    }
    if run.target == Target::Started(Peer::Zebu) {
        run_step("build", &mut cargo(&["build", "--release", "--package", "zebu"]))?;
    }
    if run.jobs > 1 {
        // Suites of the crate would wait for each other's build.
        run_step("build", &mut cargo(&["build", "--quiet", "--package", "zebu-interop"]))?;
    }
    let run_suite = |suite: &Suite| {
        println!("== {} ({}) against {}", suite.name, run.part.word(), run.peer());
        let outcome = run.judged(suite, &deviations);
        println!("{}", outcome.line());
        if run.part == Part::Full && matches!(run.target, Target::Started(_)) {
            results::keep(&outcome)?;
        }
        Ok(outcome)
    };
    let outcomes = schedule::run_all(&chosen, run.jobs, run_suite);
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<anyhow::Result<_>>()?;
    print!("{}", table::render(&outcomes));
    Ok(outcomes.iter().any(Outcome::has_failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_arguments_of_its_part() {
        let suites = suites::read().unwrap();
        let suite = suites.iter().find(|suite| suite.name == "kazoo-suite-3").unwrap();
        let Runner::Program(path) = &suite.runs else { panic!("it is a program") };
        let arguments =
            |part| command_of(path, suite, part).get_args().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(arguments(Part::Full), ["--servers", "3"]);
        assert!(arguments(Part::Quick).is_empty());
    }
}
