//! Runs the SASL mechanism of a connection on the token that waits for it. The connection reads no further
//! request meanwhile, so later requests have the new ids.

use std::time::Duration;

use zebu_node::SubmittedRequest;
use zebu_security::sasl::SaslFailure;

use super::super::client_sasl::finish_round;
use super::super::connection_state::{ConnectionStage, ConnectionStep};
use super::{ConnectionTask, TaskSocket, sleep_until_ms};

impl<S: TaskSocket> ConnectionTask<S> {
    /// Processes the waiting token. DIGEST-MD5 computes a few hashes; other mechanisms run off this thread.
    pub(super) fn run_sasl(&mut self, requests: &mut Vec<SubmittedRequest>) -> ConnectionStep {
        let Some(round) = self.guard.entry.lock().take_sasl_round() else {
            self.resume_after_sasl(requests);
            return ConnectionStep::Process;
        };
        let shared = self.guard.shared.clone();
        if !shared.sasl.may_block() {
            let result = round.run(|| shared.sasl.begin());
            finish_round(&shared, &self.guard.entry, result);
            self.resume_after_sasl(requests);
            return ConnectionStep::Process;
        }
        let request = round.request();
        let limit = Duration::from_millis(zebu_node::limits::SASL_EXCHANGE_MS_MAX.unsigned_abs());
        let entry = self.guard.entry.clone();
        ConnectionStep::RunSlowTask(Box::pin(async move {
            let stepping = {
                let shared = shared.clone();
                tokio::task::spawn_blocking(move || round.run(|| shared.sasl.begin()))
            };
            let result = match tokio::time::timeout(limit, stepping).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => request.abandon(SaslFailure::Mechanism("the mechanism panicked".to_owned())),
                Err(_) => request.abandon(SaslFailure::TooSlow),
            };
            finish_round(&shared, &entry, result);
            ConnectionStep::Process
        }))
    }

    /// Parses the requests behind the token, and limits the time of an exchange that goes on.
    fn resume_after_sasl(&mut self, requests: &mut Vec<SubmittedRequest>) {
        self.stage = ConnectionStage::Serving;
        let deadline_ms = self.guard.entry.lock().sasl_deadline_ms();
        self.deadline = deadline_ms.map(|deadline_ms| sleep_until_ms(&self.guard.shared, deadline_ms));
        self.parse_unparsed(requests);
    }
}
