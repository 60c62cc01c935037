//! Removes objects that are too old. The manifest forgets them first; then they are removed.

use std::collections::BTreeSet;

use super::archive::{Archive, ArchiveError, PageError, all_segments};
use super::manifest::{Base, Manifest};
use super::names;
use super::target::{Target, TargetError};

/// The first base that stays, if all points since `since_ms` must stay: the newest one before that time.
fn first_kept(manifest: &Manifest, since_ms: i64) -> Option<&Base> {
    let bases = &manifest.bases;
    bases.iter().rfind(|base| base.time_ms <= since_ms).or(bases.first())
}

/// Forgets bases and segments that no point since `since_ms` needs.
pub fn forget<T: Target>(archive: &mut Archive<T>, since_ms: i64) -> Result<u64, ArchiveError> {
    let manifest = archive.manifest();
    let Some(kept) = first_kept(manifest, since_ms).cloned() else { return Ok(0) };
    let index = manifest.bases.iter().position(|base| base.name == kept.name).unwrap_or(0);
    if index == 0 {
        return Ok(0);
    }
    archive.commit(|manifest| {
        let position = manifest.bases.iter().position(|base| base.name == kept.name);
        manifest.bases.drain(..position.unwrap_or(0));
        manifest.pages.retain(|page| (page.last_chain, page.last) > (kept.chain, kept.zxid));
        manifest.segments.retain(|segment| (segment.chain, segment.last) > (kept.chain, kept.zxid));
        Ok(())
    })?;
    Ok(index as u64)
}

/// Why objects were not removed.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The index cannot be read, so that it is unknown which objects belong to the backup.
    #[error(transparent)]
    Index(#[from] PageError),
    /// The target failed, or another process writes to it.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl From<TargetError> for SweepError {
    fn from(error: TargetError) -> SweepError {
        SweepError::Archive(error.into())
    }
}

/// Removes objects that the manifest does not name. They are listed before another manifest is written: it is
/// refused if a successor has written one, so that no object of a successor is removed, however long this
/// process was paused.
pub fn sweep<T: Target>(archive: &mut Archive<T>) -> Result<u64, SweepError> {
    let listed = archive.target().list()?;
    let is_own = |name: &String| names::is_own(name);
    let candidates: Vec<String> = listed.into_iter().filter(is_own).collect();
    if unnamed(archive, &candidates)?.is_empty() {
        return Ok(0);
    }
    archive.commit(|_| Ok(()))?;
    let unnamed = unnamed(archive, &candidates)?;
    for name in &unnamed {
        archive.target().delete(name)?;
    }
    Ok(unnamed.len() as u64)
}

/// The names of a list that the manifest does not have.
fn unnamed<'a, T: Target>(archive: &Archive<T>, listed: &'a [String]) -> Result<Vec<&'a String>, PageError> {
    let manifest = archive.manifest();
    let segments = all_segments(archive.target(), manifest)?;
    let mut named: BTreeSet<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
    named.extend(manifest.bases.iter().map(|base| base.name.as_str()));
    named.extend(manifest.pages.iter().map(|page| page.name.as_str()));
    Ok(listed.iter().filter(|name| !named.contains(name.as_str())).collect())
}
