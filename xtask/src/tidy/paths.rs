//! What a path says about a file: generated or kept, test or shipped, pure or not.

/// Directories and files that no one wrote, or that belong to git.
pub(crate) fn is_generated(name: &str) -> bool {
    matches!(name, ".git" | "target" | "zebu-data" | "__pycache__" | "Cargo.lock" | "node_modules")
}

/// Files that are only ever compiled into tests, benchmarks and examples.
pub(crate) fn is_test_only(path: &str) -> bool {
    let inside = |directory: &str| {
        path.starts_with(&format!("{directory}/")) || path.contains(&format!("/{directory}/"))
    };
    inside("tests") || inside("benches") || inside("examples") || path.ends_with("/tests.rs")
}

/// The parts whose code takes time, randomness, disk and network as arguments.
/// The same list stands in ARCHITECTURE.md.
const PURE_PARTS: [&str; 10] = [
    "crates/proto/src/",
    "crates/tree/src/",
    "crates/zab/src/",
    "crates/node/src/",
    "crates/runtime/src/",
    "crates/security/src/",
    "crates/metrics/src/",
    "crates/storage/src/format",
    "crates/client/src/core",
    "crates/backup/src/core",
];

/// Whether the file belongs to a pure part.
pub(crate) fn is_pure(path: &str) -> bool {
    PURE_PARTS.iter().any(|part| path.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_pure_only_in_its_format() {
        assert!(is_pure("crates/storage/src/format/snapshot.rs"));
        assert!(is_pure("crates/storage/src/format.rs"));
        assert!(!is_pure("crates/storage/src/file/log.rs"));
        assert!(!is_pure("crates/server/src/lib.rs"));
        assert!(is_pure("crates/runtime/src/disk_worker.rs"));
    }

    #[test]
    fn tests_are_known_by_their_place() {
        assert!(is_test_only("crates/tree/tests/quota.rs"));
        assert!(is_test_only("crates/tree/src/prep/tests.rs"));
        assert!(!is_test_only("crates/testing/src/lib.rs"));
    }
}
