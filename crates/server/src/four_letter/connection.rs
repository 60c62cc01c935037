//! One connection in `stat` and `cons`: its values and its line.

use std::fmt::Write;
use std::net::SocketAddr;

use zebu_proto::{OpCode, SessionId, Zxid};

use super::java_text;
use super::report::{ServerReport, write_header, write_server};

/// The values of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionReport {
    /// Remote address.
    pub(crate) remote: SocketAddr,
    /// Whether requests are served. A connection that closes still has its session here.
    pub(crate) is_serving: bool,
    /// Events that the server waits for on the socket.
    pub(crate) interest: SocketInterest,
    /// Requests without a reply.
    pub(crate) queued: u64,
    /// Received packets.
    pub(crate) received: u64,
    /// Sent packets.
    pub(crate) sent: u64,
    /// `None` before the session is established.
    pub(crate) session: Option<SessionReport>,
}

/// The values of a connection's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionReport {
    /// Session id.
    pub(crate) id: SessionId,
    /// The last answered operation; `None` before the first and after `crst`.
    pub(crate) last_operation: Option<OpCode>,
    /// Wall clock milliseconds when the connection was accepted.
    pub(crate) established_ms: i64,
    /// The negotiated timeout in milliseconds.
    pub(crate) timeout_ms: i32,
    /// The xid of the last reply; omitted from the text while negative.
    pub(crate) last_xid: i64,
    /// The zxid of the last reply; -1 after `crst`.
    pub(crate) last_zxid: Zxid,
    /// Monotonic milliseconds of the last reply.
    pub(crate) last_response_ms: i64,
    /// Latency of the last request in milliseconds.
    pub(crate) last_latency_ms: i64,
    /// Least latency in milliseconds.
    pub(crate) min_latency_ms: i64,
    /// Average latency in whole milliseconds.
    pub(crate) average_latency_ms: i64,
    /// Greatest latency in milliseconds.
    pub(crate) max_latency_ms: i64,
}

/// Events that the server waits for on a socket; printed as the bits of Java's selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketInterest {
    /// Reading is paused, and there is no output.
    Nothing,
    /// Input.
    Read,
    /// Room for output; reading is paused.
    Write,
    /// Input and room for output.
    ReadAndWrite,
}

impl SocketInterest {
    pub(crate) fn bits(self) -> u8 {
        match self {
            SocketInterest::Nothing => 0,
            SocketInterest::Read => 1,
            SocketInterest::Write => 4,
            SocketInterest::ReadAndWrite => 5,
        }
    }
}

/// How much of a connection is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionDetail {
    /// `stat`.
    Brief,
    /// `cons`.
    Full,
}

/// Appends the part of `stat` before the connections.
pub(crate) fn write_stat_head(out: &mut String, server: &ServerReport) {
    write_header(out, server);
    out.push_str("Clients:\n");
}

/// Appends the part of `stat` after the connections.
pub(crate) fn write_stat_tail(out: &mut String, server: &ServerReport) {
    out.push('\n');
    write_server(out, server);
}

/// Appends the line of one connection.
pub(crate) fn write_connection(out: &mut String, connection: &ConnectionReport, detail: ConnectionDetail) {
    let ConnectionReport { remote, interest, queued, received, sent, session, .. } = connection;
    let remote = java_text::socket_address(*remote);
    let _ = write!(out, " {remote}[{:x}](queued={queued},recved={received},sent={sent}", interest.bits());
    if let (ConnectionDetail::Full, Some(session)) = (detail, session) {
        write_session(out, session);
    }
    out.push_str(")\n");
}

fn write_session(out: &mut String, session: &SessionReport) {
    let operation = session.last_operation.map_or("NA", op_mnemonic);
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
pub(crate) fn op_mnemonic(operation: OpCode) -> &'static str {
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
        OpCode::GetChildren | OpCode::GetChildren2 | OpCode::GetChildrenPaginated | OpCode::Page => "GETC",
        OpCode::Scan => "SCAN",
        OpCode::DeleteTree => "DELT",
        OpCode::FilteredList | OpCode::ListWithStatsAndData | OpCode::ListRecursive => "GETC",
        OpCode::CheckNotExists | OpCode::CheckStat => "CHEC",
        OpCode::CreateIfNotExists => "CREA",
        OpCode::RemoveRecursive | OpCode::TryRemove => "DELE",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::WhoAmI => "HOMI",
        OpCode::GetEphemerals => "GETE",
        OpCode::Feed | OpCode::FeedCredit => "FEED",
        // A read with freshness is shown as the read.
        OpCode::Error | OpCode::Auth | OpCode::Sasl | OpCode::Hello | OpCode::With => "NA",
    }
}
