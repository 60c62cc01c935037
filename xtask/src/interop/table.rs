//! The end of a run: the table that a reader sees last, and the same as Markdown for the documents.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, bail, ensure};

use super::allowed::Judgement;
use super::renewed::{DEVIATIONS, HEAD, renewed};
use super::results::{Outcome, Pair};
use crate::step::project_root;

const DOCUMENT: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- begin: written by cargo xtask interop --full --write-table -->";
const END: &str = "<!-- end -->";

/// The closing table with every failure and every allowed deviation.
pub(crate) fn render(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    let width = outcomes.iter().map(|outcome| outcome.suite.len()).max().unwrap_or(0).max("suite".len());
    line(format!(
        "{:<width$} {:>6} {:>7} {:>7} {:>8} {:>8}  version",
        "suite", "run", "passed", "failed", "allowed", "skipped"
    ));
    for outcome in outcomes {
        let Judgement { passed, failures, skipped, .. } = &outcome.judgement;
        let (passed, failed) = (passed.len(), failures.len());
        let allowed = outcome.judgement.allowed_count();
        let run = passed + failed + allowed;
        line(format!(
            "{:<width$} {run:>6} {passed:>7} {failed:>7} {allowed:>8} {:>8}  {}",
            outcome.suite,
            skipped.len(),
            outcome.version
        ));
    }
    for outcome in outcomes {
        for text in &outcome.judgement.skipped {
            line(format!("skipped  {}: {text}", outcome.suite));
        }
        for allowed in &outcome.judgement.allowed {
            for test in &allowed.tests {
                line(format!("allowed  {}: {test}: {}", outcome.suite, allowed.deviation.reason));
            }
        }
        for own in &outcome.own_deviations {
            line(format!("allowed  {}: {}, {} times: {}", outcome.suite, own.name, own.times, own.reason));
        }
    }
    for outcome in outcomes {
        for failure in &outcome.unsteady {
            line(format!("UNSTEADY {}: the first time: {failure}", outcome.suite));
        }
        for failure in &outcome.judgement.failures {
            line(format!("FAILED   {}: {failure}", outcome.suite));
        }
    }
    out
}

/// Which rows of the document are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a> {
    /// All of them.
    All,
    /// Those of the results; the others stay. These are the names of all suites, in their order.
    Some(&'a [&'a str]),
}

/// Puts the table of full runs into the document. What passes with Apache only is an error, after that.
pub(crate) fn write_document(pairs: &[Pair], rows: Rows<'_>) -> anyhow::Result<()> {
    let path = project_root().join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("read {DOCUMENT}"))?;
    let table = match rows {
        Rows::All => markdown(pairs),
        Rows::Some(order) => {
            let suites: Vec<&str> = pairs.iter().map(|pair| &*pair.zebu.suite).collect();
            renewed(present(&text)?, &markdown(pairs), order, &suites)
        }
    };
    fs::write(&path, replaced(&text, &table)?).with_context(|| format!("write {DOCUMENT}"))?;
    println!("wrote the table into {DOCUMENT}");
    let only: Vec<String> = pairs.iter().flat_map(only_with_apache).collect();
    if !only.is_empty() {
        bail!(
            "passes with Apache ZooKeeper, not with Zebu, and is not allowed to fail:\n{}",
            only.join("\n")
        );
    }
    Ok(())
}

fn only_with_apache(pair: &Pair) -> impl Iterator<Item = String> {
    pair.only_with_apache().into_iter().map(|test| format!("`{}`: {test}", pair.zebu.suite))
}

fn replaced(document: &str, table: &str) -> anyhow::Result<String> {
    let (begin, end) = place(document)?;
    Ok(format!("{}{BEGIN}\n{table}{}", &document[..begin], &document[end..]))
}

/// The table that the document has.
fn present(document: &str) -> anyhow::Result<&str> {
    let (begin, end) = place(document)?;
    Ok(&document[begin..end])
}

fn place(document: &str) -> anyhow::Result<(usize, usize)> {
    let begin = document.find(BEGIN).with_context(|| format!("{DOCUMENT} has no line {BEGIN:?}"))?;
    let end = document.find(END).with_context(|| format!("{DOCUMENT} has no line {END:?}"))?;
    ensure!(begin < end, "{DOCUMENT} ends the table before it begins");
    Ok((begin, end))
}

fn markdown(pairs: &[Pair]) -> String {
    let mut out = format!("{}\n{}\n", HEAD[0], HEAD[1]);
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    for Pair { zebu, apache } in pairs {
        let Judgement { passed, failures, skipped, .. } = &zebu.judgement;
        line(format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            zebu.suite,
            zebu.version,
            passed.len(),
            failures.len(),
            zebu.judgement.allowed_count() + zebu.own_deviations.len(),
            skipped.len(),
            apache.as_ref().map_or("not run".to_owned(), with_apache)
        ));
    }
    let outcomes = || pairs.iter().flat_map(|pair| std::iter::once(&pair.zebu).chain(&pair.apache));
    let oldest = outcomes().map(|outcome| &*outcome.day).min().unwrap_or_default();
    let newest = outcomes().map(|outcome| &*outcome.day).max().unwrap_or_default();
    let days = if oldest == newest { newest.to_owned() } else { format!("{oldest} to {newest}") };
    line(format!("\nEach row is the newest full run of its suite ({days}). {}", comparison(pairs)));
    let reasons = reasons(pairs);
    if !reasons.is_empty() {
        let [titles, line] = DEVIATIONS;
        writeln!(out, "\nThe allowed deviations:\n\n{titles}\n{line}").expect("writing to a String");
        out.push_str(&reasons);
    }
    out
}

