//! Draws the next call of a client: few names, so that calls conflict; every operation; versions that are
//! often right and sometimes wrong.

use zebu_proto::client::{AddWatchMode, CreateMode, CreateOp, Freshness};
use zebu_proto::{Permissions, Zxid};

use super::{FeedStage, SimClient, SimFeed};
use crate::listing::ListingRead;
use crate::operation::{MultiReadOperation, NodePath, Operation, ReadOperation, SYNCED, WriteOperation};
use crate::random::SimRandom;
use crate::run_parameters::Workload;

/// The kinds of calls; a seed has a weight for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Create,
    CreateEphemeral,
    CreateSequential,
    CreateEphemeralSequential,
    CreateContainer,
    Delete,
    Set,
    SetAtVersion,
    SetAcl,
    Multi,
    Get,
    Exists,
    Children,
    ChildrenAndStat,
    Acl,
    DescendantCount,
    Ephemerals,
    Several,
    Sync,
    Watch,
    WatchBelow,
}

impl OperationKind {
    pub(crate) const ALL: [OperationKind; 21] = [
        OperationKind::Create,
        OperationKind::CreateEphemeral,
        OperationKind::CreateSequential,
        OperationKind::CreateEphemeralSequential,
        OperationKind::CreateContainer,
        OperationKind::Delete,
        OperationKind::Set,
        OperationKind::SetAtVersion,
        OperationKind::SetAcl,
        OperationKind::Multi,
        OperationKind::Get,
        OperationKind::Exists,
        OperationKind::Children,
        OperationKind::ChildrenAndStat,
        OperationKind::Acl,
        OperationKind::DescendantCount,
        OperationKind::Ephemerals,
        OperationKind::Several,
        OperationKind::Sync,
        OperationKind::Watch,
        OperationKind::WatchBelow,
    ];
}

impl SimClient {
    /// The next call, if it is one that ZooKeeper does not have.
    fn draw_private(&mut self, workload: &Workload, recent: Zxid) -> Option<Operation> {
        const GOES_ON_PERMILLE: u64 = 400;
        let random = &mut self.private_random;
        let goes_on = self.next_page.is_some() && random.permille(GOES_ON_PERMILLE);
        if !goes_on && !random.permille(workload.private_permille) {
            return None;
        }
        let next = if goes_on { self.next_page.take() } else { None };
        let mut drawer = OperationDrawer { random, workload, known: &self.known };
        let operation = match next {
            Some(listing) => Operation::plain_read(ReadOperation::Listing(listing), false),
            None => drawer.private(),
        };
        Some(match operation {
            // The freshness of Keeper's reads cannot be asked for.
            Operation::Read { read: ReadOperation::Listing(ListingRead::Keeper(_)), .. } => operation,
            Operation::Read { read, watch, .. } => {
                Operation::Read { read, watch, freshness: drawer.freshness(recent) }
            }
            operation => operation,
        })
    }

    /// Whether the client opens its feed now; it gets a feed if it has none.
    pub(crate) fn wants_feed(&mut self, workload: &Workload) -> bool {
        const AGAIN_PERMILLE: u64 = 300;
        let random = &mut self.private_random;
        match &self.feed {
            Some(feed) => feed.stage == FeedStage::Closed && random.permille(AGAIN_PERMILLE),
            None if random.permille(workload.private_permille / 4) => {
                let open = OperationDrawer { random, workload, known: &self.known }.feed();
                self.feed = Some(SimFeed::new(open));
                true
            }
            None => false,
        }
    }

    /// The next call.
    pub(crate) fn draw(&mut self, workload: &Workload, recent: Zxid) -> Operation {
        if let Some(operation) = self.draw_private(workload, recent) {
            return operation;
        }
        let kind = OperationKind::ALL[self.random.weighted(&workload.weights)];
        let mut drawer = OperationDrawer { random: &mut self.random, workload, known: &self.known };
        match drawer.operation(kind) {
            Operation::Read { read, watch, .. } => {
                Operation::Read { read, watch, freshness: drawer.freshness(recent) }
            }
            operation => operation,
        }
    }

    /// Remembers a name that a server has assigned.
    pub(crate) fn learn(&mut self, path: &str) {
        const KNOWN_MAX: usize = 8;
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(path.into());
    }
}

pub(crate) struct OperationDrawer<'a> {
    pub(crate) random: &'a mut SimRandom,
    pub(crate) workload: &'a Workload,
    pub(crate) known: &'a [NodePath],
}

