//! Proves a backup: every base loads, every segment replays, and the replay ends at the next base's digest.

use super::archive::{PageError, all_segments, read_page};
use super::manifest::{Base, Manifest, ManifestError, Segment};
use super::plan::{Plan, Point};
use super::replay::{ReplayError, ReplayObserver, rebuild};
use super::target::{MANIFEST, Target, TargetError};

/// A proven part of a backup: from one base to the next one of its chain, or to the end of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenPart {
    /// The base.
    pub base: Base,
    /// The base whose digest the replay reached; `None` at the end of a chain.
    pub reached: Option<Base>,
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Digests that were compared, with that of the base.
    pub digests: u64,
}

/// Why a backup is not proven.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The manifest cannot be read.
    #[error(transparent)]
    Manifest(ManifestError),
    /// The index cannot be read.
    #[error(transparent)]
    Index(#[from] PageError),
    /// An object is missing, damaged, or not what the ensemble had.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The log does not reach from one base to the next.
    #[error("the log behind {base} ends at {end:#x} and does not reach the next base, {next}")]
    Short {
        /// The base.
        base: String,
        /// The last transaction of the log.
        end: i64,
        /// The next base.
        next: String,
    },
}

/// Why a proof could not be carried out. It tells nothing about the backup.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The target cannot be read.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// There is nothing to prove.
    #[error("there is no backup yet: it has no manifest.json")]
    Absent,
    /// A later release wrote the backup.
    #[error(transparent)]
    Format(ManifestError),
    /// The observer stopped the proof.
    #[error("the proof was stopped")]
    Cancelled,
}

/// What a proof found.
#[derive(Debug)]
pub enum Finding {
    /// A part that can be restored.
    Proven(ProvenPart),
    /// A part that cannot be restored.
    Flaw(VerifyError),
}

/// Proves all parts that a manifest names, oldest first, up to the first flaw.
pub fn verify(
    target: &impl Target,
    manifest: &Manifest,
    hash_seed: u64,
    observer: &mut dyn ReplayObserver,
    mut proven: impl FnMut(&ProvenPart),
) -> Result<(), VerifyError> {
    let segments = all_segments(target, manifest)?;
    for (index, base) in manifest.bases.iter().enumerate() {
        let next = next_of_chain(manifest, index);
        proven(&verify_part(target, base, next, &segments, hash_seed, observer)?);
    }
    Ok(())
}

/// Proves a backup that another process may write and clean up meanwhile. `report` gets every finding, and
/// the result is the number of flaws.
pub fn prove(
    target: &impl Target,
    hash_seed: u64,
    observer: &mut dyn ReplayObserver,
    mut report: impl FnMut(Finding),
) -> Result<u64, ProofError> {
    let mut flaws = 0;
    let mut flaw = |error: VerifyError, report: &mut dyn FnMut(Finding)| {
        let error = of_backup(error)?;
        flaws += 1;
        report(Finding::Flaw(error));
        Ok::<(), ProofError>(())
    };
    let mut index = match Index::read(target) {
        Ok(index) => index,
        Err(error) => {
            flaw(error, &mut report)?;
            return Ok(flaws);
        }
    };
    observer.expect_bytes(index.bytes());
    for error in std::mem::take(&mut index.flaws) {
        flaw(error.into(), &mut report)?;
    }
    for base in index.manifest.bases.clone() {
        let mut result = index.verify(target, &base, hash_seed, observer);
        if result.as_ref().is_err_and(VerifyError::is_missing_object)
            && let Ok(newer) = Index::read(target)
        {
            // Retention may have removed the object since the manifest was read.
            let is_forgotten = newer.position(&base).is_none();
            index = newer;
            if is_forgotten {
                continue;
            }
            result = index.verify(target, &base, hash_seed, observer);
        }
        match result {
            Ok(part) => report(Finding::Proven(part)),
            Err(error) => flaw(error, &mut report)?,
        }
    }
    Ok(flaws)
}

/// An error that is a flaw of the backup; all others end a proof.
fn of_backup(error: VerifyError) -> Result<VerifyError, ProofError> {
    match error {
        VerifyError::Replay(ReplayError::Target(target)) | VerifyError::Index(PageError::Target(target)) => {
            match target {
                TargetError::Missing { name } if name == MANIFEST => Err(ProofError::Absent),
                TargetError::Missing { .. } | TargetError::Damaged(_) => Ok(ReplayError::from(target).into()),
                TargetError::Io { .. }
                | TargetError::Unusable(_)
                | TargetError::Held(_)
                | TargetError::Conflict => Err(ProofError::Target(target)),
            }
        }
        VerifyError::Replay(ReplayError::Cancelled) => Err(ProofError::Cancelled),
        VerifyError::Manifest(error @ ManifestError::Format(_)) => Err(ProofError::Format(error)),
        error @ (VerifyError::Manifest(ManifestError::Damaged(_))
        | VerifyError::Index(_)
        | VerifyError::Replay(_)
        | VerifyError::Short { .. }) => Ok(error),
    }
}

