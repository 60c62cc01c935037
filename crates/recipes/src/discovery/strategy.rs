//! The selection of an instance, and the exclusion of failed ones. Pure: time and randomness are arguments.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The strategy of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ProviderStrategy {
    /// In turn.
    #[default]
    RoundRobin,
    /// At random.
    Random,
    /// The same instance while it exists, then another one.
    Sticky,
}

/// When an instance counts as down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DownInstancePolicy {
    /// The number of failures.
    pub(super) failures: u32,
    /// The time since the first of them.
    pub(super) pause: Duration,
}

impl Default for DownInstancePolicy {
    fn default() -> DownInstancePolicy {
        DownInstancePolicy { failures: 2, pause: Duration::from_secs(30) }
    }
}

/// The last selection and the failures.
#[derive(Debug, Default)]
pub(super) struct InstanceSelector {
    pub(super) policy: DownInstancePolicy,
    next: usize,
    stuck_to: Option<String>,
    failures: BTreeMap<String, Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    since: Instant,
}

impl InstanceSelector {
    /// Records a failure of an instance.
    pub(super) fn note_failure(&mut self, id: &str, now: Instant) {
        self.remove_expired_failures(now);
        let failures = self.failures.entry(id.to_owned()).or_insert(Failures { count: 0, since: now });
        failures.count = failures.count.saturating_add(1);
    }

    fn remove_expired_failures(&mut self, now: Instant) {
        let pause = self.policy.pause;
        self.failures.retain(|_, failures| now.duration_since(failures.since) < pause);
    }

    /// The index of the selected id; `None` if all are down.
    pub(super) fn choose(
        &mut self,
        ids: &[&str],
        selection: ProviderStrategy,
        now: Instant,
        random: u64,
    ) -> Option<usize> {
        self.remove_expired_failures(now);
        let failures_max = self.policy.failures;
        let is_up = |id: &str| self.failures.get(id).is_none_or(|failures| failures.count < failures_max);
        let up: Vec<usize> = (0..ids.len()).filter(|at| is_up(ids[*at])).collect();
        if up.is_empty() {
            return None;
        }
        let any = up[usize::try_from(random % up.len() as u64).unwrap_or(0)];
        Some(match selection {
            ProviderStrategy::Random => any,
            ProviderStrategy::RoundRobin => {
                let at = up[self.next % up.len()];
                self.next = self.next.wrapping_add(1);
                at
            }
            ProviderStrategy::Sticky => {
                let same = up.iter().copied().find(|at| self.stuck_to.as_deref() == Some(ids[*at]));
                let at = same.unwrap_or(any);
                self.stuck_to = Some(ids[at].to_owned());
                at
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: DownInstancePolicy = DownInstancePolicy { failures: 2, pause: Duration::from_secs(30) };

    #[test]
    fn round_robin_goes_round_and_passes_over_those_that_are_down() {
        let (mut chooser, now) =
            (InstanceSelector { policy: POLICY, ..InstanceSelector::default() }, Instant::now());
        let pick = |chooser: &mut InstanceSelector, now| {
            chooser.choose(&["a", "b", "c"], ProviderStrategy::RoundRobin, now, 0)
        };
        let three: Vec<_> = (0..4).map(|_| pick(&mut chooser, now)).collect();
        assert_eq!(three, [Some(0), Some(1), Some(2), Some(0)]);
        chooser.note_failure("b", now);
        assert!((0..3).any(|_| pick(&mut chooser, now) == Some(1)), "one failure is forgiven");
        chooser.note_failure("b", now);
        assert!((0..6).all(|_| pick(&mut chooser, now) != Some(1)));
        let later = now + POLICY.pause;
        assert!((0..3).any(|_| pick(&mut chooser, later) == Some(1)), "it gets another chance");
        for id in ["a", "b", "c", "a", "b", "c"] {
            chooser.note_failure(id, later);
        }
        assert_eq!(pick(&mut chooser, later), None);
        assert_eq!(chooser.choose(&[], ProviderStrategy::Random, later, 7), None);
    }

    #[test]
    fn sticky_stays_until_it_must_go() {
        let (mut chooser, now) =
            (InstanceSelector { policy: POLICY, ..InstanceSelector::default() }, Instant::now());
        let mut pick = |ids: &[&str], random| chooser.choose(ids, ProviderStrategy::Sticky, now, random);
        assert_eq!(pick(&["a", "b", "c"], 1), Some(1));
        assert_eq!(pick(&["a", "b", "c"], 2), Some(1));
        assert_eq!(pick(&["b", "c"], 1), Some(0), "the same one, in another place");
        assert_eq!(pick(&["a", "c"], 1), Some(1), "another one");
        assert_eq!(pick(&["a", "b", "c"], 0), Some(2), "which stays then");
    }
}
