//! Why a server did not start or gave up. Knows the exit code of each reason; only `main` exits with it.

use std::path::PathBuf;

use crate::peer_ports::PeerPort;

/// What ended `run` other than a wish to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data or log directory cannot be used.
    #[error("unable to access the data directory {}: {reason}", path.display())]
    DataDirectory {
        /// The directory that was tried.
        path: PathBuf,
        /// What the operating system or the recovery said.
        reason: String,
    },
    /// A listener could not be opened.
    #[error("unable to listen on {address}: {reason}")]
    Listen {
        /// The address from the configuration.
        address: String,
        /// What the operating system said.
        reason: String,
    },
    /// A port for the other servers could not be opened.
    #[error("unable to open the {port} port {address}: {reason}")]
    ListenForPeers {
        /// Which port.
        port: PeerPort,
        /// The address that was tried.
        address: String,
        /// What the operating system said.
        reason: String,
    },
    /// The disk failed while the server was running.
    #[error("{0}")]
    Disk(String),
    /// Anything else.
    #[error("{0}")]
    Internal(String),
}

impl ServeError {
    /// The status the process ends with, as ZooKeeper's scripts expect it.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::DataDirectory { .. } => 3,
            ServeError::ListenForPeers { .. } => 14,
            ServeError::Listen { .. } | ServeError::Disk(_) | ServeError::Internal(_) => 1,
        }
    }
}
