//! One audited event, before it becomes a line.

use zebu_proto::client::create::CreateMode;
use zebu_proto::{AclList, SessionId};
use zebu_tree::Credentials;

/// The operation of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOperation {
    /// The server serves.
    ServerStart,
    /// The server was told to stop.
    ServerStop,
    /// A create of any kind.
    Create,
    /// A delete.
    Delete,
    /// A setData.
    SetData,
    /// A setACL.
    SetAcl,
    /// A multi that failed.
    Multi,
    /// A reconfig.
    Reconfig,
    /// An ephemeral node was deleted with its session.
    EphemeralDeletion,
    /// A client could not authenticate itself. ZooKeeper has no such line.
    AuthFailure,
    /// A handshake of TLS or SASL failed. ZooKeeper has no such line.
    HandshakeFailure,
    /// A client authenticated itself as super user. ZooKeeper has no such line.
    SuperLogin,
    /// A caller of the admin server took a snapshot. ZooKeeper has no such line.
    Snapshot,
    /// A caller of the admin server replaced the state. ZooKeeper has no such line.
    Restore,
}

impl AuditOperation {
    /// The value of `operation`.
    pub fn name(self) -> &'static str {
        match self {
            AuditOperation::ServerStart => "serverStart",
            AuditOperation::ServerStop => "serverStop",
            AuditOperation::Create => "create",
            AuditOperation::Delete => "delete",
            AuditOperation::SetData => "setData",
            AuditOperation::SetAcl => "setAcl",
            AuditOperation::Multi => "multiOperation",
            AuditOperation::Reconfig => "reconfig",
            AuditOperation::EphemeralDeletion => "ephemeralZNodeDeletionOnSessionCloseOrExpire",
            AuditOperation::AuthFailure => "authFailure",
            AuditOperation::HandshakeFailure => "handshakeFailure",
            AuditOperation::SuperLogin => "superLogin",
            AuditOperation::Snapshot => "snapshot",
            AuditOperation::Restore => "restore",
        }
    }
}

/// The result of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// The operation was carried out.
    Success,
    /// The operation changed nothing.
    Failure,
    /// The operation has begun.
    Invoked,
}

impl AuditResult {
    /// The value of `result`.
    pub fn name(self) -> &'static str {
        match self {
            AuditResult::Success => "success",
            AuditResult::Failure => "failure",
            AuditResult::Invoked => "invoked",
        }
    }
}

/// The user of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditUser {
    /// The server itself.
    Server,
    /// A client with these ids.
    Client(Credentials),
}

/// An audited event. Absent values are left out of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Milliseconds since 1970.
    pub wall_ms: i64,
    /// The session.
    pub session: Option<SessionId>,
    /// The user. The address of a client is one of its ids.
    pub user: AuditUser,
    /// The operation.
    pub operation: AuditOperation,
    /// The path.
    pub path: Option<Box<str>>,
    /// The type of a created node.
    pub node_type: Option<CreateMode>,
    /// The requested ACL of a setACL.
    pub acl: Option<AclList>,
    /// The result.
    pub result: AuditResult,
}

impl AuditEvent {
    /// An event of the server itself.
    pub fn of_server(wall_ms: i64, operation: AuditOperation, result: AuditResult) -> AuditEvent {
        AuditEvent {
            wall_ms,
            session: None,
            user: AuditUser::Server,
            operation,
            path: None,
            node_type: None,
            acl: None,
            result,
        }
    }

    /// An event of a connection, beyond those of ZooKeeper.
    pub fn of_connection(
        wall_ms: i64,
        session: Option<SessionId>,
        credentials: Credentials,
        operation: AuditOperation,
        result: AuditResult,
    ) -> AuditEvent {
        let user = AuditUser::Client(credentials);
        AuditEvent { session, user, ..AuditEvent::of_server(wall_ms, operation, result) }
    }

    /// Bytes of the event in memory, about.
    pub fn size(&self) -> usize {
        let acl = self.acl.as_ref().map_or(0, |acl| acl.iter().map(|entry| entry.id.encoded_length()).sum());
        size_of::<AuditEvent>() + self.path.as_ref().map_or(0, |path| path.len()) + acl
    }
}