fn with_apache(apache: &Outcome) -> String {
    let Judgement { passed, failures, .. } = &apache.judgement;
    let run = passed.len() + failures.len() + apache.judgement.allowed_count();
    if run == passed.len() { format!("{run}") } else { format!("{} of {run}", passed.len()) }
}

fn comparison(pairs: &[Pair]) -> String {
    let only: Vec<String> = pairs.iter().flat_map(only_with_apache).collect();
    if only.is_empty() {
        let text =
            "Every test that passes with Apache ZooKeeper passes with Zebu or is an allowed deviation.";
        return text.to_owned();
    }
    format!("These pass with Apache ZooKeeper only: {}.", only.join("; "))
}

fn reasons(pairs: &[Pair]) -> String {
    let mut out = String::new();
    // Suites of one kind share their list: a row each would say the same several times.
    let mut own: Vec<(&str, &str, Vec<String>, u64)> = Vec::new();
    for Pair { zebu, .. } in pairs {
        for allowed in &zebu.judgement.allowed {
            let (tests, deviation) = (allowed.tests.len(), &allowed.deviation);
            let (test, reason) = (&deviation.test, &deviation.reason);
            writeln!(out, "| `{}` | `{test}` | {tests} | {reason} |", zebu.suite)
                .expect("writing to a String");
        }
        for deviation in &zebu.own_deviations {
            let suite = format!("`{}`", zebu.suite);
            match own.iter_mut().find(|row| (row.0, row.1) == (&*deviation.name, &*deviation.reason)) {
                Some(row) => {
                    row.2.push(suite);
                    row.3 += deviation.times;
                }
                None => own.push((&deviation.name, &deviation.reason, vec![suite], deviation.times)),
            }
        }
    }
    for (name, reason, suites, times) in own {
        writeln!(out, "| {} | `{name}` | {times} | {reason} |", suites.join(", "))
            .expect("writing to a String");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::outcome;
    use super::super::server::Peer;
    use super::*;

    #[test]
    fn the_table_counts_and_names() {
        let unsteady = Outcome { unsteady: vec!["queue: late".to_owned()], ..outcome(Peer::Zebu) };
        let text = render(&[unsteady]);
        let lines: Vec<&str> = text.lines().collect();
        let figures: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(figures, ["kazoo", "6", "3", "1", "2", "1", "kazoo", "2"]);
        let expected = [
            "skipped  kazoo: old: no",
            "allowed  kazoo: TestSSL.a: no TLS yet",
            "allowed  kazoo: TestSSL.b: no TLS yet",
            "allowed  kazoo: null-acl, 3 times: safe",
            "UNSTEADY kazoo: the first time: queue: late",
            "FAILED   kazoo: lock: late",
        ];
        assert_eq!(lines[2..], expected);
    }

    #[test]
    fn the_document_keeps_what_is_around_the_table() {
        let document = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n");
        let text = replaced(&document, "new\n").unwrap();
        assert_eq!(text, format!("# Title\n\n{BEGIN}\nnew\n{END}\n\nmore\n"));
        assert!(replaced("# Title\n", "new\n").is_err());
    }

    #[test]
    fn the_document_has_both_servers_beside_each_other() {
        let other = Outcome { suite: "kazoo-suite".to_owned(), ..outcome(Peer::Zebu) };
        let table = markdown(&[
            Pair { zebu: outcome(Peer::Zebu), apache: None },
            Pair { zebu: other, apache: Some(outcome(Peer::Apache)) },
        ]);
        for line in [
            "| `kazoo` | kazoo 2 | 3 | 1 | 3 | 1 | not run |",
            "| `kazoo-suite` | kazoo 2 | 3 | 1 | 3 | 1 | 3 of 6 |",
            "| `kazoo` | `TestSSL*` | 2 | no TLS yet |",
            "| `kazoo`, `kazoo-suite` | `null-acl` | 6 | safe |",
        ] {
            assert!(table.lines().any(|other| other == line), "{line} in\n{table}");
        }
        assert!(
            table.contains("(2026-03-31). Every test that passes with Apache ZooKeeper passes with Zebu")
        );
    }

    #[test]
    fn the_document_names_what_passes_with_apache_only() {
        let mut apache = outcome(Peer::Apache);
        apache.judgement.passed.push("lock".to_owned());
        let table = markdown(&[Pair { zebu: outcome(Peer::Zebu), apache: Some(apache) }]);
        assert!(table.contains("These pass with Apache ZooKeeper only: `kazoo`: lock."), "{table}");
    }
}
