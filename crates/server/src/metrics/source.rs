//! The values of a running server, for those that show them.

use std::sync::Arc;
use std::time::Duration;

use zebu_metrics::MetricsView;

use super::collect::collect_view;
use crate::core::context::ServerContext;
use crate::four_letter::collect::query_core_status;

/// The quantiles cover windows of two minutes, which turn when values are read.
const TURN_INTERVAL: Duration = Duration::from_secs(60);

/// Reads the values of a server.
#[derive(Clone, Debug)]
pub struct MetricsSource {
    shared: Arc<ServerContext>,
}

impl MetricsSource {
    pub(crate) fn new(shared: Arc<ServerContext>) -> MetricsSource {
        MetricsSource { shared }
    }

    /// The current values; `None` if the server is ending. A member that looks for a leader has them too.
    pub async fn view(&self) -> Option<MetricsView> {
        let core = query_core_status(&self.shared).await?;
        Some(collect_view(&self.shared, &core))
    }

    /// Reads the values from time to time, so that old samples leave the quantiles.
    pub(crate) async fn turn_windows(self) {
        loop {
            tokio::time::sleep(TURN_INTERVAL).await;
            if self.view().await.is_none() {
                return;
            }
        }
    }
}
