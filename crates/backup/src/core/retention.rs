//! Removes what is too old. The manifest forgets it first; then the objects are removed.

use std::collections::BTreeSet;

use super::archive::{Archive, ArchiveError, PageError, all_segments};
use super::manifest::{Base, Manifest};
use super::names;
use super::target::Target;

/// What a removal has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Bases that the manifest forgot.
    pub bases: u64,
    /// Objects that were removed, with those that a crash had left.
    pub objects: u64,
}

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
    /// The target failed.
    #[error(transparent)]
    Target(#[from] super::target::TargetError),
}

/// Removes objects that the manifest does not name. The caller must have written the manifest itself: then
/// no other writer can have objects that it is about to name.
pub fn sweep<T: Target>(archive: &Archive<T>) -> Result<u64, SweepError> {
    let manifest = archive.manifest();
    let segments = all_segments(archive.target(), manifest)?;
    let mut named: BTreeSet<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
    named.extend(manifest.bases.iter().map(|base| base.name.as_str()));
    named.extend(manifest.pages.iter().map(|page| page.name.as_str()));
    let mut removed = 0;
    for name in archive.target().list()? {
        if names::is_own(&name) && !named.contains(name.as_str()) {
            archive.target().delete(&name)?;
            removed += 1;
        }
    }
    Ok(removed)
}
