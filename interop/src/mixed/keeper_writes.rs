//! Writes of ClickHouse Keeper in an ensemble with Apache. Under a Zebu leader Apache applies what they
//! became, and every directory starts as Apache afterwards. Under an Apache leader they are refused.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use zebu_proto::client::{
    CheckRequest, CheckStatRequest, CreateRequest, DeleteRequest, KeeperCheck, KeeperPart, KeeperWrite,
    MultiOp, RemoveRecursiveRequest, WriteRequest,
};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, Stat};
use zebu_testing::raw::{Received, TIME_LIMIT};
use zebu_testing::{Message, RawClient};

use super::agree;
use super::fleet::{Fleet, Server, Signal, Vote};
use super::poison::goes_on;
use super::writes::{SESSION_MS, create};
use crate::apache::Edition;
use crate::client::Client;
use crate::outcome;

/// At equal histories the highest number with a vote leads.
const TESTED: usize = 2;
const OBSERVER: usize = 3;

/// Requests that are sent before the answers are read.
const IN_FLIGHT: usize = 100;

/// The bits of feature flags that need a leader that is Zebu.
const WRITE_FLAGS: [u8; 2] = [0b0011_1010, 0b0100_0000];

/// The first fault ends it.
pub(super) fn run(home: &Path, editions: &[Edition], tested: &Server, count: usize) -> Result<()> {
    let apache = |index: usize| editions.get(index).or(editions.last()).cloned().map(Server::Apache);
    let first = apache(0).context("no release of Apache is named")?;
    let second = apache(1).context("no release of Apache is named")?;
    let mut fleet = Fleet::new(
        home,
        vec![
            (first, Vote::Participant),
            (second.clone(), Vote::Participant),
            (tested.clone(), Vote::Participant),
            (tested.clone(), Vote::Observer),
        ],
    )?;
    type Step = fn(&mut Fleet, &Server, usize) -> Result<()>;
    let steps: [(&str, Step); 3] = [
        ("Apache follows through writes of Keeper", under_zebu),
        ("an Apache leader gets no write of Keeper", under_apache),
        ("all directories start as Apache", as_apache),
    ];
    for (name, step) in steps {
        match step(&mut fleet, &second, count) {
            Ok(()) => {
                outcome::ok(name);
            }
            Err(fault) => {
                outcome::not_ok(name, &fault);
                println!("{}", fleet.last_words());
                return Err(fault);
            }
        }
    }
    Ok(())
}

fn under_zebu(fleet: &mut Fleet, _: &Server, count: usize) -> Result<()> {
    (0..fleet.len()).try_for_each(|index| fleet.start(index))?;
    let (leader, _) = fleet.await_service()?;
    ensure!(leader == TESTED, "member {} leads", leader + 1);
    for (member, share) in [(TESTED, count / 2), (OBSERVER, count - count / 2)] {
        ensure!(shows_writes(fleet, member)?, "member {} hides its features", member + 1);
        write(fleet, member, share)?;
    }
    fleet.await_equal_zxids()?;
    let agreement = agree::compare(fleet)?;
    println!(
        "  {count} writes of Keeper: {} nodes and {} digests are equal on all members",
        agreement.nodes, agreement.digests
    );
    Ok(())
}

fn under_apache(fleet: &mut Fleet, _: &Server, _: usize) -> Result<()> {
    fleet.signal(TESTED, Signal::Terminate)?;
    let (leader, _) = fleet.await_service()?;
    fleet.start(TESTED)?;
    fleet.await_service()?;
    ensure!(!fleet.server(leader).is_zebu(), "member {} leads", leader + 1);
    for member in [TESTED, OBSERVER] {
        ensure!(!shows_writes(fleet, member)?, "member {} shows what its leader does not have", member + 1);
        for request in requests("/refused", 10) {
            expect_refused(fleet, member, &request)?;
        }
        for other in 0..fleet.len() {
            ensure!(goes_on(fleet.address(other)), "nothing can be written at member {} any more", other + 1);
        }
    }
    fleet.await_equal_zxids()?;
    agree::compare(fleet).map(|_| ())
}

fn as_apache(fleet: &mut Fleet, apache: &Server, _: usize) -> Result<()> {
    for index in 0..fleet.len() {
        fleet.signal(index, Signal::Terminate)?;
        if fleet.server(index).is_zebu() {
            fleet.hand_over(index, apache.clone());
        }
    }
    (0..fleet.len()).try_for_each(|index| fleet.start(index))?;
    fleet.await_service()?;
    // A member shows the last transaction of its leader when there is a new one.
    ensure!(goes_on(fleet.address(0)), "nothing can be written at Apache");
    fleet.await_equal_zxids()?;
    // Directories of Zebu do not have the text of the configuration, and those of Apache keep it.
    let agreement = agree::compare_but(fleet, &|path| path == "/zookeeper/config")?;
    ensure!(agreement.nodes > 10, "only {} nodes are left", agreement.nodes);
    Ok(())
}

/// Sends writes through one member, and checks every answer.
fn write(fleet: &Fleet, member: usize, count: usize) -> Result<()> {
    let mut client = Client::open(fleet.address(member), SESSION_MS)?;
    let top = format!("/keeper-writes-{member}");
    client.write(&WriteRequest::Create(create(&top, 0, "")))?;
    for batch in requests(&top, count).chunks(IN_FLIGHT) {
        batch.iter().for_each(|request| client.queue_write(request));
        client.flush()?;
        for request in batch {
            let (header, body) = client.reply()?;
            let answer = crate::client::answer(request, &header, &body)?;
            let expected = expected_error(request);
            ensure!(answer.error == expected, "{request:?} was answered {header:?}, not {expected}");
        }
    }
    client.write(&WriteRequest::CloseSession)?;
    Ok(())
}

