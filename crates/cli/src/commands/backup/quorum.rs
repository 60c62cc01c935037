//! TLS and SASL of the quorum ports, from the configuration of a server.

use std::path::Path;

use zebu_server::QuorumDialer;
use zebu_server::config::{LocalSystem, load_quorum_protection};

use super::location::failure;
use crate::config_arguments::environment;
use crate::kerberos_environment;
use crate::offline::Failure;

/// Reads the file and opens its stores.
pub(super) fn open_dialer(file: &Path) -> Result<QuorumDialer, Failure> {
    let (protection, diagnostics) = load_quorum_protection(file, &[], &environment(), &LocalSystem);
    for warning in &diagnostics.warnings {
        tracing::warn!("{warning}");
    }
    let Some(protection) = protection else {
        let errors: Vec<String> = diagnostics.errors.iter().map(ToString::to_string).collect();
        return Err(Failure::Text(errors.join("; ")));
    };
    if let Some(files) = &protection.kerberos {
        kerberos_environment::enter(files)
            .map_err(|error| Failure::Text(format!("cannot execute zebu for Kerberos: {error}")))?;
    }
    QuorumDialer::open(&protection).map_err(failure)
}
