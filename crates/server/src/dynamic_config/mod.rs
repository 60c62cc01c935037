//! Members that change while the server runs: what a start knows of them, the files that keep them, and the node
//! that shows them to clients.

mod files;
mod static_file;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use zebu_proto::{Buffer, ServerId};
use zebu_tree::Tree;
use zebu_zab::membership::{Groups, HostPort};
use zebu_zab::{Configuration, Dynamic};

pub(crate) use files::MemberFiles;

use crate::config::membership::QuorumRule;
use crate::config::{BindAddress, ConfigSource, Membership, ServerConfig};
use crate::shared::Shared;
use crate::vital::Vital;

/// Where the members are shown to clients.
const CONFIG_NODE: &str = "/zookeeper/config";

/// The members of a configuration file. Only an ensemble whose members may change has versions.
pub(crate) fn configuration(config: &ServerConfig) -> Configuration {
    let membership = &config.membership;
    let version = if config.reconfig_enabled { membership.version as i64 } else { 0 };
    Configuration { version, members: membership.members.clone(), groups: groups(membership) }
}

fn groups(membership: &Membership) -> Option<Groups> {
    match &membership.quorum {
        QuorumRule::Hierarchical { group_of, weight_of } => {
            Some(Groups { group_of: group_of.clone(), weight_of: weight_of.clone() })
        }
        QuorumRule::Majority | QuorumRule::Oracle(_) => None,
    }
}

/// The files of this server, if it has a configuration file and its members may change.
pub(crate) fn files(config: &ServerConfig) -> Option<MemberFiles> {
    let me = config.membership.my_id.unwrap_or(ServerId(0));
    match &config.source {
        ConfigSource::File(path) if config.reconfig_enabled && config.membership.is_ensemble() => {
            let client = match config.listen.client {
                BindAddress::AllInterfaces { port } => HostPort { host: "0.0.0.0".to_owned(), port },
                BindAddress::Address(address) => HostPort { host: host_of(address), port: address.port() },
            };
            Some(MemberFiles::new(path, me, Some(client)))
        }
        ConfigSource::File(_) | ConfigSource::Arguments | ConfigSource::BuiltIn => None,
    }
}

/// The host of an address, with its zone.
fn host_of(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address.ip().to_string(),
    }
}

/// What a member knows when it starts: the list of its files, and a newer one that its log holds or that it was
/// told of. Whether that is decided will turn out.
pub(crate) fn known_at_start(config: &ServerConfig, tree: &Tree) -> Option<Dynamic> {
    if !config.reconfig_enabled {
        return None;
    }
    let files = files(config);
    if let Some(files) = &files
        && config.membership.dynamic_file.is_none()
    {
        files.back_up();
    }
    let next = files.and_then(|files| files.read_next());
    let committed = configuration(config);
    let last_seen = last_seen(next, tree, &committed);
    Some(Dynamic { committed, last_seen })
}

/// The newest list that may have been decided. What the log holds counts, not what the file says: a list that was cut
/// from the log may still be in the file, and the log may have gone on beyond its place without it. The first version
/// of all is in no log.
fn last_seen(next: Option<Configuration>, tree: &Tree, committed: &Configuration) -> Option<Configuration> {
    let first = next.filter(|next| next.zxid().counter() == 0);
    let logged = tree
        .node(CONFIG_NODE)
        .and_then(|node| Configuration::parse(std::str::from_utf8(node.data()?).ok()?).ok());
    let last_seen = first.into_iter().chain(logged).max_by_key(|seen| seen.version);
    last_seen.filter(|seen| seen.version > committed.version && seen.has_voters())
}

/// What is to be shown to clients of the members, unless the history of the ensemble has shown newer ones. If
/// members may not change, those of the own file count, whatever others say.
pub(crate) fn to_show(tree: &Tree, configuration: &Configuration, config: &ServerConfig) -> Option<Buffer> {
    let shown = tree.node(CONFIG_NODE);
    let newer = shown.is_some_and(|node| {
        node.stat().mzxid >= configuration.version && node.data().is_some_and(|data| !data.is_empty())
    });
    let text = configuration.to_string().into_bytes();
    (!newer || !config.reconfig_enabled).then(|| Some(text.into()))
}

/// Something to be written.
#[derive(Debug)]
enum Work {
    Remember(Box<Configuration>),
    Activate(Box<Configuration>),
}

/// Writes the files beside everything else, in order.
#[derive(Debug)]
pub(crate) struct FileWriter {
    work: Option<Sender<Work>>,
}

impl FileWriter {
    /// Starts it; it ends when it is dropped, after everything is written.
    pub(crate) fn start(
        shared: Arc<Shared>,
        files: Option<MemberFiles>,
    ) -> std::io::Result<(FileWriter, Option<JoinHandle<()>>)> {
        let Some(mut files) = files else { return Ok((FileWriter { work: None }, None)) };
        let (work, received) = channel();
        let thread = std::thread::Builder::new().name("zebu-members".to_owned()).spawn(move || {
            let _vital = Vital::new(shared, "the thread that writes the list of servers");
            for work in received {
                match work {
                    Work::Remember(configuration) => files.remember(&configuration),
                    Work::Activate(configuration) => files.activate(&configuration),
                }
            }
        })?;
        Ok((FileWriter { work: Some(work) }, Some(thread)))
    }

    pub(crate) fn remember(&self, configuration: Box<Configuration>) {
        self.hand_over(Work::Remember(configuration));
    }

    pub(crate) fn activate(&self, configuration: Box<Configuration>) {
        self.hand_over(Work::Activate(configuration));
    }

    fn hand_over(&self, work: Work) {
        if let Some(sender) = &self.work {
            // It ends only with its sender.
            let _ = sender.send(work);
        }
    }
}

#[cfg(test)]
mod startable;

#[cfg(test)]
mod tests {
    use zebu_proto::Zxid;
    use zebu_tree::{DigestMode, TreeOptions, TtlNodes};

    use super::*;

    fn list(version: i64) -> Configuration {
        Configuration::parse(&format!("server.1=a:1:2;5\nversion={version:x}")).unwrap()
    }

    fn tree_with(logged: Option<&Configuration>) -> Tree {
        let options = TreeOptions { ttl_nodes: TtlNodes::Enabled, digest: DigestMode::On, hash_seed: 1 };
        let mut tree = Tree::new(options);
        if let Some(logged) = logged {
            tree.write_config(Some(logged.to_string().into_bytes().into()), logged.zxid(), 0);
        }
        tree
    }

    /// The log was cut before a proposed list and has gone on in a later epoch: the file still has it.
    #[test]
    fn a_list_that_is_not_in_the_log_is_not_proposed() {
        let committed = list(Zxid::new(1, 3).0);
        let cut = list(Zxid::new(1, 14).0);
        assert_eq!(last_seen(Some(cut.clone()), &tree_with(Some(&committed)), &committed), None);
        assert_eq!(last_seen(Some(cut.clone()), &tree_with(Some(&cut)), &committed), Some(cut));
    }

    #[test]
    fn the_first_version_is_in_the_file_alone() {
        let (committed, first) = (list(0), list(Zxid::new(2, 0).0));
        assert_eq!(last_seen(Some(first.clone()), &tree_with(None), &committed), Some(first.clone()));
        assert_eq!(last_seen(Some(first.clone()), &tree_with(None), &first), None);
    }
}
