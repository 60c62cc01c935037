//! Limits the rate of new sessions: a token bucket, and a drop probability that grows while the bucket stays
//! empty. Off unless configured.

/// The `connection_throttle_*` settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottleSettings {
    /// Size of the bucket; zero turns the throttle off.
    pub tokens: i64,
    /// Milliseconds between two refills.
    pub fill_time_ms: i64,
    /// Tokens per refill.
    pub fill_count: i64,
    /// Milliseconds between changes of the drop probability; -1 never drops.
    pub freeze_time_ms: i64,
    /// Added to the drop probability while the bucket is empty.
    pub drop_increase: f64,
    /// Subtracted from the drop probability while the bucket is nearly full.
    pub drop_decrease: f64,
    /// Share of the bucket that may be missing when the drop probability falls.
    pub decrease_ratio: f64,
    /// Tokens for a new session.
    pub cost_new: i64,
    /// Tokens for a new local session.
    pub cost_new_local: i64,
    /// Tokens for a resumed session.
    pub cost_resume: i64,
}

impl Default for ThrottleSettings {
    fn default() -> ThrottleSettings {
        ThrottleSettings {
            tokens: 0,
            fill_time_ms: 1,
            fill_count: 1,
            freeze_time_ms: -1,
            drop_increase: 0.02,
            drop_decrease: 0.002,
            decrease_ratio: 0.0,
            cost_new: 1,
            cost_new_local: 1,
            cost_resume: 1,
        }
    }
}

/// The kind of a connect request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionRequest {
    /// A new session.
    New,
    /// A new local session.
    NewLocal,
    /// A resumed session.
    Resume,
}

/// Admits or refuses new connections.
#[derive(Debug)]
pub struct ConnectionThrottle {
    settings: ThrottleSettings,
    tokens: i64,
    filled_ms: i64,
    changed_ms: i64,
    drop_probability: f64,
}

impl ConnectionThrottle {
    /// Starts with a full bucket.
    pub fn new(settings: ThrottleSettings, now_ms: i64) -> ConnectionThrottle {
        let tokens = settings.tokens;
        ConnectionThrottle { settings, tokens, filled_ms: now_ms, changed_ms: now_ms, drop_probability: 0.0 }
    }

    /// Admits or refuses one more client. `chance` is a random number in `0.0..1.0`.
    pub fn admit(&mut self, arrival: SessionRequest, now_ms: i64, chance: f64) -> Admission {
        if self.settings.tokens <= 0 {
            return Admission::Admitted;
        }
        self.fill(now_ms);
        self.adjust(now_ms);
        let cost = match arrival {
            SessionRequest::New => self.settings.cost_new,
            SessionRequest::NewLocal => self.settings.cost_new_local,
            SessionRequest::Resume => self.settings.cost_resume,
        };
        if chance < self.drop_probability || self.tokens < cost {
            return Admission::Refused;
        }
        self.tokens -= cost;
        Admission::Admitted
    }

    /// Tokens that are missing, for monitoring; 0 without a throttle.
    pub fn deficit(&self) -> u64 {
        u64::try_from(self.settings.tokens - self.tokens).unwrap_or(0)
    }

    /// The current drop probability, for monitoring.
    pub fn drop_probability(&self) -> f64 {
        self.drop_probability
    }

    fn fill(&mut self, now_ms: i64) {
        let elapsed_ms = now_ms - self.filled_ms;
        if elapsed_ms > self.settings.fill_time_ms {
            let fill_time_ms = self.settings.fill_time_ms.max(1);
            let filled = elapsed_ms.saturating_mul(self.settings.fill_count) / fill_time_ms;
            self.tokens = self.tokens.saturating_add(filled).min(self.settings.tokens);
            self.filled_ms = now_ms;
        }
    }

    fn adjust(&mut self, now_ms: i64) {
        let settings = &self.settings;
        if settings.freeze_time_ms < 0 || now_ms - self.changed_ms < settings.freeze_time_ms {
            return;
        }
        self.changed_ms = now_ms;
        let deficit = settings.tokens - self.tokens;
        if self.tokens < 1 {
            self.drop_probability = (self.drop_probability + settings.drop_increase).min(1.0);
        } else if deficit as f64 <= settings.decrease_ratio * settings.tokens as f64 {
            self.drop_probability = (self.drop_probability - settings.drop_decrease).max(0.0);
        }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The client may connect.
    Admitted,
    /// The connection is closed without a reply.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_by_default() {
        let mut throttle = ConnectionThrottle::new(ThrottleSettings::default(), 0);
        assert!((0..10_000).all(|_| throttle.admit(SessionRequest::New, 0, 0.0) == Admission::Admitted));
    }

    #[test]
    fn tokens_run_out_and_come_back() {
        let settings = ThrottleSettings { tokens: 2, fill_time_ms: 10, fill_count: 1, ..Default::default() };
        let mut throttle = ConnectionThrottle::new(settings, 0);
        let mut admit = |now_ms| throttle.admit(SessionRequest::New, now_ms, 0.5);
        assert_eq!(
            [admit(0), admit(0), admit(0)],
            [Admission::Admitted, Admission::Admitted, Admission::Refused]
        );
        assert_eq!(admit(5), Admission::Refused);
        assert_eq!(admit(11), Admission::Admitted);
        assert_eq!(admit(11), Admission::Refused);
    }

    #[test]
    fn a_session_that_comes_back_may_cost_less() {
        let settings = ThrottleSettings {
            tokens: 5,
            fill_time_ms: 1000,
            cost_new: 3,
            cost_resume: 2,
            ..Default::default()
        };
        let mut throttle = ConnectionThrottle::new(settings, 0);
        assert_eq!(throttle.admit(SessionRequest::New, 0, 0.5), Admission::Admitted);
        assert_eq!(throttle.admit(SessionRequest::New, 0, 0.5), Admission::Refused);
        assert_eq!(throttle.admit(SessionRequest::Resume, 0, 0.5), Admission::Admitted);
        assert_eq!(throttle.admit(SessionRequest::Resume, 0, 0.5), Admission::Refused);
    }

    #[test]
    fn an_empty_bucket_raises_the_drop_probability() {
        let settings = ThrottleSettings {
            tokens: 1,
            fill_time_ms: 1000,
            freeze_time_ms: 0,
            drop_increase: 0.5,
            ..Default::default()
        };
        let mut throttle = ConnectionThrottle::new(settings, 0);
        assert_eq!(throttle.admit(SessionRequest::New, 0, 0.9), Admission::Admitted);
        assert_eq!(throttle.admit(SessionRequest::New, 1, 0.9), Admission::Refused);
        assert!(throttle.drop_probability() > 0.4);
    }
}
