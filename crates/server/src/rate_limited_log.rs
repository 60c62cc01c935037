//! Logs the warnings of the core, each kind at a limited rate.

use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_proto::ServerId;
use zebu_zab::PeerWarning;

/// A warning of one kind is logged again after this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Most remembered warnings; beyond that the oldest is forgotten.
const LOGGED_MAX: usize = 64;

/// The kind of a warning, and the server that it is about.
type LogKey = (Discriminant<PeerWarning>, Option<ServerId>);

/// The warnings that were logged, and when.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedLog {
    logged: Vec<(LogKey, Instant)>,
}

impl RateLimitedLog {
    pub(crate) fn log(&mut self, finding: &PeerWarning) {
        if !self.is_due(finding, Instant::now()) {
            return;
        }
        match finding {
            PeerWarning::LearnerAcceptedLaterEpoch { server, accepted, epoch } => error!(
                server = server.0,
                accepted,
                epoch,
                reason = %finding,
                "a server has promised a later epoch than this leader's"
            ),
            PeerWarning::FollowingWithoutVote { leader, epoch, accepted } => error!(
                leader = leader.0,
                epoch,
                accepted,
                reason = %finding,
                "the leader's epoch is older than the one that this server has promised"
            ),
            PeerWarning::CannotFollow { leader, epoch, accepted, current } => error!(
                leader = leader.0,
                epoch,
                accepted,
                current,
                reason = %finding,
                "the leader's epoch is older than the history of this server"
            ),
            PeerWarning::EpochsExhausted { highest } => {
                error!(highest, reason = %finding, "no leader can be established: no epoch is left")
            }
            PeerWarning::DigestMismatch { zxid, expected, found } => error!(
                %zxid,
                expected = format_args!("{expected:#x}"),
                found = format_args!("{found:#x}"),
                reason = %finding,
                "the state differs from the leader's"
            ),
            PeerWarning::DigestMatchesAgain { zxid, differed } => {
                info!(%zxid, differed, "the state is the leader's again")
            }
            PeerWarning::DataQuarantined { zxid, differed } => {
                warn!(%zxid, differed, reason = %finding, "the data of this member is set aside")
            }
            PeerWarning::HandsOver { reason, append_p99_ms } => warn!(
                cause = reason.word(),
                append_p99_ms,
                reason = %finding,
                "this leader hands over because of its disk"
            ),
        }
    }

    fn is_due(&mut self, finding: &PeerWarning, now: Instant) -> bool {
        let server = match finding {
            PeerWarning::LearnerAcceptedLaterEpoch { server, .. } => Some(*server),
            PeerWarning::FollowingWithoutVote { .. }
            | PeerWarning::CannotFollow { .. }
            | PeerWarning::EpochsExhausted { .. }
            | PeerWarning::DigestMismatch { .. }
            | PeerWarning::DigestMatchesAgain { .. }
            | PeerWarning::DataQuarantined { .. }
            | PeerWarning::HandsOver { .. } => None,
        };
        let subject = (discriminant(finding), server);
        match self.logged.iter_mut().find(|(logged, _)| *logged == subject) {
            Some((_, at)) if now.duration_since(*at) < LOG_INTERVAL => false,
            Some((_, at)) => {
                *at = now;
                true
            }
            None => {
                if self.logged.len() == LOGGED_MAX {
                    self.logged.remove(0);
                }
                self.logged.push((subject, now));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_in_a_while() {
        let mut findings = RateLimitedLog::default();
        let start = Instant::now();
        let [one, other] = [1, 2].map(|highest| PeerWarning::EpochsExhausted { highest });
        assert!(findings.is_due(&one, start));
        assert!(!findings.is_due(&other, start + LOG_INTERVAL / 2));
        let again = PeerWarning::DigestMatchesAgain { zxid: zebu_proto::Zxid(1), differed: 1 };
        assert!(findings.is_due(&again, start));
        assert!(findings.is_due(&one, start + LOG_INTERVAL));
    }
}
