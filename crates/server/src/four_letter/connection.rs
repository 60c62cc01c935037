//! One connection in the words `stat` and `cons`: its values and its line.

use std::fmt::Write;
use std::net::SocketAddr;

use zebu_proto::{OpCode, SessionId, Zxid};

use super::java_text;

/// What is known about one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionReport {
    /// The peer.
    pub remote: SocketAddr,
    /// What the server waits for on its socket.
    pub interest: Interest,
    /// Requests without an answer yet.
    pub queued: u64,
    /// Packets in.
    pub received: u64,
    /// Packets out.
    pub sent: u64,
    /// Its session, once there is one.
    pub session: Option<SessionReport>,
}

/// What is known about the session of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionReport {
    /// Its id.
    pub id: SessionId,
    /// The last operation that was answered; `None` before the first and after `crst`.
    pub last_operation: Option<OpCode>,
    /// When the connection was made, wall clock milliseconds.
    pub established_ms: i64,
    /// The negotiated timeout in milliseconds.
    pub timeout_ms: i32,
    /// The xid of the last answer; left out of the text while negative.
    pub last_xid: i64,
    /// The zxid of the last answer; -1 after `crst`.
    pub last_zxid: Zxid,
    /// When the last answer left, monotonic milliseconds.
    pub last_response_ms: i64,
    /// Milliseconds of the last request.
    pub last_latency_ms: i64,
    /// Fastest request.
    pub min_latency_ms: i64,
    /// Average, whole milliseconds.
    pub average_latency_ms: i64,
    /// Slowest request.
    pub max_latency_ms: i64,
}

/// What the server waits for on a socket; printed as the bits of Java's selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Reading is stopped and nothing is left to write.
    Nothing,
    /// Input.
    Read,
    /// Room for output, while reading is stopped.
    Write,
    /// Both.
    ReadAndWrite,
}

impl Interest {
    fn bits(self) -> u8 {
        match self {
            Interest::Nothing => 0,
            Interest::Read => 1,
            Interest::Write => 4,
            Interest::ReadAndWrite => 5,
        }
    }
}

/// How much of a connection is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Brief,
    Full,
}

/// Appends the line of one connection.
pub(super) fn write_connection(out: &mut String, connection: &ConnectionReport, detail: Detail) {
    let ConnectionReport { remote, interest, queued, received, sent, session } = connection;
    let remote = java_text::socket_address(*remote);
    let _ = write!(out, " {remote}[{:x}](queued={queued},recved={received},sent={sent}", interest.bits());
    if let (Detail::Full, Some(session)) = (detail, session) {
        write_session(out, session);
    }
    out.push_str(")\n");
}

fn write_session(out: &mut String, session: &SessionReport) {
    let operation = session.last_operation.map_or("NA", mnemonic);
    let _ = write!(
        out,
        ",sid=0x{:x},lop={operation},est={},to={}",
        session.id.0, session.established_ms, session.timeout_ms
    );
    if session.last_xid >= 0 {
        let _ = write!(out, ",lcxid=0x{:x}", session.last_xid);
    }
    let _ = write!(
        out,
        ",lzxid=0x{:x},lresp={},llat={},minlat={},avglat={},maxlat={}",
        session.last_zxid.0,
        session.last_response_ms,
        session.last_latency_ms,
        session.min_latency_ms,
        session.average_latency_ms,
        session.max_latency_ms
    );
}

/// The short name of an operation.
pub fn mnemonic(operation: OpCode) -> &'static str {
    match operation {
        OpCode::Ping => "PING",
        OpCode::CreateSession => "SESS",
        OpCode::CloseSession => "CLOS",
        OpCode::Multi => "MULT",
        OpCode::MultiRead => "MLTR",
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => "CREA",
        OpCode::Delete | OpCode::DeleteContainer => "DELE",
        OpCode::SetData => "SETD",
        OpCode::Reconfig => "RECO",
        OpCode::SetAcl => "SETA",
        OpCode::Sync => "SYNC",
        OpCode::Check => "CHEC",
        OpCode::Exists => "EXIS",
        OpCode::GetData => "GETD",
        OpCode::SetWatches => "SETW",
        OpCode::SetWatches2 => "STW2",
        OpCode::AddWatch => "ADDW",
        OpCode::GetAcl => "GETA",
        OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::WhoAmI => "HOMI",
        OpCode::GetEphemerals => "GETE",
        OpCode::Error | OpCode::Auth | OpCode::Sasl => "NA",
    }
}
