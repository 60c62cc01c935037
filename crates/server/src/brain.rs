//! What thinks, made when the server starts from its configuration and from what its files hold.

use std::sync::Arc;

use zebu_node::{Node, Replica};
use zebu_tree::Tree;
use zebu_zab::{Configuration, Recovered};

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::dynamic_config;
use crate::member_disk::MemberDisk;
use crate::peers::Peers;
use crate::serve_error::ServeError;
use crate::settings;
use crate::shared::Shared;

/// What thinks, made from what the files hold.
pub(crate) struct Brain {
    pub(crate) node: Node,
    pub(crate) replica: Replica,
    pub(crate) member: Option<Membership>,
}

/// What a member of an ensemble has besides.
pub(crate) struct Membership {
    disk: MemberDisk,
    members: Configuration,
    /// A list of members that was proposed and not decided.
    last_seen: Option<Configuration>,
}

impl Membership {
    /// Opens the ports for the others.
    pub(crate) async fn join(self, shared: &Arc<Shared>) -> Result<(Peers, MemberDisk), ServeError> {
        shared.keep_members(self.members);
        let peers = Peers::open(shared.clone()).await?;
        if let Some(last_seen) = &self.last_seen {
            peers.propose(last_seen);
        }
        Ok((peers, self.disk))
    }
}

impl Brain {
    /// For a server with this configuration, from the state that it has found.
    pub(crate) fn new(
        config: &ServerConfig,
        tree: Tree,
        member: Option<(MemberDisk, Recovered)>,
        clock: &Clock,
        seed: u64,
    ) -> Brain {
        match member {
            None => standalone(config, tree, clock, seed),
            Some((disk, recovered)) => of_member(config, tree, disk, recovered, clock, seed),
        }
    }
}

fn standalone(config: &ServerConfig, tree: Tree, clock: &Clock, seed: u64) -> Brain {
    let replica = Replica::new(tree, settings::policy(config), settings::enforcement(config), seed);
    let node = Node::new(settings::node_settings(config, seed), &replica, clock.now());
    Brain { node, replica, member: None }
}

fn of_member(
    config: &ServerConfig,
    mut tree: Tree,
    disk: MemberDisk,
    recovered: Recovered,
    clock: &Clock,
    seed: u64,
) -> Brain {
    let members = dynamic_config::configuration(config);
    let dynamic = dynamic_config::known_at_start(config, &tree);
    let last_seen = dynamic.as_ref().and_then(|dynamic| dynamic.last_seen.clone());
    if let Some(text) = dynamic_config::to_show(&tree, &members, config) {
        tree.write_config(text, members.zxid(), clock.now().wall_ms);
    }
    let replica = Replica::new(tree, settings::policy(config), settings::enforcement(config), seed);
    let peer = settings::peer_settings(config, dynamic, seed);
    let node_settings = settings::node_settings(config, seed);
    let node = Node::member(node_settings, peer, recovered, &replica, clock.now());
    Brain { node, replica, member: Some(Membership { disk, members, last_seen }) }
}
