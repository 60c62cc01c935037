//! A target that records what recovery gives it, and refuses nodes that no tree can hold.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_storage::RecoveryTarget;
use zebu_storage::format::snapshot::SnapshotVisitor;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub path: String,
    pub data: Option<Vec<u8>>,
    pub acl: i64,
    pub stat: StatPersisted,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    pub sessions: Vec<(SessionId, i32)>,
    pub acls: Vec<(i64, Vec<Acl>)>,
    pub nodes: Vec<Node>,
    pub snapshot: Option<Zxid>,
    pub entries: Vec<TxnEntry>,
    paths: BTreeSet<String>,
}

impl Recorded {
    pub fn acl_map(&self) -> BTreeMap<i64, &[Acl]> {
        self.acls.iter().map(|(id, acl)| (*id, &acl[..])).collect()
    }
}

impl SnapshotVisitor for Recorded {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.push((id, timeout_ms));
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.push((id, acl));
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        if let Some((parent, _)) = path.rsplit_once('/')
            && !self.paths.contains(parent)
        {
            return Err("its parent is missing".into());
        }
        let owner = stat.ephemeral_owner as u64;
        if owner >> 56 == 0xff && (owner >> 40) & 0xffff != 0 {
            return Err(format!("its owner {owner:#x} has a feature that is not known"));
        }
        self.paths.insert(path.to_owned());
        let data = data.map(<[u8]>::to_vec);
        self.nodes.push(Node { path: path.to_owned(), data, acl, stat: *stat });
        Ok(())
    }
}

impl RecoveryTarget for Recorded {
    fn reset(&mut self) {
        *self = Recorded::default();
    }

    fn snapshot_loaded(&mut self, zxid: Zxid) {
        self.snapshot = Some(zxid);
    }

    fn apply(&mut self, entry: &TxnEntry) {
        self.entries.push(entry.clone());
    }

    fn digest(&self) -> Option<i64> {
        None
    }
}
