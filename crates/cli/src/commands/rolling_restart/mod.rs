//! `zebu rolling-restart`: restarts the servers of an ensemble one by one, the leader last, and goes on only
//! while the ensemble is healthy.

mod health;
mod hook;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use zebu_client::{ServerAddress, ServerList, TlsConnector};

use self::health::{EnsembleLook, next_server};
use self::report::{Report, ReportForm};
use super::drain::await_end;
use crate::admin_request::{AdminAccess, AdminAddress};
use crate::console::print_error;
use crate::monitor::{self, roles::Role, tree_digests};
use crate::protection::ProtectionArguments;

const POLL: Duration = Duration::from_millis(250);

/// Looks in a row that must find the ensemble healthy: one may fall between two elections.
const HEALTHY_LOOKS: usize = 2;

/// Restart the servers of an ensemble one by one, without an outage
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu rolling-restart zk1:2181,zk2:2181,zk3:2181 --dry-run
  zebu rolling-restart zk1:2181,zk2:2181,zk3:2181 --restart-command 'ssh {host} systemctl restart zebu'
  zebu rolling-restart zk1:2181,zk2:2181,zk3:2181 --admin-port 8080 --auth-file super.auth \\
      --restart-command 'ssh {host} systemctl restart zebu'
  zebu rolling-restart zk1:2181,zk2:2181,zk3:2181 --json --restart-command './restart.sh {server}'

Each server in turn, the leader last: wait until all servers serve, one leads, none is far behind, and the other \
voters are a majority, those that are not named too; let the server send its clients to the others; run the command; wait again; compare the digests of the trees. The first problem stops \
it, and the servers that are left keep running as they are.
The command gets the server for {host}, {port} and {server} (host:port), runs in a shell and must restart the server. \
With --admin-port the server is drained before, by its admin server; without it, the stop of the command drains \
(SIGTERM does). The words srvr, mntr and hash must be in 4lw.commands.whitelist of each server.
Exit status: 0 all servers were restarted, 1 it stopped at a problem, 2 wrong arguments.")]
pub(crate) struct RollingRestart {
    /// host:port,host:port... of all servers, at their ports for clients
    #[arg(value_name = "SERVERS")]
    servers: String,
    /// Command of the shell that restarts a server; {host}, {port} and {server} stand for it
    #[arg(long, value_name = "COMMAND", required_unless_present = "dry_run")]
    restart_command: Option<String>,
    /// Only show the servers in their order, and what would be run
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object per step instead of text
    #[arg(long)]
    json: bool,
    /// Drain by the admin servers at this port before the command runs
    #[arg(long, value_name = "PORT", requires = "auth_file")]
    admin_port: Option<u16>,
    /// Scheme and credential of the super user for the admin servers are in this file
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// admin.commandURL of the servers
    #[arg(long, value_name = "PATH", default_value = "/commands")]
    command_url: String,
    /// The admin servers speak TLS
    #[arg(long)]
    admin_tls: bool,
    /// Seconds to wait for the ensemble to become healthy
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait_limit: u64,
    /// Seconds that the command may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    command_limit: u64,
    /// Transactions that a server may be behind
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    lag_max: u64,
    #[command(flatten)]
    protection: ProtectionArguments,
}

/// A problem that stops the restart.
struct Problem {
    server: Option<String>,
    text: String,
}

impl Problem {
    fn new(text: impl Into<String>) -> Problem {
        Problem { server: None, text: text.into() }
    }

    fn of(server: &str, text: impl Into<String>) -> Problem {
        Problem { server: Some(server.to_owned()), text: text.into() }
    }
}

/// A rolling restart with checked arguments.
struct Restarter {
    servers: Vec<ServerAddress>,
    addresses: Vec<String>,
    /// The command for each server.
    commands: Vec<String>,
    tls: Option<TlsConnector>,
    /// How servers are drained before the command, and their admin servers.
    admin: Option<(AdminAccess, Vec<AdminAddress>)>,
    wait_limit: Duration,
    command_limit: Duration,
    lag_max: u64,
    report: Report,
}

impl RollingRestart {
    /// Restarts, or shows what would be done.
    pub(crate) fn run(self) -> ExitCode {
        let is_dry_run = self.dry_run;
        let restarter = match self.check() {
            Ok(restarter) => restarter,
            Err(error) => {
                print_error(error);
                return ExitCode::from(2);
            }
        };
        let done = if is_dry_run { restarter.show() } else { restarter.restart_all() };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(Problem { server, text }) => {
                restarter.report.failure(server.as_deref(), &text);
                ExitCode::FAILURE
            }
        }
    }

    fn check(self) -> Result<Restarter, String> {
        let list: ServerList = self.servers.parse().map_err(|error| format!("{error}"))?;
        let servers = list.servers().to_vec();
        let addresses: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let protection = self.protection.open().map_err(|error| error.to_string())?;
        protection.notes.iter().for_each(print_error);
        let template = self.restart_command.as_deref().unwrap_or("(no --restart-command)");
        let commands = servers
            .iter()
            .zip(&addresses)
            .map(|(server, address)| hook::command_text(template, &server.host, server.port, address))
            .collect::<Result<_, _>>()?;
        let admin = match self.admin_port {
            None => None,
            Some(port) => {
                let tls = if self.admin_tls { protection.tls.clone() } else { None };
                if self.admin_tls && tls.is_none() {
                    return Err("--admin-tls needs the options of TLS, such as --tls-ca".to_owned());
                }
                let access = AdminAccess::open(self.auth_file.as_deref(), &self.command_url, tls)?;
                let place = |server: &ServerAddress| {
                    AdminAddress::of(&server.host, port).ok_or_else(|| format!("{server} is no host"))
                };
                Some((access, servers.iter().map(place).collect::<Result<_, _>>()?))
            }
        };
        let form = if self.json { ReportForm::Json } else { ReportForm::Text };
        Ok(Restarter {
            servers,
            addresses,
            commands,
            tls: protection.tls,
            admin,
            wait_limit: Duration::from_secs(self.wait_limit),
            command_limit: Duration::from_secs(self.command_limit),
            lag_max: self.lag_max,
            report: Report::new(form),
        })
    }
}

