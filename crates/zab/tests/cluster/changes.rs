//! Config changes in the simulated ensemble: the configs that a server knows at start, and reconfigs at
//! random times.

use std::collections::BTreeMap;

use zebu_proto::txn::{SetDataTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::Role;
use zebu_zab::membership::{Groups, HostPort, PeerAddress, ServerSpec};
use zebu_zab::{Configuration, DynamicConfig, EncodedTxn, Peer};

use crate::world::{Counting, Plan, Random};

fn member(role: Role, quorum_port: u16) -> ServerSpec {
    let address = PeerAddress { host: "here".to_owned(), quorum_port, election_port: 1 };
    let client = Some(HostPort { host: "here".to_owned(), port: 2 });
    ServerSpec { addresses: vec![address], role, client, secure_client: None }
}

/// The config file of a new server.
pub(crate) fn first(members: impl IntoIterator<Item = ServerId>) -> Configuration {
    let members = members.into_iter().map(|id| (id, member(Role::Participant, 100))).collect();
    Configuration { version: 0, members, groups: None }
}

/// The configs that a server knows at start: the one in its file, and the last one in its log.
pub(crate) fn known(file: &Configuration, state: &[EncodedTxn]) -> DynamicConfig {
    DynamicConfig { committed: file.clone(), last_seen: state.iter().rev().find_map(read) }
}

pub(crate) fn read(entry: &EncodedTxn) -> Option<Configuration> {
    let TxnEntry { txn: Txn::Reconfig(set), .. } = TxnEntry::decode(&entry.bytes).ok()? else { return None };
    Some(Configuration::parse(std::str::from_utf8(&set.data?).unwrap()).unwrap())
}

/// A reconfig that this leader would accept now, as a transaction.
pub(crate) fn wish(peer: &Peer, plan: &Plan, random: &mut Random) -> Option<EncodedTxn> {
    let zxid = peer.next_zxid()?;
    if peer.pending_configuration().is_some() {
        return None;
    }
    let mut members: BTreeMap<ServerId, ServerSpec> = peer.configuration()?.members.clone();
    if random.below(5) == 0 {
        members.clear();
    }
    for _ in 0..1 + random.below(3) {
        let id = ServerId(1 + random.below(plan.places as u64) as i64);
        match random.below(6) {
            0 | 1 => drop(members.remove(&id)),
            2 => drop(members.insert(id, member(Role::Observer, 100))),
            3 => drop(members.insert(id, member(Role::Participant, 101))),
            _ => drop(members.insert(id, member(Role::Participant, 100))),
        }
    }
    let groups = match plan.counting {
        Counting::Any if random.below(3) > 0 => Some(groups(&members, random)),
        Counting::Any | Counting::Heads => None,
    };
    let next = Configuration { version: zxid.0, members, groups };
    let text = next.to_string();
    // The weights may leave no quorum.
    let next = Configuration::parse(&text).ok()?;
    assert_eq!(next.to_string(), text);
    if !next.has_voters() || !peer.has_quorum_of(&next) {
        return None;
    }
    let header = TxnHeader { session: SessionId(7), cxid: 1, zxid, time_ms: 1 };
    let data = Some(next.to_string().into_bytes().into());
    let txn = Txn::Reconfig(SetDataTxn { path: "/zookeeper/config".into(), data, version: -1 });
    let mut bytes = Vec::new();
    TxnEntry { header, txn, digest: None }.encode(&mut bytes);
    Some(EncodedTxn { zxid, bytes: bytes.into() })
}

/// Up to three groups; some voters have no weight.
fn groups(members: &BTreeMap<ServerId, ServerSpec>, random: &mut Random) -> Groups {
    let mut groups = Groups::default();
    for (&id, _) in members.iter().filter(|(_, member)| member.role == Role::Participant) {
        groups.group_of.insert(id, 1 + random.below(3) as i64);
        groups.weight_of.insert(id, [0, 1, 1, 1, 2, 5][random.below(6) as usize]);
    }
    groups
}

/// Whether an active config was committed, or is the initial one.
pub(crate) fn check(
    configuration: &Configuration,
    decided: &[EncodedTxn],
    logs: impl Iterator<Item = EncodedTxn>,
) {
    let zxid = Zxid(configuration.version);
    if zxid.counter() == 0 {
        return;
    }
    let entry = decided.iter().find(|entry| entry.zxid == zxid).cloned().or_else(|| {
        let mut logs = logs;
        logs.find(|entry| entry.zxid == zxid)
    });
    let entry = entry.expect("a list in effect is in a log");
    assert_eq!(read(&entry).as_ref(), Some(configuration), "a list in effect is the one that was proposed");
}
