//! A client as ZooKeeper has them: it reads behind a sync, in one pipeline on one connection.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zebu_proto::client::SetDataRequest;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::jute::encode_bytes;
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, Stat};
use zebu_testing::{Message, RawClient};

use super::history::{self, Kind, Operation, Outcome};
use super::worker::{Draws, Shared};

/// How long an answer may take before the connection is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(10);

/// Works until the history ends. `first` is the server that it tries first.
pub(super) fn work(
    shared: &Shared,
    servers: &[SocketAddr],
    first: usize,
    draws: &mut Draws,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut connection = None;
    let mut attempts = first;
    while !shared.stop.load(Ordering::Acquire) && operations.len() < shared.operations_max {
        let Some(client) = &mut connection else {
            connection = connect(servers[attempts % servers.len()]).ok();
            attempts += usize::from(connection.is_none());
            std::thread::sleep(RETRY);
            continue;
        };
        match operate(client, shared, draws) {
            Ok(operation) => operations.push(operation),
            Err(unanswered) => {
                operations.extend(unanswered);
                connection = None;
                attempts += 1;
            }
        }
        std::thread::sleep(draws.pause());
    }
    operations
}

fn connect(server: SocketAddr) -> Result<RawClient> {
    let mut client = RawClient::connect(server)?;
    client.set_patience(PATIENCE);
    let response = client.handshake(&zebu_testing::raw::new_session_request())?;
    ensure!(response.session_id != 0, "{server} refused a new session");
    Ok(client)
}

/// One operation; the error is one without an answer, if it can have an effect.
fn operate(
    client: &mut RawClient,
    shared: &Shared,
    draws: &mut Draws,
) -> Result<Operation, Option<Operation>> {
    let call = draws.call(shared);
    let path = &shared.paths[call.node];
    if call.kind == Kind::Read {
        let (value, version) = synced_read(client, path).map_err(|_| None)?;
        draws.seen(call.node, version);
        return Ok(call.answered(value, version, Outcome::Ok, shared.began));
    }
    let value = draws.fresh_value(call.client);
    let wanted = draws.wanted_version(&call);
    match set(client, path, value, wanted.unwrap_or(-1)) {
        Ok(Ok(stat)) => {
            draws.seen(call.node, stat.version);
            Ok(call.answered(value, wanted.unwrap_or(stat.version), Outcome::Ok, shared.began))
        }
        Ok(Err(code)) if code == ErrorCode::BadVersion.wire() => {
            Ok(call.answered(value, wanted.unwrap_or_default(), Outcome::BadVersion, shared.began))
        }
        Ok(Err(_)) | Err(_) => Err(Some(call.unanswered(value, wanted.unwrap_or_default()))),
    }
}

fn synced_read(client: &mut RawClient, path: &str) -> Result<(i64, i32)> {
    client.queue(OpCode::Sync, |out| encode_bytes(path.as_bytes(), out));
    client.queue(OpCode::GetData, |out| {
        encode_bytes(path.as_bytes(), out);
        false.encode(out);
    });
    client.flush()?;
    reply(client)?;
    let body = reply(client)?;
    let response = GetDataResponse::decode(&mut Reader::new(&body))?;
    let data = response.data.context("a node without data")?;
    Ok((history::value(&data).context("data of another form")?, response.stat.version))
}

/// The body of the next reply, which is no error.
fn reply(client: &mut RawClient) -> Result<Vec<u8>> {
    loop {
        if let Message::Reply { header, body } = client.receive_message()? {
            ensure!(header.err == 0, "answered {}", header.err);
            return Ok(body);
        }
    }
}

/// A setData; the inner result is the server's answer.
fn set(client: &mut RawClient, path: &str, value: i64, version: i32) -> Result<Result<Stat, i32>> {
    let request =
        SetDataRequest { path: Some(path.into()), data: Some(history::data(value).into()), version };
    let (_, header, body) = client.call(OpCode::SetData, |out| request.encode(out))?;
    Ok(match header.err {
        0 => Ok(Stat::decode(&mut Reader::new(&body))?),
        code => Err(code),
    })
}
