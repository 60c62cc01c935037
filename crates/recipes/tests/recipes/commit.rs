//! Two-phase commit: never two decisions and no endless wait, with failures of coordinator or participants.

use std::sync::Arc;
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{
    CommitCoordinator, CommitDecision, CommitParticipant, CommitProtocol, CommitVote, RecipeError,
};
use zebu_testing::TestServer;

use crate::fault::{Fault, Plan};
use crate::rig::{BREAKS, Rig, at_every_step, children, client, faulty_client, server, soon};

const FORMS: [CommitProtocol; 3] =
    [CommitProtocol::AllWatchVotes, CommitProtocol::CoordinatorAnnounces, CommitProtocol::EphemeralVotes];

const SITES: [&str; 3] = ["a", "b", "c"];

/// One site from joining to the end; what it was told.
async fn site(
    client: &Client,
    path: &str,
    name: &str,
    vote: CommitVote,
) -> Result<CommitDecision, RecipeError> {
    let site = CommitParticipant::join(client, path, name).await?.vote_timeout(Duration::from_secs(20));
    assert_eq!(&site.body()[..], b"body");
    site.vote(vote).await?;
    let decision = site.decision().await?;
    site.acknowledge().await?;
    Ok(decision)
}

/// The coordinator and a site are on a connection that fails, two sites are not.
async fn whole_round(rig: &Rig, form: CommitProtocol, vote: CommitVote) -> CommitDecision {
    let path = format!("{}/app/tx", rig.path);
    let proposed = CommitCoordinator::propose(&rig.victim, &path, form, &SITES, "body").await;
    let coordinator = proposed.expect("proposed");
    let (decided, a, b, c) = tokio::join!(
        coordinator.decide_within(Duration::from_secs(20)),
        site(&rig.victim, &path, "a", CommitVote::Commit),
        site(&rig.other, &path, "b", CommitVote::Commit),
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
            assert_eq!(whole_round(rig, form, CommitVote::Commit).await, CommitDecision::Commit);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_an_abort() {
    for form in FORMS {
        at_every_step(&BREAKS, &["/app"], async |rig: &Rig| {
            assert_eq!(whole_round(rig, form, CommitVote::Abort).await, CommitDecision::Abort);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_commit() {
    for form in FORMS {
        at_every_step(&[Fault::Expire], &["/app"], async |rig: &Rig| {
            let decided = whole_round(rig, form, CommitVote::Commit).await;
            // Only where votes go with sessions can the end of one decide anything.
            assert!(decided == CommitDecision::Commit || form == CommitProtocol::EphemeralVotes);
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
                async move { site(&one, "/tx", "a", CommitVote::Commit).await }
            }),
            CommitParticipant::join(&two, "/tx", "b").await.expect("joined"),
        );
        // It dies while a vote is missing.
        deciding.abort();
        server.expire(dies.session().id).await.expect("expired");
        assert_eq!(b.vote(CommitVote::Commit).await.expect("voted"), CommitVote::Commit);
        assert_eq!(soon(b.decision()).await.expect("told"), CommitDecision::Commit);
        assert_eq!(soon(a).await.expect("no panic").expect("told"), CommitDecision::Commit);
        b.acknowledge().await.expect("acknowledged");
        let again = CommitCoordinator::resume(&one, "/tx").await.expect("an answer").expect("a round");
        assert_eq!(soon(again.decide()).await.expect("decided"), CommitDecision::Commit);
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
        let a = CommitParticipant::join(&one, "/tx", "a").await.expect("joined");
        let late = CommitParticipant::join(&two, "/tx", "b").await.expect("joined");
        a.vote(CommitVote::Commit).await.expect("voted");
        assert!(
            tokio::time::timeout(Duration::from_millis(50), coordinator.decide()).await.is_err(),
            "nobody decides without a vote"
        );
        let decided = coordinator.decide_within(Duration::from_millis(20)).await;
        assert_eq!(decided.expect("decided"), CommitDecision::Abort);
        assert_eq!(soon(a.decision()).await.expect("told"), CommitDecision::Abort);
        // Too late: with votes that are written once it learns so at once.
        let counted = late.vote(CommitVote::Commit).await.expect("an answer");
        assert!(counted == CommitVote::Abort || form == CommitProtocol::EphemeralVotes);
        assert_eq!(soon(late.decision()).await.expect("told"), CommitDecision::Abort);
        coordinator.remove().await.expect("cleared away");
        assert!(children(&one, "/").await.iter().all(|name| name != "tx"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_timeouts_reach_the_same_decision() {
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
                        let site = CommitParticipant::join(&one, &path, SITES[number]).await.expect("joined");
                        site.vote(CommitVote::Commit).await.expect("voted");
                    }
                    let third = CommitCoordinator::resume(&one, &path).await.expect("an answer");
                    if number == 0 {
                        tokio::time::sleep(Duration::from_millis(3)).await;
                        let site = CommitParticipant::join(&one, &path, SITES[0]).await.expect("joined");
                        site.vote(CommitVote::Commit).await.expect("voted");
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
    let form = CommitProtocol::AllWatchVotes;
    let propose = async |sites: &[&str]| CommitCoordinator::propose(&one, "/tx", form, sites, "").await;
    assert!(matches!(propose(&[]).await, Err(RecipeError::Invalid(_))));
    assert!(matches!(propose(&["a", "a"]).await, Err(RecipeError::Invalid(_))));
    propose(&["a"]).await.expect("proposed");
    assert!(matches!(propose(&["a"]).await, Err(RecipeError::Invalid(_))), "there is one already");
    assert!(matches!(CommitParticipant::join(&one, "/tx", "z").await, Err(RecipeError::Invalid(_))));
    assert!(matches!(CommitParticipant::join(&one, "/none", "a").await, Err(RecipeError::Invalid(_))));
    one.create("/other").data("x").await.expect("created");
    assert!(matches!(CommitParticipant::join(&one, "/other", "a").await, Err(RecipeError::BadData { .. })));
}

/// A coordinator whose transactions can be held back, and its server.
async fn slow_coordinator(
    form: CommitProtocol,
    sites: &[&str],
) -> (TestServer, Arc<Plan>, CommitCoordinator) {
    let server = server().await;
    let plan = Plan::new(Fault::HoldTransaction);
    let slow = faulty_client(&server, &plan).await;
    let proposed = CommitCoordinator::propose(&slow, "/tx", form, sites, "body").await;
    (server, plan, proposed.expect("proposed"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_that_has_gone_with_its_session_does_not_count_when_it_is_cast_again_against_it() {
    let (server, plan, coordinator) = slow_coordinator(CommitProtocol::EphemeralVotes, &["x", "y"]).await;
    let (first, second, other) = (client(&server).await, client(&server).await, client(&server).await);
    plan.arm(1);
    let deciding = tokio::spawn(async move { coordinator.decide().await });
    let x = CommitParticipant::join(&first, "/tx", "x").await.expect("joined");
    let y = CommitParticipant::join(&other, "/tx", "y").await.expect("joined");
    for site in [&x, &y] {
        assert_eq!(site.vote(CommitVote::Commit).await.expect("voted"), CommitVote::Commit);
    }
    // The coordinator has seen both, and its transaction is on its way.
    soon(plan.fires()).await;
    server.expire(first.session().id).await.expect("expired");
    let again = CommitParticipant::join(&second, "/tx", "x").await.expect("joined again");
    assert_eq!(again.vote(CommitVote::Abort).await.expect("voted"), CommitVote::Abort);
    plan.go_on();
    let decided = soon(deciding).await.expect("no panic").expect("decided");
    assert_eq!(decided, CommitDecision::Abort, "x has voted against it, and its first vote had gone");
    for site in [&again, &y] {
        assert_eq!(soon(site.decision()).await.expect("told"), CommitDecision::Abort);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_after_the_decision_returns_the_decision() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let form = CommitProtocol::EphemeralVotes;
    let coordinator = CommitCoordinator::propose(&one, "/tx", form, &["x"], "").await.expect("proposed");
    let x = CommitParticipant::join(&one, "/tx", "x").await.expect("joined");
    x.vote(CommitVote::Commit).await.expect("voted");
    assert_eq!(soon(coordinator.decide()).await.expect("decided"), CommitDecision::Commit);
    let again = CommitParticipant::join(&two, "/tx", "x").await.expect("joined again");
    assert_eq!(again.vote(CommitVote::Abort).await.expect("an answer"), CommitVote::Commit);
    assert_eq!(soon(again.decision()).await.expect("told"), CommitDecision::Commit);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_stops_waiting_leaves_the_part_of_the_coordinator_to_others() {
    for form in [CommitProtocol::CoordinatorAnnounces, CommitProtocol::EphemeralVotes] {
        let server = server().await;
        let (dies, one, two) = (client(&server).await, client(&server).await, client(&server).await);
        CommitCoordinator::propose(&dies, "/tx", form, &["a", "b"], "body").await.expect("proposed");
        dies.close().await.expect("closed");
        let a = CommitParticipant::join(&one, "/tx", "a").await.expect("joined");
        let b = CommitParticipant::join(&two, "/tx", "b").await.expect("joined");
        a.vote(CommitVote::Commit).await.expect("voted");
        let waiting = async {
            tokio::select! {
                decision = a.decision() => panic!("{decision:?} without a vote of b"),
                () = until_exists(&two, "/tx/coordinator") => {}
            }
        };
        soon(waiting).await;
        // Its future is dropped; it is alive and does other things.
        b.vote(CommitVote::Commit).await.expect("voted");
        assert_eq!(soon(b.decision()).await.expect("told"), CommitDecision::Commit, "{form:?}");
        assert_eq!(soon(a.decision()).await.expect("told"), CommitDecision::Commit, "{form:?}");
    }
}

async fn until_exists(client: &Client, path: &str) {
    while client.exists(path).await.expect("an answer").is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_dropped_is_not_waited_for() {
    for form in FORMS {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let proposed = CommitCoordinator::propose(&one, "/tx", form, &["a"], "body").await;
        drop(proposed.expect("proposed"));
        let site = CommitParticipant::join(&two, "/tx", "a").await.expect("joined");
        site.vote(CommitVote::Commit).await.expect("voted");
        assert_eq!(soon(site.decision()).await.expect("told"), CommitDecision::Commit, "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_is_dropped_takes_its_ephemeral_vote_back() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let form = CommitProtocol::EphemeralVotes;
    let proposed = CommitCoordinator::propose(&one, "/tx", form, &["a", "b"], "").await;
    let coordinator = proposed.expect("proposed");
    let a = CommitParticipant::join(&two, "/tx", "a").await.expect("joined");
    a.vote(CommitVote::Commit).await.expect("voted");
    // Another handle of the same session uses the node of the first one and does not take it away.
    drop(CommitParticipant::join(&two, "/tx", "a").await.expect("joined"));
    two.sync("/tx").await.expect("synced");
    assert_eq!(&two.get("/tx/s_a").await.expect("a vote").data[..], b"commit");
    drop(a);
    soon(async {
        while one.exists("/tx/s_a").await.expect("an answer").is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    coordinator.remove().await.expect("cleared away");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_may_be_dropped_at_every_request() {
    for form in FORMS {
        at_every_step(&[Fault::Hold], &["/app"], async |rig: &Rig| {
            let path = format!("{}/app/tx", rig.path);
            let proposed = CommitCoordinator::propose(&rig.other, &path, form, &["a", "b"], "body").await;
            drop(proposed.expect("proposed"));
            tokio::select! {
                told = site(&rig.victim, &path, "a", CommitVote::Abort) => drop(told.expect("told")),
                () = rig.plan.fires() => {}
            }
            rig.plan.go_on();
            // Whatever the other one has left: one that waits comes to an end.
            let b = CommitParticipant::join(&rig.other, &path, "b").await.expect("joined");
            let b = b.vote_timeout(Duration::from_millis(20));
            b.vote(CommitVote::Commit).await.expect("voted");
            assert_eq!(b.decision().await.expect("told"), CommitDecision::Abort);
            let again = CommitCoordinator::resume(&rig.other, &path).await.expect("an answer");
            again.expect("a round").remove().await.expect("cleared away");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_one_proposal_do_not_reach_the_next_one_at_the_same_path() {
    let (server, plan, late) = slow_coordinator(CommitProtocol::CoordinatorAnnounces, &["a"]).await;
    let one = client(&server).await;
    let form = CommitProtocol::CoordinatorAnnounces;
    let former = CommitParticipant::join(&one, "/tx", "a").await.expect("joined");
    let former_too = CommitParticipant::join(&one, "/tx", "a").await.expect("joined");
    plan.arm(1);
    let deciding = tokio::spawn(async move { (late.decide().await, late) });
    former.vote(CommitVote::Commit).await.expect("voted");
    // The announcement is on its way; meanwhile the proposal is removed, and another one takes its place.
    soon(plan.fires()).await;
    let again = CommitCoordinator::resume(&one, "/tx").await.expect("an answer").expect("a round");
    again.remove().await.expect("cleared away");
    let next = CommitCoordinator::propose(&one, "/tx", form, &["a"], "other").await.expect("proposed");
    plan.go_on();
    let (decided, late) = soon(deciding).await.expect("no panic");
    assert!(matches!(decided, Err(RecipeError::Invalid(_))), "{decided:?}");
    assert!(matches!(former_too.vote(CommitVote::Commit).await, Err(RecipeError::Invalid(_))));
    assert!(matches!(soon(former.decision()).await, Err(RecipeError::Invalid(_))));
    former.acknowledge().await.expect("nothing is left to acknowledge");
    late.remove().await.expect("nothing is left to remove");
    // The new one has seen nothing of all that.
    let site = CommitParticipant::join(&one, "/tx", "a").await.expect("joined");
    assert_eq!(&site.body()[..], b"other");
    assert_eq!(site.vote(CommitVote::Abort).await.expect("voted"), CommitVote::Abort);
    assert_eq!(soon(next.decide()).await.expect("decided"), CommitDecision::Abort);
    site.acknowledge().await.expect("acknowledged");
    soon(next.finish()).await.expect("cleared away");
}
