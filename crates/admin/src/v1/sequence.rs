//! The numbers at the end of sequential names, which decide the order of contenders whatever stands before
//! them: names of Curator and Kazoo begin with a random identifier.

use std::collections::BinaryHeap;

/// Digits of a sequential name.
const SEQUENCE_DIGITS: usize = 10;

/// The number that a sequential create gave to a name. The counter of a parent has 32 bits: behind its
/// largest number come negative ones, whose ten digits follow the sign.
pub(super) fn sequence_of(name: &str) -> Option<i64> {
    let digits = name.as_bytes().last_chunk::<SEQUENCE_DIGITS>()?;
    if !digits.iter().all(u8::is_ascii_digit) || ends_with_identifier(name) {
        return None;
    }
    let number = digits.iter().fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0'));
    Some(if number > i64::from(i32::MAX) { -number } else { number })
}

/// Whether a name ends with a UUID, or is one without dashes. One of a hundred ends with ten decimal digits.
fn ends_with_identifier(name: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut parts = name.rsplit('-');
    let lengths = [12, 4, 4, 4];
    let is_uuid = lengths
        .iter()
        .all(|length| parts.next().is_some_and(|part| part.len() == *length && is_hex(part)))
        && parts.next().is_some_and(|part| part.len() >= 8 && part.get(part.len() - 8..).is_some_and(is_hex));
    is_uuid || (name.len() == 32 && is_hex(name))
}

/// The sequential names with the lowest numbers of any number of names.
#[derive(Debug)]
pub struct LowestSequences {
    count: usize,
    sequential: usize,
    /// The highest of the kept ones on top, so that a lower one takes its place.
    kept: BinaryHeap<(i64, Box<str>)>,
}

impl LowestSequences {
    /// Keeps at most `count` names.
    pub fn new(count: usize) -> LowestSequences {
        LowestSequences { count, sequential: 0, kept: BinaryHeap::new() }
    }

    /// Looks at a name. Other names than sequential ones are left out.
    pub fn offer(&mut self, name: &str) {
        let Some(sequence) = sequence_of(name) else { return };
        self.sequential += 1;
        let is_lower = || self.kept.peek().is_none_or(|(highest, _)| sequence < *highest);
        if self.kept.len() < self.count || is_lower() {
            self.kept.push((sequence, name.into()));
        }
        if self.kept.len() > self.count {
            self.kept.pop();
        }
    }

    /// How many of the names were sequential.
    pub fn sequential(&self) -> usize {
        self.sequential
    }

    /// The kept names, the lowest number first.
    pub fn into_names(self) -> Vec<Box<str>> {
        self.kept.into_sorted_vec().into_iter().map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_names_end_with_ten_digits() {
        for (name, number) in [
            ("lock-0000000012", Some(12)),
            ("0000000012", Some(12)),
            ("n_2147483647", Some(2_147_483_647)),
            ("n_-2147483648", Some(-2_147_483_648)),
            ("lock-000000001", None),
            ("x", None),
            ("0000000012x", None),
            ("aaaaaaaa-2222-3333-4444-555555555555", None),
            ("member-aaaaaaaa-2222-3333-4444-555555555555", None),
            ("f1234567890123456789012345678901", None),
            ("_c_aaaaaaaa-2222-3333-4444-555555555555-lock-0000000001", Some(1)),
            ("f1234567890123456789012345678901__lock__0000000001", Some(1)),
            ("配置中文数", None),
        ] {
            assert_eq!(sequence_of(name), number, "{name}");
        }
    }

    #[test]
    fn the_lowest_numbers_are_kept_whatever_the_names_begin_with() {
        let mut lowest = LowestSequences::new(3);
        for number in (0..1000).rev() {
            lowest.offer(&format!("_c_{:08x}-lock-{number:010}", 0xffff_ffff_u32 - number));
            lowest.offer(&format!("config-{number}"));
        }
        assert_eq!(lowest.sequential(), 1000);
        let expected: Vec<String> =
            (0..3).map(|number| format!("_c_{:08x}-lock-{number:010}", 0xffff_ffff_u32 - number)).collect();
        assert_eq!(lowest.into_names().iter().map(|name| name.to_string()).collect::<Vec<_>>(), expected);
    }
}
