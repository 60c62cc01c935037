//! `crates/sim/error-arms.txt`: why an error path is not reached. A paragraph per reason: its sentence behind
//! `#`, then the places that it is about. A reason for something that is not there is an error.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};

use super::place::{Place, Source};
use crate::step::project_root;

/// Where the reasons are.
pub(super) const FILE: &str = "crates/sim/error-arms.txt";

/// Why the places are not reached.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reasons(BTreeMap<Place, String>);

impl Reasons {
    pub(super) fn read() -> anyhow::Result<Reasons> {
        let path = project_root().join(FILE);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Reasons::parse(&text)
    }

    fn parse(text: &str) -> anyhow::Result<Reasons> {
        let mut reasons = BTreeMap::new();
        let mut reason = None;
        for (index, line) in text.lines().enumerate() {
            let at = format!("{FILE}:{}", index + 1);
            if line.is_empty() {
                reason = None;
            } else if let Some(text) = line.strip_prefix("# ") {
                reason = Some(text.to_owned());
            } else {
                let place =
                    Place::parse(line).with_context(|| format!("{at}: not `file: function: line`"))?;
                let reason = reason.clone().with_context(|| format!("{at}: a place without a reason"))?;
                if reasons.insert(place, reason).is_some() {
                    bail!("{at}: the same place again");
                }
            }
        }
        Ok(Reasons(reasons))
    }

    pub(super) fn of(&self, place: &Place) -> Option<&str> {
        self.0.get(place).map(String::as_str)
    }

    /// Reasons whose place is not in the source.
    pub(super) fn gone(&self, read: impl Fn(&str) -> Source) -> Vec<String> {
        let gone = self.0.keys().filter(|place| !read(&place.file).has(place));
        gone.map(|place| format!("{FILE}: {place}: is not there any more")).collect()
    }

    /// Reasons that nothing needs: their places are gone, or are no error paths that were never taken.
    pub(super) fn stale(&self, used: &BTreeSet<Place>, read: impl Fn(&str) -> Source) -> Vec<String> {
        let unused = self.0.keys().filter(|place| !used.contains(*place) && read(&place.file).has(place));
        let unused = unused.map(|place| format!("{FILE}: {place}: is reached, or is no error path"));
        unused.chain(self.gone(&read)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reasons_belong_to_places() {
        let reasons =
            Reasons::parse("# never\na.rs: f: x()?\na.rs: g: x()?\n\n# why\nb.rs: f: y()?\n").unwrap();
        let place = |text: &str| Place::parse(text).unwrap();
        assert_eq!(reasons.of(&place("a.rs: g: x()?")), Some("never"));
        assert_eq!(reasons.of(&place("b.rs: f: y()?")), Some("why"));
        assert_eq!(reasons.of(&place("b.rs: g: y()?")), None);
        for (text, what) in [
            ("# why\na.rs: x()?", "not `file"),
            ("a.rs: f: x()?", "without a reason"),
            ("# why\n\na.rs: f: x()?", "without a reason"),
            ("# why\na.rs: f: x()?\na.rs: f: x()?", "again"),
        ] {
            assert!(Reasons::parse(text).unwrap_err().to_string().contains(what), "{text}");
        }
    }

    #[test]
    fn a_reason_that_nothing_needs_is_named() {
        let reasons = Reasons::parse("# why\na.rs: f: x()?\na.rs: f: y()?\na.rs: f: z()?").unwrap();
        let used = BTreeSet::from([Place::parse("a.rs: f: x()?").unwrap()]);
        let stale = reasons.stale(&used, |file| Source::new(file, "fn f() {\n    x()?\n    y()?\n}\n"));
        let expected = ["y()?: is reached, or is no error path", "z()?: is not there any more"];
        assert_eq!(stale, expected.map(|end| format!("{FILE}: a.rs: f: {end}")));
    }
}
