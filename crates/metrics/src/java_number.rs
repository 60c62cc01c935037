//! Numbers as Java prints them, because scripts of operators compare these texts.

/// `Double.toString`: at least one decimal; scientific below 0.001 and from 10 million on.
pub fn double(value: f64) -> String {
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
pub fn average(sum: i64, count: i64) -> f64 {
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
}
