//! The upgrade promise: the previous release and the tested one share directories and ensembles. One server
//! changes its program and changes it back, and three servers do so one by one under load.

mod previous;
mod single;

use std::path::Path;

use anyhow::{Context, Result};

use super::fleet::{Fleet, Server, Signal, Vote};
use super::load::{self, Writer};
use super::migration;
use crate::outcome;

pub(super) use previous::Previous;

const SERVERS: usize = 3;
const WRITERS: usize = 4;

/// Both parts; the first fault ends each of them.
pub(super) async fn run(home: &Path, previous: &Server, tested: &Server) -> Result<()> {
    let mut single = Fleet::new(&subdirectory(home, "single")?, vec![(previous.clone(), Vote::Participant)])?;
    let result = single::run(&mut single, previous, tested).await;
    if result.is_err() {
        println!("{}", single.last_words());
    }
    result?;
    let seats = vec![(previous.clone(), Vote::Participant); SERVERS];
    let mut fleet = Fleet::new(&subdirectory(home, "ensemble")?, seats)?;
    // The ensemble begins with the directory of the single server.
    (0..SERVERS).try_for_each(|index| fleet.fill(index, &single, 0))?;
    let result = roll(&mut fleet, previous, tested).await;
    if result.is_err() {
        println!("{}", fleet.last_words());
    }
    result
}

fn subdirectory(home: &Path, name: &str) -> Result<std::path::PathBuf> {
    let path = home.join(name);
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

async fn roll(fleet: &mut Fleet, previous: &Server, tested: &Server) -> Result<()> {
    (0..SERVERS).try_for_each(|index| fleet.start(index))?;
    fleet.await_service()?;
    let servers = fleet.connect_string();
    load::make_top(&servers).await?;
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(Writer::start(&servers, number).await?);
    }
    for (direction, next) in [("upgrade", tested), ("downgrade", previous)] {
        for (step, index) in migration::order(fleet)?.into_iter().enumerate() {
            let changed = migration::change_hands(fleet, index, next, &writers).await;
            conclude(&format!("{direction} step {} under load", step + 1), changed)?;
            // The leader has the other program after the first step.
            if step == 0 {
                let copied = start_without_data(fleet, index, &writers).await;
                conclude(&format!("{direction}: an emptied server of the ensemble"), copied)?;
            }
        }
    }
    let result = migration::conclude(fleet, writers).await;
    conclude("no acknowledged write is lost, trees and digests are equal", result)
}

/// A server loses its directory and gets the whole state from a leader with the other program.
async fn start_without_data(fleet: &mut Fleet, index: usize, writers: &[Writer]) -> Result<String> {
    fleet.signal(index, Signal::Kill)?;
    fleet.empty(index)?;
    fleet.start(index)?;
    let (leader, took) = fleet.await_service()?;
    let visitor = load::visit(&fleet.address(index).to_string()).await?;
    for writer in writers {
        writer.check_session(&visitor).await?;
    }
    visitor.close().await?;
    Ok(format!(
        "server {} ({}) got the state from a leader of {} in {:.1} s",
        index + 1,
        fleet.server(index).name(),
        fleet.server(leader).name(),
        took.as_secs_f64()
    ))
}

/// Prints the result of one test.
fn conclude(name: &str, result: Result<String>) -> Result<()> {
    match result {
        Ok(row) => {
            println!("  {row}");
            outcome::ok(name);
            Ok(())
        }
        Err(fault) => {
            outcome::not_ok(name, &fault);
            Err(fault).context(name.to_owned())
        }
    }
}
