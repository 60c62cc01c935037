//! A committed transaction as feeds show it: its changes, from the transaction alone. The end of a session
//! without a list of its nodes is the exception; the tree before it names them.

use zebu_proto::client::{ChangeKind, CreatedOwner, FeedChange};
use zebu_proto::txn::{Txn, TxnEntry};
use zebu_proto::{Buffer, Zxid};
use zebu_tree::Tree;

/// Bytes of a change in memory besides its path and data.
const CHANGE_BYTES: usize = 64;

/// A transaction for feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedTxn {
    /// Its zxid.
    pub zxid: Zxid,
    pub(super) time_ms: i64,
    pub(super) session: i64,
    /// `None` for the end of a session whose nodes nothing names.
    pub(super) changes: Option<Box<[FeedChange]>>,
}

impl FeedTxn {
    /// A transaction of the log.
    pub fn of(entry: &TxnEntry) -> FeedTxn {
        let changes = match &entry.txn {
            Txn::CloseSession(None) => None,
            Txn::CloseSession(Some(paths)) => Some(session_ended(paths)),
            txn => Some(changes_of(txn).into()),
        };
        let header = &entry.header;
        FeedTxn { zxid: header.zxid, time_ms: header.time_ms, session: header.session.0, changes }
    }

    /// A transaction that is about to be applied to this tree.
    pub(crate) fn before_apply(entry: &TxnEntry, tree: &Tree) -> FeedTxn {
        let mut txn = FeedTxn::of(entry);
        if txn.changes.is_none() {
            txn.changes = Some(session_ended(&tree.ephemerals_of(entry.header.session)));
        }
        txn
    }

    /// Its bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let change = |change: &FeedChange| {
            CHANGE_BYTES + change.path.len() + change.data.as_ref().map_or(0, |data| data.len())
        };
        CHANGE_BYTES + self.changes.iter().flatten().map(change).sum::<usize>()
    }
}

fn session_ended(paths: &[Box<str>]) -> Box<[FeedChange]> {
    paths.iter().map(|path| deleted(path)).chain([of_session(ChangeKind::SessionEnded)]).collect()
}

fn changes_of(txn: &Txn) -> Vec<FeedChange> {
    match txn {
        Txn::Multi(parts) if parts.iter().any(|part| matches!(part.0, Txn::Error(_))) => Vec::new(),
        Txn::Multi(parts) => parts.iter().flat_map(|part| changes_of(&part.0)).collect(),
        Txn::Create(create) | Txn::Create2(create) => {
            let owner = if create.ephemeral { CreatedOwner::Ephemeral } else { CreatedOwner::Plain };
            vec![created(&create.path, &create.data, owner)]
        }
        Txn::CreateContainer(create) => vec![created(&create.path, &create.data, CreatedOwner::Container)],
        Txn::CreateTtl(create) => vec![created(&create.path, &create.data, CreatedOwner::Ttl)],
        Txn::Delete(path) | Txn::DeleteContainer(path) => vec![deleted(path)],
        Txn::SetData(set) | Txn::Reconfig(set) => {
            let (path, data) = (set.path.clone(), set.data.clone());
            vec![change(ChangeKind::DataChanged, path, set.version, data)]
        }
        Txn::SetAcl(set) => vec![change(ChangeKind::AclChanged, set.path.clone(), set.version, None)],
        Txn::CreateSession { .. } => vec![of_session(ChangeKind::SessionOpened)],
        // A session ends at the top level only, where its nodes are known.
        Txn::Error(_) | Txn::Check(_) | Txn::CloseSession(_) => Vec::new(),
    }
}

fn change(kind: ChangeKind, path: Box<str>, version: i32, data: Buffer) -> FeedChange {
    FeedChange { kind, path, version, data, owner: CreatedOwner::Plain }
}

