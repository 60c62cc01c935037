//! Keeps the file `zebu.durable`: the watermark is written after every sync of the log. The hot path pays one
//! small write to the page cache and no sync; see [`crate::format::durable`] for the guarantee.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::disk::{Access, Disk, DiskFile, read_file, replace_file};
use crate::failure::{During, IoFailure};
use crate::format::durable::{NAME, SyncWatermark, TEMPORARY_NAME};

/// Reads the newest watermark beside the logs; `None` for a directory that ZooKeeper wrote.
pub fn read_note<D: Disk>(disk: &D, logs: &Path) -> Result<Option<SyncWatermark>, IoFailure> {
    let path = logs.join(NAME);
    if !disk.exists(&path).during("look for", &path)? {
        return Ok(None);
    }
    let bytes = read_file(disk, &path).during("read", &path)?;
    Ok(SyncWatermark::decode_file(&bytes))
}

/// Removes the watermark: the transactions below it are about to be dropped on purpose.
pub fn forget<D: Disk>(disk: &D, logs: &Path) -> Result<(), IoFailure> {
    let path = logs.join(NAME);
    if disk.exists(&path).during("look for", &path)? {
        disk.remove(&path).during("remove", &path)?;
        disk.sync_directory(logs).during("sync", logs)?;
    }
    Ok(())
}

/// Lowers the watermark to `zxid`: later transactions are about to be dropped on purpose. `end` is the log
/// that contains it and its end there. Durable when it returns.
pub fn lower<D: Disk>(disk: &D, logs: &Path, end: Option<(Zxid, u64)>, zxid: Zxid) -> Result<(), IoFailure> {
    let Some(note) = read_note(disk, logs)?.filter(|note| note.zxid > zxid) else { return Ok(()) };
    // No server names a log zero: such a watermark refers to no log.
    let (log, offset) = end.unwrap_or((Zxid::ZERO, 0));
    let note = SyncWatermark { sequence: note.sequence.wrapping_add(1), log, offset, zxid };
    replace_file(disk, logs, NAME, TEMPORARY_NAME, &note.encode_file()).during("write", &logs.join(NAME))
}

/// Raises the watermark to the zxid that a recovery has found and made durable. A power failure may have lost
/// the last watermarks, and their transactions need protection again. `end` is the log with the last
/// transaction, and its end there. A directory without a watermark stays without. Durable when it returns.
pub fn raise<D: Disk>(disk: &D, logs: &Path, end: (Zxid, u64), zxid: Zxid) -> Result<(), IoFailure> {
    let Some(note) = read_note(disk, logs)?.filter(|note| note.zxid < zxid) else { return Ok(()) };
    let (log, offset) = end;
    let note = SyncWatermark { sequence: note.sequence.wrapping_add(1), log, offset, zxid };
    replace_file(disk, logs, NAME, TEMPORARY_NAME, &note.encode_file()).during("write", &logs.join(NAME))
}

/// Writes the watermark.
#[derive(Debug)]
pub struct SyncWatermarkFile<F> {
    file: F,
    path: PathBuf,
    sequence: u64,
}

impl<F: DiskFile> SyncWatermarkFile<F> {
    /// Opens the file, or creates it with a first watermark.
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        logs: &Path,
        log: Zxid,
        offset: u64,
        zxid: Zxid,
    ) -> Result<SyncWatermarkFile<F>, IoFailure> {
        let path = logs.join(NAME);
        let sequence = read_note(disk, logs)?.map_or(0, |note| note.sequence);
        if sequence == 0 {
            let note = SyncWatermark { sequence: 1, log, offset, zxid };
            replace_file(disk, logs, NAME, TEMPORARY_NAME, &note.encode_file()).during("write", &path)?;
        }
        let file = disk.open(&path, Access::ReadWrite).during("open", &path)?;
        Ok(SyncWatermarkFile { file, path, sequence: sequence.max(1) })
    }

    /// Writes the watermark without syncing it.
    pub fn note(&mut self, log: Zxid, offset: u64, zxid: Zxid) -> Result<(), IoFailure> {
        self.sequence = self.sequence.wrapping_add(1);
        let note = SyncWatermark { sequence: self.sequence, log, offset, zxid };
        self.file.write_at(note.slot_offset(), &note.encode()).during("write", &self.path)
    }

    /// Makes the last watermark durable.
    pub fn sync(&self) -> Result<(), IoFailure> {
        self.file.sync_data().during("sync", &self.path)
    }
}
