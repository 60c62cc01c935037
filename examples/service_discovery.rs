//! Service discovery with load balancing: instances register, and a client spreads its requests over them and
//! skips failed ones.
//!
//! `cargo run --example service_discovery`, or `… -- 127.0.0.1:2181` with a running server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

mod example_server;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use zebu_client::Client;
use zebu_recipes::{
    ProviderStrategy, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceRegistration,
};

const SERVICES: &str = "/examples/services";

/// The payload of an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct About {
    zone: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = example_server::ExampleServer::connect_or_start().await?;
    run(&server.servers).await
}

/// An instance that answers every connection with its name.
async fn instance(
    services: &ServiceDiscovery<About>,
    name: &'static str,
) -> anyhow::Result<(ServiceRegistration<About>, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // A client may disconnect at any time.
            let _ = stream.write_all(name.as_bytes()).await;
        }
    });
    let described = ServiceInstance::new("greeter").id(name).at("127.0.0.1", port);
    let registration = services.register(described.payload(About { zone: "here".into() })).await?;
    Ok((registration, serving))
}

/// Sends one request to the next instance; reports an instance that does not answer, and tries another one.
async fn request(greeters: &ServiceProvider<About>) -> anyhow::Result<String> {
    for _ in 0..10 {
        let Some(greeter) = greeters.pick() else { break };
        let address = (greeter.address.clone().unwrap_or_default(), greeter.port.unwrap_or_default());
        let answered = async {
            let mut answer = String::new();
            TcpStream::connect(address).await?.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        match answered.await {
            Ok(answer) if !answer.is_empty() => return Ok(answer),
            Ok(_) | Err(_) => {
                println!("client: {} does not answer", greeter.id);
                greeters.report_failure(&greeter);
            }
        }
    }
    anyhow::bail!("nobody answers")
}

async fn requests(
    greeters: &ServiceProvider<About>,
    count: usize,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut answers = BTreeMap::new();
    for _ in 0..count {
        *answers.entry(request(greeters).await?).or_default() += 1;
    }
    println!("client: {count} requests were answered by {answers:?}");
    Ok(answers)
}

pub(crate) async fn run(servers: &str) -> anyhow::Result<()> {
    let client = Client::connect(servers).await?;
    let services = ServiceDiscovery::<About>::new(&client, SERVICES);
    let (anna, anna_serves) = instance(&services, "anna").await?;
    let (bert, bert_serves) = instance(&services, "bert").await?;
    let greeters = services.provider("greeter", ProviderStrategy::RoundRobin).await?;
    let answers = requests(&greeters, 10).await?;
    anyhow::ensure!(answers.values().eq([&5, &5]), "in turn");

    println!("cora comes");
    let (cora, cora_serves) = instance(&services, "cora").await?;
    greeters.changes().wait_for(|all| all.len() == 3).await?;
    anyhow::ensure!(requests(&greeters, 12).await?.len() == 3, "all of them");

    println!("bert hangs: it is registered, and does not answer");
    bert_serves.abort();
    let _ = bert_serves.await;
    anyhow::ensure!(requests(&greeters, 12).await?.len() == 2, "the others");

    println!("anna says good-bye");
    anna.unregister().await?;
    greeters.changes().wait_for(|all| all.len() == 2).await?;
    anyhow::ensure!(requests(&greeters, 4).await?.keys().eq(["cora"]), "one is left");
    for registration in [bert, cora] {
        registration.unregister().await?;
    }
    anna_serves.abort();
    cora_serves.abort();
    client.delete(SERVICES).recursive().await?;
    client.close().await?;
    Ok(())
}