/// Each kind of request, with an effect and without one, alone and in a multi.
fn requests(top: &str, count: usize) -> Vec<WriteRequest> {
    let request = |number: usize| {
        let node = format!("{top}/n{}", number / 10);
        match number % 10 {
            0 => alone(create_if_not_exists(&node, 0)),
            1 => alone(create_if_not_exists(&node, 0)),
            2 => alone(try_remove(&node, 7)),
            3 => WriteRequest::Multi(vec![
                not_exists("/none", -1),
                MultiOp::Create(create(&format!("{node}/a"), 0, "x")),
                part(create_if_not_exists(&format!("{node}/a/b"), 0)),
                part(create_if_not_exists(&format!("{node}/e"), 1)),
                stat_of_any(&node),
                part(try_remove("/none", -1)),
            ]),
            4 => alone(try_remove(&node, -1)),
            5 => WriteRequest::Multi(vec![
                part(remove_recursive(&node, 100)),
                part(create_if_not_exists(&node, 0)),
                not_exists(&format!("{node}/a"), -1),
                part(create_if_not_exists(&format!("{node}/c"), 0)),
            ]),
            6 => WriteRequest::Multi(vec![part(remove_recursive(&node, 100)), not_exists("/", -1)]),
            7 if number % 20 == 7 => alone(remove_recursive(&node, 2)),
            7 => alone(try_remove(&format!("{node}/c"), 0)),
            8 => alone(remove_recursive("/none", 1)),
            _ => alone(remove_recursive("/zookeeper", 1)),
        }
    };
    (0..count).map(request).collect()
}

fn expected_error(request: &WriteRequest) -> i32 {
    match request {
        WriteRequest::Keeper(write) if write.path().as_deref() == Some("/zookeeper") => {
            ErrorCode::BadArguments.wire()
        }
        WriteRequest::Multi(ops) if ops.last().is_some_and(|op| op.path().as_deref() == Some("/")) => {
            ErrorCode::NodeExists.wire()
        }
        _ => 0,
    }
}

fn alone(write: KeeperWrite) -> WriteRequest {
    WriteRequest::Keeper(Box::new(write))
}

fn part(write: KeeperWrite) -> MultiOp {
    MultiOp::Keeper(Box::new(KeeperPart::Write(write)))
}

fn create_if_not_exists(path: &str, flags: i32) -> KeeperWrite {
    KeeperWrite::CreateIfNotExists(CreateRequest { ..create(path, flags, "") })
}

fn try_remove(path: &str, version: i32) -> KeeperWrite {
    KeeperWrite::TryRemove(DeleteRequest { path: Some(path.into()), version })
}

fn remove_recursive(path: &str, limit: u32) -> KeeperWrite {
    KeeperWrite::RemoveRecursive(RemoveRecursiveRequest { path: Some(path.into()), limit })
}

fn not_exists(path: &str, version: i32) -> MultiOp {
    let check = KeeperCheck::NotExists(CheckRequest { path: Some(path.into()), version });
    MultiOp::Keeper(Box::new(KeeperPart::Check(check)))
}

/// Requires version 0 and no other field.
fn stat_of_any(path: &str) -> MultiOp {
    let stat = Stat {
        czxid: -1,
        mzxid: -1,
        ctime: -1,
        mtime: -1,
        version: 0,
        cversion: -1,
        aversion: -1,
        ephemeral_owner: -1,
        data_length: -1,
        num_children: -1,
        pzxid: -1,
    };
    let check = CheckStatRequest { path: Some(path.into()), version: -1, stat };
    MultiOp::Keeper(Box::new(KeeperPart::Check(KeeperCheck::Stat(Box::new(check)))))
}

/// Whether a member says that it takes writes of Keeper; it shows all of them or none.
fn shows_writes(fleet: &Fleet, member: usize) -> Result<bool> {
    let (mut raw, _) = RawClient::open(fleet.address(member))?;
    let (_, header, body) = raw.call(OpCode::GetData, |out| {
        encode_bytes(b"/keeper/feature_flags", out);
        false.encode(out);
    })?;
    ensure!(header.err == 0, "the flags of member {} were answered {header:?}", member + 1);
    let flags = Reader::new(&body).buffer()?.unwrap_or_default();
    let shown: Vec<u8> = flags.iter().zip(WRITE_FLAGS).map(|(byte, writes)| byte & writes).collect();
    ensure!(shown == WRITE_FLAGS || shown == [0, 0], "member {} shows {flags:02x?}", member + 1);
    Ok(shown == WRITE_FLAGS)
}

/// UNIMPLEMENTED and the end of the connection. Only multis without a part of Keeper go on.
fn expect_refused(fleet: &Fleet, member: usize, request: &WriteRequest) -> Result<()> {
    let (mut raw, _) = RawClient::open(fleet.address(member))?;
    let op = match request {
        WriteRequest::Keeper(write) => write.op(),
        _ => OpCode::Multi,
    };
    raw.send(op, |out| crate::client::encode(request, out))?;
    let reply = raw.receive_message()?;
    let Message::Reply { header, .. } = &reply else { anyhow::bail!("{request:?} was answered {reply:?}") };
    ensure!(header.err == ErrorCode::Unimplemented.wire(), "{request:?} was answered {header:?}");
    let then = raw.receive(TIME_LIMIT)?;
    ensure!(then == Received::Closed, "after {request:?} came {then:?}");
    Ok(())
}
