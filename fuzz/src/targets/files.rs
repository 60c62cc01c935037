//! Files that were changed behind the server's back, and a state from a peer that cannot be trusted.

use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, SessionId, StatPersisted};
use zebu_storage::Compression;
use zebu_storage::format::scan::{LogHeader, LogScanner, ScanItem};
use zebu_storage::format::snapshot::{ContentLimits, SnapshotVisitor, StreamDecoder, StreamProgress};
use zebu_storage::snapshot_file::decode;

use crate::bits::Bits;
use crate::corpus;

/// A log is read to its end, whatever is in it; entries come in the order of the file.
pub(super) fn log(data: &[u8]) {
    let Ok((mut scanner, header)) = LogScanner::open(data) else { return };
    if header != LogHeader::Valid {
        return;
    }
    let mut end = 0;
    while let Ok(ScanItem::Entry(raw)) = scanner.next_entry() {
        assert!(raw.at >= end && raw.end > raw.at, "entries follow each other");
        end = raw.end;
        let _ = TxnEntry::decode(raw.payload);
    }
}

/// Counts what it is shown.
#[derive(Default, PartialEq, Eq, Debug)]
struct Counted {
    sessions: u64,
    acls: u64,
    nodes: u64,
    bytes: u64,
}

impl SnapshotVisitor for Counted {
    fn session(&mut self, _: SessionId, _: i32) {
        self.sessions += 1;
    }

    fn acl(&mut self, _: i64, acl: Vec<Acl>) {
        self.acls += 1 + acl.len() as u64;
    }

    fn node(&mut self, path: &str, data: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<(), String> {
        self.nodes += 1;
        self.bytes += (path.len() + data.map_or(0, <[u8]>::len)) as u64;
        Ok(())
    }
}

/// A snapshot is a snapshot or an error.
pub(super) fn snapshot(data: &[u8]) {
    for compression in [Compression::Plain, Compression::Gzip, Compression::Snappy] {
        let mut counted = Counted::default();
        if let Ok(summary) = decode(data, compression, &mut counted) {
            assert_eq!((summary.sessions, summary.nodes), (counted.sessions, counted.nodes));
        }
    }
}

/// A streamed state comes in pieces; how it is cut changes nothing.
pub(super) fn stream(data: &[u8]) {
    let limits = ContentLimits { field_max: 1 << 16, acl_entries_max: 100 };
    let mut bits = Bits::new(data);
    let step = usize::from(bits.below(64)) + 1;
    let read = |step: usize| {
        let (mut counted, mut decoder, mut end) = (Counted::default(), StreamDecoder::new(limits), None);
        for chunk in bits.rest().chunks(step) {
            match decoder.feed(chunk, &mut counted) {
                Ok(StreamProgress::More) => {}
                Ok(StreamProgress::End { .. }) => {
                    end = Some(Ok(()));
                    break;
                }
                Err(_) => {
                    end = Some(Err(()));
                    break;
                }
            }
        }
        (end, counted)
    };
    let (end, counted) = read(step);
    let (whole_end, whole) = read(usize::MAX);
    assert_eq!(end, whole_end);
    if end == Some(Ok(())) {
        assert_eq!(counted, whole);
    }
}

/// Snapshots without their header are the beginnings of streams.
pub(super) fn streams() -> Vec<Vec<u8>> {
    const HEADER: usize = 16;
    let with_step = |bytes: Vec<u8>| [&[7], bytes.get(HEADER..).unwrap_or_default()].concat();
    corpus::files("snapshot.").into_iter().map(with_step).collect()
}
