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
    /// A server refused it, or no server could be asked.
    Refused {
        /// The name of the error.
        code: &'static str,
        path: Option<String>,
        lines: Vec<(Stream, String)>,
    },
}

/// The code of an error that is not a server's.
const NO_CODE: &str = "Failed";

impl Failure {
    /// One line on standard error.
    pub(crate) fn text(line: impl Into<String>) -> Failure {
        Failure::Said(vec![(Stream::Error, line.into())])
    }

    /// One line on standard output, where zkCli prints it.
    pub(crate) fn on_out(line: impl Into<String>) -> Failure {
        Failure::Said(vec![(Stream::Out, line.into())])
    }

    /// A server's refusal.
    pub(crate) fn refused(code: ErrorCode, path: &str) -> Failure {
        let lines = vec![(Stream::Error, code_text(code, Some(path)))];
        Failure::Refused { code: code.name(), path: Some(path.to_owned()), lines }
    }

    /// An error of the client; `None` stands for a path that is not there.
    pub(crate) fn of(error: &Error, path: Option<&str>) -> Failure {
        let mut lines = vec![(Stream::Error, error_text(error, path))];
        if let ErrorKind::NotSent(Cause::SaslRefused(refusal)) = error.kind() {
            lines.push((Stream::Error, refusal.to_string()));
        }
        match code_of(error) {
            Some(code) => Failure::Refused { code: code.name(), path: path.map(str::to_owned), lines },
            None => Failure::Said(lines),
        }
    }

    /// The code and the text of it, for scripts.
    pub(crate) fn summary(&self) -> (&'static str, String) {
        let text = |lines: &[(Stream, String)]| {
            lines.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
        };
        match self {
            Failure::Usage => ("Usage", "the words are not what the command takes".to_owned()),
            Failure::NotFound => ("NoSuchCommand", "there is no such command".to_owned()),
            Failure::NotConnected => ("NotConnected", "Not connected".to_owned()),
            Failure::Interrupted => ("Interrupted", "interrupted".to_owned()),
            Failure::Said(lines) => (NO_CODE, text(lines)),
            Failure::Refused { code, lines, .. } => (code, text(lines)),
        }
    }

    /// The node that it is about.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Failure::Refused { path, .. } => path.as_deref(),
            Failure::Usage
            | Failure::NotFound
            | Failure::NotConnected
            | Failure::Interrupted
            | Failure::Said(_) => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::of(&error, Some(error.path()))
    }
}

impl From<FlagError> for Failure {
    fn from(error: FlagError) -> Failure {
        Failure::text(error.to_string())
    }
}

/// The error as a server would name it.
fn code_of(error: &Error) -> Option<ErrorCode> {
    match error.kind() {
        ErrorKind::Server(code) | ErrorKind::Transaction { code, .. } => Some(*code),
        ErrorKind::NotSent(cause) | ErrorKind::Ambiguous(cause) => Some(match cause {
            Cause::SessionExpired => ErrorCode::SessionExpired,
            Cause::AuthFailed | Cause::SaslRefused(_) => ErrorCode::AuthFailed,
            Cause::NotConnected
            | Cause::ConnectionLost
            | Cause::BadReply(_)
            | Cause::Closed
            | Cause::QueueFull => ErrorCode::ConnectionLoss,
        }),
        _ => None,
    }
}

/// The text of an error; `null` stands for a missing path, as in zkCli.
pub(crate) fn error_text(error: &Error, path: Option<&str>) -> String {
    if let Some(code) = code_of(error) {
        return code_text(code, path);
    }
    match error.kind() {
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
