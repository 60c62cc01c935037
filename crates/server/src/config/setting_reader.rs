//! Reads single values of the settings and reports errors with file, line, key, value and the
//! allowed range. A wrong value is reported and the default returned, so that one run finds all
//! errors.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::diagnostics::{ConfigDiagnostics, SettingOrigin};
use super::known_keys::{self, KeyScope};
use super::sources::{RawSetting, RawSettings};

/// The settings and their diagnostics.
pub(super) struct SettingReader<'a> {
    pub(super) settings: &'a RawSettings,
    pub(super) diagnostics: &'a mut ConfigDiagnostics,
}

/// The unit of a number, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) enum NumberUnit {
    Milliseconds,
    Kilobytes,
    Megabytes,
    Bytes,
    Count,
    Port,
}

impl NumberUnit {
    fn suffix(self) -> &'static str {
        match self {
            NumberUnit::Milliseconds => " milliseconds",
            NumberUnit::Kilobytes => " kilobytes",
            NumberUnit::Megabytes => " megabytes",
            NumberUnit::Bytes => " bytes",
            NumberUnit::Count => "",
            NumberUnit::Port => " (a TCP port)",
        }
    }
}

/// The largest number of ZooKeeper's settings.
pub(super) const INT_MAX: i64 = i32::MAX as i64;

impl<'a> SettingReader<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a RawSetting> {
        self.settings.get(key)
    }

    /// The origin of a key, or of the whole configuration.
    pub(super) fn origin(&self, key: &str) -> SettingOrigin {
        self.get(key).map_or_else(|| self.settings.default_origin.clone(), |setting| setting.origin.clone())
    }

    pub(super) fn report_invalid(&mut self, key: &str, setting: &RawSetting, allowed: &str) {
        let text = format!("{key} = \"{}\" is not valid; allowed: {allowed}", setting.value);
        self.diagnostics.error(&setting.origin, text);
    }

    /// A whole number; `None` if it is not set or wrong.
    pub(super) fn number(
        &mut self,
        key: &str,
        allowed: RangeInclusive<i64>,
        unit: NumberUnit,
    ) -> Option<i64> {
        let setting = self.get(key)?;
        let parsed = parse_number(&setting.value);
        let scope = known_keys::find_key(key).map(|known| known.scope);
        if parsed.is_none() && scope.is_some_and(|scope| scope != KeyScope::File) {
            // ZooKeeper ignores the error in keys that it reads as Java properties.
            let text = format!(
                "{key} = \"{}\" is not a number; the default is used, as in ZooKeeper",
                setting.value
            );
            self.diagnostics.warn(&setting.origin, text);
            return None;
        }
        match parsed.filter(|number| allowed.contains(number)) {
            Some(number) => {
                if scope == Some(KeyScope::File) && setting.value.contains(['x', 'X', '#']) {
                    let text = format!(
                        "{key} = \"{}\" is read as {number}; ZooKeeper takes decimal numbers only here and would not \
                         start",
                        setting.value
                    );
                    self.diagnostics.note(&setting.origin, text);
                }
                Some(number)
            }
            None => {
                let (low, high) = (allowed.start(), allowed.end());
                self.report_invalid(key, setting, &format!("{low} to {high}{}", unit.suffix()));
                None
            }
        }
    }

    /// A whole number that fits `u32`, or the default.
    pub(super) fn count(&mut self, key: &str, low: i64, unit: NumberUnit, default: u32) -> u32 {
        let number = self.number(key, low..=INT_MAX, unit);
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
    }

    /// A limit that zero and negative numbers switch off.
    pub(super) fn limit(&mut self, key: &str, unit: NumberUnit, default: Option<u32>) -> Option<u32> {
        match self.number(key, -INT_MAX - 1..=INT_MAX, unit) {
            None => default,
            Some(number) => u32::try_from(number).ok().filter(|&limit| limit > 0),
        }
    }

    /// A time in milliseconds, or the default.
    pub(super) fn millis(&mut self, key: &str, low: i64, default: Duration) -> Duration {
        let number = self.number(key, low..=INT_MAX, NumberUnit::Milliseconds);
        number.and_then(|number| u64::try_from(number).ok()).map_or(default, Duration::from_millis)
    }

    /// A time in milliseconds that zero and negative numbers switch off.
    pub(super) fn optional_millis(&mut self, key: &str, default: Option<Duration>) -> Option<Duration> {
        match self.number(key, -INT_MAX - 1..=INT_MAX, NumberUnit::Milliseconds) {
            None => default,
            Some(number) => {
                u64::try_from(number).ok().filter(|&millis| millis > 0).map(Duration::from_millis)
            }
        }
    }

    /// A decimal number from 0 to 1.
    pub(super) fn fraction(&mut self, key: &str, default: f64) -> f64 {
        let Some(setting) = self.get(key) else { return default };
        match setting.value.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value)) {
            Some(value) => value,
            None => {
                self.report_invalid(key, setting, "a decimal number from 0 to 1");
                default
            }
        }
    }

    /// A switch that accepts only `true` and `false`, in any case.
    pub(super) fn strict_switch(&mut self, key: &str, default: bool) -> bool {
        let Some(setting) = self.get(key) else { return default };
        match parse_switch(&setting.value) {
            Some(value) => value,
            None => {
                self.report_invalid(key, setting, "true or false");
                default
            }
        }
    }

    /// A switch by Java's rule: any value but `true` is false. Other words get a warning.
    pub(super) fn loose_switch(&mut self, key: &str, default: bool) -> bool {
        let Some(setting) = self.get(key) else { return default };
        parse_switch(&setting.value).unwrap_or_else(|| {
            let text = format!("{key} = \"{}\" counts as false; write true or false", setting.value);
            self.diagnostics.warn(&setting.origin, text);
            false
        })
    }

    /// A switch that only one word changes from its default (`forceSync=no`, `skipACL=yes`).
    pub(super) fn is_keyword(&mut self, key: &str, word: &str, other: &str) -> bool {
        let Some(setting) = self.get(key) else { return false };
        if setting.value != word && setting.value != other {
            let text =
                format!("{key} = \"{}\" counts as \"{other}\"; write {word} or {other}", setting.value);
            self.diagnostics.warn(&setting.origin, text);
        }
        setting.value == word
    }
}

fn parse_switch(value: &str) -> Option<bool> {
    match value {
        _ if value.eq_ignore_ascii_case("true") => Some(true),
        _ if value.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Decimal, or hexadecimal as Java properties allow it (`0xfffff`, `#fffff`), with a sign.
pub(super) fn parse_number(value: &str) -> Option<i64> {
    let (negative, digits) = match value.strip_prefix(['-', '+']) {
        Some(digits) => (value.starts_with('-'), digits),
        None => (false, value),
    };
    let hexadecimal = ["0x", "0X", "#"].iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (digits, radix) = hexadecimal.map_or((digits, 10), |digits| (digits, 16));
    // A second sign is not part of a number, although from_str_radix would accept it.
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i64::from_str_radix(digits, radix).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, number) in [
            ("0", Some(0)),
            ("+5", Some(5)),
            ("-1", Some(-1)),
            ("0xfffff", Some(0xf_ffff)),
            ("#10", Some(16)),
            ("-0X10", Some(-16)),
            ("007", Some(7)),
            ("", None),
            ("-", None),
            ("0x", None),
            ("--1", None),
            ("0x-1", None),
            ("1.5", None),
            ("2000 # two seconds", None),
            ("1k", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_number(text), number, "{text:?}");
        }
    }
}
