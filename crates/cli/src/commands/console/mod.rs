//! `zebu console`: the console for servers that are reached by the client protocol, of Apache ZooKeeper too.
//!
//! The port is on loopback only. The pages are those of the console in a server; a page that the protocol
//! cannot fill says why.

mod backend;
mod client_error;
mod door;
mod events;
mod listings;
mod nodes;
mod remote;
mod walks;
mod word_texts;
mod words;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use clap::Args;
use zebu_admin::ConsolePort;
use zebu_client::ServerList;
use zebu_console::ConsoleAccess;

use self::backend::RemoteBackend;
use self::door::Door;
use self::remote::Remote;
use crate::console::{print_error, print_line};
use crate::protection::ProtectionArguments;

/// Show the console for servers of Zebu or Apache ZooKeeper
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu console --server zk1:2181,zk2:2181,zk3:2181   then open http://127.0.0.1:8090/console/
  zebu console --server zk1:2281 --tls-ca ca.pem --port 9000
  zebu console --server zk1:2181 --read-only

Nodes, search, recipes and changes use the client protocol. Numbers, sessions and watches use the four-letter words srvr, \
mntr, cons, dump, wchp, wchs, wchc and hash, as far as 4lw.commands.whitelist of the servers names them.
With a certificate or a SASL user the printed address has a token: other accounts of this machine do not know it.
The console of a Zebu server (admin port) shows more: history, hottest paths, roles over time, work on servers.")]
pub(crate) struct Console {
    /// The servers: host:port, several joined by commas
    #[arg(long, value_name = "SERVERS", default_value = "localhost:2181")]
    server: String,
    /// The port on 127.0.0.1; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    port: u16,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    protection: ProtectionArguments,
}

impl Console {
    /// Serves until it is stopped.
    pub(crate) fn run(self) -> ExitCode {
        let list: ServerList = match self.server.parse() {
            Ok(list) => list,
            Err(error) => return refuse(&format!("--server {}: {error}", self.server)),
        };
        if !list.chroot().is_empty() {
            return refuse("--server takes no chroot: the console shows the whole tree");
        }
        let protection = match self.protection.open() {
            Ok(protection) => protection,
            Err(error) => return refuse(&error.to_string()),
        };
        protection.notes.iter().for_each(print_error);
        let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
        {
            Ok(runtime) => runtime,
            Err(error) => {
                print_error(error.to_string());
                return ExitCode::FAILURE;
            }
        };
        let access = if self.read_only { ConsoleAccess::ReadOnly } else { ConsoleAccess::ReadWrite };
        runtime.block_on(async {
            let served = async {
                let remote = Remote::start(&self.server, protection.clone(), access)
                    .map_err(|error| error.to_string())?;
                let router = zebu_console::console_router(RemoteBackend::new(remote))
                    .map_err(|error| error.to_string())?;
                let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
                let port = ConsolePort::bind(address)
                    .await
                    .map_err(|error| format!("{address}: {error}; --port chooses another one"))?;
                let address = port.address().map_err(|error| error.to_string())?;
                let door = Door::of(&protection, address).map_err(|error| error.to_string())?;
                let query = door.as_ref().map(Door::query).unwrap_or_default();
                let router = match door {
                    Some(door) => door.protect(router),
                    None => router,
                };
                print_line(format!("the console of {} is at http://{address}/console/{query}", self.server));
                tokio::select! {
                    () = port.serve(router) => Ok(()),
                    ended = tokio::signal::ctrl_c() => ended.map_err(|error| error.to_string()),
                }
            };
            match served.await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let error: String = error;
                    print_error(error);
                    ExitCode::FAILURE
                }
            }
        })
    }
}

fn refuse(error: &str) -> ExitCode {
    print_error(error);
    ExitCode::from(2)
}
