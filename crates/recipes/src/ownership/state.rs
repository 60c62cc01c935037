//! The state of one ownership and the task that monitors it. It ends once: ownership that was lost never
//! returns, even if the session turns out to be alive.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zebu_client::{Client, Compression, ErrorCode, Retry, SessionId, SessionState, Stat};

use super::policy::{FencingToken, LeasePolicy, LossReason, WhenSuspended};
use crate::retry::{none_if_missing, retry_until_answered};
use crate::wait_queue::watch_unreadable;

/// The data that requests the release of a lock, as Curator writes it.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// The same, as in ZooKeeper's documentation of shared locks.
pub(crate) const UNLOCK: &[u8] = b"unlock";

/// The clock of leases, which tests can advance.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The state of one ownership; see [`Ownership::ownership_state`](super::Ownership::ownership_state). It
/// stays readable after the guard is dropped.
#[derive(Clone, Debug)]
pub struct OwnershipState {
    state: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    path: String,
    token: FencingToken,
    /// The zxid that created the node at `path`; it differs from the token after a downgrade.
    created: i64,
    session: SessionId,
    lease_policy: LeasePolicy,
    reason: OnceLock<LossReason>,
    lost: CancellationToken,
    revoked: watch::Sender<bool>,
}

/// An ownership and its monitoring task, which ends with it.
#[derive(Debug)]
pub(crate) struct OwnershipMonitor {
    ownership_state: OwnershipState,
    task: tokio::task::JoinHandle<()>,
}

impl OwnershipMonitor {
    /// Starts to monitor a node that the session in its stat owns.
    pub(crate) fn start(
        client: &Client,
        path: &str,
        stat: &Stat,
        token: FencingToken,
        lease_policy: LeasePolicy,
    ) -> OwnershipMonitor {
        let ownership_state = OwnershipState {
            state: Arc::new(Inner {
                client: client.clone(),
                path: path.to_owned(),
                token,
                created: stat.czxid,
                session: SessionId(stat.ephemeral_owner),
                lease_policy,
                reason: OnceLock::new(),
                lost: CancellationToken::new(),
                revoked: watch::channel(false).0,
            }),
        };
        let watched = ownership_state.clone();
        // Dropped with the task, which ends with the ownership.
        let renewal = client.keep_lease();
        let task = tokio::spawn(async move {
            let _renewal = renewal;
            let reason = tokio::select! {
                reason = watched.session_lost() => reason,
                reason = watched.node_lost() => watched.loss_reason().unwrap_or(reason),
            };
            watched.end(reason);
        });
        OwnershipMonitor { ownership_state, task }
    }

    pub(crate) fn ownership_state(&self) -> &OwnershipState {
        &self.ownership_state
    }
}

impl Drop for OwnershipMonitor {
    fn drop(&mut self) {
        self.ownership_state.end(LossReason::Released);
        self.task.abort();
    }
}

impl OwnershipState {
    /// The owner's node.
    pub fn path(&self) -> &str {
        &self.state.path
    }

    /// The fencing token; see [`FencingToken`].
    pub fn token(&self) -> FencingToken {
        self.state.token
    }

    /// The session that owns the node.
    pub fn session(&self) -> SessionId {
        self.state.session
    }

    pub(crate) fn client(&self) -> &Client {
        &self.state.client
    }

    /// Whether ownership holds, without a request. It holds only while no server can have granted it to
    /// another client.
    pub fn check(&self) -> Result<(), LossReason> {
        if let Some(reason) = self.state.reason.get() {
            return Err(*reason);
        }
        // The task may not have noticed yet.
        match self.loss_reason() {
            Some(reason) => Err(self.end(reason)),
            None => Ok(()),
        }
    }

    /// Whether ownership holds, after a sync and a read.
    pub async fn verify(&self) -> Result<(), LossReason> {
        self.check()?;
        let client = &self.state.client;
        let look = retry_until_answered(client, || async {
            let synced = client.sync(&self.state.path).retry(Retry::Never).send();
            let found = client.exists(&self.state.path).retry(Retry::Never).send();
            synced.await?;
            found.await
        });
        let found = tokio::select! {
            found = look => found,
            reason = self.lost() => return Err(reason),
        };
        match found {
            Ok(Some(stat)) if stat.czxid == self.state.created => self.check(),
            Ok(_) => Err(self.end(LossReason::NodeDeleted)),
            Err(_) => Err(self.end(LossReason::Closed)),
        }
    }

