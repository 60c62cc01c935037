//! Whether Apache 3.8 and 3.9 could open a directory: the rules for handing one over, checked on the files.

use std::path::Path;

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::Disk;
use zebu_storage::disk::read_file;
use zebu_storage::format::names::{NameSpelling, parse_log};
use zebu_storage::format::scan::{LogEnd, LogHeader, LogScanner, ScanItem};
use zebu_storage::snapshot_file::{list, validate};

/// Panics with the reason if Apache would refuse the directory or lose something.
pub fn assert_apache_can_open<D: Disk>(disk: &D, snapshots: &Path, logs: &Path, last: Zxid) {
    let files = list(disk, snapshots).unwrap();
    assert!(files.iter().all(|file| file.name.spelling != NameSpelling::Unfinished), "unfinished snapshot");
    let base = files.iter().find(|file| validate(disk, &file.path).unwrap().is_ok());
    let base = base.expect("a snapshot").name.zxid;
    let mut names: Vec<_> = disk
        .list(logs)
        .unwrap()
        .into_iter()
        .filter_map(|name| Some((parse_log(&name)?.zxid, name)))
        .collect();
    names.sort();
    // Apache opens the newest log that begins at or below the snapshot, and everything after it.
    let first = names.iter().rposition(|(zxid, _)| *zxid <= base).unwrap_or(0);
    let mut reached = base;
    for (_, name) in &names[first..] {
        let bytes = read_file(disk, &logs.join(name)).unwrap();
        let (mut scanner, header) = LogScanner::open(&bytes[..]).unwrap();
        assert_eq!(header, LogHeader::Valid, "{name}");
        let mut entries = 0;
        let end = loop {
            match scanner.next_entry().unwrap() {
                ScanItem::Entry(raw) => {
                    entries += 1;
                    let zxid = TxnEntry::decode(raw.payload).unwrap().header.zxid;
                    if zxid > reached {
                        let follows = reached.next() == Some(zxid) || zxid.epoch() > reached.epoch();
                        assert!(follows, "{name}: {zxid} behind {reached}");
                        reached = zxid;
                    }
                }
                ScanItem::End(end) => break end,
            }
        };
        assert!(matches!(end, LogEnd::Clean { .. }), "{name}: {end:?}");
        assert!(entries > 0, "{name} holds nothing");
    }
    assert_eq!(reached, last);
}
