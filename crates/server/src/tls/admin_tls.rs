//! The TLS context of the admin port, for the crate that serves it.

use std::sync::Arc;

use super::ReloadingTls;
use crate::config::security::tls_family::TlsFamilyConfig;
use crate::serve_error::ServeError;

/// Keys and rules of the admin port. They follow their files.
#[derive(Clone, Debug)]
pub struct AdminTls(Arc<ReloadingTls>);

impl AdminTls {
    /// Opens the stores.
    ///
    /// # Errors
    /// The store that cannot be used.
    pub fn open(family: &TlsFamilyConfig) -> Result<AdminTls, ServeError> {
        let opened = ReloadingTls::open(family.clone());
        Ok(AdminTls(opened.map_err(|error| ServeError::Tls(error.to_string()))?))
    }

    /// The configuration for a new connection.
    pub fn acceptor(&self) -> Arc<rustls::ServerConfig> {
        self.0.current().acceptor()
    }

    /// Follows the files, until the task is dropped.
    pub async fn watch_files(self) {
        self.0.watch_files().await;
    }
}
