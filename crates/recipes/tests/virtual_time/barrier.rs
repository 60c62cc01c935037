//! The single barrier: no client passes it while it is set, and all clients pass when it is removed.

use std::cell::Cell;
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::Barrier;

use crate::checks::until_empty;
use crate::for_each_seed;
use crate::server::FaultKinds;

/// How often the barrier is removed.
const TIMES: u32 = 5;

#[test]
fn no_waiter_passes_a_set_barrier() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        // The number of started removals, and whether the barrier is certainly set.
        let (removals, is_set) = (Cell::new(0), Cell::new(false));
        let keeper = async {
            let barrier = Barrier::new(&clients[0], "/gates/one");
            for _ in 0..TIMES {
                barrier.set().await.expect("set");
                is_set.set(true);
                assert!(barrier.is_set().await.expect("an answer"));
                tokio::time::sleep(Duration::from_secs(20)).await;
                is_set.set(false);
                removals.set(removals.get() + 1);
                barrier.remove().await.expect("removed");
                assert!(!barrier.is_set().await.expect("an answer"));
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        };
        let waiter = async |client: &Client, timeout: Option<Duration>| {
            let barrier = Barrier::new(client, "/gates/one");
            while removals.get() < TIMES {
                let (was_set, before) = (is_set.get(), removals.get());
                let passed = match timeout {
                    Some(timeout) => barrier.wait_within(timeout).await.expect("an answer"),
                    None => barrier.wait().await.map(|()| true).expect("passed"),
                };
                assert!(!(passed && was_set) || removals.get() > before, "passed a set barrier");
                assert!(passed || timeout.is_some());
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let short = Some(Duration::from_secs(3));
        tokio::join!(
            keeper,
            waiter(&clients[0], None),
            waiter(&clients[1], None),
            waiter(&clients[2], None),
            waiter(&clients[1], short),
            waiter(&clients[2], short),
        );
        until_empty(server, "/gates").await;
    });
}
