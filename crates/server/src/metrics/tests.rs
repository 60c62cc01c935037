//! Tests of the collected view: every family has a value, and the texts fit their readers.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::sync::Arc;

use zebu_metrics::{Exposure, FAMILIES, FamilyScope, FamilySource, WriteRun, mntr_text, prometheus_text};

use super::collect::collect_view;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::core::context::ServerContext;
use crate::core::inbox::CoreStatus;
use crate::settings;

fn shared() -> Arc<ServerContext> {
    let config = ServerConfig::built_in();
    let tree = zebu_tree::Tree::new(zebu_tree::TreeOptions::default());
    let policy = settings::policy(&config);
    let replica = zebu_node::Replica::new(tree, policy, zebu_node::AuthEnforcement::Off, 0);
    Arc::new(ServerContext::new(config, Clock::start(), replica, 0))
}

fn status() -> CoreStatus {
    CoreStatus {
        leader: None,
        disk_hand_overs: 0,
        global_sessions: Default::default(),
        local_sessions: None,
        drop_probability: 0.0,
        digest_mismatches: 0,
        learner_master: None,
        learners: Vec::new(),
        logged: zebu_proto::Zxid::ZERO,
        history_bytes: 0,
        pending_syncs: 0,
    }
}

#[test]
fn every_family_of_every_server_has_a_value() {
    let view = collect_view(&shared(), &status());
    for family in FAMILIES.iter().copied().flatten() {
        let is_due = family.scope == FamilyScope::Every && family.source == FamilySource::Measured;
        assert!(!is_due || view.has(family.name), "{} was not collected", family.name);
        let has_both = family.source == FamilySource::NoCounterpart && view.has(family.name);
        assert!(!has_both, "{} is measured; the table says 0", family.name);
    }
}

/// Telegraf's pattern is `^zk_(\w[\w\.\-]*)\s+([\w\.\-]+)`, and it rejects an answer with another line.
fn fits_telegraf(line: &str) -> bool {
    let Some((key, value)) = line.strip_prefix("zk_").and_then(|rest| rest.split_once('\t')) else {
        return false;
    };
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_allowed = |letter: char| is_word(letter) || letter == '.' || letter == '-';
    key.starts_with(is_word) && key.chars().all(is_allowed) && value.starts_with(is_allowed)
}

#[test]
fn mntr_has_one_shape_that_collectors_read() {
    let shared = shared();
    let replica_metrics = shared.read_replica().metrics().clone();
    let mut run = WriteRun::default();
    for path in ["/app/a", "/a b/x", "/ü/x", "/{x}/y", "/.z/y"] {
        replica_metrics.namespaces.add_write(&mut run, path, 5);
    }
    replica_metrics.namespaces.flush_writes(&mut run);
    let text = mntr_text(&collect_view(&shared, &status()));
    assert!(text.lines().count() > 400, "{text}");
    for line in text.lines() {
        assert!(fits_telegraf(line), "{line}");
    }
    // OpenTelemetry reads whole numbers only.
    assert!(text.contains("zk_znode_count\t") && !text.contains("zk_znode_count\t5.0"));
    assert!(text.contains("zk_avg_app_write_per_namespace\t5.0\n"), "{text}");
}

#[test]
fn a_reset_changes_mntr_and_no_prometheus_counter() {
    let shared = shared();
    shared.metrics.commits.add(3);
    shared.metrics.fsync_ms.record(8);
    shared.metrics.reset();
    let view = collect_view(&shared, &status());
    let (mntr, prometheus) = (mntr_text(&view), prometheus_text(&view, &[]));
    assert!(mntr.contains("zk_commit_count\t0\n") && mntr.contains("zk_cnt_fsynctime\t0\n"), "{mntr}");
    assert!(prometheus.contains("\ncommit_count 3.0\n"), "{prometheus}");
    assert!(prometheus.contains("\nfsynctime_count 1.0\nfsynctime_sum 8.0\n"), "{prometheus}");
}

#[test]
fn the_prometheus_text_has_every_family_once_and_no_line_that_is_unknown() {
    let text = prometheus_text(&collect_view(&shared(), &status()), &[]);
    let types: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut unique = types.clone();
    unique.dedup();
    assert_eq!(types, unique, "sorted, and none twice");
    for family in FAMILIES.iter().copied().flatten() {
        let is_shown = family.scope == FamilyScope::Every && family.exposure != Exposure::MntrOnly;
        assert!(!is_shown || types.contains(&family.name), "{}", family.name);
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value == "NaN" || value.parse::<f64>().is_ok(), "{line}");
        let name = series.split('{').next().unwrap();
        assert!(types.iter().any(|family| name.starts_with(family)), "{line}");
    }
}
