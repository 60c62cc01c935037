//! The whole client in virtual time, against a model of a server that loses connections, answers and
//! sessions wherever a schedule says so.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod each_fault;
mod model;
mod scenarios;
mod schedules;

use std::future::Future;
use std::time::Duration;

use zebu_client::{Client, ClientBuilder, Retry};

use crate::model::Server;

/// Runs with a clock that jumps to the next timer whenever nobody has anything to do.
fn virtually<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(future)
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
