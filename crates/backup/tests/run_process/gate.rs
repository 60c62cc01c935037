//! A target whose operations wait until a test lets them go on.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex};

use zebu_backup::core::memory::MemoryTarget;
use zebu_backup::core::target::{Content, Revision, StoredManifest, Target, TargetError};

/// Holds operations back.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    arrived: usize,
    /// Operations that may still pass.
    permits: usize,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.arrived += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.permits == 0).unwrap();
        state.permits -= 1;
    }

    /// Waits until so many operations have come.
    pub(crate) fn await_arrivals(&self, count: usize) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.arrived < count).unwrap());
    }

    /// Lets so many operations pass.
    pub(crate) fn allow(&self, count: usize) {
        self.state.lock().unwrap().permits = count;
        self.changed.notify_all();
    }
}

/// What waits at the gate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gated {
    Reads,
    Writes,
}

/// A target behind a gate.
pub(crate) struct GatedTarget {
    pub(crate) inner: MemoryTarget,
    pub(crate) gate: Arc<Gate>,
    pub(crate) gated: Gated,
}

impl Target for GatedTarget {
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        assert!(self.gated == Gated::Writes, "a verification writes");
        self.gate.pass();
        self.inner.put(name, content)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        if self.gated == Gated::Reads {
            self.gate.pass();
        }
        self.inner.open(name)
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        self.inner.list()
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        assert!(self.gated == Gated::Writes, "a verification deletes");
        self.inner.delete(name)
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        self.inner.manifest()
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        assert!(self.gated == Gated::Writes, "a verification writes");
        self.inner.replace_manifest(bytes, expected)
    }
}
