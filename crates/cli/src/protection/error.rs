//! The reasons why a command cannot protect its connections. Texts name files and keys, never values that may
//! be passwords.

use std::path::PathBuf;

use zebu_client::TlsError;

/// The command cannot connect as it was told to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtectionError {
    #[error("cannot read the client configuration {}: {source}", path.display())]
    Configuration { path: PathBuf, source: std::io::Error },
    #[error("{}, line {line}: {problem}", path.display())]
    ConfigurationLine { path: PathBuf, line: u32, problem: String },
    #[error("{origin}: {key} {problem}")]
    Property { origin: String, key: String, problem: String },
    #[error("cannot read the password file {}: {problem}", path.display())]
    PasswordFile { path: PathBuf, problem: String },
    #[error("cannot read the login configuration {}: {problem}", path.display())]
    LoginFile { path: PathBuf, problem: String },
    #[error("{0}")]
    Arguments(String),
    #[error("TLS: {0}{hint}", hint = tls_hint(.0))]
    Tls(#[from] TlsError),
}

/// The argument that helps, where there is one.
fn tls_hint(error: &TlsError) -> &'static str {
    match error {
        TlsError::NoTrustedCertificate => ": --tls-ca FILE, or -Dzookeeper.ssl.trustStore.location=FILE",
        _ => "",
    }
}

impl ProtectionError {
    /// The exit status of the shell for this error.
    pub(crate) fn shell_status(&self) -> u8 {
        match self {
            ProtectionError::Configuration { .. } => 2,
            _ => 1,
        }
    }
}
