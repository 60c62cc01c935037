//! Times and sizes, as the command line writes them.

use std::time::Duration;

/// Milliseconds, as the clocks of the backup count.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Splits a number from its unit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse().ok().map(|number| (number, unit))
}

/// Reads a time: 500ms, 10s, 5m, 12h or 30d.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number with its unit: 500ms, 10s, 5m, 12h or 30d".to_owned();
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let milliseconds: u64 = number.checked_mul(unit_ms).ok_or_else(wrong)?;
    if milliseconds == 0 {
        Err("a time of zero has no meaning here".to_owned())
    } else {
        Ok(Duration::from_millis(milliseconds))
    }
}

/// Reads a size: 65536, 64K, 16M or 1G; MiB and the like mean the same.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "a size is a number of bytes, or one with K, M or G".to_owned();
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let factor: u64 = match unit.trim_end_matches("iB") {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(wrong()),
    };
    let bytes = number.checked_mul(factor).ok_or_else(wrong)?;
    if bytes == 0 { Err("a size of zero has no meaning here".to_owned()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(parse_size("16MiB"), Ok(16 << 20));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "M", "16X", "-1", "0", "99999999999999999999", "99999999999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "s", "10", "10y", "0s", "99999999999999999999s", "999999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
