//! The writes to a mixed ensemble: every kind of transaction, including error transactions.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use zebu_proto::client::{CreateOp, CreateRequest, DeleteRequest, MultiOp, SetDataRequest, WriteRequest};
use zebu_proto::{Acl, ErrorCode};

use crate::client::Client;

/// The timeout of sessions here: longer than any step takes.
pub(super) const SESSION_MS: i32 = 60_000;

/// Requests that are sent before the answers are read.
const IN_FLIGHT: usize = 100;

/// Bytes of a large node.
const LARGE_DATA: usize = 4096;

/// Makes numbers for names, so that no two steps write the same node.
#[derive(Debug, Default)]
pub(super) struct Writes {
    next: usize,
}

impl Writes {
    /// Writes through one member and waits for all answers.
    pub(super) fn write(&mut self, address: SocketAddr, count: usize) -> Result<()> {
        let requests: Vec<WriteRequest> = (0..count).map(|_| self.next_request()).collect();
        send(address, &requests)
    }

    /// Makes nodes with so much data that a whole state takes its time.
    pub(super) fn make_large(address: SocketAddr, count: usize) -> Result<()> {
        let data = "x".repeat(LARGE_DATA);
        let make = |number| WriteRequest::Create(create(&format!("/large{number}"), 0, &data));
        let requests: Vec<WriteRequest> = (0..count).map(make).collect();
        send(address, &requests)
    }

    /// Changes all of these nodes, as long as it is told to go on.
    pub(super) fn change_large(address: SocketAddr, count: usize, goes_on: impl Fn() -> bool) -> Result<()> {
        let change = |number: usize| {
            let path = Some(format!("/large{}", number % count).into());
            let data = format!("{number:LARGE_DATA$}").into_bytes();
            WriteRequest::SetData(SetDataRequest { path, data: Some(data.into()), version: -1 })
        };
        let mut first = 0;
        while goes_on() {
            let requests: Vec<WriteRequest> = (first..first + IN_FLIGHT).map(change).collect();
            send(address, &requests)?;
            first += IN_FLIGHT;
        }
        Ok(())
    }

    fn next_request(&mut self) -> WriteRequest {
        self.next += 1;
        let (number, path) = (self.next, format!("/m{}", self.next));
        match number % 8 {
            0 => WriteRequest::SetData(SetDataRequest {
                path: Some(format!("/m{}", number - 7).into()),
                data: Some(number.to_string().into_bytes().into()),
                version: -1,
            }),
            3 => WriteRequest::Delete(DeleteRequest { path: Some(NOWHERE.into()), version: -1 }),
            4 => WriteRequest::Multi(vec![
                MultiOp::Create(create(&path, 0, "multi")),
                MultiOp::Create(create(&format!("{path}/child"), 0, "")),
            ]),
            5 => WriteRequest::Create(create(&path, 1, "ephemeral")),
            6 => WriteRequest::Create(create(&path, 2, "sequential")),
            7 => WriteRequest::Delete(DeleteRequest {
                path: Some(format!("/m{}", number - 5).into()),
                version: -1,
            }),
            _ => WriteRequest::Create(create(&path, 0, &"x".repeat(number % 300))),
        }
    }
}

/// Sends requests with many in flight, and checks every answer.
fn send(address: SocketAddr, requests: &[WriteRequest]) -> Result<()> {
    let mut client = Client::open(address, SESSION_MS)?;
    for batch in requests.chunks(IN_FLIGHT) {
        batch.iter().for_each(|request| client.queue_write(request));
        client.flush()?;
        for request in batch {
            let (header, _) = client.reply()?;
            let expected = if fails(request) { ErrorCode::NoNode.wire() } else { 0 };
            ensure!(header.err == expected, "{request:?} was answered {header:?}");
        }
    }
    client.write(&WriteRequest::CloseSession)?;
    Ok(())
}

const NOWHERE: &str = "/nowhere";

fn fails(request: &WriteRequest) -> bool {
    matches!(request, WriteRequest::Delete(delete) if delete.path.as_deref() == Some(NOWHERE))
}

/// A create with the open ACL.
pub(super) fn create(path: &str, flags: i32, data: &str) -> CreateRequest {
    CreateRequest {
        op: CreateOp::Create,
        path: Some(path.into()),
        data: Some(data.as_bytes().into()),
        acl: Some(Acl::open().into()),
        flags,
        ttl_ms: -1,
    }
}
