//! Read-write locks, semaphores and several locks at once.

use std::time::{Duration, Instant};

use zebu_client::{Acl, Client, Permissions};
use zebu_recipes::{
    Fenced, LossReason, Mutex, Ownership, RecipeError, RevocationMessage, Revoked, RwLock, RwLockLayout,
    Semaphore, SemaphoreLayout, SemaphoreMutex, acquire_all, acquire_all_within,
};

use crate::fault::Fault;
use crate::rig::{BREAKS, Rig, at_every_step, children, client, server, soon, until_children};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_downgrade() {
    for layout in [RwLockLayout::Curator, RwLockLayout::Kazoo] {
        at_every_step(&BREAKS, &[""], async |rig: &Rig| {
            let lock = RwLock::new(&rig.victim, &rig.path).layout(layout);
            let writer = lock.write().await.expect("the lock");
            let rival = RwLock::new(&rig.other, &rig.path).layout(layout);
            let waiting = tokio::spawn(async move { rival.write().await });
            until_children(&rig.other, &rig.path, 2).await;
            let token = writer.token();
            let reader = writer.downgrade().await.expect("a reader");
            assert_eq!(reader.token(), token, "less than that of the writer behind it");
            assert_eq!(reader.verify().await, Ok(()));
            assert!(!waiting.is_finished(), "nobody gets in between");
            reader.release().await.expect("released");
            let next = waiting.await.expect("no panic").expect("the lock");
            assert!(next.token() > token);
            next.release().await.expect("released");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_downgrade() {
    at_every_step(&[Fault::Expire], &[""], async |rig: &Rig| {
        let lock = RwLock::new(&rig.victim, &rig.path);
        let writer = lock.write().await.expect("the lock");
        match writer.downgrade().await {
            Ok(reader) => {
                if reader.verify().await.is_err() {
                    assert!(rig.plan.has_fired());
                }
                reader.release().await.expect("released");
            }
            Err(RecipeError::Lost { reason, .. }) => {
                assert!(matches!(reason, LossReason::SessionExpired | LossReason::NodeDeleted), "{reason}");
            }
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_may_be_dropped_at_every_request() {
    at_every_step(&[Fault::Hold], &[""], async |rig: &Rig| {
        let lock = RwLock::new(&rig.victim, &rig.path);
        let whole = async {
            let writer = lock.write().await.expect("the lock");
            writer.downgrade().await.expect("a reader").release().await.expect("released");
        };
        tokio::select! {
            () = whole => {}
            () = rig.plan.fires() => {}
        }
        rig.plan.go_on();
        rig.victim.sync("/").await.expect("the connection lives");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_do_not_overtake_writers() {
    let server = server().await;
    let client = client(&server).await;
    for layout in [RwLockLayout::Curator, RwLockLayout::Kazoo] {
        let lock = RwLock::new(&client, &format!("/{layout:?}")).layout(layout);
        let one = lock.read().await.expect("read");
        let two = lock.try_read().await.expect("an answer").expect("read");
        assert!(lock.try_write().await.expect("an answer").is_none());
        assert!(lock.write_within(Duration::from_millis(20)).await.expect("an answer").is_none());
        let writing = lock.clone();
        let writer = tokio::spawn(async move { writing.write().await });
        until_children(&client, &format!("/{layout:?}"), 3).await;
        assert!(lock.try_read().await.expect("an answer").is_none(), "writers do not starve");
        assert!(lock.read_within(Duration::from_millis(20)).await.expect("an answer").is_none());
        one.release().await.expect("released");
        assert!(!writer.is_finished());
        two.release().await.expect("released");
        let writer = soon(writer).await.expect("no panic").expect("write");
        assert_eq!(lock.contenders().await.expect("a list").len(), 1);
        writer.release().await.expect("released");
        assert_eq!(children(&client, &format!("/{layout:?}")).await.len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_of_a_lost_lock_fails() {
    let server = server().await;
    let client = client(&server).await;
    let writer = RwLock::new(&client, "/other").write().await.expect("write");
    let reader = writer.downgrade().await.expect("a reader");
    reader.transaction().await.expect("a transaction can be bound to the reader's node");
    let writer = RwLock::new(&client, "/lock").write().await.expect("write");
    server.expire(client.session().id).await.expect("expired");
    soon(writer.lost()).await;
    match writer.downgrade().await {
        Err(RecipeError::Lost { reason, .. }) => assert_eq!(reason, LossReason::SessionExpired),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_semaphore() {
    at_every_step(&BREAKS, &["/leases", "/locks"], async |rig: &Rig| {
        let other = Semaphore::new(&rig.other, &rig.path, 2);
        let first = other.acquire().await.expect("a permit");
        let semaphore = Semaphore::new(&rig.victim, &rig.path, 2);
        let second = semaphore.acquire().await.expect("a permit");
        assert_eq!(other.permits_in_use().await.expect("a number"), 2);
        assert!(semaphore.try_acquire().await.expect("an answer").is_none());
        assert_eq!(other.permits_in_use().await.expect("a number"), 2);
        let waiting = tokio::spawn(async move { semaphore.acquire().await });
        until_children(&rig.other, &format!("{}/leases", rig.path), 3).await;
        first.release().await.expect("released");
        let third = waiting.await.expect("no panic").expect("a permit");
        assert_eq!((second.verify().await, third.verify().await), (Ok(()), Ok(())));
        second.release().await.expect("released");
        third.release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_semaphore() {
    at_every_step(&[Fault::Expire], &["/leases", "/locks"], async |rig: &Rig| {
        let semaphore = Semaphore::new(&rig.victim, &rig.path, 1);
        let permit = semaphore.acquire().await.expect("a permit");
        let good = permit.verify().await;
        assert!(good.is_ok() || rig.plan.has_fired());
        permit.release().await.expect("released");
        let other = Semaphore::new(&rig.other, &rig.path, 1).acquire().await.expect("a permit");
        other.release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_permit_may_be_dropped_at_every_request() {
    at_every_step(&[Fault::Hold], &["/leases", "/locks"], async |rig: &Rig| {
        let semaphore = Semaphore::new(&rig.victim, &rig.path, 2);
        tokio::select! {
            permits = semaphore.acquire_many(2) => drop(permits.expect("permits")),
            () = rig.plan.fires() => {}
        }
        rig.plan.go_on();
        rig.victim.sync("/").await.expect("the connection lives");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_or_session_may_end_at_every_request_of_a_semaphore_in_kazoos_layout() {
    let faults = [Fault::CutBefore, Fault::CutAfter, Fault::Kill, Fault::Expire];
    at_every_step(&faults, &["", "-__lock__"], async |rig: &Rig| {
        let layout = SemaphoreLayout::Kazoo;
        let semaphore = Semaphore::new(&rig.victim, &rig.path, 1).layout(layout);
        let permit = semaphore.acquire().await.expect("a permit");
        let good = permit.verify().await;
        assert!(good.is_ok() || rig.plan.has_fired());
        permit.release().await.expect("released");
        let other = Semaphore::new(&rig.other, &rig.path, 1).layout(layout).acquire().await;
        let other = other.expect("a permit");
        assert!(semaphore.try_acquire().await.expect("an answer").is_none());
        assert_eq!(&rig.other.get(&rig.path).await.expect("a node").data[..], b"1");
        other.release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn semaphores_of_two_layouts_and_two_sizes_are_refused() {
    let server = server().await;
    let client = client(&server).await;
    let (curator, kazoo) = (SemaphoreLayout::Curator, SemaphoreLayout::Kazoo);
    let of = |path: &str, permits, layout| Semaphore::new(&client, path, permits).layout(layout);
    let _one = of("/a", 2, curator).acquire().await.expect("a permit");
    let refused = of("/a", 2, kazoo).acquire().await;
    assert!(matches!(refused, Err(RecipeError::LayoutConflict { .. })), "{refused:?}");
    let _two = of("/b", 2, kazoo).acquire().await.expect("a permit");
    let refused = of("/b", 2, curator).try_acquire().await;
    assert!(matches!(refused, Err(RecipeError::LayoutConflict { .. })), "{refused:?}");
    let refused = of("/b", 3, kazoo).acquire().await;
    assert!(matches!(refused, Err(RecipeError::Invalid(_))), "{refused:?}");
    let _three = of("/b", 2, kazoo).acquire().await.expect("a permit");
    assert!(of("/b", 2, kazoo).try_acquire().await.expect("an answer").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_asked_to_leave_and_then_made_to() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let (mine, theirs) = (RwLock::new(&rig.victim, &rig.path), RwLock::new(&rig.other, &rig.path));
        let polite = theirs.read().await.expect("the lock");
        let contenders = mine.contenders().await.expect("a list");
        let consents = async {
            polite.revoked().await;
            assert_eq!(polite.check(), Ok(()), "it is a request");
            polite.release().await.expect("released");
        };
        let patience = Duration::from_secs(30);
        let (revoked, ()) =
            tokio::join!(mine.revoke(&contenders[0], RevocationMessage::Unlock, patience), consents);
        assert_eq!(revoked.expect("an answer"), Revoked::Consented);
        let stubborn = theirs.write().await.expect("the lock");
        let contenders = mine.contenders().await.expect("a list");
        let grace = Duration::from_millis(20);
        let revoked = mine.revoke(&contenders[0], RevocationMessage::Curator, grace).await;
        assert_eq!(revoked.expect("an answer"), Revoked::Forced);
        assert_eq!(stubborn.lost().await, LossReason::NodeDeleted);
        mine.write().await.expect("the lock").release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_bounded_in_number_and_time() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::new(&client, "/limit", 2);
    assert!(matches!(semaphore.acquire_many(3).await, Err(RecipeError::Invalid(_))));
    client.ensure_path("/limit/leases/hello").await.expect("created");
    let both = semaphore.acquire_many(2).await.expect("permits");
    let patience = Duration::from_millis(30);
    assert!(semaphore.acquire_within(patience).await.expect("an answer").is_none());
    assert!(semaphore.acquire_many_within(2, patience).await.expect("an answer").is_none());
    assert_eq!(semaphore.permits_in_use().await.expect("a number"), 2);
    assert_eq!(children(&client, "/limit/locks").await.len(), 0);
    drop(both);
    until_children(&client, "/limit/leases", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_mutex_is_not_reentrant() {
    let server = server().await;
    let client = client(&server).await;
    let mutex = SemaphoreMutex::new(&client, "/lock").identity("me");
    let guard = mutex.acquire().await.expect("the lock");
    assert_eq!(&client.get(guard.path()).await.expect("a node").data[..], b"me");
    assert!(mutex.acquire_within(Duration::from_millis(20)).await.expect("an answer").is_none());
    let token = guard.token();
    guard.release().await.expect("released");
    let again = mutex.try_acquire().await.expect("an answer").expect("the lock");
    assert!(again.token() > token);
    again.release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_are_taken_in_one_order() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let mut tasks = Vec::new();
    for number in 0..6 {
        let client = if number % 2 == 0 { &one } else { &two };
        let (a, b) = (Mutex::new(client, "/a"), Mutex::new(client, "/b"));
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                // In opposite orders: one after the other, this would end in a circle.
                let locks = if number % 2 == 0 { [&a, &b] } else { [&b, &a] };
                let guard = acquire_all(&locks).await.expect("both");
                assert_eq!(guard.guards()[0].path().split('/').nth(1), Some("a"));
                assert_eq!(guard.check(), Ok(()));
                guard.release().await.expect("released");
            }
        }));
    }
    for task in tasks {
        soon(task).await.expect("no panic");
    }
    let a = Mutex::new(&one, "/a");
    assert!(matches!(acquire_all(&[&a, &a]).await, Err(RecipeError::Invalid(_))));
    let b = Mutex::new(&one, "/b").acquire().await.expect("the lock");
    let both = [&a, &Mutex::new(&one, "/b")];
    assert!(acquire_all_within(&both, Duration::from_millis(30)).await.expect("an answer").is_none());
    assert_eq!(children(&one, "/a").await.len(), 0, "what was taken is given back");
    b.release().await.expect("released");
    let guard = acquire_all(&both).await.expect("both");
    let mut transaction = one.transaction();
    guard.fence(&mut transaction);
    assert_eq!(transaction.len(), 2);
    one.delete(guard.guards()[1].path()).await.expect("deleted");
    assert_eq!(soon(guard.lost()).await, LossReason::NodeDeleted);
    assert!(transaction.await.is_err());
    guard.release().await.expect("released");
    until_children(&one, "/a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_for_several_locks() {
    at_every_step(&BREAKS, &["/a", "/b"], async |rig: &Rig| {
        let (a, b) = (format!("{}/a", rig.path), format!("{}/b", rig.path));
        let (a, b) = (Mutex::new(&rig.victim, &a), Mutex::new(&rig.victim, &b));
        acquire_all(&[&b, &a]).await.expect("both").release().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_named_through_two_namespaces_is_one_lock() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    one.ensure_path("/accounts").await.expect("created");
    let inner = one.namespaced("/accounts").expect("a namespace");
    let (long, short) = (Mutex::new(&one, "/accounts/7"), Mutex::new(&inner, "/7"));
    let twice = soon(acquire_all(&[&long, &short])).await;
    assert!(matches!(twice, Err(RecipeError::Invalid(_))), "it would wait for itself: {twice:?}");
    // Both go in the same order, so that they never wait for each other in a circle.
    let mixed = tokio::spawn(async move {
        let (three, seven) = (Mutex::new(&inner, "/3"), Mutex::new(&one, "/accounts/7"));
        for _ in 0..50 {
            let both = acquire_all(&[&three, &seven]).await.expect("both");
            assert!(both.guards()[0].path().starts_with("/3"));
            both.release().await.expect("released");
        }
    });
    let plain = tokio::spawn(async move {
        let (three, seven) = (Mutex::new(&two, "/accounts/3"), Mutex::new(&two, "/accounts/7"));
        for _ in 0..50 {
            acquire_all(&[&seven, &three]).await.expect("both").release().await.expect("released");
        }
    });
    soon(mixed).await.expect("no panic");
    soon(plain).await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_wait_for_many_permits_ends_without_a_server() {
    let server = server().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let all = Semaphore::new(&other, "/limit", 20);
    let _held = all.acquire().await.expect("a permit");
    let mine = Semaphore::new(&one, "/limit", 20);
    let begun = Instant::now();
    let waiting = tokio::spawn(async move { mine.acquire_many_within(20, Duration::from_secs(2)).await });
    // The leases are there; then the server goes.
    soon(async {
        while all.permits_in_use().await.expect("an answer") < 21 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    server.kill().await.expect("killed");
    assert!(soon(waiting).await.expect("no panic").expect("an answer").is_none());
    // Two seconds and one more to leave, not one for each of twenty leases.
    assert!(begun.elapsed() < Duration::from_secs(15), "it took {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_wait_for_several_locks_ends_without_a_server() {
    let server = server().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let _held = Mutex::new(&other, "/locks/b").acquire().await.expect("the lock");
    let (a, b) = (Mutex::new(&one, "/locks/a"), Mutex::new(&one, "/locks/b"));
    let waiting = tokio::spawn(async move { acquire_all_within(&[&a, &b], Duration::from_secs(1)).await });
    until_children(&other, "/locks/b", 2).await;
    server.kill().await.expect("killed");
    assert!(soon(waiting).await.expect("no panic").expect("an answer").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contender_that_may_not_be_read_is_listed_without_its_identity() {
    let server = server().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let guard = Mutex::new(&one, "/lock").identity("host-7").acquire().await.expect("the lock");
    one.set_acl(guard.path(), [Acl::new(Permissions::WRITE, "world", "anyone")]).await.expect("closed");
    let contenders = Mutex::new(&other, "/lock").contenders().await.expect("an answer");
    assert_eq!(contenders.len(), 1);
    assert_eq!((&*contenders[0].path, contenders[0].identity.len()), (guard.path(), 0));
    // A contender that may not read the node still waits for it.
    let waiting = tokio::spawn(async move { Mutex::new(&other, "/lock").acquire().await });
    until_children(&one, "/lock", 2).await;
    guard.release().await.expect("released");
    drop(soon(waiting).await.expect("no panic").expect("the lock"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_without_read_permission_holds_its_node_and_notices_the_loss() {
    let server = server().await;
    let acl = [Acl::new(Permissions::CREATE | Permissions::DELETE, "world", "anyone")];
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let (one, other) = (builder.default_acl(acl).connect().await.expect("a session"), client(&server).await);
    other.create("/lock").container().await.expect("created");
    let guard = Mutex::new(&one, "/lock").acquire().await.expect("the lock");
    for _ in 0..5 {
        one.sync("/").await.expect("synced");
    }
    assert_eq!(guard.check(), Ok(()));
    other.delete(guard.path()).await.expect("deleted");
    assert_eq!(soon(guard.lost()).await, LossReason::NodeDeleted);
}
