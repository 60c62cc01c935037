//! The two servers that are compared, each started as its own start script would start it.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use zebu_testing::{Launch, ServerProcess, ServerProcessBuilder};

use super::files;
use crate::apache::Edition;

/// The heap of zkServer.sh, and its flags that are not about logging. The garbage collector is Java's own
/// choice for the machine.
const JAVA_FLAGS: [&str; 4] = [
    "-Xmx1000m",
    "-XX:+HeapDumpOnOutOfMemoryError",
    "-Dcom.sun.management.jmxremote",
    "-Dcom.sun.management.jmxremote.local.only=true",
];

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name {
    /// Apache ZooKeeper.
    Apache,
    /// Zebu.
    Zebu,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Name::Apache => "Apache",
            Name::Zebu => "Zebu",
        })
    }
}

/// One of the two, ready to be started.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: Name,
    pub(crate) launch: Launch,
}

impl Contender {
    /// Apache first, as in all tables.
    pub(crate) fn both(zebu: &Path, apache: &str) -> Result<[Contender; 2]> {
        let mut java = Edition::parse(apache).launch()?;
        java.before = JAVA_FLAGS.map(Into::into).to_vec();
        Ok([Contender { name: Name::Apache, launch: java }, Contender::zebu(zebu)?])
    }

    /// A build of Zebu.
    pub(crate) fn zebu(binary: &Path) -> Result<Contender> {
        let binary =
            binary.canonicalize().with_context(|| format!("no zebu binary at {}", binary.display()))?;
        Ok(Contender { name: Name::Zebu, launch: Launch::zebu(binary) })
    }

    /// A server on a directory of its own, started.
    pub(crate) fn start(&self, properties: &[(&str, &str)]) -> Result<ServerProcess> {
        let builder: ServerProcessBuilder = ServerProcess::launch(self.launch.clone());
        let builder =
            properties.iter().fold(builder, |builder, (name, value)| builder.property(*name, *value));
        builder.start().with_context(|| format!("start {}", self.name))
    }

    /// A server on a copy of the files in `data`, not yet started.
    pub(crate) fn on_copy_of(&self, data: &Path, properties: &[(&str, &str)]) -> Result<ServerProcess> {
        let mut server = self.start(properties)?;
        server.stop()?;
        files::replace(&server.data_dir(), data)?;
        Ok(server)
    }
}

/// The process of a server that runs.
pub(crate) fn process(server: &ServerProcess) -> Result<u32> {
    server.id().context("the server does not run")
}
