//! A target in memory whose operations fail on request, for tests and for the simulator.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::target::{Content, MANIFEST, Revision, StoredManifest, Target, TargetError};

/// What a failing operation leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureEffect {
    /// Nothing happened.
    Nothing,
    /// The operation took effect, and only its answer was lost.
    AnswerLost,
}

#[derive(Debug, Default)]
struct Objects {
    objects: BTreeMap<String, Vec<u8>>,
    revision: u64,
    operations: u64,
    /// The operation that fails first, and how.
    failing_from: Option<(u64, FailureEffect)>,
    /// How many operations fail.
    failures: u64,
}

/// Objects in memory. Clones share them, as two processes share a bucket.
#[derive(Clone, Debug, Default)]
pub struct MemoryTarget {
    shared: Arc<Mutex<Objects>>,
}

impl MemoryTarget {
    /// An empty target.
    pub fn new() -> MemoryTarget {
        MemoryTarget::default()
    }

    /// Writing operations so far, with the failed ones.
    pub fn operations(&self) -> u64 {
        self.objects().operations
    }

    /// Lets `failures` writing operations fail after the next `count` ones.
    pub fn fail_after(&self, count: u64, failures: u64, effect: FailureEffect) {
        let mut objects = self.objects();
        objects.failing_from = Some((objects.operations + count, effect));
        objects.failures = failures;
    }

    /// Ends all failures.
    pub fn repair(&self) {
        self.objects().failing_from = None;
    }

    /// Changes an object, as damage does.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.objects().objects.entry(name.to_owned()).or_default());
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, what: &str, change: impl FnOnce(&mut Objects) -> R) -> Result<R, TargetError> {
        let mut objects = self.objects();
        let number = objects.operations;
        objects.operations += 1;
        let failure = objects.failing_from.filter(|(from, _)| number >= *from && objects.failures > 0);
        let Some((_, effect)) = failure else { return Ok(change(&mut objects)) };
        objects.failures -= 1;
        if effect == FailureEffect::AnswerLost {
            change(&mut objects);
        }
        Err(TargetError::io(what, io::ErrorKind::TimedOut.into()))
    }
}

impl Target for MemoryTarget {
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        let mut bytes = Vec::new();
        let read = content.open().and_then(|mut reader| reader.read_to_end(&mut bytes));
        read.map_err(|error| TargetError::io("cannot read the content", error))?;
        self.change(name, |objects| {
            objects.objects.insert(name.to_owned(), bytes);
        })
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        match self.objects().objects.get(name) {
            Some(bytes) => Ok(Box::new(io::Cursor::new(bytes.clone()))),
            None => Err(TargetError::Missing { name: name.to_owned() }),
        }
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        Ok(self.objects().objects.keys().filter(|name| *name != MANIFEST).cloned().collect())
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        self.change(name, |objects| {
            objects.objects.remove(name);
        })
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        let objects = self.objects();
        let stored = |bytes: &Vec<u8>| StoredManifest {
            bytes: bytes.clone(),
            revision: Revision(objects.revision.to_string()),
        };
        Ok(objects.objects.get(MANIFEST).map(stored))
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        self.change(MANIFEST, |objects| {
            let found = objects.objects.contains_key(MANIFEST).then(|| objects.revision.to_string());
            if found.as_deref() != expected.map(|revision| revision.0.as_str()) {
                return Err(TargetError::Conflict);
            }
            objects.revision += 1;
            objects.objects.insert(MANIFEST.to_owned(), bytes.to_vec());
            Ok(Revision(objects.revision.to_string()))
        })?
    }
}
