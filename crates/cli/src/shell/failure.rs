//! Why a command failed, and the text that a person reads about it: zkCli's own where it has one.

use zebu_client::{Cause, Error, ErrorCode, ErrorKind};

use super::flags::FlagError;

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Error,
}

/// A command that did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The words are not what the command takes: its usage is shown.
    Usage,
    /// There is no such command.
    NotFound,
    /// There is no session.
    NotConnected,
    /// The user stopped it.
    Interrupted,
    /// Lines that say it all.
    Said(Vec<(Stream, String)>),
}

impl Failure {
    /// One line on standard error.
    pub(crate) fn text(line: impl Into<String>) -> Failure {
        Failure::Said(vec![(Stream::Error, line.into())])
    }

    /// One line on standard output, where zkCli prints it.
    pub(crate) fn on_out(line: impl Into<String>) -> Failure {
        Failure::Said(vec![(Stream::Out, line.into())])
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::text(error_text(&error, Some(error.path())))
    }
}

impl From<FlagError> for Failure {
    fn from(error: FlagError) -> Failure {
        Failure::text(error.to_string())
    }
}

/// What is said about an error; `null` stands for a path that is not there, as in zkCli.
pub(crate) fn error_text(error: &Error, path: Option<&str>) -> String {
    match error.kind() {
        ErrorKind::Server(code) | ErrorKind::Transaction { code, .. } => code_text(*code, path),
        ErrorKind::NotSent(cause) | ErrorKind::Ambiguous(cause) => match cause {
            Cause::SessionExpired => code_text(ErrorCode::SessionExpired, path),
            Cause::AuthFailed => code_text(ErrorCode::AuthFailed, path),
            Cause::NotConnected
            | Cause::ConnectionLost
            | Cause::BadReply(_)
            | Cause::Closed
            | Cause::QueueFull => code_text(ErrorCode::ConnectionLoss, path),
        },
        ErrorKind::InvalidPath(_) => super::paths::mistake(error.path()).unwrap_or_else(|| error.to_string()),
        _ => error.to_string(),
    }
}

/// The text of a server's refusal.
pub(crate) fn code_text(code: ErrorCode, path: Option<&str>) -> String {
    let shown = path.unwrap_or("null");
    match code {
        ErrorCode::NoNode => format!("Node does not exist: {shown}"),
        ErrorCode::NodeExists => format!("Node already exists: {shown}"),
        ErrorCode::NotEmpty => format!("Node not empty: {shown}"),
        ErrorCode::NoChildrenForEphemerals => format!("Ephemerals cannot have children: {shown}"),
        ErrorCode::NotReadOnly => format!("Not a read-only call: {shown}"),
        ErrorCode::InvalidAcl => format!("Acl is not valid : {shown}"),
        ErrorCode::NoAuth => format!("Insufficient permission : {shown}"),
        ErrorCode::BadArguments => format!("Arguments are not valid : {shown}"),
        ErrorCode::BadVersion => format!("version No is not valid : {shown}"),
        ErrorCode::QuotaExceeded => format!("Quota has exceeded : {shown}"),
        ErrorCode::ReconfigInProgress => {
            "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)".to_owned()
        }
        ErrorCode::NewConfigNoQuorum => "No quorum of new config is connected and up-to-date with the leader \
             of last commmitted config - try invoking reconfiguration after new servers are connected and synced"
            .to_owned(),
        other => java_message(other, path),
    }
}

/// The general form.
pub(crate) fn java_message(code: ErrorCode, path: Option<&str>) -> String {
    let name = match code {
        ErrorCode::NotEmpty => "Directory not empty",
        ErrorCode::SessionExpired => "Session expired",
        ErrorCode::InvalidCallback => "Invalid callback",
        ErrorCode::SessionMoved => "Session moved",
        ErrorCode::EphemeralOnLocalSession => "Ephemeral node on local session",
        ErrorCode::NoWatcher => "No such watcher",
        ErrorCode::RequestTimeout => "Request timeout",
        ErrorCode::ReconfigDisabled => "Reconfig is disabled",
        other => other.name(),
    };
    match path {
        Some(path) => format!("KeeperErrorCode = {name} for {path}"),
        None => format!("KeeperErrorCode = {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_known_texts() {
        let at = Some("/a");
        assert_eq!(code_text(ErrorCode::NoNode, at), "Node does not exist: /a");
        assert_eq!(code_text(ErrorCode::BadVersion, at), "version No is not valid : /a");
        assert_eq!(code_text(ErrorCode::NoWatcher, at), "KeeperErrorCode = No such watcher for /a");
        assert_eq!(code_text(ErrorCode::ReconfigDisabled, None), "KeeperErrorCode = Reconfig is disabled");
        assert_eq!(code_text(ErrorCode::InvalidAcl, None), "Acl is not valid : null");
        assert_eq!(code_text(ErrorCode::ConnectionLoss, at), "KeeperErrorCode = ConnectionLoss for /a");
    }
}