impl OperationDrawer<'_> {
    pub(crate) fn operation(&mut self, kind: OperationKind) -> Operation {
        match kind {
            OperationKind::Create
            | OperationKind::CreateEphemeral
            | OperationKind::CreateSequential
            | OperationKind::CreateEphemeralSequential
            | OperationKind::CreateContainer
            | OperationKind::Delete
            | OperationKind::Set
            | OperationKind::SetAtVersion
            | OperationKind::SetAcl => Operation::Write(self.write(kind)),
            OperationKind::Multi => self.multi(),
            OperationKind::Get => self.read(ReadOperation::Get),
            OperationKind::Exists => self.read(ReadOperation::Exists),
            OperationKind::Children => self.read(ReadOperation::Children),
            OperationKind::ChildrenAndStat => self.read(ReadOperation::ChildrenAndStat),
            OperationKind::Acl => self.read(ReadOperation::Acl),
            OperationKind::DescendantCount => self.read(ReadOperation::DescendantCount),
            OperationKind::Ephemerals => {
                Operation::plain_read(ReadOperation::Ephemerals(NodePath::from("/")), false)
            }
            OperationKind::Several => self.several(),
            OperationKind::Sync => Operation::Sync(NodePath::from(SYNCED)),
            OperationKind::Watch => Operation::AddWatch { path: self.path(), mode: AddWatchMode::Persistent },
            OperationKind::WatchBelow => {
                Operation::AddWatch { path: self.path(), mode: AddWatchMode::PersistentRecursive }
            }
        }
    }

    /// How fresh the answer to a read must be. A least zxid is a recent one, or one that may never come.
    pub(super) fn freshness(&mut self, recent: Zxid) -> Freshness {
        if !self.random.permille(self.workload.fresh_permille) {
            return Freshness::default();
        }
        let linearizable = self.random.permille(700);
        let max_age_ms = self.random.permille(200).then(|| self.random.skewed(1, 5_000) as i32);
        let min_zxid = self.random.permille(200).then(|| match self.random.permille(900) {
            true => recent,
            false => Zxid(recent.0 + self.random.between(1, 5) as i64),
        });
        Freshness { linearizable, max_age_ms, min_zxid }
    }

    pub(super) fn write(&mut self, kind: OperationKind) -> WriteOperation {
        let path = self.path();
        match kind {
            OperationKind::Delete => {
                let version = if self.random.permille(800) { -1 } else { self.version() };
                WriteOperation::Delete { path, version }
            }
            OperationKind::Set => WriteOperation::Set { path, data: self.data(), version: -1 },
            OperationKind::SetAtVersion => {
                WriteOperation::Set { path, data: self.data(), version: self.version() }
            }
            OperationKind::SetAcl => {
                let version = if self.random.permille(800) { -1 } else { self.version() };
                WriteOperation::SetAcl { path, permissions: self.permissions(), version }
            }
            OperationKind::CreateEphemeral => self.create(path, CreateMode::Ephemeral),
            OperationKind::CreateSequential => self.create(path, CreateMode::PersistentSequential),
            OperationKind::CreateEphemeralSequential => self.create(path, CreateMode::EphemeralSequential),
            OperationKind::CreateContainer => self.create(path, CreateMode::Container),
            _ => self.create(path, CreateMode::Persistent),
        }
    }

    fn create(&mut self, path: NodePath, mode: CreateMode) -> WriteOperation {
        let op = match mode {
            CreateMode::Container => CreateOp::Container,
            _ if self.random.permille(500) => CreateOp::Create2,
            _ => CreateOp::Create,
        };
        let open = self.random.permille(950);
        let permissions = if open { Permissions::ALL } else { self.permissions() };
        WriteOperation::Create { path, data: self.data(), mode, op, permissions }
    }

    fn multi(&mut self) -> Operation {
        let kinds = [
            OperationKind::Create,
            OperationKind::CreateEphemeral,
            OperationKind::CreateSequential,
            OperationKind::Delete,
            OperationKind::Set,
        ];
        let count = self.random.between(1, 4);
        let mut writes = Vec::new();
        for _ in 0..count {
            let kind = self.random.pick(&kinds);
            let write = if self.random.permille(200) {
                let version = if self.random.permille(500) { -1 } else { self.version() };
                WriteOperation::Check { path: self.path(), version }
            } else {
                self.write(kind)
            };
            writes.push(write);
        }
        Operation::Multi(writes)
    }

    fn read(&mut self, read: impl FnOnce(NodePath) -> ReadOperation) -> Operation {
        let read = read(self.path());
        let watchable = matches!(
            read,
            ReadOperation::Get(_)
                | ReadOperation::Exists(_)
                | ReadOperation::Children(_)
                | ReadOperation::ChildrenAndStat(_)
        );
        let watch = watchable && self.random.permille(self.workload.watch_permille);
        Operation::plain_read(read, watch)
    }

    fn several(&mut self) -> Operation {
        let mut reads = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let path = self.path();
            let is_get = self.random.permille(500);
            reads.push(if is_get {
                MultiReadOperation::Get(path)
            } else {
                MultiReadOperation::Children(path)
            });
        }
        Operation::plain_read(ReadOperation::Several(reads), false)
    }

    pub(super) fn path(&mut self) -> NodePath {
        if !self.known.is_empty() && self.random.permille(150) {
            return self.known[self.random.index(self.known.len())].clone();
        }
        let names = self.workload.names;
        let mut path = format!("/n{}", self.random.below(names));
        if self.random.permille(600) {
            path.push_str(&format!("/m{}", self.random.below(3)));
            if self.random.permille(250) {
                path.push_str(&format!("/o{}", self.random.below(2)));
            }
        }
        path.into()
    }

    pub(super) fn version(&mut self) -> i32 {
        self.random.skewed(1, 8) as i32 - 1
    }

    /// ADMIN is always granted: otherwise the names would soon be used up.
    pub(super) fn permissions(&mut self) -> i32 {
        self.random.pick(&[
            Permissions::ALL,
            Permissions::READ | Permissions::ADMIN,
            Permissions::READ | Permissions::WRITE | Permissions::ADMIN,
            Permissions::READ | Permissions::CREATE | Permissions::ADMIN,
            Permissions::ALL & !Permissions::READ,
        ])
    }

    pub(super) fn data(&mut self) -> std::sync::Arc<[u8]> {
        let length = self.random.below(self.workload.data_max);
        let first = self.random.draw() as u8;
        (0..length).map(|index| first.wrapping_add(index as u8)).collect()
    }
}
