//! The table of all families, in the order of `mntr`. One file per subject.

mod clients;
mod ensemble;
mod own;
mod pipeline;
mod storage;

use crate::family::{Exposure, Family, FamilyKind, FamilyScope, FamilySource};

/// All families.
pub static FAMILIES: [&[Family]; 5] =
    [clients::FAMILIES, storage::FAMILIES, ensemble::FAMILIES, pipeline::FAMILIES, own::FAMILIES];

/// Finds a family by its name in the Prometheus text.
pub fn find_family(name: &str) -> Option<&'static Family> {
    all().find(|family| family.name == name)
}

pub(crate) fn all() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().copied().flatten()
}

/// A family of every server.
const fn every(name: &'static str, kind: FamilyKind, help: &'static str) -> Family {
    of(FamilyScope::Every, name, kind, help)
}

/// A family of some servers.
const fn of(scope: FamilyScope, name: &'static str, kind: FamilyKind, help: &'static str) -> Family {
    Family { name, kind, scope, exposure: Exposure::Everywhere, source: FamilySource::Measured, help }
}

/// A family whose stage Zebu does not have. The help says why it is 0.
const fn zero(name: &'static str, kind: FamilyKind, help: &'static str) -> Family {
    Family { source: FamilySource::NoCounterpart, ..every(name, kind, help) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_valid() {
        let mut names = BTreeSet::new();
        let mut mntr_names = BTreeSet::new();
        for family in all() {
            assert!(names.insert(family.name), "{} is there twice", family.name);
            if let Some(name) = family.mntr_name() {
                assert!(mntr_names.insert(name), "mntr has {name} twice");
            }
            let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(family.name.bytes().all(is_valid), "{}", family.name);
            assert!(family.help.ends_with('.') && family.help.len() > 10, "{}", family.name);
            assert!(!family.name.starts_with("jvm_"), "{}: there is no Java machine", family.name);
            let has_unit = family.kind != FamilyKind::Histogram
                || family.name.ends_with("_seconds")
                || family.name.ends_with("_size")
                || family.name.ends_with("_depth");
            assert!(has_unit, "{}", family.name);
        }
    }
}
