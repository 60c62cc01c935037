//! One term of leadership, and the node that says that its leader has taken it up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::runtime::Handle;
use zebu_client::{Client, Compression, CreateMode, CreateSpec, ErrorCode, Retry, SessionId, Stat, Version};

use crate::connection::{Attempts, persist, present};
use crate::error::RecipeError;
use crate::hold::{Fenced, Held, Holding, LossReason, fenced_out};
use crate::line::Line;
use crate::lock::{Hold, contenders};

/// One that takes part in an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// What it calls itself.
    pub id: String,
    /// Its node.
    pub path: String,
}

/// A term of leadership. Clones are the same term; it ends for all of them at once.
///
/// It ends by itself when the session is lost, when the ensemble gave no sign of life for the length of the lease,
/// when somebody deletes the node, and when it is given up. Then [`Held::lost`] says why.
#[derive(Clone, Debug)]
pub struct Leadership {
    holding: Holding,
    id: Arc<str>,
    acknowledgement: Arc<str>,
    acknowledged: Arc<AtomicBool>,
}

impl Leadership {
    fn new(hold: &Hold, id: &Arc<str>, election: &str) -> Leadership {
        Leadership {
            holding: hold.holding().clone(),
            id: id.clone(),
            acknowledgement: acknowledgement_of(election).into(),
            acknowledged: Arc::default(),
        }
    }

    /// What the leader calls itself.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells everybody that the leader has taken up its work: being the first in line does not mean to have
    /// begun. The node `<election>-leader` gets the leader's id, and goes with the term.
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
        // Before it is written: whoever ends the term must know that there may be something to delete.
        self.acknowledged.store(true, Ordering::Release);
        let client = self.holding.client();
        let mut attempts = Attempts::default();
        loop {
            self.check().map_err(|reason| self.lost_because(reason))?;
            let path = &*self.acknowledgement;
            let found = persist(client, || client.exists(path).retry(Retry::Never)).await?;
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
                Err(error) if fenced_out(&error, 0) => {
                    return Err(self.lost_because(self.holding.end(LossReason::NodeDeleted)));
                }
                // Somebody else was faster with the old one; look again.
                Err(error) if matches!(error.code(), Some(ErrorCode::NodeExists | ErrorCode::NoNode)) => {}
                Err(error) => attempts.after(client, error).await?,
            }
        }
    }

    fn lost_because(&self, reason: LossReason) -> RecipeError {
        RecipeError::Lost { path: self.holding.path().to_owned(), reason }
    }

    /// Made by this session after it became a candidate: nobody else of this session leads meanwhile.
    fn is_of_this_term(&self, stat: &Stat) -> bool {
        SessionId(stat.ephemeral_owner) == self.holding.session() && stat.czxid > self.holding.token().0
    }

    /// Takes the acknowledgement back, before the place in the line is given up: as long as it is held,
    /// nobody else can acknowledge.
    async fn withdraw(&self) {
        if !self.acknowledged.load(Ordering::Acquire) {
            return;
        }
        let client = self.holding.client();
        let mut attempts = Attempts::default();
        loop {
            let path = &*self.acknowledgement;
            let found = persist(client, || client.exists(path).retry(Retry::Never)).await;
            let Ok(Some(stat)) = found else { return };
            if !self.is_of_this_term(&stat) {
                return;
            }
            let mut transaction = self.transaction().compression(Compression::None);
            transaction.delete(path, Version::Any);
            match transaction.retry(Retry::Never).await {
                Ok(_) => return,
                Err(error) => {
                    // Refused: the place is gone, and with it the right to delete. The session takes it along.
                    if attempts.after(client, error).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// The nodes of a term. Dropping it gives them up in the background: the acknowledgement first, then the place in
/// the line.
#[derive(Debug)]
pub(crate) struct Term {
    leadership: Leadership,
    hold: Option<Hold>,
    runtime: Handle,
}

impl Term {
    /// Begins with a place in the line whose turn it is.
    pub(crate) fn begin(hold: Hold, id: &Arc<str>, election: &str) -> Term {
        let leadership = Leadership::new(&hold, id, election);
        Term { leadership, hold: Some(hold), runtime: Handle::current() }
    }

    pub(crate) fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Ends the term: those who depend on it are told, then the nodes go.
    pub(crate) async fn finish(mut self) -> Result<(), RecipeError> {
        self.leadership.holding.end(LossReason::Released);
        // The place stays in here while this waits: if the future is dropped, the rest is done in the background.
        self.leadership.withdraw().await;
        match self.hold.take() {
            Some(hold) => hold.release().await,
            None => Ok(()),
        }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.leadership.holding.end(LossReason::Released);
        let Some(hold) = self.hold.take() else { return };
        if self.leadership.acknowledged.load(Ordering::Acquire) {
            let leadership = self.leadership.clone();
            self.runtime.spawn(async move {
                leadership.withdraw().await;
                drop(hold);
            });
        }
    }
}

impl Held for Leadership {
    fn holding(&self) -> &Holding {
        &self.holding
    }
}

impl Fenced for Leadership {}

fn acknowledgement_of(election: &str) -> String {
    format!("{election}-leader")
}

/// Who has acknowledged leadership of an election.
pub(crate) async fn acknowledged(client: &Client, election: &str) -> Result<Option<String>, RecipeError> {
    let path = acknowledgement_of(election);
    let read = persist(client, || client.get(&path).compression(Compression::None).retry(Retry::Never)).await;
    Ok(present(read)?.map(|node| text(&node.data)))
}

/// Everybody in the line of an election, the leader first.
pub(crate) async fn participants(line: &Line) -> Result<Vec<Participant>, RecipeError> {
    let contenders = contenders(line).await?;
    Ok(contenders.into_iter().map(|one| Participant { id: text(&one.identity), path: one.path }).collect())
}

pub(crate) fn text(data: &Bytes) -> String {
    String::from_utf8_lossy(data).into_owned()
}
