//! Effects of the node outside of disk and peers' packets: another config, and the begin and end of service.

use tracing::info;
use zebu_node::{ServeEffect, ServingMode};
use zebu_zab::{ConfigEffect, ServingRole};

use super::context::ServerContext;
use crate::dynamic_config::ConfigFileWriter;
use crate::peers::Peers;

/// Writes the files of a config and tells the connections between servers about it.
pub(super) fn execute_config(
    effect: ConfigEffect,
    shared: &ServerContext,
    peers: Option<&Peers>,
    files: &ConfigFileWriter,
) {
    let Some(peers) = peers else { return };
    match effect {
        ConfigEffect::PersistProposed { configuration } => {
            peers.set_proposed_config(&configuration);
            files.save_proposed(configuration);
        }
        ConfigEffect::LearnAddresses { configuration } => peers.set_proposed_config(&configuration),
        ConfigEffect::Activate { configuration } => {
            info!(version = format_args!("{:x}", configuration.version), "the members have changed");
            peers.activate_config(&configuration);
            shared.activate_config((*configuration).clone(), shared.clock.now().wall_ms);
            files.activate(configuration);
        }
    }
}

/// Begins or ends the service of clients.
pub(super) fn execute_serve(effect: ServeEffect, shared: &ServerContext, peers: Option<&Peers>) {
    match effect {
        ServeEffect::Serve(serving) => {
            info!(?serving, "this member serves");
            if let Some(peers) = peers {
                peers.set_serving(Some(serving));
            }
            let (ServingRole::Leading { epoch }
            | ServingRole::Following { epoch, .. }
            | ServingRole::Observing { epoch, .. }) = serving;
            shared.set_serving_mode(Some(serving.into()), Some(epoch));
        }
        ServeEffect::ServeReadOnly => {
            // Test suites of other projects wait for the first words.
            info!(
                "Read-only server started: there is no leader, clients that are content with reads are served"
            );
            shared.set_serving_mode(Some(ServingMode::ReadOnly), None);
        }
        ServeEffect::Stop => {
            info!("this member serves no more");
            if let Some(peers) = peers {
                peers.set_serving(None);
            }
            shared.set_serving_mode(None, None);
        }
    }
}
