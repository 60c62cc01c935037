//! `zebu drain`: a server sends its clients to the others and stops, asked for by its admin server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use crate::admin_request::{AdminAccess, AdminAddress};
use crate::console::{begin, print_error, print_line};
use crate::protection::ProtectionArguments;

const POLL: Duration = Duration::from_millis(100);

/// Let a server send its clients to the others, and stop
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu drain zk1 --auth-file super.auth              the admin server of zk1 at port 8080
  zebu drain zk1:8081 --auth-file super.auth --wait  returns when the server has ended
  zebu drain zk1 --tls-ca ca.pem --auth-file super.auth --wait

The server takes no new clients. Clients that understand it (the Rust client) are asked to move; other connections are \
closed one by one within zebu.drainTime, only in a moment without outstanding requests. Then a leader hands over, and \
the server ends. On its own machine, zebu stop and the signal SIGTERM do the same.
The file holds scheme and credential of the super user as one line: digest super:secret
Exit status: 0 the server drains (with --wait: it has ended), 1 not so, 2 wrong arguments.")]
pub(crate) struct Drain {
    /// The admin server: host or host:port (8080)
    #[arg(value_name = "HOST")]
    host: String,
    /// Scheme and credential of the super user are in this file
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// admin.commandURL of the server
    #[arg(long, value_name = "PATH", default_value = "/commands")]
    command_url: String,
    /// Wait until the server has ended
    #[arg(long)]
    wait: bool,
    /// Seconds for which --wait waits at most
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait_limit: u64,
    #[command(flatten)]
    protection: ProtectionArguments,
}

impl Drain {
    /// Asks, and waits if that is wanted.
    pub(crate) fn run(self) -> ExitCode {
        let address = match AdminAddress::parse(&self.host) {
            Ok(address) => address,
            Err(error) => {
                print_error(error);
                return ExitCode::from(2);
            }
        };
        let protection = match self.protection.open() {
            Ok(protection) => protection,
            Err(error) => {
                print_error(error.to_string());
                return ExitCode::from(2);
            }
        };
        protection.notes.iter().for_each(print_error);
        let access = match AdminAccess::open(self.auth_file.as_deref(), &self.command_url, protection.tls) {
            Ok(access) => access,
            Err(error) => {
                print_error(error);
                return ExitCode::from(2);
            }
        };
        if let Err(error) = access.drain(&address) {
            print_error(format!("{address}: {error}"));
            return ExitCode::FAILURE;
        }
        if !self.wait {
            print_line(format!("{address}: draining"));
            return ExitCode::SUCCESS;
        }
        begin(&format!("{address}: draining ... "));
        match await_end(&access, &address, Duration::from_secs(self.wait_limit)) {
            true => {
                print_line("ended");
                ExitCode::SUCCESS
            }
            false => {
                print_line(format!("it has not ended within {} seconds", self.wait_limit));
                ExitCode::FAILURE
            }
        }
    }
}

/// Waits until nothing answers at the port of the admin server. Returns whether the server has ended.
pub(crate) fn await_end(access: &AdminAccess, address: &AdminAddress, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while access.answers(address) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}
