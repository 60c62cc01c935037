//! What a client asks for next. Few names, so that calls meet; every operation; versions that are often
//! right and sometimes not.

use zebu_proto::Permissions;
use zebu_proto::client::{AddWatchMode, CreateMode, CreateOp};

use super::Client;
use crate::operation::{Operation, Path, Read, SYNCED, SeveralRead, Write};
use crate::random::Random;
use crate::shape::Workload;

/// The kinds of calls; a seed has a weight for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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

impl Kind {
    pub(crate) const ALL: [Kind; 21] = [
        Kind::Create,
        Kind::CreateEphemeral,
        Kind::CreateSequential,
        Kind::CreateEphemeralSequential,
        Kind::CreateContainer,
        Kind::Delete,
        Kind::Set,
        Kind::SetAtVersion,
        Kind::SetAcl,
        Kind::Multi,
        Kind::Get,
        Kind::Exists,
        Kind::Children,
        Kind::ChildrenAndStat,
        Kind::Acl,
        Kind::DescendantCount,
        Kind::Ephemerals,
        Kind::Several,
        Kind::Sync,
        Kind::Watch,
        Kind::WatchBelow,
    ];
}

impl Client {
    /// The next call.
    pub(crate) fn draw(&mut self, workload: &Workload) -> Operation {
        let kind = Kind::ALL[self.random.weighted(&workload.weights)];
        let mut drawer = Drawer { random: &mut self.random, workload, known: &self.known };
        drawer.operation(kind)
    }

    /// Remembers a name that a server has made.
    pub(crate) fn learn(&mut self, path: &str) {
        const KNOWN_MAX: usize = 8;
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(path.into());
    }
}

pub(crate) struct Drawer<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) workload: &'a Workload,
    pub(crate) known: &'a [Path],
}

impl Drawer<'_> {
    pub(crate) fn operation(&mut self, kind: Kind) -> Operation {
        match kind {
            Kind::Create
            | Kind::CreateEphemeral
            | Kind::CreateSequential
            | Kind::CreateEphemeralSequential
            | Kind::CreateContainer
            | Kind::Delete
            | Kind::Set
            | Kind::SetAtVersion
            | Kind::SetAcl => Operation::Write(self.write(kind)),
            Kind::Multi => self.multi(),
            Kind::Get => self.read(Read::Get),
            Kind::Exists => self.read(Read::Exists),
            Kind::Children => self.read(Read::Children),
            Kind::ChildrenAndStat => self.read(Read::ChildrenAndStat),
            Kind::Acl => self.read(Read::Acl),
            Kind::DescendantCount => self.read(Read::DescendantCount),
            Kind::Ephemerals => Operation::Read { read: Read::Ephemerals(Path::from("/")), watch: false },
            Kind::Several => self.several(),
            Kind::Sync => Operation::Sync(Path::from(SYNCED)),
            Kind::Watch => Operation::AddWatch { path: self.path(), mode: AddWatchMode::Persistent },
            Kind::WatchBelow => {
                Operation::AddWatch { path: self.path(), mode: AddWatchMode::PersistentRecursive }
            }
        }
    }

    fn write(&mut self, kind: Kind) -> Write {
        let path = self.path();
        match kind {
            Kind::Delete => {
                let version = if self.random.permille(800) { -1 } else { self.version() };
                Write::Delete { path, version }
            }
            Kind::Set => Write::Set { path, data: self.data(), version: -1 },
            Kind::SetAtVersion => Write::Set { path, data: self.data(), version: self.version() },
            Kind::SetAcl => {
                let version = if self.random.permille(800) { -1 } else { self.version() };
                Write::SetAcl { path, permissions: self.permissions(), version }
            }
            Kind::CreateEphemeral => self.create(path, CreateMode::Ephemeral),
            Kind::CreateSequential => self.create(path, CreateMode::PersistentSequential),
            Kind::CreateEphemeralSequential => self.create(path, CreateMode::EphemeralSequential),
            Kind::CreateContainer => self.create(path, CreateMode::Container),
            _ => self.create(path, CreateMode::Persistent),
        }
    }

    fn create(&mut self, path: Path, mode: CreateMode) -> Write {
        let op = match mode {
            CreateMode::Container => CreateOp::Container,
            _ if self.random.permille(500) => CreateOp::Create2,
            _ => CreateOp::Create,
        };
        let open = self.random.permille(950);
        let permissions = if open { Permissions::ALL } else { self.permissions() };
        Write::Create { path, data: self.data(), mode, op, permissions }
    }

    fn multi(&mut self) -> Operation {
        let kinds = [Kind::Create, Kind::CreateEphemeral, Kind::CreateSequential, Kind::Delete, Kind::Set];
        let count = self.random.between(1, 4);
        let mut writes = Vec::new();
        for _ in 0..count {
            let kind = self.random.pick(&kinds);
            let write = if self.random.permille(200) {
                let version = if self.random.permille(500) { -1 } else { self.version() };
                Write::Check { path: self.path(), version }
            } else {
                self.write(kind)
            };
            writes.push(write);
        }
        Operation::Multi(writes)
    }

    fn read(&mut self, read: impl FnOnce(Path) -> Read) -> Operation {
        let read = read(self.path());
        let watchable =
            matches!(read, Read::Get(_) | Read::Exists(_) | Read::Children(_) | Read::ChildrenAndStat(_));
        let watch = watchable && self.random.permille(self.workload.watch_permille);
        Operation::Read { read, watch }
    }

    fn several(&mut self) -> Operation {
        let mut reads = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let path = self.path();
            let is_get = self.random.permille(500);
            reads.push(if is_get { SeveralRead::Get(path) } else { SeveralRead::Children(path) });
        }
        Operation::Read { read: Read::Several(reads), watch: false }
    }

    fn path(&mut self) -> Path {
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

    fn version(&mut self) -> i32 {
        self.random.skewed(1, 8) as i32 - 1
    }

    /// The permission to change them is always there, or the names would soon be used up.
    fn permissions(&mut self) -> i32 {
        self.random.pick(&[
            Permissions::ALL,
            Permissions::READ | Permissions::ADMIN,
            Permissions::READ | Permissions::WRITE | Permissions::ADMIN,
            Permissions::READ | Permissions::CREATE | Permissions::ADMIN,
            Permissions::ALL & !Permissions::READ,
        ])
    }

    fn data(&mut self) -> std::sync::Arc<[u8]> {
        let length = self.random.below(self.workload.data_max);
        let first = self.random.draw() as u8;
        (0..length).map(|index| first.wrapping_add(index as u8)).collect()
    }
}
