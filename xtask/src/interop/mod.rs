//! `interop`: clients that we did not write, against a running server. Owns the choice of suites and the table at
//! the end; the server is in `server`, the suites in the files of their names.

use anyhow::{Context, bail};

use crate::step::{cargo, run as run_step, target_directory};

mod c_client;
mod dialogue;
mod kazoo;
mod own_crate;
mod script;
mod server;
mod table;
mod zkcli;

use server::{RunningServer, Target};
use table::{Outcome, Row};

/// What to run, and against which server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Suites to run; all of them if none is named
    names: Vec<String>,
    /// Use a server that already runs instead of starting one
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "apache")]
    server: Option<String>,
    /// Start Apache ZooKeeper instead of Zebu, to check the suites themselves
    #[arg(long)]
    apache: bool,
    /// Print every check, not only the failures
    #[arg(long)]
    verbose: bool,
}

/// One foreign client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    Kazoo,
    CClient,
    ZkCli,
    /// A suite of the zebu-interop crate, by its name there.
    OwnCrate(&'static str),
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Suite::Kazoo => "kazoo",
            Suite::CClient => "c",
            Suite::ZkCli => "zkcli",
            Suite::OwnCrate(name) => name,
        }
    }
}

/// Runs the suites one after the other, each with a fresh server.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let suites = choose(&arguments.names, &available()?)?;
    let target = match (&arguments.server, arguments.apache) {
        (Some(address), _) => Target::Given(address.clone()),
        (None, true) => Target::Apache,
        (None, false) => Target::Zebu,
    };
    if target == Target::Zebu {
        run_step("build", &mut cargo(&["build", "--release", "--package", "zebu"]))?;
    }
    let mut rows = Vec::new();
    for suite in suites {
        println!("== {} against {target}", suite.name());
        let outcome =
            run_suite(suite, &target, arguments.verbose).unwrap_or_else(|error| Outcome::broken(&error));
        let row = Row::new(suite.name(), outcome);
        println!("{row}");
        rows.push(row);
    }
    print!("{}", table::render(&rows));
    if rows.iter().any(Row::has_failed) {
        bail!("interop: a suite failed");
    }
    Ok(())
}

fn run_suite(suite: Suite, target: &Target, verbose: bool) -> anyhow::Result<Outcome> {
    if let Suite::OwnCrate(name) = suite {
        return own_crate::run(name, target);
    }
    let build_directory = target_directory().join("interop");
    std::fs::create_dir_all(&build_directory).context("cannot make the directory for client programs")?;
    // Everything that can be missing is looked for before a server starts.
    match suite {
        Suite::Kazoo => {
            let mut command = kazoo::command(&build_directory)?;
            let mut server = RunningServer::start(target)?;
            let outcome = dialogue::run(&mut command, &mut server, verbose);
            server.finish(outcome)
        }
        Suite::CClient => {
            let mut command = c_client::command(&build_directory)?;
            let mut server = RunningServer::start(target)?;
            let outcome = dialogue::run(&mut command, &mut server, verbose);
            server.finish(outcome)
        }
        Suite::ZkCli | Suite::OwnCrate(_) => {
            let class_path = zkcli::class_path()?;
            let server = RunningServer::start(target)?;
            let outcome = zkcli::run(&class_path, server.address(), verbose);
            server.finish(outcome)
        }
    }
}

fn available() -> anyhow::Result<Vec<Suite>> {
    let mut suites = vec![Suite::Kazoo, Suite::CClient, Suite::ZkCli];
    suites.extend(own_crate::suites()?.into_iter().map(Suite::OwnCrate));
    Ok(suites)
}

fn choose(names: &[String], available: &[Suite]) -> anyhow::Result<Vec<Suite>> {
    if names.is_empty() {
        return Ok(available.to_vec());
    }
    let find = |name: &String| {
        available.iter().copied().find(|suite| suite.name() == name).with_context(|| {
            let known: Vec<_> = available.iter().map(|suite| suite.name()).collect();
            format!("no suite is named {name}; there are: {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_every_suite_and_a_wrong_name_is_an_error() {
        let all = [Suite::Kazoo, Suite::CClient];
        assert_eq!(choose(&[], &all).unwrap(), all);
        assert_eq!(choose(&["c".to_owned()], &all).unwrap(), [Suite::CClient]);
        let error = choose(&["zkcil".to_owned()], &all).unwrap_err().to_string();
        assert_eq!(error, "no suite is named zkcil; there are: kazoo, c");
    }
}