fn created(path: &str, data: &Buffer, owner: CreatedOwner) -> FeedChange {
    FeedChange { owner, ..change(ChangeKind::Created, path.into(), 0, data.clone()) }
}

fn deleted(path: &str) -> FeedChange {
    change(ChangeKind::Deleted, path.into(), -1, None)
}

fn of_session(kind: ChangeKind) -> FeedChange {
    change(kind, "".into(), 0, None)
}

#[cfg(test)]
mod tests {
    use zebu_proto::txn::{CheckTxn, CreateTxn, SetAclTxn, SetDataTxn, SubTxn, TxnHeader};
    use zebu_proto::{Acl, SessionId};
    use zebu_tree::TreeOptions;

    use super::*;

    fn entry(txn: Txn) -> TxnEntry {
        let header = TxnHeader { session: SessionId(7), cxid: 0, zxid: Zxid(5), time_ms: 6 };
        TxnEntry { header, txn, digest: None }
    }

    fn create(path: &str, ephemeral: bool) -> CreateTxn {
        let (data, acl) = (Some([1].into()), Some(Acl::open().into()));
        CreateTxn { path: path.into(), data, acl, ephemeral, parent_cversion: -1 }
    }

    fn kinds(txn: Txn) -> Vec<(ChangeKind, String, i32)> {
        let txn = FeedTxn::of(&entry(txn));
        let changes = txn.changes.expect("they are named");
        changes.iter().map(|change| (change.kind, change.path.to_string(), change.version)).collect()
    }

    #[test]
    fn a_multi_is_one_record_or_nothing() {
        let set = SetDataTxn { path: "/b".into(), data: None, version: 4 };
        let acl = SetAclTxn { path: "/c".into(), acl: None, version: 2 };
        let check = CheckTxn { path: "/d".into(), version: 1 };
        let parts = vec![
            SubTxn(Txn::Create(create("/a", false))),
            SubTxn(Txn::Check(check)),
            SubTxn(Txn::SetData(set)),
            SubTxn(Txn::SetAcl(acl)),
            SubTxn(Txn::Delete("/e".into())),
        ];
        let expected = vec![
            (ChangeKind::Created, "/a".to_owned(), 0),
            (ChangeKind::DataChanged, "/b".to_owned(), 4),
            (ChangeKind::AclChanged, "/c".to_owned(), 2),
            (ChangeKind::Deleted, "/e".to_owned(), -1),
        ];
        assert_eq!(kinds(Txn::Multi(parts.clone())), expected);
        let failed = parts.into_iter().chain([SubTxn(Txn::Error(-101))]).collect();
        assert_eq!(kinds(Txn::Multi(failed)), vec![]);
        assert_eq!(kinds(Txn::Error(-101)), vec![]);
    }

    #[test]
    fn the_end_of_a_session_names_its_nodes() {
        let ended = (ChangeKind::SessionEnded, String::new(), 0);
        let listed = Txn::CloseSession(Some(vec!["/e".into()]));
        assert_eq!(kinds(listed), vec![(ChangeKind::Deleted, "/e".to_owned(), -1), ended.clone()]);
        assert_eq!(kinds(Txn::CloseSession(Some(vec![]))), vec![ended]);
        let unlisted = entry(Txn::CloseSession(None));
        assert_eq!(FeedTxn::of(&unlisted).changes, None);
        let mut tree = Tree::new(TreeOptions::default());
        let header = TxnHeader { zxid: Zxid(1), ..unlisted.header };
        tree.apply(&header, &Txn::CreateSession { timeout_ms: 1000 }, &mut |_| ());
        let header = TxnHeader { zxid: Zxid(2), ..unlisted.header };
        tree.apply(&header, &Txn::Create(create("/e", true)), &mut |_| ());
        let named = FeedTxn::before_apply(&unlisted, &tree);
        let paths: Vec<_> = named.changes.iter().flatten().map(|change| &*change.path).collect();
        assert_eq!(paths, ["/e", ""]);
    }
}
