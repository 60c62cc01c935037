//! Sessions that are not in the table of global ones: those that only this server knows, and those that only a
//! learner knows.

use zebu_proto::client::WriteRequest;
use zebu_proto::{ErrorCode, SessionId};

use super::{Decider, Via, Wanted};
use crate::clock::Moment;
use crate::core::Desk;
use crate::lane::{LaneId, LaneSession, Lanes};
use crate::replica::Replica;
use crate::session::{Owner, SessionIds, SessionState};

/// What a session may do.
pub(super) struct Rights {
    /// Whether it may change anything.
    pub(super) write: Result<(), ErrorCode>,
    /// Whether it may have ephemeral nodes.
    pub(super) ephemeral: Result<(), ErrorCode>,
}

impl Rights {
    const NONE: Rights =
        Rights { write: Err(ErrorCode::SessionExpired), ephemeral: Err(ErrorCode::SessionExpired) };
}

impl Decider {
    /// A learner vouches for its local sessions: here nobody has heard of them. Of the sessions whose ids were made
    /// by this server this one knows all that live.
    pub(super) fn rights(&self, desk: &Desk, session: SessionId, via: Via) -> Rights {
        let of_local = |ephemeral| Rights { write: Ok(()), ephemeral: Err(ephemeral) };
        match (self.sessions.state(session), via) {
            (Some(SessionState::Open), _) => Rights { write: Ok(()), ephemeral: Ok(()) },
            (Some(SessionState::Closing), _) => Rights::NONE,
            (None, Via::Here) if self.local_sessions.knows(session) => {
                of_local(ErrorCode::EphemeralOnLocalSession)
            }
            (None, Via::Learner)
                if self.local_sessions.are_new_ones()
                    && !self.ended.contains(session)
                    && !SessionIds::are_made_by(desk.settings.server_id, session) =>
            {
                // The learner would have made it global first, or tells its client why it did not.
                of_local(ErrorCode::SessionExpired)
            }
            (None, Via::Here | Via::Learner) => Rights::NONE,
        }
    }

    /// A local session becomes global: the transaction goes before whatever the session asks for.
    pub(super) fn upgrade(
        &mut self,
        desk: &mut Desk,
        (lane, session): (LaneId, LaneSession),
        replica: &Replica,
        lanes: &mut impl Lanes,
        now: Moment,
    ) {
        let LaneSession { id, timeout_ms } = session;
        self.sessions.track(id, timeout_ms, Some(Owner::Lane(lane)), now.monotonic_ms);
        let wanted = Wanted::of_server(id, WriteRequest::CreateSession { timeout_ms });
        self.propose(desk, wanted, replica, lanes, now);
    }
}
