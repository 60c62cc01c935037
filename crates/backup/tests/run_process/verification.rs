//! A running backup verifies itself beside its upload.

use std::sync::Arc;

use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::target::Target;
use zebu_backup::run::{RunSettings, Verification};

use crate::gate::{Gate, Gated, GatedTarget};
use crate::leader::FakeLeader;
use crate::running::{Running, proven_chains};

/// Verifies all the time, through a gate.
fn verified(target: &MemoryTarget, gate: &Arc<Gate>) -> impl FnOnce(&mut RunSettings) {
    let (inner, gate) = (target.clone(), gate.clone());
    let open = move || {
        let (inner, gate) = (inner.clone(), gate.clone());
        Ok(Box::new(GatedTarget { inner, gate, gated: Gated::Reads }) as Box<dyn Target>)
    };
    |settings| settings.verification = Some(Verification { every_ms: 1, open: Arc::new(open) })
}

#[test]
fn a_slow_verification_holds_neither_the_upload_nor_the_end() {
    let leader = FakeLeader::new(3, 1_000_000);
    let (target, gate) = (MemoryTarget::new(), Arc::new(Gate::default()));
    let backup = Running::start_with(&leader, target.clone(), verified(&target, &gate));
    backup.wait_stored(leader.commit());
    gate.await_arrivals(1);
    let last = leader.commit();
    backup.wait_stored(last);
    let status = backup.status.clone();
    backup.stop().unwrap();
    assert_eq!(proven_chains(&target).len(), 1);
    // The thread still waits for its object. It ends when it gets it, and counts nothing.
    gate.allow(usize::MAX);
    while Arc::strong_count(&gate) > 1 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(status.view(0).verifications, 0);
}

#[test]
fn an_idle_ensemble_is_verified_and_damage_is_counted() {
    let leader = FakeLeader::new(3, 1_000_000);
    let (target, gate) = (MemoryTarget::new(), Arc::new(Gate::default()));
    gate.allow(usize::MAX);
    let backup = Running::start_with(&leader, target.clone(), verified(&target, &gate));
    backup.wait("a base", |view| view.bases > 0);
    backup.wait_stored(leader.commit());
    let before = backup.view().verifications;
    backup.wait("verifications without a write", |view| view.verifications > before + 2);
    let segment = target.list().unwrap().into_iter().find(|name| name.starts_with("log/")).unwrap();
    target.damage(&segment, |bytes| bytes[30] ^= 1);
    backup.wait("a failed verification", |view| view.failed_verifications > 0);
    assert!(backup.view().last_error.unwrap().contains(&segment));
    backup.stop().unwrap();
}
