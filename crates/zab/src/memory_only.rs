//! An observer without a log has transactions only in memory. Before it votes or changes its role, it
//! reloads the state of its disk. It never claims a transaction that a restart would lose.

use zebu_proto::Zxid;

use crate::action::{Action, DiskCommand};
use crate::event::IoId;
use crate::observer_settings::ObserverLog;
use crate::role::Role;
use crate::zab_state::ZabState;

/// The progress of discarding the transactions that exist only in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewind {
    None,
    /// The leader has another history, so the reload is needed in any role.
    Requested,
    /// The disk reloads the state up to `to`.
    Reloading {
        io: IoId,
        to: Zxid,
    },
    /// The log lacks its own last transaction, so the disk moves all data aside.
    Quarantining {
        io: IoId,
    },
}

impl ZabState {
    /// Whether received transactions are written to the log.
    pub(crate) fn writes_log(&self) -> bool {
        self.settings.role != Role::Observer || self.settings.observer.log == ObserverLog::OnDisk
    }

    /// Whether memory has transactions that were not submitted to the disk.
    pub(crate) fn is_ahead_of_disk(&self) -> bool {
        self.history.last() > self.disk.log_end()
    }

    /// Accepts the history of an epoch in memory only. A restart does not know this epoch.
    pub(crate) fn accept_epoch_in_memory(&mut self, epoch: u32) {
        assert!(i64::from(epoch) >= self.current_epoch, "the current epoch never decreases");
        self.current_epoch = i64::from(epoch);
    }

    /// Requests the reload from disk at the next opportunity.
    pub(crate) fn request_rewind(&mut self) {
        self.rewind = Rewind::Requested;
    }

    /// Starts the reload if it is needed; returns whether one is in progress. The disk must be idle.
    pub(crate) fn rewind_if_needed(&mut self, now_ms: i64, out: &mut Vec<Action>) -> bool {
        match self.rewind {
            Rewind::Reloading { .. } | Rewind::Quarantining { .. } => return true,
            Rewind::None if self.writes_log() && self.is_ahead_of_disk() => {}
            Rewind::Requested if self.is_ahead_of_disk() => {}
            Rewind::None | Rewind::Requested => {
                self.rewind = Rewind::None;
                return false;
            }
        }
        let to = self.disk.log_end();
        let io = self.disk.submit(now_ms);
        out.push(Action::Disk(DiskCommand::Truncate { io, to }));
        self.rewind = Rewind::Reloading { io, to };
        true
    }

    /// Completes the reload or the quarantine once the disk has finished it.
    pub(crate) fn finish_rewind(&mut self) {
        match self.rewind {
            Rewind::Reloading { io, to } if self.disk.has_done(io) => {
                self.log_truncated(to);
                self.reset_to_disk(to);
            }
            Rewind::Quarantining { io } if self.disk.has_done(io) => {
                self.data_quarantined();
                self.reset_to_disk(Zxid::ZERO);
            }
            Rewind::None | Rewind::Requested | Rewind::Reloading { .. } | Rewind::Quarantining { .. } => {
                return;
            }
        }
        self.rewind = Rewind::None;
    }

    /// The log does not contain its own end: all data is moved aside instead.
    pub(crate) fn handle_rewind_refused(&mut self, refused: IoId, now_ms: i64, out: &mut Vec<Action>) {
        if matches!(self.rewind, Rewind::Reloading { io, .. } if io == refused) {
            let io = self.disk.submit(now_ms);
            out.push(Action::Disk(DiskCommand::Quarantine { io }));
            self.rewind = Rewind::Quarantining { io };
        }
    }
}