    /// Completes when ownership ends, with the reason.
    pub async fn lost(&self) -> LossReason {
        self.state.lost.cancelled().await;
        *self.state.reason.get().expect("the reason is set before the token is cancelled")
    }

    /// A token that is cancelled when ownership ends.
    pub fn cancellation(&self) -> CancellationToken {
        self.state.lost.child_token()
    }

    /// The time until which ownership is safe if the leader does not answer, minus the margin; `None` if it
    /// is lost.
    pub fn lease_deadline(&self) -> Option<Instant> {
        if self.state.reason.get().is_some() || self.state.client.session().id != self.state.session {
            return None;
        }
        let margin = self.state.lease_policy.margin_of(self.state.client.session().timeout);
        self.state.client.lease_deadline()?.checked_sub(margin)
    }

    /// Completes when another client requests the release.
    pub async fn revoked(&self) {
        let mut revoked = self.state.revoked.subscribe();
        // The state, which is borrowed here, owns the sender.
        let _ = revoked.wait_for(|revoked| *revoked).await;
    }

    /// Ends ownership; the first reason stays.
    pub(crate) fn end(&self, reason: LossReason) -> LossReason {
        let reason = *self.state.reason.get_or_init(|| reason);
        if !self.state.lost.is_cancelled() {
            if reason != LossReason::Released {
                tracing::warn!(path = %self.state.path, token = %self.state.token, %reason, "lost ownership");
            }
            self.state.lost.cancel();
        }
        reason
    }

    /// The loss that the session state and the clock imply.
    fn loss_reason(&self) -> Option<LossReason> {
        let status = self.state.client.states().borrow().clone();
        match status.state {
            SessionState::Closed | SessionState::AuthFailed => return Some(LossReason::Closed),
            _ if status.session.id != self.state.session => return Some(LossReason::SessionExpired),
            SessionState::Expired => return Some(LossReason::SessionExpired),
            // A read-only server does not know the session: it may be alive, as without a connection.
            SessionState::Suspended | SessionState::Connecting | SessionState::ReadOnly => {
                if self.state.lease_policy.when_suspended == WhenSuspended::Lose {
                    return Some(LossReason::Suspended);
                }
            }
            SessionState::Connected | SessionState::Reconnected => {
                // A session that is being closed has no lease.
                if self.state.client.lease_deadline().is_none() {
                    return Some(LossReason::Closed);
                }
            }
        }
        match self.lease_deadline() {
            Some(deadline) if now() < deadline => None,
            Some(_) | None => Some(LossReason::LeaseEnded),
        }
    }

    async fn session_lost(&self) -> LossReason {
        let mut states = self.state.client.states();
        loop {
            states.mark_unchanged();
            if let Some(reason) = self.loss_reason() {
                return reason;
            }
            // The deadline may be extended during the wait; then the loop checks again.
            let deadline = self.lease_deadline().unwrap_or_else(now);
            tokio::select! {
                changed = states.changed() => if changed.is_err() { return LossReason::Closed },
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }

    async fn node_lost(&self) -> LossReason {
        let (client, path) = (&self.state.client, &self.state.path);
        loop {
            let read = retry_until_answered(client, || {
                client.get(path).compression(Compression::None).retry(Retry::Never).watched()
            });
            let watcher = match none_if_missing(read.await) {
                Ok(Some((node, _))) if node.stat.czxid != self.state.created => {
                    return LossReason::NodeDeleted;
                }
                Ok(Some((node, watcher))) => {
                    if node.data == REVOKE || node.data == UNLOCK {
                        self.state.revoked.send_replace(true);
                    }
                    watcher
                }
                Ok(None) => return LossReason::NodeDeleted,
                Err(error) if error.code() == Some(ErrorCode::NoAuth) => {
                    match watch_unreadable(client, path).await {
                        Ok(Some(watcher)) => watcher,
                        Ok(None) => return LossReason::NodeDeleted,
                        Err(_) => return LossReason::Closed,
                    }
                }
                Err(_) => return LossReason::Closed,
            };
            watcher.await;
        }
    }
}
