//! `config`: the membership of the ensemble.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::flags::{Given, switch};
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::watches::ShellWatchKind;

/// The node that holds it, whatever the chroot.
pub(crate) const CONFIG_NODE: &str = "/zookeeper/config";

pub(crate) const ENTRY: Entry = Entry {
    name: "config",
    syntax: "[-c] [-w] [-s]",
    about: "Shows the membership of the ensemble",
    examples: &["config", "config -c", "config -w"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("s", "Print znode stats additionally"),
        switch("c", "Only the version and the addresses for clients"),
        switch("w", "Watch for changes of the configuration"),
    ],
    parse,
};

struct Config {
    with_stat: bool,
    for_clients: bool,
    watch: bool,
}

fn parse(given: &Given) -> Parsed {
    let (with_stat, for_clients, watch) = (given.has("s"), given.has("c"), given.has("w"));
    Ok(Box::new(Config { with_stat, for_clients, watch }))
}

impl Command for Config {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let outside = session.connection()?.outside.clone();
            let node = if self.watch {
                let (node, watcher) = outside.get(CONFIG_NODE).watched().await?;
                session.watches.keep(ShellWatchKind::Data, CONFIG_NODE, watcher);
                node
            } else {
                outside.get(CONFIG_NODE).await?
            };
            let text = String::from_utf8_lossy(&node.data).into_owned();
            if self.for_clients {
                return Ok(client_view(&text));
            }
            Ok(Reply::Config { heading: None, text, stat: self.with_stat.then_some(node.stat) })
        })
    }
}

/// The version, and what follows the semicolon of each server.
fn client_view(text: &str) -> Reply {
    let mut version = String::new();
    let mut addresses = Vec::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match key.trim() {
            "version" => value.trim().clone_into(&mut version),
            key if key.starts_with("server.") => {
                addresses.extend(value.split_once(';').map(|(_, address)| address.trim().to_owned()));
            }
            _ => {}
        }
    }
    Reply::ClientConfig { version, addresses }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_need_version_and_addresses() {
        let text = "server.1=a:1:2:participant;0.0.0.0:2181\nserver.2=b:1:2:observer\nversion=1f\n";
        let addresses = vec!["0.0.0.0:2181".to_owned()];
        assert_eq!(client_view(text), Reply::ClientConfig { version: "1f".to_owned(), addresses });
        let empty = Reply::ClientConfig { version: String::new(), addresses: Vec::new() };
        assert_eq!(client_view(""), empty);
    }
}
