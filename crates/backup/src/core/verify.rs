//! Proves a backup: every base loads, every segment replays, and the replay ends at the next base's digest.

use super::archive::{PageError, all_segments};
use super::manifest::{Base, Manifest, Segment};
use super::plan::{Plan, Point};
use super::replay::{ReplayError, ReplayObserver, rebuild};
use super::target::Target;

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

/// Proves all parts of a backup, oldest first. `proven` gets each one.
pub fn verify(
    target: &impl Target,
    manifest: &Manifest,
    hash_seed: u64,
    observer: &mut dyn ReplayObserver,
    mut proven: impl FnMut(&ProvenPart),
) -> Result<(), VerifyError> {
    let segments = all_segments(target, manifest)?;
    for (index, base) in manifest.bases.iter().enumerate() {
        let next = manifest.bases.get(index + 1).filter(|next| next.chain == base.chain);
        proven(&verify_part(target, base, next, &segments, hash_seed, observer)?);
    }
    Ok(())
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
