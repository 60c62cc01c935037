//! Who is at the other end.

use std::net::SocketAddr;

/// The address without the wrapping that a dual-stack socket adds.
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
