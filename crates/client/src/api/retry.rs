//! The retry loop of a call: which failures may be repeated, the pauses, and the limit. Every call runs
//! exactly one such loop.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zebu_proto::ErrorCode;

use super::error::{Error, ErrorKind};
use crate::core::{Cause, Random};

/// Chooses the pause before another attempt.
///
/// ```
/// use std::time::Duration;
/// use zebu_client::RetryPolicy;
///
/// /// Twice, at once.
/// struct Twice;
///
/// impl RetryPolicy for Twice {
///     fn pause(&self, failures: u32, _elapsed: Duration, _random: f64) -> Option<Duration> {
///         (failures <= 2).then_some(Duration::ZERO)
///     }
/// }
/// ```
pub trait RetryPolicy: Send + Sync + 'static {
    /// The pause before the next attempt, or `None` to fail. `failures` counts from one, `elapsed` is the
    /// time since the call began, `random` lies between 0 and 1.
    fn pause(&self, failures: u32, elapsed: Duration, random: f64) -> Option<Duration>;
}

/// The predefined policies. They only define pauses; the call defines which failures may be repeated.
///
/// ```
/// use std::time::Duration;
/// use zebu_client::{Retry, RetryPolicy};
///
/// let retry = Retry::Times { count: 2, pause: Duration::from_millis(10) };
/// assert_eq!(retry.pause(2, Duration::ZERO, 0.5), Some(Duration::from_millis(10)));
/// assert_eq!(retry.pause(3, Duration::ZERO, 0.5), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Retry {
    /// The first failure is final.
    Never,
    /// One more attempt.
    Once {
        /// The pause before it.
        pause: Duration,
    },
    /// A number of further attempts with the same pause.
    Times {
        /// The number of further attempts.
        count: u32,
        /// The pause before each attempt.
        pause: Duration,
    },
    /// Further attempts until this time has passed since the call began.
    UntilElapsed {
        /// The time since the call began.
        total: Duration,
        /// The pause before each attempt.
        pause: Duration,
    },
    /// Exponential backoff with full jitter, so that clients that failed together do not retry together.
    Exponential {
        /// The first pause, before jitter.
        base: Duration,
        /// The longest pause.
        cap: Duration,
        /// The number of further attempts.
        count: u32,
    },
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::Exponential { base: Duration::from_millis(100), cap: Duration::from_secs(5), count: 8 }
    }
}

impl RetryPolicy for Retry {
    fn pause(&self, failures: u32, elapsed: Duration, random: f64) -> Option<Duration> {
        match *self {
            Retry::Never => None,
            Retry::Once { pause } => (failures <= 1).then_some(pause),
            Retry::Times { count, pause } => (failures <= count).then_some(pause),
            Retry::UntilElapsed { total, pause } => (elapsed.saturating_add(pause) < total).then_some(pause),
            Retry::Exponential { base, cap, count } => {
                let doublings = failures.saturating_sub(1).min(30);
                let longest = base.saturating_mul(1 << doublings).min(cap);
                (failures <= count).then(|| longest.mul_f64(random.clamp(0.0, 1.0)))
            }
        }
    }
}

/// Whether an attempt with an unknown outcome may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepeatRule {
    /// Only attempts that were not sent.
    IfNotSent,
    /// All attempts: the call is idempotent.
    Always,
}

/// The retry loop of one call.
pub(crate) struct RetryLoop {
    policy: Arc<dyn RetryPolicy>,
    random: Random,
    started: Instant,
    failures: u32,
    /// The first attempt whose outcome is still unknown.
    unknown: Option<Error>,
}

impl RetryLoop {
    pub(crate) fn new(policy: Arc<dyn RetryPolicy>, seed: u64) -> RetryLoop {
        RetryLoop { policy, random: Random::new(seed), started: Instant::now(), failures: 0, unknown: None }
    }

