//! The address of a client.

use std::net::SocketAddr;

/// Returns the IPv4 address of a client that a dual-stack socket shows as a mapped IPv6 address.
pub(super) fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_peer_of_a_dual_stack_socket_is_an_ipv4_peer() {
        let mapped = "[::ffff:10.0.0.7]:99".parse().unwrap();
        assert_eq!(canonical(mapped).to_string(), "10.0.0.7:99");
    }
}
