//! What a client saw, in a form that two servers must agree on: zxids count from the start of the run,
//! session ids become their order of creation, unordered lists are sorted, and times only say whether
//! they are plausible.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use zebu_proto::client::connect::ReadOnlyField;
use zebu_proto::client::multi::MultiHeader;
use zebu_proto::client::{ClientInfo, ConnectResponse};
use zebu_proto::password::session_password;
use zebu_proto::{Acl, Buffer, DecodeError, Jute, OpCode, Reader, SessionId, Stat, Text};
use zebu_testing::Message;

/// One thing that arrived, or did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// The answer to a connect request.
    Connected { timeout_ms: i32, session: Owner, password: Password, read_only: ReadOnlyField },
    /// A watch event.
    Event { zxid: i64, kind: i32, state: i32, path: Text },
    /// An answer.
    Reply(Reply),
    /// A frame that makes no sense.
    Garbage(Vec<u8>),
    /// The server closed the connection.
    Closed,
    /// Nothing came although something should have.
    Silence,
    /// The connection answers although a stranger tried to take its session.
    Undisturbed,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) op: i32,
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) err: i32,
    pub(crate) body: ReplyBody,
    /// Bytes behind the record.
    pub(crate) rest: Vec<u8>,
}

/// Whether a session password is the one that follows from the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Password {
    OfTheSession,
    Zeros,
    Wrong,
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyBody {
    Empty,
    Path(Text),
    PathNode(Text, Node),
    Node(Node),
    Data(Buffer, Node),
    Acl(Vec<Acl>, Node),
    Names(Vec<Box<str>>),
    NamesNode(Vec<Box<str>>, Node),
    Number(i32),
    Clients(Vec<(Text, Text)>),
    Token(Buffer),
    Multi(Vec<(MultiHeader, ReplyBody)>),
    Raw(Vec<u8>),
}

/// A stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    created: Clock,
    modified: Clock,
    versions: (i32, i32, i32),
    owner: Owner,
    data_length: i32,
    num_children: i32,
}

/// A time, as far as two servers can agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Zero,
    DuringTheRun,
    Odd(i64),
}

/// A session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    /// The session that was created as this one in the run, from zero.
    Session(usize),
    Unknown(i64),
}

/// How one server's numbers translate.
#[derive(Clone, Debug)]
pub(crate) struct Translation {
    pub(crate) base: i64,
    sessions: BTreeMap<i64, usize>,
}

impl Translation {
    /// For a run that starts after the zxid `base`.
    pub(crate) fn from(base: i64) -> Translation {
        Translation { base, sessions: BTreeMap::new() }
    }

    /// A session was created.
    pub(crate) fn add_session(&mut self, id: SessionId) {
        let order = self.sessions.len();
        self.sessions.entry(id.0).or_insert(order);
    }

    fn zxid(&self, zxid: i64) -> i64 {
        if zxid > 0 { zxid - self.base } else { zxid }
    }

    fn owner(&self, id: i64) -> Owner {
        match self.sessions.get(&id) {
            Some(&order) => Owner::Session(order),
            None if id == 0 => Owner::Nobody,
            None => Owner::Unknown(id),
        }
    }

    fn node(&self, stat: &Stat) -> Node {
        Node {
            czxid: self.zxid(stat.czxid),
            mzxid: self.zxid(stat.mzxid),
            pzxid: self.zxid(stat.pzxid),
            created: clock(stat.ctime),
            modified: clock(stat.mtime),
            versions: (stat.version, stat.cversion, stat.aversion),
            owner: self.owner(stat.ephemeral_owner),
            data_length: stat.data_length,
            num_children: stat.num_children,
        }
    }

    /// The answer to a connect request.
    pub(crate) fn connected(&self, response: &ConnectResponse) -> Observed {
        let expected = session_password(SessionId(response.session_id));
        Observed::Connected {
            timeout_ms: response.timeout_ms,
            session: self.owner(response.session_id),
            password: match response.password {
                zeros if zeros == [0; 16] => Password::Zeros,
                password if password == expected => Password::OfTheSession,
                _ => Password::Wrong,
            },
            read_only: response.read_only,
        }
    }

    /// A frame after the handshake; `op` is the operation that the next answer belongs to.
    pub(crate) fn message(&self, payload: &[u8], op: i32) -> Observed {
        match Message::decode(payload) {
            Err(_) => Observed::Garbage(payload.to_vec()),
            Ok(Message::Event { header, event }) if header.err == 0 => Observed::Event {
                zxid: self.zxid(header.zxid),
                kind: event.kind,
                state: event.state,
                path: event.path,
            },
            Ok(Message::Event { .. }) => Observed::Garbage(payload.to_vec()),
            Ok(Message::Reply { header, body }) => {
                let (xid, zxid, err) = (header.xid, self.zxid(header.zxid), header.err);
                let (body, rest) = self.split_body(op, err, &body);
                Observed::Reply(Reply { op, xid, zxid, err, body, rest })
            }
        }
    }

    fn split_body(&self, op: i32, err: i32, bytes: &[u8]) -> (ReplyBody, Vec<u8>) {
        if err != 0 && bytes.is_empty() {
            return (ReplyBody::Empty, Vec::new());
        }
        let mut reader = Reader::new(bytes);
        match self.body(OpCode::from_wire(op), &mut reader) {
            Ok(body) => (body, reader.rest().to_vec()),
            Err(_) => (ReplyBody::Raw(bytes.to_vec()), Vec::new()),
        }
    }

