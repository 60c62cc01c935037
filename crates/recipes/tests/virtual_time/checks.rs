//! What is asked of every recipe in virtual time: how many hold it by their own clocks, and whether anything
//! is left.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use zebu_client::{Client, Retry};
use zebu_recipes::{Ownership, OwnershipState};

use crate::server::{Server, TIMEOUT};

const ROUNDS: usize = 4;

/// All holds there ever were.
#[derive(Clone, Default)]
pub(crate) struct Watchman(Arc<StdMutex<Vec<OwnershipState>>>);

impl Watchman {
    /// Whoever believes to hold it, believes so alone, or with as many as may.
    pub(crate) async fn visit(&self, client: &Client, guard: &impl Ownership, limit: usize) {
        // Long enough for a session to end, with requests that connections can be lost at.
        self.stay(client, guard, limit, 15).await;
    }

    /// The same for so many rounds, of a bit less than a second each.
    pub(crate) async fn stay(&self, client: &Client, guard: &impl Ownership, limit: usize, rounds: usize) {
        self.note(guard);
        for _ in 0..rounds {
            self.look(limit);
            let asked = client.exists("/").retry(Retry::Never);
            // Whatever comes of it, or nothing in time.
            let _ = tokio::time::timeout(Duration::from_secs(1), asked).await;
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        self.look(limit);
    }

    /// Somebody holds it from now on.
    pub(crate) fn note(&self, guard: &impl Ownership) {
        self.0.lock().expect("not poisoned").push(guard.ownership_state().clone());
    }

    pub(crate) fn look(&self, limit: usize) {
        let holds = self.0.lock().expect("not poisoned");
        let held = holds.iter().filter(|hold| hold.check().is_ok()).count();
        assert!(held <= limit, "{held} at a time");
    }

    /// In the order in which they were granted.
    pub(crate) fn check_tokens(&self) {
        let holds = self.0.lock().expect("not poisoned");
        assert!(holds.windows(2).all(|pair| pair[0].token() < pair[1].token()), "tokens rise");
    }
}

/// Two tasks for each client, each so many times.
pub(crate) async fn crowd(clients: &[Client; 3], work: impl AsyncFn(&Client, usize)) {
    let task = async |number: usize| {
        for _ in 0..ROUNDS {
            work(&clients[number % 3], number).await;
        }
    };
    tokio::join!(task(0), task(1), task(2), task(3), task(4), task(5));
}

/// What is to be removed in the background is, once servers can be reached.
pub(crate) async fn until_empty(server: &Server, path: &str) {
    server.calm();
    while !server.children(path).is_empty() {
        tokio::time::sleep(TIMEOUT).await;
    }
}
