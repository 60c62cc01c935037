//! Puts the findings of the core into the log, each kind at most once in a while.

use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zebu_proto::ServerId;
use zebu_zab::Finding;

/// A finding of one kind is told again after so long.
const PAUSE: Duration = Duration::from_secs(60);

/// Findings that are remembered; beyond that the oldest is forgotten.
const TOLD_MAX: usize = 64;

/// What a finding is about: its kind, and another server if it is about one.
type Subject = (Discriminant<Finding>, Option<ServerId>);

/// What was told, and when.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    told: Vec<(Subject, Instant)>,
}

impl Findings {
    pub(crate) fn report(&mut self, finding: &Finding) {
        if !self.is_due(finding, Instant::now()) {
            return;
        }
        match finding {
            Finding::PromisedLater { server, accepted, epoch } => error!(
                server = server.0,
                accepted,
                epoch,
                reason = %finding,
                "a server has promised a later epoch than this leader's"
            ),
            Finding::FollowsUncounted { leader, epoch, accepted } => error!(
                leader = leader.0,
                epoch,
                accepted,
                reason = %finding,
                "the leader's epoch is older than the one that this server has promised"
            ),
            Finding::StaysOut { leader, epoch, accepted, current } => error!(
                leader = leader.0,
                epoch,
                accepted,
                current,
                reason = %finding,
                "the leader's epoch is older than the history of this server"
            ),
            Finding::NoEpochLeft { highest } => {
                error!(highest, reason = %finding, "no leader can be established: no epoch is left")
            }
            Finding::DigestDiffers { zxid, expected, found } => error!(
                %zxid,
                expected = format_args!("{expected:#x}"),
                found = format_args!("{found:#x}"),
                reason = %finding,
                "the state differs from the leader's"
            ),
            Finding::DigestsEqualAgain { zxid, differed } => {
                info!(%zxid, differed, "the state is the leader's again")
            }
            Finding::StateGivenUp { zxid, differed } => {
                warn!(%zxid, differed, reason = %finding, "the data of this member is set aside")
            }
        }
    }

    fn is_due(&mut self, finding: &Finding, now: Instant) -> bool {
        let server = match finding {
            Finding::PromisedLater { server, .. } => Some(*server),
            Finding::FollowsUncounted { .. }
            | Finding::StaysOut { .. }
            | Finding::NoEpochLeft { .. }
            | Finding::DigestDiffers { .. }
            | Finding::DigestsEqualAgain { .. }
            | Finding::StateGivenUp { .. } => None,
        };
        let subject = (discriminant(finding), server);
        match self.told.iter_mut().find(|(told, _)| *told == subject) {
            Some((_, at)) if now.duration_since(*at) < PAUSE => false,
            Some((_, at)) => {
                *at = now;
                true
            }
            None => {
                if self.told.len() == TOLD_MAX {
                    self.told.remove(0);
                }
                self.told.push((subject, now));
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
        let mut findings = Findings::default();
        let start = Instant::now();
        let [one, other] = [1, 2].map(|highest| Finding::NoEpochLeft { highest });
        assert!(findings.is_due(&one, start));
        assert!(!findings.is_due(&other, start + PAUSE / 2));
        let again = Finding::DigestsEqualAgain { zxid: zebu_proto::Zxid(1), differed: 1 };
        assert!(findings.is_due(&again, start));
        assert!(findings.is_due(&one, start + PAUSE));
    }
}
