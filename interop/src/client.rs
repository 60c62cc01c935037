//! A session with typed writes, for the suites that look at what a server keeps. It owns one connection;
//! it never reconnects or retries by itself.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::client::multi::{MULTI_END, MultiHeader};
use zebu_proto::client::reply::Create2Response;
use zebu_proto::client::{AuthPacket, CreateOp, ReplyHeader, WriteRequest};
use zebu_proto::{Jute, OpCode, Reader, SessionId, Text, Xid};
use zebu_testing::raw::{RawError, new_session_request};
use zebu_testing::{Message, RawClient, Session};

use crate::differential::SUPER_USER;

/// A session on a connection.
#[derive(Debug)]
pub(crate) struct Client {
    raw: RawClient,
    session: Session,
    timeout_ms: i32,
}

/// What a write was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The transaction.
    pub(crate) zxid: i64,
    /// Zero, or the error; of a multi that failed, the first error that tells why.
    pub(crate) error: i32,
    /// The path of a new node; those of a multi in order.
    pub(crate) created: Vec<String>,
}

impl Client {
    /// A new session.
    pub(crate) fn open(address: SocketAddr, timeout_ms: i32) -> Result<Client> {
        let mut raw = RawClient::connect(address)?;
        let mut request = new_session_request();
        request.timeout_ms = timeout_ms;
        let response = raw.handshake(&request)?;
        ensure!(response.session_id != 0, "{address} refused a new session");
        let session = Session { id: SessionId(response.session_id), password: response.password };
        Ok(Client { raw, session, timeout_ms: response.timeout_ms })
    }

    /// A new session of the super user.
    pub(crate) fn open_super(address: SocketAddr, timeout_ms: i32) -> Result<Client> {
        let mut client = Client::open(address, timeout_ms)?;
        client.add_user(SUPER_USER)?;
        Ok(client)
    }

    /// The same session on a new connection; `None` if the server does not know it any more.
    pub(crate) fn resume(address: SocketAddr, session: Session, timeout_ms: i32) -> Result<Option<Client>> {
        let mut raw = RawClient::connect(address)?;
        let mut request = session.resume_request();
        request.timeout_ms = timeout_ms;
        let response = raw.handshake(&request)?;
        if response.session_id == 0 {
            return Ok(None);
        }
        ensure!(response.session_id == session.id.0, "resumed as another session");
        ensure!(response.password == session.password, "the password of a session has changed");
        Ok(Some(Client { raw, session, timeout_ms: response.timeout_ms }))
    }

    /// How long an answer may take.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.raw.set_patience(patience);
    }

    /// Its session.
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// The timeout that was agreed on.
    pub(crate) fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    /// Adds a digest credential, given as `user:password`.
    pub(crate) fn add_user(&mut self, user: &str) -> Result<()> {
        let packet =
            AuthPacket { kind: 0, scheme: Some("digest".into()), auth: Some(user.as_bytes().into()) };
        self.raw.queue_as(Xid::AUTH, OpCode::Auth.wire(), |out| packet.encode(out));
        self.raw.flush()?;
        match self.raw.receive_message()? {
            Message::Reply { header, .. } if header.err == 0 => Ok(()),
            other => bail!("auth as {user} was answered {other:?}"),
        }
    }

    /// Appends a request to those that [`Client::flush`] sends.
    pub(crate) fn queue(&mut self, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) {
        self.raw.queue(op, body);
    }

    /// Appends a request without a body and with a number of its own.
    pub(crate) fn queue_as(&mut self, xid: Xid, op: OpCode) {
        self.raw.queue_as(xid, op.wire(), |_| ());
    }

    /// Appends a write.
    pub(crate) fn queue_write(&mut self, request: &WriteRequest) {
        self.raw.queue(op_of(request), |out| encode(request, out));
    }

    /// Sends what was queued.
    pub(crate) fn flush(&mut self) -> Result<(), RawError> {
        self.raw.flush()
    }

    /// The next reply.
    pub(crate) fn reply(&mut self) -> Result<(ReplyHeader, Vec<u8>), RawError> {
        loop {
            if let Message::Reply { header, body } = self.raw.receive_message()? {
                return Ok((header, body));
            }
        }
    }

    /// Sends one write and waits for its answer.
    pub(crate) fn write(&mut self, request: &WriteRequest) -> Result<Answer> {
        self.queue_write(request);
        self.flush()?;
        let (header, body) = self.reply().with_context(|| short(request))?;
        answer(request, &header, &body)
    }
}

