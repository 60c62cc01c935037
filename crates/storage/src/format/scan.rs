//! Reads a log's entries one after the other and classifies its end: zeros, torn, or damaged with valid
//! entries after the damage. It searches after every end, because ZooKeeper does not and loses data.
//!
//! It knows no other files and drops nothing: recovery decides about an end.

use std::io;

use zebu_proto::{OpCode, Zxid};

use super::log::{
    END_MARK, ENTRY_HEAD_SIZE, ENTRY_OVERHEAD, HEADER_SIZE, MAGIC, TXN_HEADER_SIZE, payload_type,
    payload_zxid,
};

/// Bytes that are read ahead.
const WINDOW_SIZE: usize = 256 * 1024;

/// Offsets that are searched at a time for an entry after damage.
const SEARCH_SIZE: usize = 4096;

/// Bytes that are checked before a checksum is computed.
const CANDIDATE_SIZE: usize = ENTRY_HEAD_SIZE + TXN_HEADER_SIZE;

/// The unit that a disk writes whole or not at all.
pub const SECTOR_SIZE: u64 = 512;

/// Bytes that can be read at any offset.
pub trait ReadAt {
    /// The number of bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads some bytes from `offset` on; zero only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }
}

/// The kind of a log's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogHeader {
    /// The magic is right.
    Valid,
    /// Fewer bytes than a header has: its creation was interrupted, it has no entries.
    Unfinished,
    /// The file contains only zeros: its header never reached the disk, it has no entries.
    Zero,
    /// Anything else.
    Foreign,
}

/// Why bytes at an offset are not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFlaw {
    /// The file ends inside of it.
    #[error("the file ends inside the entry")]
    CutShort,
    /// Length zero, but not all zeros up to the end.
    #[error("zeros in place of an entry, and other bytes behind them")]
    Zeros,
    /// A negative length.
    #[error("impossible length {0}")]
    Length(i32),
    /// The checksum is not that of the payload.
    #[error("wrong checksum")]
    Checksum,
    /// The checksum is right, but the end mark is missing.
    #[error("end mark missing")]
    EndMark,
}

/// How the entries of a log end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// The file ends after the last entry, or only zeros follow.
    Clean {
        /// Offset after the last entry.
        at: u64,
    },
    /// Bytes that are no entry follow, and no valid entry after them.
    Torn(LogDamage),
    /// Bytes that are no entry follow, and after them a valid entry of a later transaction.
    Damaged(LogDamage, ValidAfterDamage),
}

/// Bytes that are no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDamage {
    /// Offset after the last valid entry.
    pub at: u64,
    /// The flaw of the bytes.
    pub flaw: LogFlaw,
    /// The highest transaction before it in this file.
    pub last: Option<Zxid>,
    /// The zxid of the damaged entry, if the bytes contain a plausible one.
    pub claimed: Option<Zxid>,
    /// The first sector since `at` that contains only zeros, as after a write that a power failure lost.
    pub blank_sector: Option<u64>,
}

/// A valid entry after damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidAfterDamage {
    /// Its offset.
    pub at: u64,
    /// Its zxid.
    pub zxid: Zxid,
}

/// The next item of the scanner.
#[derive(Debug)]
pub enum ScanItem<'s> {
    /// An entry with a right checksum and end mark.
    Entry(RawEntry<'s>),
    /// There are no more.
    End(LogEnd),
}

/// A checked but undecoded entry.
#[derive(Debug)]
pub struct RawEntry<'s> {
    /// The offset of the frame.
    pub at: u64,
    /// The offset of the next frame.
    pub end: u64,
    /// Header, body, digest.
    pub payload: &'s [u8],
}

enum CheckedEntry {
    Valid { end: u64 },
    Flawed(LogFlaw),
}

/// Reads a log front to back.
#[derive(Debug)]
pub struct LogScanner<F> {
    file: F,
    length: u64,
    window: Vec<u8>,
    /// Bytes of the window that were read from the file.
    filled: usize,
    window_start: u64,
    at: u64,
    highest: Option<Zxid>,
}

