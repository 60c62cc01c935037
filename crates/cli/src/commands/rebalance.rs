//! `zebu rebalance`: gives every server of an ensemble its share of the clients. A client stays where it is
//! until its connection ends, so after a rolling restart the last server has none.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use zebu_client::TlsConnector;

use crate::console::{begin, print_error, print_line};
use crate::monitor::{self, NamedServers, align, sample};
use crate::protection::ProtectionArguments;

/// Send clients of crowded servers to the others
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu rebalance --dry-run zk1:2181,zk2:2181,zk3:2181   who has how many, and what would happen
  zebu rebalance zk1:2181,zk2:2181,zk3:2181
  zebu rebalance --tolerance 25 --json zk1:2181,zk2:2181,zk3:2181
  zebu rebalance --tls-ca ca.pem --tls-cert me.pem zk1:2281,zk2:2281,zk3:2281

A server with more connections than its share closes the rest, those first that wait for no answer. Their clients \
connect to another server of their list with the same session: nothing is lost, ephemeral nodes and watches stay. The \
closing is asked for with the word shed, which must be in 4lw.commands.whitelist of each server by name (* does not \
mean it): 4lw.commands.whitelist=srvr,mntr,shed. Name only servers that take clients.
Exit status: 0 every server has its share now, 1 a server could not be asked or did not do it, 2 wrong arguments.")]
pub(crate) struct Rebalance {
    /// host:port,host:port... of all servers that take clients
    #[arg(value_name = "SERVERS")]
    servers: String,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Percent of its share that a server may have too many
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=1000))]
    tolerance: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    protection: ProtectionArguments,
}

/// One server and what is to be done with it.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    server: String,
    connections: u64,
    /// Percent of its connections that it should close.
    shed: u64,
    /// Connections that it has closed, or why not.
    done: Option<Result<u64, String>>,
}

impl Rebalance {
    /// Asks all, then tells those that have too many.
    pub(crate) fn run(self) -> ExitCode {
        let servers = match NamedServers::open(&self.servers, &self.protection) {
            Ok(servers) => servers,
            Err(status) => return status,
        };
        let (addresses, tls) = (servers.addresses, servers.tls.as_ref());
        let mut counts = Vec::new();
        for (address, answer) in addresses.iter().zip(monitor::ask_all(&addresses, tls)) {
            match answer {
                // The question itself is a connection.
                Ok(sample) => counts.push((address.clone(), sample.connections.saturating_sub(1))),
                Err(reason) => {
                    print_error(format!(
                        "{address}: {reason}; nothing was done, for its clients are at the others now"
                    ));
                    return ExitCode::FAILURE;
                }
            }
        }
        let mut steps = plan(&counts, self.tolerance);
        if !self.dry_run {
            for step in steps.iter_mut().filter(|step| step.shed > 0) {
                step.done = Some(shed(&step.server, step.shed, tls));
            }
        }
        if self.json {
            print_line(format!("{:#}", as_json(&steps)));
        } else {
            begin(&as_table(&steps));
        }
        let has_failed = steps.iter().any(|step| matches!(step.done, Some(Err(_))));
        if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// What each server should close so that none has more than its share and the tolerance.
fn plan(counts: &[(String, u64)], tolerance: u64) -> Vec<Step> {
    let total: u64 = counts.iter().map(|(_, connections)| connections).sum();
    let share = total.div_ceil(counts.len().max(1) as u64);
    let step = |(server, connections): &(String, u64)| {
        let is_crowded = connections * 100 > share * (100 + tolerance);
        let shed = if is_crowded { (connections - share) * 100 / connections } else { 0 };
        Step { server: server.clone(), connections: *connections, shed, done: None }
    };
    counts.iter().map(step).collect()
}

/// Tells one server. The number of connections that it has closed.
fn shed(server: &str, percentage: u64, tls: Option<&TlsConnector>) -> Result<u64, String> {
    let word = format!("shed {percentage}\n");
    let answer = sample::ask(server, &word, tls).map_err(|error| error.to_string())?;
    understood(&answer)
}

fn understood(answer: &str) -> Result<u64, String> {
    let closed = answer.lines().find_map(|line| line.strip_prefix("Connections shed: "));
    match closed.and_then(|number| number.trim().parse().ok()) {
        Some(closed) => Ok(closed),
        None if answer.contains("whitelist") => {
            Err("add shed to 4lw.commands.whitelist of this server and restart it".to_owned())
        }
        None if answer.is_empty() => Err("it does not know the word shed; it is no Zebu".to_owned()),
        None => Err(answer.trim().to_owned()),
    }
}

fn as_table(steps: &[Step]) -> String {
    let mut lines = vec![["SERVER", "CONNECTIONS", "SHED"].map(str::to_owned).to_vec()];
    for step in steps {
        let shed = match &step.done {
            Some(Ok(closed)) => closed.to_string(),
            Some(Err(reason)) => reason.clone(),
            None if step.shed > 0 => format!("{} %", step.shed),
            None => "-".to_owned(),
        };
        lines.push(vec![step.server.clone(), step.connections.to_string(), shed]);
    }
    align(&lines, 3)
}

fn as_json(steps: &[Step]) -> Value {
    let one = |step: &Step| {
        json!({
            "server": step.server,
            "connections": step.connections,
            "percentage": step.shed,
            "shed": step.done.as_ref().and_then(|done| done.as_ref().ok()),
            "error": step.done.as_ref().and_then(|done| done.as_ref().err()),
        })
    };
    json!({ "servers": steps.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(counts: &[u64], tolerance: u64) -> Vec<u64> {
        let counts: Vec<_> = counts.iter().map(|count| ("zk:2181".to_owned(), *count)).collect();
        plan(&counts, tolerance).into_iter().map(|step| step.shed).collect()
    }

    #[test]
    fn who_has_more_than_its_share_sends_the_rest_away() {
        assert_eq!(shares(&[150, 150, 0], 10), [33, 33, 0]);
        assert_eq!(shares(&[100, 100, 100], 10), [0, 0, 0]);
        assert_eq!(shares(&[109, 95, 96], 10), [0, 0, 0]);
        assert_eq!(shares(&[109, 95, 96], 0), [8, 0, 0]);
        assert_eq!(shares(&[1, 0, 0], 0), [0, 0, 0], "one client has to be somewhere");
        assert_eq!(shares(&[0, 0], 0), [0, 0]);
    }

    #[test]
    fn what_a_server_answers_is_understood() {
        assert_eq!(understood("Connections shed: 12\nConnections left: 30\n"), Ok(12));
        let refused = understood("shed is not executed because it is not in the whitelist.\n");
        assert!(refused.unwrap_err().starts_with("add shed to 4lw.commands.whitelist"));
        assert!(understood("").unwrap_err().contains("no Zebu"));
    }
}
