//! Two-phase commit: never two decisions, whoever fails, and nobody waits for ever.

use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{CommitCoordinator, CommitForm, CommitSite, Decision, RecipeError, Vote};

use crate::fault::Fault;
use crate::rig::{BREAKS, Rig, at_every_step, children, client, server, soon};

const FORMS: [CommitForm; 3] =
    [CommitForm::EverybodyWatches, CommitForm::CoordinatorAnnounces, CommitForm::EphemeralVotes];

const SITES: [&str; 3] = ["a", "b", "c"];

/// One site from joining to the end; what it was told.
async fn site(client: &Client, path: &str, name: &str, vote: Vote) -> Result<Decision, RecipeError> {
    let site = CommitSite::join(client, path, name).await?.patience(Duration::from_secs(20));
    assert_eq!(&site.body()[..], b"body");
    site.vote(vote).await?;
    let decision = site.decision().await?;
    site.acknowledge().await?;
    Ok(decision)
}

/// The coordinator and a site are on a connection that fails, two sites are not.
async fn whole_round(rig: &Rig, form: CommitForm, vote: Vote) -> Decision {
    let path = format!("{}/app/tx", rig.path);
    let proposed = CommitCoordinator::propose(&rig.victim, &path, form, &SITES, "body").await;
    let coordinator = proposed.expect("proposed");
    let (decided, a, b, c) = tokio::join!(
        coordinator.decide_within(Duration::from_secs(20)),
        site(&rig.victim, &path, "a", Vote::Commit),
        site(&rig.other, &path, "b", Vote::Commit),
        site(&rig.other, &path, "c", vote),
    );
    let decided = decided.expect("decided");
    for one in [a, b, c] {
        assert_eq!(one.expect("told"), decided, "all are told the same");
    }
    coordinator.finish().await.expect("cleared away");
    assert!(children(&rig.other, &format!("{}/app", rig.path)).await.is_empty());
    decided
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_commit() {
    for form in FORMS {
        at_every_step(&BREAKS, &["/app"], async |rig: &Rig| {
            assert_eq!(whole_round(rig, form, Vote::Commit).await, Decision::Commit);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_an_abort() {
    for form in FORMS {
        at_every_step(&BREAKS, &["/app"], async |rig: &Rig| {
            assert_eq!(whole_round(rig, form, Vote::Abort).await, Decision::Abort);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_commit() {
    for form in FORMS {
        at_every_step(&[Fault::Expire], &["/app"], async |rig: &Rig| {
            let decided = whole_round(rig, form, Vote::Commit).await;
            // Only where votes go with sessions can the end of one decide anything.
            assert!(decided == Decision::Commit || form == CommitForm::EphemeralVotes);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_crashes_is_not_missed() {
    for form in FORMS {
        let server = server().await;
        let (dies, one, two) = (client(&server).await, client(&server).await, client(&server).await);
        let coordinator = CommitCoordinator::propose(&dies, "/tx", form, &["a", "b"], "body").await;
        let coordinator = coordinator.expect("proposed");
        let deciding = tokio::spawn(async move { coordinator.decide().await });
        let (a, b) = (
            tokio::spawn({
                let one = one.clone();
                async move { site(&one, "/tx", "a", Vote::Commit).await }
            }),
            CommitSite::join(&two, "/tx", "b").await.expect("joined"),
        );
        // It dies while a vote is missing.
        deciding.abort();
        server.expire(dies.session().id).await.expect("expired");
        assert_eq!(b.vote(Vote::Commit).await.expect("voted"), Vote::Commit);
        assert_eq!(soon(b.decision()).await.expect("told"), Decision::Commit);
        assert_eq!(soon(a).await.expect("no panic").expect("told"), Decision::Commit);
        b.acknowledge().await.expect("acknowledged");
        let again = CommitCoordinator::resume(&one, "/tx").await.expect("an answer").expect("a round");
        assert_eq!(soon(again.decide()).await.expect("decided"), Decision::Commit);
        soon(again.finish()).await.expect("cleared away");
        assert!(CommitCoordinator::resume(&one, "/tx").await.expect("an answer").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_never_votes_aborts_it_and_hears_so() {
    for form in FORMS {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let coordinator = CommitCoordinator::propose(&one, "/tx", form, &["a", "b"], "body").await;
        let coordinator = coordinator.expect("proposed");
        let a = CommitSite::join(&one, "/tx", "a").await.expect("joined");
        let late = CommitSite::join(&two, "/tx", "b").await.expect("joined");
        a.vote(Vote::Commit).await.expect("voted");
        assert!(
            tokio::time::timeout(Duration::from_millis(50), coordinator.decide()).await.is_err(),
            "nobody decides without a vote"
        );
        let decided = coordinator.decide_within(Duration::from_millis(20)).await;
        assert_eq!(decided.expect("decided"), Decision::Abort);
        assert_eq!(soon(a.decision()).await.expect("told"), Decision::Abort);
        // Too late: with votes that are written once it learns so at once.
        let counted = late.vote(Vote::Commit).await.expect("an answer");
        assert!(counted == Vote::Abort || form == CommitForm::EphemeralVotes);
        assert_eq!(soon(late.decision()).await.expect("told"), Decision::Abort);
        coordinator.forget().await.expect("cleared away");
        assert!(children(&one, "/").await.iter().all(|name| name != "tx"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_lose_patience_at_once_come_to_the_same_end() {
    for form in FORMS {
        let server = server().await;
        let clients = [client(&server).await, client(&server).await, client(&server).await];
        for round in 0..5 {
            let path = format!("/tx-{round}");
            CommitCoordinator::propose(&clients[0], &path, form, &SITES, "body").await.expect("proposed");
            let mut tasks = Vec::new();
            for (number, one) in clients.iter().enumerate() {
                let (one, path) = (one.clone(), path.clone());
                tasks.push(tokio::spawn(async move {
                    if number > 0 {
                        let site = CommitSite::join(&one, &path, SITES[number]).await.expect("joined");
                        site.vote(Vote::Commit).await.expect("voted");
                    }
                    let third = CommitCoordinator::resume(&one, &path).await.expect("an answer");
                    if number == 0 {
                        tokio::time::sleep(Duration::from_millis(3)).await;
                        let site = CommitSite::join(&one, &path, SITES[0]).await.expect("joined");
                        site.vote(Vote::Commit).await.expect("voted");
                    }
                    let patience = Duration::from_millis(3 + round + number as u64);
                    third.expect("a round").decide_within(patience).await.expect("decided")
                }));
            }
            let mut decisions = Vec::new();
            for task in tasks {
                decisions.push(soon(task).await.expect("no panic"));
            }
            assert!(decisions.windows(2).all(|pair| pair[0] == pair[1]), "{form:?}: {decisions:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_that_cannot_be_are_refused() {
    let server = server().await;
    let one = client(&server).await;
    let form = CommitForm::EverybodyWatches;
    let propose = async |sites: &[&str]| CommitCoordinator::propose(&one, "/tx", form, sites, "").await;
    assert!(matches!(propose(&[]).await, Err(RecipeError::Invalid(_))));
    assert!(matches!(propose(&["a", "a"]).await, Err(RecipeError::Invalid(_))));
    propose(&["a"]).await.expect("proposed");
    assert!(matches!(propose(&["a"]).await, Err(RecipeError::Invalid(_))), "there is one already");
    assert!(matches!(CommitSite::join(&one, "/tx", "z").await, Err(RecipeError::Invalid(_))));
    assert!(matches!(CommitSite::join(&one, "/none", "a").await, Err(RecipeError::Invalid(_))));
    one.create("/other").data("x").await.expect("created");
    assert!(matches!(CommitSite::join(&one, "/other", "a").await, Err(RecipeError::BadData { .. })));
}
