//! The whole client in virtual time, against a model of a server that loses connections, replies and sessions
//! where a schedule says so. With `RUSTFLAGS="--cfg tokio_unstable"` a schedule always gives the same run.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod each_fault;
mod features;
mod model;
mod scenarios;
mod schedules;

use std::future::Future;
use std::time::Duration;

use zebu_client::{Client, ClientBuilder, Retry};

use crate::model::Server;

/// Runs on a clock that jumps to the next timer when no task is ready.
fn virtually<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    runtime.rng_seed(tokio::runtime::RngSeed::from_bytes(b"virtual time"));
    runtime.build().expect("a runtime").block_on(future)
}

fn builder() -> ClientBuilder {
    Client::builder("model:1")
        .expect("a connection string")
        .seed(7)
        .session_timeout(model::TIMEOUT)
        .retry(Retry::Times { count: 100, pause: Duration::from_millis(50) })
}

async fn client(server: &Server) -> Client {
    builder().connect_with(server.clone()).await.expect("a session")
}
