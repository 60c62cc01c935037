//! The alert rules, the dashboard and the documentation against the table of families.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use zebu_metrics::{FamilyKind, family_table, find_family};

fn repository_file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository_file(path)).unwrap()
}

/// Words of PromQL, and labels that the expressions use.
const NOT_METRICS: [&str; 24] = [
    "up",
    "by",
    "on",
    "unless",
    "sum",
    "max",
    "rate",
    "increase",
    "histogram_quantile",
    "le",
    "instance",
    "job",
    "key",
    "role",
    "table",
    "label_values",
    "bool",
    "for",
    "m",
    "h",
    "s",
    "or",
    "and",
    "min",
];

/// The names in a PromQL expression, without its texts and durations.
fn names(expression: &str) -> BTreeSet<String> {
    let mut without_texts = String::new();
    for (index, part) in expression.split('"').enumerate() {
        without_texts.push_str(if index % 2 == 0 { part } else { " " });
    }
    let words = without_texts.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words
        .filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter(|word| !NOT_METRICS.contains(word))
        .map(str::to_owned)
        .collect()
}

/// Whether a server exports a sample of this name.
fn is_exported(sample: &str) -> bool {
    let is_of = |name: &str, suffix: &str| {
        find_family(name).is_some_and(|family| {
            family.is_exported()
                && match family.kind {
                    FamilyKind::Gauge
                    | FamilyKind::GaugeSet
                    | FamilyKind::LabelledGauge
                    | FamilyKind::Counter
                    | FamilyKind::CounterSet => suffix.is_empty(),
                    FamilyKind::Histogram => ["_bucket", "_count", "_sum"].contains(&suffix),
                    FamilyKind::BasicSummary
                    | FamilyKind::BasicSummarySet
                    | FamilyKind::AdvancedSummary
                    | FamilyKind::AdvancedSummarySet => ["", "_count", "_sum"].contains(&suffix),
                }
        })
    };
    let suffixes = ["", "_bucket", "_count", "_sum"];
    suffixes.iter().any(|suffix| sample.strip_suffix(suffix).is_some_and(|name| is_of(name, suffix)))
}

#[test]
fn each_metric_of_the_alerts_is_exported() {
    let rules = read("packaging/monitoring/zebu-alerts.yml");
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let used: BTreeSet<String> = expressions.flat_map(names).collect();
    assert!(used.len() >= 12, "{used:?}");
    let unknown: Vec<&String> = used.iter().filter(|name| !is_exported(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn each_metric_of_the_dashboard_is_exported() {
    let dashboard = read("packaging/monitoring/zebu-dashboard.json");
    let expressions = dashboard.lines().filter_map(|line| line.trim().strip_prefix("\"expr\": \""));
    let used: BTreeSet<String> =
        expressions.map(|line| line.replace("\\\"", "\"")).flat_map(|e| names(&e)).collect();
    assert!(used.len() >= 40, "{used:?}");
    let unknown: Vec<&String> = used.iter().filter(|name| !is_exported(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(!is_exported("zebu_fsync_duration_seconds") && !is_exported("followers"));
}

#[test]
fn the_documentation_has_the_current_table() {
    let page = read("docs/metrics.md");
    let (_, table) = page.split_once("<!-- families -->\n").unwrap();
    let (table, _) = table.split_once("<!-- end of families -->").unwrap();
    if table != family_table() {
        // The new table, to be copied from the target directory.
        let path = repository_file("target/metrics-table.md");
        let _ = std::fs::write(&path, family_table());
        panic!("the table of docs/metrics.md is old; the current one is in target/metrics-table.md");
    }
}

/// Needs promtool, of the Debian package `prometheus`, which `.ci/run` installs.
#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    let directory = repository_file("packaging/monitoring");
    for arguments in [["check", "rules", "zebu-alerts.yml"], ["test", "rules", "zebu-alerts-test.yml"]] {
        let output = match Command::new("promtool").args(arguments).current_dir(&directory).output() {
            Ok(output) => output,
            Err(error) => {
                eprintln!("skipped: promtool cannot be started ({error}); install the package prometheus");
                return;
            }
        };
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {text}");
    }
}
