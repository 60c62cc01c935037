//! Who a caller is: the header `Authorization: <scheme> [<data>]` with ZooKeeper's schemes, and the decision
//! about a command.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, header};
use zebu_server::views::{RootAccess, ServerViews};
use zebu_tree::Credentials;

use crate::command::AccessNeed;

/// Why a command is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessError {
    /// There is no header.
    Missing,
    /// The header proves no identity.
    NotAuthenticated,
    /// The identity has not the right.
    NotAuthorized,
}

impl AccessError {
    /// The status of the answer.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            AccessError::Missing | AccessError::NotAuthenticated => StatusCode::UNAUTHORIZED,
            AccessError::NotAuthorized => StatusCode::FORBIDDEN,
        }
    }

    /// ZooKeeper's text.
    pub(crate) fn text(self) -> &'static str {
        match self {
            AccessError::Missing => "Auth info is missing for the command",
            AccessError::NotAuthenticated => "Not authenticated",
            AccessError::NotAuthorized => "Not authorized",
        }
    }
}

/// The caller's connection.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Its address.
    pub(crate) address: IpAddr,
    /// The id of its certificate, if it showed one.
    pub(crate) certificate: Option<String>,
    /// Whether the connection uses TLS.
    pub(crate) is_secure: bool,
}

/// The identity of a caller, and whether it may run a command.
pub(crate) struct CheckedCaller {
    /// Its address and the ids that it has proven.
    pub(crate) credentials: Credentials,
    pub(crate) access: Result<(), AccessError>,
}

/// Checks the right to run a command.
pub(crate) fn check_access(
    views: &ServerViews,
    caller: &Caller,
    headers: &HeaderMap,
    need: AccessNeed,
) -> CheckedCaller {
    let mut credentials = Credentials::of_peer(caller.address);
    let access = match need {
        AccessNeed::Open => Ok(()),
        AccessNeed::WholeState | AccessNeed::SuperUser => {
            prove_identity(views, caller, headers).and_then(|proven| {
                let access = check_right(views, &proven, need);
                proven.iter().for_each(|id| credentials.add(id.clone()));
                access
            })
        }
    };
    CheckedCaller { credentials, access }
}

/// The credentials that the header proves. They decide alone: the address gives no right to the whole state.
fn prove_identity(
    views: &ServerViews,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Credentials, AccessError> {
    let value = headers.get(header::AUTHORIZATION).ok_or(AccessError::Missing)?;
    let (scheme, data) = value.to_str().ok().and_then(parse_header).ok_or(AccessError::NotAuthenticated)?;
    let credentials = views.authenticate(scheme, data, caller.address, caller.certificate.as_deref());
    credentials.ok_or(AccessError::NotAuthenticated)
}

fn check_right(views: &ServerViews, proven: &Credentials, need: AccessNeed) -> Result<(), AccessError> {
    match (views.root_access(proven), need) {
        (RootAccess::Super, _) | (RootAccess::Named, AccessNeed::WholeState | AccessNeed::Open) => Ok(()),
        (RootAccess::Named, AccessNeed::SuperUser) | (RootAccess::Refused, _) => {
            Err(AccessError::NotAuthorized)
        }
    }
}

/// Splits at single blanks, as ZooKeeper does: one or two parts. A trailing blank adds no part.
fn parse_header(value: &str) -> Option<(&str, Option<&str>)> {
    let parts: Vec<&str> = value.trim_end_matches(' ').split(' ').collect();
    match parts[..] {
        [scheme] => Some((scheme, None)),
        [scheme, data] => Some((scheme, Some(data))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_one_or_two_parts() {
        assert_eq!(parse_header("ip"), Some(("ip", None)));
        assert_eq!(parse_header("digest a:b"), Some(("digest", Some("a:b"))));
        assert_eq!(parse_header("digest a:b c"), None);
        assert_eq!(parse_header("digest  a:b"), None);
    }
}
