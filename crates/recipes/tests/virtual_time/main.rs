//! The recipes in virtual time, against the shipped tree. Connections break, stall and lose replies, and
//! sessions end, at random. Hours pass in a moment, and leases end on time.
//!
//! `ZEBU_SEEDS=7` runs one seed and `ZEBU_SEEDS=1..401` runs a range. Tokio chooses the order of ready
//! branches and of woken tasks at random. Its generator takes a seed only with
//! `RUSTFLAGS="--cfg tokio_unstable"`; with that flag a seed repeats a run exactly.

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
use std::ops::Range;
use std::time::Duration;

use zebu_client::Client;

use crate::server::{FaultKinds, FaultRate, Server, TIMEOUT};

/// The limit of virtual time for one run.
const TIME_LIMIT: Duration = Duration::from_secs(6 * 3600);

/// The number of seeds without `ZEBU_SEEDS`.
const SEEDS: u64 = 40;

/// Runs on a clock that jumps to the next timer when no task is ready.
fn virtually<F: Future>(seed: u64, future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    runtime.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_be_bytes()));
    println!("seed {seed}");
    let future = async { tokio::time::timeout(TIME_LIMIT, future).await.expect("ends in time") };
    runtime.build().expect("a runtime").block_on(future)
}

/// The seeds of a test: `factor` times the usual number, or those of `ZEBU_SEEDS`.
fn seeds(factor: u64) -> Range<u64> {
    let Ok(text) = std::env::var("ZEBU_SEEDS") else { return 1..factor * SEEDS + 1 };
    let number = |text: &str| text.parse::<u64>().expect("ZEBU_SEEDS is a number or a range");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

/// Checks that the seeds caused faults. A few seeds may have none.
fn check_faults(faults: usize, seeds: &Range<u64>) {
    let count = (seeds.end - seeds.start) as usize;
    assert!(count < SEEDS as usize || faults > count, "{faults} faults in {count} runs are too few");
}

/// A client of the run with this seed.
async fn client(server: &Server, seed: u64, number: u64) -> Client {
    let builder = Client::builder("model:1").expect("a connection string");
    let builder = builder.seed(seed * 100 + number).session_timeout(TIMEOUT);
    builder.connect_with(server.clone()).await.expect("a session")
}

/// Runs the scenario with a server and three clients for each seed. Faults begin after the connects and stop
/// after the scenario.
fn for_each_seed(kinds: FaultKinds, scenario: impl AsyncFn(&Server, &[Client; 3])) {
    let mut faults = 0;
    for seed in seeds(1) {
        faults += virtually(seed, async {
            let server = Server::new(seed, FaultRate::None);
            let clients = [
                client(&server, seed, 1).await,
                client(&server, seed, 2).await,
                client(&server, seed, 3).await,
            ];
            server.set_faults(FaultRate::OneIn(6 + seed % 20, kinds));
            scenario(&server, &clients).await;
            server.stop_faults();
            let state = server.state();
            println!("trace {:016x}", state.trace());
            state.faults
        });
    }
    check_faults(faults, &seeds(1));
}

/// Two runs of one seed send the same requests at the same times.
#[cfg(tokio_unstable)]
#[test]
fn a_seed_repeats_a_run() {
    let run = |seed| virtually(seed, contention::trace(seed));
    for seed in 1..=5 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1), run(2));
}
