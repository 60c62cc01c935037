//! Log lines about slow requests and large replies. A stalled disk makes thousands of requests slow, so the
//! number of lines per interval is limited. The first line of an interval says how many were left out.
//!
//! A line names the path, the client and the sizes. It never holds data or credentials.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;
use zebu_node::NotableRequest;
use zebu_proto::OpCode;

/// Lines per interval and kind.
const LINES_MAX: u32 = 20;

const INTERVAL: Duration = Duration::from_secs(10);

/// The lines of the current interval.
#[derive(Debug, Default)]
pub(super) struct RequestLog {
    slow: Mutex<LineBudget>,
    large: Mutex<LineBudget>,
}

#[derive(Debug, Default)]
struct LineBudget {
    began: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

impl LineBudget {
    /// The number of lines left out before this one; `None` if this one is left out, too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.saturating_duration_since(began) >= INTERVAL) {
            self.began = Some(now);
            self.lines = 0;
        }
        if self.lines >= LINES_MAX {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl RequestLog {
    pub(super) fn log(&self, peer: SocketAddr, session: i64, request: &NotableRequest) {
        let now = Instant::now();
        let take =
            |budget: &Mutex<LineBudget>| budget.lock().unwrap_or_else(PoisonError::into_inner).take(now);
        let op = request.op.map_or_else(|| "NA".to_owned(), op_name);
        // A client chooses the path: control characters must not start a line of their own.
        let path = request.path.as_deref().unwrap_or_default().escape_debug();
        let NotableRequest { duration_ms, reply_bytes, .. } = *request;
        if request.is_slow
            && let Some(suppressed) = take(&self.slow)
        {
            warn!(
                %peer,
                session = format_args!("0x{session:x}"),
                op,
                %path,
                duration_ms,
                reply_bytes,
                suppressed,
                "slow request"
            );
        }
        if request.is_large
            && let Some(suppressed) = take(&self.large)
        {
            warn!(
                %peer,
                session = format_args!("0x{session:x}"),
                op,
                %path,
                duration_ms,
                reply_bytes,
                suppressed,
                "large reply"
            );
        }
    }
}

/// The name of an operation as the manual writes it: `getData`.
fn op_name(op: OpCode) -> String {
    let mut name = format!("{op:?}");
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_an_interval_are_limited_and_the_rest_is_counted() {
        let (mut budget, start) = (LineBudget::default(), Instant::now());
        for _ in 0..LINES_MAX {
            assert_eq!(budget.take(start), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(budget.take(start + INTERVAL / 2), None);
        }
        assert_eq!(budget.take(start + INTERVAL), Some(5));
        assert_eq!(budget.take(start + INTERVAL), Some(0));
    }
}