impl<F: ReadAt> LogScanner<F> {
    /// Reads the header. Entries may be read only if it is valid.
    pub fn open(file: F) -> io::Result<(LogScanner<F>, LogHeader)> {
        let length = file.length()?;
        let mut scanner = LogScanner {
            file,
            length,
            window: Vec::new(),
            filled: 0,
            window_start: 0,
            at: HEADER_SIZE as u64,
            highest: None,
        };
        let header = scanner.bytes(0, HEADER_SIZE)?;
        let header = if header.len() < HEADER_SIZE {
            LogHeader::Unfinished
        } else if header.starts_with(&MAGIC) {
            LogHeader::Valid
        } else if scanner.first_nonzero(0)?.is_none() {
            LogHeader::Zero
        } else {
            LogHeader::Foreign
        };
        Ok((scanner, header))
    }

    /// The length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The offset of the next entry.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Continues at another offset: after damage, or again from the front. The highest zxid so far still
    /// determines which transactions are later ones.
    pub fn continue_at(&mut self, at: u64) {
        self.at = at;
    }

    /// The flaw of the entry at an offset; `None` if it is valid.
    pub fn flaw_at(&mut self, at: u64) -> io::Result<Option<LogFlaw>> {
        Ok(match self.check(at)? {
            CheckedEntry::Valid { .. } => None,
            CheckedEntry::Flawed(flaw) => Some(flaw),
        })
    }

