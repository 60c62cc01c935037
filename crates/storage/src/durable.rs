//! Keeps the file `zebu.durable`: after every sync of the log it is told what is durable now. The hot path
//! pays one small write into memory of the system and no sync; see [`crate::format::durable`] for what the
//! note proves.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::disk::{Access, Disk, DiskFile, read_file, replace_file};
use crate::failure::{During, IoFailure};
use crate::format::durable::{DurableNote, NAME, TEMPORARY_NAME};

/// Reads the newest note beside the logs; `None` for a directory that Apache wrote.
pub fn read_note<D: Disk>(disk: &D, logs: &Path) -> Result<Option<DurableNote>, IoFailure> {
    let path = logs.join(NAME);
    if !disk.exists(&path).during("look for", &path)? {
        return Ok(None);
    }
    let bytes = read_file(disk, &path).during("read", &path)?;
    Ok(DurableNote::decode_file(&bytes))
}

/// Removes the note: what it proves is about to be given up on purpose.
pub fn forget<D: Disk>(disk: &D, logs: &Path) -> Result<(), IoFailure> {
    let path = logs.join(NAME);
    if disk.exists(&path).during("look for", &path)? {
        disk.remove(&path).during("remove", &path)?;
        disk.sync_directory(logs).during("sync", logs)?;
    }
    Ok(())
}

/// Lowers the note to `zxid`: what lies behind is about to be given up on purpose. `end` is the log that
/// holds it and where it ends there. Durable when it returns.
pub fn lower<D: Disk>(disk: &D, logs: &Path, end: Option<(Zxid, u64)>, zxid: Zxid) -> Result<(), IoFailure> {
    let Some(note) = read_note(disk, logs)?.filter(|note| note.zxid > zxid) else { return Ok(()) };
    // No log is called zero by a server: such a note speaks of no log.
    let (log, offset) = end.unwrap_or((Zxid::ZERO, 0));
    let note = DurableNote { sequence: note.sequence.wrapping_add(1), log, offset, zxid };
    replace_file(disk, logs, NAME, TEMPORARY_NAME, &note.encode_file()).during("write", &logs.join(NAME))
}

/// Raises the note to what a recovery has found and made durable: a power failure may have lost the last notes,
/// and what they protected must not stay without. `end` is the log that holds the last transaction, and where it
/// ends there. A directory without a note stays without. Durable when it returns.
pub fn raise<D: Disk>(disk: &D, logs: &Path, end: (Zxid, u64), zxid: Zxid) -> Result<(), IoFailure> {
    let Some(note) = read_note(disk, logs)?.filter(|note| note.zxid < zxid) else { return Ok(()) };
    let (log, offset) = end;
    let note = DurableNote { sequence: note.sequence.wrapping_add(1), log, offset, zxid };
    replace_file(disk, logs, NAME, TEMPORARY_NAME, &note.encode_file()).during("write", &logs.join(NAME))
}

/// Writes notes.
#[derive(Debug)]
pub struct DurableFile<F> {
    file: F,
    path: PathBuf,
    sequence: u64,
}

impl<F: DiskFile> DurableFile<F> {
    /// Opens the file, or creates it with a first note.
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        logs: &Path,
        log: Zxid,
        offset: u64,
        zxid: Zxid,
    ) -> Result<DurableFile<F>, IoFailure> {
        let path = logs.join(NAME);
        let sequence = read_note(disk, logs)?.map_or(0, |note| note.sequence);
        if sequence == 0 {
            let note = DurableNote { sequence: 1, log, offset, zxid };
            replace_file(disk, logs, NAME, TEMPORARY_NAME, &note.encode_file()).during("write", &path)?;
        }
        let file = disk.open(&path, Access::ReadWrite).during("open", &path)?;
        Ok(DurableFile { file, path, sequence: sequence.max(1) })
    }

    /// Notes what is durable, without waiting for the note itself.
    pub fn note(&mut self, log: Zxid, offset: u64, zxid: Zxid) -> Result<(), IoFailure> {
        self.sequence = self.sequence.wrapping_add(1);
        let note = DurableNote { sequence: self.sequence, log, offset, zxid };
        self.file.write_at(note.slot_offset(), &note.encode()).during("write", &self.path)
    }

    /// Makes the last note durable.
    pub fn sync(&self) -> Result<(), IoFailure> {
        self.file.sync_data().during("sync", &self.path)
    }
}
