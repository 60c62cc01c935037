//! The life of a server as the program around it sees it. It owns the trait, the text about the role and
//! the regular question to the core; it knows nothing of systemd.

use std::sync::Arc;
use std::time::Duration;

use zebu_node::ServingMode;

use crate::core::context::ServerContext;
use crate::four_letter::collect::query_core_status;
use crate::run::ServerReady;

/// Follows the life of a server. All methods must return soon.
pub trait Supervisor: Send + Sync + 'static {
    /// The ports listen. A member of an ensemble may still look for a leader.
    fn ready(&self, ready: &ServerReady);

    /// Time between two questions to the core; `None` without questions.
    fn probe_interval(&self) -> Option<Duration> {
        None
    }

    /// The core has finished a round after a question. `status` is one line about the role.
    fn core_answered(&self, status: &str) {
        let _ = status;
    }

    /// SIGHUP was received.
    fn reload(&self) {}

    /// A stop was requested.
    fn stopping(&self) {}
}

/// Asks the core in turn. A core that is stuck gives no answer, and so no sign.
pub(crate) async fn probe_core(
    shared: Arc<ServerContext>,
    supervisor: Arc<dyn Supervisor>,
    interval: Duration,
) {
    loop {
        if query_core_status(&shared).await.is_none() {
            return;
        }
        let clients = shared.connection_count.load(std::sync::atomic::Ordering::Relaxed);
        supervisor.core_answered(&status_line(shared.serving_mode(), shared.serving_epoch(), clients));
        tokio::time::sleep(interval).await;
    }
}

/// One line about the role of the server.
fn status_line(mode: Option<ServingMode>, epoch: Option<u32>, clients: usize) -> String {
    let role = match mode {
        None => return "looking for a leader".to_owned(),
        Some(ServingMode::Standalone) => "standalone",
        Some(ServingMode::Leader) => "leading",
        Some(ServingMode::Follower) => "following",
        Some(ServingMode::Observer) => "observing",
        Some(ServingMode::ReadOnly) => "read-only, without a leader",
    };
    let epoch = epoch.map_or(String::new(), |epoch| format!(", epoch {epoch}"));
    format!("{role}{epoch}, {clients} client connections")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines() {
        assert_eq!(status_line(None, None, 3), "looking for a leader");
        assert_eq!(status_line(Some(ServingMode::Standalone), None, 0), "standalone, 0 client connections");
        assert_eq!(
            status_line(Some(ServingMode::Leader), Some(7), 2),
            "leading, epoch 7, 2 client connections"
        );
    }
}
