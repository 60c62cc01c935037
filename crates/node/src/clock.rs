//! Time, as an argument. Nothing in this crate reads a clock.

/// One instant on the two clocks that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds that never go back: deadlines, latencies.
    pub monotonic_ms: i64,
    /// Milliseconds since 1970: what transactions and clients see.
    pub wall_ms: i64,
}
