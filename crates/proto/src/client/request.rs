//! From an operation code and a body to a request. Only this file maps codes to records.

use std::borrow::Cow;

use crate::client::auth::{AuthPacket, SaslToken};
use crate::client::create::{CreateOp, CreateRequest};
use crate::client::delete_tree::DeleteTreeRequest;
use crate::client::feed::{FeedOpen, FeedRequest};
use crate::client::hello::ClientHello;
use crate::client::keeper::{KeeperRead, KeeperWrite};
use crate::client::multi::{MultiError, decode_multi, decode_multi_read};
use crate::client::page::PageRequest;
use crate::client::paginated::PaginatedRequest;
use crate::client::read::{ReadRequest, Watch};
use crate::client::scan::ScanRequest;
use crate::client::watch::{AddWatchMode, SetWatches, WatcherType};
use crate::client::with::{Freshness, is_read_with_freshness};
use crate::client::write::WriteRequest;
use crate::error_code::ErrorCode;
use crate::jute::{DecodeError, Jute, Reader};
use crate::op::OpCode;

/// A decoded request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Answered from the local tree.
    Read(ReadRequest<'a>),
    /// Answered from the local tree once it is fresh enough.
    With(Freshness, ReadRequest<'a>),
    /// What the client understands beyond ZooKeeper.
    Hello(ClientHello),
    /// Opens a feed or grants it credit.
    Feed(FeedRequest),
    /// Becomes a transaction.
    Write(WriteRequest),
    /// Adds a credential to the connection.
    Auth(AuthPacket),
    /// One round of a SASL exchange.
    Sasl(SaslToken),
}

/// Why a body is not a request, by the required reaction of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// No client may send this code: reply UNIMPLEMENTED, close.
    UnknownOp,
    /// Reply MARSHALLINGERROR, keep the connection.
    Undecodable,
    /// Reply BADARGUMENTS, keep the connection.
    BadArguments,
    /// An auth or sasl body that does not decode: close without a reply.
    CloseSilently,
}

impl From<DecodeError> for RequestError {
    fn from(_: DecodeError) -> RequestError {
        RequestError::Undecodable
    }
}

impl<'a> Request<'a> {
    /// Whether only Zebu, and forks of ZooKeeper, have the request.
    pub const fn is_private(&self) -> bool {
        match self {
            Request::With(..) | Request::Hello(_) | Request::Feed(_) => true,
            Request::Read(request) => request.is_listing(),
            Request::Write(request) => request.is_private(),
            Request::Auth(_) | Request::Sasl(_) => false,
        }
    }

    /// Whether only ClickHouse Keeper and Zebu have the request, or a part of it.
    pub fn is_keeper(&self) -> bool {
        match self {
            Request::Read(request) | Request::With(_, request) => request.is_keeper(),
            Request::Write(request) => request.is_keeper(),
            Request::Hello(_) | Request::Feed(_) | Request::Auth(_) | Request::Sasl(_) => false,
        }
    }

