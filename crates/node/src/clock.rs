//! Time, as an argument. This crate reads no clock.

/// One instant on the monotonic clock and on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic milliseconds, for deadlines and latencies.
    pub monotonic_ms: i64,
    /// Milliseconds since 1970, for transactions and clients.
    pub wall_ms: i64,
}
