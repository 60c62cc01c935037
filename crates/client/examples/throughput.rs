//! Pipelined operations: `throughput HOST:PORT OPERATION SECONDS IN_FLIGHT`
//!
//! Prints `OPERATIONS WALL_SECONDS CPU_SECONDS`. Answers are taken in order; each one sends the next request.
//! OPERATION is get, exists, set or create; the node /throughput/node is made if it is not there.
//! interop/rust-client/throughput/compare.py runs it beside other clients.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use zebu_client::{Client, Parents};

const NODE: &str = "/throughput/node";
const DATA: &[u8] = &[b'x'; 100];

/// Processor time of this process in seconds, from the system's count of hundredths.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program stands in brackets and may contain anything.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = fields.get(11..13).ok_or("/proc/self/stat is too short")?;
    Ok((ticks[0].parse::<f64>()? + ticks[1].parse::<f64>()?) / 100.0)
}

/// Keeps the window full until the time is over; the number of answers.
async fn pump<F, R>(window: usize, end: Instant, send: impl Fn() -> F) -> Result<u64, zebu_client::Error>
where
    F: Future<Output = Result<R, zebu_client::Error>>,
{
    let mut waiting: VecDeque<_> = (0..window).map(|_| Box::pin(send())).collect();
    let mut answered = 0;
    let mut over = false;
    while let Some(call) = waiting.pop_front() {
        call.await?;
        answered += 1;
        // The clock costs as much as an operation; it need not be asked for each of them.
        over = over || (answered % 64 == 0 && Instant::now() >= end);
        if !over {
            waiting.push_back(Box::pin(send()));
        }
    }
    Ok(answered)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, operation, seconds, window] = &arguments[..] else {
        return Err("usage: throughput HOST:PORT OPERATION SECONDS IN_FLIGHT".into());
    };
    let client = Client::connect(server).await?;
    if client.exists(NODE).await?.is_none() {
        client.create(NODE).data(DATA).parents(Parents::Persistent).await?;
    }
    let (window, processor, start) = (window.parse()?, processor_seconds()?, Instant::now());
    let end = start + Duration::from_secs_f64(seconds.parse()?);
    let answered = match operation.as_str() {
        "get" => pump(window, end, || client.get(NODE).send()).await?,
        "exists" => pump(window, end, || client.exists(NODE).send()).await?,
        "set" => pump(window, end, || client.set(NODE, DATA).send()).await?,
        "create" => {
            pump(window, end, || client.create("/throughput/c-").data(DATA).sequential().send()).await?
        }
        _ => return Err("the operation is get, exists, set or create".into()),
    };
    let (wall, processor) = (start.elapsed().as_secs_f64(), processor_seconds()? - processor);
    println!("{answered} {wall:.3} {processor:.3}");
    client.close().await?;
    Ok(())
}
