//! The `ip` scheme: addresses and networks. Addresses are written as the Java runtime writes them,
//! because they are stored in ACLs and shown to clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as a credential: IPv6 in eight uncompressed groups; an IPv4-mapped IPv6 address is IPv4.
pub fn ip_text(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|group| format!("{group:x}")).join(":"),
    }
}

/// Whether `id` is an address or a network.
pub(super) fn is_valid(id: &str) -> bool {
    IpNetwork::parse(id).is_some()
}

/// Whether the address is in the network. Both must be of one family.
pub(super) fn matches(credential: &str, network: &str) -> bool {
    let (Some(address), Some(network)) = (parse_address(credential), IpNetwork::parse(network)) else {
        return false;
    };
    network.contains(address)
}

/// An address, or all addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    /// Bits that count, never more than an address has.
    bits: u32,
}

impl IpNetwork {
    /// Reads an address or a network such as `10.0.0.0/8`.
    pub fn parse(text: &str) -> Option<IpNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (parse_address(address)?, Some(bits)),
            None => (parse_address(text)?, None),
        };
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse::<i32>().ok().and_then(|bits| u32::try_from(bits).ok())?,
            None => width,
        };
        (bits <= width).then_some(IpNetwork { address, bits })
    }

    /// Whether an address of the same family is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        // A shift by the full width means that no bit counts.
        match (address, self.address) {
            (IpAddr::V4(address), IpAddr::V4(network)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                address.to_bits() & mask == network.to_bits() & mask
            }
            (IpAddr::V6(address), IpAddr::V6(network)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                address.to_bits() & mask == network.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let parts: Vec<u8> = text
        .split('.')
        .map(|part| part.parse::<i32>().ok().and_then(|part| u8::try_from(part).ok()))
        .collect::<Option<_>>()?;
    let octets: [u8; 4] = parts.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_addresses() {
        for (address, text) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "0:0:0:0:0:0:0:1"),
            ("2001:DB8::a", "2001:db8:0:0:0:0:0:a"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
        ] {
            assert_eq!(ip_text(address.parse().unwrap()), text);
        }
    }

    #[test]
    fn valid_ids() {
        for id in
            ["10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "10.0.0.1/32", "::1", "2001:db8::/32", "::/0", "::1/128"]
        {
            assert!(is_valid(id), "{id}");
        }
        let bad = [
            "",
            "10.0.0",
            "10.0.0.0.1",
            "256.0.0.1",
            "-1.0.0.1",
            "a.b.c.d",
            "10.0.0.1/33",
            "10.0.0.1/-1",
            "10.0.0.1.",
            "10.0.0.1/",
            "10.0.0.1/8/9",
            "::1/129",
            "::1::",
            "host",
            "fe80::1%eth0",
        ];
        for id in bad {
            assert!(!is_valid(id), "{id}");
        }
    }

    #[test]
    fn matching() {
        for (credential, id) in [
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3", "10.0.0.0/8"),
            ("10.1.2.3", "10.99.0.0/8"),
            ("192.168.1.77", "192.168.1.64/26"),
            ("1.2.3.4", "0.0.0.0/0"),
            ("0:0:0:0:0:0:0:1", "::1"),
            ("2001:db8:1:0:0:0:0:5", "2001:db8::/32"),
            ("2001:db8:1:0:0:0:0:5", "::/0"),
        ] {
            assert!(matches(credential, id), "{credential} {id}");
        }
        for (credential, id) in [
            ("11.1.2.3", "10.0.0.0/8"),
            ("192.168.1.63", "192.168.1.64/26"),
            ("1.2.3.4", "::/0"),
            ("0:0:0:0:0:0:0:1", "0.0.0.0/0"),
            ("2001:db9:0:0:0:0:0:5", "2001:db8::/32"),
            ("fe80:0:0:0:0:0:0:1%eth0", "::/0"),
            ("1.2.3.4", "nonsense"),
            ("", "0.0.0.0/0"),
        ] {
            assert!(!matches(credential, id), "{credential} {id}");
        }
    }
}
