//! Keeps the context of a family up to date with its files.
//!
//! The files are examined at a fixed rate. A changed file is read and checked completely before the context
//! is replaced; if that fails, the old context stays. Running connections keep their context.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tracing::{info, warn};
use zebu_security::verify::unusual_leaf;

use super::context::{STORE_FILE_BYTES_MAX, TlsContext, TlsLoadError};
use super::counters::{FamilyCounters, days, unix_seconds};
use super::expiry::ExpiryWarnings;
use super::store_file::{self, FileStamp};
use crate::config::security::tls_family::{StorePassword, TlsFamilyConfig};

/// How often the files are examined.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The current context of a family.
#[derive(Debug)]
pub(crate) struct ReloadingTls {
    config: TlsFamilyConfig,
    files: Vec<PathBuf>,
    current: RwLock<Arc<TlsContext>>,
    /// The stamps of the files before they were last read.
    stamps: Mutex<Vec<Option<FileStamp>>>,
    /// Whether a client with an unusual certificate was reported.
    unusual_reported: AtomicBool,
    counters: FamilyCounters,
}

/// The result of one look at the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReloadOutcome {
    /// No file changed.
    Unchanged,
    /// New connections use the new files.
    Replaced,
    /// The changed files cannot be used; the old context stays.
    Kept(TlsLoadError),
}

impl ReloadingTls {
    /// Opens the stores for the first time.
    ///
    /// # Errors
    /// The store that cannot be used.
    pub(crate) fn open(config: TlsFamilyConfig) -> Result<Arc<ReloadingTls>, TlsLoadError> {
        let files = files_of(&config);
        // Taken before the read, so that a change during the read is seen by the next look.
        let stamps = stamps_of(&files);
        let context = load(&config)?;
        let current = RwLock::new(Arc::new(context));
        Ok(Arc::new(ReloadingTls {
            config,
            files,
            current,
            stamps: Mutex::new(stamps),
            unusual_reported: AtomicBool::new(false),
            counters: FamilyCounters::default(),
        }))
    }

    /// The values of the configuration.
    pub(crate) fn config(&self) -> &TlsFamilyConfig {
        &self.config
    }

    /// Failures of this family.
    pub(crate) fn counters(&self) -> &FamilyCounters {
        &self.counters
    }

    /// Seconds until the certificate in use ends, at a time in seconds since 1970.
    pub(crate) fn seconds_left(&self, now: i64) -> Option<i64> {
        self.current().validity().map(|validity| validity.not_after.saturating_sub(now))
    }

    /// The context for a new connection.
    pub(crate) fn current(&self) -> Arc<TlsContext> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports once that a client shows a certificate that is accepted only because ZooKeeper accepts it.
    pub(crate) fn report_unusual(&self, peer: SocketAddr, leaf: &[u8]) {
        if self.unusual_reported.load(Ordering::Relaxed) {
            return;
        }
        if let Some(kind) = unusual_leaf(leaf)
            && !self.unusual_reported.swap(true, Ordering::Relaxed)
        {
            info!(%peer, kind, "a client shows a certificate that newer software refuses; it is accepted, as in ZooKeeper");
        }
    }

    /// Examines the files, and reads them again if one changed.
    pub(crate) fn poll(&self) -> ReloadOutcome {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let found = stamps_of(&self.files);
        if found == *stamps {
            return ReloadOutcome::Unchanged;
        }
        *stamps = found;
        match load(&self.config) {
            Ok(context) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(context);
                ReloadOutcome::Replaced
            }
            Err(error) => {
                self.counters.reloads_failed.increment();
                ReloadOutcome::Kept(error)
            }
        }
    }

    /// Warns if the certificate in use ends soon.
    fn warn_expiry(&self, warnings: &mut ExpiryWarnings) {
        let Some(left) = self.seconds_left(unix_seconds()) else { return };
        if !warnings.is_due(left, Instant::now()) {
            return;
        }
        let (file, days_left) = (self.config.key_store.path.display(), days(left));
        let family = self.config.family.prefix();
        warn!(family, %file, days_left, "the TLS certificate of this server ends soon or has ended; replace the file");
    }

    /// Examines the files for as long as the server runs.
    pub(crate) async fn watch_files(self: Arc<ReloadingTls>) {
        let prefix = self.config.family.prefix();
        let mut warnings = ExpiryWarnings::default();
        loop {
            self.warn_expiry(&mut warnings);
            tokio::time::sleep(POLL_INTERVAL).await;
            let this = self.clone();
            // A file system that does not answer must not stop a network thread.
            match tokio::task::spawn_blocking(move || this.poll()).await {
                Ok(ReloadOutcome::Unchanged) => {}
                Ok(ReloadOutcome::Replaced) => {
                    warnings = ExpiryWarnings::default();
                    info!(family = prefix, "certificate files changed; new connections use them");
                }
                Ok(ReloadOutcome::Kept(error)) => {
                    warn!(family = prefix, %error, "changed certificate files cannot be used; the old ones stay in use");
                }
                Err(error) => warn!(family = prefix, %error, "certificate files could not be examined"),
            }
        }
    }
}

fn load(config: &TlsFamilyConfig) -> Result<TlsContext, TlsLoadError> {
    TlsContext::load(config, &|path| store_file::read_regular_file(path, STORE_FILE_BYTES_MAX))
}

fn files_of(config: &TlsFamilyConfig) -> Vec<PathBuf> {
    let stores = std::iter::once(&config.key_store).chain(&config.trust_store);
    stores
        .flat_map(|store| {
            let password = match &store.password {
                StorePassword::File(path) => Some(path.clone()),
                StorePassword::Text(_) => None,
            };
            std::iter::once(store.path.clone()).chain(password)
        })
        .collect()
}

fn stamps_of(files: &[PathBuf]) -> Vec<Option<FileStamp>> {
    files.iter().map(|file| FileStamp::of(file)).collect()
}
