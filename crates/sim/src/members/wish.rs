//! What an operator asks for, and what has to come of it.

use std::collections::BTreeMap;

use zebu_proto::client::ReconfigRequest;
use zebu_proto::{ErrorCode, Jute};

use super::{List, Seat, id_of};

/// Which version the members must have for the change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Any,
    /// The one that the client has heard of last.
    Known,
    /// One that is not there.
    Wrong,
}

/// A change of the members.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    /// Some join or get another seat, some leave.
    Some { join: Vec<(usize, Seat)>, leave: Vec<usize> },
    /// These and nobody else.
    All { seats: BTreeMap<usize, Seat>, groups: BTreeMap<usize, (i64, i64)> },
    /// Somebody joins who does not say where its clients come.
    NoClientPort(usize),
    /// A server joins with two addresses, which no server could start with.
    TwoAddresses(usize),
    /// A server joins whose only client port is one for TLS.
    OnlyTls(usize),
    /// Somebody leaves whose number is none.
    NoNumber,
}

impl Wish {
    pub(crate) fn encode(&self, version: i64, out: &mut Vec<u8>) {
        let mut request =
            ReconfigRequest { joining: None, leaving: None, new_members: None, current_config_id: version };
        match self {
            Wish::Some { join, leave } => {
                let join: Vec<String> = join
                    .iter()
                    .map(|(server, seat)| format!("server.{}={}", id_of(*server), seat.text(*server)))
                    .collect();
                let leave: Vec<String> = leave.iter().map(|server| id_of(*server).to_string()).collect();
                request.joining = (!join.is_empty()).then(|| join.join(",").into());
                request.leaving = (!leave.is_empty()).then(|| leave.join(",").into());
            }
            Wish::All { seats, groups } => {
                let list = List { version: 0, seats: seats.clone(), groups: groups.clone() };
                request.new_members = Some(list.lines().join(",").into());
            }
            Wish::NoClientPort(server) => {
                request.joining = Some(format!("server.{}=s{server}:1:2", id_of(*server)).into());
            }
            Wish::TwoAddresses(server) => {
                let id = id_of(*server);
                let line = format!("server.{id}=s{server}:2888:3888|t{server}:2888:3888;0.0.0.0:2181");
                request.joining = Some(line.into());
            }
            Wish::OnlyTls(server) => {
                let line = format!("server.{}=s{server}:2888:3888;;0.0.0.0:2281", id_of(*server));
                request.joining = Some(line.into());
            }
            Wish::NoNumber => request.leaving = Some("first".into()),
        }
        request.encode(out);
    }

    /// What it makes of a list.
    pub(crate) fn applied(&self, list: &List, at: i64, voters_min: usize) -> Result<List, ErrorCode> {
        let mut next = match self {
            Wish::All { seats, groups } => List { version: at, seats: seats.clone(), groups: groups.clone() },
            // Who is in groups is changed with all the others.
            _ if !list.groups.is_empty() => return Err(ErrorCode::BadArguments),
            Wish::NoClientPort(_) | Wish::TwoAddresses(_) | Wish::OnlyTls(_) => {
                return Err(ErrorCode::BadArguments);
            }
            Wish::NoNumber => return Err(ErrorCode::MarshallingError),
            Wish::Some { join, leave } => {
                let mut next = list.clone();
                next.seats.retain(|server, _| !leave.contains(server));
                next.seats.extend(join.iter().copied());
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

    /// Puts a server in the place of a stand-in.
    pub(crate) fn resolve(&mut self, stand_in: usize, server: usize) {
        let put = |it: &mut usize| {
            if *it == stand_in {
                *it = server;
            }
        };
        match self {
            Wish::Some { join, leave } => {
                join.iter_mut().for_each(|(it, _)| put(it));
                leave.iter_mut().for_each(put);
            }
            // These are named.
            Wish::All { .. } => {}
            Wish::NoClientPort(it) | Wish::TwoAddresses(it) | Wish::OnlyTls(it) => put(it),
            Wish::NoNumber => {}
        }
    }
}
