//! Leases: with servers that are disconnected from their leader, and without any fault.

use std::time::Duration;

use zebu_recipes::{Mutex, Ownership};

use crate::checks::{HolderChecker, run_contenders, until_empty};
use crate::server::{FaultKinds, FaultRate, Server, TIMEOUT};
use crate::{client, for_each_seed, virtually};

#[test]
fn holders_on_servers_that_are_cut_off_let_go_in_time() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let holders = HolderChecker::default();
        run_contenders(clients, async |client, _| {
            let guard = Mutex::new(client, "/lock").acquire().await.expect("the lock");
            // Longer than a session lives without its leader.
            holders.hold_for(client, &guard, 1, 45).await;
            guard.release().await.expect("released");
        })
        .await;
        holders.check_tokens();
        until_empty(server, "/lock").await;
    });
}

#[test]
fn nothing_is_lost_while_all_is_well() {
    virtually(1, async {
        let server = Server::new(1, FaultRate::None);
        let client = client(&server, 1, 1).await;
        // The client was idle before, for different parts of the ping interval.
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
