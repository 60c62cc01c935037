//! Disks that fill up to less than `disk.stop`, on one server after the other and on all: no process ends,
//! writes go on where a quorum has room, and everything goes on without a restart when there is room again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zebu_proto::client::{CreateOp, CreateRequest, DeleteRequest};
use zebu_proto::{Acl, ErrorCode, Jute, OpCode};
use zebu_testing::RawClient;

use super::disks::fill;
use super::fleet::{Fleet, PATIENCE, Shape, await_that};
use super::lab::Family;
use super::links::{finish, pause_after, start_load};
use super::{Bench, HOSTS};

/// Megabytes of each disk.
const DISK_MB: u32 = 96;

/// Bytes that the filler leaves: less than `disk.stop`, and enough for the logs of a while.
const LEFT_BYTES: u64 = 10 << 20;

/// How long a disk stays full under load.
const FULL_FOR: Duration = Duration::from_secs(5);

/// Servers with small disks.
fn start(bench: &Bench) -> Result<(Fleet, Vec<PathBuf>)> {
    let marks = ["preAllocSize=64", "snapCount=2000", "disk.low=32", "disk.stop=16", "disk.reserve=4"];
    let shape = marks.iter().fold(Shape::named(HOSTS, ""), |shape, line| shape.with(line));
    let mut fleet = Fleet::new(bench.home, bench.launches(), &shape)?;
    let disks = fleet.numbers().map(|number| fleet.small_disk(number, DISK_MB)).collect::<Result<_>>()?;
    fleet.start_all()?;
    Ok((fleet, disks))
}

/// Fills a disk but for a few megabytes.
fn fill_up(disk: &Path) -> Result<PathBuf> {
    let filler = disk.join("filler");
    fill(&filler)?;
    let file = File::options().write(true).open(&filler)?;
    let length = file.metadata()?.len();
    file.set_len(length.checked_sub(LEFT_BYTES).context("the disk was full before")?)?;
    Ok(filler)
}

fn await_state(fleet: &Fleet, number: u8, state: &str) -> Result<()> {
    await_that(PATIENCE, || Ok(fleet.mntr(number, "zk_disk_state").as_deref() == Some(state)))
        .with_context(|| format!("server {number} does not get to disk_state {state}"))?;
    Ok(())
}

/// One server after the other has little room, the leader too. Writes go on, and a leader hands over.
pub(super) fn in_turn(bench: &Bench) -> Result<String> {
    let (fleet, disks) = start(bench)?;
    let load = start_load(&fleet)?;
    let mut hand_overs = 0;
    for (number, disk) in fleet.numbers().zip(&disks) {
        let led = fleet.leader()? == number;
        let filler = fill_up(disk)?;
        if led {
            await_that(PATIENCE, || Ok(fleet.leader().is_ok_and(|leader| leader != number)))
                .context("the leader with the full disk does not hand over")?;
            hand_overs += 1;
        }
        await_state(&fleet, number, "2")?;
        std::thread::sleep(FULL_FOR);
        pause_after(&load)?;
        fs::remove_file(filler)?;
        await_state(&fleet, number, "0")?;
    }
    ensure!(hand_overs > 0, "no leader had a full disk");
    let pause = pause_after(&load)?;
    finish(load, &fleet)?;
    Ok(format!("{hand_overs} hand-overs, longest time without a write {pause:.1?}"))
}

/// All disks have little room: what makes the tree larger is refused, deletes are not.
pub(super) fn on_all(bench: &Bench) -> Result<String> {
    let (fleet, disks) = start(bench)?;
    let load = start_load(&fleet)?;
    finish(load, &fleet)?;
    // No leader hands over if it is the last one whose disk fills up, so the client keeps its connection.
    let leader = fleet.leader()?;
    let others: Vec<u8> = fleet.numbers().filter(|number| *number != leader).collect();
    let (mut client, _) = RawClient::open(fleet.address(others[0], Family::V4))?;
    client.set_patience(PATIENCE);
    for path in ["/before", "/doomed"] {
        ensure!(create(&mut client, path)?.is_none(), "{path} was refused");
    }
    let order = others.iter().chain([&leader]).map(|number| &disks[usize::from(*number) - 1]);
    let fillers = order.map(|disk| fill_up(disk)).collect::<Result<Vec<_>>>()?;
    let mut number = 0;
    await_that(PATIENCE, || {
        number += 1;
        Ok(create(&mut client, &format!("/growth{number}"))? == Some(ErrorCode::SystemError.wire()))
    })
    .context("nothing was refused although all disks are full")?;
    ensure!(delete(&mut client, "/doomed")?.is_none(), "a delete was refused");
    ensure!(fleet.ask(leader, "ruok").as_deref().map(str::trim) == Some("imok"), "ruok is not answered");
    for filler in fillers {
        fs::remove_file(filler)?;
    }
    await_that(PATIENCE, || {
        number += 1;
        Ok(create(&mut client, &format!("/growth{number}"))?.is_none())
    })
    .context("writes are refused although there is room")?;
    for number in fleet.numbers() {
        await_state(&fleet, number, "0")?;
    }
    fleet.ensure_equal()?;
    Ok(format!("refused after {number} writes at most, accepted again without a restart"))
}

/// Creates a node; the error code if it is refused.
fn create(client: &mut RawClient, path: &str) -> Result<Option<i32>> {
    let request = CreateRequest {
        op: CreateOp::Create,
        path: Some(path.into()),
        data: Some(vec![7; 1000].into()),
        acl: Some(Acl::open().into()),
        flags: 0,
        ttl_ms: -1,
    };
    call(client, OpCode::Create, |out| request.encode(out))
}

fn delete(client: &mut RawClient, path: &str) -> Result<Option<i32>> {
    let request = DeleteRequest { path: Some(path.into()), version: -1 };
    call(client, OpCode::Delete, |out| request.encode(out))
}

fn call(client: &mut RawClient, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Result<Option<i32>> {
    let (_, header, _) = client.call(op, body)?;
    Ok(Some(header.err).filter(|code| *code != 0))
}
