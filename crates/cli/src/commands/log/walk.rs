//! Walks through a log from the first to the last byte: entries, and everything that is none. Behind damage
//! it goes on with the next entry that is whole. It judges nothing.

use std::fs::File;
use std::io;
use std::path::Path;

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;
use zebu_storage::ReadAt;
use zebu_storage::disk::{Access, Disk};
use zebu_storage::file::FileDisk;
use zebu_storage::format::log::{END_MARK, ENTRY_HEAD_SIZE, ENTRY_OVERHEAD, HEADER_SIZE, TXN_HEADER_SIZE};
use zebu_storage::format::scan::{
    LogEnd, LogFlaw, LogHeader, LogScanner, RawEntry, ScanItem, ValidAfterDamage,
};

/// The next piece of a log.
#[derive(Debug)]
pub(super) enum Found<'w> {
    /// An entry with the right checksum and end mark.
    Entry(RawEntry<'w>),
    /// Bytes that are no valid entry.
    Broken(Broken),
    /// Nothing more, or only zeros.
    End(End),
}

/// Bytes that are no valid entry.
#[derive(Debug)]
pub(super) struct Broken {
    /// Where they begin.
    pub(super) at: u64,
    /// Where the next piece begins.
    pub(super) until: u64,
    /// The kind of damage.
    pub(super) flaw: LogFlaw,
    /// A valid entry of a later transaction behind them.
    pub(super) behind: Option<ValidAfterDamage>,
    /// What they would say if their checksum or end mark were right.
    pub(super) legible: Option<Legible>,
}

/// A broken entry that can be read all the same.
#[derive(Debug)]
pub(super) struct Legible {
    /// Its bytes without the frame.
    pub(super) payload: Vec<u8>,
    /// What they say.
    pub(super) entry: TxnEntry,
}

/// The end of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// Where the data ends.
    pub(super) at: u64,
    /// Zeros behind it.
    pub(super) padding: u64,
}

/// A stretch without valid entries of later transactions.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    at: u64,
    until: u64,
    behind: Option<ValidAfterDamage>,
}

/// A log that is being read.
#[derive(Debug)]
pub(super) struct Walk {
    file: File,
    scanner: LogScanner<File>,
    stretch: Option<Stretch>,
}

impl Walk {
    /// Opens a log and looks at its header. Entries are looked for whatever the header is.
    pub(super) fn open(path: &Path) -> io::Result<(Walk, LogHeader)> {
        let file = FileDisk.open(path, Access::Read)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (scanner, header) = LogScanner::open(file.try_clone()?)?;
        Ok((Walk { file, scanner, stretch: None }, header))
    }

    /// Bytes of the file.
    pub(super) fn length(&self) -> u64 {
        self.scanner.length()
    }

    /// Version and database id of the header; neither means anything to a reader.
    pub(super) fn header_numbers(&self) -> io::Result<Option<(i32, i64)>> {
        let header = self.bytes(0, HEADER_SIZE)?;
        let Some([_, _, _, _, v0, v1, v2, v3, database @ ..]) = header.first_chunk::<HEADER_SIZE>() else {
            return Ok(None);
        };
        Ok(Some((i32::from_be_bytes([*v0, *v1, *v2, *v3]), i64::from_be_bytes(*database))))
    }

