//! Servers that run, as the load sees them: where they listen, and whose processor time counts.

use anyhow::Result;
use zebu_testing::ServerProcess;

use super::contender::process;
use crate::trio::{SERVERS, Trio};

/// One server or an ensemble.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Sessions are spread over these.
    pub(crate) servers: Vec<String>,
    /// Their CPU time is added up.
    pub(crate) processes: Vec<u32>,
}

impl Target {
    pub(crate) fn standalone(server: &ServerProcess) -> Result<Target> {
        Ok(Target { servers: vec![server.address().to_string()], processes: vec![process(server)?] })
    }

    /// All three, the leader too.
    pub(crate) fn ensemble(trio: &Trio) -> Result<Target> {
        Ok(Target {
            servers: trio.addresses().iter().map(ToString::to_string).collect(),
            processes: (0..SERVERS).map(|index| trio.id(index)).collect::<Result<_>>()?,
        })
    }
}
