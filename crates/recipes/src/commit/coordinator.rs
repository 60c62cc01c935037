//! Whoever proposes a transaction.

use std::time::Duration;

use bytes::Bytes;
use zebu_client::Client;

use super::round::Round;
use super::words::{CommitForm, Decision, Header};
use crate::error::RecipeError;
use crate::line::Ticket;
use crate::unique_id::UniqueId;

/// Proposes a transaction to a number of sites, which all carry it out or none does.
///
/// ```text
/// /app/tx-7                                      persistent: {"id":…,"form":…,"sites":["bank","shop"]} and a
///                                                line end, then what is to be done
///   s_bank                                       the vote: empty, then "commit" or "abort", written once
///   s_shop                                       (ephemeral with EphemeralVotes)
///   proposal_53345f98…                           persistent: the id; its version rises whenever a site with an
///                                                ephemeral vote begins a new life, and with the decision
///   coordinator                                  ephemeral: somebody sees to it that it is decided
///   decision                                     persistent: "commit" or "abort", written once
///   done_bank                                    persistent: this site has carried it out
/// ```
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let client = zebu_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use zebu_recipes::{CommitCoordinator, CommitForm, CommitSite, Decision, Vote};
///
/// let sites = ["bank", "shop"];
/// let form = CommitForm::CoordinatorAnnounces;
/// let coordinator = CommitCoordinator::propose(&client, "/app/tx-7", form, &sites, "pay 7").await?;
/// let site = async |name: &str| {
///     let site = CommitSite::join(&client, "/app/tx-7", name).await?;
///     println!("{name} looks whether it can {:?}", site.body());
///     site.vote(Vote::Commit).await?;
///     let decision = site.decision().await?;
///     site.acknowledge().await?; // carried out
///     Ok::<_, zebu_recipes::RecipeError>(decision)
/// };
/// let (bank, shop, decided) = tokio::join!(
///     site("bank"),
///     site("shop"),
///     coordinator.decide_within(Duration::from_secs(10)),
/// );
/// assert_eq!((bank?, shop?, decided?), (Decision::Commit, Decision::Commit, Decision::Commit));
/// coordinator.finish().await?; // when all have acknowledged
/// # Ok(()) });
/// ```
///
/// **What cannot happen**, in all three [forms](CommitForm): that one site is told to commit and another to
/// abort. With nodes that the coordinator makes, a vote is written once (by a version that it must have), so
/// that every look at them gives the same; who loses patience writes the missing votes, as votes against it.
/// With ephemeral votes the decision to commit is written in a transaction that asks for all of them, and for the
/// version of the proposal's node: a vote that went with its session and was cast again counts as another one.
///
/// **Connection lost.** Calls go on afterwards. **Session lost.** With ephemeral votes a site that has not heard
/// the decision has voted against it. Nothing else depends on sessions. **The coordinator crashes.** With
/// `EverybodyWatches` it is not missed. Else one of the sites that wait for the decision takes its part; two that
/// do at the same time come to the same end. Nodes are left behind until somebody calls
/// [`finish`](CommitCoordinator::finish) on what [`resume`](CommitCoordinator::resume) gives. **A site crashes.**
/// After its restart it joins again by its name and hears the decision; whether it voted is in its node. One that
/// never comes back is waited for as long as the patience says.
///
/// **Dropped.** The part of the coordinator is given up in the background, and one of the sites that wait takes it.
/// While a coordinator is kept and [`decide`](CommitCoordinator::decide) is not called, sites wait for it. A site that
/// is dropped takes its ephemeral vote back, which aborts what is not decided yet.
///
/// **Another proposal at the same path** does not see requests that were meant for the one before: each of them asks
/// for the node that has the proposal's id in its name.
#[derive(Debug)]
pub struct CommitCoordinator {
    round: Round,
    /// The coordinator's node, if it is ours.
    part: Option<Ticket>,
}

impl CommitCoordinator {
    /// Proposes a transaction. Its nodes are made all at once; a path can be used for one transaction at a time.
    pub async fn propose(
        client: &Client,
        path: &str,
        form: CommitForm,
        sites: &[&str],
        body: impl Into<Bytes>,
    ) -> Result<CommitCoordinator, RecipeError> {
        let sites = sites.iter().map(|site| (*site).to_owned()).collect();
        let header = Header { id: UniqueId::new().hex(), form, sites };
        let round = Round::propose(client, path, header, body.into()).await?;
        CommitCoordinator::conducting(round).await
    }

    /// Takes the part of the coordinator of a transaction that was proposed before, after a crash of whoever
    /// proposed it.
    pub async fn resume(client: &Client, path: &str) -> Result<Option<CommitCoordinator>, RecipeError> {
        let Some(round) = Round::open(client, path).await? else { return Ok(None) };
        CommitCoordinator::conducting(round).await.map(Some)
    }

    /// Another one may have the part already; two are as good as one.
    async fn conducting(round: Round) -> Result<CommitCoordinator, RecipeError> {
        let part = match round.header.form {
            CommitForm::EverybodyWatches => None,
            CommitForm::CoordinatorAnnounces | CommitForm::EphemeralVotes => {
                round.take_part(COORDINATOR).await?
            }
        };
        Ok(CommitCoordinator { round, part })
    }

    /// Waits until it is decided, for as long as it takes.
    pub async fn decide(&self) -> Result<Decision, RecipeError> {
        self.round.conduct(None).await
    }

    /// Waits until it is decided, and aborts it if votes are missing after this long.
    pub async fn decide_within(&self, patience: Duration) -> Result<Decision, RecipeError> {
        self.round.conduct(Some(patience)).await
    }

    /// Waits until all sites have acknowledged, and removes all nodes.
    pub async fn finish(self) -> Result<(), RecipeError> {
        self.round.all_done().await?;
        self.forget().await
    }

    /// Removes all nodes now. A site that has not heard the decision will not hear it any more.
    pub async fn forget(mut self) -> Result<(), RecipeError> {
        self.round.clear().await?;
        self.part.take().into_iter().for_each(Ticket::forget);
        Ok(())
    }
}

/// What stands in the coordinator's node.
const COORDINATOR: &str = "coordinator";
