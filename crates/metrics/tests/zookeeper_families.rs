//! The table against the recorded exposition of a live ZooKeeper 3.9.5: each of its families is here with the
//! same type, or has a reason.

use std::collections::BTreeMap;

use zebu_metrics::{Family, FamilyKind, find_family};

/// `/metrics` of a standalone server with the Prometheus provider.
const RECORDED: &str = include_str!("../testdata/zookeeper-3.9.5-standalone.prom");

/// The keys of `/commands/monitor` of a leader with the default provider.
const LEADER_KEYS: &str = include_str!("../testdata/zookeeper-3.9.5-leader.keys");

/// Families of ZooKeeper that Zebu does not have, with the reason that `docs/metrics.md` gives.
const LEFT_OUT: [(&str, &str); 1] = [("jvm_", "there is no Java machine")];

fn recorded_types() -> BTreeMap<&'static str, &'static str> {
    let types = RECORDED.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.collect()
}

#[test]
fn every_family_of_zookeeper_is_here_with_its_type() {
    let types = recorded_types();
    assert!(types.len() > 170, "{}", types.len());
    let mut missing = Vec::new();
    for (name, kind) in types {
        if LEFT_OUT.iter().any(|(prefix, _)| name.starts_with(prefix)) {
            continue;
        }
        match find_family(name) {
            Some(family) => assert_eq!(family.kind.prometheus_type(), kind, "{name}"),
            None => missing.push(name),
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// The quantiles of a recorded summary.
fn recorded_quantiles(name: &str) -> Vec<&'static str> {
    let prefix = format!("{name}{{quantile=\"");
    RECORDED.lines().filter_map(|line| line.strip_prefix(&prefix)?.split('"').next()).collect()
}

#[test]
fn summaries_have_the_quantiles_of_zookeeper() {
    for (name, _) in
        recorded_types().iter().filter(|(name, kind)| **kind == "summary" && !name.starts_with("jvm_"))
    {
        let family = find_family(name).expect("the other test found it");
        let quantiles = recorded_quantiles(name);
        let expected: &[&str] = match family.kind {
            FamilyKind::BasicSummary => &["0.5"],
            FamilyKind::AdvancedSummary => &["0.5", "0.9", "0.99"],
            FamilyKind::BasicSummarySet | FamilyKind::AdvancedSummarySet => &[],
            other => panic!("{name} is a {other:?}"),
        };
        assert_eq!(quantiles, expected, "{name}");
    }
}

/// A key of `monitor` belongs to a family: by its name, or behind the prefixes of summaries and sets.
fn has_family(key: &str) -> bool {
    let prefixes = ["", "avg_", "min_", "max_", "cnt_", "sum_", "p50_", "p95_", "p99_", "p999_"];
    let by_name = |name: &str| {
        let families = zebu_metrics::FAMILIES.iter().copied().flatten();
        families.clone().any(|family: &Family| family.mntr_name() == Some(name))
            || name.split_once('_').is_some_and(|(_, rest)| {
                let is_set = |family: &Family| {
                    matches!(
                        family.kind,
                        FamilyKind::GaugeSet
                            | FamilyKind::CounterSet
                            | FamilyKind::BasicSummarySet
                            | FamilyKind::AdvancedSummarySet
                    )
                };
                families.clone().any(|family| family.mntr_name() == Some(rest) && is_set(family))
            })
    };
    prefixes.iter().any(|prefix| key.strip_prefix(prefix).is_some_and(by_name))
}

#[test]
fn every_key_of_a_leader_is_here() {
    let first_lines = ["version", "server_state", "peer_state", "command", "error"];
    let keys = LEADER_KEYS.lines().filter(|key| !first_lines.contains(key));
    let missing: Vec<&str> = keys.filter(|key| !key.contains("jvm_") && !has_family(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(LEADER_KEYS.lines().count() > 500);
    assert!(!has_family("avg_something_else"));
}
