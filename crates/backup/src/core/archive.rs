//! The writer of a backup: objects first, then the manifest that names them.
//!
//! A crash between two steps leaves objects that no manifest names, and never the reverse. Each step may be
//! repeated after an error. A second writer is found by the revision of the manifest.

use std::collections::BTreeSet;

use zebu_proto::Zxid;
use zebu_storage::Compression;

use super::manifest::{
    Base, ChainEnd, INDEX_BYTES_MAX, Manifest, ManifestError, PAGE_SEGMENTS, Page, PageContent, Segment,
};
use super::names;
use super::segment::ClosedSegment;
use super::target::{Bytes, Content, Revision, Target, TargetError};

/// Why the backup was not written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The target failed. The step may be repeated.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The manifest in the target is unusable.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Another process writes to the same target.
    #[error(
        "another backup process (run {run}) writes to this target; this one stops: run one process per target"
    )]
    Superseded {
        /// The run of the other process.
        run: String,
    },
    /// A segment does not follow the end of the backup.
    #[error("the log segment after {after} does not follow the end of the backup, {end}")]
    Hole {
        /// The transaction before the segment.
        after: Zxid,
        /// The end of the backup.
        end: Zxid,
    },
    /// There is no base yet.
    #[error("the backup has no base, so that no log can follow it")]
    NoBase,
}

impl ArchiveError {
    /// Whether a later attempt may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, ArchiveError::Target(TargetError::Io { .. }))
    }
}

/// The facts about a new base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewBase {
    /// The last transaction of the state.
    pub zxid: Zxid,
    /// Its time, milliseconds since 1970.
    pub time_ms: i64,
    /// Whether the time is that of the backup's clock.
    pub local_time: bool,
    /// The number of nodes.
    pub nodes: u64,
    /// The digest of the tree.
    pub digest: i64,
    /// The compression of the snapshot.
    pub compression: Compression,
    /// Whether the history continues to it without a hole.
    pub continuity: Continuity,
}

/// How a base stands to the history before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// All transactions up to it are in the backup.
    Continues,
    /// The history before it is unknown or another one.
    NewChain,
}

/// What a backup has, and the condition of the next change.
#[derive(Debug)]
pub struct Archive<T> {
    target: T,
    run: String,
    manifest: Manifest,
    revision: Option<Revision>,
    /// Segments that were stored since the last manifest. A repeated step does not store them again.
    unnamed: BTreeSet<String>,
}

impl<T: Target> Archive<T> {
    /// Opens a backup, or begins one. `run` names this process; no two processes have the same one.
    pub fn open(target: T, run: impl Into<String>) -> Result<Archive<T>, ArchiveError> {
        let (manifest, revision) = match target.manifest()? {
            Some(stored) => (Manifest::decode(&stored.bytes)?, Some(stored.revision)),
            None => (Manifest::empty(), None),
        };
        Ok(Archive { target, run: run.into(), manifest, revision, unnamed: BTreeSet::new() })
    }

    /// The manifest that the target has.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The target.
    pub fn target(&self) -> &T {
        &self.target
    }

    /// The end of the backup.
    pub fn end(&self) -> Option<ChainEnd> {
        self.manifest.end()
    }

    /// Adds a base. A state that the end of the backup has already is not added again: an encrypted snapshot
    /// has other bytes each time, and the manifest names the first ones.
    pub fn add_base(&mut self, new: NewBase, epoch: u32, snapshot: &dyn Content) -> Result<(), ArchiveError> {
        if is_base_of_end(&self.manifest, &new, snapshot.sha256()) {
            return Ok(());
        }
        let chain = match (new.continuity, self.end()) {
            (Continuity::Continues, Some(end)) => end.chain,
            (Continuity::NewChain, _) | (_, None) => self.manifest.next_chain(),
        };
        let name = names::base(new.zxid, new.compression, snapshot.sealing(), &self.tag(chain));
        self.target.put(&name, snapshot)?;
        let (bytes, sha256) = (snapshot.length(), snapshot.sha256().to_owned());
        self.commit(|manifest| {
            if is_base_of_end(manifest, &new, &sha256) {
                return Ok(());
            }
            let end = manifest.end();
            if let (Continuity::Continues, Some(end)) = (new.continuity, end)
                && end.zxid != new.zxid
            {
                return Err(ArchiveError::Hole { after: new.zxid, end: end.zxid });
            }
            let time_ms = end.map_or(new.time_ms, |end| end.time_ms.max(new.time_ms));
            let (name, sha256) = (name.clone(), sha256.clone());
            let NewBase { zxid, nodes, digest, local_time, .. } = new;
            manifest.bases.push(Base {
                name,
                chain,
                zxid,
                time_ms,
                bytes,
                sha256,
                nodes,
                digest,
                local_time,
            });
            manifest.highest_epoch = manifest.highest_epoch.max(epoch).max(zxid.epoch());
            Ok(())
        })
    }

    /// What the names of objects of this run have in a chain. One run can meet the same zxids again in a
    /// later chain, after the ensemble was set back.
    fn tag(&self, chain: u32) -> String {
        format!("{}-{chain}", self.run)
    }

