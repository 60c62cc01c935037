//! The latch: takes part in the background until it leaves, and leads whenever it is its turn.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zebu_client::{Client, Retry};

use super::leadership::{Leadership, Participant, Term, acknowledged, participants};
use crate::connection::persist;
use crate::error::RecipeError;
use crate::hold::{FencingToken, Held, LossReason, Terms};
use crate::line::{IdStyle, Kind, Line, Naming, Patience};
use crate::lock::Hold;

const LATCH: Naming = Naming { style: IdStyle::Curator, exclusive: "latch-", shared: "" };

/// What a participant is at the moment.
#[derive(Clone, Debug)]
pub enum Role {
    /// It waits.
    Follower,
    /// It leads. Ask [`Held::check`] before anything that must not be done twice.
    Leader(Leadership),
    /// It has left, by its own will or for this reason; it will not lead again.
    Gone(Option<RecipeError>),
}

/// Takes part in an election until it leaves.
///
/// ```text
/// /election                                      container
///   _c_53345f98-…-latch-0000000003               ephemeral: the leader; the data is its id
///   _c_0d1c2a55-…-latch-0000000004               ephemeral: waits for 3
/// /election-leader                               ephemeral, if the leader has acknowledged
/// ```
///
/// The layout is that of Curator's `LeaderLatch`; the acknowledgement is not known there.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use zebu_recipes::{Held, LeaderLatch, run_while_held};
///
/// let latch = LeaderLatch::join(&client, "/election", "host-7");
/// let leadership = latch.lead().await?;
/// // Dropped at its next await when leadership is lost.
/// run_while_held(&leadership, async { println!("term {}", leadership.token()) }).await?;
/// assert_eq!(latch.leader().await?.map(|leader| leader.id).as_deref(), Some("host-7"));
/// latch.leave().await?;
/// # Ok(()) });
/// ```
///
/// **Connection lost.** A follower keeps its place. A leader leads on until the end of its lease, or not at
/// all if its [`Terms`] say so; then it has lost its term, leaves the first place and queues again, so that
/// somebody who can reach the ensemble leads.
///
/// **Session lost.** The term is over; it takes part again with the new session. **Crash.** Others lead when
/// the session has timed out. **Dropped.** It leaves in the background.
///
/// Every term has a [token](Held::token) greater than all before, also if the same one leads twice in a row.
#[derive(Debug)]
pub struct LeaderLatch {
    line: Line,
    role: watch::Receiver<Role>,
    stop: CancellationToken,
    resigned: watch::Sender<Option<FencingToken>>,
    task: JoinHandle<()>,
}

impl LeaderLatch {
    /// Takes part from now on, in the background.
    pub fn join(client: &Client, path: &str, id: impl Into<String>) -> LeaderLatch {
        LeaderLatch::join_with(client, path, id, Terms::default())
    }

    /// Takes part under other terms.
    pub fn join_with(client: &Client, path: &str, id: impl Into<String>, terms: Terms) -> LeaderLatch {
        let id: Arc<str> = id.into().into();
        let line = Line {
            client: client.clone(),
            directory: path.to_owned(),
            naming: LATCH,
            data: Bytes::copy_from_slice(id.as_bytes()),
            terms,
        };
        let (sender, role) = watch::channel(Role::Follower);
        let (stop, resigned) = (CancellationToken::new(), watch::channel(None).0);
        let candidate = Candidate {
            line: line.clone(),
            id,
            role: sender,
            stop: stop.clone(),
            resigned: resigned.subscribe(),
        };
        let task = tokio::spawn(async move {
            let end = candidate.run().await.err();
            candidate.role.send_replace(Role::Gone(end));
        });
        LeaderLatch { line, role, stop, resigned, task }
    }