    fn body(&self, op: Option<OpCode>, reader: &mut Reader<'_>) -> Result<ReplyBody, DecodeError> {
        use OpCode::*;
        let Some(op) = op else { return Ok(ReplyBody::Empty) };
        Ok(match op {
            Create | Sync => ReplyBody::Path(Jute::decode(reader)?),
            Create2 | CreateContainer | CreateTtl => {
                ReplyBody::PathNode(Jute::decode(reader)?, self.node(&Jute::decode(reader)?))
            }
            Exists | SetData | SetAcl => ReplyBody::Node(self.node(&Jute::decode(reader)?)),
            GetData | Reconfig => ReplyBody::Data(Jute::decode(reader)?, self.node(&Jute::decode(reader)?)),
            GetAcl => {
                let mut acl = Vec::<Acl>::decode(reader)?;
                sort_expanded(&mut acl);
                ReplyBody::Acl(acl, self.node(&Jute::decode(reader)?))
            }
            GetChildren | GetEphemerals => ReplyBody::Names(names(reader)?),
            GetChildren2 => ReplyBody::NamesNode(names(reader)?, self.node(&Jute::decode(reader)?)),
            GetAllChildrenNumber | AddWatch => ReplyBody::Number(reader.int()?),
            WhoAmI => {
                let clients = Vec::<ClientInfo>::decode(reader)?;
                let mut clients: Vec<_> = clients.into_iter().map(|info| (info.scheme, info.user)).collect();
                clients.sort();
                ReplyBody::Clients(clients)
            }
            Sasl => ReplyBody::Token(Jute::decode(reader)?),
            Multi | MultiRead => ReplyBody::Multi(self.results(reader)?),
            Error => ReplyBody::Number(reader.int()?),
            CreateSession | CloseSession | Delete | Ping | Check | CheckWatches | RemoveWatches
            | DeleteContainer | Auth | SetWatches | SetWatches2 => ReplyBody::Empty,
            // Apache has no such requests, and the generator makes none.
            Hello | With | GetChildrenPaginated | Page | Scan | DeleteTree | Feed | FeedCredit
            | FilteredList | CheckNotExists | CreateIfNotExists | RemoveRecursive | CheckStat | TryRemove
            | ListWithStatsAndData | ListRecursive => ReplyBody::Empty,
        })
    }

    fn results(&self, reader: &mut Reader<'_>) -> Result<Vec<(MultiHeader, ReplyBody)>, DecodeError> {
        let mut results = Vec::new();
        loop {
            let header = MultiHeader::decode(reader)?;
            if header.done {
                results.push((header, ReplyBody::Empty));
                return Ok(results);
            }
            let body = self.body(OpCode::from_wire(header.op), reader)?;
            results.push((header, body));
        }
    }
}

impl Observed {
    /// A path that the server answered to a create.
    pub(crate) fn created_paths(&self) -> Vec<&str> {
        let Observed::Reply(reply) = self else { return Vec::new() };
        let creates = [OpCode::Create, OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl];
        match &reply.body {
            ReplyBody::Multi(results) => results.iter().filter_map(|(_, body)| body.path()).collect(),
            body if creates.iter().any(|op| op.wire() == reply.op) => body.path().into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

impl ReplyBody {
    fn path(&self) -> Option<&str> {
        match self {
            ReplyBody::Path(path) | ReplyBody::PathNode(path, _) => path.as_deref(),
            _ => None,
        }
    }
}

fn names(reader: &mut Reader<'_>) -> Result<Vec<Box<str>>, DecodeError> {
    let mut names = Vec::<Box<str>>::decode(reader)?;
    names.sort();
    Ok(names)
}

/// An entry of scheme `auth` became one digest entry per credential, in the order of a hash set. Only such
/// a row is sorted: the order of everything else is part of the answer.
fn sort_expanded(acl: &mut [Acl]) {
    let digest = |entry: &Acl| entry.id.scheme.as_deref() == Some("digest");
    for row in acl.chunk_by_mut(|one, two| one.perms == two.perms && digest(one) && digest(two)) {
        row.sort();
    }
}

/// An hour is more than any run takes, and less than what a wrong unit or epoch would make of a time.
fn clock(milliseconds: i64) -> Clock {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as i64);
    match milliseconds {
        0 => Clock::Zero,
        time if (now - 3_600_000..=now + 1000).contains(&time) => Clock::DuringTheRun,
        time => Clock::Odd(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expanded_entries_are_sorted() {
        let digest = |id: &str| Acl::new(31, "digest", id);
        let world = Acl::new(31, "world", "anyone");
        let mut acl =
            vec![world.clone(), digest("b"), digest("a"), Acl::new(1, "digest", "0"), world.clone()];
        sort_expanded(&mut acl);
        assert_eq!(acl, [world.clone(), digest("a"), digest("b"), Acl::new(1, "digest", "0"), world]);
    }

    #[test]
    fn numbers_are_translated() {
        let mut translation = Translation::from(100);
        translation.add_session(SessionId(7));
        assert_eq!(translation.owner(7), Owner::Session(0));
        assert_eq!(translation.owner(0), Owner::Nobody);
        assert_eq!(translation.owner(8), Owner::Unknown(8));
        assert_eq!((translation.zxid(103), translation.zxid(0), translation.zxid(-1)), (3, 0, -1));
    }
}
