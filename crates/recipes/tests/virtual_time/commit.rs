//! Two-phase commit where the order of events must be certain: the clock moves only when no task is ready.

use std::time::Duration;

use tokio::time::Instant;
use zebu_client::Client;
use zebu_recipes::{
    CommitCoordinator, CommitDecision, CommitParticipant, CommitProtocol, CommitVote, RecipeError,
};

use crate::checks::until_empty;
use crate::server::{FaultKinds, FaultRate, Server};
use crate::{check_faults, client, for_each_seed, seeds, virtually};

#[test]
fn the_failure_of_a_site_with_an_ephemeral_vote_aborts_at_once() {
    virtually(1, async {
        let server = Server::new(1, FaultRate::None);
        let (one, dies) = (client(&server, 1, 1).await, client(&server, 1, 2).await);
        let form = CommitProtocol::EphemeralVotes;
        let proposed = CommitCoordinator::propose(&one, "/tx", form, &["a", "b"], "body").await;
        let coordinator = proposed.expect("proposed");
        let deciding = tokio::spawn(async move { coordinator.decide().await });
        let site = CommitParticipant::join(&dies, "/tx", "b").await.expect("joined");
        site.vote(CommitVote::Commit).await.expect("voted");
        let a = CommitParticipant::join(&one, "/tx", "a").await.expect("joined");
        // When time passes, the coordinator has seen the vote.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!deciding.is_finished(), "a vote is missing");
        let begun = Instant::now();
        server.state().expire(dies.session().id.0);
        assert_eq!(deciding.await.expect("no panic").expect("decided"), CommitDecision::Abort);
        assert!(begun.elapsed() < Duration::from_millis(100), "it took {:?}", begun.elapsed());
        assert_eq!(site.decision().await.expect("told"), CommitDecision::Abort);
        assert_eq!(a.decision().await.expect("told"), CommitDecision::Abort);
    });
}

/// A participant votes for the proposal, leaves, joins again and votes against it, at a time that depends on
/// the seed. All transactions are slow. An accepted vote against the proposal counts.
async fn vote_differently_after_rejoining(seed: u64) -> (CommitDecision, usize) {
    let server = Server::new(seed, FaultRate::None);
    let coordinating = client(&server, seed, 1).await;
    let (first, second, other) =
        (client(&server, seed, 2).await, client(&server, seed, 3).await, client(&server, seed, 4).await);
    let form = CommitProtocol::EphemeralVotes;
    let proposed = CommitCoordinator::propose(&coordinating, "/app/tx", form, &["x", "y"], "").await;
    let coordinator = proposed.expect("proposed");
    server.set_faults(FaultRate::SlowTransactions);
    let deciding = tokio::spawn(async move { (coordinator.decide().await, coordinator) });
    let y = async {
        let site = CommitParticipant::join(&other, "/app/tx", "y").await.expect("joined");
        site.vote(CommitVote::Commit).await.expect("voted");
        site
    };
    let x = async {
        let site = CommitParticipant::join(&first, "/app/tx", "x").await.expect("joined");
        site.vote(CommitVote::Commit).await.expect("voted");
        tokio::time::sleep(Duration::from_millis(seed * 37 % 4_000)).await;
        server.state().expire(first.session().id.0);
        let again = CommitParticipant::join(&second, "/app/tx", "x").await.expect("joined again");
        let counts = again.vote(CommitVote::Abort).await.expect("an answer");
        (again, counts)
    };
    let (y, (x, counts)) = tokio::join!(y, x);
    let (decided, coordinator) = deciding.await.expect("no panic");
    let decided = decided.expect("decided");
    assert_eq!(
        CommitDecision::Abort == decided,
        counts == CommitVote::Abort,
        "the vote that counts is {counts:?}"
    );
    for site in [&x, &y] {
        assert_eq!(site.decision().await.expect("told"), decided);
    }
    drop((x, y));
    coordinator.remove().await.expect("cleared away");
    until_empty(&server, "/app").await;
    (decided, server.state().faults)
}