    /// The next entry, or the end of the log. After the end every call returns the end.
    pub fn next_entry(&mut self) -> io::Result<ScanItem<'_>> {
        let at = self.at;
        match self.check(at)? {
            CheckedEntry::Valid { end } => {
                self.at = end;
                let size = usize::try_from(end - at).expect("check has read the entry");
                let start = usize::try_from(at - self.window_start).expect("the window holds the entry");
                let payload = &self.window[start + ENTRY_HEAD_SIZE..start + size - 1];
                self.highest = self.highest.max(payload_zxid(payload));
                Ok(ScanItem::Entry(RawEntry { at, end, payload }))
            }
            CheckedEntry::Flawed(flaw) => Ok(ScanItem::End(self.end_at(at, flaw)?)),
        }
    }

    fn end_at(&mut self, at: u64, flaw: LogFlaw) -> io::Result<LogEnd> {
        if self.first_nonzero(at)?.is_none() {
            return Ok(LogEnd::Clean { at });
        }
        let behind = self.find_valid(at + 1)?;
        let until = behind.map_or(self.length, |behind| behind.at);
        let damage = LogDamage {
            at,
            flaw,
            last: self.highest,
            claimed: self.claimed(at)?,
            blank_sector: self.blank_sector(at, until)?,
        };
        Ok(match behind {
            Some(behind) => LogEnd::Damaged(damage, behind),
            None => LogEnd::Torn(damage),
        })
    }

    /// The window's bytes at `at`: as many as asked for, fewer only at the end of the file.
    fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let end = at.saturating_add(count as u64).min(self.length);
        if at < self.window_start || end > self.window_start + self.filled as u64 {
            let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
            let size = count.max(WINDOW_SIZE).min(left);
            if self.window.len() < size {
                self.window = vec![0; size];
            }
            self.window_start = at;
            self.filled = 0;
            while self.filled < size {
                match self.file.read_at(at + self.filled as u64, &mut self.window[self.filled..size])? {
                    0 => break,
                    count => self.filled += count,
                }
            }
        }
        let start = usize::try_from(at - self.window_start).unwrap_or(usize::MAX).min(self.filled);
        let end = start.saturating_add(count).min(self.filled);
        Ok(&self.window[start..end])
    }

    fn check(&mut self, at: u64) -> io::Result<CheckedEntry> {
        let Some((_, length)) = self.head(at)? else {
            return Ok(CheckedEntry::Flawed(LogFlaw::CutShort));
        };
        let payload = match usize::try_from(length) {
            Err(_) => return Ok(CheckedEntry::Flawed(LogFlaw::Length(length))),
            Ok(0) => return Ok(CheckedEntry::Flawed(LogFlaw::Zeros)),
            Ok(payload) => payload,
        };
        let size = payload + ENTRY_OVERHEAD;
        let end = at + size as u64;
        if end > self.length {
            return Ok(CheckedEntry::Flawed(LogFlaw::CutShort));
        }
        let frame = self.bytes(at, size)?;
        if frame.len() < size {
            return Ok(CheckedEntry::Flawed(LogFlaw::CutShort));
        }
        let checksum = u64::from(simd_adler32::adler32(&&frame[ENTRY_HEAD_SIZE..size - 1]));
        Ok(if frame[..8] != checksum.to_be_bytes() {
            CheckedEntry::Flawed(LogFlaw::Checksum)
        } else if frame[size - 1] != END_MARK {
            CheckedEntry::Flawed(LogFlaw::EndMark)
        } else {
            CheckedEntry::Valid { end }
        })
    }

    /// Checksum and length at an offset.
    fn head(&mut self, at: u64) -> io::Result<Option<(u64, i32)>> {
        let head = self.bytes(at, ENTRY_HEAD_SIZE)?;
        let Some(head) = head.first_chunk::<ENTRY_HEAD_SIZE>() else { return Ok(None) };
        let [c0, c1, c2, c3, c4, c5, c6, c7, l0, l1, l2, l3] = *head;
        let checksum = u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]);
        Ok(Some((checksum, i32::from_be_bytes([l0, l1, l2, l3]))))
    }

    /// The first valid entry of a later transaction from `at` on, at any offset.
    fn find_valid(&mut self, mut at: u64) -> io::Result<Option<ValidAfterDamage>> {
        let highest = self.highest;
        while at < self.length {
            // The upper half of a checksum is zero, the lower half never is.
            match self.first_nonzero(at)? {
                None => return Ok(None),
                Some(nonzero) => at = at.max(nonzero.saturating_sub(7)),
            }
            let view = self.bytes(at, SEARCH_SIZE + CANDIDATE_SIZE - 1)?;
            match find_candidate(view, highest) {
                None => at += SEARCH_SIZE as u64,
                Some((index, zxid)) => {
                    at += index as u64;
                    if matches!(self.check(at)?, CheckedEntry::Valid { .. }) {
                        return Ok(Some(ValidAfterDamage { at, zxid }));
                    }
                    at += 1;
                }
            }
        }
        Ok(None)
    }

    /// The zxid in the damaged bytes at `at`, if it can follow the entries before.
    fn claimed(&mut self, at: u64) -> io::Result<Option<Zxid>> {
        let highest = self.highest;
        let front = self.bytes(at, CANDIDATE_SIZE)?;
        let zxid = front.get(ENTRY_HEAD_SIZE..).and_then(payload_zxid);
        Ok(zxid.filter(|&zxid| zxid.0 > 0 && Some(zxid) > highest))
    }

    /// A sector that begins below `until` and contains only zeros after `at`.
    fn blank_sector(&mut self, at: u64, until: u64) -> io::Result<Option<u64>> {
        let mut sector = at - at % SECTOR_SIZE;
        while sector < until {
            let from = sector.max(at);
            let end = sector + SECTOR_SIZE;
            match self.first_nonzero(from)? {
                Some(nonzero) if nonzero < end => sector = end,
                Some(_) | None => return Ok(Some(sector)),
            }
        }
        Ok(None)
    }

    fn first_nonzero(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while at < self.length {
            let bytes = self.bytes(at, ZEROS.len())?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if bytes != &ZEROS[..bytes.len()]
                && let Some(index) = bytes.iter().position(|&byte| byte != 0)
            {
                return Ok(Some(at + index as u64));
            }
            at += bytes.len() as u64;
        }
        Ok(None)
    }
}

/// The offset at which an entry with a zxid above `highest` can begin; checked before the checksum is
/// computed.
fn find_candidate(view: &[u8], highest: Option<Zxid>) -> Option<(usize, Zxid)> {
    for (index, front) in view.windows(CANDIDATE_SIZE).enumerate() {
        if front[0] != 0 || front[..4] != [0; 4] || front[4..8] == [0; 4] {
            continue;
        }
        let length = i32::from_be_bytes([front[8], front[9], front[10], front[11]]);
        let payload = &front[ENTRY_HEAD_SIZE..];
        let known = payload_type(payload).and_then(OpCode::from_wire).is_some();
        let later = payload_zxid(payload).filter(|&zxid| Some(zxid) > highest && zxid.0 > 0);
        if let Some(zxid) = later
            && known
            && usize::try_from(length).is_ok_and(|length| length >= TXN_HEADER_SIZE)
        {
            return Some((index, zxid));
        }
    }
    None
}
