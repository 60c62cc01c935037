//! Shared values: a conditional write is applied at most once, and no client sees an old value after a newer
//! one. In the end all clients see the newest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{RecipeError, SharedCount, SharedValue};

use crate::for_each_seed;
use crate::server::{FaultKinds, Server};

/// The number of increments per client.
const ADDED: usize = 5;

/// Waits until the nodes of the writers are deleted; this happens when their handles are dropped.
async fn until_alone(server: &Server, parent: &str, name: &str) {
    while server.children(parent) != [name] {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn a_shared_count_counts_once_and_all_handles_see_the_end() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        let (sure, unknown) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = async |client: &Client| {
            let count = SharedCount::start(client, "/values/count", 0).await.expect("a number");
            let mut added = 0;
            while added < ADDED {
                let now = count.current().expect("a number");
                match count.try_set(&now, now.value + 1).await {
                    Ok(true) => drop(sure.fetch_add(1, Ordering::SeqCst)),
                    // Another write was first: wait for the newest value.
                    Ok(false) => {
                        let newer = count.changed_from(&now).await.expect("followed");
                        assert!(newer.zxid > now.zxid && newer.value > now.value, "{newer:?} after {now:?}");
                        continue;
                    }
                    Err(RecipeError::Unknown { .. }) => drop(unknown.fetch_add(1, Ordering::SeqCst)),
                    // Nothing was sent.
                    Err(RecipeError::Unreachable { .. }) => continue,
                    Err(error) => panic!("{error}"),
                }
                added += 1;
            }
            count
        };
        let counts = tokio::join!(work(&clients[0]), work(&clients[1]), work(&clients[2]));
        server.stop_faults();
        let newest = SharedCount::start(&clients[0], "/values/count", 0).await.expect("a number");
        let value = newest.current().expect("a number").value;
        let (sure, unknown) = (sure.into_inner(), unknown.into_inner());
        let counted = usize::try_from(value).expect("not negative");
        assert!(
            (sure..=sure + unknown).contains(&counted),
            "{sure} sure, {unknown} unknown, {counted} counted"
        );
        for count in [&counts.0, &counts.1, &counts.2] {
            while count.current().expect("a number").value != value {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        drop((counts, newest));
        until_alone(server, "/values", "count").await;
    });
}

/// Writes a value, and repeats the write if its outcome is unknown.
async fn set(value: &SharedValue, text: &str) {
    loop {
        match value.set(text.to_owned()).await {
            Ok(()) => return,
            Err(RecipeError::Unknown { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_value_that_was_overwritten_does_not_come_back() {
    for_each_seed(FaultKinds::Cuts, async |server, clients| {
        // Each writer counts up; the follower must see each writer's number rise.
        let follow = SharedValue::start(&clients[2], "/values/setting", "0 0").await.expect("a value");
        let work = async |number: usize| {
            let value =
                SharedValue::start(&clients[number], "/values/setting", "0 0").await.expect("a value");
            for round in 1..=12 {
                set(&value, &format!("{number} {round}")).await;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        let watching = async {
            let (mut changes, mut last) = (follow.changes(), [-1; 2]);
            loop {
                let seen = String::from_utf8_lossy(&changes.borrow_and_update().value).into_owned();
                let (writer, round) = seen.split_once(' ').expect("two numbers");
                let (writer, round): (usize, i32) =
                    (writer.parse().expect("a number"), round.parse().expect("a number"));
                // Each write is a change of its own: an equal number is a repetition.
                assert!(round > last[writer], "{seen} came back after {last:?}");
                last[writer] = round;
                changes.changed().await.expect("followed");
            }
        };
        tokio::select! {
            biased;
            ((), ()) = async { tokio::join!(work(0), work(1)) } => {}
            () = watching => {}
        }
        drop(follow);
        server.stop_faults();
        until_alone(server, "/values", "setting").await;
    });
}

#[test]
fn the_newest_shared_value_is_never_missed() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        let start = async |client: &Client| {
            SharedValue::start(client, "/values/setting", "0").await.expect("a value")
        };
        let (writer, one, two) =
            (start(&clients[0]).await, start(&clients[1]).await, start(&clients[2]).await);
        let follow = async |value: &SharedValue| {
            let (mut changes, mut last) = (value.changes(), 0);
            loop {
                let seen = changes.borrow_and_update().clone();
                assert!(seen.zxid >= last, "an old value came back");
                last = seen.zxid;
                if &seen.value[..] == b"last" {
                    return;
                }
                changes.changed().await.expect("followed");
            }
        };
        let write = async {
            for round in 1..12 {
                set(&writer, &round.to_string()).await;
                tokio::time::sleep(Duration::from_secs(round % 4)).await;
            }
            set(&writer, "last").await;
        };
        tokio::join!(write, follow(&one), follow(&two), follow(&writer));
        drop((writer, one, two));
        until_alone(server, "/values", "setting").await;
    });
}
