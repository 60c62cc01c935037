//! The allowed direction between crates. A crate that is not in the table breaks the rule: where a new crate
//! stands is decided here and in ARCHITECTURE.md, not by accident.

use super::Violation;
use super::metadata::{Crate, Kind};

const WHY: &str = "the direction between crates is fixed in ARCHITECTURE.md";

/// What a crate may use of ours.
enum Sees {
    Everything,
    Only(&'static [&'static str]),
}

fn allowed(name: &str) -> Option<Sees> {
    Some(match name {
        "zebu-proto" | "zebu-security" | "zebu-metrics" | "zebu-console" => Sees::Only(&[]),
        "zebu-zab" | "zebu-storage" => Sees::Only(&["zebu-proto"]),
        "zebu-tree" => Sees::Only(&["zebu-proto", "zebu-security"]),
        // The system's Kerberos library, behind a feature; nothing but edges may use it.
        "zebu-kerberos" => Sees::Only(&["zebu-security"]),
        "zebu-client" => Sees::Only(&["zebu-proto", "zebu-security", "zebu-kerberos"]),
        "zebu-node" => Sees::Only(&[
            "zebu-proto",
            "zebu-security",
            "zebu-metrics",
            "zebu-tree",
            "zebu-zab",
            "zebu-storage",
        ]),
        "zebu-runtime" => Sees::Only(&["zebu-proto", "zebu-tree", "zebu-zab", "zebu-storage", "zebu-node"]),
        "zebu-server" => Sees::Only(&[
            "zebu-proto",
            "zebu-security",
            "zebu-kerberos",
            "zebu-metrics",
            "zebu-tree",
            "zebu-zab",
            "zebu-storage",
            "zebu-node",
            "zebu-runtime",
        ]),
        // A backup process is an observer of its own, not a part of a server.
        "zebu-backup" => Sees::Only(&[
            "zebu-proto",
            "zebu-security",
            "zebu-tree",
            "zebu-zab",
            "zebu-storage",
            "zebu-node",
            "zebu-runtime",
        ]),
        // The admin server reads the views of a server; the server knows nothing of HTTP.
        "zebu-admin" => Sees::Only(&[
            "zebu-console",
            "zebu-proto",
            "zebu-security",
            "zebu-metrics",
            "zebu-tree",
            "zebu-node",
            "zebu-server",
        ]),
        // The simulator drives the shipped runtime; the tokio edge would make it dishonest.
        "zebu-sim" => Sees::Only(&[
            "zebu-proto",
            "zebu-tree",
            "zebu-zab",
            "zebu-storage",
            "zebu-node",
            "zebu-runtime",
            "zebu-client",
        ]),
        "zebu-recipes" => Sees::Only(&["zebu-proto", "zebu-client"]),
        // A test server is the server behind a small door.
        "zebu-testing" => {
            Sees::Only(&["zebu-proto", "zebu-client", "zebu-storage", "zebu-node", "zebu-server"])
        }
        // What users would write.
        "zebu-examples" | "zebu-recipes-peer" => Sees::Only(&["zebu-client", "zebu-recipes"]),
        "zebu" | "zebu-interop" | "zebu-bench" | "zebu-fuzz" | "xtask" => Sees::Everything,
        _ => return None,
    })
}

/// Checks every edge between crates of ours. A development dependency may also name zebu-testing.
pub(crate) fn check(crates: &[Crate]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in crates {
        let place = format!("{} (Cargo.toml)", package.name);
        let Some(sees) = allowed(&package.name) else {
            let what = "the crate has no place in the table of xtask/src/tidy/direction.rs";
            violations.push(Violation::new(place, what, WHY));
            continue;
        };
        let Sees::Only(list) = sees else { continue };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.ours) {
            // The recipes' server for virtual time is the tree behind a pipe.
            let of_recipes = package.name == "zebu-recipes" && dependency.name == "zebu-tree";
            let for_tests =
                dependency.kind == Kind::Development && (dependency.name == "zebu-testing" || of_recipes);
            if !for_tests && !list.contains(&dependency.name.as_str()) {
                let what = format!("{} must not use {}", package.name, dependency.name);
                violations.push(Violation::new(place.clone(), what, WHY));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::metadata::tests::crate_of_ours;
    use super::*;

    #[test]
    fn the_way_down_is_open() {
        let crates = [
            crate_of_ours("zebu-node", Kind::Shipped, &["zebu-proto", "zebu-tree", "zebu-storage"]),
            crate_of_ours("zebu", Kind::Shipped, &["zebu-server", "zebu-node"]),
        ];
        assert_eq!(check(&crates), []);
    }

    #[test]
    fn siblings_do_not_see_each_other() {
        let found = check(&[crate_of_ours("zebu-tree", Kind::Shipped, &["zebu-storage"])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("must not use zebu-storage"));
    }

    #[test]
    fn only_tests_may_look_up_to_the_test_server() {
        assert_eq!(check(&[crate_of_ours("zebu-client", Kind::Development, &["zebu-testing"])]), []);
        assert_eq!(check(&[crate_of_ours("zebu-client", Kind::Shipped, &["zebu-testing"])]).len(), 1);
        assert_eq!(check(&[crate_of_ours("zebu-sim", Kind::Development, &["zebu-server"])]).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_reported() {
        assert_eq!(check(&[crate_of_ours("zebu-extra", Kind::Shipped, &[])]).len(), 1);
    }
}
