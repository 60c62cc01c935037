//! Failures of the process itself: they end it with an error, or it goes on and says so.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::target::{Content, Revision, StoredManifest, Target, TargetError};
use zebu_backup::run::RunError;

use crate::leader::FakeLeader;
use crate::running::{Running, manifest, proven_chains};

/// A target whose writes panic on request.
#[derive(Default)]
struct PanickingTarget {
    inner: MemoryTarget,
    panics: Arc<AtomicBool>,
}

impl Target for PanickingTarget {
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        assert!(!self.panics.load(Ordering::Relaxed), "a defect of the target");
        self.inner.put(name, content)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        self.inner.open(name)
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        self.inner.list()
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        self.inner.delete(name)
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        self.inner.manifest()
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        self.inner.replace_manifest(bytes, expected)
    }
}

#[test]
fn a_panic_of_the_upload_thread_ends_the_run() {
    let leader = FakeLeader::new(3, 1_000_000);
    let target = PanickingTarget::default();
    let panics = target.panics.clone();
    let backup = Running::start(&leader, target);
    backup.wait_stored(leader.commit());
    panics.store(true, Ordering::Relaxed);
    leader.commit();
    let error = backup.end().unwrap_err();
    assert!(matches!(&error, RunError::Internal(text) if text.contains("a defect of the target")), "{error}");
}

#[test]
fn the_log_goes_on_while_no_base_can_be_written() {
    let leader = FakeLeader::new(3, 1_000_000);
    let target = MemoryTarget::new();
    let spool = TempDir::new().unwrap();
    let place = spool.path().join("spool");
    std::fs::create_dir(&place).unwrap();
    let backup = Running::start_with(&leader, target.clone(), |settings| {
        settings.spool.clone_from(&place);
        settings.base_log_bytes = 1;
    });
    backup.wait_stored(leader.commit());
    backup.wait("a second base", |view| view.bases >= 1);
    std::fs::remove_dir_all(&place).unwrap();
    for _ in 0..3 {
        leader.commit();
    }
    backup.wait("a failed base", |view| view.target_errors > 0);
    let last = leader.commit();
    backup.wait_stored(last);
    let bases = backup.view().bases;
    std::fs::create_dir(&place).unwrap();
    backup.wait("a base after the failure", |view| view.bases > bases);
    backup.stop().unwrap();
    assert_eq!(proven_chains(&target).len(), 1);
    assert_eq!(manifest(&target).end().unwrap().zxid, last);
}

#[test]
fn a_first_base_that_cannot_be_written_is_tried_again() {
    let leader = FakeLeader::new(3, 1_000_000);
    leader.commit();
    let target = MemoryTarget::new();
    let spool = TempDir::new().unwrap();
    let place = spool.path().join("spool");
    let full = |settings: &mut zebu_backup::run::RunSettings| settings.spool.clone_from(&place);
    let backup = Running::start_with(&leader, target.clone(), full);
    backup.wait("a failed base", |view| view.target_errors > 0);
    leader.commit();
    // The state outlives the connection.
    leader.end_connections();
    backup.wait("another connection", |view| view.rejoins > 0);
    let last = leader.commit();
    std::fs::create_dir(&place).unwrap();
    backup.wait_stored(last);
    backup.stop().unwrap();
    assert_eq!(proven_chains(&target), [(last, last)]);

    // A process that never got its first base does not end as if all were well.
    std::fs::remove_dir_all(&place).unwrap();
    let backup = Running::start_with(&leader, MemoryTarget::new(), full);
    backup.wait("a failed base", |view| view.target_errors > 0);
    let error = backup.stop().unwrap_err();
    assert!(matches!(error, RunError::NoBase(_)), "{error}");
}
