//! The selector: work that whoever leads does, again and again.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use zebu_client::Client;

use super::leadership::{Leadership, Participant, Term, acknowledged, participants};
use crate::error::RecipeError;
use crate::hold::{Held, Terms, run_while_held};
use crate::line::{Kind, Line, Patience};
use crate::lock::{Hold, LockLayout};

/// Runs work while it leads; leadership ends with the work.
///
/// ```text
/// /jobs/leader                                   container
///   _c_53345f98-…-lock-0000000003                ephemeral: the leader; the data is its id
///   _c_0d1c2a55-…-lock-0000000004                ephemeral: waits for 3
/// /jobs/leader-leader                            ephemeral, if the leader has acknowledged
/// ```
///
/// The layout is that of Curator's `LeaderSelector`, or that of Kazoo's `Election`.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::ops::ControlFlow;
/// use zebu_recipes::{Held, LeaderSelector};
///
/// let mut terms = 0;
/// let selector = LeaderSelector::new(&client, "/jobs/leader", "host-7");
/// let result = selector
///     .run(|leadership| {
///         terms += 1;
///         let last = terms == 3;
///         async move {
///             println!("term {}", leadership.token());
///             // Not the last: give it up and queue again.
///             if last { ControlFlow::Break("done") } else { ControlFlow::Continue(()) }
///         }
///     })
///     .await?;
/// assert_eq!((result, terms), ("done", 3));
/// # Ok(()) });
/// ```
///
/// **Connection lost.** The work goes on until the end of the lease, or is dropped at once if the [`Terms`]
/// say so. **Session lost, lease ended.** The work is dropped at its next await; the selector queues again.
/// **Crash.** Others lead when the session has timed out. **Dropped.** The work is dropped; the acknowledgement and
/// the place in the line are given up in the background.
#[derive(Clone, Debug)]
pub struct LeaderSelector {
    line: Line,
    id: Arc<str>,
}

impl LeaderSelector {
    /// One that takes part in the election at this path when [`run`](LeaderSelector::run) is called.
    pub fn new(client: &Client, path: &str, id: impl Into<String>) -> LeaderSelector {
        let id: Arc<str> = id.into().into();
        let line = Line {
            client: client.clone(),
            directory: path.to_owned(),
            naming: LockLayout::default().naming(),
            data: Bytes::copy_from_slice(id.as_bytes()),
            terms: Terms::default(),
        };
        LeaderSelector { line, id }
    }

    /// With whom the election is shared.
    pub fn layout(mut self, layout: LockLayout) -> LeaderSelector {
        self.line.naming = layout.naming();
        self
    }

    /// When a loss is told.
    pub fn terms(mut self, terms: Terms) -> LeaderSelector {
        self.line.terms = terms;
        self
    }

    /// Waits until it leads, runs the work, gives leadership up, and so on until the work says `Break`. Work
    /// that loses leadership is dropped at its next await, and gets another chance with the next term.
    pub async fn run<R, F>(&self, mut work: impl FnMut(Leadership) -> F) -> Result<R, RecipeError>
    where
        F: Future<Output = ControlFlow<R>>,
    {
        loop {
            let Some(ticket) = self.line.stand(Kind::Exclusive, Patience::Endless).await? else { continue };
            let hold = Hold::begin(ticket, self.line.terms);
            let term = Term::begin(hold, &self.id, &self.line.directory);
            let leadership = term.leadership();
            let outcome = run_while_held(&leadership, work(leadership.clone())).await;
            if let Err(reason) = &outcome {
                let token = leadership.token();
                tracing::info!(path = %self.line.directory, id = %self.id, %token, %reason, "work was dropped");
            }
            term.finish().await?;
            match outcome {
                Ok(ControlFlow::Break(result)) => return Ok(result),
                Ok(ControlFlow::Continue(())) | Err(_) => {}
            }
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
}
