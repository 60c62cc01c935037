//! Many contenders for the same locks: no waiter misses a wake-up, and there is no deadlock.

use std::time::Duration;

use tokio::time::Instant;
use zebu_client::Client;
use zebu_recipes::{LockLayout, Mutex, Ownership, RecipeError, acquire_all};

use crate::checks::{HolderChecker, run_contenders, until_empty};
use crate::server::{FaultKinds, FaultRate, Server};
use crate::{check_faults, client, for_each_seed, seeds, virtually};

const CONTENDERS: u64 = 8;
const TURNS: usize = 4;

/// The limit for all turns of all contenders: each waits behind a holder that is unreachable for the longest
/// time.
const BOUND: Duration = Duration::from_secs(CONTENDERS * TURNS as u64 * 25);

/// Takes the lock in turns. Two compatible layouts mix; some acquires time out, some are dropped.
async fn contend(client: &Client, number: u64, holders: &HolderChecker) {
    let layout = if number.is_multiple_of(2) { LockLayout::Curator } else { LockLayout::Go };
    let mutex = Mutex::new(client, "/lock").layout(layout);
    for turn in 0..TURNS {
        let guard = match (number + turn as u64) % 4 {
            0 => mutex.acquire_within(Duration::from_secs(2)).await.expect("an answer"),
            1 => {
                let dropped = tokio::time::timeout(Duration::from_millis(300), mutex.acquire()).await;
                dropped.ok().map(|guard| guard.expect("the lock"))
            }
            _ => Some(mutex.acquire().await.expect("the lock")),
        };
        let Some(guard) = guard else { continue };
        holders.record(&guard);
        holders.check(1);
        tokio::time::sleep(Duration::from_millis(10 * (number + 1))).await;
        holders.check(1);
        if turn % 2 == 0 {
            guard.release().await.expect("released");
        }
    }
}

/// Runs all contenders of one seed and returns the server.
async fn run(seed: u64) -> Server {
    let kinds = if seed.is_multiple_of(2) { FaultKinds::Cuts } else { FaultKinds::Silence };
    let server = Server::new(seed, FaultRate::None);
    let mut clients = Vec::new();
    for number in 0..CONTENDERS - 2 {
        clients.push(client(&server, seed, number + 1).await);
    }
    // Two contenders wait behind others of their own session.
    clients.extend_from_within(..2);
    server.set_faults(FaultRate::OneIn(4 + seed % 16, kinds));
    let (holders, begun) = (HolderChecker::default(), Instant::now());
    let turns = |number: usize| contend(&clients[number], number as u64, &holders);
    tokio::join!(turns(0), turns(1), turns(2), turns(3), turns(4), turns(5), turns(6), turns(7));
    assert!(begun.elapsed() < BOUND, "it took {:?}", begun.elapsed());
    until_empty(&server, "/lock").await;
    server
}

/// A digest of all requests of one run and their times.
#[cfg(tokio_unstable)]
pub(crate) async fn trace(seed: u64) -> u64 {
    run(seed).await.state().trace()
}

#[test]
fn no_waiter_misses_a_wake_up_under_contention() {
    let mut faults = 0;
    for seed in seeds(5) {
        faults += virtually(seed, async { run(seed).await.state().faults });
    }
    check_faults(faults / 10, &seeds(5));
}

#[test]
fn several_locks_are_taken_as_one() {
    for_each_seed(FaultKinds::Silence, async |server, clients| {
        let checkers = [HolderChecker::default(), HolderChecker::default(), HolderChecker::default()];
        run_contenders(clients, async |client, number| {
            let locks = ["/locks/a", "/locks/b", "/locks/c"].map(|path| Mutex::new(client, path));
            // Each contender takes two of the locks, in its own order.
            let pair = [number % 3, (number + 1 + number / 3) % 3];
            let all = loop {
                match acquire_all(&[&locks[pair[0]], &locks[pair[1]]]).await {
                    Ok(all) => break all,
                    Err(RecipeError::Lost { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            for guard in all.guards() {
                let at = locks.iter().position(|lock| guard.path().starts_with(lock.path()));
                checkers[at.expect("one of them")].record(guard);
            }
            for _ in 0..5 {
                checkers.iter().for_each(|checker| checker.check(1));
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
            if number % 2 == 0 {
                all.release().await.expect("released");
            }
        })
        .await;
        for path in ["/locks/a", "/locks/b", "/locks/c"] {
            until_empty(server, path).await;
        }
    });
}
