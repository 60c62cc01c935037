//! A running backup verifies itself beside its upload.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex};

use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::target::{Content, Revision, StoredManifest, Target, TargetError};
use zebu_backup::run::{RunSettings, Verification};

use crate::leader::FakeLeader;
use crate::running::{Running, proven_chains};

/// Holds readers back.
#[derive(Default)]
struct Gate {
    /// Whether it is open, and how many readers have come.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.0).unwrap());
    }

    fn await_reader(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.1 == 0).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }
}

/// A target whose readers wait.
struct GatedTarget {
    inner: MemoryTarget,
    gate: Arc<Gate>,
}

impl Target for GatedTarget {
    fn put(&self, _name: &str, _content: &dyn Content) -> Result<(), TargetError> {
        panic!("a verification writes")
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        self.gate.pass();
        self.inner.open(name)
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        self.inner.list()
    }

    fn delete(&self, _name: &str) -> Result<(), TargetError> {
        panic!("a verification deletes")
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        self.inner.manifest()
    }

    fn replace_manifest(&self, _bytes: &[u8], _expected: Option<&Revision>) -> Result<Revision, TargetError> {
        panic!("a verification writes")
    }
}

/// Verifies all the time, through a gate.
fn verified(target: &MemoryTarget, gate: &Arc<Gate>) -> impl FnOnce(&mut RunSettings) {
    let (inner, gate) = (target.clone(), gate.clone());
    let open =
        move || Ok(Box::new(GatedTarget { inner: inner.clone(), gate: gate.clone() }) as Box<dyn Target>);
    |settings| settings.verification = Some(Verification { every_ms: 1, open: Arc::new(open) })
}

#[test]
fn a_slow_verification_holds_neither_the_upload_nor_the_end() {
    let leader = FakeLeader::new(3, 1_000_000);
    let (target, gate) = (MemoryTarget::new(), Arc::new(Gate::default()));
    let backup = Running::start_with(&leader, target.clone(), verified(&target, &gate));
    backup.wait_stored(leader.commit());
    gate.await_reader();
    let last = leader.commit();
    backup.wait_stored(last);
    let status = backup.status.clone();
    backup.stop().unwrap();
    assert_eq!(proven_chains(&target).len(), 1);
    // The thread still waits for its object. It ends when it gets it, and counts nothing.
    gate.open();
    while Arc::strong_count(&gate) > 1 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(status.view(0).verifications, 0);
}

#[test]
fn an_idle_ensemble_is_verified_and_damage_is_counted() {
    let leader = FakeLeader::new(3, 1_000_000);
    let (target, gate) = (MemoryTarget::new(), Arc::new(Gate::default()));
    gate.open();
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
