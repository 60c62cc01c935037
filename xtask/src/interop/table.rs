//! What a suite found, and the table that a reader sees last.

use std::fmt;
use std::fmt::Write;

/// Checks of one suite.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) skipped: usize,
    pub(crate) failures: Vec<String>,
}

impl Outcome {
    /// A suite that could not run counts as one failure: silence must not look like success.
    pub(crate) fn broken(error: &anyhow::Error) -> Outcome {
        Outcome { failures: vec![format!("{error:#}")], ..Outcome::default() }
    }
}

/// A suite's line.
pub(crate) struct Row {
    suite: &'static str,
    outcome: Outcome,
}

impl Row {
    pub(crate) fn new(suite: &'static str, outcome: Outcome) -> Row {
        Row { suite, outcome }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.outcome.failures.is_empty() || self.outcome.passed == 0
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.has_failed() { "FAILED" } else { "ok" };
        write!(formatter, "{}: {verdict}, {} checks passed", self.suite, self.outcome.passed)?;
        if self.outcome.skipped > 0 {
            write!(formatter, ", {} skipped", self.outcome.skipped)?;
        }
        for failure in &self.outcome.failures {
            write!(formatter, "\n  {failure}")?;
        }
        Ok(())
    }
}

/// The closing table.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut out = format!("{:<14} {:>6} {:>7} {:>7} {:>8}\n", "suite", "run", "passed", "failed", "skipped");
    for row in rows {
        let Outcome { passed, skipped, failures } = &row.outcome;
        let run = passed + failures.len();
        writeln!(out, "{:<14} {run:>6} {passed:>7} {:>7} {skipped:>8}", row.suite, failures.len())
            .expect("writing to a String");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_checked_nothing_has_failed() {
        assert!(Row::new("c", Outcome::default()).has_failed());
        assert!(!Row::new("c", Outcome { passed: 1, ..Outcome::default() }).has_failed());
        assert!(Row::new("c", Outcome::broken(&anyhow::anyhow!("no compiler"))).has_failed());
    }

    #[test]
    fn the_table_counts() {
        let outcome = Outcome { passed: 3, skipped: 1, failures: vec!["x".to_owned()] };
        let text = render(&[Row::new("kazoo", outcome)]);
        assert_eq!(
            text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(),
            ["kazoo", "4", "3", "1", "1"]
        );
    }
}