#[test]
fn a_vote_of_a_second_life_is_not_taken_for_that_of_the_first() {
    let (mut faults, mut commits, mut aborts) = (0, 0, 0);
    for seed in seeds(5) {
        let (decided, made) = virtually(seed, vote_differently_after_rejoining(seed));
        faults += made;
        match decided {
            CommitDecision::Commit => commits += 1,
            CommitDecision::Abort => aborts += 1,
        }
    }
    check_faults(faults, &seeds(5));
    assert!(seeds(5).count() < 40 || (commits > 0 && aborts > 0), "{commits} {aborts}");
}

#[test]
fn a_dropped_wait_frees_the_role_of_the_coordinator() {
    const SITES: [&str; 3] = ["a", "b", "c"];
    for form in [CommitProtocol::CoordinatorAnnounces, CommitProtocol::EphemeralVotes] {
        for_each_seed(FaultKinds::Cuts, async |server, clients| {
            let proposed = CommitCoordinator::propose(&clients[0], "/app/tx", form, &SITES, "").await;
            drop(proposed.expect("proposed"));
            let site = async |client: &Client, number: usize| {
                let site = CommitParticipant::join(client, "/app/tx", SITES[number]).await.expect("joined");
                // At different times: some become coordinator before all votes are in, and are dropped.
                tokio::time::sleep(Duration::from_secs(3 * number as u64)).await;
                site.vote(CommitVote::Commit).await.expect("voted");
                for turn in 0.. {
                    let timeout = Duration::from_millis(100 + 700 * ((number + turn) as u64 % 5));
                    if let Ok(decision) = tokio::time::timeout(timeout, site.decision()).await {
                        return (decision.expect("told"), site);
                    }
                    // It must not be coordinator meanwhile.
                    tokio::time::sleep(Duration::from_secs(20)).await;
                }
                unreachable!("there is always another turn")
            };
            let (a, b, c) = tokio::join!(site(&clients[0], 0), site(&clients[1], 1), site(&clients[2], 2));
            assert_eq!([a.0, b.0, c.0], [CommitDecision::Commit; 3]);
            for (_, site) in [a, b, c] {
                site.acknowledge().await.expect("acknowledged");
            }
            let again = CommitCoordinator::resume(&clients[0], "/app/tx").await.expect("an answer");
            again.expect("a round").finish().await.expect("cleared away");
            until_empty(server, "/app").await;
        });
    }
}

#[test]
fn a_late_coordinator_does_not_decide_about_the_next_proposal() {
    for seed in seeds(1) {
        virtually(seed, async {
            let server = Server::new(seed, FaultRate::None);
            let (late, one) = (client(&server, seed, 1).await, client(&server, seed, 2).await);
            let form = CommitProtocol::CoordinatorAnnounces;
            let proposed = CommitCoordinator::propose(&late, "/app/tx", form, &["a"], "").await;
            let coordinator = proposed.expect("proposed");
            let former = CommitParticipant::join(&one, "/app/tx", "a").await.expect("joined");
            server.set_faults(FaultRate::SlowTransactions);
            let deciding = tokio::spawn(async move { coordinator.decide().await });
            former.vote(CommitVote::Commit).await.expect("voted");
            tokio::time::sleep(Duration::from_millis(seed * 53 % 2_000)).await;
            let again = CommitCoordinator::resume(&one, "/app/tx").await.expect("an answer");
            again.expect("a round").remove().await.expect("cleared away");
            let next = CommitCoordinator::propose(&one, "/app/tx", form, &["a"], "").await.expect("proposed");
            match deciding.await.expect("no panic") {
                Ok(CommitDecision::Commit) | Err(RecipeError::Invalid(_)) => {}
                other => panic!("{other:?}"),
            }
            let site = CommitParticipant::join(&one, "/app/tx", "a").await.expect("joined");
            assert_eq!(site.vote(CommitVote::Abort).await.expect("voted"), CommitVote::Abort);
            assert_eq!(next.decide().await.expect("decided"), CommitDecision::Abort);
            next.remove().await.expect("cleared away");
            until_empty(&server, "/app").await;
        });
    }
}
