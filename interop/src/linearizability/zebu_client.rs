//! A client of the crate `zebu-client`: its reads are linearizable by themselves, and it finds its way from
//! server to server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use zebu_client::{Client, ErrorCode, ErrorKind, Retry, Version};

use super::history::{self, Kind, Operation, Outcome};
use super::worker::{Draws, Shared};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Works until the history ends.
pub(super) fn work(shared: &Shared, servers: &str, draws: &mut Draws) -> Result<Vec<Operation>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(servers).await.context("cannot connect")?;
        let mut operations = Vec::new();
        while !shared.stop.load(Ordering::Acquire) && operations.len() < shared.operations_max {
            operations.extend(operate(&client, shared, draws).await);
            tokio::time::sleep(draws.pause()).await;
        }
        // A client that finds no server in time leaves its session to its timeout.
        let _ = tokio::time::timeout(PATIENCE, client.close()).await;
        Ok(operations)
    })
}

/// One operation, if it can show anything or have an effect.
async fn operate(client: &Client, shared: &Shared, draws: &mut Draws) -> Option<Operation> {
    let call = draws.call(shared);
    let path = &shared.paths[call.node];
    if call.kind == Kind::Read {
        let read = client.get(path).linearizable();
        let node = tokio::time::timeout(PATIENCE, read).await.ok()?.ok()?;
        draws.seen(call.node, node.stat.version);
        let value = history::value(&node.data)?;
        return Some(call.answered(value, node.stat.version, Outcome::Ok, shared.began));
    }
    let value = draws.fresh_value(call.client);
    let wanted = draws.wanted_version(&call);
    let version = wanted.map_or(Version::Any, Version::Exactly);
    let write = client.set(path, history::data(value).to_vec()).version(version).retry(Retry::Never);
    match tokio::time::timeout(PATIENCE, write).await {
        Ok(Ok(stat)) => {
            draws.seen(call.node, stat.version);
            Some(call.answered(value, wanted.unwrap_or(stat.version), Outcome::Ok, shared.began))
        }
        Ok(Err(error)) if error.code() == Some(ErrorCode::BadVersion) => {
            Some(call.answered(value, wanted.unwrap_or_default(), Outcome::BadVersion, shared.began))
        }
        Ok(Err(error)) if matches!(error.kind(), ErrorKind::NotSent(_)) => None,
        Ok(Err(_)) | Err(_) => Some(call.unanswered(value, wanted.unwrap_or_default())),
    }
}
