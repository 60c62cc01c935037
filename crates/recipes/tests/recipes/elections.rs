//! Elections: one leader at a time, terms that end, and participants that come back.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use zebu_recipes::{
    LatchRole, LeaderLatch, LeaderSelector, Leadership, LeasePolicy, LockLayout, LossReason, Ownership,
    RecipeError, SimpleElection, WhenSuspended,
};

use crate::fault::Fault;
use crate::rig::{
    BREAKS, Register, Rig, at_every_step, children, client, client_of, server, soon, until_children,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_latch() {
    at_every_step(&BREAKS, &["/e"], async |rig: &Rig| {
        let path = format!("{}/e", rig.path);
        let first = LeaderLatch::join(&rig.other, &path, "first");
        let term = first.lead().await.expect("leads").token();
        let second = LeaderLatch::join(&rig.victim, &path, "second");
        until_children(&rig.other, &path, 2).await;
        assert!(!second.is_leader());
        first.leave().await.expect("left");
        let leadership = second.lead().await.expect("leads");
        assert!(leadership.token() > term);
        leadership.acknowledge().await.expect("acknowledged");
        let data = rig.other.get(&format!("{path}-leader")).await.expect("a node").data;
        assert_eq!(&data[..], b"second");
        second.leave().await.expect("left");
        assert_eq!(leadership.check(), Err(LossReason::Released));
        assert!(rig.other.exists(&format!("{path}-leader")).await.expect("an answer").is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_latch() {
    at_every_step(&[Fault::Expire], &["/e"], async |rig: &Rig| {
        let path = format!("{}/e", rig.path);
        let register = Register::create(&rig.other, &format!("{}-register", rig.path)).await;
        let latch = LeaderLatch::join(&rig.victim, &path, "victim");
        // It comes back by itself with the next session; an acknowledgement may fail with the term.
        let mut last = None;
        loop {
            let leadership = latch.lead().await.expect("leads");
            // A slow client may not have noticed the loss of the last term yet: then it is the same node.
            let term = Some((leadership.token(), leadership.path().to_owned()));
            assert!(last <= term, "every term has a greater number");
            last = term;
            if leadership.acknowledge().await.is_ok() && register.write(&leadership).await {
                break;
            }
            assert!(rig.plan.has_fired());
            let _ = tokio::time::timeout(Duration::from_millis(500), leadership.lost()).await;
        }
        latch.leave().await.expect("left");
        register.check();
        until_children(&rig.other, &rig.path, 1).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_session_ends_is_followed_and_comes_back() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let first = LeaderLatch::join(&one, "/e", "first");
    let leadership = first.lead().await.expect("leads");
    leadership.acknowledge().await.expect("acknowledged");
    let second = LeaderLatch::join(&two, "/e", "second");
    until_children(&two, "/e", 2).await;
    let ids: Vec<_> = first.participants().await.expect("a list").into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["first", "second"]);
    server.expire(one.session().id).await.expect("expired");
    assert_eq!(soon(leadership.lost()).await, LossReason::SessionExpired);
    let next = soon(second.lead()).await.expect("leads");
    assert!(next.token() > leadership.token());
    assert!(leadership.acknowledge().await.is_err(), "a term that is over cannot be acknowledged");
    next.acknowledge().await.expect("acknowledged");
    assert_eq!(first.acknowledged().await.expect("an answer").as_deref(), Some("second"));
    // The first one stands behind it again.
    until_children(&two, "/e", 2).await;
    assert_eq!(second.leader().await.expect("an answer").expect("a leader").id, "second");
    second.leave().await.expect("left");
    let again = soon(first.lead()).await.expect("leads");
    assert!(again.token() > next.token());
    drop(first);
    until_children(&two, "/e", 0).await;
    assert_eq!(again.check(), Err(LossReason::Released));
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_ends_before_the_next_leader_begins() {
    let server = server().await;
    let one = client_of(&server, Duration::from_secs(2)).await;
    let two = client(&server).await;
    let first = LeaderLatch::join(&one, "/e", "first");
    let leadership = first.lead().await.expect("leads");
    let second = LeaderLatch::join(&two, "/e", "second");
    until_children(&two, "/e", 2).await;
    server.pause(one.session().id).await;
    let lost = leadership.lost();
    let told = tokio::spawn(async move { (lost.await, Instant::now()) });
    soon(second.lead()).await.expect("leads");
    let began = Instant::now();
    let (reason, ended) = soon(told).await.expect("no panic");
    assert_eq!(reason, LossReason::LeaseEnded);
    assert!(ended < began);
    assert!(!first.is_leader());
    server.resume(one.session().id).await;
    until_children(&two, "/e", 2).await;
    assert!(second.is_leader() && !first.is_leader());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_under_strict_terms_steps_down_with_its_connection() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let terms = LeasePolicy::default().when_suspended(WhenSuspended::Lose);
    let first = LeaderLatch::join_with(&one, "/e", "first", terms);
    let leadership = first.lead().await.expect("leads");
    let second = LeaderLatch::join(&two, "/e", "second");
    until_children(&two, "/e", 2).await;
    server.cut(one.session().id);
    assert_eq!(soon(leadership.lost()).await, LossReason::Suspended);
    soon(second.lead()).await.expect("leads");
    until_children(&two, "/e", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_server_does_not_end_a_term() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let first = LeaderLatch::join(&one, "/e", "first");
    let leadership = first.lead().await.expect("leads");
    let second = LeaderLatch::join(&two, "/e", "second");
    until_children(&two, "/e", 2).await;
    server.kill().await.expect("killed");
    server.restart().await.expect("started again");
    assert_eq!(leadership.verify().await, Ok(()));
    first.resign();
    assert_eq!(soon(leadership.lost()).await, LossReason::Released);
    soon(second.lead()).await.expect("leads");
    until_children(&two, "/e", 2).await;
    second.leave().await.expect("left");
    soon(first.lead()).await.expect("leads");
    one.clone().close().await.expect("closed");
    assert!(matches!(soon(first.lead()).await, Err(RecipeError::Client(_))));
    assert!(matches!(&*first.roles().borrow(), LatchRole::Left(Some(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_queues_again_until_its_work_says_otherwise() {
    for layout in [LockLayout::Curator, LockLayout::Kazoo] {
        at_every_step(&BREAKS, &["/e"], async |rig: &Rig| {
            let path = format!("{}/e", rig.path);
            let mut tokens = Vec::new();
            let selector = LeaderSelector::new(&rig.victim, &path, "victim").layout(layout);
            let result = selector
                .run(|leadership| {
                    tokens.push(leadership.token());
                    let last = tokens.len() == 2;
                    let selector = &selector;
                    async move {
                        let leader = selector.leader().await.expect("an answer").expect("a leader");
                        assert_eq!(leader.id, "victim");
                        if last { ControlFlow::Break(7) } else { ControlFlow::Continue(()) }
                    }
                })
                .await;
            assert_eq!(result.expect("a result"), 7);
            assert!(tokens[0] < tokens[1]);
            assert_eq!(children(&rig.other, &path).await.len(), 0);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_loses_leadership_is_dropped_and_begun_again() {
    let server = server().await;
    let client = client(&server).await;
    let selector = LeaderSelector::new(&client, "/e", "me");
    let mut terms = 0;
    let work = selector.run(|leadership| {
        terms += 1;
        let (term, server, client) = (terms, &server, &client);
        async move {
            if term == 1 {
                leadership.acknowledge().await.expect("acknowledged");
                server.expire(client.session().id).await.expect("expired");
                std::future::pending::<()>().await;
            }
            ControlFlow::Break(term)
        }
    });
    assert_eq!(soon(work).await.expect("a result"), 2);
    assert_eq!(selector.acknowledged().await.expect("an answer"), None);
    assert_eq!(selector.participants().await.expect("a list").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_and_a_selector_in_one_place_are_refused() {
    let server = server().await;
    let client = client(&server).await;
    let latch = LeaderLatch::join(&client, "/e", "latch");
    latch.lead().await.expect("leads");
    let selector = LeaderSelector::new(&client, "/e", "selector");
    let result = selector.run(async |_| ControlFlow::Break(())).await;
    assert!(matches!(result, Err(RecipeError::LayoutConflict { .. })));
    assert_eq!(children(&client, "/e").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_election_has_one_leader() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (first, second) =
        (SimpleElection::new(&one, "/master", "first"), SimpleElection::new(&two, "/master", "second"));
    let leadership = first.lead().await.expect("leads");
    assert!(second.try_lead().await.expect("an answer").is_none());
    let next = tokio::spawn({
        let second = second.clone();
        async move { second.run(async |guard| ControlFlow::Break(guard.token())).await }
    });
    server.expire(one.session().id).await.expect("expired");
    let token = soon(next).await.expect("no panic").expect("led");
    assert!(token > leadership.token());
    assert_eq!(soon(leadership.lost()).await, LossReason::SessionExpired);
    assert_eq!(second.leader().await.expect("an answer"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_selector_takes_its_acknowledgement_along() {
    let server = server().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let selector = LeaderSelector::new(&one, "/jobs/leader", "host-7");
    let (told, mut hear) = tokio::sync::watch::channel(false);
    let running = tokio::spawn(async move {
        let work = |leadership: Leadership| {
            let told = told.clone();
            async move {
                leadership.acknowledge().await.expect("acknowledged");
                told.send_replace(true);
                std::future::pending::<ControlFlow<()>>().await
            }
        };
        selector.run(work).await
    });
    soon(hear.wait_for(|told| *told)).await.expect("told");
    let watching = LeaderSelector::new(&other, "/jobs/leader", "watcher");
    assert_eq!(watching.acknowledged().await.expect("an answer").as_deref(), Some("host-7"));
    running.abort();
    soon(async {
        while !watching.participants().await.expect("an answer").is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // It goes before the place in the line does.
    other.sync("/").await.expect("synced");
    assert_eq!(watching.acknowledged().await.expect("an answer"), None);
}

#[tokio::test]
async fn a_term_is_given_up_once() {
    let server = server().await;
    let one = client(&server).await;
    let latch = LeaderLatch::join(&one, "/election", "a");
    let first = soon(latch.lead()).await.expect("leads");
    // On one thread nothing happens in between: the second call comes before the end of the term is known.
    latch.resign();
    latch.resign();
    assert_eq!(soon(first.lost()).await, LossReason::Released);
    let second = soon(latch.lead()).await.expect("leads again");
    assert!(second.token() > first.token());
    // The very next place in the line: no term has come and gone in between.
    assert!(second.path().ends_with("latch-0000000001"), "{}", second.path());
    for _ in 0..5 {
        one.sync("/").await.expect("synced");
    }
    assert_eq!(second.check(), Ok(()), "only the first term was given up");
    latch.leave().await.expect("left");
}