    /// Adds segments, oldest first. The first one must follow the end of the backup.
    pub fn add_segments(&mut self, closed: &[ClosedSegment], epoch: u32) -> Result<(), ArchiveError> {
        let chain = self.end().ok_or(ArchiveError::NoBase)?.chain;
        let tag = self.tag(chain);
        let mut rows = Vec::with_capacity(closed.len());
        for segment in closed {
            let name = names::segment(segment.first, segment.last, segment.sealing, &tag);
            let content = Bytes::new(&segment.bytes);
            if !self.unnamed.contains(&name) {
                self.target.put(&name, &content)?;
                self.unnamed.insert(name.clone());
            }
            rows.push(Segment {
                name,
                chain,
                after: segment.after,
                first: segment.first,
                last: segment.last,
                first_ms: segment.first_ms,
                last_ms: segment.last_ms,
                transactions: segment.transactions,
                bytes: content.length(),
                sha256: content.sha256().to_owned(),
            });
        }
        let page = self.store_page_if_due()?;
        self.commit(|manifest| {
            if let Some(page) = &page
                && !manifest.pages.iter().any(|known| known.name == page.name)
            {
                manifest.pages.push(page.clone());
                manifest.segments.drain(..PAGE_SEGMENTS.min(manifest.segments.len()));
            }
            for row in &rows {
                if manifest.segments.iter().any(|known| known.name == row.name) {
                    continue;
                }
                manifest.correct_base_time(row.first_ms);
                let end = manifest.end().ok_or(ArchiveError::NoBase)?;
                if row.after != end.zxid {
                    return Err(ArchiveError::Hole { after: row.after, end: end.zxid });
                }
                let first_ms = row.first_ms.max(end.time_ms);
                let last_ms = row.last_ms.max(first_ms);
                manifest.segments.push(Segment { chain: end.chain, first_ms, last_ms, ..row.clone() });
            }
            let last = rows.last().map_or(0, |row| row.last.epoch());
            manifest.highest_epoch = manifest.highest_epoch.max(epoch).max(last);
            Ok(())
        })
    }

    /// Moves the oldest segments of a long manifest into a page. One segment always stays, because the end
    /// of the backup is read from it.
    fn store_page_if_due(&self) -> Result<Option<Page>, ArchiveError> {
        if self.manifest.segments.len() <= PAGE_SEGMENTS {
            return Ok(None);
        }
        let content = PageContent { segments: self.manifest.segments[..PAGE_SEGMENTS].to_vec() };
        let (Some(first), Some(last)) = (content.segments.first(), content.segments.last()) else {
            return Ok(None);
        };
        let name = names::page(first.first, last.last, &self.run);
        let encoded = serde_json::to_vec(&content).expect("a page is always valid JSON");
        let object = Bytes::new(&encoded);
        self.target.put(&name, &object)?;
        Ok(Some(Page {
            name,
            first_chain: first.chain,
            last_chain: last.chain,
            last: last.last,
            segments: content.segments.len() as u64,
            segment_bytes: content.segments.iter().map(|segment| segment.bytes).sum(),
            bytes: object.length(),
            sha256: object.sha256().to_owned(),
        }))
    }

    /// Replaces the manifest. `change` is applied again if the target turns out to have a manifest of this
    /// run whose answer was lost.
    pub(super) fn commit(
        &mut self,
        change: impl Fn(&mut Manifest) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        // One conflict can be an own manifest; after it was adopted, a second one is another writer's.
        for _ in 0..2 {
            let mut next = self.manifest.clone();
            change(&mut next)?;
            next.generation += 1;
            next.writer.clone_from(&self.run);
            match self.target.replace_manifest(&next.encode(), self.revision.as_ref()) {
                Ok(revision) => {
                    self.manifest = next;
                    self.revision = Some(revision);
                    self.unnamed.clear();
                    return Ok(());
                }
                Err(TargetError::Conflict) => self.adopt_own()?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(ArchiveError::Superseded { run: "unknown".to_owned() })
    }

    /// Continues with a manifest of this run that the target has, although its answer was an error.
    fn adopt_own(&mut self) -> Result<(), ArchiveError> {
        let Some(stored) = self.target.manifest()? else {
            return Err(ArchiveError::Superseded { run: "unknown".to_owned() });
        };
        let manifest = Manifest::decode(&stored.bytes)?;
        if manifest.writer != self.run || manifest.generation != self.manifest.generation + 1 {
            return Err(ArchiveError::Superseded { run: manifest.writer });
        }
        self.manifest = manifest;
        self.revision = Some(stored.revision);
        Ok(())
    }
}

/// Whether the manifest ends with this base. Another attempt may have written it.
fn is_base_of_end(manifest: &Manifest, new: &NewBase, sha256: &str) -> bool {
    let (Some(base), Some(end)) = (manifest.bases.last(), manifest.end()) else { return false };
    let is_same = new.continuity == Continuity::Continues || base.sha256 == sha256;
    base.zxid == new.zxid && end.zxid == new.zxid && is_same
}

/// Reads all segments of a manifest, those in pages too, oldest first.
pub fn all_segments(target: &impl Target, manifest: &Manifest) -> Result<Vec<Segment>, PageError> {
    let mut segments = Vec::new();
    for page in &manifest.pages {
        segments.append(&mut read_page(target, page)?.segments);
    }
    segments.extend(manifest.segments.iter().cloned());
    Ok(segments)
}

/// Why the index cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The target failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The page is not the one that the manifest names.
    #[error("{name} is damaged: its checksum is not that of the manifest")]
    Checksum {
        /// The name of the page.
        name: String,
    },
    /// The page has the checksum of the manifest, and is no page.
    #[error("{name} is no page of an index: {source}")]
    Content {
        /// The name of the page.
        name: String,
        /// The reason.
        source: serde_json::Error,
    },
}

pub(super) fn read_page(target: &impl Target, page: &Page) -> Result<PageContent, PageError> {
    let bytes = target.get(&page.name, page.bytes.min(INDEX_BYTES_MAX))?;
    if super::sha256(&bytes) != page.sha256 {
        return Err(PageError::Checksum { name: page.name.clone() });
    }
    serde_json::from_slice(&bytes).map_err(|source| PageError::Content { name: page.name.clone(), source })
}
