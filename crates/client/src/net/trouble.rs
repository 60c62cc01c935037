//! The last connection or attempt that failed, for the errors of calls that found no server.

use std::sync::{Arc, Mutex, PoisonError};

/// Written by the driver, read by whoever has to explain a failure.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<Arc<str>>>);

impl Trouble {
    pub(crate) fn set(&self, server: &str, reason: &str) {
        let text = format!("{server}: {reason}").into();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// `host:port: why`.
    pub(crate) fn last(&self) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
