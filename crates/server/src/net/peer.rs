//! Who is at the other end, in the words that ACLs use.

use std::net::{IpAddr, SocketAddr};

use zebu_proto::Id;
use zebu_tree::Credentials;

/// The address without the wrapping that a dual-stack socket adds.
pub(super) fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// The credentials of every connection before it authenticates: its address.
pub(super) fn credentials(peer: SocketAddr) -> Credentials {
    let mut credentials = Credentials::default();
    credentials.add(Id::new("ip", address_text(peer.ip())));
    credentials
}

/// An address as Java writes it: IPv6 as eight groups without compression.
pub(crate) fn address_text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let groups: Vec<String> = address.segments().iter().map(|group| format!("{group:x}")).collect();
            groups.join(":")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_java_writes_them() {
        assert_eq!(address_text("::1".parse().unwrap()), "0:0:0:0:0:0:0:1");
        assert_eq!(address_text("127.0.0.1".parse().unwrap()), "127.0.0.1");
        let mapped = "[::ffff:10.0.0.7]:99".parse().unwrap();
        assert_eq!(canonical(mapped).to_string(), "10.0.0.7:99");
    }
}
