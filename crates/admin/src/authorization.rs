//! Who a caller is: the header `Authorization: <scheme> [<data>]` with ZooKeeper's schemes, and the decision
//! about a command.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, header};
use zebu_server::views::{RootAccess, ServerViews};

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

/// Checks the right to run a command.
pub(crate) fn check_access(
    views: &ServerViews,
    caller: &Caller,
    headers: &HeaderMap,
    need: AccessNeed,
) -> Result<(), AccessError> {
    if need == AccessNeed::Open {
        return Ok(());
    }
    let value = headers.get(header::AUTHORIZATION).ok_or(AccessError::Missing)?;
    let (scheme, data) = value.to_str().ok().and_then(parse_header).ok_or(AccessError::NotAuthenticated)?;
    let credentials = views.authenticate(scheme, data, caller.address, caller.certificate.as_deref());
    let credentials = credentials.ok_or(AccessError::NotAuthenticated)?;
    match (views.root_access(&credentials), need) {
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
