//! The servers that vectors run on: one per configuration, kept while vectors need it, and a new one with
//! an empty directory for every vector that asks for that.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::config::Config;
use crate::server_process::{Launch, ServerError, ServerProcess};

/// Starts servers when they are first needed.
#[derive(Debug)]
pub struct Servers {
    launch: Launch,
    running: BTreeMap<Config, ServerProcess>,
}

impl Servers {
    /// Servers that are started like this.
    pub fn new(launch: Launch) -> Servers {
        Servers { launch, running: BTreeMap::new() }
    }

    /// The address of a server with this configuration.
    pub fn address(&mut self, config: Config) -> Result<SocketAddr, ServerError> {
        if let Some(server) = self.running.get_mut(&config)
            && config != Config::Fresh
            && server.is_running()
        {
            return Ok(server.address());
        }
        self.running.remove(&config);
        let mut builder = ServerProcess::launch(self.launch.clone());
        for (name, value) in config.properties() {
            builder = builder.property(*name, *value);
        }
        let server = builder.start()?;
        let address = server.address();
        self.running.insert(config, server);
        Ok(address)
    }
}
