//! A leader on a machine that stands still together with its clock, as a virtual machine that is stopped and
//! goes on.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_proto::client::SetDataRequest;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, OpCode, Reader};
use zebu_testing::{Message, RawClient};

use super::fleet::{Fleet, PATIENCE, Shape, await_that};
use super::lab::Family;
use super::preloaded::Preloaded;
use super::{Bench, HOSTS};

/// Stops of a leader. One that trusts its clock answers with old data in most of them.
const ROUNDS: u32 = 3;

/// The other servers elect a leader meanwhile. The old one must not answer as if no time had passed: a read
/// behind a sync that reaches it while it stands still never shows data from before the election.
pub(super) fn frozen_leader(bench: &Bench) -> Result<String> {
    let clock = Preloaded::slow_clock(bench.home)?;
    let mut fleet = Fleet::new(bench.home, bench.launches(), &Shape::named(HOSTS, ""))?;
    let numbers: Vec<u8> = fleet.numbers().collect();
    numbers.iter().for_each(|number| clock.load_into(&mut fleet, *number));
    fleet.start_all()?;
    let mut elections = Vec::new();
    let mut answered = 0;
    for round in 0..ROUNDS {
        fleet.await_all()?;
        let leader = fleet.leader()?;
        let others: Vec<u8> = numbers.iter().copied().filter(|number| *number != leader).collect();
        let path = format!("/frozen{round}");
        fleet.create(leader, &path, b"old")?;
        let (mut client, _) = RawClient::open(fleet.address(leader, Family::V4))?;
        client.set_patience(PATIENCE);
        stop(&fleet, leader)?;
        let stopped = Instant::now();
        client.queue(OpCode::Sync, |out| encode_path(&path, out));
        client.queue(OpCode::GetData, |out| {
            encode_path(&path, out);
            false.encode(out);
        });
        client.flush()?;
        elections.push(fleet.await_some(&others)?);
        set(&fleet, others[0], &path)?;
        stand_still(&clock, leader, stopped.elapsed())?;
        fleet.signal(leader, "CONT")?;
        let data = synced_data(&mut client);
        ensure!(data.as_deref() != Some(b"old"), "round {round}: a read behind a sync showed old data");
        answered += usize::from(data.is_some());
    }
    fleet.await_all()?;
    fleet.ensure_equal()?;
    let longest = elections.into_iter().max().unwrap_or_default();
    Ok(format!(
        "{ROUNDS} stops, a new leader after {longest:.1?} at most, {answered} syncs answered, none with old data"
    ))
}

/// Stops a server. Its threads stop one after the other; only when all have, it answers nothing.
pub(crate) fn stop(fleet: &Fleet, number: u8) -> Result<()> {
    fleet.signal(number, "STOP")?;
    let tasks = format!("/proc/{}/task", fleet.process(number)?);
    let is_stopped = |stat: String| {
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
    };
    await_that(PATIENCE, || {
        let mut tasks = fs::read_dir(&tasks)?;
        Ok(tasks.all(|task| {
            task.is_ok_and(|task| {
                is_stopped(fs::read_to_string(task.path().join("stat")).unwrap_or_default())
            })
        }))
    })
    .map(drop)
    .context("the server does not stop")
}

/// Sets the clock of a server back by the time that it stood still.
pub(crate) fn stand_still(clock: &Preloaded, number: u8, time: Duration) -> Result<()> {
    let file = clock.file(number);
    let behind = fs::read(&file)?.try_into().ok().context("the file of a clock has eight bytes")?;
    let behind = i64::from_ne_bytes(behind) + i64::try_from(time.as_nanos())?;
    Ok(fs::write(&file, behind.to_ne_bytes())?)
}

fn set(fleet: &Fleet, number: u8, path: &str) -> Result<()> {
    let (mut client, _) = RawClient::open(fleet.address(number, Family::V4))?;
    client.set_patience(PATIENCE);
    let request = SetDataRequest { path: Some(path.into()), data: Some((*b"new").into()), version: -1 };
    let (_, header, _) = client.call(OpCode::SetData, |out| request.encode(out))?;
    ensure!(header.err == 0, "setData was answered {}", header.err);
    Ok(())
}

fn encode_path(path: &str, out: &mut Vec<u8>) {
    zebu_proto::jute::encode_bytes(path.as_bytes(), out);
}

/// The data of a read behind a sync, if both are answered.
fn synced_data(client: &mut RawClient) -> Option<Vec<u8>> {
    let mut replies = Vec::new();
    while replies.len() < 2 {
        match client.receive_message().ok()? {
            Message::Reply { header, body } if header.err == 0 => replies.push(body),
            Message::Reply { .. } => return None,
            Message::Event { .. } => {}
        }
    }
    let response = GetDataResponse::decode(&mut Reader::new(&replies[1])).ok()?;
    response.data.map(|data| data.to_vec())
}
