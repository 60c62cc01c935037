//! Leases against servers that are cut off from their leader, and against nothing at all.

use std::time::Duration;

use zebu_recipes::{Mutex, Ownership};

use crate::checks::{Watchman, crowd, until_empty};
use crate::server::{Server, TIMEOUT, Trouble, Ways};
use crate::{client, for_each_seed, virtually};

#[test]
fn holders_on_servers_that_are_cut_off_let_go_in_time() {
    for_each_seed(Ways::Silence, async |server, clients| {
        let watchman = Watchman::default();
        crowd(clients, async |client, _| {
            let guard = Mutex::new(client, "/lock").acquire().await.expect("the lock");
            // For longer than a session lives without its leader.
            watchman.stay(client, &guard, 1, 45).await;
            guard.release().await.expect("released");
        })
        .await;
        watchman.check_tokens();
        until_empty(server, "/lock").await;
    });
}

#[test]
fn nothing_is_lost_while_all_is_well() {
    virtually(async {
        let server = Server::new(1, Trouble::None);
        let client = client(&server, 1).await;
        // The client has been idle before, for any part of the time between two pings.
        for idle in 0..20 {
            tokio::time::sleep(TIMEOUT * 4 + TIMEOUT * idle / 60).await;
            let guard = Mutex::new(&client, "/lock").acquire().await.expect("the lock");
            for _ in 0..600 {
                tokio::time::sleep(Duration::from_millis(701)).await;
                assert_eq!(guard.check(), Ok(()));
                let left = client.lease_deadline().expect("a session");
                assert!(left > (tokio::time::Instant::now() + TIMEOUT / 4).into_std());
            }
            guard.release().await.expect("released");
        }
    });
}
