//! TLS and SASL of the commands that connect to servers: arguments, Java's properties, and the files behind
//! them. It never falls back to less protection than the user asked for.

mod arguments;
mod error;
mod four_letter;
mod kerberos;
mod open;
mod properties;
mod settings;

use zebu_client::{ClientBuilder, SaslLogin, TlsConnector};

pub(crate) use arguments::{ProtectionArguments, double_dashed};
pub(crate) use four_letter::{WordLimits, ask};

/// What a command uses to reach its servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protection {
    /// TLS, if connections use it.
    pub(crate) tls: Option<TlsConnector>,
    /// The SASL login of sessions.
    pub(crate) sasl: Option<SaslLogin>,
    /// The largest accepted answer in bytes (`jute.maxbuffer`).
    pub(crate) largest_answer: Option<usize>,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
}

impl Protection {
    /// Adds TLS and SASL to a client.
    pub(crate) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        let builder = match &self.tls {
            Some(connector) => builder.tls(connector.clone()),
            None => builder,
        };
        match &self.sasl {
            Some(login) => builder.sasl(login.clone()),
            None => builder,
        }
    }
}
