//! A write that does not decode, sent to a Zebu that follows Apache. Apache 3.9 as a leader stops its whole
//! ensemble over such a request, so a member that lets it through is a danger.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use zebu_proto::client::WriteRequest;
use zebu_proto::{ErrorCode, OpCode};
use zebu_testing::RawClient;

use super::fleet::Fleet;
use super::writes::{SESSION_MS, create};
use crate::client::Client;

/// How long a write may take while nothing is wrong. One that is stuck is stuck for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bodies that are no request, by the operation that they pretend to be.
fn poisons() -> Vec<(&'static str, OpCode, Vec<u8>)> {
    let path = |bytes: &mut Vec<u8>| {
        bytes.extend(2i32.to_be_bytes());
        bytes.extend(b"/p");
    };
    let mut cut_create = Vec::new();
    path(&mut cut_create);
    let mut long_data = Vec::new();
    path(&mut long_data);
    long_data.extend(1_000_000i32.to_be_bytes());
    let mut no_acl_in_multi = Vec::new();
    // One create with a null list of ACLs, then the end of the multi.
    no_acl_in_multi.extend(OpCode::Create.wire().to_be_bytes());
    no_acl_in_multi.push(0);
    no_acl_in_multi.extend((-1i32).to_be_bytes());
    path(&mut no_acl_in_multi);
    no_acl_in_multi.extend(0i32.to_be_bytes());
    no_acl_in_multi.extend((-1i32).to_be_bytes());
    no_acl_in_multi.extend(0i32.to_be_bytes());
    no_acl_in_multi.extend((-1i32).to_be_bytes());
    no_acl_in_multi.push(1);
    no_acl_in_multi.extend((-1i32).to_be_bytes());
    vec![
        ("an empty create", OpCode::Create, Vec::new()),
        ("a create that ends behind its path", OpCode::Create2, cut_create.clone()),
        ("a set with less data than it says", OpCode::SetData, long_data),
        ("a delete without a version", OpCode::Delete, cut_create.clone()),
        ("a setACL without a list", OpCode::SetAcl, cut_create),
        ("an empty multi without an end", OpCode::Multi, Vec::new()),
        ("a multi with a null list of ACLs", OpCode::Multi, no_acl_in_multi),
        ("an empty reconfig", OpCode::Reconfig, Vec::new()),
    ]
}

/// Sends all of them through one member; says how many.
pub(super) fn send_through(fleet: &Fleet, member: usize, leader: usize) -> Result<usize> {
    let poisons = poisons();
    let (mut raw, _) = RawClient::open(fleet.address(member))?;
    for (what, op, body) in &poisons {
        raw.send(*op, |out| out.extend(body))?;
        let reply = raw.receive_message()?;
        let zebu_testing::Message::Reply { header, .. } = &reply else {
            anyhow::bail!("{what} was answered {reply:?}")
        };
        ensure!(header.err != 0, "{what} was carried out: {header:?}");
        ensure!(
            header.err == ErrorCode::MarshallingError.wire() || !fleet.server(member).is_zebu(),
            "{what} was answered {header:?}"
        );
        // Both go on, each with a new session.
        for address in [fleet.address(member), fleet.address(leader)] {
            ensure!(goes_on(address), "after {what} nothing can be written at {address} any more");
        }
    }
    Ok(poisons.len())
}

/// Whether a new session gets a write through.
pub(super) fn goes_on(address: SocketAddr) -> bool {
    let attempt = || -> Result<()> {
        let mut client = Client::open(address, SESSION_MS)?;
        client.set_patience(PATIENCE);
        client.write(&WriteRequest::Create(create("/after-poison-", 2, "")))?;
        client.write(&WriteRequest::CloseSession)?;
        Ok(())
    };
    attempt().is_ok()
}

/// The same request straight to Apache: whether its ensemble is stuck afterwards.
pub(super) fn stops_apache(fleet: &Fleet, leader: usize) -> Result<bool> {
    let (mut raw, _) = RawClient::open(fleet.address(leader))?;
    raw.send(OpCode::Create, |_| {})?;
    // The answer is of no interest; it may never come.
    let _ = raw.receive(Duration::from_secs(1));
    let mut other = RawClient::connect(fleet.address(leader))?;
    other.set_patience(PATIENCE);
    Ok(other.handshake(&zebu_testing::raw::new_session_request()).is_err())
}
