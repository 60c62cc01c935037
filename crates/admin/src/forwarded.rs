//! The address of a client behind a proxy: the last entry of X-Forwarded-For, if a trusted proxy sent it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use zebu_tree::access::IpNetwork;

const HEADER: &str = "x-forwarded-for";

/// The proxies whose header is believed. A client can write any other entry itself.
#[derive(Clone, Debug)]
pub(crate) struct TrustedProxies(Arc<[IpNetwork]>);

impl TrustedProxies {
    /// A port without proxies.
    pub(crate) fn none() -> TrustedProxies {
        TrustedProxies::new(&[])
    }

    pub(crate) fn new(networks: &[IpNetwork]) -> TrustedProxies {
        TrustedProxies(networks.into())
    }

    /// The client's address for a request of a connection from `peer`; the peer's without a usable entry.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.0.iter().any(|network| network.contains(peer)) {
            return peer;
        }
        let last = headers.get_all(HEADER).iter().next_back().and_then(|value| value.to_str().ok());
        let entry = last.and_then(|value| value.rsplit(',').next()).map(str::trim);
        entry.and_then(|entry| entry.parse().ok()).map_or(peer, |address: IpAddr| address.to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn seen(peer: &str, entries: &[&'static str]) -> String {
        let networks = ["10.0.0.0/8", "fd00::1"].map(|text| IpNetwork::parse(text).unwrap());
        let mut headers = HeaderMap::new();
        for entry in entries {
            headers.append(HEADER, HeaderValue::from_static(entry));
        }
        let proxies = TrustedProxies::new(&networks);
        proxies.client_address(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn the_last_entry_of_a_trusted_proxy_counts() {
        assert_eq!(seen("10.1.2.3", &["1.1.1.1, 192.0.2.7 "]), "192.0.2.7");
        assert_eq!(seen("10.1.2.3", &["1.1.1.1", "2001:db8::7"]), "2001:db8::7");
        assert_eq!(seen("fd00::1", &["::ffff:192.0.2.7"]), "192.0.2.7");
    }

    #[test]
    fn other_hosts_and_broken_entries_leave_the_address_of_the_connection() {
        assert_eq!(seen("192.0.2.1", &["192.0.2.7"]), "192.0.2.1");
        for entries in [&[][..], &[""], &["192.0.2.7, unknown"], &["192.0.2.7:443"], &["192.0.2.7,"]] {
            assert_eq!(seen("10.1.2.3", entries), "10.1.2.3", "{entries:?}");
        }
    }
}
