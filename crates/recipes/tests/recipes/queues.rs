//! Queues: nothing twice, nothing lost, in the right order.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zebu_recipes::{DistributedQueue, LossReason, Ownership, QueueOrder, RecipeError};

use crate::fault::{Fault, Plan};
use crate::rig::{BREAKS, Rig, at_every_step, children, client, faulty_client, server, soon, until_children};

const ORDERS: [QueueOrder; 4] =
    [QueueOrder::Simple, QueueOrder::Fifo, QueueOrder::Priority, QueueOrder::Kazoo];

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_queue() {
    for order in ORDERS {
        at_every_step(&BREAKS, &["/q"], async |rig: &Rig| {
            let queue = DistributedQueue::new(&rig.victim, &format!("{}/q", rig.path), order);
            let other = DistributedQueue::new(&rig.other, &format!("{}/q", rig.path), order);
            for item in ["a", "b", "c"] {
                queue.push(item).await.expect("pushed");
            }
            assert_eq!(other.len().await.expect("a number"), 3, "each item once");
            for item in ["a", "b"] {
                assert_eq!(queue.pop().await.expect("an item").data(), item);
            }
            assert_eq!(other.try_pop().await.expect("an answer").expect("an item").data(), "c");
            assert!(queue.try_pop().await.expect("an answer").is_none());
            let patience = Duration::from_millis(10);
            assert!(queue.pop_within(patience).await.expect("an answer").is_none());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_delivery() {
    at_every_step(&BREAKS, &["/q", "/q-locks"], async |rig: &Rig| {
        let path = format!("{}/q", rig.path);
        let queue = DistributedQueue::new(&rig.victim, &path, QueueOrder::Fifo);
        let other = DistributedQueue::new(&rig.other, &path, QueueOrder::Fifo);
        other.push("a").await.expect("pushed");
        other.push("b").await.expect("pushed");
        let first = queue.lease().await.expect("an item");
        let second = other.try_lease().await.expect("an answer").expect("an item");
        assert_eq!((first.item().data(), second.item().data()), (Bytes::from("a"), Bytes::from("b")));
        assert!(queue.try_lease().await.expect("an answer").is_none());
        second.release().await.expect("given back");
        let second = queue.lease().await.expect("an item");
        assert_eq!(second.item().data(), "b");
        first.finish().await.expect("finished");
        second.finish().await.expect("finished");
        assert!(other.is_empty().await.expect("a number"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_delivery() {
    at_every_step(&[Fault::Expire], &["/q", "/q-locks"], async |rig: &Rig| {
        let path = format!("{}/q", rig.path);
        let queue = DistributedQueue::new(&rig.victim, &path, QueueOrder::Simple);
        DistributedQueue::new(&rig.other, &path, QueueOrder::Simple).push("a").await.expect("pushed");
        let mut finished = false;
        while !finished {
            let delivery = queue.lease().await.expect("it comes back until it is finished");
            assert_eq!(delivery.item().data(), "a");
            finished = match delivery.finish().await {
                Ok(()) => true,
                Err(RecipeError::Lost { .. }) => false,
                Err(error) => panic!("{error}"),
            };
        }
        assert!(children(&rig.other, &path).await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_with_the_answer_to_finish_leaves_no_doubt() {
    let server = server().await;
    let plan = Plan::new(Fault::CutAfter);
    let (one, two) = (faulty_client(&server, &plan).await, client(&server).await);
    let queue = DistributedQueue::new(&one, "/q", QueueOrder::Simple);
    DistributedQueue::new(&two, "/q", QueueOrder::Simple).push("a").await.expect("pushed");
    let delivery = queue.lease().await.expect("an item");
    assert_eq!(delivery.verify().await, Ok(()), "the watch over the lock is set");
    plan.arm(1);
    let session = one.session().id;
    // The removal is carried out, its answer is lost, and the session cannot come back.
    let finishing = tokio::spawn(delivery.finish());
    soon(plan.fires()).await;
    until_children(&two, "/q", 0).await;
    server.expire(session).await.expect("expired");
    soon(finishing).await.expect("no panic").expect("it is finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_may_be_dropped_at_every_request() {
    at_every_step(&[Fault::Hold], &["/q-locks"], async |rig: &Rig| {
        let path = format!("{}/q", rig.path);
        DistributedQueue::new(&rig.other, &path, QueueOrder::Simple).push("a").await.expect("pushed");
        let queue = DistributedQueue::new(&rig.victim, &path, QueueOrder::Simple);
        tokio::select! {
            delivery = queue.lease() => drop(delivery.expect("an item")),
            () = rig.plan.fires() => {}
        }
        rig.plan.go_on();
        rig.victim.sync("/").await.expect("the connection lives");
        until_children(&rig.other, &format!("{path}-locks"), 0).await;
        let other = DistributedQueue::new(&rig.other, &path, QueueOrder::Simple);
        other.lease().await.expect("the item is there").finish().await.expect("finished");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_item_is_not_taken_from_the_next_consumer() {
    let server = server().await;
    let other = client(&server).await;
    for step in 1..=5 {
        let plan = Plan::new(Fault::Hold);
        let victim = faulty_client(&server, &plan).await;
        let path = format!("/q-{step}");
        let queue = DistributedQueue::new(&victim, &path, QueueOrder::Simple);
        queue.push("a").await.expect("pushed");
        let delivery = queue.lease().await.expect("an item");
        // One of the requests that give it back is late.
        plan.arm(step);
        drop(delivery);
        let next = DistributedQueue::new(&other, &path, QueueOrder::Simple);
        let leased = match next.lease_within(Duration::from_millis(200)).await.expect("an answer") {
            Some(leased) => leased,
            None => {
                plan.go_on();
                soon(next.lease()).await.expect("the item")
            }
        };
        plan.go_on();
        victim.sync("/").await.expect("the connection lives");
        leased.finish().await.expect("it is still ours");
        plan.go_on();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_of_a_lost_session_comes_back() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (first, second) = (
        DistributedQueue::new(&one, "/q", QueueOrder::Simple),
        DistributedQueue::new(&two, "/q", QueueOrder::Simple),
    );
    first.push("a").await.expect("pushed");
    let delivery = first.lease().await.expect("an item");
    let waiting = tokio::spawn(async move { second.lease().await });
    server.expire(one.session().id).await.expect("expired");
    let again = soon(waiting).await.expect("no panic").expect("an item");
    assert_eq!(again.item(), delivery.item());
    assert_eq!(soon(delivery.lost()).await, LossReason::SessionExpired);
    assert!(matches!(delivery.finish().await, Err(RecipeError::Lost { .. })), "it is not ours any more");
    assert_eq!(again.verify().await, Ok(()), "and stays theirs");
    again.finish().await.expect("finished");
    assert!(children(&two, "/q-locks").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_and_consumers_on_bad_connections_lose_and_double_nothing() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let produce = async |number: usize| {
        let queue = DistributedQueue::new(&clients[number % 3], "/q", QueueOrder::Fifo);
        for item in 0..20 {
            queue.push(format!("{number}-{item:02}")).await.expect("pushed");
        }
    };
    let consume = async |number: usize| {
        let queue = DistributedQueue::new(&clients[number % 3], "/q", QueueOrder::Fifo);
        let mut items = Vec::new();
        for _ in 0..15 {
            items.push(queue.pop().await.expect("an item").data());
        }
        items
    };
    let trouble = async {
        for round in 0..10 {
            tokio::time::sleep(Duration::from_millis(120)).await;
            let session = clients[round % 3].session().id;
            if round % 2 == 0 { server.drop_next_reply(session) } else { server.cut(session) }
        }
        std::future::pending::<()>().await;
    };
    let all = async {
        tokio::join!(produce(0), produce(1), produce(2), consume(0), consume(1), consume(2), consume(3))
    };
    let done = tokio::select! {
        done = soon(all) => done,
        () = trouble => unreachable!("it has no end"),
    };
    let mut seen = BTreeSet::new();
    for items in [done.3, done.4, done.5, done.6] {
        for producer in 0..3 {
            let own = |item: &&Bytes| item.starts_with(format!("{producer}-").as_bytes());
            assert!(items.iter().filter(own).is_sorted(), "in the order of pushing");
        }
        for item in items {
            assert!(seen.insert(item.clone()), "{item:?} twice");
        }
    }
    assert_eq!(seen.len(), 60);
    until_children(&clients[0], "/q", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_leave_by_priority_time_and_id() {
    let server = server().await;
    let client = client(&server).await;
    for (order, priorities) in [(QueueOrder::Priority, [3, -7, 0]), (QueueOrder::Kazoo, [500, 1, 100])] {
        let queue = DistributedQueue::new(&client, &format!("/{order:?}"), order);
        for priority in priorities {
            queue.push_with_priority(priority.to_string(), priority).await.expect("pushed");
        }
        let mut sorted = priorities;
        sorted.sort_unstable();
        for priority in sorted {
            assert_eq!(queue.pop().await.expect("an item").data(), priority.to_string());
        }
        assert!(matches!(queue.push_after("x", Duration::ZERO).await, Err(RecipeError::Invalid(_))));
    }
    let delay = DistributedQueue::new(&client, "/delay", QueueOrder::Delay);
    let (begin, due) = (Instant::now(), Duration::from_millis(299));
    delay.push_after("late", Duration::from_millis(300)).await.expect("pushed");
    delay.push("now").await.expect("pushed");
    let mut popped = vec![delay.pop().await.expect("an item").data()];
    // On a slow machine the delay may be over already, and either item is the first.
    if begin.elapsed() < due {
        assert_eq!(popped[0], "now");
    }
    popped.extend(delay.try_pop().await.expect("an answer").map(|item| item.data()));
    assert!(popped.len() == 1 || begin.elapsed() >= due, "{popped:?}");
    if popped.len() == 1 {
        popped.push(soon(delay.pop()).await.expect("an item").data());
    }
    assert!(begin.elapsed() >= due);
    popped.sort();
    assert_eq!(popped, ["late", "now"]);
    let ids = DistributedQueue::new(&client, "/ids", QueueOrder::Ids);
    for (item, id) in [("1", "a"), ("2", "b|c"), ("3", "a")] {
        ids.push_with_id(item, id).await.expect("pushed");
    }
    assert_eq!(ids.remove("a").await.expect("removed"), 2);
    assert_eq!(ids.remove("a").await.expect("removed"), 0);
    assert_eq!(ids.pop().await.expect("an item").data(), "2");
    assert!(matches!(ids.push("x").await, Err(RecipeError::Invalid(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_wait_for_room_and_gatherers_for_enough() {
    let server = server().await;
    let client = client(&server).await;
    let queue = DistributedQueue::new(&client, "/q", QueueOrder::Simple).bounded(2);
    queue.push("1").await.expect("pushed");
    queue.push("2").await.expect("pushed");
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move { queue.push("3").await }
    });
    assert!(queue.pop_many_within(3, Duration::from_millis(50)).await.expect("an answer").is_none());
    assert!(!producer.is_finished());
    assert_eq!(queue.len().await.expect("a number"), 2, "nothing is taken before there are enough");
    let pair = queue.pop_many(2).await.expect("two");
    assert_eq!(pair.iter().map(zebu_recipes::QueueItem::data).collect::<Vec<_>>(), ["1", "2"]);
    soon(producer).await.expect("no panic").expect("pushed");
    client.create("/q/hello").await.expect("created");
    assert_eq!(queue.pop().await.expect("an item").data(), "3", "strangers are no items");
    assert!(queue.is_empty().await.expect("a number"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_frame_is_an_error_with_a_path() {
    let server = server().await;
    let client = client(&server).await;
    client.ensure_path("/q/queue-0000000000").await.expect("created");
    match DistributedQueue::new(&client, "/q", QueueOrder::Fifo).pop().await {
        Err(RecipeError::BadData { path, .. }) => assert_eq!(path, "/q/queue-0000000000"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locking_queue_of_kazoo_keeps_items_and_locks_where_kazoo_does() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let queue = DistributedQueue::new(&one, "/queue", QueueOrder::KazooLocking);
    queue.push("normal").await.expect("pushed");
    queue.push_with_priority("late", 500).await.expect("pushed");
    queue.push_with_priority("early", 7).await.expect("pushed");
    assert_eq!(children(&two, "/queue/entries").await.len(), 3);
    let delivery = queue.lease().await.expect("an item");
    assert_eq!(delivery.item().data(), "early");
    assert_eq!(children(&two, "/queue/taken").await, [delivery.item().name.clone()]);
    // A consumer without locks does not take a locked item.
    let other = DistributedQueue::new(&two, "/queue", QueueOrder::KazooLocking);
    assert_eq!(other.pop().await.expect("an item").data(), "normal");
    assert_eq!(other.try_pop().await.expect("an answer").expect("an item").data(), "late");
    assert!(other.try_pop().await.expect("an answer").is_none());
    let waiting = tokio::spawn(async move { other.pop().await });
    delivery.release().await.expect("given back");
    assert_eq!(soon(waiting).await.expect("no panic").expect("an item").data(), "early");
    assert_eq!(children(&two, "/queue/entries").await, [""; 0]);
    assert_eq!(children(&two, "/queue/taken").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_wait_for_an_item_ends_without_a_server() {
    let server = server().await;
    let plan = Plan::new(Fault::HoldTransaction);
    let (one, other) = (faulty_client(&server, &plan).await, client(&server).await);
    let queue = DistributedQueue::new(&one, "/queue", QueueOrder::Simple);
    DistributedQueue::new(&other, "/queue", QueueOrder::Simple).push("item").await.expect("pushed");
    plan.arm(1);
    let waiting = tokio::spawn(async move { queue.pop_within(Duration::from_millis(300)).await });
    soon(plan.fires()).await;
    // The item may have been taken: that cannot be told.
    let popped = soon(waiting).await.expect("no panic");
    assert!(matches!(popped, Err(RecipeError::Unknown { .. })), "{popped:?}");
}
