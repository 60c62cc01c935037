//! Observers that are served by followers: what their clients see, what becomes of sessions when the follower
//! goes, and what observers without a log keep.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_client::{Client, CreateMode};
use zebu_testing::port;

use super::Launches;
use super::seats::{Digests, Kind, Seats, Vote};
use crate::reconfig::{Servers, Writer};
use crate::stores;

/// Longer than this no session lives of which nothing is heard.
const SESSION: Duration = Duration::from_secs(4);

const PATIENCE: Duration = Duration::from_secs(60);

const MARK: &[u8] = b"written before anybody observed";

fn ensemble(
    home: &Path,
    launches: &Launches,
    voters: &[Kind],
    observers: &[Kind],
    lines: &str,
) -> Result<(Seats, Vec<u8>, Vec<u8>)> {
    let voters = voters.iter().map(|&kind| (kind, Vote::Participant));
    let all = voters.chain(observers.iter().map(|&kind| (kind, Vote::Observer)));
    let members: Vec<_> =
        all.enumerate().map(|(index, (kind, vote))| (index as u8 + 1, kind, vote)).collect();
    let of = |wanted: Vote| {
        members.iter().filter(|(_, _, vote)| *vote == wanted).map(|(id, ..)| *id).collect::<Vec<u8>>()
    };
    let (voters, observers) = (of(Vote::Participant), of(Vote::Observer));
    let mut seats = Seats::new(home, launches, &members, lines)?;
    seats.start_all(&voters)?;
    seats.await_leader(&voters)?;
    block_on(async {
        let client = Client::connect(&seats.addresses(&voters)?).await?;
        for number in 0..20 {
            client.create(&format!("/before{number}")).data(MARK).await?;
        }
        client.close().await?;
        Ok(())
    })?;
    seats.start_all(&observers)?;
    Ok((seats, voters, observers))
}

fn block_on<T>(test: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
}

/// The third voter leads; observers come, work, lose their follower and go on.
pub(super) fn run(home: &Path, launches: &Launches, voters: &[Kind], observers: &[Kind]) -> Result<()> {
    run_with(home, launches, voters, observers, "")
}

/// The same with TLS and SASL between all servers.
pub(super) fn run_protected(
    home: &Path,
    launches: &Launches,
    voters: &[Kind],
    observers: &[Kind],
) -> Result<()> {
    stores::make_authority(home, "trust", "/CN=authority")?;
    stores::make_server(home, "server", "trust")?;
    stores::make_logins(home)?;
    let lines = format!(
        "sslQuorum=true\nssl.quorum.keyStore.location={0}/server.pem\nssl.quorum.trustStore.location={0}/trust.pem\n\
         quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n",
        home.display()
    );
    run_with(home, &launches.with_words(&stores::login_words(home)), voters, observers, &lines)
}

fn run_with(
    home: &Path,
    launches: &Launches,
    voters: &[Kind],
    observers: &[Kind],
    lines: &str,
) -> Result<()> {
    let lines = format!("observerMasterPort={}\n{lines}", port::free_address()?.port());
    let (mut seats, voters, observers) = ensemble(home, launches, voters, observers, &lines)?;
    let leader = seats.await_leader(&voters)?;
    let followers: Vec<u8> = voters.iter().copied().filter(|&id| id != leader).collect();
    let mut masters = Vec::new();
    for &observer in &observers {
        masters.push(seats.await_master(observer, &followers)?);
    }
    let counted: i64 = followers.iter().filter_map(|&id| seats.monitor(id, "synced_observers")).sum();
    ensure!(counted == observers.len() as i64, "followers count {counted} observers");
    block_on(work(&mut seats, leader, &followers, &observers, masters[0]))?;
    seats.compare(&seats.ids(), Digests::OfAll)
}

