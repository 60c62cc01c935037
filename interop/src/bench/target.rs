//! Servers that run, as the load sees them: where they listen, and whose processor time counts.

use std::path::PathBuf;

use anyhow::Result;
use zebu_testing::ServerProcess;

use super::contender::process;
use super::files;
use crate::trio::{SERVERS, Trio};

/// One server or an ensemble.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Sessions are spread over these.
    pub(crate) servers: Vec<String>,
    /// Their CPU time is added up.
    pub(crate) processes: Vec<u32>,
    /// Where their files are.
    data: Vec<PathBuf>,
}

impl Target {
    pub(crate) fn standalone(server: &ServerProcess) -> Result<Target> {
        Ok(Target {
            servers: vec![server.address().to_string()],
            processes: vec![process(server)?],
            data: vec![server.data_dir()],
        })
    }

    /// Removes logs and snapshots that no start would need: a quick server fills a disk within minutes.
    pub(crate) fn purge(&self) -> Result<()> {
        self.data.iter().try_for_each(|data| files::purge(data))
    }

    /// All three, the leader too.
    pub(crate) fn ensemble(trio: &Trio) -> Result<Target> {
        Ok(Target {
            servers: trio.addresses().iter().map(ToString::to_string).collect(),
            processes: (0..SERVERS).map(|index| trio.id(index)).collect::<Result<_>>()?,
            data: (0..SERVERS).map(|index| trio.data_dir(index).to_owned()).collect(),
        })
    }
}