    /// Waits before the next attempt, or returns the final error.
    pub(crate) async fn after(&mut self, error: Error, repeat: RepeatRule) -> Result<(), Error> {
        if error.is_ambiguous() && self.unknown.is_none() {
            self.unknown = Some(error.clone());
        }
        if !may_repeat(&error, repeat) {
            return Err(self.final_error(error));
        }
        self.failures = self.failures.saturating_add(1);
        match self.policy.pause(self.failures, self.started.elapsed(), self.random.fraction()) {
            Some(pause) => {
                tracing::debug!(failures = self.failures, ?pause, %error, "retrying");
                tokio::time::sleep(pause).await;
                Ok(())
            }
            None => Err(self.final_error(error)),
        }
    }

    /// Waits after a failed search for the effect of an attempt with an unknown outcome.
    pub(crate) async fn after_search(&mut self, error: Error) -> Result<(), Error> {
        let unknown = self.unknown.clone();
        self.after(error, RepeatRule::Always).await.map_err(|error| unknown.unwrap_or(error))
    }

    /// The outcome of all earlier attempts is known.
    pub(crate) fn resolved(&mut self) {
        self.unknown = None;
    }

    /// An unsent attempt must not hide that an earlier one may have been carried out. A reply of the server
    /// is final.
    fn final_error(&mut self, error: Error) -> Error {
        match self.unknown.take() {
            Some(unknown) if error.is_not_sent() || error.is_ambiguous() => unknown,
            Some(_) | None => error,
        }
    }
}

fn may_repeat(error: &Error, repeat: RepeatRule) -> bool {
    if error.is_final() {
        return false;
    }
    match error.kind() {
        ErrorKind::NotSent(cause) => *cause != Cause::QueueFull,
        ErrorKind::Ambiguous(_) => repeat == RepeatRule::Always,
        // The server did not process the request.
        ErrorKind::Server(ErrorCode::ThrottledOp) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{CallFailure, Delivery};

    const MS: Duration = Duration::from_millis(1);

    fn pauses(retry: Retry, random: f64) -> Vec<Option<Duration>> {
        (1..=4).map(|failures| retry.pause(failures, MS * 10 * failures, random)).collect()
    }

    #[test]
    fn each_policy_stops_where_it_says() {
        assert_eq!(pauses(Retry::Never, 0.0), [None; 4]);
        assert_eq!(pauses(Retry::Once { pause: MS }, 0.0), [Some(MS), None, None, None]);
        assert_eq!(pauses(Retry::Times { count: 2, pause: MS }, 0.0), [Some(MS), Some(MS), None, None]);
        let until = Retry::UntilElapsed { total: MS * 25, pause: MS };
        assert_eq!(pauses(until, 0.0), [Some(MS), Some(MS), None, None]);
        let exponential = Retry::Exponential { base: MS * 4, cap: MS * 10, count: 3 };
        assert_eq!(pauses(exponential, 1.0), [Some(MS * 4), Some(MS * 8), Some(MS * 10), None]);
        assert_eq!(pauses(exponential, 0.5)[0], Some(MS * 2));
        let huge = Retry::Exponential { base: Duration::MAX, cap: MS, count: u32::MAX };
        assert_eq!(huge.pause(u32::MAX, Duration::MAX, 2.0), Some(MS));
    }

    #[test]
    fn an_unknown_outcome_is_repeated_only_if_twice_is_once() {
        let error = |cause: Cause, delivery| {
            Error::from_failure(CallFailure { cause, delivery, server: None }, "set", "/a")
        };
        let lost = error(Cause::ConnectionLost, Delivery::Sent);
        assert!(!may_repeat(&lost, RepeatRule::IfNotSent) && may_repeat(&lost, RepeatRule::Always));
        let unsent = error(Cause::ConnectionLost, Delivery::NotSent);
        assert!(may_repeat(&unsent, RepeatRule::IfNotSent));
        for cause in [Cause::Closed, Cause::AuthFailed, Cause::QueueFull] {
            assert!(!may_repeat(&error(cause, Delivery::NotSent), RepeatRule::Always));
        }
        let refused = Error::from_code(-101, "set", "/a", &"s".into());
        assert!(!may_repeat(&refused, RepeatRule::Always));
    }
}