async fn work(seats: &mut Seats, leader: u8, followers: &[u8], observers: &[u8], master: u8) -> Result<()> {
    let there = Client::connect(&seats.address(leader)?.to_string()).await?;
    let mut clients = Vec::new();
    for &observer in observers {
        let servers = seats.address(observer)?.to_string();
        let client = Client::builder(&servers)?.session_timeout(SESSION).connect().await?;
        ensure!(client.get("/before7").await?.data.as_ref() == MARK);
        client.create(&format!("/mine{observer}")).mode(CreateMode::Ephemeral).await?;
        client.create(&format!("/of{observer}")).data(&b"0"[..]).await?;
        clients.push((observer, client));
    }
    for round in 0..10 {
        let value = format!("{round}").into_bytes();
        for (observer, client) in &clients {
            // A read after a sync sees all earlier writes, of any server.
            there.set(&format!("/of{observer}"), value.clone()).await?;
            client.sync("/").await?;
            let seen = client.get(&format!("/of{observer}")).await?.data;
            ensure!(seen.as_ref() == value, "observer {observer} shows {seen:?} behind a sync");
            client.create(&format!("/of{observer}/n{round}")).await?;
        }
    }
    tokio::time::sleep(SESSION + Duration::from_secs(2)).await;
    for (observer, _) in &clients {
        let mine = there.exists(&format!("/mine{observer}")).await?;
        ensure!(mine.is_some(), "the session at observer {observer} was forgotten");
    }

    seats.kill(master)?;
    let left: Vec<u8> = followers.iter().copied().filter(|&id| id != master).chain([leader]).collect();
    for &observer in observers {
        seats.await_master(observer, &left)?;
    }
    for (observer, client) in &clients {
        let deadline = Instant::now() + PATIENCE;
        while client.set(&format!("/of{observer}"), &b"moved"[..]).await.is_err() {
            ensure!(Instant::now() < deadline, "nothing is written at observer {observer} any more");
        }
        there.sync("/").await?;
        let seen = there.get(&format!("/of{observer}")).await?.data;
        ensure!(seen.as_ref() == b"moved", "{seen:?}");
        let mine = there.exists(&format!("/mine{observer}")).await?;
        ensure!(mine.is_some(), "the session at observer {observer} did not come over");
    }
    seats.start(master)?;
    seats.await_leader(&seats.ids())?;
    for (observer, client) in clients {
        client.close().await.with_context(|| format!("close the session at observer {observer}"))?;
        there.sync("/").await?;
        let mine = there.exists(&format!("/mine{observer}")).await?;
        ensure!(mine.is_none(), "the session at observer {observer} is closed, its node is there");
    }
    there.close().await?;
    Ok(())
}

/// Neither kind writes what it is told; both have it all, also after a restart.
pub(super) fn without_log(home: &Path, launches: &Launches) -> Result<()> {
    const LATER: &[u8] = b"written while they observed";
    let voters = [Kind::Apache, Kind::Zebu, Kind::Zebu];
    let (mut seats, voters, observers) =
        ensemble(home, launches, &voters, &[Kind::Apache, Kind::Zebu], "syncEnabled=false\n")?;
    seats.await_leader(&seats.ids())?;
    block_on(async {
        let client = Client::connect(&seats.addresses(&observers)?).await?;
        for number in 0..20 {
            client.create(&format!("/later{number}")).data(LATER).await?;
        }
        client.close().await?;
        Ok(())
    })?;
    seats.compare(&seats.ids(), Digests::OfAll)?;
    for &voter in &voters {
        ensure!(seats.is_in_log(voter, LATER)?, "voter {voter} has no log of it");
    }
    for &observer in &observers {
        ensure!(!seats.is_in_log(observer, LATER)?, "observer {observer} has a log");
        seats.kill(observer)?;
    }
    seats.start_all(&observers)?;
    seats.await_leader(&seats.ids())?;
    seats.compare(&seats.ids(), Digests::OfAll)
}

/// Members of all roles and kinds are killed one after the other while clients of observers write; whatever
/// was acknowledged is there in the end, the same on all.
pub(super) fn under_kills(home: &Path, launches: &Launches) -> Result<()> {
    const ROUNDS: usize = 12;
    let lines = format!("observerMasterPort={}\n", port::free_address()?.port());
    let voters = [Kind::Apache, Kind::Zebu, Kind::Zebu];
    let (mut seats, voters, observers) =
        ensemble(home, launches, &voters, &[Kind::Apache, Kind::Zebu, Kind::Zebu], &lines)?;
    seats.await_leader(&seats.ids())?;
    let all = seats.ids();
    block_on(async {
        let writer = Writer::start(&seats.addresses(&observers)?, Servers::Given).await?;
        for round in 0..ROUNDS {
            // Each server in turn, observer masters first.
            let id = all[(round * 5) % all.len()];
            seats.kill(id)?;
            if voters.contains(&id) {
                let left: Vec<u8> = voters.iter().copied().filter(|&voter| voter != id).collect();
                seats.await_leader(&left)?;
            }
            writer.goes_on().await.with_context(|| format!("without server {id}"))?;
            seats.start(id)?;
            seats.await_leader(&all)?;
        }
        let written = writer.finish(&seats.address(observers[0])?.to_string()).await?;
        println!("{written} writes were acknowledged and are there");
        Ok(())
    })?;
    seats.compare(&all, Digests::OfZebu)
}
