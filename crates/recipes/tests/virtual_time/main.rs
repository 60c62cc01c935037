//! The recipes in virtual time, against the shipped tree behind connections that break, stall and lose
//! answers, and sessions that end, at random. Hours pass in a moment; leases end when they should.

#![allow(clippy::print_stdout, reason = "a failing test says where it was")]

mod answer;
mod barrier;
mod checks;
mod commit;
mod contention;
mod groups;
mod lease;
mod schedules;
mod server;
mod services;
mod ttl;
mod values;

use std::future::Future;
use std::time::Duration;

use zebu_client::Client;

use crate::server::{Server, TIMEOUT, Trouble, Ways};

/// How long anything may take, in virtual time.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// Runs with a clock that jumps to the next timer whenever nobody has anything to do.
fn virtually<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let future = async { tokio::time::timeout(PATIENCE, future).await.expect("nobody waits for ever") };
    runtime.expect("a runtime").block_on(future)
}

async fn client(server: &Server, seed: u64) -> Client {
    let builder =
        Client::builder("model:1").expect("a connection string").seed(seed).session_timeout(TIMEOUT);
    builder.connect_with(server.clone()).await.expect("a session")
}

/// A server in trouble and three clients, for each of many seeds; at the end the trouble is over.
fn for_each_seed(ways: Ways, scenario: impl AsyncFn(&Server, &[Client; 3])) {
    let mut faults = 0;
    for seed in 1..=SEEDS {
        println!("seed {seed}");
        faults += virtually(async {
            let server = Server::new(seed, Trouble::None);
            let clients = [client(&server, 1).await, client(&server, 2).await, client(&server, 3).await];
            // The clients are there; from now on it goes wrong.
            server.trouble(Trouble::OneIn(6 + seed % 20, ways));
            scenario(&server, &clients).await;
            server.calm();
            server.state().faults
        });
    }
    assert!(faults > SEEDS as usize, "{faults} faults are no trouble");
}

const SEEDS: u64 = 40;
