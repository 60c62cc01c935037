//! Shared values: a conditional write is carried out once or not at all, nobody sees an old value after a newer one,
//! and in the end everybody sees the newest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::{RecipeError, SharedCount, SharedValue};

use crate::for_each_seed;
use crate::server::{Server, Ways};

/// How often each client adds one.
const ADDED: usize = 5;

/// What writers leave behind them goes with their handles.
async fn until_alone(server: &Server, parent: &str, name: &str) {
    while server.children(parent) != [name] {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn a_shared_count_counts_once_and_everybody_sees_the_end() {
    for_each_seed(Ways::Expiry, async |server, clients| {
        let (sure, unknown) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = async |client: &Client| {
            let count = SharedCount::start(client, "/values/count", 0).await.expect("a number");
            let mut added = 0;
            while added < ADDED {
                let now = count.current().expect("a number");
                match count.try_set(&now, now.value + 1).await {
                    Ok(true) => drop(sure.fetch_add(1, Ordering::SeqCst)),
                    // Not ours: the newest one comes.
                    Ok(false) => {
                        let newer = count.changed_from(&now).await.expect("followed");
                        assert!(newer.zxid > now.zxid && newer.value > now.value, "{newer:?} after {now:?}");
                        continue;
                    }
                    Err(RecipeError::Unknown { .. }) => drop(unknown.fetch_add(1, Ordering::SeqCst)),
                    Err(error) => panic!("{error}"),
                }
                added += 1;
            }
            count
        };
        let counts = tokio::join!(work(&clients[0]), work(&clients[1]), work(&clients[2]));
        server.calm();
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

#[test]
fn the_newest_shared_value_is_never_missed() {
    for_each_seed(Ways::Expiry, async |server, clients| {
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
                writer.set(round.to_string()).await.expect("set");
                tokio::time::sleep(Duration::from_secs(round % 4)).await;
            }
            writer.set("last").await.expect("set");
        };
        tokio::join!(write, follow(&one), follow(&two), follow(&writer));
        drop((writer, one, two));
        until_alone(server, "/values", "setting").await;
    });
}
