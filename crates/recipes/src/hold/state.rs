//! The state of one hold and the task that watches over it. It ends once and for all: what was lost is never
//! held again, even if the session turns out to live.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zebu_client::{Client, Compression, ErrorCode, Retry, SessionId, SessionState, Stat};

use super::terms::{FencingToken, LossReason, Terms, WhenSuspended};
use crate::connection::{persist, present};
use crate::line::watch_unreadable;

/// What is written into a node to ask its owner to give it up, as Curator writes it.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// The same, as ZooKeeper's documentation of shared locks has it.
pub(crate) const UNLOCK: &[u8] = b"unlock";

/// The clock that leases are measured by, which a test can move.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What is known of one hold. Guards hand it out by [`Held::holding`](super::Held::holding); it stays
/// readable after the guard has gone.
#[derive(Clone, Debug)]
pub struct Holding {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    client: Client,
    path: String,
    token: FencingToken,
    /// The transaction that created the node at `path`; differs from the token after a downgrade.
    created: i64,
    session: SessionId,
    terms: Terms,
    reason: OnceLock<LossReason>,
    lost: CancellationToken,
    revoked: watch::Sender<bool>,
}

/// A hold and the task that watches over it; the task ends with it.
#[derive(Debug)]
pub(crate) struct Watched {
    holding: Holding,
    task: tokio::task::JoinHandle<()>,
}

impl Watched {
    /// Begins to watch over a node that is owned by the session in its stat.
    pub(crate) fn begin(
        client: &Client,
        path: &str,
        stat: &Stat,
        token: FencingToken,
        terms: Terms,
    ) -> Watched {
        let holding = Holding {
            state: Arc::new(State {
                client: client.clone(),
                path: path.to_owned(),
                token,
                created: stat.czxid,
                session: SessionId(stat.ephemeral_owner),
                terms,
                reason: OnceLock::new(),
                lost: CancellationToken::new(),
                revoked: watch::channel(false).0,
            }),
        };
        let watched = holding.clone();
        // Goes with the task, and that with the hold.
        let kept = client.keep_lease();
        let task = tokio::spawn(async move {
            let _kept = kept;
            let reason = tokio::select! {
                reason = watched.session_lost() => reason,
                reason = watched.node_lost() => watched.judge().unwrap_or(reason),
            };
            watched.end(reason);
        });
        Watched { holding, task }
    }

    pub(crate) fn holding(&self) -> &Holding {
        &self.holding
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.holding.end(LossReason::Released);
        self.task.abort();
    }
}

impl Holding {
    /// The node that stands for it.
    pub fn path(&self) -> &str {
        &self.state.path
    }

    /// The number of this hold; see [`FencingToken`].
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

    /// Whether it is held, as far as can be known without asking a server. True only while no server can
    /// have given it to somebody else.
    pub fn check(&self) -> Result<(), LossReason> {
        if let Some(reason) = self.state.reason.get() {
            return Err(*reason);
        }
        // The task may not have run yet.
        match self.judge() {
            Some(reason) => Err(self.end(reason)),
            None => Ok(()),
        }
    }

    /// Asks a server that has caught up whether it is still held.
    pub async fn verify(&self) -> Result<(), LossReason> {
        self.check()?;
        let client = &self.state.client;
        let look = persist(client, || async {
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

    /// Comes to its end when it is not held any more, and says why.
    pub async fn lost(&self) -> LossReason {
        self.state.lost.cancelled().await;
        *self.state.reason.get().expect("the reason is set before the token is cancelled")
    }

    /// Is cancelled when it is not held any more; for work that should stop then.
    pub fn cancellation(&self) -> CancellationToken {
        self.state.lost.child_token()
    }

    /// Until when it is certainly held if the leader is not heard of any more, the margin taken off; `None` if it
    /// is lost.
    pub fn lease_deadline(&self) -> Option<Instant> {
        if self.state.reason.get().is_some() || self.state.client.session().id != self.state.session {
            return None;
        }
        let margin = self.state.terms.margin_of(self.state.client.session().timeout);
        self.state.client.lease_deadline()?.checked_sub(margin)
    }

    /// Comes to its end when somebody asks the holder to give it up.
    pub async fn revoked(&self) {
        let mut revoked = self.state.revoked.subscribe();
        // The sender lives in the state, which is borrowed here.
        let _ = revoked.wait_for(|revoked| *revoked).await;
    }

    /// Ends it; the first reason stays.
    pub(crate) fn end(&self, reason: LossReason) -> LossReason {
        let reason = *self.state.reason.get_or_init(|| reason);
        if !self.state.lost.is_cancelled() {
            if reason != LossReason::Released {
                tracing::warn!(path = %self.state.path, token = %self.state.token, %reason, "no longer held");
            }
            self.state.lost.cancel();
        }
        reason
    }

    /// What the session's state and the clock say.
    fn judge(&self) -> Option<LossReason> {
        let status = self.state.client.states().borrow().clone();
        match status.state {
            SessionState::Closed | SessionState::AuthFailed => return Some(LossReason::Closed),
            _ if status.session.id != self.state.session => return Some(LossReason::SessionExpired),
            SessionState::Expired => return Some(LossReason::SessionExpired),
            // A read-only server knows nothing of the session: it may live, as without a connection.
            SessionState::Suspended | SessionState::Connecting | SessionState::ReadOnly => {
                if self.state.terms.when_suspended == WhenSuspended::Lose {
                    return Some(LossReason::Suspended);
                }
            }
            SessionState::Connected | SessionState::Reconnected => {
                // A session that is being closed has no lease any more.
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
            if let Some(reason) = self.judge() {
                return reason;
            }
            // It is moved on while this waits; then this wakes and looks again.
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
            let read = persist(client, || {
                client.get(path).compression(Compression::None).retry(Retry::Never).watched()
            });
            let watcher = match present(read.await) {
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
