//! What would be too long as a transaction, under a Zebu that leads servers of Apache: they read no more than
//! `jute.maxbuffer` and as much again, and an ensemble that sends them more has no leader any more.

use std::time::Duration;

use anyhow::{Result, ensure};
use zebu_proto::client::{CreateOp, CreateRequest, MultiOp, WriteRequest};
use zebu_proto::jute::encode_bytes;
use zebu_proto::{Acl, ErrorCode, Jute, OpCode};

use super::fleet::Fleet;
use super::poison::goes_on;
use super::writes::SESSION_MS;
use crate::client::Client;

/// Ephemeral nodes of one session whose paths do not fit into one transaction.
const EPHEMERALS: usize = 2_500;

/// How long their names are; a shorter session with more nodes would only take longer.
const NAME_BYTES: usize = 1_000;

/// Creates in one multi.
const MULTI: usize = 500;

/// How long a request may take while nothing is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// The flag of an ephemeral node.
const EPHEMERAL: i32 = 1;

/// A session with very many ephemeral nodes ends, through each of these members.
pub(super) fn end_sessions(fleet: &Fleet, members: &[usize]) -> Result<()> {
    for &member in members {
        let parent = format!("/long-{member}");
        let mut client = open(fleet, member)?;
        call(&mut client, &WriteRequest::Create(create(&parent, 0, Acl::open())))?;
        for first in (0..EPHEMERALS).step_by(MULTI) {
            let path = |number| format!("{parent}/{number:06}{}", "x".repeat(NAME_BYTES));
            let op = |number| MultiOp::Create(create(&path(number), EPHEMERAL, Acl::open()));
            call(&mut client, &WriteRequest::Multi((first..first + MULTI).map(op).collect()))?;
        }
        call(&mut client, &WriteRequest::CloseSession)?;
        fleet.await_equal_zxids()?;
        for other in 0..fleet.len() {
            if fleet.is_up(other) {
                ensure!(
                    goes_on(fleet.address(other)),
                    "nothing can be written at member {} any more",
                    other + 1
                );
            }
        }
        fleet.await_equal_zxids()?;
    }
    Ok(())
}

/// An ACL that stands for more than fits into a transaction is refused, through each of these members.
pub(super) fn refuse_lists(fleet: &Fleet, members: &[usize]) -> Result<()> {
    for &member in members {
        let mut client = open(fleet, member)?;
        for letter in ["a", "b", "c"] {
            client.queue(OpCode::Auth, |out| {
                0i32.encode(out);
                encode_bytes(b"digest", out);
                encode_bytes(format!("{}:x", letter.repeat(300_000)).as_bytes(), out);
            });
            client.flush()?;
            client.reply()?;
        }
        let auth = (1..=3).map(|perms| Acl::new(perms, "auth", "")).collect();
        let code = client.write(&WriteRequest::Create(create("/too-long", 0, auth)))?.error;
        ensure!(code == ErrorCode::MarshallingError.wire(), "a list that is too long was answered {code}");
        ensure!(goes_on(fleet.address(member)), "nothing can be written at member {} any more", member + 1);
    }
    Ok(())
}

fn open(fleet: &Fleet, member: usize) -> Result<Client> {
    let mut client = Client::open(fleet.address(member), SESSION_MS)?;
    client.set_patience(PATIENCE);
    Ok(client)
}

fn create(path: &str, flags: i32, acl: Vec<Acl>) -> CreateRequest {
    let data = Some([].as_slice().into());
    CreateRequest {
        op: CreateOp::Create,
        path: Some(path.into()),
        data,
        acl: Some(acl.into()),
        flags,
        ttl_ms: -1,
    }
}

fn call(client: &mut Client, request: &WriteRequest) -> Result<()> {
    let code = client.write(request)?.error;
    ensure!(code == 0, "a request was answered {code}");
    Ok(())
}
