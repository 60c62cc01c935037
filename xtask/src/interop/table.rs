//! The end of a run: a line per suite, the table that a reader sees last, and the same as Markdown for the documents.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::allowed::Judgement;
use crate::step::project_root;

const DOCUMENT: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- begin: written by cargo xtask interop --full --write-table -->";
const END: &str = "<!-- end -->";

/// A suite's line.
pub(crate) struct Row {
    pub(crate) suite: String,
    pub(crate) version: String,
    pub(crate) judgement: Judgement,
    /// Differences that the suite's own reviewed list allows.
    pub(crate) own_deviations: Vec<(String, String)>,
    pub(crate) took: Duration,
}

impl Row {
    /// Whether the suite fails the run.
    pub(crate) fn has_failed(&self) -> bool {
        !self.judgement.failures.is_empty()
    }

    /// The line that is printed when the suite has ended.
    pub(crate) fn line(&self) -> String {
        let verdict = if self.has_failed() { "FAILED" } else { "ok" };
        let Judgement { passed, failures, skipped, .. } = &self.judgement;
        format!(
            "{}: {verdict}, {passed} passed, {} failed, {} allowed to fail, {} skipped, {:.0} s",
            self.suite,
            failures.len(),
            self.judgement.allowed_count(),
            skipped.len(),
            self.took.as_secs_f64()
        )
    }
}

/// The closing table with every failure and every allowed deviation.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(format!(
        "{:<14} {:>6} {:>7} {:>7} {:>8} {:>8}  version",
        "suite", "run", "passed", "failed", "allowed", "skipped"
    ));
    for row in rows {
        let Judgement { passed, failures, skipped, .. } = &row.judgement;
        let allowed = row.judgement.allowed_count();
        let run = passed + failures.len() + allowed;
        line(format!(
            "{:<14} {run:>6} {passed:>7} {:>7} {allowed:>8} {:>8}  {}",
            row.suite,
            failures.len(),
            skipped.len(),
            row.version
        ));
    }
    for row in rows {
        for text in &row.judgement.skipped {
            line(format!("skipped  {}: {text}", row.suite));
        }
        for allowed in &row.judgement.allowed {
            for test in &allowed.tests {
                line(format!("allowed  {}: {test}: {}", row.suite, allowed.deviation.reason));
            }
        }
        for (name, reason) in &row.own_deviations {
            line(format!("allowed  {}: {name}: {reason}", row.suite));
        }
    }
    for row in rows {
        for failure in &row.judgement.failures {
            line(format!("FAILED   {}: {failure}", row.suite));
        }
    }
    out
}

/// Puts the table of a full run into the document.
pub(crate) fn write_document(rows: &[Row]) -> anyhow::Result<()> {
    let path = project_root().join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("read {DOCUMENT}"))?;
    fs::write(&path, replaced(&text, &markdown(rows))?).with_context(|| format!("write {DOCUMENT}"))?;
    println!("wrote the table into {DOCUMENT}");
    Ok(())
}

fn replaced(document: &str, table: &str) -> anyhow::Result<String> {
    let begin = document.find(BEGIN).with_context(|| format!("{DOCUMENT} has no line {BEGIN:?}"))?;
    let end = document.find(END).with_context(|| format!("{DOCUMENT} has no line {END:?}"))?;
    ensure!(begin < end, "{DOCUMENT} ends the table before it begins");
    Ok(format!("{}{BEGIN}\n{table}{}", &document[..begin], &document[end..]))
}

fn markdown(rows: &[Row]) -> String {
    let mut out = String::from(
        "| Suite | Version | Passed | Failed | Allowed deviations | Skipped |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let Judgement { passed, failures, skipped, .. } = &row.judgement;
        writeln!(
            out,
            "| `{}` | {} | {passed} | {} | {} | {} |",
            row.suite,
            row.version,
            failures.len(),
            row.judgement.allowed_count() + row.own_deviations.len(),
            skipped.len()
        )
        .expect("writing to a String");
    }
    let mut reasons = String::new();
    for row in rows {
        for allowed in &row.judgement.allowed {
            let tests = allowed.tests.len();
            let deviation = &allowed.deviation;
            writeln!(reasons, "| `{}` | `{}` | {tests} | {} |", row.suite, deviation.test, deviation.reason)
                .expect("writing to a String");
        }
        for (name, reason) in &row.own_deviations {
            writeln!(reasons, "| `{}` | `{name}` | | {reason} |", row.suite).expect("writing to a String");
        }
    }
    if !reasons.is_empty() {
        out.push_str("\nThe allowed deviations:\n\n| Suite | Test | Times | Reason |\n|---|---|---|---|\n");
        out.push_str(&reasons);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::allowed::{Allowed, Deviation};
    use super::super::server::Peer;
    use super::*;

    fn row() -> Row {
        let deviation = Deviation {
            suite: "kazoo".to_owned(),
            test: "TestSSL*".to_owned(),
            reason: "no TLS yet".to_owned(),
            peers: vec![Peer::Zebu],
        };
        let allowed =
            vec![Allowed { deviation, tests: vec!["TestSSL.a".to_owned(), "TestSSL.b".to_owned()] }];
        let judgement = Judgement {
            passed: 3,
            failures: vec!["lock: late".to_owned()],
            skipped: vec!["old: no".to_owned()],
            allowed,
        };
        let own_deviations = vec![("null-acl".to_owned(), "3 times (safe)".to_owned())];
        let (suite, version) = ("kazoo".to_owned(), "kazoo 2".to_owned());
        Row { suite, version, judgement, own_deviations, took: Duration::from_secs(2) }
    }

    #[test]
    fn the_table_counts_and_names() {
        let text = render(&[row()]);
        let lines: Vec<&str> = text.lines().collect();
        let figures: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(figures, ["kazoo", "6", "3", "1", "2", "1", "kazoo", "2"]);
        let expected = [
            "skipped  kazoo: old: no",
            "allowed  kazoo: TestSSL.a: no TLS yet",
            "allowed  kazoo: TestSSL.b: no TLS yet",
            "allowed  kazoo: null-acl: 3 times (safe)",
            "FAILED   kazoo: lock: late",
        ];
        assert_eq!(lines[2..], expected);
        assert_eq!(row().line(), "kazoo: FAILED, 3 passed, 1 failed, 2 allowed to fail, 1 skipped, 2 s");
    }

    #[test]
    fn the_document_keeps_what_is_around_the_table() {
        let document = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n");
        let text = replaced(&document, "new\n").unwrap();
        assert_eq!(text, format!("# Title\n\n{BEGIN}\nnew\n{END}\n\nmore\n"));
        assert!(replaced("# Title\n", "new\n").is_err());
        let table = markdown(&[row()]);
        assert!(table.contains("| `kazoo` | kazoo 2 | 3 | 1 | 3 | 1 |"), "{table}");
        assert!(table.contains("| `kazoo` | `TestSSL*` | 2 | no TLS yet |"), "{table}");
    }
}
