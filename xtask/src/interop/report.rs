//! What a suite said: its tests by name, each with a verdict. Whether a failure is allowed is not decided
//! here.

use serde::{Deserialize, Serialize};

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

/// One test of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
}

/// A difference that a suite's own reviewed list allows.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct OwnDeviation {
    pub(crate) name: String,
    pub(crate) times: u64,
    pub(crate) reason: String,
}

/// All that a suite said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// What ran, such as `kazoo 2.11.0`.
    pub(crate) version: Option<String>,
    pub(crate) tests: Vec<Test>,
    /// Differences that the suite's own reviewed list allows.
    pub(crate) deviations: Vec<OwnDeviation>,
    /// Why the suite did not run to its end. Silence must not look like success.
    pub(crate) broken: Vec<String>,
}

impl Report {
    /// A suite that could not run.
    pub(crate) fn broken(error: &anyhow::Error) -> Report {
        Report { broken: vec![format!("{error:#}")], ..Report::default() }
    }

    /// Adds a test.
    pub(crate) fn add(&mut self, name: impl Into<String>, verdict: Verdict) {
        self.tests.push(Test { name: name.into(), verdict });
    }

    /// Whether anything needs an explanation.
    pub(crate) fn has_trouble(&self) -> bool {
        !self.broken.is_empty() || self.tests.iter().any(|test| matches!(test.verdict, Verdict::Failed(_)))
    }

    /// Takes one line of a suite program; lines that are not part of the interface are left alone.
    /// The interface is described in interop/README.md.
    pub(crate) fn take_line(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("ok ") {
            self.add(name.trim(), Verdict::Passed);
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            let (name, reason) = name_and_reason(rest);
            self.add(name, Verdict::Failed(reason));
        } else if let Some(rest) = line.strip_prefix("skip ") {
            let (name, reason) = name_and_reason(rest);
            self.add(name, Verdict::Skipped(reason));
        } else if let Some(version) = line.strip_prefix("version ") {
            self.version = Some(version.trim().to_owned());
        } else if let Some(rest) = line.trim_start().strip_prefix("known deviation ") {
            let (name, reason) = name_and_reason(rest);
            let (times, reason) = times_and_reason(&reason);
            if times > 0 {
                self.deviations.push(OwnDeviation { name, times, reason });
            }
        } else if line.starts_with("unreachable ") {
            self.broken.push(line.trim().to_owned());
        }
    }
}

fn name_and_reason(text: &str) -> (String, String) {
    let (name, reason) = text.split_once(": ").unwrap_or((text.trim_end_matches(':'), "no reason was given"));
    (name.trim().to_owned(), reason.trim().to_owned())
}

/// `3 times (why)`; without a number it occurred once.
fn times_and_reason(text: &str) -> (u64, String) {
    let counted = text.split_once(" times (").and_then(|(times, rest)| {
        Some((times.parse().ok()?, rest.strip_suffix(')').unwrap_or(rest).to_owned()))
    });
    counted.unwrap_or((1, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_interface_count() {
        let mut report = Report::default();
        for line in [
            "version kazoo 2.11.0",
            "ok create: with a colon",
            "not ok watch: late: by 3 s",
            "not ok silent",
            "skip restart: no",
            "  known deviation null-acl: 3 times (safe (so far))",
            "known deviation uncounted: 3 reasons",
            "  known deviation not-met: 0 times (safe)",
            "okay then",
            "17 checks passed",
            "",
        ] {
            report.take_line(line);
        }
        let verdicts: Vec<_> = report.tests.iter().map(|test| (&*test.name, test.verdict.clone())).collect();
        let expected = [
            ("create: with a colon", Verdict::Passed),
            ("watch", Verdict::Failed("late: by 3 s".to_owned())),
            ("silent", Verdict::Failed("no reason was given".to_owned())),
            ("restart", Verdict::Skipped("no".to_owned())),
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(report.version.as_deref(), Some("kazoo 2.11.0"));
        let deviation = |name: &str, times, reason: &str| OwnDeviation {
            name: name.to_owned(),
            times,
            reason: reason.to_owned(),
        };
        let expected = [deviation("null-acl", 3, "safe (so far)"), deviation("uncounted", 1, "3 reasons")];
        assert_eq!(report.deviations, expected);
        assert_eq!(report.broken, [""; 0]);
    }

    #[test]
    fn a_registry_out_of_reach_breaks_the_suite() {
        let mut report = Report::default();
        report.take_line("unreachable the package index: no route");
        assert_eq!(report.broken, ["unreachable the package index: no route"]);
        assert!(report.has_trouble());
    }
}
