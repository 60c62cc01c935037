//! Members of the world that change: what a server knows when it starts, and the wishes of an operator who does
//! not care what else is going on.

use std::collections::BTreeMap;

use zebu_proto::txn::{SetDataTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::membership::{Groups, HostPort, Member, MemberRole, PeerAddress};
use zebu_zab::{Configuration, Dynamic, Entry, Peer};

use crate::world::{Counting, Plan, Random};

fn member(role: MemberRole, quorum_port: u16) -> Member {
    let address = PeerAddress { host: "here".to_owned(), quorum_port, election_port: 1 };
    let client = Some(HostPort { host: "here".to_owned(), port: 2 });
    Member { addresses: vec![address], role, client, secure_client: None }
}

/// The list in the file of a new server.
pub(crate) fn first(members: impl IntoIterator<Item = ServerId>) -> Configuration {
    let members = members.into_iter().map(|id| (id, member(MemberRole::Participant, 100))).collect();
    Configuration { version: 0, members, groups: None }
}

/// What a start knows: the list of the file, and the last one in the log.
pub(crate) fn known(file: &Configuration, state: &[Entry]) -> Dynamic {
    Dynamic { committed: file.clone(), last_seen: state.iter().rev().find_map(read) }
}

pub(crate) fn read(entry: &Entry) -> Option<Configuration> {
    let TxnEntry { txn: Txn::Reconfig(set), .. } = TxnEntry::decode(&entry.bytes).ok()? else { return None };
    Some(Configuration::parse(std::str::from_utf8(&set.data?).unwrap()).unwrap())
}

/// A change that this leader would accept now, as a transaction.
pub(crate) fn wish(peer: &Peer, plan: &Plan, random: &mut Random) -> Option<Entry> {
    let zxid = peer.next_zxid()?;
    if peer.pending_configuration().is_some() {
        return None;
    }
    let mut members: BTreeMap<ServerId, Member> = peer.configuration()?.members.clone();
    if random.below(5) == 0 {
        members.clear();
    }
    for _ in 0..1 + random.below(3) {
        let id = ServerId(1 + random.below(plan.places as u64) as i64);
        match random.below(6) {
            0 | 1 => drop(members.remove(&id)),
            2 => drop(members.insert(id, member(MemberRole::Observer, 100))),
            3 => drop(members.insert(id, member(MemberRole::Participant, 101))),
            _ => drop(members.insert(id, member(MemberRole::Participant, 100))),
        }
    }
    let groups = match plan.counting {
        Counting::Any if random.below(3) > 0 => Some(groups(&members, random)),
        Counting::Any | Counting::Heads => None,
    };
    let next = Configuration { version: zxid.0, members, groups };
    let text = next.to_string();
    // Weights may be such that nobody could ever decide.
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
    Some(Entry { zxid, bytes: bytes.into() })
}

/// Up to three groups; some voters have no weight.
fn groups(members: &BTreeMap<ServerId, Member>, random: &mut Random) -> Groups {
    let mut groups = Groups::default();
    for (&id, _) in members.iter().filter(|(_, member)| member.role == MemberRole::Participant) {
        groups.group_of.insert(id, 1 + random.below(3) as i64);
        groups.weight_of.insert(id, [0, 1, 1, 1, 2, 5][random.below(6) as usize]);
    }
    groups
}

/// Whether a list in effect is one that was decided, or the first of all.
pub(crate) fn check(configuration: &Configuration, decided: &[Entry], logs: impl Iterator<Item = Entry>) {
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
