//! A vote that also tells of a configuration that was only proposed, sent to a server that looks for a
//! leader: it must take what is in effect, and must not trip over the rest.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_proto::quorum::election::{InitialMessage, Notification, NotificationVersion, ServerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::membership::vote_config_text;

use super::places::Places;

/// How long a server may take to look for a leader and to answer. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The voter; servers accept connections of larger ids only.
const VOTER: usize = 3;

/// Server 1 runs alone; a test connection with the id of server 3 votes for itself.
pub(super) fn is_understood(places: &mut Places) -> Result<()> {
    let members: Vec<String> = (1..=3).map(|id| places.line(id, "participant")).collect();
    let in_effect = format!("{}\nversion=100000005", members.join("\n"));
    let proposed = format!("{}\n{}\nversion=100000009", members.join("\n"), places.line(4, "participant"));
    let vote = Notification {
        state: ServerState::Looking,
        leader: ServerId(VOTER as i64),
        zxid: Zxid::new(1, 9),
        round: 7,
        epoch: 1,
        version: NotificationVersion::V2,
        config: Some(vote_config_text(&in_effect, &proposed)),
    };
    places.start(1, &[1, 2, 3])?;
    let deadline = Instant::now() + PATIENCE;
    let understood = loop {
        // With a newer config it restarts its election and closes its connections.
        match exchange(places, &vote) {
            Ok(Some(config)) => break config,
            Ok(None) | Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            Ok(None) => anyhow::bail!("{} did not take the vote", places.name(1)),
            Err(error) => return Err(error.context(format!("a vote for {}", places.name(1)))),
        }
    };
    for line in in_effect.lines() {
        ensure!(understood.contains(line), "{line} is not in {understood}");
    }
    ensure!(!understood.contains("server.4"), "what was only proposed is in {understood}");
    println!("ok {} takes a vote that tells of a proposal", places.name(1));
    places.stop(1)?;
    places.forget(1)
}

/// Sends the vote; returns the configuration of the server once it votes alike and knows the new one.
fn exchange(places: &Places, vote: &Notification) -> Result<Option<Box<str>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", places.election_port(1)))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut bytes = Vec::new();
    let address = format!("127.0.0.1:{}", places.election_port(VOTER));
    InitialMessage { server: ServerId(VOTER as i64), addresses: vec![address.into()] }.encode(&mut bytes);
    vote.encode(&mut bytes);
    stream.write_all(&bytes)?;
    for _ in 0..20 {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).context("a negative length")?;
        ensure!(length < 1 << 20, "a message of {length} bytes");
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        let answer = Notification::decode(&payload)?;
        if let Some(config) = answer.config
            && answer.leader == vote.leader
            && config.contains("version=100000005")
        {
            return Ok(Some(config));
        }
    }
    Ok(None)
}
