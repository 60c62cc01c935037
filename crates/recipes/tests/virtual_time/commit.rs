//! Two-phase commit where the order of things must be certain: on a clock that moves only when nobody has anything to do.

use std::time::Duration;

use tokio::time::Instant;
use zebu_recipes::{CommitCoordinator, CommitForm, CommitSite, Decision, Vote};

use crate::server::{Server, Trouble};
use crate::{client, virtually};

#[test]
fn the_failure_of_a_site_with_an_ephemeral_vote_aborts_at_once() {
    virtually(async {
        let server = Server::new(1, Trouble::None);
        let (one, dies) = (client(&server, 1).await, client(&server, 2).await);
        let form = CommitForm::EphemeralVotes;
        let proposed = CommitCoordinator::propose(&one, "/tx", form, &["a", "b"], "body").await;
        let coordinator = proposed.expect("proposed");
        let deciding = tokio::spawn(async move { coordinator.decide().await });
        let site = CommitSite::join(&dies, "/tx", "b").await.expect("joined");
        site.vote(Vote::Commit).await.expect("voted");
        let a = CommitSite::join(&one, "/tx", "a").await.expect("joined");
        // When time passes, the coordinator has seen the vote.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!deciding.is_finished(), "a vote is missing");
        let begun = Instant::now();
        server.state().expire(dies.session().id.0);
        assert_eq!(deciding.await.expect("no panic").expect("decided"), Decision::Abort);
        assert!(begun.elapsed() < Duration::from_millis(100), "it took {:?}", begun.elapsed());
        assert_eq!(site.decision().await.expect("told"), Decision::Abort);
        assert_eq!(a.decision().await.expect("told"), Decision::Abort);
    });
}
