//! A log that is longer than what is read ahead, and a disk that cannot read a part of it, once: the scanner
//! says so at every place where it reads, and the next try finds what it would have found.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::cell::Cell;
use std::io;

use support::chain::entry;
use zebu_proto::Zxid;
use zebu_storage::ReadAt;
use zebu_storage::format::log::{HEADER, append_entry};
use zebu_storage::format::scan::{LogEnd, LogFlaw, LogHeader, LogScanner, ScanItem};

/// What the scanner reads ahead; the places below lie around its end.
const WINDOW: usize = 256 * 1024;

/// A file with one read that fails.
struct FailingReads<'a> {
    bytes: &'a [u8],
    reads_left: Cell<Option<u64>>,
}

impl FailingReads<'_> {
    fn read(&self) -> io::Result<()> {
        match self.reads_left.get() {
            Some(0) => {
                self.reads_left.set(None);
                Err(io::Error::other("unreadable"))
            }
            left => {
                self.reads_left.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

impl ReadAt for FailingReads<'_> {
    fn length(&self) -> io::Result<u64> {
        self.read()?;
        self.bytes.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read()?;
        self.bytes.read_at(offset, buffer)
    }
}

/// The entries that were found, and the number of errors.
#[derive(Debug, Default, PartialEq)]
struct Found {
    header: Option<LogHeader>,
    entries: Vec<(u64, u64, usize)>,
    end: Option<LogEnd>,
    flaw: Option<LogFlaw>,
}

/// Repeats a read that fails once.
fn retry_once<T>(errors: &mut u32, mut work: impl FnMut() -> io::Result<T>) -> T {
    loop {
        match work() {
            Ok(done) => return done,
            Err(error) => {
                assert_eq!(error.to_string(), "unreadable");
                *errors += 1;
                assert_eq!(*errors, 1);
            }
        }
    }
}

fn scan(file: &FailingReads<'_>) -> (Found, u32) {
    enum Next {
        Entry(u64, u64, usize),
        End(LogEnd),
    }
    let (mut found, mut errors) = (Found::default(), 0);
    let (mut scanner, header) = retry_once(&mut errors, || LogScanner::open(file));
    found.header = Some(header);
    if header != LogHeader::Valid {
        return (found, errors);
    }
    loop {
        let next = retry_once(&mut errors, || {
            Ok(match scanner.next_entry()? {
                ScanItem::Entry(entry) => Next::Entry(entry.at, entry.end, entry.payload.len()),
                ScanItem::End(end) => Next::End(end),
            })
        });
        match next {
            Next::Entry(at, end, length) => found.entries.push((at, end, length)),
            Next::End(end) => {
                found.end = Some(end);
                // From the front: nothing of it is in memory any more.
                let first = HEADER.len() as u64;
                assert_eq!(retry_once(&mut errors, || scanner.flaw_at(first)), None);
                found.flaw = retry_once(&mut errors, || scanner.flaw_at(scanner_end(&found)));
                return (found, errors);
            }
        }
    }
}

fn scanner_end(found: &Found) -> u64 {
    match found.end.as_ref().unwrap() {
        LogEnd::Clean { at } => *at,
        LogEnd::Torn(damage) | LogEnd::Damaged(damage, _) => damage.at,
    }
}

/// Scans with every read failing once; returns what there is to find.
fn every_read(bytes: &[u8]) -> Found {
    let (expected, _) = scan(&FailingReads { bytes, reads_left: Cell::new(None) });
    for failing in 0.. {
        let file = FailingReads { bytes, reads_left: Cell::new(Some(failing)) };
        let (found, errors) = scan(&file);
        assert_eq!(found, expected, "read {failing}");
        if file.reads_left.get().is_some() {
            assert!(failing > 1 && errors == 0, "{failing}");
            return expected;
        }
        assert_eq!(errors, 1, "read {failing} failed and nobody said so");
    }
    unreachable!("the reads come to an end")
}

fn frame(zxid: i64, size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    append_entry(&entry(Zxid(zxid), size, b'q'), &mut out);
    out
}

/// A log with entries up to an offset, the last one of them as long as it takes.
fn log_up_to(offset: usize) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    bytes.extend(frame(1, 100));
    let rest = offset - bytes.len() - frame(2, 0).len();
    bytes.extend(frame(2, rest));
    assert_eq!(bytes.len(), offset);
    bytes
}

#[test]
fn a_file_without_a_header() {
    assert_eq!(every_read(&vec![0; 3 * WINDOW]).header, Some(LogHeader::Zero));
    let mut foreign = vec![0; 2 * WINDOW];
    foreign.push(1);
    assert_eq!(every_read(&foreign).header, Some(LogHeader::Foreign));
    assert_eq!(every_read(&HEADER[..7]).header, Some(LogHeader::Unfinished));
}

#[test]
fn entries_and_the_zeros_behind_them() {
    for long in [WINDOW / 8, WINDOW] {
        let mut bytes = HEADER.to_vec();
        for zxid in 1..=4 {
            bytes.extend(frame(zxid, long));
        }
        let end = bytes.len() as u64;
        bytes.resize(bytes.len() + 2 * WINDOW, 0);
        let found = every_read(&bytes);
        assert_eq!((found.entries.len(), found.end), (4, Some(LogEnd::Clean { at: end })));
    }
}

#[test]
fn damage_and_what_lies_behind_it() {
    // Around the end of what was read ahead: every step of the search has to read on in one of them.
    for (before_end, blank) in [(5, 0), (2000, 4096), (4096, 0), (4110, 0)] {
        let at = WINDOW - before_end;
        let mut torn = log_up_to(at);
        // A length that cannot be, and much that is no entry.
        torn.extend([0xab; 8]);
        torn.extend((-5i32).to_be_bytes());
        torn.resize(torn.len() + WINDOW, 0xab);
        torn.resize(torn.len() + blank, 0);
        torn.extend([0xab; 600]);
        let found = every_read(&torn);
        let Some(LogEnd::Torn(damage)) = found.end else { panic!("{:?}", found.end) };
        assert_eq!((damage.at, damage.flaw), (at as u64, LogFlaw::Length(-5)));
        assert_eq!((damage.last, damage.blank_sector.is_some()), (Some(Zxid(2)), blank > 0));
        assert_eq!(found.flaw, Some(LogFlaw::Length(-5)));

        let mut damaged = torn;
        let behind = damaged.len() as u64;
        damaged.extend(frame(3, WINDOW));
        let found = every_read(&damaged);
        let Some(LogEnd::Damaged(damage, valid)) = found.end else { panic!("{:?}", found.end) };
        assert_eq!((damage.at, valid.at, valid.zxid), (at as u64, behind, Zxid(3)));
    }
}

#[test]
fn a_last_entry_that_is_cut_short() {
    for before_end in [5, 100] {
        let mut bytes = log_up_to(WINDOW - before_end);
        bytes.extend(&frame(3, 2 * WINDOW)[..WINDOW]);
        let found = every_read(&bytes);
        let Some(LogEnd::Torn(damage)) = found.end else { panic!("{:?}", found.end) };
        assert_eq!((damage.flaw, damage.claimed), (LogFlaw::CutShort, Some(Zxid(3))));
    }
}
