//! Formats numbers, dates and socket addresses as Java does, because operators' scripts compare
//! these texts.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `Double.toString`: at least one decimal; scientific below 0.001 and from 10 million on.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        Some(_) | None => text,
    }
}

/// An average with four decimals, rounded half up on the exact value of the double.
pub(crate) fn average(sum: i64, count: i64) -> f64 {
    if count <= 0 {
        return 0.0;
    }
    let quotient = sum as f64 / count as f64;
    // Enough digits that truncation cannot change the fifth one.
    let digits = format!("{:.60}", quotient.abs());
    let Some((whole, decimals)) = digits.split_once('.') else { return quotient };
    let kept: String = format!("{whole}{}", &decimals[..4]);
    let Ok(scaled) = kept.parse::<u128>() else { return quotient };
    let rounded = scaled.saturating_add(u128::from(decimals.as_bytes()[4] >= b'5'));
    let magnitude = rounded as f64 / 10_000.0;
    if quotient < 0.0 { -magnitude } else { magnitude }
}

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
    fn doubles() {
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.4286, "0.4286"),
            (-2.5, "-2.5"),
            (100.0, "100.0"),
            (0.001, "0.001"),
            (0.0005, "5.0E-4"),
            (9_999_999.0, "9999999.0"),
            (10_000_000.0, "1.0E7"),
            (16_308_337.0, "1.6308337E7"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn averages() {
        for (sum, count, text) in [
            (0, 0, "0.0"),
            (0, 5, "0.0"),
            (3, 7, "0.4286"),
            (1, 3, "0.3333"),
            (2, 3, "0.6667"),
            // 0.03125 is exact in binary: half goes up.
            (1, 32, "0.0313"),
            (-1, 32, "-0.0313"),
            (1, 100_000, "0.0"),
            (1, 10_000, "1.0E-4"),
            (99_999, 100_000, "1.0"),
            (i64::MAX, 1, "9.223372036854776E18"),
        ] {
            assert_eq!(double(average(sum, count)), text, "{sum}/{count}");
        }
    }

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
