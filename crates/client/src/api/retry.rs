//! Repeating a call, in one place: which failures may be repeated, after which pause, and when to stop.
//! Every call runs exactly one of these loops; nothing inside it loops again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zebu_proto::ErrorCode;

use super::error::{Error, ErrorKind};
use crate::core::{Cause, Random};

/// Decides about the pause before another attempt.
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
    /// The pause before the next attempt, or `None` to give up. `failures` counts from one, `elapsed` is
    /// the time since the call began, `random` lies between 0 and 1.
    fn pause(&self, failures: u32, elapsed: Duration, random: f64) -> Option<Duration>;
}

/// The policies that come with the client. They differ in pauses only; which failures may be repeated at
/// all follows from the call.
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
    /// The first failure is the answer.
    Never,
    /// One more attempt.
    Once {
        /// Before it.
        pause: Duration,
    },
    /// A number of further attempts with the same pause.
    Times {
        /// How many.
        count: u32,
        /// Before each.
        pause: Duration,
    },
    /// Further attempts until this much time has passed since the call began.
    UntilElapsed {
        /// The time.
        total: Duration,
        /// Before each.
        pause: Duration,
    },
    /// Pauses that double and are spread by chance between nothing and the whole, so that clients which
    /// failed together do not come back together.
    Exponential {
        /// The first pause at its longest.
        base: Duration,
        /// No pause is longer.
        cap: Duration,
        /// How many further attempts.
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

/// What may be repeated when the fate of an attempt is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Only what was not sent.
    IfNotSent,
    /// Anything: twice is the same as once.
    Always,
}

/// The loop of one call.
pub(crate) struct Attempts {
    policy: Arc<dyn RetryPolicy>,
    random: Random,
    started: Instant,
    failures: u32,
    /// The first attempt whose outcome is still unknown.
    unknown: Option<Error>,
}

impl Attempts {
    pub(crate) fn new(policy: Arc<dyn RetryPolicy>, seed: u64) -> Attempts {
        Attempts { policy, random: Random::new(seed), started: Instant::now(), failures: 0, unknown: None }
    }

    /// Waits before the next attempt, or gives the error back.
    pub(crate) async fn after(&mut self, error: Error, repeat: Repeat) -> Result<(), Error> {
        if error.is_ambiguous() && self.unknown.is_none() {
            self.unknown = Some(error.clone());
        }
        if !may_repeat(&error, repeat) {
            return Err(self.last_word(error));
        }
        self.failures = self.failures.saturating_add(1);
        match self.policy.pause(self.failures, self.started.elapsed(), self.random.fraction()) {
            Some(pause) => {
                tracing::debug!(failures = self.failures, ?pause, %error, "again");
                tokio::time::sleep(pause).await;
                Ok(())
            }
            None => Err(self.last_word(error)),
        }
    }

    /// After a failed look for what an attempt with an unknown outcome has done.
    pub(crate) async fn after_search(&mut self, error: Error) -> Result<(), Error> {
        let unknown = self.unknown.clone();
        self.after(error, Repeat::Always).await.map_err(|error| unknown.unwrap_or(error))
    }

    /// What the attempts before have done is known now.
    pub(crate) fn resolved(&mut self) {
        self.unknown = None;
    }

    /// A later attempt that was not sent must not hide that an earlier one may have been carried out. An
    /// answer of the server is an answer.
    fn last_word(&mut self, error: Error) -> Error {
        match self.unknown.take() {
            Some(unknown) if error.is_not_sent() || error.is_ambiguous() => unknown,
            Some(_) | None => error,
        }
    }
}

fn may_repeat(error: &Error, repeat: Repeat) -> bool {
    if error.is_final() {
        return false;
    }
    match error.kind() {
        ErrorKind::NotSent(cause) => *cause != Cause::QueueFull,
        ErrorKind::Ambiguous(_) => repeat == Repeat::Always,
        // The server says that it did not look at the request.
        ErrorKind::Server(ErrorCode::ThrottledOp) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Delivery, Failure};

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
            Error::from_failure(Failure { cause, delivery, server: None }, "set", "/a")
        };
        let lost = error(Cause::ConnectionLost, Delivery::Sent);
        assert!(!may_repeat(&lost, Repeat::IfNotSent) && may_repeat(&lost, Repeat::Always));
        let unsent = error(Cause::ConnectionLost, Delivery::NotSent);
        assert!(may_repeat(&unsent, Repeat::IfNotSent));
        for cause in [Cause::Closed, Cause::AuthFailed, Cause::QueueFull] {
            assert!(!may_repeat(&error(cause, Delivery::NotSent), Repeat::Always));
        }
        let refused = Error::from_code(-101, "set", "/a", &"s".into());
        assert!(!may_repeat(&refused, Repeat::Always));
    }
}
