//! `zebu stat`: how servers are, refreshed while one watches.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::monitor::{self, Form, Looks, NamedServers};
use crate::protection::ProtectionArguments;

/// Watch servers: mode, zxid, connections, requests per second, latency, nodes, watches
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu stat                              localhost:2181, every second
  zebu stat zk1:2181,zk2:2181,zk3:2181   several servers side by side
  zebu stat --once zk1:2181              one look; the exit status tells whether it serves
  zebu stat --json --interval 10 zk1     one JSON object per look
  zebu stat --tls-ca ca.pem --tls-cert me.pem zk1:2281

The numbers come from the words srvr and mntr; without mntr in 4lw.commands.whitelist watches are not known.
Exit status of --once: 0 all servers serve, 1 one does not.")]
pub(crate) struct Stat {
    /// host:port, several joined by commas or as several words
    #[arg(value_name = "SERVERS", default_value = "localhost:2181")]
    servers: Vec<String>,
    /// Look once and end
    #[arg(long)]
    once: bool,
    /// One JSON object per look
    #[arg(long)]
    json: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    #[command(flatten)]
    protection: ProtectionArguments,
}

impl Stat {
    /// Looks.
    pub(crate) fn run(self) -> ExitCode {
        let servers = match NamedServers::open(&self.servers.join(","), &self.protection) {
            Ok(servers) => servers,
            Err(status) => return status,
        };
        let looks = if self.once { Looks::Once } else { Looks::Every(Duration::from_secs(self.interval)) };
        let form = if self.json { Form::Json } else { Form::Table };
        if monitor::run(&servers.addresses, servers.tls.as_ref(), looks, form) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
