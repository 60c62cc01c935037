//! A rolling migration under load: three Apache servers become Zebu one by one, with their own configuration
//! and directory, and Apache again. Clients stay connected all the time.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::agree;
use super::fleet::{Fleet, Server, Signal, Vote};
use super::load::{self, Writer};
use super::seen::{self, Kind};
use crate::apache::Edition;
use crate::outcome;

const SERVERS: usize = 3;
const WRITERS: usize = 4;

/// How long clients write in each state: long enough to be spread over all members.
const STAY: Duration = Duration::from_millis(1500);

/// From one release to the tested server and back; the first fault ends it.
pub(super) async fn run(home: &Path, edition: &Edition, tested: &Server) -> Result<()> {
    let apache = Server::Apache(edition.clone());
    let mut fleet = Fleet::new(home, vec![(apache.clone(), Vote::Participant); SERVERS])?;
    let result = roll(&mut fleet, edition, &apache, tested).await;
    if result.is_err() {
        println!("{}", fleet.last_words());
    }
    result
}

async fn roll(fleet: &mut Fleet, edition: &Edition, apache: &Server, tested: &Server) -> Result<()> {
    (0..SERVERS).try_for_each(|index| fleet.start(index))?;
    fleet.await_service()?;
    let servers = fleet.connect_string();
    load::make_top(&servers).await?;
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(Writer::start(&servers, number).await?);
    }
    tokio::time::sleep(STAY).await;
    let mut step = 0;
    for next in [tested, apache] {
        for index in order(fleet)? {
            step += 1;
            let name = format!("{} migration step {step}", edition.number());
            match change_hands(fleet, index, next, &writers).await {
                Ok(row) => {
                    println!("  step {step}: {row}");
                    outcome::ok(&name);
                }
                Err(fault) => {
                    outcome::not_ok(&name, &fault);
                    return Err(fault);
                }
            }
        }
    }
    let name = format!("{} nothing is lost after the migration", edition.number());
    match conclude(fleet, writers).await {
        Ok(row) => {
            println!("  {row}");
            outcome::ok(&name);
            Ok(())
        }
        Err(fault) => {
            outcome::not_ok(&name, &fault);
            Err(fault)
        }
    }
}

/// The leader last, so that there is one election and not several.
pub(super) fn order(fleet: &Fleet) -> Result<Vec<usize>> {
    let leader = fleet.leader().context("nobody leads")?;
    Ok((0..fleet.len()).filter(|&index| index != leader).chain([leader]).collect())
}

/// One server is replaced; says what happened.
pub(super) async fn change_hands(
    fleet: &mut Fleet,
    index: usize,
    next: &Server,
    writers: &[Writer],
) -> Result<String> {
    let mode = fleet.mode(index).context("the server to be replaced does not serve")?;
    let before: usize = writers.iter().map(Writer::acknowledged).sum();
    let old = fleet.server(index).name();
    let mark = fleet.log_mark(index);
    agree::no_mismatches(fleet)?;
    fleet.signal(index, Signal::Terminate)?;
    fleet.hand_over(index, next.clone());
    fleet.start(index)?;
    let (_, took) = fleet.await_service()?;
    tokio::time::sleep(STAY).await;
    let seen = seen::received(fleet, index, mark)?;
    if seen.of(Kind::Snap) > 0 && !next.is_zebu() {
        let count = fleet.excuse_digests(index)?;
        println!("  server {} counted {count} wrong digests while it took the whole state", index + 1);
    }
    let new_mode = fleet.mode(index).context("the new server does not serve")?;
    let visitor = load::visit(&fleet.address(index).to_string()).await?;
    for writer in writers {
        writer.check_session(&visitor).await?;
    }
    visitor.close().await?;
    agree::no_mismatches(fleet)?;
    let after: usize = writers.iter().map(Writer::acknowledged).sum();
    ensure!(after > before, "nothing was written meanwhile");
    Ok(format!(
        "server {} ({mode}): {old} -> {} ({new_mode}), brought up to date by {seen}, serves after {:.1} s; \
         {} writes acknowledged meanwhile, all {} sessions kept",
        index + 1,
        next.name(),
        took.as_secs_f64(),
        after - before,
        writers.len()
    ))
}

/// Everything that was acknowledged is on every member, and all members are equal.
pub(super) async fn conclude(fleet: &mut Fleet, mut writers: Vec<Writer>) -> Result<String> {
    let mut accounts = Vec::new();
    for writer in &mut writers {
        accounts.push(writer.finish().await?);
    }
    for index in 0..fleet.len() {
        let visitor = load::visit(&fleet.address(index).to_string()).await?;
        for (writer, account) in writers.iter().zip(&accounts) {
            writer.check_session(&visitor).await?;
            account.check(&visitor).await.with_context(|| format!("at member {}", index + 1))?;
        }
        visitor.close().await?;
    }
    let agreement = tokio::task::block_in_place(|| agree::compare(fleet))?;
    for writer in writers {
        writer.close().await;
    }
    let acknowledged: usize = accounts.iter().map(|account| account.acknowledged).sum();
    let unknown: usize = accounts.iter().map(|account| account.unknown).sum();
    Ok(format!(
        "{acknowledged} acknowledged creates, none lost; {unknown} writes of unknown outcome; no session \
         expired; {} nodes and {} digests are equal on all members",
        agreement.nodes, agreement.digests
    ))
}
