//! Dynamic reconfiguration at the edge: the config at the start, the files that store it, and the
//! config node for clients.

mod files;
mod static_file;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use zebu_proto::{Buffer, ServerId};
use zebu_runtime::{config_to_show, last_seen_config};
use zebu_tree::Tree;
use zebu_zab::membership::{Groups, HostPort};
use zebu_zab::{Configuration, DynamicConfig};

pub(crate) use files::DynamicConfigFiles;

use crate::config::membership::QuorumRuleConfig;
use crate::config::{BindAddress, ConfigSource, MembershipConfig, ServerConfig};
use crate::core::context::ServerContext;
use crate::panic_guard::PanicGuard;

/// The config of the configuration file. It has a version only with `reconfigEnabled`.
pub(crate) fn ensemble_config(config: &ServerConfig) -> Configuration {
    let membership = &config.membership;
    let version = if config.reconfig_enabled { membership.version as i64 } else { 0 };
    Configuration { version, members: membership.members.clone(), groups: hierarchical_groups(membership) }
}

fn hierarchical_groups(membership: &MembershipConfig) -> Option<Groups> {
    match &membership.quorum_rule {
        QuorumRuleConfig::Hierarchical { group_of, weight_of } => {
            Some(Groups { group_of: group_of.clone(), weight_of: weight_of.clone() })
        }
        QuorumRuleConfig::Majority | QuorumRuleConfig::Oracle(_) => None,
    }
}

/// The config files of this server; `None` without a configuration file or without
/// `reconfigEnabled`.
pub(crate) fn dynamic_config_files(config: &ServerConfig) -> Option<DynamicConfigFiles> {
    let me = config.membership.my_id.unwrap_or(ServerId(0));
    match &config.source {
        ConfigSource::File(path) if config.reconfig_enabled && config.membership.is_ensemble() => {
            let client = config.listen.client.map(|client| match client {
                BindAddress::AllInterfaces { port } => HostPort { host: "0.0.0.0".to_owned(), port },
                BindAddress::Address(address) => {
                    HostPort { host: host_with_zone(address), port: address.port() }
                }
            });
            Some(DynamicConfigFiles::new(path, me, client))
        }
        ConfigSource::File(_) | ConfigSource::Arguments | ConfigSource::BuiltIn => None,
    }
}

/// The host of an address, with its zone.
fn host_with_zone(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address.ip().to_string(),
    }
}

/// The config at the start: the one of the files, and a newer one from the log or from a proposal.
/// The ensemble decides later whether the newer one is committed.
pub(crate) fn initial_dynamic_config(config: &ServerConfig, tree: &Tree) -> Option<DynamicConfig> {
    if !config.reconfig_enabled {
        return None;
    }
    let files = dynamic_config_files(config);
    if let Some(files) = &files
        && config.membership.dynamic_file.is_none()
    {
        files.back_up_static_file();
    }
    let next = files.and_then(|files| files.read_next_config());
    let committed = ensemble_config(config);
    let last_seen = last_seen_config(next, tree, &committed);
    Some(DynamicConfig { committed, last_seen })
}

/// The data of the config node; `None` if the tree already has a newer config. Without
/// `reconfigEnabled` the own configuration file counts.
pub(crate) fn config_node_data(
    tree: &Tree,
    configuration: &Configuration,
    config: &ServerConfig,
) -> Option<Buffer> {
    if config.reconfig_enabled {
        return config_to_show(tree, configuration);
    }
    Some(Some(configuration.to_string().into_bytes().into()))
}

/// A write for the config files.
#[derive(Debug)]
enum ConfigWrite {
    SaveProposed(Box<Configuration>),
    Activate(Box<Configuration>),
}

/// Writes the config files on its own thread, in order.
#[derive(Debug)]
pub(crate) struct ConfigFileWriter {
    writes: Option<Sender<ConfigWrite>>,
}

impl ConfigFileWriter {
    /// Starts the thread. It ends when the writer is dropped, after all writes.
    pub(crate) fn start(
        shared: Arc<ServerContext>,
        files: Option<DynamicConfigFiles>,
    ) -> std::io::Result<(ConfigFileWriter, Option<JoinHandle<()>>)> {
        let Some(mut files) = files else { return Ok((ConfigFileWriter { writes: None }, None)) };
        let (work, received) = channel();
        let thread = std::thread::Builder::new().name("zebu-members".to_owned()).spawn(move || {
            let _panic_guard = PanicGuard::new(shared, "the thread that writes the list of servers");
            for work in received {
                match work {
                    ConfigWrite::SaveProposed(configuration) => files.save_proposed(&configuration),
                    ConfigWrite::Activate(configuration) => files.activate(&configuration),
                }
            }
        })?;
        Ok((ConfigFileWriter { writes: Some(work) }, Some(thread)))
    }

    pub(crate) fn save_proposed(&self, configuration: Box<Configuration>) {
        self.send(ConfigWrite::SaveProposed(configuration));
    }

    pub(crate) fn activate(&self, configuration: Box<Configuration>) {
        self.send(ConfigWrite::Activate(configuration));
    }

    fn send(&self, work: ConfigWrite) {
        if let Some(sender) = &self.writes {
            // The thread ends only with its sender.
            let _ = sender.send(work);
        }
    }
}

#[cfg(test)]
mod startup_property;