impl VerifyError {
    fn is_missing_object(&self) -> bool {
        matches!(
            self,
            VerifyError::Replay(ReplayError::Target(TargetError::Missing { .. }))
                | VerifyError::Index(PageError::Target(TargetError::Missing { .. }))
        )
    }
}

/// A manifest and all segments that can be found with it.
struct Index {
    manifest: Manifest,
    segments: Vec<Segment>,
    /// Pages that cannot be read.
    flaws: Vec<PageError>,
}

impl Index {
    fn read(target: &impl Target) -> Result<Index, VerifyError> {
        let mut index = Index::read_once(target)?;
        let is_missing = |error: &PageError| matches!(error, PageError::Target(TargetError::Missing { .. }));
        if index.flaws.iter().any(is_missing) {
            // Retention may have removed the page since the manifest was read.
            index = Index::read_once(target)?;
        }
        Ok(index)
    }

    fn read_once(target: &impl Target) -> Result<Index, VerifyError> {
        let stored = target.manifest().map_err(ReplayError::from)?;
        let stored = stored.ok_or_else(|| TargetError::Missing { name: MANIFEST.to_owned() });
        let bytes = stored.map_err(ReplayError::from)?.bytes;
        let manifest = Manifest::decode(&bytes).map_err(VerifyError::Manifest)?;
        let (mut segments, mut flaws) = (Vec::new(), Vec::new());
        for page in &manifest.pages {
            match read_page(target, page) {
                Ok(mut content) => segments.append(&mut content.segments),
                Err(error) => flaws.push(error),
            }
        }
        segments.extend(manifest.segments.iter().cloned());
        Ok(Index { manifest, segments, flaws })
    }

    fn bytes(&self) -> u64 {
        let bases: u64 = self.manifest.bases.iter().map(|base| base.bytes).sum();
        bases + self.segments.iter().map(|segment| segment.bytes).sum::<u64>()
    }

    fn position(&self, base: &Base) -> Option<usize> {
        self.manifest.bases.iter().position(|known| known.name == base.name)
    }

    fn verify(
        &self,
        target: &impl Target,
        base: &Base,
        hash_seed: u64,
        observer: &mut dyn ReplayObserver,
    ) -> Result<ProvenPart, VerifyError> {
        let next = self.position(base).and_then(|index| next_of_chain(&self.manifest, index));
        verify_part(target, base, next, &self.segments, hash_seed, observer)
    }
}

/// The next base of the same chain.
fn next_of_chain(manifest: &Manifest, index: usize) -> Option<&Base> {
    let base = manifest.bases.get(index)?;
    manifest.bases.get(index + 1).filter(|next| next.chain == base.chain)
}

fn verify_part(
    target: &impl Target,
    base: &Base,
    next: Option<&Base>,
    segments: &[Segment],
    hash_seed: u64,
    observer: &mut dyn ReplayObserver,
) -> Result<ProvenPart, VerifyError> {
    let belongs = |segment: &&Segment| {
        segment.chain == base.chain
            && segment.last > base.zxid
            && next.is_none_or(|next| segment.first <= next.zxid)
    };
    let point = next.map_or(Point::Latest, |next| Point::Zxid(next.zxid));
    let part =
        Plan { base: base.clone(), segments: segments.iter().filter(belongs).cloned().collect(), point };
    let state = rebuild(target, &part, hash_seed, observer)?;
    if let Some(next) = next {
        if state.tree.last_zxid() != next.zxid {
            let (base, end, next) = (base.name.clone(), state.tree.last_zxid().0, next.name.clone());
            return Err(VerifyError::Short { base, end, next });
        }
        if state.tree.digest() != next.digest {
            let (name, zxid) = (next.name.clone(), next.zxid);
            let (expected, found) = (next.digest, state.tree.digest());
            return Err(ReplayError::Digest { name, zxid, expected, found }.into());
        }
    }
    Ok(ProvenPart {
        base: base.clone(),
        reached: next.cloned(),
        transactions: state.transactions,
        digests: state.digests + u64::from(next.is_some()),
    })
}
