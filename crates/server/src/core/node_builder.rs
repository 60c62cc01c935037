//! Builds the node and the replica from the configuration and the recovered state.

use std::sync::Arc;

use zebu_node::{Node, Replica};
use zebu_tree::Tree;
use zebu_zab::{Configuration, RecoveredHistory};

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::core::context::ServerContext;
use crate::dynamic_config;
use crate::peers::Peers;
use crate::serve_error::ServeError;
use crate::settings;

/// The node and the replica of a starting server.
pub(crate) struct NodeParts {
    pub(crate) node: Node,
    pub(crate) replica: Replica,
    pub(crate) member: Option<EnsembleParts>,
}

/// The additional parts of an ensemble member.
pub(crate) struct EnsembleParts {
    ensemble_config: Configuration,
    /// A config that was proposed and not committed.
    last_seen_config: Option<Configuration>,
}

impl EnsembleParts {
    /// Opens the election port and the quorum port.
    pub(crate) async fn open_peer_ports(self, shared: &Arc<ServerContext>) -> Result<Peers, ServeError> {
        shared.init_ensemble_config(self.ensemble_config);
        let peers = Peers::open(shared.clone()).await?;
        if let Some(last_seen) = &self.last_seen_config {
            peers.set_proposed_config(last_seen);
        }
        Ok(peers)
    }
}

impl NodeParts {
    /// Builds the parts from the configuration and the recovered tree.
    pub(crate) fn build(
        config: &ServerConfig,
        tree: Tree,
        member: Option<RecoveredHistory>,
        clock: &Clock,
        seed: u64,
    ) -> NodeParts {
        match member {
            None => build_standalone(config, tree, clock, seed),
            Some(recovered) => build_member(config, tree, recovered, clock, seed),
        }
    }
}

fn build_standalone(config: &ServerConfig, tree: Tree, clock: &Clock, seed: u64) -> NodeParts {
    let replica = Replica::new(tree, settings::policy(config), settings::enforcement(config), seed)
        .with_sasl(settings::client_sasl(config))
        .with_traffic(settings::traffic(config))
        .with_freshness(settings::freshness(config))
        .with_keeper(settings::keeper(config))
        .with_listings(settings::listings(config))
        .with_feeds(settings::feeds(config));
    let node = Node::new(settings::node_settings(config, seed), &replica, clock.now());
    NodeParts { node, replica, member: None }
}

fn build_member(
    config: &ServerConfig,
    mut tree: Tree,
    recovered: RecoveredHistory,
    clock: &Clock,
    seed: u64,
) -> NodeParts {
    let members = dynamic_config::ensemble_config(config);
    let dynamic = dynamic_config::initial_dynamic_config(config, &tree);
    let last_seen = dynamic.as_ref().and_then(|dynamic| dynamic.last_seen.clone());
    if let Some(text) = dynamic_config::config_node_data(&tree, &members, config) {
        tree.write_config(text, members.zxid(), clock.now().wall_ms);
    }
    let replica = Replica::new(tree, settings::policy(config), settings::enforcement(config), seed)
        .with_sasl(settings::client_sasl(config))
        .with_traffic(settings::traffic(config))
        .with_freshness(settings::freshness(config))
        .with_keeper(settings::keeper(config))
        .with_listings(settings::listings(config))
        .with_feeds(settings::feeds(config));
    let peer = settings::peer_settings(config, dynamic, seed);
    let node_settings = settings::node_settings(config, seed);
    let node = Node::ensemble_member(node_settings, peer, recovered, &replica, clock.now());
    NodeParts {
        node,
        replica,
        member: Some(EnsembleParts { ensemble_config: members, last_seen_config: last_seen }),
    }
}
