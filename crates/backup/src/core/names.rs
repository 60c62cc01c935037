//! Names of objects in a backup. Each name has the run of its writer, so that two writers never write the
//! same object.

use zebu_proto::Zxid;
use zebu_storage::Compression;
use zebu_storage::format::names::snapshot_name;

use super::seal::{SEALED_END, Sealing};

/// The name of a base: ZooKeeper's name of the snapshot, in a directory of its own.
pub fn base(zxid: Zxid, compression: Compression, sealing: Sealing, run: &str) -> String {
    format!("base/{:016x}.{run}/{}{}", zxid.0, snapshot_name(zxid, compression), sealing.end())
}

/// The name of a log segment.
pub fn segment(first: Zxid, last: Zxid, sealing: Sealing, run: &str) -> String {
    format!("log/{:016x}-{:016x}.{run}.log{}", first.0, last.0, sealing.end())
}

/// The name of a page of the index.
pub fn page(first: Zxid, last: Zxid, run: &str) -> String {
    format!("index/{:016x}-{:016x}.{run}.json", first.0, last.0)
}

/// Whether an object with this name can belong to a backup. Other objects are never touched.
pub fn is_own(name: &str) -> bool {
    // A crash may leave the temporary name of an object.
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    let name = name.strip_suffix(SEALED_END).unwrap_or(name);
    let known = |prefix: &str, end: &str| name.starts_with(prefix) && name.ends_with(end);
    known("log/", ".log")
        || known("index/", ".json")
        || (name.starts_with("base/") && name.contains("/snapshot."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_zxid_and_carry_the_run() {
        let first = Zxid::new(1, 0xff);
        assert_eq!(
            base(first, Compression::Snappy, Sealing::Plain, "a1"),
            "base/00000001000000ff.a1/snapshot.1000000ff.snappy"
        );
        assert_eq!(
            segment(first, Zxid::new(2, 1), Sealing::Plain, "a1"),
            "log/00000001000000ff-0000000200000001.a1.log"
        );
        assert!(is_own(&segment(first, first, Sealing::Age, "a")) && is_own(&page(first, first, "a")));
        assert!(is_own("log/1-2.a.log.tmp"));
        assert!(is_own(&base(first, Compression::Plain, Sealing::Age, "a")));
        assert!(!is_own("notes.txt") && !is_own("log/readme") && !is_own("manifest.json"));
    }
}
