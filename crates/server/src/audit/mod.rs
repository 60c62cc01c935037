//! The audit log of a server: a bounded queue, and a thread of its own that writes the lines.
//!
//! The core never waits for it. Lines beyond the limits of the queue are dropped and counted. Which events
//! there are is decided in the node.

mod queue;
mod server_user;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tracing::error;
use zebu_node::{AuditEvent, AuditOperation, AuditResult, Now};
use zebu_proto::SessionId;
use zebu_tree::Credentials;

use crate::clock::Clock;
use crate::config::security::audit::{AuditConfig, AuditFailurePolicy, AuditLogConfig};
use crate::metrics::Counter;
use queue::{AuditQueue, QueueLevel};
pub(crate) use writer::AuditThread;

/// Dropped and failed lines are reported once in this time.
const REPORT_PERIOD_MS: i64 = 60_000;

/// What became of the lines, for `mntr`.
#[derive(Debug, Default)]
pub(crate) struct AuditCounters {
    /// Lines that the log has.
    pub(crate) written: Counter,
    /// Lines that found the queue full.
    pub(crate) dropped: Counter,
    /// Lines that could not be written.
    pub(crate) failed: Counter,
}

/// Whether the target takes lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetState {
    Usable,
    Failing,
}

/// The audit log, shared by the core, the network tasks and the thread that writes it.
#[derive(Debug)]
pub(crate) struct AuditLog {
    config: AuditLogConfig,
    queue: AuditQueue,
    pub(crate) counters: AuditCounters,
    is_failing: AtomicBool,
    is_congested: AtomicBool,
    drops_reported_ms: AtomicI64,
}

impl AuditLog {
    /// The log of a configuration, if it has one. Its thread is started by [`AuditThread::start`].
    pub(crate) fn from_config(config: &AuditConfig) -> Option<Arc<AuditLog>> {
        let config = config.log.clone()?;
        Some(Arc::new(AuditLog {
            config,
            queue: AuditQueue::default(),
            counters: AuditCounters::default(),
            // Nothing is known about the target before it is opened.
            is_failing: AtomicBool::new(true),
            is_congested: AtomicBool::new(false),
            drops_reported_ms: AtomicI64::new(i64::MIN),
        }))
    }

    /// Queues events. Never waits for the log.
    pub(crate) fn record(&self, events: &mut Vec<AuditEvent>, monotonic_ms: i64) {
        if events.is_empty() {
            return;
        }
        let pushed = self.queue.push(events);
        if pushed.level == QueueLevel::Long {
            self.is_congested.store(true, Ordering::Relaxed);
        }
        if pushed.dropped > 0 {
            self.counters.dropped.add(pushed.dropped as u64);
            self.report_drops(monotonic_ms);
        }
    }

    fn report_drops(&self, monotonic_ms: i64) {
        let last = self.drops_reported_ms.load(Ordering::Relaxed);
        if last != i64::MIN && monotonic_ms - last < REPORT_PERIOD_MS {
            return;
        }
        self.drops_reported_ms.store(monotonic_ms, Ordering::Relaxed);
        let dropped = self.counters.dropped.total();
        error!(dropped, "audit lines are lost: they come faster than their log can be written");
    }

    /// Whether writes of clients must be refused now.
    pub(crate) fn refuses_writes(&self) -> bool {
        match self.config.on_failure {
            AuditFailurePolicy::Continue => false,
            AuditFailurePolicy::RefuseWrites => {
                self.is_failing.load(Ordering::Relaxed) || self.is_congested.load(Ordering::Relaxed)
            }
        }
    }

    /// Whether events beyond those of ZooKeeper are recorded.
    pub(crate) fn records_extra_events(&self) -> bool {
        self.config.extra_events
    }

    /// Records the start or the stop of the server.
    pub(crate) fn record_server(&self, operation: AuditOperation, result: AuditResult, now: Now) {
        let event = AuditEvent::of_server(now.wall_ms, operation, result);
        self.record(&mut vec![event], now.monotonic_ms);
    }

    /// Records an event beyond those of ZooKeeper, if they are wanted.
    pub(crate) fn record_extra(
        &self,
        session: Option<SessionId>,
        credentials: &Credentials,
        operation: AuditOperation,
        result: AuditResult,
        now: Now,
    ) {
        if self.records_extra_events() {
            let event =
                AuditEvent::of_connection(now.wall_ms, session, credentials.clone(), operation, result);
            self.record(&mut vec![event], now.monotonic_ms);
        }
    }

    fn set_target(&self, state: TargetState) {
        self.is_failing.store(state == TargetState::Failing, Ordering::Relaxed);
    }
}

/// Writes the line of a server that did not start.
pub(crate) fn record_failed_start(config: &AuditConfig) {
    let Some(log) = AuditLog::from_config(config) else { return };
    // The error that ends the process is the more important one.
    let Ok(thread) = AuditThread::start(log.clone()) else { return };
    log.record_server(AuditOperation::ServerStart, AuditResult::Failure, Clock::start().now());
    thread.close();
}