    /// Decodes the body that follows a request header with operation code `op`.
    pub fn decode(op: i32, reader: &mut Reader<'a>) -> Result<Request<'a>, RequestError> {
        let op = OpCode::from_wire(op).ok_or(RequestError::UnknownOp)?;
        match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                decode_create(op, reader)
            }
            OpCode::Delete => Ok(Request::Write(WriteRequest::Delete(Jute::decode(reader)?))),
            OpCode::SetData => Ok(Request::Write(WriteRequest::SetData(Jute::decode(reader)?))),
            OpCode::SetAcl => Ok(Request::Write(WriteRequest::SetAcl(Jute::decode(reader)?))),
            OpCode::Reconfig => Ok(Request::Write(WriteRequest::Reconfig(Jute::decode(reader)?))),
            OpCode::Multi => match decode_multi(reader) {
                Ok(ops) => Ok(Request::Write(WriteRequest::Multi(ops))),
                Err(MultiError::Undecodable) => {
                    Ok(Request::Write(WriteRequest::Refused(ErrorCode::MarshallingError)))
                }
                Err(MultiError::NullAcl) => Err(RequestError::Undecodable),
            },
            OpCode::CloseSession => Ok(Request::Write(WriteRequest::CloseSession)),
            OpCode::Auth => match AuthPacket::decode(reader) {
                Ok(packet) => Ok(Request::Auth(packet)),
                Err(_) => Err(RequestError::CloseSilently),
            },
            OpCode::Sasl => match SaslToken::decode(reader) {
                Ok(token) if token.token.is_some() => Ok(Request::Sasl(token)),
                Ok(_) | Err(_) => Err(RequestError::CloseSilently),
            },
            OpCode::Exists
            | OpCode::GetData
            | OpCode::GetAcl
            | OpCode::GetChildren
            | OpCode::Sync
            | OpCode::Ping
            | OpCode::GetChildren2
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::MultiRead
            | OpCode::SetWatches
            | OpCode::GetEphemerals
            | OpCode::GetAllChildrenNumber
            | OpCode::SetWatches2
            | OpCode::AddWatch
            | OpCode::WhoAmI
            | OpCode::GetChildrenPaginated
            | OpCode::Page
            | OpCode::Scan
            | OpCode::FilteredList
            | OpCode::CheckNotExists
            | OpCode::CheckStat
            | OpCode::ListWithStatsAndData
            | OpCode::ListRecursive => decode_read(op, reader).map(Request::Read),
            OpCode::CreateIfNotExists | OpCode::RemoveRecursive | OpCode::TryRemove => {
                Ok(Request::Write(WriteRequest::Keeper(Box::new(KeeperWrite::decode(op, reader)?))))
            }
            OpCode::Hello => Ok(Request::Hello(ClientHello::decode(reader)?)),
            OpCode::With => decode_with(reader),
            OpCode::Feed => Ok(Request::Feed(FeedRequest::Open(Box::new(FeedOpen::decode(reader)?)))),
            OpCode::FeedCredit => FeedRequest::decode_credit(reader).map(Request::Feed),
            OpCode::DeleteTree => {
                Ok(Request::Write(WriteRequest::DeleteTree(DeleteTreeRequest::decode(reader)?)))
            }
            // Transactions and internal requests: a client that sends one is refused.
            OpCode::Error | OpCode::CreateSession | OpCode::Check | OpCode::DeleteContainer => {
                Err(RequestError::UnknownOp)
            }
        }
    }
}

fn decode_create<'a>(op: OpCode, reader: &mut Reader<'a>) -> Result<Request<'a>, RequestError> {
    let op = match op {
        OpCode::Create2 => CreateOp::Create2,
        OpCode::CreateContainer => CreateOp::Container,
        OpCode::CreateTtl => CreateOp::Ttl,
        _ => CreateOp::Create,
    };
    Ok(Request::Write(WriteRequest::Create(CreateRequest::decode(op, reader)?)))
}

/// Options that this release does not know, and operations that are no read, are refused.
fn decode_with<'a>(reader: &mut Reader<'a>) -> Result<Request<'a>, RequestError> {
    let freshness = Freshness::decode(reader)?;
    match OpCode::from_wire(reader.int()?) {
        Some(op) if is_read_with_freshness(op) => Ok(Request::With(freshness, decode_read(op, reader)?)),
        Some(_) | None => Err(RequestError::BadArguments),
    }
}

