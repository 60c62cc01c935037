//! Disks that fail: a small file system that can be filled, and a sync that fails on demand. The sync is
//! interposed before the C library's by a shared library of a few lines, which is built here.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("failing_sync.c");

/// Size of a member's file system.
const SIZE: &str = "size=192m";

/// Names the file whose presence lets every sync fail.
pub(super) const TRIGGER_VARIABLE: &str = "ZEBU_INTEROP_FAILING_SYNC";

/// Builds the library.
pub(super) fn build_library(home: &Path) -> Result<PathBuf> {
    let (source, library) = (home.join("failing_sync.c"), home.join("failing_sync.so"));
    fs::write(&source, SOURCE)?;
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .arg("-ldl")
        .status()
        .context("run cc, which builds the library that lets syncs fail")?;
    ensure!(status.success(), "cc failed: {status}");
    Ok(library)
}

/// A file system of its own for a member's data, if this user may mount one.
#[derive(Debug)]
pub(super) struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    pub(super) fn mount(at: &Path) -> Option<SmallDisk> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(at).stderr(Stdio::null());
        let mounted = command.status().is_ok_and(|status| status.success());
        mounted.then(|| SmallDisk { at: at.to_owned() })
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    /// Leaves no room.
    pub(super) fn fill(&self) -> Result<()> {
        let mut file = File::create(self.filler())?;
        let mut piece = vec![1; 1 << 20];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                // What a failed write has left behind is room for a smaller one.
                piece.truncate(piece.len() / 16);
            }
        }
        Ok(())
    }

    /// Gives the room back.
    pub(super) fn empty(&self) -> Result<()> {
        fs::remove_file(self.filler()).context("remove what filled the disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a reader may still be in it. Nothing can be done if it fails.
        let _ = Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
    }
}
