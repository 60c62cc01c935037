//! Proves the backup from time to time, on a thread and with a target of its own: the upload of segments goes
//! on meanwhile, and an idle ensemble is verified too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use super::upload::UploadShared;
use super::{RunError, Verification};
use crate::core::replay::ReplayObserver;
use crate::core::verify::{Finding, ProofError, prove};

/// Tells the thread to end.
#[derive(Debug, Default)]
struct StopSignal {
    is_set: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl StopSignal {
    fn set(&self) {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Waits for a time, and returns whether the thread has to end.
    fn wait(&self, time: Duration) -> bool {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unset = |_: &mut ()| !self.is_set.load(Ordering::Relaxed);
        drop(self.changed.wait_timeout_while(guard, time, is_unset));
        self.is_set.load(Ordering::Relaxed)
    }
}

/// A replay that ends with the process.
struct Cancellable<'a>(&'a StopSignal);

impl ReplayObserver for Cancellable<'_> {
    fn is_cancelled(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }
}

/// The thread that verifies. It is told to end when this is dropped. The process does not wait for it: it
/// writes nothing, and a read from a silent target can take minutes.
pub(super) struct Verifier {
    stop: Arc<StopSignal>,
}

impl Verifier {
    pub(super) fn start(
        verification: Verification,
        hash_seed: u64,
        shared: Arc<UploadShared>,
    ) -> Result<Verifier, RunError> {
        let stop = Arc::new(StopSignal::default());
        let of_thread = stop.clone();
        let every = Duration::from_millis(u64::try_from(verification.every_ms).unwrap_or(0));
        let work = move || {
            while !of_thread.wait(every) {
                verify(&verification, hash_seed, &of_thread, &shared);
            }
        };
        let thread = std::thread::Builder::new().name("zebu-verify".to_owned()).spawn(work);
        thread.map_err(|error| RunError::Internal(format!("cannot start a thread: {error}")))?;
        Ok(Verifier { stop })
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.stop.set();
    }
}

fn verify(verification: &Verification, hash_seed: u64, stop: &StopSignal, shared: &UploadShared) {
    let status = &shared.status;
    let target = match (verification.open)() {
        Ok(target) => target,
        Err(error) => return warn!(%error, "the backup cannot be verified; trying again later"),
    };
    let mut flaws = Vec::new();
    let mut parts = 0_u64;
    let report = |finding| match finding {
        Finding::Proven(_) => parts += 1,
        Finding::Flaw(error) => flaws.push(error.to_string()),
    };
    match prove(&target, hash_seed, &mut Cancellable(stop), report) {
        _ if stop.is_set.load(Ordering::Relaxed) => {}
        Ok(0) => {
            shared.resume_retention();
            status.verifications.fetch_add(1, Ordering::Relaxed);
            info!(bases = parts, "verified the backup");
        }
        Ok(_) => {
            shared.suspend_retention();
            for error in flaws {
                warn!(%error, "the backup is not proven; start zebu backup run with --new-base");
                status.set_error(error);
            }
            status.failed_verifications.fetch_add(1, Ordering::Relaxed);
        }
        Err(ProofError::Absent) => {}
        // An unreachable target proves nothing, and the uploader reports it.
        Err(error) => warn!(%error, "the backup cannot be verified; trying again later"),
    }
}
