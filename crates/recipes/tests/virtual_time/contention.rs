//! Many who want the same locks at once: nobody misses the wake-up, and nobody waits for somebody who waits.

use std::time::Duration;

use tokio::time::Instant;
use zebu_client::Client;
use zebu_recipes::{LockLayout, Mutex, Ownership, RecipeError, acquire_all};

use crate::checks::{Watchman, crowd, until_empty};
use crate::server::{Server, Trouble, Ways};
use crate::{client, for_each_seed, virtually};

const CONTENDERS: u64 = 8;
const TURNS: usize = 4;

/// The longest that all turns of all contenders may take: every one of them behind one that is out of reach
/// for as long as it gets.
const BOUND: Duration = Duration::from_secs(CONTENDERS * TURNS as u64 * 25);

/// Clients of two layouts that count each other; some lose patience, some drop what they wait for.
async fn contend(client: &Client, number: u64, watchman: &Watchman) {
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
        watchman.note(&guard);
        watchman.look(1);
        tokio::time::sleep(Duration::from_millis(10 * (number + 1))).await;
        watchman.look(1);
        if turn % 2 == 0 {
            guard.release().await.expect("released");
        }
    }
}

/// Returns how many faults there were.
async fn run(seed: u64, ways: Ways) -> usize {
    let server = Server::new(seed, Trouble::None);
    let mut clients = Vec::new();
    for number in 0..CONTENDERS - 2 {
        clients.push(client(&server, number + 1).await);
    }
    // Two of them wait behind others of their own session.
    clients.extend_from_within(..2);
    server.trouble(Trouble::OneIn(4 + seed % 16, ways));
    let (watchman, begun) = (Watchman::default(), Instant::now());
    let turns = |number: usize| contend(&clients[number], number as u64, &watchman);
    tokio::join!(turns(0), turns(1), turns(2), turns(3), turns(4), turns(5), turns(6), turns(7));
    assert!(begun.elapsed() < BOUND, "it took {:?}", begun.elapsed());
    until_empty(&server, "/lock").await;
    server.state().faults
}

#[test]
fn no_waiter_misses_a_wake_up_under_contention() {
    let mut faults = 0;
    for seed in 1..=200 {
        println!("seed {seed}");
        let ways = if seed % 2 == 0 { Ways::Cuts } else { Ways::Silence };
        faults += virtually(run(seed, ways));
    }
    assert!(faults > 2000, "{faults} faults are no trouble");
}

#[test]
fn several_locks_are_taken_as_one() {
    for_each_seed(Ways::Silence, async |server, clients| {
        let watchmen = [Watchman::default(), Watchman::default(), Watchman::default()];
        crowd(clients, async |client, number| {
            let locks = ["/locks/a", "/locks/b", "/locks/c"].map(|path| Mutex::new(client, path));
            // Each wants two of them, in an order of its own.
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
                watchmen[at.expect("one of them")].note(guard);
            }
            for _ in 0..5 {
                watchmen.iter().for_each(|watchman| watchman.look(1));
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
