//! Every example runs to its end, on a server that other examples have used.
#![allow(dead_code, reason = "a test has no use for the main of an example")]
#![allow(clippy::duplicate_mod, reason = "each example is whole by itself")]

use std::time::Duration;

use zebu_testing::TestServer;

#[path = "../configuration_centre.rs"]
mod configuration_centre;
#[path = "../job_queue.rs"]
mod job_queue;
#[path = "../master_election.rs"]
mod master_election;
#[path = "../monitoring_centre.rs"]
mod monitoring_centre;
#[path = "../service_discovery.rs"]
mod service_discovery;

async fn ends(example: impl Future<Output = anyhow::Result<()>>) {
    let ended = tokio::time::timeout(Duration::from_secs(60), example).await;
    ended.expect("it comes to its end").expect("without an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_example_runs_twice_on_one_server() {
    let server = TestServer::start().await.expect("a server");
    let servers = server.connect_string();
    for _ in 0..2 {
        ends(configuration_centre::run(&servers)).await;
        ends(monitoring_centre::run(&servers)).await;
        ends(master_election::run(&servers)).await;
        ends(job_queue::run(&servers)).await;
        ends(service_discovery::run(&servers)).await;
    }
}
