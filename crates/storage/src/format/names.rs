//! Names of logs and snapshots, parsed exactly as ZooKeeper parses them, and the rule which files may be
//! deleted. A file whose name does not parse is never touched.

use zebu_proto::Zxid;

/// The compression of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// None.
    #[default]
    Plain,
    /// One gzip stream.
    Gzip,
    /// Raw Snappy blocks in snappy-java's framing.
    Snappy,
}

impl Compression {
    /// The extension of the file name.
    pub const fn extension(self) -> &'static str {
        match self {
            Compression::Plain => "",
            Compression::Gzip => ".gz",
            Compression::Snappy => ".snappy",
        }
    }

    /// Parses the value of `snapshot.compression.method`; ZooKeeper treats every unknown word as none.
    pub fn from_setting(word: &str) -> Option<Compression> {
        match word {
            "" => Some(Compression::Plain),
            "gz" => Some(Compression::Gzip),
            "snappy" => Some(Compression::Snappy),
            _ => None,
        }
    }
}

/// Whether a file may be used and deleted by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSpelling {
    /// Exactly the name that a server writes.
    Canonical,
    /// Parsed as such a file, but named by an operator or a tool. Never deleted.
    Foreign,
    /// Left over from a write that was not finished.
    Unfinished,
}

/// The parsed name of a log or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedName {
    /// First transaction of a log; last transaction of a snapshot.
    pub zxid: Zxid,
    /// Whether a server has written this name.
    pub spelling: NameSpelling,
}

/// The prefix of temporary snapshot names. ZooKeeper must not take them for snapshots.
pub const SNAPSHOT_TEMPORARY_PREFIX: &str = "zebu.snapshot.";

/// The prefix of temporary log names. ZooKeeper must not take them for logs.
pub const LOG_TEMPORARY_PREFIX: &str = "zebu.log.";

/// The prefix of a foreign file, named like a log or snapshot, when a received snapshot replaces everything.
/// The file is no part of that snapshot, and the server may not delete it.
pub const KEPT_PREFIX: &str = "kept.";

/// `log.<zxid>`.
pub fn log_name(first: Zxid) -> String {
    format!("log.{:x}", first.0)
}

/// The name of a log before its header is durable.
pub fn log_temporary_name(first: Zxid) -> String {
    format!("{LOG_TEMPORARY_PREFIX}{:x}", first.0)
}

/// `snapshot.<zxid>` with the extension of its compression.
pub fn snapshot_name(zxid: Zxid, compression: Compression) -> String {
    format!("snapshot.{:x}{}", zxid.0, compression.extension())
}

/// The name of a snapshot until it is complete and durable.
pub fn snapshot_temporary_name(zxid: Zxid, compression: Compression) -> String {
    format!("{SNAPSHOT_TEMPORARY_PREFIX}{:x}{}", zxid.0, compression.extension())
}

/// Parses a log's name; `None` if ZooKeeper would not take it for a log.
pub fn parse_log(name: &str) -> Option<NumberedName> {
    let zxid = number(name, "log")?;
    let spelling = if name == log_name(zxid) { NameSpelling::Canonical } else { NameSpelling::Foreign };
    Some(NumberedName { zxid, spelling })
}

/// Parses a snapshot's name; `None` if ZooKeeper would not take it for a snapshot.
pub fn parse_snapshot(name: &str) -> Option<NumberedName> {
    let zxid = number(name, "snapshot")?;
    let spelling = if name.ends_with(".tmp") {
        NameSpelling::Unfinished
    } else if name == snapshot_name(zxid, compression_of(name)) {
        NameSpelling::Canonical
    } else {
        NameSpelling::Foreign
    };
    Some(NumberedName { zxid, spelling })
}

/// The compression according to a snapshot's name: by its last extension, in any case.
pub fn compression_of(name: &str) -> Compression {
    let extension = name.rsplit('.').next().unwrap_or_default();
    if extension.eq_ignore_ascii_case("gz") {
        Compression::Gzip
    } else if extension.eq_ignore_ascii_case("snappy") {
        Compression::Snappy
    } else {
        Compression::Plain
    }
}

/// The second dotted part as a signed hexadecimal number; the remainder is ignored.
fn number(name: &str, kind: &str) -> Option<Zxid> {
    let mut parts = name.split('.');
    if parts.next() != Some(kind) {
        return None;
    }
    let value = i64::from_str_radix(parts.next()?, 16).ok()?;
    (value >= 0).then_some(Zxid(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_apache_reads_them() {
        for (name, expected) in [
            ("log.1", Some((1, NameSpelling::Canonical))),
            ("log.100000001", Some((0x1_0000_0001, NameSpelling::Canonical))),
            ("log.00a", Some((10, NameSpelling::Foreign))),
            ("log.A", Some((10, NameSpelling::Foreign))),
            ("log.7.bak", Some((7, NameSpelling::Foreign))),
            ("log.7.chopped9", Some((7, NameSpelling::Foreign))),
            ("log.7fffffffffffffff", Some((i64::MAX, NameSpelling::Canonical))),
            ("log.8000000000000000", None),
            ("log.-1", None),
            ("log.old", None),
            ("log.", None),
            ("log", None),
            ("log..1", None),
            ("logs.1", None),
            ("zebu.log.1", None),
            ("snapshot.1", None),
        ] {
            assert_eq!(parse_log(name).map(|it| (it.zxid.0, it.spelling)), expected, "{name}");
        }
        for (name, expected) in [
            ("snapshot.0", Some((0, NameSpelling::Canonical, Compression::Plain))),
            ("snapshot.1f.gz", Some((31, NameSpelling::Canonical, Compression::Gzip))),
            ("snapshot.1f.GZ", Some((31, NameSpelling::Foreign, Compression::Gzip))),
            ("snapshot.1f.snappy", Some((31, NameSpelling::Canonical, Compression::Snappy))),
            ("snapshot.1f.gz.tmp", Some((31, NameSpelling::Unfinished, Compression::Plain))),
            ("snapshot.1f.tmp", Some((31, NameSpelling::Unfinished, Compression::Plain))),
            ("snapshot.1f.bak", Some((31, NameSpelling::Foreign, Compression::Plain))),
            ("snapshot.bak", None),
            ("zebu.snapshot.1f", None),
        ] {
            let read = parse_snapshot(name).map(|it| (it.zxid.0, it.spelling, compression_of(name)));
            assert_eq!(read, expected, "{name}");
        }
    }
}
