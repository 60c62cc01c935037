//! Values and counters: every change once, the newest always seen.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use zebu_client::ErrorCode;
use zebu_recipes::{
    AtomicLong, AtomicValue, DistributedQueue, JsonConfig, Mutex, QueueOrder, RecipeError, SharedCount,
    SharedValue, UniqueIds,
};

use crate::fault::Fault;
use crate::rig::{BREAKS, Rig, at_every_step, children, client, server, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_counter() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let path = format!("{}-counter", rig.path);
        let counter = AtomicLong::new(&rig.victim, &path);
        assert_eq!(counter.increment().await.expect("counted").after, 1);
        let updated = counter.add(41).await.expect("counted");
        assert_eq!((updated.before, updated.after), (1, 42));
        assert!(counter.compare_and_set(42, 7).await.expect("an answer"));
        assert!(!counter.compare_and_set(42, 8).await.expect("an answer"));
        assert_eq!(counter.get().await.expect("a number"), 7);
        let node = rig.other.get(&path).await.expect("a node");
        assert_eq!(&node.data[..], 7_i64.to_be_bytes());
        assert_eq!(node.stat.version, 2, "each change was written once");
        drop(counter);
        let gone = async || {
            let name = format!("{}-counter-writer-", &rig.path[1..]);
            children(&rig.other, "/").await.iter().all(|child| !child.starts_with(&name))
        };
        soon(async {
            while !gone().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_end_at_every_request_of_a_counter() {
    at_every_step(&[Fault::Expire], &[""], async |rig: &Rig| {
        let path = format!("{}/deep/counter", rig.path);
        let counter = AtomicLong::new(&rig.victim, &path);
        let mut known = 0;
        for _ in 0..3 {
            // The request did not leave: whatever else is unknown, this is not.
            known = counter.increment().await.expect("counted").after;
        }
        assert_eq!(known, 3);
        assert_eq!(rig.other.get(&path).await.expect("a node").stat.version, 2);
        rig.other.delete(&rig.path).recursive().await.expect("deleted");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_count_on_bad_connections_and_nothing_is_lost_or_doubled() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let mut tasks = Vec::new();
    for number in 0..6 {
        let client = &clients[number % 3];
        let counter = AtomicLong::new(client, "/counter").attempts(3).promote_to(Mutex::new(client, "/lock"));
        tasks.push(tokio::spawn(async move {
            let mut seen = BTreeSet::new();
            for _ in 0..20 {
                seen.insert(counter.increment().await.expect("counted").after);
            }
            seen
        }));
    }
    let trouble = async {
        for round in 0..12 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let session = clients[round % 3].session().id;
            if round % 2 == 0 { server.drop_next_reply(session) } else { server.cut(session) }
        }
        std::future::pending::<()>().await;
    };
    let all = async {
        let mut seen = BTreeSet::new();
        for task in tasks {
            seen.append(&mut task.await.expect("no panic"));
        }
        seen
    };
    tokio::select! {
        seen = soon(all) => assert!(seen.into_iter().eq(1..=120), "each number once"),
        () = trouble => unreachable!("it has no end"),
    }
    assert_eq!(AtomicLong::new(&clients[0], "/counter").get().await.expect("a number"), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_refuses_what_is_none() {
    let server = server().await;
    let client = client(&server).await;
    client.create("/counter").data("text").await.expect("created");
    let counter = AtomicLong::new(&client, "/counter");
    assert!(matches!(counter.get().await, Err(RecipeError::BadData { .. })));
    assert!(matches!(counter.increment().await, Err(RecipeError::BadData { .. })));
    client.set("/counter", Bytes::new()).await.expect("set");
    assert_eq!(counter.set(i64::MAX).await.expect("set").before, 0, "an empty node is zero");
    assert!(matches!(counter.increment().await, Err(RecipeError::Invalid(_))), "it would overflow");
    assert_eq!(counter.decrement().await.expect("counted").after, i64::MAX - 1);
    let value = AtomicValue::new(&client, "/value");
    assert!(!value.compare_and_set(b"x", "y").await.expect("an answer"));
    assert!(value.compare_and_set(b"", "y").await.expect("an answer"));
    assert_eq!(value.set("z").await.expect("set").before, "y");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_handed_out_once() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let mut tasks = Vec::new();
    for number in 0..4 {
        let ids = UniqueIds::new(if number % 2 == 0 { &one } else { &two }, "/ids", 10);
        tasks.push(tokio::spawn(async move {
            let mut numbers = Vec::new();
            for _ in 0..25 {
                numbers.push(ids.next().await.expect("a number"));
            }
            assert!(numbers.is_sorted());
            numbers
        }));
    }
    let mut all = BTreeSet::new();
    for task in tasks {
        for number in soon(task).await.expect("no panic") {
            assert!(all.insert(number), "{number} twice");
        }
    }
    assert_eq!(all.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_value_follows_its_node_through_everything() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let value = SharedValue::start(&one, "/a/value", "1").await.expect("started");
    let other = SharedValue::start(&two, "/a/value", "seed").await.expect("started");
    assert_eq!(other.current().value, "1", "the seed is for a node that is not there");
    let mut changes = value.changes();
    other.set("2").await.expect("set");
    soon(changes.wait_for(|now| now.value == "2")).await.expect("followed");
    // Written while the follower's connection is paused.
    server.pause(one.session().id).await;
    other.set("3").await.expect("set");
    server.cut(one.session().id);
    server.resume(one.session().id).await;
    soon(changes.wait_for(|now| now.value == "3")).await.expect("followed");
    server.expire(one.session().id).await.expect("expired");
    other.set("4").await.expect("set");
    soon(changes.wait_for(|now| now.value == "4")).await.expect("followed");
    server.kill().await.expect("killed");
    server.restart().await.expect("started again");
    other.set("5").await.expect("set");
    soon(changes.wait_for(|now| now.value == "5")).await.expect("followed");
    // Deleted and made again: the version starts over, the value does not go back.
    two.delete("/a/value").await.expect("deleted");
    two.create("/a/value").data("6").await.expect("created");
    soon(changes.wait_for(|now| now.value == "6")).await.expect("followed");
    assert_eq!(value.current().version, 0);
    one.close().await.expect("closed");
    soon(async { while changes.changed().await.is_ok() {} }).await;
    assert!(matches!(value.failure(), Some(RecipeError::Client(_))), "an end has a reason");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_break_at_every_request_of_a_shared_value() {
    at_every_step(&BREAKS, &[""], async |rig: &Rig| {
        let path = format!("{}-count", rig.path);
        let count = SharedCount::start(&rig.victim, &path, 5).await.expect("started");
        let first = count.current().expect("a number");
        assert_eq!(first.value, 5);
        assert!(count.try_set(&first, 6).await.expect("an answer"));
        assert!(!count.try_set(&first, 7).await.expect("an answer"), "it has changed");
        let second = soon(count.changed_from(&first)).await.expect("followed");
        assert_eq!((second.value, second.version), (6, 1));
        count.set(9).await.expect("set");
        let mut now = second;
        while now.value != 9 {
            now = soon(count.changed_from(&now)).await.expect("followed");
        }
        assert_eq!(&rig.other.get(&path).await.expect("a node").data[..], 9_i32.to_be_bytes());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_does_not_come_back_over_a_later_one() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let first = SharedValue::start(&one, "/value", "0").await.expect("a value");
    let second = SharedValue::start(&two, "/value", "0").await.expect("a value");
    // Its own node is there, so that the write is the next request.
    first.set("-").await.expect("set");
    server.drop_next_reply(one.session().id);
    let setting = tokio::spawn(async move { first.set("A").await });
    soon(second.changes().wait_for(|value| &value.value[..] == b"A")).await.expect("followed");
    second.set("B").await.expect("set");
    soon(setting).await.expect("no panic").expect("set");
    assert_eq!(&two.get("/value").await.expect("a node").data[..], b"B");

    let first = SharedCount::start(&one, "/count", 0).await.expect("a number");
    let second = SharedCount::start(&two, "/count", 0).await.expect("a number");
    first.set(7).await.expect("set");
    let known = second.current().expect("a number");
    server.drop_next_reply(one.session().id);
    let setting = tokio::spawn(async move { first.set(8).await });
    let mut seen = known;
    while seen.value != 8 {
        seen = soon(second.changed_from(&seen)).await.expect("followed");
    }
    second.set(9).await.expect("set");
    soon(setting).await.expect("no panic").expect("set");
    let count = SharedCount::start(&two, "/count", 0).await.expect("a number");
    assert_eq!(count.current().expect("a number").value, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_missing_is_not_made_by_a_write() {
    let server = server().await;
    let one = client(&server).await;
    let value = SharedValue::start(&one, "/value", "0").await.expect("a value");
    one.delete("/value").await.expect("deleted");
    let failed = value.set("1").await;
    assert!(
        matches!(&failed, Err(RecipeError::Client(error)) if error.code() == Some(ErrorCode::NoNode)),
        "{failed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_writers_can_be_kept_elsewhere() {
    let server = server().await;
    let one = client(&server).await;
    one.ensure_path("/dir").await.expect("created");
    let counter = AtomicLong::new(&one, "/dir/counter").writers_at("/writers");
    assert_eq!(counter.increment().await.expect("counted").after, 1);
    let value = SharedValue::start(&one, "/dir/value", "0").await.expect("a value").writers_at("/writers");
    value.set("1").await.expect("set");
    let count = SharedCount::start(&one, "/dir/count", 0).await.expect("a number").writers_at("/writers");
    count.set(1).await.expect("set");
    let ids = UniqueIds::new(&one, "/dir/ids", 10).writers_at("/writers");
    ids.next().await.expect("a number");
    let config =
        JsonConfig::start(&one, "/dir/config", &1_u32).await.expect("a value").writers_at("/writers");
    config.update(|number| *number += 1).await.expect("updated");
    let queue = DistributedQueue::new(&one, "/dir/queue", QueueOrder::Kazoo).writers_at("/writers");
    queue.push("item").await.expect("pushed");
    let mut names = children(&one, "/dir").await;
    names.sort();
    assert_eq!(names, ["config", "count", "counter", "ids", "queue", "value"]);
    let writers = children(&one, "/writers").await;
    assert!(writers.len() == 6 && writers.iter().all(|name| name.starts_with("writer-")), "{writers:?}");
    drop((counter, value, count, ids, config, queue));
    crate::rig::until_children(&one, "/writers", 0).await;
}
