//! The arguments that name a configuration, shared by the commands that read one, and the one place where the
//! variables of the process are read.

use clap::Args;
use zebu_server::config::{ConfigInputs, Environment};

/// Where the settings come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArguments {
    /// A Java property, glued as for java: -Dzookeeper.snapCount=50000 (the file wins over it)
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) properties: Vec<String>,

    /// What to serve, as the user wrote it.
    #[arg(help = "zoo.cfg, or: port dataDir [tickTime] [maxClientCnxns]; nothing = 127.0.0.1:2181, ./zebu-data", value_name = "CONFIG", num_args = 0..=4)]
    pub(crate) arguments: Vec<String>,
}

impl ConfigArguments {
    /// What the configuration is read from.
    pub(crate) fn inputs(&self) -> ConfigInputs {
        ConfigInputs {
            arguments: self.arguments.clone(),
            properties: self.properties.clone(),
            environment: environment(),
        }
    }
}

/// The variables of the process; what is not UTF-8 is replaced.
pub(crate) fn environment() -> Environment {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    Environment(std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect())
}