    /// The next piece. After the end it stays at the end.
    pub(super) fn next(&mut self) -> io::Result<Found<'_>> {
        if let Some(stretch) = self.stretch.take()
            && let Some(found) = self.next_of_stretch(stretch)?
        {
            return Ok(found);
        }
        // Two steps, because an entry borrows the scanner.
        let at = self.scanner.position();
        if at < self.length() && self.scanner.flaw_at(at)?.is_some() {
            return self.begin_stretch();
        }
        self.whole_entry()
    }

    fn whole_entry(&mut self) -> io::Result<Found<'_>> {
        let at = self.scanner.position();
        match self.scanner.next_entry()? {
            ScanItem::Entry(entry) => Ok(Found::Entry(entry)),
            ScanItem::End(_) => Ok(Found::End(End { at, padding: 0 })),
        }
    }

    fn begin_stretch(&mut self) -> io::Result<Found<'_>> {
        let length = self.length();
        let end = match self.scanner.next_entry()? {
            ScanItem::Entry(entry) => Err(entry.at),
            ScanItem::End(end) => Ok(end),
        };
        let (damage, behind) = match end {
            // A server that writes the log has just finished the entry.
            Err(at) => {
                self.scanner.continue_at(at);
                return self.whole_entry();
            }
            Ok(end) => match end {
                LogEnd::Clean { at } => {
                    return Ok(Found::End(End { at, padding: length.saturating_sub(at) }));
                }
                LogEnd::Torn(damage) => (damage, None),
                LogEnd::Damaged(damage, behind) => (damage, Some(behind)),
            },
        };
        let until = behind.map_or(length, |behind| behind.at);
        Ok(Found::Broken(self.broken(Stretch { at: damage.at, until, behind }, damage.flaw)?))
    }

    /// What follows inside a stretch; `None` when the scanner can go on.
    fn next_of_stretch(&mut self, stretch: Stretch) -> io::Result<Option<Found<'static>>> {
        let Stretch { at, until, .. } = stretch;
        self.scanner.continue_at(at);
        if at >= until {
            return Ok(None);
        }
        match self.scanner.flaw_at(at)? {
            // Valid, but of an earlier transaction.
            None => Ok(None),
            Some(_) if stretch.behind.is_none() && self.is_zero(at)? => {
                self.stretch = Some(stretch);
                Ok(Some(Found::End(End { at, padding: until - at })))
            }
            Some(flaw) => Ok(Some(Found::Broken(self.broken(stretch, flaw)?))),
        }
    }

    /// The first broken piece of a stretch: one legible entry, or all of it.
    fn broken(&mut self, stretch: Stretch, flaw: LogFlaw) -> io::Result<Broken> {
        let Stretch { at, until, behind } = stretch;
        let legible = self.legible(at, until)?;
        let end = match &legible {
            Some(legible) => at + (legible.payload.len() + ENTRY_OVERHEAD) as u64,
            None => until,
        };
        self.stretch = Some(Stretch { at: end, until, behind });
        Ok(Broken { at, until: end, flaw, behind, legible })
    }

    /// Reads a broken entry by its length. A length that leads nowhere is not followed: the payload must say
    /// something, and the end mark must stand behind it unless that is the flaw.
    fn legible(&mut self, at: u64, until: u64) -> io::Result<Option<Legible>> {
        let head = self.bytes(at, ENTRY_HEAD_SIZE)?;
        let Some(length) = head.get(8..12).and_then(|field| <[u8; 4]>::try_from(field).ok()) else {
            return Ok(None);
        };
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
        let room = until.saturating_sub(at);
        if length < TXN_HEADER_SIZE || (length + ENTRY_OVERHEAD) as u64 > room {
            return Ok(None);
        }
        let mut payload = self.bytes(at + ENTRY_HEAD_SIZE as u64, length + 1)?;
        let mark = payload.pop();
        let marked = mark == Some(END_MARK) || self.scanner.flaw_at(at)? == Some(LogFlaw::EndMark);
        if payload.len() < length || !marked {
            return Ok(None);
        }
        let entry = TxnEntry::decode(&payload).ok().filter(|entry| entry.header.zxid > Zxid::ZERO);
        Ok(entry.map(|entry| Legible { payload, entry }))
    }

    fn is_zero(&mut self, at: u64) -> io::Result<bool> {
        let mut buffer = vec![0; 64 * 1024];
        let mut at = at;
        loop {
            match self.file.read_at(at, &mut buffer)? {
                0 => return Ok(true),
                count if buffer[..count].iter().any(|&byte| byte != 0) => return Ok(false),
                count => at += count as u64,
            }
        }
    }

    /// Bytes at an offset; fewer at the end of the file.
    fn bytes(&self, at: u64, count: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.length().saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; count.min(left)];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(at + filled as u64, &mut bytes[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}
