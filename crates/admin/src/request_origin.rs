//! Protects a port on loopback from web pages: requests of other origins, and names that a foreign DNS server
//! points at this machine.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OriginError {
    #[error(
        "the name in the Host header is not allowed here; use an address, localhost or admin.allowedHosts"
    )]
    Host,
    #[error("a page of another origin must not use this server")]
    Origin,
}

/// Which names the Host header may hold.
#[derive(Clone, Debug)]
pub(crate) enum HostRule {
    /// Every name.
    Any,
    /// Addresses, `localhost` and these names.
    Local(Vec<String>),
}

/// Checks the headers of a request.
pub(crate) fn check_origin(headers: &HeaderMap, rule: &HostRule) -> Result<(), OriginError> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST);
    if let (HostRule::Local(names), Some(host)) = (rule, host)
        && !is_local(host_name(host), names)
    {
        return Err(OriginError::Host);
    }
    let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
    if site.is_some_and(|site| site == "cross-site" || site == "same-site") {
        return Err(OriginError::Origin);
    }
    match text(header::ORIGIN) {
        Some(origin) => {
            let own = origin.split_once("://").map(|(_, authority)| authority);
            if own.is_some() && own == host { Ok(()) } else { Err(OriginError::Origin) }
        }
        None => Ok(()),
    }
}

/// The host without its port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

fn is_local(name: &str, names: &[String]) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok() || name == "localhost" || names.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_local_port_answers_to_local_names() {
        let local = HostRule::Local(vec!["zk1".to_owned()]);
        for host in ["127.0.0.1:8080", "127.0.0.1", "[::1]:8080", "localhost:8080", "LOCALHOST.", "zk1:8080"]
        {
            assert_eq!(check_origin(&headers(&[("host", host)]), &local), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", ""] {
            assert_eq!(check_origin(&headers(&[("host", host)]), &local), Err(OriginError::Host), "{host}");
        }
        assert_eq!(check_origin(&headers(&[("host", "evil.example")]), &HostRule::Any), Ok(()));
        assert_eq!(check_origin(&headers(&[]), &local), Ok(()));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let any = HostRule::Any;
        let cases: [(&[(&str, &str)], bool); 6] = [
            (&[("host", "zk1:8080"), ("origin", "http://zk1:8080")], true),
            (&[("host", "zk1:8080"), ("origin", "http://evil.example")], false),
            (&[("host", "zk1:8080"), ("origin", "null")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
        ];
        for (pairs, passes) in cases {
            let map: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap()))
                .collect();
            assert_eq!(check_origin(&map, &any).is_ok(), passes, "{pairs:?}");
        }
    }
}
