//! Where the backup is in the history, between two stays.

use super::base_schedule::BaseSchedule;
use crate::core::learner::ExactState;
use crate::core::segment::{ClosedSegment, Segmenter};
use crate::core::stay_end::WrongDigest;

/// Where the backup is in the history.
#[derive(Debug, Default)]
pub(super) struct Position {
    pub(super) state: Option<ExactState>,
    pub(super) segmenter: Option<Segmenter>,
    pub(super) bases: BaseSchedule,
    /// What the next wrong digest does.
    pub(super) wrong_digest: WrongDigest,
    /// Whether the next whole state begins another chain because of a hole.
    pub(super) has_history: bool,
}

impl Position {
    /// Behind the end of a backup.
    pub(super) fn known(state: ExactState, segmenter: Segmenter, bases: BaseSchedule) -> Position {
        let (state, segmenter, has_history) = (Some(state), Some(segmenter), true);
        Position { state, segmenter, bases, wrong_digest: WrongDigest::default(), has_history }
    }

    /// The highest epoch that was seen.
    pub(super) fn epoch(&self) -> u32 {
        self.state.as_ref().map_or(0, |state| state.epoch)
    }

    /// Gives the state up, so that the next stay begins with a whole one. Returns the end of the log.
    pub(super) fn give_up(&mut self) -> Option<ClosedSegment> {
        self.state = None;
        self.segmenter.take().as_mut().and_then(Segmenter::close)
    }

    /// Why the first base of the present history is missing.
    pub(super) fn missing_base(&self) -> Option<String> {
        self.bases.missing().cloned()
    }

    /// Closes the open segment, at the end of the process.
    pub(super) fn close(mut self) -> Option<ClosedSegment> {
        self.segmenter.as_mut().and_then(Segmenter::close)
    }
}
