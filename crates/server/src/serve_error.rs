//! Why a server did not start or ended. Defines the exit code of each error; only `main` exits with
//! it.

use std::path::PathBuf;

use crate::ports::peer_ports::PeerPort;

/// Why `run` ended without a request to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data or log directory cannot be used.
    #[error("unable to access the data directory {}: {reason}", path.display())]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// The error of the system or of the recovery.
        reason: String,
    },
    /// A listener could not be opened.
    #[error("unable to listen on {address}: {reason}")]
    Listen {
        /// The address from the configuration.
        address: String,
        /// The error of the system.
        reason: String,
    },
    /// The keys of a TLS port cannot be used.
    #[error("unable to open a TLS port: {0}")]
    Tls(String),
    /// The keys of a Kerberos login cannot be used.
    #[error("unable to use a Kerberos login: {0}; look at the keytab with klist -k")]
    Kerberos(String),
    /// A port for the other servers could not be opened.
    #[error("unable to open the {port} port {address}: {reason}")]
    ListenForPeers {
        /// The port.
        port: PeerPort,
        /// The address.
        address: String,
        /// The error of the system.
        reason: String,
    },
    /// The disk failed while the server was running.
    #[error("{0}")]
    Disk(String),
    /// Any other error.
    #[error("{0}")]
    Internal(String),
}

impl ServeError {
    /// The exit code of the process, as ZooKeeper's scripts expect it.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::DataDirectory { .. } => 3,
            ServeError::ListenForPeers { .. } => 14,
            ServeError::Listen { .. }
            | ServeError::Tls(_)
            | ServeError::Kerberos(_)
            | ServeError::Disk(_)
            | ServeError::Internal(_) => 1,
        }
    }
}
