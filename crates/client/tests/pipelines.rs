//! Calls that are sent before earlier ones are answered: their order at the limits of the client, and what
//! becomes of them when a connection is lost.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

mod common;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use common::soon;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::watch;
use zebu_client::{Client, Connector, Retry, ServerAddress, Version};
use zebu_testing::TestServer;

async fn client(server: &TestServer) -> Client {
    let builder = Client::builder(&server.connect_string()).unwrap();
    builder.session_timeout(Duration::from_secs(30)).connect().await.unwrap()
}

/// Data of 100 kB that begins with a number.
fn numbered(number: usize) -> Vec<u8> {
    let mut data = format!("{number} ").into_bytes();
    data.resize(100_000, b'x');
    data
}

/// 700 calls are more than the default limit of 64 MiB in flight; all are sent while the server does not
/// read.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_never_overtakes_one_that_was_sent_before_it() {
    let server = TestServer::start().await.unwrap();
    let client = client(&server).await;
    client.create("/n").await.unwrap();
    server.pause(client.session().id).await;
    let mut sent: Vec<_> = (0..700).map(|number| client.set("/n", numbered(number)).send()).collect();
    server.resume(client.session().id).await;
    let mut versions = Vec::new();
    // There is room again while the last of them have not been polled yet.
    for call in sent.drain(..500) {
        versions.push(soon(call).await.unwrap().version);
    }
    sent.push(client.set("/n", numbered(700)).send());
    for call in sent {
        versions.push(soon(call).await.unwrap().version);
    }
    assert_eq!(versions, (1..=701).collect::<Vec<i32>>());
    assert!(client.get("/n").await.unwrap().data.starts_with(b"700 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_limit_keeps_the_order_of_the_calls() {
    let server = TestServer::start().await.unwrap();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = builder.in_flight_limit(64).connect().await.unwrap();
    client.create("/n").await.unwrap();
    let (mut sent, mut versions) = (VecDeque::new(), Vec::new());
    for number in 0..3000u32 {
        sent.push_back(client.set("/n", number.to_string()).send());
        if number % 100 == 99 {
            // From here on there is room for the next calls, and those before them have not been polled.
            versions.push(soon(sent.pop_front().unwrap()).await.unwrap().version);
        }
    }
    for call in sent {
        versions.push(soon(call).await.unwrap().version);
    }
    assert_eq!(versions, (1..=3000).collect::<Vec<i32>>());
    assert_eq!(client.get("/n").await.unwrap().data, "2999");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_awaited_is_sent_although_there_was_no_room() {
    let server = TestServer::start().await.unwrap();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let narrow = builder.in_flight_limit(2).connect().await.unwrap();
    let other = client(&server).await;
    other.create("/done").await.unwrap();
    let (_, mut done) = other.children("/done").watched().await.unwrap();
    for number in 0..50 {
        drop(narrow.create(&format!("/done/{number}")).send());
    }
    // The end of the client comes behind what it has sent.
    drop(narrow);
    loop {
        soon(&mut done).await;
        let (children, next) = other.children("/done").watched().await.unwrap();
        if children.names.len() == 50 {
            return;
        }
        done = next;
    }
}

/// Holds back every multi while it is closed.
struct Gate {
    open: watch::Receiver<bool>,
    held: watch::Sender<bool>,
}

async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.resize(4 + length as usize, 0);
    stream.read_exact(&mut bytes[4..]).await?;
    Ok(bytes)
}

impl Connector for Gate {
    type Stream = DuplexStream;

    async fn connect(&self, server: &ServerAddress, _random: u64) -> io::Result<DuplexStream> {
        let server = TcpStream::connect((&*server.host, server.port)).await?;
        server.set_nodelay(true)?;
        let (near, far) = tokio::io::duplex(1 << 20);
        let (mut open, held) = (self.open.clone(), self.held.clone());
        tokio::spawn(async move {
            let (mut from_server, mut to_server) = server.into_split();
            let (mut from_client, mut to_client) = tokio::io::split(far);
            let up = async {
                to_server.write_all(&frame(&mut from_client).await?).await?;
                loop {
                    let request = frame(&mut from_client).await?;
                    if request.get(8..12) == Some(&[0, 0, 0, 14]) && !*open.borrow() {
                        held.send_replace(true);
                        let _ = open.wait_for(|open| *open).await;
                    }
                    to_server.write_all(&request).await?;
                }
                #[allow(unreachable_code, reason = "names the type of the errors")]
                Ok::<(), io::Error>(())
            };
            tokio::select! {
                _ = up => {}
                _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            }
        });
        Ok(near)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_behind_a_lost_one_fails_also_while_the_client_moves() {
    let server = TestServer::start().await.unwrap();
    let (_open, open) = watch::channel(false);
    let (held, mut is_held) = watch::channel(false);
    let builder = Client::builder(&server.connect_string()).unwrap();
    let builder = builder.session_timeout(Duration::from_secs(6)).retry(Retry::Never);
    let client = builder.connect_with(Gate { open, held }).await.unwrap();
    client.create("/n").data("0").await.unwrap();
    // In flight, and held back by the network.
    let mut first = client.transaction();
    let _ = first.set("/n", "first", Version::Any);
    let first = first.send();
    soon(is_held.wait_for(|held| *held)).await.unwrap();
    // The same server by another name: the client has to move.
    client.update_servers(&format!("localhost:{}", server.address().port())).unwrap();
    let second = client.set("/n", "second").send();
    let error = soon(first).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    let error = soon(second).await.unwrap_err();
    assert!(error.is_not_sent(), "{error}");
    let later = client.get("/n").retry(Retry::default());
    assert_eq!(soon(later).await.unwrap().data, "0");
}
