//! Finds the quorum ports of an ensemble: from its config node, with the leader of `srvr` first.

use std::time::Duration;

use zebu_client::{Client, ServerList};

use crate::protection::{Protection, WordLimits, ask};

/// How long one server may take to answer a word.
const WORD_LIMITS: WordLimits = WordLimits { time: Duration::from_secs(3), answer_bytes: 64 << 10 };

/// How long the config may take.
const CONFIG_MAX: Duration = Duration::from_secs(15);

/// The node with the servers of an ensemble. Releases since 3.5 have it.
const CONFIG: &str = "/zookeeper/config";

/// Finds the quorum ports by the client ports. The leader comes first, if it tells.
pub(super) fn find(servers: &str, protection: &Protection) -> Result<Vec<String>, String> {
    let list: ServerList = servers.parse().map_err(|error| format!("{error}"))?;
    let config = read_config(servers, protection)?;
    let mut ports = quorum_ports(&config);
    if ports.is_empty() {
        return Err(format!(
            "{servers}: {CONFIG} names no server with a quorum port; a standalone server has no observers"
        ));
    }
    let leaders = list.servers().iter().filter(|server| {
        let answer = ask(&server.to_string(), "srvr", protection.tls.as_ref(), WORD_LIMITS);
        answer.is_ok_and(|text| text.lines().any(|line| line.trim() == "Mode: leader"))
    });
    let hosts: Vec<String> = leaders.map(|server| server.to_string()).collect();
    ports.sort_by_key(|row| !row.is_probably(&hosts));
    Ok(ports.into_iter().map(|row| row.quorum).collect())
}

fn read_config(servers: &str, protection: &Protection) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let reading = async {
        let builder = protection.apply(Client::builder(servers).map_err(|error| error.to_string())?);
        let client = builder.connect().await.map_err(|error| error.to_string())?;
        let node = client.get(CONFIG).await.map_err(|error| error.to_string());
        // The session holds nothing, so that its end need not be confirmed.
        let _ = client.close().await;
        Ok(String::from_utf8_lossy(&node?.data).into_owned())
    };
    runtime.block_on(async {
        match tokio::time::timeout(CONFIG_MAX, reading).await {
            Ok(config) => config,
            Err(_) => Err(format!("{servers}: no answer within {} s", CONFIG_MAX.as_secs())),
        }
    })
}

/// A server of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfigRow {
    /// Host and port of its quorum port.
    quorum: String,
    /// Host and port of its client port, if the config has it.
    client: Option<String>,
}

impl ConfigRow {
    /// Whether one of these client addresses can be this server's.
    fn is_probably(&self, clients: &[String]) -> bool {
        let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
        let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
        clients.iter().any(|client| {
            let same_port = self.client.as_deref().is_none_or(|own| port(own) == port(client));
            same_port && host(&self.quorum) == host(client)
        })
    }
}

/// Reads lines as `server.1=host:2888:3888:participant;0.0.0.0:2181`. A server may have several addresses,
/// joined by `|`. Observers never lead.
fn quorum_ports(config: &str) -> Vec<ConfigRow> {
    let mut rows = Vec::new();
    for line in config.lines() {
        let Some((key, value)) = line.trim().split_once('=') else { continue };
        if !key.starts_with("server.") {
            continue;
        }
        let (addresses, client) = match value.split_once(';') {
            Some((addresses, client)) => (addresses, Some(client.trim())),
            None => (value, None),
        };
        if addresses.trim_end().ends_with(":observer") {
            continue;
        }
        let client = client.map(|client| match client.contains(':') {
            true => client.to_owned(),
            false => format!("0.0.0.0:{client}"),
        });
        for address in addresses.split('|') {
            if let Some(quorum) = quorum_port(address.trim()) {
                rows.push(ConfigRow { quorum, client: client.clone() });
            }
        }
    }
    rows
}

/// The first two parts of `host:quorum:election:role`. An IPv6 address stands in brackets.
fn quorum_port(address: &str) -> Option<String> {
    let host_end = if address.starts_with('[') { address.find(']')? + 1 } else { address.find(':')? };
    let (host, rest) = address.split_at(host_end);
    let port = rest.strip_prefix(':')?.split(':').next()?;
    port.parse::<u16>().ok().map(|port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_of_srvr_comes_first() {
        let rows = quorum_ports(
            "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888\n\
             server.3=[::1]:2890:3890:participant;2183\nserver.4=zk4:2888:3888:observer;2181\nversion=0",
        );
        let ports: Vec<&str> = rows.iter().map(|row| row.quorum.as_str()).collect();
        assert_eq!(ports, ["zk1:2888", "zk2:2888", "[::1]:2890"]);
        assert!(rows[0].is_probably(&["zk1:2181".to_owned()]));
        assert!(!rows[0].is_probably(&["zk1:2182".to_owned()]));
        assert!(rows[1].is_probably(&["zk2:9999".to_owned()]));
        assert!(rows[2].is_probably(&["[::1]:2183".to_owned()]));
    }

    #[test]
    fn several_addresses_of_a_server() {
        let rows = quorum_ports("server.1=a:1:2|b:3:4;5\nserver.x\nserver.2=broken\nversion=100000000");
        let ports: Vec<&str> = rows.iter().map(|row| row.quorum.as_str()).collect();
        assert_eq!(ports, ["a:1", "b:3"]);
    }
}
