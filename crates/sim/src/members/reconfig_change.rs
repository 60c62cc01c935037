//! The reconfig requests of an operator, and the configs that must result from them.

use std::collections::BTreeMap;

use zebu_proto::client::ReconfigRequest;
use zebu_proto::{ErrorCode, Jute};

use super::{EnsembleConfig, ServerSeat, id_of};

/// The version that the config must have for the change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedVersion {
    Any,
    /// The latest version that the client has seen.
    Known,
    /// A version that does not exist.
    Wrong,
}

/// A reconfig.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReconfigChange {
    /// Some servers join or change their addresses, some leave.
    Incremental { join: Vec<(usize, ServerSeat)>, leave: Vec<usize> },
    /// Replaces the config.
    Full { servers: BTreeMap<usize, ServerSeat>, groups: BTreeMap<usize, (i64, i64)> },
    /// A server joins without a client address.
    NoClientPort(usize),
    /// A server joins with two addresses; no server could start with that config.
    TwoAddresses(usize),
    /// A server joins whose only client port is for TLS.
    SecurePortOnly(usize),
    /// A server with a malformed id leaves.
    MalformedId,
}

impl ReconfigChange {
    pub(crate) fn encode(&self, version: i64, out: &mut Vec<u8>) {
        let mut request =
            ReconfigRequest { joining: None, leaving: None, new_members: None, current_config_id: version };
        match self {
            ReconfigChange::Incremental { join, leave } => {
                let join: Vec<String> = join
                    .iter()
                    .map(|(server, seat)| format!("server.{}={}", id_of(*server), seat.text(*server)))
                    .collect();
                let leave: Vec<String> = leave.iter().map(|server| id_of(*server).to_string()).collect();
                request.joining = (!join.is_empty()).then(|| join.join(",").into());
                request.leaving = (!leave.is_empty()).then(|| leave.join(",").into());
            }
            ReconfigChange::Full { servers: seats, groups } => {
                let list = EnsembleConfig { version: 0, servers: seats.clone(), groups: groups.clone() };
                request.new_members = Some(list.lines().join(",").into());
            }
            ReconfigChange::NoClientPort(server) => {
                request.joining = Some(format!("server.{}=s{server}:1:2", id_of(*server)).into());
            }
            ReconfigChange::TwoAddresses(server) => {
                let id = id_of(*server);
                let line = format!("server.{id}=s{server}:2888:3888|t{server}:2888:3888;0.0.0.0:2181");
                request.joining = Some(line.into());
            }
            ReconfigChange::SecurePortOnly(server) => {
                let line = format!("server.{}=s{server}:2888:3888;;0.0.0.0:2281", id_of(*server));
                request.joining = Some(line.into());
            }
            ReconfigChange::MalformedId => request.leaving = Some("first".into()),
        }
        request.encode(out);
    }

    /// Applies the change to a config.
    pub(crate) fn applied(
        &self,
        list: &EnsembleConfig,
        at: i64,
        voters_min: usize,
    ) -> Result<EnsembleConfig, ErrorCode> {
        let mut next = match self {
            ReconfigChange::Full { servers: seats, groups } => {
                EnsembleConfig { version: at, servers: seats.clone(), groups: groups.clone() }
            }
            // Groups change only in a full reconfig.
            _ if !list.groups.is_empty() => return Err(ErrorCode::BadArguments),
            ReconfigChange::NoClientPort(_)
            | ReconfigChange::TwoAddresses(_)
            | ReconfigChange::SecurePortOnly(_) => {
                return Err(ErrorCode::BadArguments);
            }
            ReconfigChange::MalformedId => return Err(ErrorCode::MarshallingError),
            ReconfigChange::Incremental { join, leave } => {
                let mut next = list.clone();
                next.servers.retain(|server, _| !leave.contains(server));
                next.servers.extend(join.iter().copied());
                next
            }
        };
        next.version = at;
        let grouped = |server: usize| next.groups.is_empty() || next.groups.contains_key(&server);
        let whole = next.voters().all(grouped);
        let weighs = next.groups.is_empty() || next.groups.values().any(|(_, weight)| *weight > 0);
        if next.voters().count() < voters_min.max(1) || !whole || !weighs {
            return Err(ErrorCode::BadArguments);
        }
        Ok(next)
    }

    /// Replaces a placeholder by a server.
    pub(crate) fn resolve(&mut self, stand_in: usize, server: usize) {
        let put = |it: &mut usize| {
            if *it == stand_in {
                *it = server;
            }
        };
        match self {
            ReconfigChange::Incremental { join, leave } => {
                join.iter_mut().for_each(|(it, _)| put(it));
                leave.iter_mut().for_each(put);
            }
            // Its servers are named.
            ReconfigChange::Full { .. } => {}
            ReconfigChange::NoClientPort(it)
            | ReconfigChange::TwoAddresses(it)
            | ReconfigChange::SecurePortOnly(it) => put(it),
            ReconfigChange::MalformedId => {}
        }
    }
}
