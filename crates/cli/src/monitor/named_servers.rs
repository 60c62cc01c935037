//! The servers that the words of a command name, and the TLS of connections to them.

use std::process::ExitCode;

use zebu_client::{ServerList, TlsConnector};

use crate::console::print_error;
use crate::protection::ProtectionArguments;

/// The servers of a command.
pub(crate) struct NamedServers {
    /// Host and port of each.
    pub(crate) addresses: Vec<String>,
    pub(crate) tls: Option<TlsConnector>,
}

impl NamedServers {
    /// Reads the list and the files of the protection.
    ///
    /// # Errors
    /// One of them is wrong. The mistake is printed; the status of the command is returned.
    pub(crate) fn open(list: &str, protection: &ProtectionArguments) -> Result<NamedServers, ExitCode> {
        let wrong = |mistake: String| {
            print_error(mistake);
            ExitCode::from(2)
        };
        let list: ServerList = list.parse().map_err(|error| wrong(format!("{error}")))?;
        let protection = protection.open().map_err(|error| wrong(error.to_string()))?;
        protection.notes.iter().for_each(print_error);
        let addresses = list.servers().iter().map(ToString::to_string).collect();
        Ok(NamedServers { addresses, tls: protection.tls })
    }
}
