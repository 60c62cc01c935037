//! Barriers: no client passes too early or waits without an end, and no node is left.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zebu_client::{Client, CreateSpec, Version};
use zebu_recipes::{Barrier, DoubleBarrier, LossReason, Ownership};

use crate::fault::{Fault, Plan};
use crate::rig::{BREAKS, Rig, TIME_LIMIT, at_every_step, children, client, faulty_client, server, soon};

fn members(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).expect("not zero")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_or_session_may_end_at_every_request_of_a_barrier() {
    at_every_step(
        &[Fault::CutBefore, Fault::CutAfter, Fault::Kill, Fault::Expire],
        &[""],
        async |rig: &Rig| {
            let path = format!("{}/barrier", rig.path);
            let barrier = Barrier::new(&rig.victim, &path);
            barrier.set().await.expect("raised");
            barrier.set().await.expect("it stands already");
            assert!(!barrier.wait_within(Duration::from_millis(5)).await.expect("an answer"));
            let waiting = barrier.clone();
            let waiter = tokio::spawn(async move { waiting.wait().await });
            assert!(Barrier::new(&rig.other, &path).is_set().await.expect("an answer"));
            barrier.remove().await.expect("lowered");
            waiter.await.expect("no panic").expect("passed");
            barrier.remove().await.expect("it does not stand");
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_waiters_pass_together() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    Barrier::new(&one, "/barrier").set().await.expect("raised");
    let mut waiters = Vec::new();
    for number in 0..20 {
        let barrier = Barrier::new(if number % 2 == 0 { &one } else { &two }, "/barrier");
        waiters.push(tokio::spawn(async move { barrier.wait().await }));
    }
    server.kill().await.expect("killed");
    server.restart().await.expect("started again");
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    Barrier::new(&two, "/barrier").remove().await.expect("lowered");
    for waiter in waiters {
        soon(waiter).await.expect("no panic").expect("passed");
    }
}

/// Enters and leaves in rounds. A round begins only when all members are in it and all have left the last.
async fn rounds(client: &Client, path: &str, count: u32, rounds: usize, inside: &AtomicUsize) {
    for round in 0..rounds {
        let entered = DoubleBarrier::new(client, path, members(count)).enter().await.expect("entered");
        // Each member counts once per round; the next round cannot have begun.
        let before = inside.fetch_add(1, Ordering::SeqCst);
        assert_eq!(before / count as usize, round, "in round {round}");
        tokio::task::yield_now().await;
        entered.leave().await.expect("left");
        assert!(inside.load(Ordering::SeqCst) >= (round + 1) * count as usize, "all have been in");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_begin_and_end_together_round_after_round() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for number in 0..5 {
        let (client, inside) = (clients[number % 2].clone(), inside.clone());
        tasks.push(tokio::spawn(async move { rounds(&client, "/round", 5, 6, &inside).await }));
    }
    for task in tasks {
        soon(task).await.expect("no panic");
    }
    assert_eq!(children(&clients[0], "/round").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_member() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let inside = AtomicUsize::new(0);
        tokio::join!(
            rounds(&rig.victim, &rig.path, 2, 2, &inside),
            rounds(&rig.other, &rig.path, 2, 2, &inside)
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_member() {
    at_every_step(&[Fault::Expire], &[""], async |rig: &Rig| {
        // One member only: a lost session breaks no other member's round.
        let barrier = DoubleBarrier::new(&rig.victim, &rig.path, members(1));
        for _ in 0..2 {
            let entered = barrier.enter().await.expect("entered");
            entered.leave().await.expect("left");
        }
        // What a round that ended so has left behind does not let the next one through.
        let next = DoubleBarrier::new(&rig.other, &rig.path, members(2));
        assert!(next.enter_within(Duration::from_millis(20)).await.expect("an answer").is_none());
        let (one, two) = tokio::join!(next.enter(), next.enter());
        let (one, two) = (one.expect("entered"), two.expect("entered"));
        let (one, two) = tokio::join!(one.leave(), two.leave());
        one.and(two).expect("left");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_may_be_dropped_at_every_request() {
    at_every_step(&[Fault::Hold], &[""], async |rig: &Rig| {
        let barrier = DoubleBarrier::new(&rig.victim, &rig.path, members(1));
        let whole = async { barrier.enter().await.expect("entered").leave().await.expect("left") };
        tokio::select! {
            () = whole => {}
            () = rig.plan.fires() => {}
        }
        rig.plan.go_on();
        rig.victim.sync("/").await.expect("the connection lives");
        soon(async {
            while children(&rig.other, &rig.path).await.iter().any(|name| name != "ready") {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        // A whole round cleans up what the broken one has left.
        let next = DoubleBarrier::new(&rig.other, &rig.path, members(1));
        next.enter().await.expect("entered").leave().await.expect("left");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_does_not_wait_is_no_member() {
    let server = server().await;
    let client = client(&server).await;
    let barrier = DoubleBarrier::new(&client, "/round", members(2));
    assert!(barrier.enter_within(Duration::from_millis(20)).await.expect("an answer").is_none());
    // A create that was in flight at the deadline is undone in the background.
    soon(async {
        while !children(&client, "/round").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let (one, two) = tokio::join!(barrier.enter(), barrier.enter());
    let (one, two) = (one.expect("entered"), two.expect("entered"));
    assert!(!one.leave_within(Duration::from_millis(20)).await.expect("an answer"), "the other works");
    assert!(two.leave_within(Duration::from_secs(30)).await.expect("an answer"));
    assert_eq!(children(&client, "/round").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_node_of_a_crashed_round_does_not_count() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    // The old round: a flag, and a member whose session has not timed out yet.
    client_leftovers(&one).await;
    let barrier = DoubleBarrier::new(&two, "/round", members(3));
    assert!(barrier.enter_within(Duration::from_millis(30)).await.expect("an answer").is_none());
    server.expire(one.session().id).await.expect("expired");
    assert!(barrier.enter_within(Duration::from_millis(30)).await.expect("an answer").is_none());
    let (a, b, c) = tokio::join!(barrier.enter(), barrier.enter(), barrier.enter());
    let (a, b, c) = (a.expect("entered"), b.expect("entered"), c.expect("entered"));
    let left = tokio::join!(a.leave(), b.leave(), c.leave());
    left.0.and(left.1).and(left.2).expect("left");
    assert_eq!(children(&two, "/round").await.len(), 0);
}

async fn client_leftovers(client: &Client) {
    client.ensure_path("/round").await.expect("created");
    client.create("/round/old").ephemeral().await.expect("created");
    client.create("/round/ready").await.expect("created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_dies_is_not_waited_for() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (first, second) =
        (DoubleBarrier::new(&one, "/round", members(2)), DoubleBarrier::new(&two, "/round", members(2)));
    let (left, right) = tokio::join!(first.enter(), second.enter());
    let (left, right) = (left.expect("entered"), right.expect("entered"));
    let leaving = tokio::spawn(right.leave());
    server.expire(one.session().id).await.expect("expired");
    soon(leaving).await.expect("no panic").expect("left");
    assert_eq!(soon(left.lost()).await, LossReason::SessionExpired);
    left.leave().await.expect("left");
    // If the dead one was to leave last, the flag stays, for the next round to remove.
    assert!(children(&two, "/round").await.iter().all(|name| name == "ready"));
    let (left, right) = tokio::join!(first.enter(), second.enter());
    let (left, right) = (left.expect("entered"), right.expect("entered"));
    let left = tokio::join!(left.leave(), right.leave());
    left.0.and(left.1).expect("left");
    assert_eq!(children(&two, "/round").await.len(), 0);
}

/// All that a member of Kazoo does in a round, faster than the other member looks.
async fn pass_as_kazoo_does(kazoo: &Client, path: &str) {
    let own = format!("{path}/ffffffffffffffffffffffffffffffff");
    let ready = format!("{path}/ready");
    let mut transaction = kazoo.transaction();
    transaction.create(&own, CreateSpec::new());
    transaction.create(&ready, CreateSpec::new());
    transaction.delete(&ready, Version::Any);
    transaction.delete(&own, Version::Any);
    transaction.await.expect("passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_member_passes_although_kazoo_has_removed_the_flag_again() {
    let server = server().await;
    let (one, kazoo) = (client(&server).await, client(&server).await);
    let barrier = DoubleBarrier::new(&one, "/round", members(2));
    let entering = tokio::spawn(async move { barrier.enter().await });
    soon(async {
        // It is a member and watches the flag.
        loop {
            let watched = zebu_testing::four_letter::ask(server.address(), "wchp", TIME_LIMIT);
            if watched.expect("an answer").contains("/round/ready") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    pass_as_kazoo_does(&kazoo, "/round").await;
    let entered = soon(entering).await.expect("no panic").expect("entered");
    soon(entered.leave()).await.expect("left");
    assert_eq!(children(&kazoo, "/round").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_has_seen_all_passes_although_kazoo_is_gone_before_it_says_so() {
    let server = server().await;
    let plan = Plan::new(Fault::HoldTransaction);
    let (slow, kazoo) = (faulty_client(&server, &plan).await, client(&server).await);
    kazoo.ensure_path("/round").await.expect("created");
    let own = "/round/ffffffffffffffffffffffffffffffff";
    kazoo.create(own).ephemeral().await.expect("created");
    // The second transaction makes the flag; the first one made the member.
    plan.arm(2);
    let barrier = DoubleBarrier::new(&slow, "/round", members(2));
    let entering = tokio::spawn(async move { barrier.enter().await });
    soon(plan.fires()).await;
    kazoo.create("/round/ready").await.expect("created");
    plan.go_on();
    kazoo.delete("/round/ready").await.expect("deleted");
    kazoo.delete(own).await.expect("deleted");
    let entered = soon(entering).await.expect("no panic").expect("entered");
    soon(entered.leave()).await.expect("left");
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_within_a_time_does_not_wait_for_a_server() {
    let server = server().await;
    let one = client(&server).await;
    let barrier = DoubleBarrier::new(&one, "/round", members(2));
    let (left, right) = tokio::join!(barrier.enter(), barrier.enter());
    let (left, _right) = (left.expect("entered"), right.expect("entered"));
    server.kill().await.expect("killed");
    // TIME_LIMIT of the test is the bound: without a server it would wait for ever.
    assert!(!soon(left.leave_within(Duration::from_millis(20))).await.expect("an answer"));
}
