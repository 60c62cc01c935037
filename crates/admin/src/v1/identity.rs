//! The identity of a caller: its address, its certificate and the header `Authorization`.
//!
//! `Basic` is the scheme digest with its user and password. ZooKeeper's form `<scheme> <data>`, which the
//! admin commands take, is understood, too.

use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zebu_server::views::{CallerIdentity, ServerViews};
use zebu_tree::Credentials;

use super::problem::{CallerAuth, Problem};
use crate::authorization::Caller;

/// The identities of a caller.
#[derive(Clone, Debug)]
pub(crate) struct CallerIds {
    pub(crate) credentials: Credentials,
    pub(crate) auth: CallerAuth,
}

impl CallerIds {
    /// Identities that a login proved.
    pub(crate) fn shown(credentials: Credentials) -> CallerIds {
        CallerIds { credentials, auth: CallerAuth::Shown }
    }

    /// A caller that did not log in.
    pub(crate) fn missing(credentials: Credentials) -> CallerIds {
        CallerIds { credentials, auth: CallerAuth::Missing }
    }
}

/// A scheme and its data.
#[derive(Debug, PartialEq, Eq)]
struct AuthHeader {
    scheme: String,
    data: Option<String>,
}

/// Finds out who calls.
pub(crate) fn identify(
    views: &ServerViews,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<CallerIds, Problem> {
    let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "AUTHFAILED", detail);
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let header = match (values.next(), values.next()) {
        (None, _) => None,
        (Some(value), None) => {
            let text = std::str::from_utf8(value.as_bytes()).ok();
            let parsed = text.and_then(parse_header);
            Some(parsed.ok_or_else(|| refused("the header Authorization cannot be read"))?)
        }
        (Some(_), Some(_)) => return Err(refused("there are two headers Authorization")),
    };
    let identity = CallerIdentity {
        address: caller.address,
        certificate: caller.certificate.as_deref(),
        auth: header.as_ref().map(|header| (header.scheme.as_str(), header.data.as_deref())),
    };
    let credentials = views
        .caller_credentials(&identity)
        .ok_or_else(|| refused("the header Authorization proves no identity"))?;
    let is_shown = header.is_some() || caller.certificate.is_some();
    let auth = if is_shown { CallerAuth::Shown } else { CallerAuth::Missing };
    Ok(CallerIds { credentials, auth })
}

fn parse_header(value: &str) -> Option<AuthHeader> {
    let (scheme, data) = match value.trim().split_once(' ') {
        Some((scheme, data)) => (scheme, Some(data.trim())),
        None => (value.trim(), None),
    };
    if scheme.eq_ignore_ascii_case("basic") {
        let bytes = STANDARD.decode(data?).ok()?;
        let text = String::from_utf8(bytes).ok().filter(|text| text.contains(':'))?;
        return Some(AuthHeader { scheme: "digest".to_owned(), data: Some(text) });
    }
    Some(AuthHeader { scheme: scheme.to_owned(), data: data.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_is_the_scheme_digest() {
        let header = |scheme: &str, data: Option<&str>| {
            Some(AuthHeader { scheme: scheme.to_owned(), data: data.map(str::to_owned) })
        };
        assert_eq!(parse_header("Basic YTpi"), header("digest", Some("a:b")));
        assert_eq!(parse_header("basic YTpiOmM="), header("digest", Some("a:b:c")));
        assert_eq!(parse_header("digest a:b"), header("digest", Some("a:b")));
        assert_eq!(parse_header("x509"), header("x509", None));
        for bad in ["Basic", "Basic !", "Basic YQ==", "Basic /w=="] {
            assert_eq!(parse_header(bad), None, "{bad}");
        }
    }
}