/// Reads the reply to `request`.
pub(crate) fn answer(request: &WriteRequest, header: &ReplyHeader, body: &[u8]) -> Result<Answer> {
    let mut answer = Answer { zxid: header.zxid, error: header.err, created: Vec::new() };
    let mut reader = Reader::new(body);
    match request {
        WriteRequest::Create(create) if header.err == 0 => answer.created.extend(match create.op {
            CreateOp::Create => Text::decode(&mut reader)?.map(String::from),
            CreateOp::Create2 | CreateOp::Container | CreateOp::Ttl => {
                Create2Response::decode(&mut reader)?.path.map(String::from)
            }
        }),
        WriteRequest::Multi(_) if !body.is_empty() => read_results(&mut reader, &mut answer)?,
        _ => {}
    }
    Ok(answer)
}

fn read_results(reader: &mut Reader<'_>, answer: &mut Answer) -> Result<()> {
    const RUNTIME_INCONSISTENCY: i32 = -2;
    loop {
        let header = MultiHeader::decode(reader)?;
        if header.done {
            return Ok(());
        }
        match OpCode::from_wire(header.op) {
            Some(OpCode::Create | OpCode::CreateIfNotExists) => {
                answer.created.extend(Text::decode(reader)?.map(String::from))
            }
            Some(OpCode::Create2) => {
                answer.created.extend(Create2Response::decode(reader)?.path.map(String::from));
            }
            Some(OpCode::SetData) => drop(zebu_proto::Stat::decode(reader)?),
            Some(
                OpCode::Delete
                | OpCode::Check
                | OpCode::CheckNotExists
                | OpCode::CheckStat
                | OpCode::TryRemove
                | OpCode::RemoveRecursive,
            ) => {}
            _ => {
                let error = i32::decode(reader)?;
                if error != 0 && (answer.error == 0 || answer.error == RUNTIME_INCONSISTENCY) {
                    answer.error = error;
                }
            }
        }
    }
}

fn op_of(request: &WriteRequest) -> OpCode {
    match request {
        WriteRequest::Create(create) => create.op.op_code(),
        WriteRequest::Delete(_) => OpCode::Delete,
        WriteRequest::SetData(_) => OpCode::SetData,
        WriteRequest::SetAcl(_) => OpCode::SetAcl,
        WriteRequest::Multi(_) => OpCode::Multi,
        WriteRequest::Keeper(write) => write.op(),
        WriteRequest::CloseSession => OpCode::CloseSession,
        WriteRequest::Reconfig(_)
        | WriteRequest::Refused(_)
        | WriteRequest::DeleteTree(_)
        | WriteRequest::CreateSession { .. }
        | WriteRequest::DeleteContainer { .. } => unreachable!("no suite sends {request:?}"),
    }
}

pub(crate) fn encode(request: &WriteRequest, out: &mut Vec<u8>) {
    match request {
        WriteRequest::Create(create) => create.encode(out),
        WriteRequest::Delete(delete) => delete.encode(out),
        WriteRequest::SetData(set) => set.encode(out),
        WriteRequest::SetAcl(set) => set.encode(out),
        WriteRequest::Multi(parts) => {
            parts.iter().for_each(|part| part.encode(out));
            MULTI_END.encode(out);
        }
        WriteRequest::Keeper(write) => write.encode(out),
        WriteRequest::CloseSession
        | WriteRequest::Reconfig(_)
        | WriteRequest::Refused(_)
        | WriteRequest::DeleteTree(_)
        | WriteRequest::CreateSession { .. }
        | WriteRequest::DeleteContainer { .. } => {}
    }
}

/// A request for a report: large data is cut.
pub(crate) fn short(request: &WriteRequest) -> String {
    let mut body = Vec::new();
    encode(request, &mut body);
    let text = format!("{} bytes: {request:?}", body.len());
    if text.chars().count() <= 600 { text } else { text.chars().take(600).chain("…".chars()).collect() }
}