impl Restarter {
    fn look(&self) -> EnsembleLook {
        let tls = self.tls.as_ref();
        let answers = monitor::ask_all(&self.addresses, tls);
        let roles = self.addresses.iter().zip(answers);
        let roles = roles.map(|(address, state)| Role { address: address.clone(), state }).collect();
        let digests = tree_digests::ask_digests(&self.addresses, tls);
        let digests = digests.into_iter().map(Result::unwrap_or_default).collect();
        EnsembleLook { roles, digests }
    }

    /// Waits until the ensemble is healthy; `is_done` may want more.
    fn await_health(
        &self,
        is_done: impl Fn(&EnsembleLook) -> Result<(), String>,
    ) -> Result<EnsembleLook, Problem> {
        let deadline = Instant::now() + self.wait_limit;
        let (mut healthy, mut told) = (0, String::new());
        loop {
            let look = self.look();
            match look.health(self.lag_max).and_then(|()| is_done(&look)) {
                Ok(()) => {
                    healthy += 1;
                    if healthy >= HEALTHY_LOOKS {
                        return Ok(look);
                    }
                }
                Err(why) if Instant::now() >= deadline => {
                    let seconds = self.wait_limit.as_secs();
                    return Err(Problem::new(format!("not healthy within {seconds} seconds: {why}")));
                }
                Err(why) => {
                    healthy = 0;
                    if told != why {
                        self.report.step("waiting", None, &format!("waiting: {why}"));
                        told = why;
                    }
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// Shows the order and the commands.
    fn show(&self) -> Result<(), Problem> {
        let look = self.look();
        look.health(self.lag_max).map_err(Problem::new)?;
        let mut remaining: Vec<usize> = (0..self.servers.len()).collect();
        while let Some(server) = next_server(&remaining, look.leader()) {
            remaining.retain(|&other| other != server);
            look.may_lose(server).map_err(Problem::new)?;
            let role = if Some(server) == look.leader() { "the leader" } else { "no leader" };
            let drain = if self.admin.is_some() { "drain, then " } else { "" };
            let text = format!("would be restarted ({role}): {drain}{}", self.commands[server]);
            self.report.step("planned", Some(&self.addresses[server]), &text);
        }
        Ok(())
    }

    fn restart_all(&self) -> Result<(), Problem> {
        let mut remaining: Vec<usize> = (0..self.servers.len()).collect();
        let mut look = self.await_health(|look| {
            let silent = (0..self.servers.len()).find(|&server| look.uptime_ms(server).is_none());
            silent.map_or(Ok(()), |server| {
                let address = &self.addresses[server];
                Err(format!("{address} does not answer mntr; add it to 4lw.commands.whitelist"))
            })
        })?;
        self.compare(&look)?;
        while let Some(server) = next_server(&remaining, look.leader()) {
            remaining.retain(|&other| other != server);
            self.await_health(|look| look.may_lose(server))?;
            look = self.restart(server)?;
            self.compare(&look)?;
            let text = format!("restarted; {} of {} servers are left", remaining.len(), self.servers.len());
            self.report.step("restarted", Some(&self.addresses[server]), &text);
        }
        self.report.step("done", None, "all servers were restarted");
        Ok(())
    }

    fn compare(&self, look: &EnsembleLook) -> Result<(), Problem> {
        let compared = look.compare_digests().map_err(Problem::new)?;
        let text = format!("all servers serve, one leads, {compared} digests are equal");
        self.report.step("healthy", None, &text);
        Ok(())
    }

    /// Drains and restarts one server, and waits until the ensemble is healthy with a new process there.
    fn restart(&self, server: usize) -> Result<EnsembleLook, Problem> {
        let address = self.addresses[server].as_str();
        let began = Instant::now();
        if let Some((access, places)) = &self.admin {
            self.report.step("draining", Some(address), "sending its clients to the others");
            access.drain(&places[server]).map_err(|error| Problem::of(address, error))?;
            if !await_end(access, &places[server], self.wait_limit) {
                let seconds = self.wait_limit.as_secs();
                return Err(Problem::of(address, format!("it has not ended within {seconds} seconds")));
            }
        }
        let command = &self.commands[server];
        self.report.step("command", Some(address), command);
        hook::run(command, self.command_limit).map_err(|error| Problem::of(address, error))?;
        self.await_health(|look| match look.uptime_ms(server) {
            Some(uptime_ms) if u128::from(uptime_ms) <= began.elapsed().as_millis() => Ok(()),
            Some(_) => Err(format!("{address} still runs as before; the command must restart it")),
            None => Err(format!("{address} does not answer mntr")),
        })
        .map_err(|problem| Problem { server: Some(address.to_owned()), ..problem })
    }
}
