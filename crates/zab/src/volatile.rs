//! An observer without a log knows more than its disk. That is nobody's business while it observes; before it does
//! anything else it goes back to what a restart would find, so that it never claims what it could lose.

use zebu_proto::Zxid;

use crate::action::Action;
use crate::election::Role;
use crate::event::IoId;
use crate::member::Member;
use crate::observing::ObserverLog;

/// Whether what is not on disk is being given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewinding {
    No,
    /// It has to be, whatever the role: the leader has another history.
    Asked,
    /// The state is read back from the disk.
    Reloading {
        io: IoId,
        to: Zxid,
    },
    /// The disk does not hold what it should; everything is set aside.
    Emptying {
        io: IoId,
    },
}

impl Member {
    /// Whether what it is told goes to the disk.
    pub(crate) fn keeps_log(&self) -> bool {
        self.settings.role != Role::Observer || self.settings.observing.log == ObserverLog::Written
    }

    /// Whether it knows more than its disk was given.
    pub(crate) fn is_volatile(&self) -> bool {
        self.history.last() > self.disk.end()
    }

    /// The history of an epoch is accepted, but not on disk: a restart would not know.
    pub(crate) fn accept_epoch_in_memory(&mut self, epoch: u32) {
        assert!(i64::from(epoch) >= self.current_epoch, "an accepted history is never left for an older one");
        self.current_epoch = i64::from(epoch);
    }

    /// What is not on disk cannot stay.
    pub(crate) fn ask_to_rewind(&mut self) {
        self.rewinding = Rewinding::Asked;
    }

    /// Begins to go back to what is on disk if it must. Returns whether that is under way. The disk must be idle.
    pub(crate) fn rewinds(&mut self, now_ms: i64, out: &mut Vec<Action>) -> bool {
        match self.rewinding {
            Rewinding::Reloading { .. } | Rewinding::Emptying { .. } => return true,
            Rewinding::No if self.keeps_log() && self.is_volatile() => {}
            Rewinding::Asked if self.is_volatile() => {}
            Rewinding::No | Rewinding::Asked => {
                self.rewinding = Rewinding::No;
                return false;
            }
        }
        let to = self.disk.end();
        let io = self.disk.order(now_ms);
        out.push(Action::Truncate { io, to });
        self.rewinding = Rewinding::Reloading { io, to };
        true
    }

    /// The disk has done something: perhaps that.
    pub(crate) fn rewound(&mut self) {
        match self.rewinding {
            Rewinding::Reloading { io, to } if self.disk.has_done(io) => {
                self.truncated(to);
                self.recall(to);
            }
            Rewinding::Emptying { io } if self.disk.has_done(io) => {
                self.emptied();
                self.recall(Zxid::ZERO);
            }
            Rewinding::No | Rewinding::Asked | Rewinding::Reloading { .. } | Rewinding::Emptying { .. } => {
                return;
            }
        }
        self.rewinding = Rewinding::No;
    }

    /// The disk does not have its own end.
    pub(crate) fn rewind_refused(&mut self, refused: IoId, now_ms: i64, out: &mut Vec<Action>) {
        if matches!(self.rewinding, Rewinding::Reloading { io, .. } if io == refused) {
            let io = self.disk.order(now_ms);
            out.push(Action::SetAside { io });
            self.rewinding = Rewinding::Emptying { io };
        }
    }
}
