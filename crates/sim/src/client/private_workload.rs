//! Draws the calls that ZooKeeper does not have: the writes of ClickHouse Keeper, alone and in multis,
//! deletes of subtrees, and lists.

use zebu_proto::client::read::Watch;
use zebu_proto::client::{
    CheckRequest, CheckStatRequest, ChildKind, CreateMode, CreateOp, CreateRequest, DeleteRequest,
    DeleteTreeRequest, FilteredListRequest, KeeperCheck, KeeperPart, KeeperRead, KeeperWrite,
    ListRecursiveRequest, ListedContent, NextPage, PageRequest, PaginatedRequest, RemoveRecursiveRequest,
    ScanRequest,
};
use zebu_proto::{Permissions, Stat};

use super::workload::{OperationDrawer, OperationKind};
use crate::listing::ListingRead;
use crate::operation::{Operation, ReadOperation, WriteOperation, acl};

/// A stat whose fields may have any values.
const ANY_STAT: Stat = Stat {
    czxid: -1,
    mzxid: -1,
    ctime: -1,
    mtime: -1,
    version: -1,
    cversion: -1,
    aversion: -1,
    ephemeral_owner: -1,
    data_length: -1,
    num_children: -1,
    pzxid: -1,
};

impl OperationDrawer<'_> {
    /// The next call.
    pub(super) fn private(&mut self) -> Operation {
        match self.random.weighted(&[4, 2, 3, 7]) {
            0 => {
                let write = self.keeper_write();
                Operation::Write(WriteOperation::Keeper(Box::new(KeeperPart::Write(write))))
            }
            1 => self.delete_tree(),
            2 => self.keeper_multi(),
            _ => Operation::plain_read(ReadOperation::Listing(self.listing()), false),
        }
    }

    fn keeper_write(&mut self) -> KeeperWrite {
        match self.random.weighted(&[5, 3, 4]) {
            0 => KeeperWrite::CreateIfNotExists(self.create_if_not_exists()),
            1 => KeeperWrite::RemoveRecursive(self.remove_recursive()),
            _ => {
                let version = if self.random.permille(600) { -1 } else { self.version() };
                KeeperWrite::TryRemove(DeleteRequest { path: self.text(), version })
            }
        }
    }

    fn create_if_not_exists(&mut self) -> CreateRequest {
        const PLAIN: i32 = CreateMode::Persistent.flags();
        const EPHEMERAL: i32 = CreateMode::Ephemeral.flags();
        const WRONG: i32 = CreateMode::PersistentSequential.flags();
        let permissions = if self.random.permille(950) { Permissions::ALL } else { self.permissions() };
        CreateRequest {
            op: CreateOp::Create,
            path: self.text(),
            data: Some(self.data()),
            acl: Some(acl(permissions).into()),
            flags: self.random.pick(&[PLAIN, PLAIN, PLAIN, PLAIN, PLAIN, EPHEMERAL, EPHEMERAL, WRONG]),
            ttl_ms: -1,
        }
    }

    fn remove_recursive(&mut self) -> RemoveRecursiveRequest {
        let limit = self.random.pick(&[0, 1, 2, 4, 10, 1000, u32::MAX]);
        let path = if self.random.permille(20) { Some("/".into()) } else { self.text() };
        RemoveRecursiveRequest { path, limit }
    }

    fn delete_tree(&mut self) -> Operation {
        Operation::DeleteTree(DeleteTreeRequest {
            root: if self.random.permille(20) { "/".into() } else { Box::from(&*self.path()) },
            max: self.random.pick(&[1, 2, 3, 10, 1000]),
            keep_root: self.random.permille(300),
            leave_ephemerals: self.random.permille(300),
        })
    }

    /// Parts of Keeper among those of ZooKeeper.
    fn keeper_multi(&mut self) -> Operation {
        let kinds = [
            OperationKind::Create,
            OperationKind::CreateEphemeral,
            OperationKind::CreateSequential,
            OperationKind::Delete,
            OperationKind::Set,
        ];
        let mut writes = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let part = match self.random.weighted(&[4, 2, 2, 3]) {
                0 => KeeperPart::Write(self.keeper_write()),
                1 => KeeperPart::Check(self.check_not_exists()),
                2 => KeeperPart::Check(self.check_stat()),
                _ => {
                    let kind = self.random.pick(&kinds);
                    writes.push(self.write(kind));
                    continue;
                }
            };
            writes.push(WriteOperation::Keeper(Box::new(part)));
        }
        Operation::Multi(writes)
    }

    fn check_not_exists(&mut self) -> KeeperCheck {
        let version = if self.random.permille(500) { -1 } else { self.version() };
        KeeperCheck::NotExists(CheckRequest { path: self.text(), version })
    }

    fn check_stat(&mut self) -> KeeperCheck {
        let value = self.random.skewed(1, 4) as i32 - 1;
        let stat = match self.random.below(6) {
            0 => Stat { version: value, ..ANY_STAT },
            1 => Stat { cversion: value, ..ANY_STAT },
            2 => Stat { aversion: value, ..ANY_STAT },
            3 => Stat { ephemeral_owner: 0, ..ANY_STAT },
            4 => Stat { num_children: value, ..ANY_STAT },
            _ => ANY_STAT,
        };
        let version = if self.random.permille(800) { -1 } else { self.version() };
        KeeperCheck::Stat(Box::new(CheckStatRequest { path: self.text(), version, stat }))
    }

    /// A list, or the first page of one.
    fn listing(&mut self) -> ListingRead {
        let parent: Box<str> = if self.random.permille(250) { "/".into() } else { Box::from(&*self.path()) };
        let (stats, data) = (self.random.permille(400), self.random.permille(400));
        let max = self.random.pick(&[1, 1, 2, 3, 100]);
        let kind =
            self.random.pick(&[ChildKind::All, ChildKind::All, ChildKind::Persistent, ChildKind::Ephemeral]);
        match self.random.weighted(&[5, 3, 5, 3, 1, 1]) {
            0 => ListingRead::Page(PageRequest { stats, data, kind, ..PageRequest::new(&parent, max) }),
            1 => ListingRead::ByCreation(PaginatedRequest {
                path: parent,
                max: if max == 100 { i32::MAX } else { max },
                from: NextPage::FIRST,
                watch: Watch::None,
            }),
            2 => {
                let bytes = self.random.pick(&[1, 30, 200, 100_000]);
                let depth = self.random.pick(&[-1, -1, 0, 1, 2]);
                // The first config is in no history.
                let shown = &*parent != "/";
                let (stats, data) = (stats && shown, data && shown);
                ListingRead::Scan(ScanRequest { depth, stats, data, ..ScanRequest::new(&parent, bytes) })
            }
            3 => {
                let content = self.random.permille(600).then_some(ListedContent { stats, data });
                let list = FilteredListRequest { path: parent, watch: Watch::None, kind, content };
                ListingRead::Keeper(KeeperRead::List(list))
            }
            4 => {
                let limit = self.random.pick(&[0, 1, 3, 1000, u32::MAX]);
                ListingRead::Keeper(KeeperRead::ListRecursive(ListRecursiveRequest { root: parent, limit }))
            }
            _ if self.random.permille(500) => ListingRead::Keeper(KeeperRead::Check(self.check_stat())),
            _ => ListingRead::Keeper(KeeperRead::Check(self.check_not_exists())),
        }
    }

    fn text(&mut self) -> Option<Box<str>> {
        Some(Box::from(&*self.path()))
    }
}
