//! The mutex: one holder at a time whatever breaks, nothing left behind, no herd.

use std::time::{Duration, Instant};

use zebu_client::SessionState;
use zebu_recipes::{
    Fenced, LeasePolicy, LockLayout, LossReason, Mutex, MutexGuard, Owner, Ownership, RecipeError,
    WhenSuspended,
};

use crate::fault::{Fault, Plan};
use crate::rig::{
    BREAKS, Register, Rig, at_every_step, children, client, client_of, faulty_client, server, soon,
    until_children,
};

const LAYOUTS: [LockLayout; 3] = [LockLayout::Curator, LockLayout::Kazoo, LockLayout::Go];

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_lock() {
    for layout in LAYOUTS {
        at_every_step(&BREAKS, &[""], async |rig: &Rig| {
            let guard = Mutex::new(&rig.victim, &rig.path).layout(layout).acquire().await.expect("the lock");
            assert_eq!(children(&rig.other, &rig.path).await.len(), 1);
            assert_eq!(guard.verify().await, Ok(()));
            guard.release().await.expect("released");
            assert_eq!(children(&rig.other, &rig.path).await, [""; 0]);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_waiter() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let first = Mutex::new(&rig.other, &rig.path).acquire().await.expect("the lock");
        let waiting = Mutex::new(&rig.victim, &rig.path);
        let waiter = tokio::spawn(async move { waiting.acquire().await });
        until_children(&rig.other, &rig.path, 2).await;
        let token = first.token();
        first.release().await.expect("released");
        let second = waiter.await.expect("no panic").expect("the lock");
        assert!(second.token() > token);
        assert_eq!(second.check(), Ok(()));
        second.release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_vain_attempt() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let first = Mutex::new(&rig.other, &rig.path).acquire().await.expect("the lock");
        let second = Mutex::new(&rig.victim, &rig.path);
        assert!(second.try_acquire().await.expect("an answer").is_none());
        assert_eq!(children(&rig.other, &rig.path).await.len(), 1, "only the holder's node");
        assert!(second.acquire_within(Duration::from_millis(30)).await.expect("an answer").is_none());
        until_children(&rig.other, &rig.path, 1).await;
        first.release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request() {
    at_every_step(&[Fault::Expire], &[""], async |rig: &Rig| {
        let register = Register::create(&rig.other, &format!("{}-register", rig.path)).await;
        let mutex = Mutex::new(&rig.victim, &rig.path);
        let guard = mutex.acquire().await.expect("the lock");
        let wrote = register.write(&guard).await;
        let verified = guard.verify().await;
        let lost = guard.check();
        let token = guard.token();
        guard.release().await.expect("released");
        until_children(&rig.other, &rig.path, 0).await;
        // The next holder has a greater token, and the first ownership has ended.
        let next = Mutex::new(&rig.other, &rig.path).acquire().await.expect("the lock");
        assert!(next.token() > token);
        assert!(register.write(&next).await);
        if verified.is_ok() {
            assert!(wrote || !rig.plan.has_fired());
        } else {
            // On a slow machine the lease ends before the client hears that the session has expired.
            let reasons = [LossReason::SessionExpired, LossReason::LeaseEnded];
            assert!(lost.is_err_and(|reason| reasons.contains(&reason)), "{lost:?}");
        }
        next.release().await.expect("released");
        register.check();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_may_be_dropped_at_every_request() {
    for layout in LAYOUTS {
        at_every_step(&[Fault::Hold], &[""], async |rig: &Rig| {
            let mutex = Mutex::new(&rig.victim, &rig.path).layout(layout);
            let whole = async {
                let guard = mutex.acquire().await.expect("the lock");
                guard.release().await.expect("released");
            };
            tokio::select! {
                () = whole => {}
                () = rig.plan.fires() => {}
            }
            // The request in flight reaches the server only now, after its future was dropped.
            rig.plan.go_on();
            rig.victim.sync("/").await.expect("the connection lives");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_leaves_the_line() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = Mutex::new(&client, "/lock");
    let first = mutex.acquire().await.expect("the lock");
    let second = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await }
    });
    until_children(&client, "/lock", 2).await;
    let third = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await }
    });
    until_children(&client, "/lock", 3).await;
    second.abort();
    until_children(&client, "/lock", 2).await;
    first.release().await.expect("released");
    let third = soon(third).await.expect("no panic").expect("the lock");
    drop(third);
    until_children(&client, "/lock", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_with_an_expired_session_is_notified_and_fenced_out() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let register = Register::create(&two, "/register").await;
    let guard = Mutex::new(&one, "/lock").acquire().await.expect("the lock");
    assert!(register.write(&guard).await);
    let cancellation = guard.cancellation();
    server.expire(one.session().id).await.expect("expired");
    let next = Mutex::new(&two, "/lock").acquire().await.expect("the lock");
    assert!(next.token() > guard.token());
    assert!(register.write(&next).await);
    // It may not know yet; the ensemble does.
    assert!(!register.write(&guard).await);
    assert_eq!(soon(guard.lost()).await, LossReason::SessionExpired);
    soon(cancellation.cancelled()).await;
    assert_eq!(guard.check(), Err(LossReason::SessionExpired));
    assert_eq!(guard.lease_deadline(), None);
    guard.release().await.expect("nothing to release is no error");
    assert_eq!(children(&two, "/lock").await.len(), 1, "the next holder's node stays");
    next.release().await.expect("released");
    assert_eq!(register.check(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_holder_loses_the_lock_before_the_next_one_acquires_it() {
    let server = server().await;
    let one = client_of(&server, Duration::from_secs(2)).await;
    let two = client(&server).await;
    let guard = Mutex::new(&one, "/lock").acquire().await.expect("the lock");
    let deadline = guard.lease_deadline().expect("held");
    assert!(deadline > Instant::now());
    server.pause(one.session().id).await;
    let lost = guard.lost();
    let told = tokio::spawn(async move { (lost.await, Instant::now()) });
    let next = soon(Mutex::new(&two, "/lock").acquire()).await.expect("the lock");
    let began = Instant::now();
    let (reason, ended) = soon(told).await.expect("no panic");
    assert!(ended < began, "the first holder was told after the second one had begun");
    assert_eq!(reason, LossReason::LeaseEnded);
    assert_eq!(guard.check(), Err(LossReason::LeaseEnded));
    assert!(next.token() > guard.token());
    server.resume(one.session().id).await;
    // A lost ownership never returns.
    assert_eq!(guard.check(), Err(LossReason::LeaseEnded));
    next.release().await.expect("released");
    drop(guard);
    until_children(&two, "/lock", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_terms_end_with_the_connection() {
    let server = server().await;
    let one = client(&server).await;
    let terms = LeasePolicy::default().when_suspended(WhenSuspended::Lose);
    let strict = Mutex::new(&one, "/lock").lease_policy(terms).acquire().await.expect("the lock");
    let relaxed = Mutex::new(&one, "/other").acquire().await.expect("the lock");
    server.cut(one.session().id);
    assert_eq!(soon(strict.lost()).await, LossReason::Suspended);
    soon(one.states().wait_for(|status| status.state == SessionState::Reconnected)).await.expect("back");
    assert_eq!(relaxed.verify().await, Ok(()));
    // The session lives, and so does the node, until the guard goes.
    assert_eq!(children(&one, "/lock").await.len(), 1);
    strict.release().await.expect("released");
    assert_eq!(children(&one, "/lock").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_server_is_survived_by_holder_and_waiter() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let holder = Mutex::new(&one, "/lock").acquire().await.expect("the lock");
    let mutex = Mutex::new(&two, "/lock");
    let waiter = tokio::spawn(async move { mutex.acquire().await });
    until_children(&one, "/lock", 2).await;
    server.kill().await.expect("killed");
    assert_eq!(holder.check(), Ok(()), "the lease is longer than this");
    let release = tokio::spawn(holder.release());
    server.restart().await.expect("started again");
    soon(release).await.expect("no panic").expect("released");
    let next = soon(waiter).await.expect("no panic").expect("the lock");
    assert_eq!(next.verify().await, Ok(()));
    next.release().await.expect("released");
    assert_eq!(children(&one, "/lock").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_deleted_by_hand_ends_the_hold_and_a_waiter_starts_over() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let holder = Mutex::new(&one, "/lock").acquire().await.expect("the lock");
    let mutex = Mutex::new(&two, "/lock");
    let waiter = tokio::spawn(async move { mutex.acquire().await });
    until_children(&one, "/lock", 2).await;
    let waiting = children(&one, "/lock").await.into_iter().find(|name| !holder.path().ends_with(name));
    one.delete(&format!("/lock/{}", waiting.expect("a waiter"))).await.expect("deleted");
    one.delete(holder.path()).await.expect("deleted");
    assert_eq!(soon(holder.lost()).await, LossReason::NodeDeleted);
    assert_eq!(holder.verify().await, Err(LossReason::NodeDeleted));
    let next = soon(waiter).await.expect("no panic").expect("the lock");
    assert_eq!(next.verify().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_one_of_two_hundred() {
    const WAITERS: usize = 220;
    let server = server().await;
    let plan = Plan::new(Fault::CutBefore);
    let crowd = faulty_client(&server, &plan).await;
    let other = client(&server).await;
    let first = Mutex::new(&other, "/lock").acquire().await.expect("the lock");
    let (acquired, mut turns) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..WAITERS {
        let (mutex, acquired) = (Mutex::new(&crowd, "/lock"), acquired.clone());
        tokio::spawn(async move { acquired.send((number, mutex.acquire().await.expect("the lock"))) });
        if number % 20 == 0 {
            until_children(&other, "/lock", number + 2).await;
        }
    }
    until_children(&other, "/lock", WAITERS + 1).await;
    // Until all of them have looked and watch: one create, one list and one read each.
    soon(async {
        while plan.requests() < WAITERS * 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let mut last = first.token();
    first.release().await.expect("released");
    for _ in 0..WAITERS {
        let (_, guard) = soon(turns.recv()).await.expect("a holder");
        assert!(guard.token() > last, "in the order of coming");
        last = guard.token();
        assert_eq!(guard.verify().await, Ok(()));
        assert!(turns.try_recv().is_err(), "one at a time");
        plan.arm(usize::MAX);
        guard.release().await.expect("released");
        let requests = plan.requests();
        // The delete; of the next one its list and the watch over its own node. On a busy machine the watch
        // over the node that goes may still be on its way, and be taken back. A herd would be hundreds.
        assert!(requests <= 6, "{requests} requests for one release");
    }
    until_children(&other, "/lock", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn layouts_that_do_not_count_each_other_are_refused() {
    let server = server().await;
    let client = client(&server).await;
    let kazoo = Mutex::new(&client, "/lock").layout(LockLayout::Kazoo).acquire().await.expect("the lock");
    for layout in [LockLayout::Curator, LockLayout::Go] {
        let refused = Mutex::new(&client, "/lock").layout(layout).acquire().await;
        assert!(matches!(refused, Err(RecipeError::LayoutConflict { .. })), "{refused:?}");
    }
    assert_eq!(children(&client, "/lock").await.len(), 1, "the refused have left");
    kazoo.release().await.expect("released");
    // These two do.
    let go = Mutex::new(&client, "/lock").layout(LockLayout::Go).acquire().await.expect("the lock");
    assert!(Mutex::new(&client, "/lock").try_acquire().await.expect("an answer").is_none());
    go.release().await.expect("released");
    // A node that is no contender is ignored.
    client.create("/lock/hello").await.expect("created");
    let guard = Mutex::new(&client, "/lock").try_acquire().await.expect("an answer").expect("the lock");
    guard.release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_does_not_wait_for_itself() {
    let server = server().await;
    let client = client(&server).await;
    let (mutex, me, you) = (Mutex::new(&client, "/lock"), Owner::new(), Owner::new());
    let outer = mutex.acquire_as(&me).await.expect("the lock");
    let inner = mutex.acquire_as(&me).await.expect("the lock");
    let third = inner.reenter();
    assert_eq!((outer.token(), outer.path()), (third.token(), third.path()));
    outer.release().await.expect("released");
    drop(third);
    assert_eq!(children(&client, "/lock").await.len(), 1);
    let waiting = mutex.clone();
    let waiter = tokio::spawn(async move { waiting.acquire_as(&you).await });
    until_children(&client, "/lock", 2).await;
    inner.release().await.expect("released");
    let yours = soon(waiter).await.expect("no panic").expect("the lock");
    // A hold that is lost is not entered again.
    server.expire(client.session().id).await.expect("expired");
    assert_eq!(soon(yours.lost()).await, LossReason::SessionExpired);
    let fresh = soon(mutex.acquire_as(&me)).await.expect("the lock");
    assert!(fresh.token() > yours.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_are_listed_in_order_and_can_be_asked_to_leave() {
    let server = server().await;
    let client = client(&server).await;
    let holder = Mutex::new(&client, "/lock").identity("a").acquire().await.expect("the lock");
    let second = Mutex::new(&client, "/lock").identity("b");
    let waiter = tokio::spawn(async move { second.acquire().await });
    until_children(&client, "/lock", 2).await;
    let mutex = Mutex::new(&client, "/lock");
    let contenders = mutex.contenders().await.expect("a list");
    let names: Vec<_> = contenders.iter().map(|one| &one.identity[..]).collect();
    assert_eq!(names, [&b"a"[..], b"b"]);
    assert_eq!(contenders[0].path, holder.path());
    mutex.request_revocation(&contenders[0]).await.expect("asked");
    soon(holder.revoked()).await;
    assert_eq!(holder.check(), Ok(()), "it is a request");
    holder.release().await.expect("released");
    soon(waiter).await.expect("no panic").expect("the lock").release().await.expect("released");
    mutex.request_revocation(&contenders[0]).await.expect("one that has gone is no error");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_a_scope_ends_with_the_lock() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = Mutex::new(&client, "/lock");
    assert_eq!(mutex.scope(async |_| 7).await.expect("done"), 7);
    assert_eq!(children(&client, "/lock").await.len(), 0);
    let session = client.session().id;
    let stuck = mutex.scope(async |_| {
        server.expire(session).await.expect("expired");
        std::future::pending::<()>().await;
    });
    match soon(stuck).await {
        Err(RecipeError::Lost { reason, .. }) => assert_eq!(reason, LossReason::SessionExpired),
        other => panic!("{other:?}"),
    }
    client.clone().close().await.expect("closed");
    assert!(
        matches!(soon(mutex.acquire()).await, Err(RecipeError::Client(_))),
        "a closed client is an error"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_a_scope_may_borrow_and_be_spawned() {
    let server = server().await;
    let client = client(&server).await;
    let mut tasks = Vec::new();
    for number in 0..3_i64 {
        let mutex = Mutex::new(&client, "/lock");
        let (other, mut seen) = (client.clone(), Vec::new());
        tasks.push(tokio::spawn(async move {
            let work = async |guard: &MutexGuard| {
                other.exists(guard.path()).await.expect("an answer").expect("its node");
                seen.push(guard.token());
                number
            };
            let done = mutex.scope(work).await;
            (done.expect("done"), seen.len())
        }));
    }
    for (number, task) in (0..).zip(tasks) {
        assert_eq!(soon(task).await.expect("no panic"), (number, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_client_ends_what_it_holds() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = Mutex::new(&one, "/lock").acquire().await.expect("the lock");
    one.close().await.expect("closed");
    assert_eq!(soon(guard.lost()).await, LossReason::Closed);
    assert_eq!(children(&two, "/lock").await.len(), 0);
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_can_be_bound_to_a_lock() {
    let server = server().await;
    let client = client(&server).await;
    client.create("/data").await.expect("created");
    let guard = Mutex::new(&client, "/lock").acquire().await.expect("the lock");
    let holding = guard.ownership_state().clone();
    let mut transaction = client.transaction();
    transaction.set("/data", "1", zebu_client::Version::Any);
    let condition = guard.fence(&mut transaction);
    let mut late = client.transaction();
    late.set("/data", "2", zebu_client::Version::Any);
    guard.fence(&mut late);
    transaction.await.expect("held");
    guard.release().await.expect("released");
    let error = late.await.expect_err("released");
    assert!(zebu_recipes::is_fenced_out(&error, condition.index()));
    assert_eq!(holding.check(), Err(LossReason::Released));
    assert_eq!(&client.get("/data").await.expect("there").data[..], b"1");
}
