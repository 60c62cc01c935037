//! Checked values for the throttling of sessions and requests.

use std::time::Duration;

/// The token bucket in front of session establishment (`connection_throttle_*`).
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionThrottleConfig {
    /// `tokens`: size of the bucket; `None` = no throttle.
    pub tokens: Option<u32>,
    /// `fill_time`.
    pub fill_time: Duration,
    /// `fill_count`: tokens added per `fill_time`.
    pub fill_count: u32,
    /// `freeze_time`: interval between changes of the drop probability; `None` disables random
    /// drops.
    pub freeze_time: Option<Duration>,
    /// `drop_increase`.
    pub drop_increase: f64,
    /// `drop_decrease`.
    pub drop_decrease: f64,
    /// `decrease_ratio`.
    pub decrease_ratio: f64,
    /// Costs per kind of session, with `weight_enabled`.
    pub weights: Option<ConnectionWeights>,
}

impl Default for ConnectionThrottleConfig {
    fn default() -> ConnectionThrottleConfig {
        ConnectionThrottleConfig {
            tokens: None,
            fill_time: Duration::from_millis(1),
            fill_count: 1,
            freeze_time: None,
            drop_increase: 0.02,
            drop_decrease: 0.002,
            decrease_ratio: 0.0,
            weights: None,
        }
    }
}

/// Tokens that each kind of session costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionWeights {
    /// A new global session.
    pub global_session: u32,
    /// A new local session.
    pub local_session: u32,
    /// A reconnecting session.
    pub renew_session: u32,
}

/// The request throttler (`request_throttle_*` and its relatives).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestThrottleConfig {
    /// `request_throttle_max_requests`; `None` = off.
    pub max_requests: Option<u32>,
    /// `throttled_op_wait_time`: requests queued longer are answered THROTTLEDOP; `None` = off.
    pub throttled_op_wait_time: Option<Duration>,
}
