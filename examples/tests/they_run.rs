//! Every example runs to its end, on a server that other examples have used.
#![allow(dead_code, reason = "a test has no use for the main of an example")]
#![allow(clippy::duplicate_mod, reason = "each example is whole by itself")]

use std::time::Duration;

use zebu_testing::TestServer;

#[path = "../barrier.rs"]
mod barrier;
#[path = "../configuration_centre.rs"]
mod configuration_centre;
#[path = "../distributed_locks.rs"]
mod distributed_locks;
#[path = "../first_client.rs"]
mod first_client;
#[path = "../job_queue.rs"]
mod job_queue;
#[path = "../master_election.rs"]
mod master_election;
#[path = "../monitoring_centre.rs"]
mod monitoring_centre;
#[path = "../naming_service.rs"]
mod naming_service;
#[path = "../service_discovery.rs"]
mod service_discovery;
#[path = "../two_phase_commit.rs"]
mod two_phase_commit;

async fn ends(example: impl Future<Output = anyhow::Result<()>>) {
    let ended = tokio::time::timeout(Duration::from_secs(60), example).await;
    ended.expect("it comes to its end").expect("without an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_example_runs_twice_on_one_server() {
    let server = TestServer::start().await.expect("a server");
    let servers = server.connect_string();
    first_client::run(&servers).await.expect("the first client ends");
    for _ in 0..2 {
        ends(configuration_centre::run(&servers)).await;
        ends(monitoring_centre::run(&servers)).await;
        ends(master_election::run(&servers)).await;
        ends(job_queue::run(&servers)).await;
        ends(service_discovery::run(&servers)).await;
        ends(naming_service::run(&servers)).await;
        ends(distributed_locks::run(&servers)).await;
        ends(barrier::run(&servers)).await;
        ends(two_phase_commit::run(&servers)).await;
    }
}

/// The text of the page is the text of the program, so that the program below runs what the page shows.
#[test]
fn the_first_client_is_that_of_the_page() {
    let page = include_str!("../../docs/getting-started.md");
    let block =
        page.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    assert!(
        include_str!("../first_client.rs").ends_with(block),
        "docs/getting-started.md has another program"
    );
}
