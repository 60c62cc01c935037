//! One term of leadership, and the node by which the leader acknowledges it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::runtime::Handle;
use zebu_client::{Client, Compression, CreateMode, CreateSpec, ErrorCode, Retry, SessionId, Stat, Version};

use crate::error::RecipeError;
use crate::lock::contenders;
use crate::ownership::{Fenced, LossReason, OwnedNode, Ownership, OwnershipState, is_fenced_out};
use crate::retry::{ReconnectRetry, none_if_missing, retry_until_answered};
use crate::wait_queue::WaitQueue;

/// A participant of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionParticipant {
    /// Its id.
    pub id: String,
    /// Its node.
    pub path: String,
}

/// A term of leadership. Clones share the term and end together.
///
/// It ends with the session, with the lease, when another client deletes the node, and when the leader
/// resigns. [`Ownership::lost`] returns the reason.
#[derive(Clone, Debug)]
pub struct Leadership {
    ownership_state: OwnershipState,
    id: Arc<str>,
    acknowledgement: Arc<str>,
    acknowledged: Arc<AtomicBool>,
}

impl Leadership {
    fn new(owned: &OwnedNode, id: &Arc<str>, election: &str) -> Leadership {
        Leadership {
            ownership_state: owned.ownership_state().clone(),
            id: id.clone(),
            acknowledgement: acknowledgement_of(election).into(),
            acknowledged: Arc::default(),
        }
    }

    /// The id of the leader.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Publishes that the leader has started: election alone does not mean that. The node `<election>-leader`
    /// gets the leader's id and is deleted with the term.
    ///
    /// ```
    /// # zebu_testing::with_server(async |server| {
    /// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
    /// use zebu_recipes::LeaderLatch;
    ///
    /// let latch = LeaderLatch::join(&client, "/election", "host-7");
    /// let leadership = latch.lead().await?;
    /// assert_eq!(latch.acknowledged().await?, None); // chosen, and not ready yet
    /// leadership.acknowledge().await?;
    /// assert_eq!(latch.acknowledged().await?.as_deref(), Some("host-7"));
    /// latch.leave().await?;
    /// assert!(client.exists("/election-leader").await?.is_none());
    /// # Ok(()) });
    /// ```
    pub async fn acknowledge(&self) -> Result<(), RecipeError> {
        // Set before the write, so that the end of the term deletes a node that may exist.
        self.acknowledged.store(true, Ordering::Release);
        let client = self.ownership_state.client();
        let mut retry = ReconnectRetry::default();
        loop {
            self.check().map_err(|reason| self.lost_because(reason))?;
            let path = &*self.acknowledgement;
            let found = retry_until_answered(client, || client.exists(path).retry(Retry::Never)).await?;
            let mut transaction = self.transaction().compression(Compression::None);
            match found {
                Some(stat) if self.is_of_this_term(&stat) => return Ok(()),
                Some(_) => drop(transaction.delete(path, Version::Any)),
                None => {}
            }
            let spec = CreateSpec::new().mode(CreateMode::Ephemeral).data(self.id.as_bytes().to_vec());
            transaction.create(path, spec);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return Ok(()),
                Err(error) if is_fenced_out(&error, 0) => {
                    return Err(self.lost_because(self.ownership_state.end(LossReason::NodeDeleted)));
                }
                // Another participant changed the old node: check again.
                Err(error) if matches!(error.code(), Some(ErrorCode::NodeExists | ErrorCode::NoNode)) => {}
                Err(error) => retry.after(client, error).await?,
            }
        }
    }

    fn lost_because(&self, reason: LossReason) -> RecipeError {
        RecipeError::Lost { path: self.ownership_state.path().to_owned(), reason }
    }

    /// Created by this session after its queue node: no other participant of this session leads meanwhile.
    fn is_of_this_term(&self, stat: &Stat) -> bool {
        SessionId(stat.ephemeral_owner) == self.ownership_state.session()
            && stat.czxid > self.ownership_state.token().0
    }

    /// Deletes the acknowledgement before the queue node: while this participant owns that node, no other one
    /// can acknowledge.
    async fn withdraw_acknowledgement(&self) {
        if !self.acknowledged.load(Ordering::Acquire) {
            return;
        }
        let client = self.ownership_state.client();
        let mut retry = ReconnectRetry::default();
        loop {
            let path = &*self.acknowledgement;
            let found = retry_until_answered(client, || client.exists(path).retry(Retry::Never)).await;
            let Ok(Some(stat)) = found else { return };
            if !self.is_of_this_term(&stat) {
                return;
            }
            let mut transaction = self.transaction().compression(Compression::None);
            transaction.delete(path, Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return,
                Err(error) => {
                    // Refused: the queue node is gone. The acknowledgement is deleted with the session.
                    if retry.after(client, error).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// The nodes of a term. Dropping it deletes them in the background: the acknowledgement first, then the queue
/// node.
#[derive(Debug)]
pub(crate) struct LeadershipTerm {
    leadership: Leadership,
    owned: Option<OwnedNode>,
    runtime: Handle,
}

impl LeadershipTerm {
    /// Starts a term with the first node of the queue.
    pub(crate) fn begin(owned: OwnedNode, id: &Arc<str>, election: &str) -> LeadershipTerm {
        let leadership = Leadership::new(&owned, id, election);
        LeadershipTerm { leadership, owned: Some(owned), runtime: Handle::current() }
    }

    pub(crate) fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Ends the term: its end is reported, then its nodes are deleted.
    pub(crate) async fn finish(mut self) -> Result<(), RecipeError> {
        self.leadership.ownership_state.end(LossReason::Released);
        // The queue node stays in the struct during this wait: if the future is dropped, the background does
        // the rest.
        self.leadership.withdraw_acknowledgement().await;
        match self.owned.take() {
            Some(owned) => owned.release().await,
            None => Ok(()),
        }
    }
}

impl Drop for LeadershipTerm {
    fn drop(&mut self) {
        self.leadership.ownership_state.end(LossReason::Released);
        let Some(owned) = self.owned.take() else { return };
        if self.leadership.acknowledged.load(Ordering::Acquire) {
            let leadership = self.leadership.clone();
            self.runtime.spawn(async move {
                leadership.withdraw_acknowledgement().await;
                drop(owned);
            });
        }
    }
}

impl Ownership for Leadership {
    fn ownership_state(&self) -> &OwnershipState {
        &self.ownership_state
    }
}

impl Fenced for Leadership {}

fn acknowledgement_of(election: &str) -> String {
    format!("{election}-leader")
}

/// The id of the leader that has acknowledged.
pub(crate) async fn acknowledged(client: &Client, election: &str) -> Result<Option<String>, RecipeError> {
    let path = acknowledgement_of(election);
    let read =
        retry_until_answered(client, || client.get(&path).compression(Compression::None).retry(Retry::Never))
            .await;
    Ok(none_if_missing(read)?.map(|node| text(&node.data)))
}

/// All participants in the queue, the leader first.
pub(crate) async fn participants(queue: &WaitQueue) -> Result<Vec<ElectionParticipant>, RecipeError> {
    let contenders = contenders(queue).await?;
    Ok(contenders
        .into_iter()
        .map(|one| ElectionParticipant { id: text(&one.identity), path: one.path })
        .collect())
}

pub(crate) fn text(data: &Bytes) -> String {
    String::from_utf8_lossy(data).into_owned()
}