    /// What this participant is, and every change of it. The newest value is never lost; a term that was
    /// shorter than it took to look may be skipped.
    pub fn roles(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    /// Whether it leads at this moment, by its own clock.
    pub fn is_leader(&self) -> bool {
        match &*self.role.borrow() {
            Role::Leader(leadership) => leadership.check().is_ok(),
            Role::Follower | Role::Gone(_) => false,
        }
    }

    /// Waits until it leads.
    pub async fn lead(&self) -> Result<Leadership, RecipeError> {
        let mut roles = self.role.clone();
        loop {
            match &*roles.borrow_and_update() {
                Role::Leader(leadership) if leadership.check().is_ok() => return Ok(leadership.clone()),
                Role::Leader(_) | Role::Follower => {}
                Role::Gone(end) => return Err(end.clone().unwrap_or_else(left)),
            }
            if roles.changed().await.is_err() {
                return Err(left());
            }
        }
    }

    /// Gives leadership up, if it leads, and queues again behind all others. Only the present term ends: a term that
    /// is over by then changes nothing for the next one.
    pub fn resign(&self) {
        if let Role::Leader(leadership) = &*self.role.borrow() {
            self.resigned.send_replace(Some(leadership.token()));
        }
    }

    /// Everybody who takes part, the leader first.
    pub async fn participants(&self) -> Result<Vec<Participant>, RecipeError> {
        participants(&self.line).await
    }

    /// The first in line: the leader, whether it knows already or not.
    pub async fn leader(&self) -> Result<Option<Participant>, RecipeError> {
        Ok(self.participants().await?.into_iter().next())
    }

    /// The id of the leader that has [acknowledged](Leadership::acknowledge) its leadership.
    pub async fn acknowledged(&self) -> Result<Option<String>, RecipeError> {
        acknowledged(&self.line.client, &self.line.directory).await
    }

    /// Leaves the election, and leadership with it. Returns when the ensemble knows.
    pub async fn leave(mut self) -> Result<(), RecipeError> {
        self.stop.cancel();
        // A panic of the task was reported by itself.
        let _ = (&mut self.task).await;
        match &*self.role.borrow() {
            Role::Gone(Some(error)) => Err(error.clone()),
            Role::Gone(None) | Role::Follower | Role::Leader(_) => Ok(()),
        }
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn left() -> RecipeError {
    RecipeError::Invalid("the participant has left the election".to_owned())
}

/// What happens in the background.
struct Candidate {
    line: Line,
    id: Arc<str>,
    role: watch::Sender<Role>,
    stop: CancellationToken,
    /// The term that was given up last.
    resigned: watch::Receiver<Option<FencingToken>>,
}

impl Candidate {
    async fn run(&self) -> Result<(), RecipeError> {
        loop {
            let ticket = tokio::select! {
                () = self.stop.cancelled() => return self.withdraw().await,
                ticket = self.line.stand(Kind::Exclusive, Patience::Endless) => ticket?,
            };
            let Some(ticket) = ticket else { continue };
            let hold = Hold::begin(ticket, self.line.terms);
            let term = Term::begin(hold, &self.id, &self.line.directory);
            let leadership = term.leadership();
            tracing::info!(path = %self.line.directory, id = %self.id, token = %leadership.token(), "leads");
            let token = leadership.token();
            let mut resigned = self.resigned.clone();
            self.role.send_replace(Role::Leader(leadership.clone()));
            let reason = tokio::select! {
                () = self.stop.cancelled() => LossReason::Released,
                Ok(_) = resigned.wait_for(|resigned| *resigned == Some(token)) => LossReason::Released,
                reason = leadership.lost() => reason,
            };
            tracing::info!(path = %self.line.directory, id = %self.id, %reason, "does not lead any more");
            // Those who hold a clone hear it before anybody else can lead.
            self.role.send_replace(Role::Follower);
            term.finish().await?;
            if self.stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// The place in the line was given up when the wait for it was dropped; this makes sure that the
    /// ensemble knows.
    async fn withdraw(&self) -> Result<(), RecipeError> {
        let client = &self.line.client;
        persist(client, || client.sync(&self.line.directory).retry(Retry::Never)).await?;
        Ok(())
    }
}
