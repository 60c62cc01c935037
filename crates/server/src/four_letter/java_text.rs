//! Formats dates and socket addresses as Java does, because operators' scripts compare
//! these texts.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `Date.toString` in UTC, of milliseconds since 1970.
pub(crate) fn date(millis: i64) -> String {
    let timestamp = Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    });
    timestamp.to_zoned(TimeZone::UTC).strftime("%a %b %d %H:%M:%S UTC %Y").to_string()
}

/// `InetSocketAddress.toString` of an address without a name: `/10.0.0.7:51422`. IPv6 groups are not
/// shortened; an IPv4 peer of an IPv6 socket shows as IPv4.
pub(crate) fn socket_address(address: SocketAddr) -> String {
    let mut text = String::from("/");
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => text.push_str(&ip.to_string()),
        IpAddr::V6(ip) => {
            text.push('[');
            for (index, group) in ip.segments().iter().enumerate() {
                let colon = if index == 0 { "" } else { ":" };
                let _ = write!(text, "{colon}{group:x}");
            }
            text.push(']');
        }
    }
    let _ = write!(text, ":{}", address.port());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(date(1_784_314_526_123), "Fri Jul 17 18:55:26 UTC 2026");
        assert!(!date(i64::MAX).is_empty() && !date(i64::MIN).is_empty());
    }

    #[test]
    fn addresses() {
        for (address, text) in [
            ("10.0.0.7:51422", "/10.0.0.7:51422"),
            ("[::1]:5", "/[0:0:0:0:0:0:0:1]:5"),
            ("[2001:db8::a0]:5", "/[2001:db8:0:0:0:0:0:a0]:5"),
            ("[::ffff:127.0.0.1]:80", "/127.0.0.1:80"),
        ] {
            assert_eq!(socket_address(address.parse().unwrap()), text);
        }
    }
}
