//! Counts of findings per crate or document that may only fall. A unit without a line in the ratchet file has
//! none.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Violation;

/// The findings of a unit: each with its place and its text.
pub(crate) type Findings = BTreeMap<String, Vec<(String, String)>>;

/// A rule whose findings a file counts.
pub(crate) struct CountRatchet {
    /// The file with the counts.
    pub(crate) file: &'static str,
    /// The reason of the rule.
    pub(crate) why: &'static str,
}

impl CountRatchet {
    /// Checks the findings against the counts.
    pub(crate) fn check(&self, found: &Findings, ratchet: &str) -> Vec<Violation> {
        let allowed = match self.parse(ratchet) {
            Ok(allowed) => allowed,
            Err(violation) => return vec![violation],
        };
        let mut violations = Vec::new();
        for (unit, findings) in found {
            let limit = allowed.get(unit).copied().unwrap_or(0);
            if findings.len() > limit {
                // The newest finding is not known: all are named if none is allowed, the count otherwise.
                match limit {
                    0 => {
                        let each = findings.iter().map(|(place, what)| Violation::new(place, what, self.why));
                        violations.extend(each);
                    }
                    _ => {
                        let what = format!("{} findings, {} allows {limit}", findings.len(), self.file);
                        violations.push(Violation::new(unit, what, self.why));
                    }
                }
            }
        }
        for (unit, limit) in &allowed {
            let count = found.get(unit).map_or(0, Vec::len);
            if count < *limit {
                let what = format!("{count} findings, {} still says {limit}: run cargo xtask fix", self.file);
                violations.push(Violation::new(unit, what, self.why));
            }
        }
        violations
    }

    fn parse(&self, ratchet: &str) -> Result<BTreeMap<String, usize>, Violation> {
        let mut allowed = BTreeMap::new();
        for (index, line) in ratchet.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let place = format!("{}:{}", self.file, index + 1);
            let (unit, limit) = parse_line(line)
                .ok_or_else(|| Violation::new(place, "not of the form: unit count", self.why))?;
            allowed.insert(unit.to_owned(), limit);
        }
        Ok(allowed)
    }
}

/// The ratchet with lower counts; never with higher ones.
pub(crate) fn lowered(found: &Findings, ratchet: &str) -> String {
    let mut out = String::new();
    for line in ratchet.lines() {
        match parse_line(line) {
            Some((unit, limit)) => {
                let count = found.get(unit).map_or(0, Vec::len).min(limit);
                if count > 0 {
                    writeln!(out, "{unit} {count}").expect("writing to a String");
                }
            }
            None => writeln!(out, "{line}").expect("writing to a String"),
        }
    }
    out
}

fn parse_line(line: &str) -> Option<(&str, usize)> {
    let (unit, limit) = line.trim().rsplit_once(' ')?;
    (!line.starts_with('#')).then_some((unit.trim(), limit.parse().ok()?))
}
