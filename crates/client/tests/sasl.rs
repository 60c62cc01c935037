//! SASL over sockets: a gate in front of a server authenticates users as servers do, and forwards the rest.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zebu_client::{Cause, Client, ConnectError, ErrorKind, SaslLogin, SaslRefusal, SessionState};
use zebu_proto::client::auth::SaslToken;
use zebu_proto::client::{ReplyHeader, RequestHeader};
use zebu_proto::frame::write_frame;
use zebu_proto::{Jute, OpCode, Reader};
use zebu_security::sasl::digest_md5::{DigestProfile, DigestServer, DigestUsers, NONCE_BYTES};
use zebu_security::sasl::{SaslServer, SaslServerStep};
use zebu_security::secret::SecretText;
use zebu_testing::TestServer;

use common::soon;

/// The behaviour of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Authenticates bob.
    Honest,
    /// Sends a proof for another password.
    Impostor,
    /// Has no SASL, as Apache says it.
    NullToken,
    /// Has no SASL, as Zebu says it.
    Refuses,
}

async fn frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    Ok(payload)
}

async fn send(stream: &mut TcpStream, payload: &[u8]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, |out| out.extend_from_slice(payload));
    stream.write_all(&bytes).await
}

async fn reply(stream: &mut TcpStream, xid: i32, err: i32, token: Option<&[u8]>) -> std::io::Result<()> {
    let mut payload = Vec::new();
    ReplyHeader { xid, zxid: 0, err }.encode(&mut payload);
    SaslToken { token: token.map(Into::into) }.encode(&mut payload);
    send(stream, &payload).await
}

fn mechanism(connection: u32) -> DigestServer {
    let mut users = DigestUsers::default();
    users.insert("bob", SecretText::new("bob's secret"));
    let mut nonce = [7; NONCE_BYTES];
    nonce[..4].copy_from_slice(&connection.to_be_bytes());
    DigestServer::new(DigestProfile::CLIENTS, Arc::new(users), nonce)
}

/// Whether the connection may be used.
async fn authenticate(stream: &mut TcpStream, gate: Gate, connection: u32) -> std::io::Result<bool> {
    let mut server = mechanism(connection);
    loop {
        let payload = frame(stream).await?;
        let mut reader = Reader::new(&payload);
        let header = RequestHeader::decode(&mut reader).expect("a header");
        assert_eq!(header.op, OpCode::Sasl.wire(), "nothing comes before the end of the exchange");
        let token = SaslToken::decode(&mut reader).expect("a token").token;
        let answer = match gate {
            Gate::NullToken => (0, None, Some(true)),
            Gate::Refuses => (-115, None, Some(false)),
            Gate::Honest | Gate::Impostor => match server.step(token.as_deref()) {
                SaslServerStep::Continue(challenge) => (0, Some(challenge), None),
                SaslServerStep::Complete { token, .. } if gate == Gate::Honest => (0, token, Some(true)),
                SaslServerStep::Complete { .. } => {
                    (0, Some(b"rspauth=0123456789abcdef0123456789abcdef".to_vec()), Some(true))
                }
                SaslServerStep::Failed(_) => (-115, None, Some(false)),
            },
        };
        let (err, token, outcome) = answer;
        reply(stream, header.xid, err, token.as_deref()).await?;
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
    }
}

async fn pass(mut stream: TcpStream, target: SocketAddr, gate: Gate, connection: u32) -> std::io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    let request = frame(&mut stream).await?;
    send(&mut server, &request).await?;
    let response = frame(&mut server).await?;
    send(&mut stream, &response).await?;
    if authenticate(&mut stream, gate, connection).await? {
        tokio::io::copy_bidirectional(&mut stream, &mut server).await?;
    }
    Ok(())
}

/// The address of a gate, and the number of its connections.
async fn start(target: SocketAddr, gate: Gate) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let connections = Arc::new(AtomicU32::new(0));
    let counter = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = counter.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(pass(stream, target, gate, connection));
        }
    });
    (address, connections)
}

async fn connect(address: SocketAddr, password: &str) -> Result<Client, ConnectError> {
    let builder = Client::builder(&address.to_string()).expect("an address");
    builder.sasl(SaslLogin::digest_md5("bob", password)).connect().await
}

#[tokio::test]
async fn a_session_authenticates_on_every_connection() {
    let server = TestServer::start().await.expect("a server");
    let (address, connections) = start(server.address(), Gate::Honest).await;
    let client = soon(connect(address, "bob's secret")).await.expect("a session");
    client.create("/a").ephemeral().await.expect("created");
    for round in 2..5 {
        let mut states = client.states();
        server.cut_all();
        soon(states.wait_for(|status| status.state == SessionState::Reconnected))
            .await
            .expect("it comes back");
        soon(async {
            // A call may still meet the connection that was cut.
            while client.get("/a").await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        assert!(connections.load(Ordering::Relaxed) >= round);
    }
    client.close().await.expect("closed");
}

#[tokio::test]
async fn refusals_are_final_and_say_why() {
    let server = TestServer::start().await.expect("a server");
    for (gate, password, refusal) in [
        (Gate::Honest, "a guess", SaslRefusal::Rejected),
        (Gate::Refuses, "bob's secret", SaslRefusal::Rejected),
        (Gate::NullToken, "bob's secret", SaslRefusal::NoToken),
        (Gate::Impostor, "bob's secret", SaslRefusal::ServerNotProved),
    ] {
        let (address, connections) = start(server.address(), gate).await;
        let error = soon(connect(address, password)).await.expect_err("no session");
        let text = error.to_string();
        assert!(text.contains(&refusal.to_string()) && !text.contains(password), "{gate:?}: {text}");
        let ConnectError::Refused(error) = error else { panic!("{gate:?}: {text}") };
        assert_eq!(error.kind(), &ErrorKind::NotSent(Cause::SaslRefused(refusal)));
        assert!(error.is_session_fatal());
        assert_eq!(connections.load(Ordering::Relaxed), 1, "it is not tried again");
    }
}
