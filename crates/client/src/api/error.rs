//! The error type of this crate: operation, path, server and reason. It always says whether a write may have
//! been carried out.

use std::fmt;
use std::sync::Arc;

use zebu_proto::ErrorCode;

use crate::core::{CallFailure, Cause, Delivery};
use crate::path::PathError;

/// The reason of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server refused it.
    Server(ErrorCode),
    /// The server refused it with an unknown code.
    UnknownCode(i32),
    /// No byte was sent: it was not carried out, and repeating it is safe.
    NotSent(Cause),
    /// It was sent without a reply: it was carried out once or not at all. Before a write is repeated, read
    /// the state.
    Ambiguous(Cause),
    /// The path is invalid; nothing was sent.
    InvalidPath(PathError),
    /// The options contradict each other; nothing was sent.
    InvalidOptions(&'static str),
    /// Larger than servers accept; nothing was sent.
    TooLarge {
        /// The size of the request in bytes.
        size: usize,
        /// The limit of the client.
        limit: usize,
    },
    /// The reply does not decode.
    BadReply(Arc<str>),
    /// The data does not decompress.
    BadCompression(Arc<str>),
    /// The connected server, or its leader, cannot answer a read as fresh as requested. Nothing was read. A
    /// sync before a plain read is the best that every server can do.
    UnsupportedFreshness,
    /// An operation of a transaction failed; the transaction had no effect.
    Transaction {
        /// The index of the operation, from zero.
        index: usize,
        /// The error code.
        code: ErrorCode,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Context {
    kind: ErrorKind,
    operation: &'static str,
    path: Box<str>,
    server: Option<Arc<str>>,
    /// The last failed attempt to connect, if there was no connection.
    last_error: Option<Arc<str>>,
}

/// The error of a failed call.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_client::ErrorCode;
///
/// match client.set("/counter", "8").await {
///     Ok(_) => {}
///     Err(error) if error.code() == Some(ErrorCode::NoNode) => println!("no counter yet"),
///     Err(error) if error.is_ambiguous() => println!("read it back: {error}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Context>);

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: &'static str, path: &str) -> Error {
        Error(Box::new(Context { kind, operation, path: path.into(), server: None, last_error: None }))
    }

    pub(crate) fn from_failure(failure: CallFailure, operation: &'static str, path: &str) -> Error {
        let kind = match failure.delivery {
            Delivery::NotSent => ErrorKind::NotSent(failure.cause),
            Delivery::Sent => ErrorKind::Ambiguous(failure.cause),
        };
        Error(Box::new(Context {
            kind,
            operation,
            path: path.into(),
            server: failure.server,
            last_error: None,
        }))
    }

    pub(crate) fn from_code(code: i32, operation: &'static str, path: &str, server: &Arc<str>) -> Error {
        let kind = ErrorCode::from_wire(code).map_or(ErrorKind::UnknownCode(code), ErrorKind::Server);
        Error(Box::new(Context {
            kind,
            operation,
            path: path.into(),
            server: Some(server.clone()),
            last_error: None,
        }))
    }

    pub(crate) fn with_server(mut self, server: &Arc<str>) -> Error {
        self.0.server = Some(server.clone());
        self
    }

    pub(crate) fn with_last_error(mut self, last_error: Option<Arc<str>>) -> Error {
        self.0.last_error = last_error;
        self
    }

    /// The reason.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The server's error code, of a single call or of the failed operation of a transaction.
    pub fn code(&self) -> Option<ErrorCode> {
        match self.0.kind {
            ErrorKind::Server(code) | ErrorKind::Transaction { code, .. } => Some(code),
            _ => None,
        }
    }

    /// The operation.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The path of the caller; empty for calls without one.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The server that refused it, or to which the connection was lost.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// Whether the server may have carried it out without a reply.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Ambiguous(_))
    }

    /// Whether it was never sent, and thus not carried out.
    pub fn is_not_sent(&self) -> bool {
        matches!(self.0.kind, ErrorKind::NotSent(_))
    }

    /// Whether the server cannot answer a read as fresh as requested.
    pub fn is_unsupported_freshness(&self) -> bool {
        matches!(self.0.kind, ErrorKind::UnsupportedFreshness)
    }

    /// Whether the session has ended: its ephemeral nodes and one-shot watches are gone.
    pub fn is_session_fatal(&self) -> bool {
        match &self.0.kind {
            ErrorKind::Server(code) => matches!(code, ErrorCode::SessionExpired | ErrorCode::AuthFailed),
            ErrorKind::NotSent(cause) | ErrorKind::Ambiguous(cause) => {
                matches!(
                    cause,
                    Cause::SessionExpired | Cause::AuthFailed | Cause::SaslRefused(_) | Cause::Closed
                )
            }
            _ => false,
        }
    }

    /// Whether the client has ended.
    pub(crate) fn is_final(&self) -> bool {
        match &self.0.kind {
            ErrorKind::NotSent(cause) | ErrorKind::Ambiguous(cause) => {
                matches!(cause, Cause::AuthFailed | Cause::SaslRefused(_) | Cause::Closed)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = &*self.0;
        write!(f, "{}", context.operation)?;
        if !context.path.is_empty() {
            write!(f, " {}", context.path)?;
        }
        match &context.kind {
            ErrorKind::Server(code) => write!(f, ": {code}")?,
            ErrorKind::UnknownCode(code) => write!(f, ": unknown error code {code}")?,
            ErrorKind::NotSent(cause) => write!(f, ": not sent, so not carried out: {cause}")?,
            ErrorKind::Ambiguous(cause) => write!(f, ": sent, and may have been carried out: {cause}")?,
            ErrorKind::InvalidPath(reason) => write!(f, ": not a path: {reason}")?,
            ErrorKind::InvalidOptions(reason) => write!(f, ": {reason}")?,
            ErrorKind::TooLarge { size, limit } => {
                write!(f, ": {size} bytes are more than the {limit} that servers accept in one request")?;
            }
            ErrorKind::BadReply(what) => write!(f, ": the reply does not decode: {what}")?,
            ErrorKind::BadCompression(what) => write!(f, ": the data does not decompress: {what}")?,
            ErrorKind::UnsupportedFreshness => {
                write!(
                    f,
                    ": the server or its leader cannot answer a read this fresh; use sync and a plain read"
                )?;
            }
            ErrorKind::Transaction { index, code } => write!(f, ": operation {index} failed: {code}")?,
        }
        match (&context.server, &context.last_error) {
            (Some(server), _) => write!(f, " (server {server})"),
            (None, Some(last_error)) => write!(f, " (the last failure was {last_error})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_why_and_who() {
        let server: Arc<str> = "zk1:2181".into();
        let error = Error::from_code(-101, "set", "/a", &server);
        assert_eq!(error.to_string(), "set /a: NoNode (-101) (server zk1:2181)");
        assert_eq!(error.code(), Some(ErrorCode::NoNode));
        let failure = CallFailure {
            cause: Cause::ConnectionLost,
            delivery: Delivery::Sent,
            server: Some(server.clone()),
        };
        let error = Error::from_failure(failure, "create", "/b");
        assert!(error.is_ambiguous() && !error.is_not_sent() && !error.is_session_fatal());
        assert_eq!(
            error.to_string(),
            "create /b: sent, and may have been carried out: the connection was lost (server zk1:2181)"
        );
        assert_eq!(Error::from_code(-77, "get", "/", &server).kind(), &ErrorKind::UnknownCode(-77));
    }
}
