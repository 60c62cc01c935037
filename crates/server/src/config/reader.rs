//! Reads single values out of the settings and says what is wrong with them: file, line, key, value and what
//! is allowed. A wrong value is reported and the default returned, so that one run finds all mistakes.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::findings::{Findings, Origin};
use super::known::{self, Scope};
use super::sources::{Setting, Settings};

/// The settings and the list of what is wrong with them.
pub(super) struct Reader<'a> {
    pub(super) settings: &'a Settings,
    pub(super) findings: &'a mut Findings,
}

/// What a number counts; said in messages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    Milliseconds,
    Kilobytes,
    Bytes,
    Count,
    Port,
}

impl Unit {
    fn suffix(self) -> &'static str {
        match self {
            Unit::Milliseconds => " milliseconds",
            Unit::Kilobytes => " kilobytes",
            Unit::Bytes => " bytes",
            Unit::Count => "",
            Unit::Port => " (a TCP port)",
        }
    }
}

/// The largest number that ZooKeeper's settings hold.
pub(super) const MAX: i64 = i32::MAX as i64;

impl<'a> Reader<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a Setting> {
        self.settings.get(key)
    }

    /// Where a key was set, or the configuration as a whole.
    pub(super) fn origin(&self, key: &str) -> Origin {
        self.get(key).map_or_else(|| self.settings.whole.clone(), |setting| setting.origin.clone())
    }

    pub(super) fn wrong(&mut self, key: &str, setting: &Setting, allowed: &str) {
        let text = format!("{key} = \"{}\" is not valid; allowed: {allowed}", setting.value);
        self.findings.error(&setting.origin, text);
    }

    /// A whole number, `None` if it was not set or is wrong.
    pub(super) fn number(&mut self, key: &str, allowed: RangeInclusive<i64>, unit: Unit) -> Option<i64> {
        let setting = self.get(key)?;
        let parsed = parse_number(&setting.value);
        let scope = known::find(key).map(|known| known.scope);
        if parsed.is_none() && scope.is_some_and(|scope| scope != Scope::File) {
            // ZooKeeper forgives it in keys that it reads as Java properties.
            let text = format!(
                "{key} = \"{}\" is not a number; the default is used, as in ZooKeeper",
                setting.value
            );
            self.findings.warn(&setting.origin, text);
            return None;
        }
        match parsed.filter(|number| allowed.contains(number)) {
            Some(number) => {
                if scope == Some(Scope::File) && setting.value.contains(['x', 'X', '#']) {
                    let text = format!(
                        "{key} = \"{}\" is read as {number}; ZooKeeper takes decimal numbers only here and would not \
                         start",
                        setting.value
                    );
                    self.findings.note(&setting.origin, text);
                }
                Some(number)
            }
            None => {
                let (low, high) = (allowed.start(), allowed.end());
                self.wrong(key, setting, &format!("{low} to {high}{}", unit.suffix()));
                None
            }
        }
    }

    /// A whole number that fits `u32`, or the default.
    pub(super) fn count(&mut self, key: &str, low: i64, unit: Unit, default: u32) -> u32 {
        let number = self.number(key, low..=MAX, unit);
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
    }

    /// A limit that zero and negative numbers switch off.
    pub(super) fn limit(&mut self, key: &str, unit: Unit, default: Option<u32>) -> Option<u32> {
        match self.number(key, -MAX - 1..=MAX, unit) {
            None => default,
            Some(number) => u32::try_from(number).ok().filter(|&limit| limit > 0),
        }
    }

    /// A time in milliseconds, or the default.
    pub(super) fn millis(&mut self, key: &str, low: i64, default: Duration) -> Duration {
        let number = self.number(key, low..=MAX, Unit::Milliseconds);
        number.and_then(|number| u64::try_from(number).ok()).map_or(default, Duration::from_millis)
    }

    /// A time in milliseconds that zero and negative numbers switch off.
    pub(super) fn optional_millis(&mut self, key: &str, default: Option<Duration>) -> Option<Duration> {
        match self.number(key, -MAX - 1..=MAX, Unit::Milliseconds) {
            None => default,
            Some(number) => {
                u64::try_from(number).ok().filter(|&millis| millis > 0).map(Duration::from_millis)
            }
        }
    }

    /// A share or step: a decimal number from 0 to 1.
    pub(super) fn fraction(&mut self, key: &str, default: f64) -> f64 {
        let Some(setting) = self.get(key) else { return default };
        match setting.value.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value)) {
            Some(value) => value,
            None => {
                self.wrong(key, setting, "a decimal number from 0 to 1");
                default
            }
        }
    }

    /// A switch of which only `true` and `false` are accepted, in any case.
    pub(super) fn strict_switch(&mut self, key: &str, default: bool) -> bool {
        let Some(setting) = self.get(key) else { return default };
        match parse_switch(&setting.value) {
            Some(value) => value,
            None => {
                self.wrong(key, setting, "true or false");
                default
            }
        }
    }

    /// A switch by Java's rule: anything but `true` is false. Other words get a warning.
    pub(super) fn loose_switch(&mut self, key: &str, default: bool) -> bool {
        let Some(setting) = self.get(key) else { return default };
        parse_switch(&setting.value).unwrap_or_else(|| {
            let text = format!("{key} = \"{}\" counts as false; write true or false", setting.value);
            self.findings.warn(&setting.origin, text);
            false
        })
    }

    /// A switch that only one word moves from its default (`forceSync=no`, `skipACL=yes`).
    pub(super) fn is_word(&mut self, key: &str, word: &str, other: &str) -> bool {
        let Some(setting) = self.get(key) else { return false };
        if setting.value != word && setting.value != other {
            let text =
                format!("{key} = \"{}\" counts as \"{other}\"; write {word} or {other}", setting.value);
            self.findings.warn(&setting.origin, text);
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
    // A second sign is not part of a number, although from_str_radix would take it.
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
