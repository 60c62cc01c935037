//! The reviewed list of deviations, interop/allowed.toml, and the judgement of a suite by it.
//! A failure that is not listed fails the run; a listed one that does not occur any more fails it too.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::Part;
use super::pattern::matches;
use super::report::{Report, Verdict};
use super::server::Peer;
use crate::step::project_root;

const FILE: &str = "interop/allowed.toml";

/// One line of the list.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deviation {
    pub(crate) suite: String,
    /// A test's name; `*` stands for any characters.
    pub(crate) test: String,
    pub(crate) reason: String,
    /// Where the test fails: at Zebu, or at Apache ZooKeeper in the same set-up too.
    #[serde(default = "zebu_only")]
    pub(crate) peers: Vec<Peer>,
}

fn zebu_only() -> Vec<Peer> {
    vec![Peer::Zebu]
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    allowed: Vec<Deviation>,
}

/// What a suite is worth after the list was looked at.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// By name: which of them pass with another server too is asked later.
    pub(crate) passed: Vec<String>,
    pub(crate) failures: Vec<String>,
    pub(crate) skipped: Vec<String>,
    pub(crate) allowed: Vec<Allowed>,
}

/// A listed deviation that occurred.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) deviation: Deviation,
    /// The tests that failed because of it.
    pub(crate) tests: Vec<String>,
}

impl Judgement {
    /// How many failures are allowed.
    pub(crate) fn allowed_count(&self) -> usize {
        self.allowed.iter().map(|allowed| allowed.tests.len()).sum()
    }
}

/// Reads the list.
pub(crate) fn read() -> anyhow::Result<Vec<Deviation>> {
    let text = std::fs::read_to_string(project_root().join(FILE)).with_context(|| format!("read {FILE}"))?;
    parse(&text).with_context(|| format!("{FILE} is not usable"))
}

fn parse(text: &str) -> anyhow::Result<Vec<Deviation>> {
    let list: List = toml::from_str(text)?;
    for deviation in &list.allowed {
        anyhow::ensure!(!deviation.reason.trim().is_empty(), "{} has no reason", deviation.test);
    }
    Ok(list.allowed)
}

/// Judges what a suite said. In a full run every entry for it must occur; in a quick run only the tests that
/// ran tell.
pub(crate) fn judge(suite: &str, report: Report, list: &[Deviation], peer: Peer, part: Part) -> Judgement {
    let mut judgement = Judgement::default();
    let applies = |entry: &&Deviation| entry.suite == suite && entry.peers.contains(&peer);
    let mut entries: Vec<Allowed> = list
        .iter()
        .filter(applies)
        .map(|entry| Allowed { deviation: entry.clone(), tests: Vec::new() })
        .collect();
    let complete = report.broken.is_empty();
    for test in report.tests {
        let entry = entries.iter_mut().find(|entry| matches(&entry.deviation.test, &test.name));
        match (test.verdict, entry) {
            (Verdict::Failed(_), Some(entry)) => entry.tests.push(test.name),
            (Verdict::Failed(reason), None) => judgement.failures.push(format!("{}: {reason}", test.name)),
            (Verdict::Passed, None) => judgement.passed.push(test.name),
            (Verdict::Passed, Some(entry)) => {
                let pattern = &entry.deviation.test;
                let text = format!("{}: passes, but {FILE} allows it to fail ({pattern})", test.name);
                judgement.failures.push(text);
            }
            (Verdict::Skipped(reason), _) => judgement.skipped.push(format!("{}: {reason}", test.name)),
        }
    }
    if part == Part::Full && complete {
        let gone = entries.iter().filter(|entry| entry.tests.is_empty());
        judgement.failures.extend(
            gone.map(|entry| format!("{}: {FILE} allows it, but it did not occur", entry.deviation.test)),
        );
    }
    entries.retain(|entry| !entry.tests.is_empty());
    judgement.allowed = entries;
    judgement.failures.extend(report.broken);
    if judgement.passed.is_empty() && judgement.failures.is_empty() {
        judgement.failures.push("no test passed".to_owned());
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[allowed]]
        suite = "kazoo-suite"
        test = "TestSSL*"
        reason = "no TLS yet"

        [[allowed]]
        suite = "kazoo-suite"
        test = "TestThree"
        reason = "one server"
        peers = ["zebu", "apache"]
    "#;

    fn report(lines: &[&str]) -> Report {
        let mut report = Report::default();
        lines.iter().for_each(|line| report.take_line(line));
        report
    }

    fn judged(lines: &[&str], peer: Peer, part: Part) -> Judgement {
        judge("kazoo-suite", report(lines), &parse(LIST).unwrap(), peer, part)
    }

    #[test]
    fn a_listed_failure_is_allowed_and_another_is_not() {
        let lines =
            ["ok a", "not ok TestSSL.x: refused", "not ok TestThree: one", "not ok b: late", "skip c: old"];
        let judgement = judged(&lines, Peer::Zebu, Part::Full);
        assert_eq!(judgement.passed, ["a"]);
        assert_eq!(judgement.failures, ["b: late"]);
        assert_eq!(judgement.skipped, ["c: old"]);
        assert_eq!(judgement.allowed_count(), 2);
        assert_eq!(judgement.allowed[0].tests, ["TestSSL.x"]);
    }

    #[test]
    fn an_entry_is_for_the_peers_that_it_names() {
        let lines = ["ok a", "not ok TestSSL.x: refused", "not ok TestThree: one"];
        let judgement = judged(&lines, Peer::Apache, Part::Full);
        assert_eq!(judgement.failures, ["TestSSL.x: refused"]);
        assert_eq!(judgement.allowed_count(), 1);
    }

    #[test]
    fn a_deviation_that_stops_occurring_fails_the_run() {
        let passes = judged(&["ok a", "ok TestSSL.x", "not ok TestThree: one"], Peer::Zebu, Part::Quick);
        assert_eq!(passes.failures.len(), 1);
        assert!(passes.failures[0].starts_with("TestSSL.x: passes"), "{:?}", passes.failures);

        let gone = judged(&["ok a", "not ok TestThree: one"], Peer::Zebu, Part::Full);
        assert_eq!(gone.failures, ["TestSSL*: interop/allowed.toml allows it, but it did not occur"]);
        assert_eq!(judged(&["ok a"], Peer::Zebu, Part::Quick).failures, [""; 0]);
    }

    #[test]
    fn a_suite_that_checked_nothing_has_failed() {
        assert_eq!(judged(&[], Peer::Zebu, Part::Quick).failures, ["no test passed"]);
        let broken = judge("c", Report::broken(&anyhow::anyhow!("no compiler")), &[], Peer::Zebu, Part::Full);
        assert_eq!(broken.failures, ["no compiler"]);
    }

    #[test]
    fn an_entry_needs_a_reason_and_known_words() {
        let without = "[[allowed]]\nsuite = \"a\"\ntest = \"b\"\nreason = \" \"";
        assert_eq!(parse(without).unwrap_err().to_string(), "b has no reason");
        assert!(parse("[[allowed]]\nsuite = \"a\"\ntest = \"b\"").is_err());
        assert!(parse("[[alowed]]\nsuite = \"a\"").is_err());
        let text = std::fs::read_to_string(project_root().join(FILE)).unwrap();
        assert!(parse(&text).is_ok());
    }
}
