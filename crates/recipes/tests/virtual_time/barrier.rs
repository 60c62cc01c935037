//! The single barrier: nobody passes while it stands, everybody does when it does not.

use std::cell::Cell;
use std::time::Duration;

use zebu_client::Client;
use zebu_recipes::Barrier;

use crate::checks::until_empty;
use crate::for_each_seed;
use crate::server::Ways;

/// How often it is lowered.
const TIMES: u32 = 5;

#[test]
fn no_waiter_passes_a_set_barrier() {
    for_each_seed(Ways::Expiry, async |server, clients| {
        // How often lowering it was begun; and whether it certainly stands.
        let (lowered, stands) = (Cell::new(0), Cell::new(false));
        let keeper = async {
            let barrier = Barrier::new(&clients[0], "/gates/one");
            for _ in 0..TIMES {
                barrier.set().await.expect("raised");
                stands.set(true);
                assert!(barrier.is_set().await.expect("an answer"));
                tokio::time::sleep(Duration::from_secs(20)).await;
                stands.set(false);
                lowered.set(lowered.get() + 1);
                barrier.remove().await.expect("lowered");
                assert!(!barrier.is_set().await.expect("an answer"));
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        };
        let waiter = async |client: &Client, patience: Option<Duration>| {
            let barrier = Barrier::new(client, "/gates/one");
            while lowered.get() < TIMES {
                let (stood, before) = (stands.get(), lowered.get());
                let passed = match patience {
                    Some(patience) => barrier.wait_within(patience).await.expect("an answer"),
                    None => barrier.wait().await.map(|()| true).expect("passed"),
                };
                assert!(!(passed && stood) || lowered.get() > before, "passed what stands");
                assert!(passed || patience.is_some());
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
