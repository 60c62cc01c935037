//! Runs a listing that needs more than one hold of the replica lock. The connection reads no further request
//! meanwhile. Other tasks run between two slices.

use zebu_node::SubmittedRequest;

use super::super::connection_state::{ConnectionStage, ConnectionStep, InputMode, OutputOutcome};
use super::{ConnectionTask, TaskSocket};

impl<S: TaskSocket> ConnectionTask<S> {
    /// Does a slice of the work. Returns whether more is left; if not, the requests behind it are parsed.
    pub(super) fn has_listing_left(&mut self, requests: &mut Vec<SubmittedRequest>) -> bool {
        let shared = &self.guard.shared;
        let now_ms = shared.clock.monotonic_ms();
        let has_more = {
            let replica = shared.read_replica();
            let mut connection = self.guard.entry.lock();
            replica.continue_listing(&mut connection, now_ms)
        };
        if !has_more {
            self.stage = ConnectionStage::Serving;
            self.parse_unparsed(requests);
        }
        has_more
    }

    /// Sends the replies before the listing, and continues when other tasks had their turn.
    pub(super) fn pause_listing(&mut self) -> ConnectionStep {
        if matches!(self.collect_output(), OutputOutcome::Close) {
            return ConnectionStep::Close;
        }
        // The signal ends the wait at once, after an attempt to send.
        self.guard.entry.wake_task();
        ConnectionStep::RunSlowTask(Box::pin(async {
            tokio::task::yield_now().await;
            ConnectionStep::Wait(InputMode::Paused)
        }))
    }
}
