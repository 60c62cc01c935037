//! Requests that are answered from the local tree. Paths are borrowed from the frame: a read that is answered
//! at once allocates nothing.

use std::borrow::Cow;

use crate::client::keeper::KeeperRead;
use crate::client::multi::MultiReadOp;
use crate::client::page::PageRequest;
use crate::client::paginated::PaginatedRequest;
use crate::client::scan::ScanRequest;
use crate::client::watch::{AddWatchMode, SetWatches, WatcherType};
use crate::op::OpCode;

/// Whether a read sets a one-shot watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// No watch.
    None,
    /// A one-shot watch.
    Set,
}

impl From<bool> for Watch {
    fn from(watch: bool) -> Watch {
        if watch { Watch::Set } else { Watch::None }
    }
}

/// A request that needs no transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRequest<'a> {
    /// exists.
    Exists(Cow<'a, str>, Watch),
    /// getData.
    GetData(Cow<'a, str>, Watch),
    /// getChildren.
    GetChildren(Cow<'a, str>, Watch),
    /// getChildren2.
    GetChildren2(Cow<'a, str>, Watch),
    /// getACL.
    GetAcl(Cow<'a, str>),
    /// getAllChildrenNumber.
    GetAllChildrenNumber(Cow<'a, str>),
    /// getEphemerals, with the prefix of the requested paths.
    GetEphemerals(Option<Cow<'a, str>>),
    /// sync: a read that waits for the leader; on a standalone server it does not wait. A null path is
    /// echoed.
    Sync(Option<Cow<'a, str>>),
    /// ping.
    Ping,
    /// whoAmI.
    WhoAmI,
    /// multiRead.
    MultiRead(Vec<MultiReadOp>),
    /// checkWatches; a null path has none.
    CheckWatches(Option<Cow<'a, str>>, WatcherType),
    /// removeWatches; a null path has none.
    RemoveWatches(Option<Cow<'a, str>>, WatcherType),
    /// addWatch; ZooKeeper accepts a null path, which no event ever fires.
    AddWatch(Option<Cow<'a, str>>, AddWatchMode),
    /// setWatches and setWatches2. Boxed: it is large and rare.
    SetWatches(Box<SetWatches>),
    /// getChildrenPaginated.
    GetChildrenPaginated(Box<PaginatedRequest>),
    /// page.
    Page(Box<PageRequest>),
    /// scan.
    Scan(Box<ScanRequest>),
    /// A read of ClickHouse Keeper.
    Keeper(Box<KeeperRead>),
}

impl ReadRequest<'_> {
    /// Whether the answer depends on a node for which `is_listed` holds.
    pub fn reads(&self, is_listed: impl Fn(&str) -> bool) -> bool {
        match self {
            ReadRequest::Exists(path, _)
            | ReadRequest::GetData(path, _)
            | ReadRequest::GetChildren(path, _)
            | ReadRequest::GetChildren2(path, _)
            | ReadRequest::GetAcl(path)
            | ReadRequest::GetAllChildrenNumber(path) => is_listed(path),
            ReadRequest::GetChildrenPaginated(request) => is_listed(&request.path),
            ReadRequest::Page(request) => is_listed(&request.path),
            ReadRequest::Scan(request) => is_listed(&request.root),
            ReadRequest::MultiRead(ops) => ops.iter().any(|op| is_listed(op.path())),
            ReadRequest::Keeper(request) => request.path().is_some_and(is_listed),
            ReadRequest::GetEphemerals(_)
            | ReadRequest::Sync(_)
            | ReadRequest::Ping
            | ReadRequest::WhoAmI
            | ReadRequest::CheckWatches(..)
            | ReadRequest::RemoveWatches(..)
            | ReadRequest::AddWatch(..)
            | ReadRequest::SetWatches(_) => false,
        }
    }

    /// The operation code of the request.
    pub const fn op(&self) -> OpCode {
        match self {
            ReadRequest::Exists(..) => OpCode::Exists,
            ReadRequest::GetData(..) => OpCode::GetData,
            ReadRequest::GetChildren(..) => OpCode::GetChildren,
            ReadRequest::GetChildren2(..) => OpCode::GetChildren2,
            ReadRequest::GetAcl(_) => OpCode::GetAcl,
            ReadRequest::GetAllChildrenNumber(_) => OpCode::GetAllChildrenNumber,
            ReadRequest::GetEphemerals(_) => OpCode::GetEphemerals,
            ReadRequest::Sync(_) => OpCode::Sync,
            ReadRequest::Ping => OpCode::Ping,
            ReadRequest::WhoAmI => OpCode::WhoAmI,
            ReadRequest::MultiRead(_) => OpCode::MultiRead,
            ReadRequest::CheckWatches(..) => OpCode::CheckWatches,
            ReadRequest::RemoveWatches(..) => OpCode::RemoveWatches,
            ReadRequest::AddWatch(..) => OpCode::AddWatch,
            ReadRequest::SetWatches(_) => OpCode::SetWatches,
            ReadRequest::GetChildrenPaginated(_) => OpCode::GetChildrenPaginated,
            ReadRequest::Page(_) => OpCode::Page,
            ReadRequest::Scan(_) => OpCode::Scan,
            ReadRequest::Keeper(request) => request.op(),
        }
    }

    /// Whether only ClickHouse Keeper and Zebu have the request, or a part of it.
    pub fn is_keeper(&self) -> bool {
        match self {
            ReadRequest::Keeper(_) => true,
            ReadRequest::MultiRead(ops) => ops.iter().any(MultiReadOp::is_keeper),
            // Wildcard: all others are ZooKeeper's or Zebu's own.
            _ => false,
        }
    }

    /// Whether the answer needs the children of a node in an order that the server may have to prepare.
    pub const fn is_listing(&self) -> bool {
        matches!(self, ReadRequest::GetChildrenPaginated(_) | ReadRequest::Page(_) | ReadRequest::Scan(_))
    }

    /// Copies borrowed fields, for a read that has to wait.
    pub fn into_owned(self) -> ReadRequest<'static> {
        use ReadRequest::*;
        let own = |path: Cow<'_, str>| Cow::Owned(path.into_owned());
        match self {
            Exists(path, watch) => Exists(own(path), watch),
            GetData(path, watch) => GetData(own(path), watch),
            GetChildren(path, watch) => GetChildren(own(path), watch),
            GetChildren2(path, watch) => GetChildren2(own(path), watch),
            GetAcl(path) => GetAcl(own(path)),
            GetAllChildrenNumber(path) => GetAllChildrenNumber(own(path)),
            GetEphemerals(path) => GetEphemerals(path.map(own)),
            Sync(path) => Sync(path.map(own)),
            Ping => Ping,
            WhoAmI => WhoAmI,
            MultiRead(ops) => MultiRead(ops),
            CheckWatches(path, kind) => CheckWatches(path.map(own), kind),
            RemoveWatches(path, kind) => RemoveWatches(path.map(own), kind),
            AddWatch(path, mode) => AddWatch(path.map(own), mode),
            SetWatches(watches) => SetWatches(watches),
            GetChildrenPaginated(request) => GetChildrenPaginated(request),
            Page(request) => Page(request),
            Scan(request) => Scan(request),
            Keeper(request) => Keeper(request),
        }
    }
}
