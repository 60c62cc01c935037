//! `zebu verify`: compares the trees of running servers by the digests that they keep.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::console::{print_error, print_line};
use crate::monitor::tree_digests::{self, TreeComparison, TreeDigests};
use crate::monitor::{self, NamedServers, sample::Sample};
use crate::protection::ProtectionArguments;

/// The exit status if a server could not be compared.
const NOT_COMPARED: u8 = 3;

/// Compare the trees of running servers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu verify zk1:2181,zk2:2181,zk3:2181
  zebu verify zk1:2181,zk2:2181,zk3:2181 --json    for a nightly job

Each server keeps the digest of its tree for one of 128 transactions. Servers with different digests after the same \
transaction have different data. Both Zebu and Apache ZooKeeper servers (since 3.6) can be asked; the words hash, srvr \
and mntr must be in 4lw.commands.whitelist.
Exit status: 0 each server was compared and all trees are equal, 1 trees differ, 2 wrong arguments, 3 a server could \
not be compared.")]
pub(crate) struct Verify {
    /// host:port,host:port,... (2181 if no port is given)
    #[arg(value_name = "SERVERS")]
    servers: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    protection: ProtectionArguments,
}

/// One server and its digests.
struct VerifiedServer {
    address: String,
    digests: Result<TreeDigests, String>,
    /// Transactions at which it was compared.
    compared: usize,
    /// Differences to its leader's tree that it has found by itself.
    found_itself: u64,
}

impl VerifiedServer {
    /// Why the server was not compared.
    fn problem(&self) -> Option<String> {
        match &self.digests {
            Err(error) => Some(error.clone()),
            Ok(digests) if digests.is_empty() => {
                Some("it has no digest yet; it keeps one for every 128 transactions".to_owned())
            }
            Ok(_) if self.compared == 0 => {
                Some("no other server has a digest of the same transaction".to_owned())
            }
            Ok(_) => None,
        }
    }
}

impl Verify {
    /// Asks and compares once.
    pub(crate) fn run(self) -> ExitCode {
        let named = match NamedServers::open(&self.servers, &self.protection) {
            Ok(named) => named,
            Err(status) => return status,
        };
        if named.addresses.len() < 2 {
            print_error("Name at least two servers: zk1:2181,zk2:2181");
            return ExitCode::from(2);
        }
        let digests = tree_digests::ask_digests(&named.addresses, named.tls.as_ref());
        let samples = monitor::ask_all(&named.addresses, named.tls.as_ref());
        let trees: Vec<TreeDigests> =
            digests.iter().map(|digests| digests.clone().unwrap_or_default()).collect();
        let comparison = tree_digests::compare(&trees);
        let servers: Vec<VerifiedServer> = named
            .addresses
            .iter()
            .zip(digests)
            .zip(&samples)
            .zip(&comparison.compared)
            .map(|(((address, digests), sample), &compared)| VerifiedServer {
                address: address.clone(),
                digests,
                compared,
                found_itself: found_itself(sample.as_ref().ok()),
            })
            .collect();
        let is_different =
            !comparison.differences.is_empty() || servers.iter().any(|server| server.found_itself > 0);
        let is_complete = servers.iter().all(|server| server.problem().is_none());
        if self.json {
            print_line(format!("{:#}", json(&servers, &comparison, is_different, is_complete)));
        } else {
            show(&servers, &comparison, &named.addresses);
        }
        match (is_different, is_complete) {
            (true, _) => ExitCode::FAILURE,
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::from(NOT_COMPARED),
        }
    }
}

fn found_itself(sample: Option<&Sample>) -> u64 {
    sample.and_then(|sample| sample.disk.digest_mismatches).unwrap_or(0)
}

fn show(servers: &[VerifiedServer], comparison: &TreeComparison, addresses: &[String]) {
    for server in servers {
        let state = match server.problem() {
            Some(problem) => format!("not compared: {problem}"),
            None => format!("compared after {} transactions", server.compared),
        };
        print_line(format!("{}: {state}", server.address));
        if server.found_itself > 0 {
            let count = server.found_itself;
            print_line(format!("{}: has found {count} differences to its leader's tree", server.address));
        }
    }
    for difference in &comparison.differences {
        print_line(difference.describe(addresses));
    }
    let found = servers.iter().any(|server| server.found_itself > 0);
    match comparison.newest_of_all {
        _ if !comparison.differences.is_empty() || found => {
            print_line("The trees differ: keep the files of all servers before you restart anything.");
        }
        Some(zxid) => print_line(format!("All trees are equal up to 0x{zxid:x}.")),
        None => print_line("No difference was found, but not all servers were compared."),
    }
}

fn json(
    servers: &[VerifiedServer],
    comparison: &TreeComparison,
    is_different: bool,
    is_complete: bool,
) -> Value {
    let server = |server: &VerifiedServer| {
        json!({
            "server": server.address,
            "compared": server.compared,
            "problem": server.problem(),
            "digest_mismatches": server.found_itself,
        })
    };
    let difference = |difference: &tree_digests::TreeDifference| {
        let names = |group: &Vec<usize>| {
            group.iter().map(|&index| servers[index].address.as_str()).collect::<Vec<_>>()
        };
        json!({
            "zxid": format!("0x{:x}", difference.zxid),
            "groups": difference.groups.iter().map(names).collect::<Vec<_>>(),
        })
    };
    json!({
        "time": monitor::now(),
        "equal": !is_different && is_complete,
        "newest_compared": comparison.newest_of_all.map(|zxid| format!("0x{zxid:x}")),
        "servers": servers.iter().map(server).collect::<Vec<_>>(),
        "differences": comparison.differences.iter().map(difference).collect::<Vec<_>>(),
    })
}
