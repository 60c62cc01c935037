//! Error codes of the client protocol. Clients know exactly these; an invented code breaks
//! them. The last codes answer requests that only Zebu has.

use std::fmt;

use crate::jute::DecodeError;

macro_rules! error_codes {
    ($($(#[$meta:meta])* $name:ident = $code:literal, $java:literal;)*) => {
        /// Why a request was refused.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(i32)]
        pub enum ErrorCode { $($(#[$meta])* $name = $code,)* }

        impl ErrorCode {
            /// All codes, in wire order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The name ZooKeeper's clients print.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$name => $java,)* }
            }

            /// The code of a number on the wire; zero is success and no error.
            pub const fn from_wire(code: i32) -> Option<ErrorCode> {
                match code { $($code => Some(ErrorCode::$name),)* _ => None }
            }
        }
    };
}

error_codes! {
    /// The server has no room on its disk for a larger tree. Java's name is that of its whole group.
    SystemError = -1, "SystemError";
    /// The operation was skipped because another one of the same multi failed.
    RuntimeInconsistency = -2, "RuntimeInconsistency";
    /// Replicas disagree. Never sent.
    DataInconsistency = -3, "DataInconsistency";
    /// Client side: the connection was lost while the request was pending.
    ConnectionLoss = -4, "ConnectionLoss";
    /// The body does not decode, or the server had an unexpected error.
    MarshallingError = -5, "MarshallingError";
    /// Unknown opcode, TTL nodes disabled, reconfiguration of a standalone server.
    Unimplemented = -6, "Unimplemented";
    /// Client side: an operation took too long.
    OperationTimeout = -7, "OperationTimeout";
    /// Bad path, flags, TTL or configuration text.
    BadArguments = -8, "BadArguments";
    /// The session is not tracked. Internal.
    UnknownSession = -12, "UnknownSession";
    /// No quorum of the new configuration is connected.
    NewConfigNoQuorum = -13, "NewConfigNoQuorum";
    /// Another reconfiguration is pending.
    ReconfigInProgress = -14, "ReconfigInProgress";
    /// The node, or the parent on create, does not exist.
    NoNode = -101, "NoNode";
    /// The ACL denies it.
    NoAuth = -102, "NoAuth";
    /// The version given is not the current one.
    BadVersion = -103, "BadVersion";
    /// The parent is ephemeral.
    NoChildrenForEphemerals = -108, "NoChildrenForEphemerals";
    /// The node exists already.
    NodeExists = -110, "NodeExists";
    /// The node has children.
    NotEmpty = -111, "NotEmpty";
    /// The session expired or is being closed.
    SessionExpired = -112, "SessionExpired";
    /// Client side: a bad callback.
    InvalidCallback = -113, "InvalidCallback";
    /// The ACL is empty or names a scheme or id that does not exist.
    InvalidAcl = -114, "InvalidACL";
    /// Authentication was refused; the connection is closed after it.
    AuthFailed = -115, "AuthFailed";
    /// The session has moved to another server. Leads to a close, never sent.
    SessionMoved = -118, "SessionMoved";
    /// A write was sent to a read-only server.
    NotReadOnly = -119, "NotReadOnly";
    /// An ephemeral node on a local session that may not be upgraded.
    EphemeralOnLocalSession = -120, "EphemeralOnLocalSession";
    /// There is no such watch to remove.
    NoWatcher = -121, "NoWatcher";
    /// Client side: a request took too long.
    RequestTimeout = -122, "RequestTimeout";
    /// `reconfigEnabled` is false.
    ReconfigDisabled = -123, "ReconfigDisabled";
    /// The configured authentication is missing; the connection is closed after it.
    SessionClosedRequireSaslAuth = -124, "Session closed because client failed to authenticate";
    /// A hard quota would be exceeded.
    QuotaExceeded = -125, "QuotaExceeded";
    /// The request waited too long in the throttle and was not executed.
    ThrottledOp = -127, "ThrottledOp";
    /// The server cannot prove that it has all transactions of a feed. Of Zebu's own requests only.
    LogPurged = -2301, "LogPurged";
    /// The server has as many feeds as it may have. Of Zebu's own requests only.
    TooManyFeeds = -2302, "TooManyFeeds";
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn wire(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.wire())
    }
}

impl std::error::Error for ErrorCode {}

/// Bytes that do not decode are answered with [`ErrorCode::MarshallingError`].
impl From<DecodeError> for ErrorCode {
    fn from(_: DecodeError) -> ErrorCode {
        ErrorCode::MarshallingError
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_ok_is_no_error() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_wire(code.wire()), Some(code));
        }
        assert_eq!(ErrorCode::from_wire(0), None);
        assert_eq!(ErrorCode::from_wire(-104), None);
        assert_eq!(ErrorCode::NoNode.to_string(), "NoNode (-101)");
    }
}
