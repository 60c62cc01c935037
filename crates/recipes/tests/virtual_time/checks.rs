//! Checks for every recipe in virtual time: the number of holders by their own clocks, and the nodes that are
//! left.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use zebu_client::{Client, Retry};
use zebu_recipes::{Ownership, OwnershipState};

use crate::server::{Server, TIMEOUT};

const ROUNDS: usize = 4;

/// Checks that no more clients than allowed own a lock at one time. It records every ownership.
#[derive(Clone, Default)]
pub(crate) struct HolderChecker(Arc<StdMutex<Vec<OwnershipState>>>);

impl HolderChecker {
    /// Holds the lock for a while and checks the number of holders.
    pub(crate) async fn hold(&self, client: &Client, guard: &impl Ownership, limit: usize) {
        // Long enough for a session to end. The requests are chances for faults.
        self.hold_for(client, guard, limit, 15).await;
    }

    /// Holds the lock for a number of rounds of 700 ms and more.
    pub(crate) async fn hold_for(
        &self,
        client: &Client,
        guard: &impl Ownership,
        limit: usize,
        rounds: usize,
    ) {
        self.record(guard);
        for _ in 0..rounds {
            self.check(limit);
            let request = client.exists("/").retry(Retry::Never);
            // The outcome does not matter.
            let _ = tokio::time::timeout(Duration::from_secs(1), request).await;
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        self.check(limit);
    }

    /// Records a new ownership.
    pub(crate) fn record(&self, guard: &impl Ownership) {
        self.0.lock().expect("not poisoned").push(guard.ownership_state().clone());
    }

    /// Fails if more than `limit` clients own the lock now.
    pub(crate) fn check(&self, limit: usize) {
        let ownerships = self.0.lock().expect("not poisoned");
        let holders = ownerships.iter().filter(|ownership| ownership.check().is_ok()).count();
        assert!(holders <= limit, "{holders} holders at a time");
    }

    /// Fails unless tokens rise in the order of the acquires.
    pub(crate) fn check_tokens(&self) {
        let ownerships = self.0.lock().expect("not poisoned");
        assert!(ownerships.windows(2).all(|pair| pair[0].token() < pair[1].token()), "tokens rise");
    }
}

/// Runs the work in two tasks per client, [`ROUNDS`] times each.
pub(crate) async fn run_contenders(clients: &[Client; 3], work: impl AsyncFn(&Client, usize)) {
    let task = async |number: usize| {
        for _ in 0..ROUNDS {
            work(&clients[number % 3], number).await;
        }
    };
    tokio::join!(task(0), task(1), task(2), task(3), task(4), task(5));
}

/// Stops the faults and waits until a node has no children: pending clean-up must end.
pub(crate) async fn until_empty(server: &Server, path: &str) {
    server.stop_faults();
    while !server.children(path).is_empty() {
        tokio::time::sleep(TIMEOUT).await;
    }
}
