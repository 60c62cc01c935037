//! A job queue: producers push, workers lease, and another worker takes over an unfinished job.
//!
//! `cargo run --example job_queue`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::collections::BTreeSet;

use tokio::sync::mpsc;
use zebu_client::Client;
use zebu_recipes::{DistributedQueue, QueueOrder};

const JOBS: &str = "/examples/jobs/urgent-first";
const COUNT: usize = 12;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// The reliability of a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worker {
    Steady,
    /// The worker leaves its first job unfinished.
    Clumsy,
}

async fn work(
    servers: String,
    name: &'static str,
    kind: Worker,
    done: mpsc::UnboundedSender<(&'static str, String)>,
) -> anyhow::Result<()> {
    let client = Client::connect(&servers).await?;
    let queue = DistributedQueue::new(&client, JOBS, QueueOrder::Priority);
    let mut clumsy = kind == Worker::Clumsy;
    loop {
        let delivery = queue.lease().await?;
        let job = String::from_utf8_lossy(&delivery.item().data()).into_owned();
        if std::mem::take(&mut clumsy) {
            println!("{name}: drops {job}; it comes back");
            delivery.release().await?;
            continue;
        }
        // One transaction deletes the job and its lock; it fails if the lock was lost.
        match delivery.finish().await {
            Ok(()) => done.send((name, job))?,
            Err(error) => println!("{name}: {job} is somebody else's now: {error}"),
        }
    }
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    let queue = DistributedQueue::new(&client, JOBS, QueueOrder::Priority).bounded(8);
    let (done, mut results) = mpsc::unbounded_channel();
    let workers = [("anna", Worker::Steady), ("bert", Worker::Clumsy), ("cora", Worker::Steady)]
        .map(|(name, kind)| tokio::spawn(work(servers.to_owned(), name, kind, done.clone())));
    let produce = async {
        for number in 0..COUNT {
            // The smallest number is delivered first; the producer waits while the queue is full.
            let priority = if number % 4 == 0 { 1 } else { 5 };
            queue.push_with_priority(format!("job {number}"), priority).await?;
        }
        anyhow::Ok(())
    };
    let collect = async {
        let mut finished = BTreeSet::new();
        while finished.len() < COUNT
            && let Some((name, job)) = results.recv().await
        {
            println!("{name}: has done {job}");
            anyhow::ensure!(
                finished.insert(job),
                "nothing is done twice as long as nobody loses its session"
            );
        }
        anyhow::Ok(())
    };
    let (produced, collected) = tokio::join!(produce, collect);
    produced?;
    collected?;
    workers.iter().for_each(tokio::task::JoinHandle::abort);
    println!("all {COUNT} are done, {} are left", queue.len().await?);
    drop(queue);
    client.delete("/examples/jobs").recursive().await?;
    client.close().await?;
    Ok(())
}
