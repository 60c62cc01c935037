//! What becomes of the chains: other histories, wrong digests, times, and what the numbers say about it.

use std::sync::Arc;
use std::time::Duration;

use zebu_backup::core::archive::all_segments;
use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::plan::{Point, plan};
use zebu_backup::core::replay::{Unobserved, rebuild};
use zebu_backup::core::verify::verify;
use zebu_backup::run::wall_ms;

use crate::gate::{Gate, Gated, GatedTarget};
use crate::leader::FakeLeader;
use crate::running::{Running, manifest, proven_chains};

#[test]
fn an_ensemble_that_lost_everything_begins_a_new_chain() {
    let leader = FakeLeader::new(7, 1_000_000);
    let target = MemoryTarget::new();
    let backup = Running::start(&leader, target.clone());
    backup.wait("a base", |view| view.bases > 0);
    let last = leader.commit();
    backup.wait_stored(last);
    leader.restart_empty(1);
    backup.wait("a clear error", |view| {
        view.last_error.as_ref().is_some_and(|error| error.contains("the leader has epoch 1"))
    });
    let first = leader.commit();
    backup.wait_stored(first);
    let view = backup.view();
    backup.stop().unwrap();
    let chains = proven_chains(&target);
    assert_eq!((chains.len(), chains[0].1, chains[1].1), (2, last, first));
    assert_eq!(view.new_chains, 1);
    assert_eq!(manifest(&target).highest_epoch, 7, "a restored ensemble is above both");
}

#[test]
fn every_hole_is_counted() {
    let leader = FakeLeader::new(3, 1_000_000);
    let target = MemoryTarget::new();
    let backup = Running::start(&leader, target.clone());
    backup.wait("a base", |view| view.bases > 0);
    for holes in 1..=3 {
        backup.wait_stored(leader.commit());
        leader.lose_log_while_away();
        backup.wait("a hole", |view| view.new_chains == holes);
    }
    backup.wait_stored(leader.commit());
    backup.stop().unwrap();
    assert_eq!(proven_chains(&target).len(), 4);
    // A restarted process knows its history, and what is stored.
    let end = manifest(&target).end().unwrap().zxid;
    let backup = Running::start(&leader, target.clone());
    backup.wait("the stored transaction", |view| view.stored_zxid == format!("{:#x}", end.0));
    leader.lose_log_while_away();
    backup.wait("a hole", |view| view.new_chains == 1);
    backup.stop().unwrap();
}

#[test]
fn times_are_those_of_the_leader() {
    // The clock of the leader is decades behind that of this machine.
    let leader = FakeLeader::new(3, 1_000_000);
    let target = MemoryTarget::new();
    let backup = Running::start(&leader, target.clone());
    backup.wait("a base", |view| view.bases > 0);
    let mut committed = Vec::new();
    for _ in 0..3 {
        committed.push((leader.commit(), leader.clock_ms()));
    }
    backup.wait_stored(committed[2].0);
    backup.stop().unwrap();
    let manifest = manifest(&target);
    let segments = all_segments(&target, &manifest).unwrap();
    assert_eq!(manifest.bases[0].time_ms, committed[0].1, "the base is not later than what follows it");
    for (zxid, time_ms) in committed {
        let plan = plan(&manifest, &segments, Point::Time(time_ms)).unwrap();
        let state = rebuild(&target, &plan, 1, &mut Unobserved).unwrap();
        assert_eq!((state.tree.last_zxid(), state.time_ms), (zxid, time_ms));
    }
    // A restart on an idle ensemble brings no other clock in.
    let backup = Running::start(&leader, target.clone());
    let last = leader.commit();
    let time_ms = leader.clock_ms();
    backup.wait_stored(last);
    backup.stop().unwrap();
    assert_eq!(crate::running::manifest(&target).end().unwrap().time_ms, time_ms);
}

#[test]
fn a_wrong_digest_costs_one_more_base_and_suspends_retention() {
    let leader = FakeLeader::new(3, 1_000_000);
    let target = MemoryTarget::new();
    let backup = Running::start_with(&leader, target.clone(), |settings| {
        settings.base_log_bytes = 1;
        settings.keep_ms = Some(0);
    });
    backup.wait("a base", |view| view.bases > 0);
    let good = leader.commit();
    backup.wait_stored(good);
    leader.write_digests_wrong_by(1);
    leader.commit();
    backup.wait("a chain after the wrong digest", |view| view.new_chains == 1);
    let bases = backup.view().bases;
    for _ in 0..3 {
        let last = leader.commit();
        backup.wait_stored(last);
    }
    backup.wait("further bases", |view| view.bases > bases + 1);
    let view = backup.view();
    backup.stop().unwrap();
    assert_eq!(view.new_chains, 1, "a second whole state would not help");
    assert_eq!(view.digest_mismatches, 2);
    // Nothing was removed since then: the state before the wrong digest can be restored.
    let manifest = manifest(&target);
    let segments = all_segments(&target, &manifest).unwrap();
    let plan = plan(&manifest, &segments, Point::Zxid(good)).unwrap();
    assert_eq!(rebuild(&target, &plan, 1, &mut Unobserved).unwrap().tree.last_zxid(), good);
    verify(&target, &manifest, 1, &mut Unobserved, |_| ()).unwrap_err();
}

#[test]
fn the_lag_counts_from_the_oldest_waiting_transaction() {
    let leader = FakeLeader::new(3, 1_000_000);
    let (target, gate) = (MemoryTarget::new(), Arc::new(Gate::default()));
    let gated = GatedTarget { inner: target.clone(), gate: gate.clone(), gated: Gated::Writes };
    gate.allow(1);
    let backup = Running::start(&leader, gated);
    backup.wait("a base", |view| view.bases > 0);
    assert_eq!(backup.view().lag_ms, 0);
    let first = leader.commit();
    gate.await_arrivals(2);
    let second = leader.commit();
    backup.wait("received", |view| view.received_zxid == format!("{:#x}", second.0));
    // The second transaction has come by now. It does not become younger when the first one is stored.
    let received_ms = wall_ms();
    std::thread::sleep(Duration::from_millis(20));
    gate.allow(1);
    backup.wait_stored(first);
    let now_ms = wall_ms();
    let lag_ms = backup.status.view(now_ms).lag_ms;
    assert!(lag_ms >= now_ms - received_ms, "{lag_ms} of at least {}", now_ms - received_ms);
    gate.allow(usize::MAX);
    backup.wait_stored(second);
    backup.wait("no lag", |view| view.lag_ms == 0);
    backup.stop().unwrap();
}
