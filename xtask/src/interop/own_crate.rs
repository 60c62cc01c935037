//! The suites of the zebu-interop crate, which compare Zebu with Apache ZooKeeper request by request. This
//! file only calls its program. A command that prints no lines of the interface is one test, which passes
//! when it ends well.

use std::process::Command;

use super::program::{self, Call};
use super::report::{Report, Verdict};
use super::server::{Peer, zebu_binary};
use super::suites::Suite;
use crate::step::cargo;

/// Runs one of its commands.
pub(crate) fn run(name: &str, suite: &Suite, call: &Call) -> anyhow::Result<Report> {
    let mut command: Command = cargo(&["run", "--quiet", "--package", "zebu-interop", "--", name]);
    match call.peer {
        Peer::Zebu => {
            command.arg("--zebu").arg(zebu_binary());
        }
        // Without a binary the commands test Apache, except the one that must be told.
        Peer::Apache if name == "differential" => {
            command.arg("--apache-vs-apache");
        }
        Peer::Apache => {}
    }
    command.args(suite.arguments(call.part));
    let mut report = program::run(command, None, call)?;
    let has_failures = report.tests.iter().any(|test| matches!(test.verdict, Verdict::Failed(_)));
    if has_failures {
        // By hand its status says that something differs; here the tests say it.
        report.broken.retain(|why| why.starts_with("unreachable "));
    } else if report.tests.is_empty() && report.broken.is_empty() {
        report.add(name, Verdict::Passed);
    }
    Ok(report)
}