/// Fails for the codes that [`Request::decode`] handles itself.
fn decode_read<'a>(op: OpCode, reader: &mut Reader<'a>) -> Result<ReadRequest<'a>, RequestError> {
    Ok(match op {
        OpCode::Exists => ReadRequest::Exists(path(reader)?, watch(reader)?),
        OpCode::GetData => ReadRequest::GetData(path(reader)?, watch(reader)?),
        OpCode::GetChildren => ReadRequest::GetChildren(path(reader)?, watch(reader)?),
        OpCode::GetChildren2 => ReadRequest::GetChildren2(path(reader)?, watch(reader)?),
        OpCode::GetAcl => ReadRequest::GetAcl(path(reader)?),
        OpCode::GetAllChildrenNumber => ReadRequest::GetAllChildrenNumber(path(reader)?),
        OpCode::GetEphemerals => ReadRequest::GetEphemerals(reader.text()?),
        OpCode::Sync => ReadRequest::Sync(reader.text()?),
        OpCode::Ping => ReadRequest::Ping,
        OpCode::WhoAmI => ReadRequest::WhoAmI,
        OpCode::MultiRead => {
            ReadRequest::MultiRead(decode_multi_read(reader).map_err(|_| RequestError::Undecodable)?)
        }
        OpCode::CheckWatches => ReadRequest::CheckWatches(reader.text()?, watcher_type(reader)?),
        OpCode::RemoveWatches => ReadRequest::RemoveWatches(reader.text()?, watcher_type(reader)?),
        OpCode::AddWatch => {
            let path = reader.text()?;
            let mode = AddWatchMode::from_wire(reader.int()?).ok_or(RequestError::Undecodable)?;
            ReadRequest::AddWatch(path, mode)
        }
        OpCode::SetWatches | OpCode::SetWatches2 => {
            ReadRequest::SetWatches(Box::new(set_watches(op, reader)?))
        }
        OpCode::GetChildrenPaginated => {
            ReadRequest::GetChildrenPaginated(Box::new(PaginatedRequest::decode(reader)?))
        }
        OpCode::Page => ReadRequest::Page(Box::new(PageRequest::decode(reader)?)),
        OpCode::Scan => ReadRequest::Scan(Box::new(ScanRequest::decode(reader)?)),
        OpCode::FilteredList
        | OpCode::CheckNotExists
        | OpCode::CheckStat
        | OpCode::ListWithStatsAndData
        | OpCode::ListRecursive => ReadRequest::Keeper(Box::new(KeeperRead::decode(op, reader)?)),
        _ => return Err(RequestError::UnknownOp),
    })
}

/// A path that may not be null.
fn path<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, str>, RequestError> {
    reader.text()?.ok_or(RequestError::Undecodable)
}

fn watch(reader: &mut Reader<'_>) -> Result<Watch, RequestError> {
    Ok(Watch::from(reader.boolean()?))
}

fn watcher_type(reader: &mut Reader<'_>) -> Result<WatcherType, RequestError> {
    WatcherType::from_wire(reader.int()?).ok_or(RequestError::Undecodable)
}

fn set_watches(op: OpCode, reader: &mut Reader<'_>) -> Result<SetWatches, RequestError> {
    let mut watches = SetWatches {
        relative_zxid: reader.long()?,
        data: Jute::decode(reader)?,
        exist: Jute::decode(reader)?,
        child: Jute::decode(reader)?,
        persistent: Some(Vec::new()),
        persistent_recursive: Some(Vec::new()),
    };
    if op == OpCode::SetWatches2 {
        watches.persistent = Jute::decode(reader)?;
        watches.persistent_recursive = Jute::decode(reader)?;
    }
    Ok(watches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_codes_are_refused() {
        for op in [-10, -1, 0, 10, 13, 20, 108, 4711, i32::MIN] {
            assert_eq!(Request::decode(op, &mut Reader::new(&[0; 64])), Err(RequestError::UnknownOp), "{op}");
        }
    }

    #[test]
    fn reads_borrow_their_path() {
        let bytes = [0, 0, 0, 2, b'/', b'a', 1];
        let request = Request::decode(4, &mut Reader::new(&bytes)).unwrap();
        assert_eq!(request, Request::Read(ReadRequest::GetData(Cow::Borrowed("/a"), Watch::Set)));
        assert_eq!(Request::decode(4, &mut Reader::new(&bytes[..6])), Err(RequestError::Undecodable));
    }

    #[test]
    fn sasl_without_token_closes() {
        assert_eq!(Request::decode(102, &mut Reader::new(&[255; 4])), Err(RequestError::CloseSilently));
        assert_eq!(Request::decode(100, &mut Reader::new(&[0; 3])), Err(RequestError::CloseSilently));
    }
}
