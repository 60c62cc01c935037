//! Resolves host names and IP literals of the configuration to socket addresses. Supports zones
//! (`fe80::1%eth0`) for all addresses, where the system's resolver supports only link-local ones.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

/// All addresses of a host (name or literal, without brackets) at a port. Blocks during name
/// lookups.
///
/// # Errors
/// The name does not resolve, or its zone is no interface of this machine.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match split_zone(host) {
        Some((address, zone)) => {
            let index = zone_index(zone)?;
            Ok(vec![SocketAddr::V6(SocketAddrV6::new(address, port, 0, index))])
        }
        None => {
            let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
            match found.is_empty() {
                true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
                false => Ok(found),
            }
        }
    }
}

/// The address of a literal, or `None` for a name, which is not looked up. `index` returns the
/// index of an interface.
///
/// # Errors
/// The zone is no interface of this machine.
pub(crate) fn parse_literal(
    host: &str,
    port: u16,
    index: impl FnOnce(&str) -> io::Result<u32>,
) -> Option<io::Result<SocketAddr>> {
    if let Some((address, zone)) = split_zone(host) {
        return Some(index(zone).map(|index| SocketAddr::V6(SocketAddrV6::new(address, port, 0, index))));
    }
    host.parse::<IpAddr>().ok().map(|address| Ok(SocketAddr::new(address, port)))
}

/// The address on which a single listener opens a name: IPv4 if there is one, as in Java.
pub(crate) fn prefer_ipv4(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()).copied()
}

/// Splits an IPv6 literal with a zone.
fn split_zone(host: &str) -> Option<(Ipv6Addr, &str)> {
    let (address, zone) = host.split_once('%')?;
    let address = address.parse().ok()?;
    (!zone.is_empty()).then_some((address, zone))
}

/// The index of a network interface; a zone may be the index itself.
pub(crate) fn zone_index(zone: &str) -> io::Result<u32> {
    if let Ok(index) = zone.parse() {
        return Ok(index);
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    netdevice::name_to_index(&socket, zone).map_err(|error| {
        io::Error::new(
            io::Error::from(error).kind(),
            format!("{zone} is no network interface of this machine"),
        )
    })
}

/// Formats a host and a port; IPv6 literals get brackets.
pub(crate) fn format_host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_the_number_of_an_interface() {
        let found = resolve("::1%lo", 2181).unwrap();
        let [SocketAddr::V6(address)] = found[..] else { panic!("{found:?}") };
        assert_eq!((address.ip(), address.port()), (&Ipv6Addr::LOCALHOST, 2181));
        assert_eq!(address.scope_id(), zone_index("lo").unwrap());
        assert_ne!(address.scope_id(), 0);
        let numbered = resolve("fe80::1%7", 1).unwrap();
        assert!(matches!(numbered[..], [SocketAddr::V6(address)] if address.scope_id() == 7));
        let error = resolve("::1%no-such-if", 1).unwrap_err();
        assert_eq!(error.to_string(), "no-such-if is no network interface of this machine");
    }

    #[test]
    fn literals_and_names() {
        assert_eq!(resolve("127.0.0.1", 5).unwrap(), ["127.0.0.1:5".parse().unwrap()]);
        assert_eq!(resolve("::1", 5).unwrap(), ["[::1]:5".parse().unwrap()]);
        assert!(resolve("127.0.0.1%lo", 5).is_err());
        let known = |zone: &str| if zone == "eth9" { Ok(9) } else { Err(io::ErrorKind::NotFound.into()) };
        let zoned = parse_literal("fe80::2%eth9", 7, known).unwrap().unwrap();
        assert_eq!(zoned.to_string(), "[fe80::2%9]:7");
        assert!(parse_literal("fe80::2%eth8", 7, known).unwrap().is_err());
        assert!(parse_literal("a-name", 7, known).is_none());
        assert_eq!(format_host_port("fe80::2%eth9", 7), "[fe80::2%eth9]:7");
        assert_eq!(format_host_port("zk1", 7), "zk1:7");
        let both = ["[::1]:1", "127.0.0.1:1"].map(|address| address.parse().unwrap());
        assert_eq!((prefer_ipv4(&both), prefer_ipv4(&both[..1])), (Some(both[1]), Some(both[0])));
    }
}
