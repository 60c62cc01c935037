//! `zebu top`: the hottest paths and clients of servers, or their largest nodes.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::monitor::top::{self, TopMeasure, TopOptions};
use crate::monitor::{Form, Looks, NamedServers};
use crate::protection::ProtectionArguments;

/// Show the hottest paths and clients of servers, or their largest nodes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu top zk1,zk2,zk3                   paths by reads per second, all servers together
  zebu top --by writes zk1,zk2,zk3
  zebu top --by requests zk1             clients: addresses, users, sessions
  zebu top --by size --once zk1          the nodes with the most data
  zebu top --json --once --by bytes zk1

The numbers come from the word topp, those of size and children from topn. Both must be listed in
4lw.commands.whitelist by name. Rates are estimates of the last minute about, from samples of requests.
Exit status of --once: 0 all servers answer, 1 one does not.")]
pub(crate) struct Top {
    /// host:port, several joined by commas or as several words
    #[arg(value_name = "SERVERS", default_value = "localhost:2181")]
    servers: Vec<String>,
    /// The order of the list
    #[arg(long, value_name = "MEASURE", value_enum, default_value_t = Measure::Reads)]
    by: Measure,
    /// Entries per list
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=50))]
    limit: u8,
    /// Look once and end
    #[arg(long)]
    once: bool,
    /// One JSON object per look
    #[arg(long)]
    json: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    #[command(flatten)]
    protection: ProtectionArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    Reads,
    Writes,
    Bytes,
    Watches,
    Requests,
    Size,
    Children,
}

impl Measure {
    fn checked(self) -> TopMeasure {
        match self {
            Measure::Reads => TopMeasure::Rate("reads"),
            Measure::Writes => TopMeasure::Rate("writes"),
            Measure::Bytes => TopMeasure::Rate("bytes"),
            Measure::Watches => TopMeasure::Rate("watches"),
            Measure::Requests => TopMeasure::Rate("requests"),
            Measure::Size => TopMeasure::Nodes("size"),
            Measure::Children => TopMeasure::Nodes("children"),
        }
    }
}

impl Top {
    /// Looks.
    pub(crate) fn run(self) -> ExitCode {
        let servers = match NamedServers::open(&self.servers.join(","), &self.protection) {
            Ok(servers) => servers,
            Err(status) => return status,
        };
        let options = TopOptions {
            measure: self.by.checked(),
            limit: usize::from(self.limit),
            looks: if self.once { Looks::Once } else { Looks::Every(Duration::from_secs(self.interval)) },
            form: if self.json { Form::Json } else { Form::Table },
        };
        if top::run(&servers.addresses, servers.tls.as_ref(), options) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
