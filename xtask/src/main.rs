//! `cargo xtask`: the project's own chores. Owns the command line and nothing else; what a chore does is
//! in the module of its name. Chores call cargo and foreign programs; no server code lives here.
#![allow(clippy::print_stdout, reason = "a chore talks to the person who runs it")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod changelog;
mod checks;
mod crash_states;
mod deny;
mod dist;
mod docs;
mod error_arms;
mod interop;
mod mutants;
mod publish;
mod step;
mod tidy;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Zebu's own chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that must hold before a change lands; writes nothing but target/
    Verify,
    /// Format, apply clippy's own corrections and lower the length ratchet
    Fix,
    /// The rules of the house that no compiler checks
    Tidy,
    /// Licenses, sources and versions of all dependencies, by deny.toml
    Deny,
    /// Pictures and references of the book, from their sources
    Docs(docs::Arguments),
    /// The files of a release: binary, manual pages, archive, Debian packages
    Dist(dist::Arguments),
    /// The packages of all published crates, as cargo publish would send them
    Publish(publish::Arguments),
    /// Clients that we did not write, against a running server
    Interop(interop::Arguments),
    /// Power failures at every moment, each state recovered and judged
    CrashStates(crash_states::Arguments),
    /// Known bugs put back into a copy of the project: the simulator has to find each of them
    Mutants(mutants::Arguments),
    /// Error paths of storage and zab that no fault and no test has reached
    ErrorArms(error_arms::Arguments),
    /// Apache ZooKeeper and Zebu under the same load, one after the other
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Verify => checks::verify(),
        Chore::Fix => checks::fix(),
        Chore::Tidy => tidy::run(),
        Chore::Deny => deny::run(),
        Chore::Docs(arguments) => docs::run(&arguments),
        Chore::Dist(arguments) => dist::run(&arguments),
        Chore::Publish(arguments) => publish::run(&arguments),
        Chore::Interop(arguments) => interop::run(&arguments),
        Chore::CrashStates(arguments) => crash_states::look(&arguments),
        Chore::Mutants(arguments) => mutants::run(&arguments),
        Chore::ErrorArms(arguments) => error_arms::run(&arguments),
        Chore::Bench(arguments) => bench::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
