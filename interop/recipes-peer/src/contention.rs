//! The room that only holders enter: who is in it, and whether it was ever too many. Holders of both
//! libraries use the same nodes, so that one finds out what the other does wrong.

use std::time::Duration;

use anyhow::{bail, ensure};
use zebu_client::{ErrorCode, Retry, Version};
use zebu_recipes::{Fenced, LeaderLatch, Ownership, is_fenced_out};

use crate::verbs::Peer;

/// Takes and releases something again and again. In between it is in the room: an ephemeral node
/// `NAME-<number>`, and with a limit of one also a letter in the log beside it, written under the fence.
pub(crate) async fn contend(
    peer: &Peer,
    kind: &str,
    path: &str,
    room: &str,
    rounds: u32,
    limit: usize,
    name: &str,
) -> anyhow::Result<String> {
    let mut most = 0;
    let mut token = 0;
    for _ in 0..rounds {
        let inside = match kind {
            "mutex" => {
                let guard = peer.mutex(path).acquire().await?;
                ensure!(guard.token().0 > token, "tokens rise");
                token = guard.token().0;
                let inside = visit(peer, room, limit, name).await?;
                note(&guard, peer, room, name).await?;
                guard.release().await?;
                inside
            }
            "write" => {
                let guard = peer.rw_lock(path).write().await?;
                let inside = visit(peer, room, 1, "w").await?;
                note(&guard, peer, room, name).await?;
                guard.release().await?;
                inside
            }
            "read" => {
                let guard = peer.rw_lock(path).read().await?;
                let inside = visit(peer, room, limit, "r").await?;
                guard.release().await?;
                inside
            }
            "semaphore" => {
                let permit = peer.semaphore(path, u32::try_from(limit)?).acquire().await?;
                let inside = visit(peer, room, limit, name).await?;
                permit.release().await?;
                inside
            }
            other => bail!("no such lock: {other}"),
        };
        most = most.max(inside);
    }
    Ok(most.to_string())
}

/// How many were in the room at most, while we were.
async fn visit(peer: &Peer, room: &str, limit: usize, name: &str) -> anyhow::Result<usize> {
    let client = &peer.client;
    let own = client.create(&format!("{room}/{name}-")).ephemeral().sequential().await?;
    let mut most = 0;
    for _ in 0..2 {
        let names = client.children(room).await?.names;
        ensure!(names.len() <= limit, "too many at once: {names:?}");
        let writers = names.iter().filter(|name| name.starts_with("w-")).count();
        ensure!(writers == 0 || names.len() == 1, "a writer is not alone: {names:?}");
        most = most.max(names.len());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    client.delete(&own.path).await?;
    Ok(most)
}

async fn note(guard: &impl Fenced, peer: &Peer, room: &str, name: &str) -> anyhow::Result<()> {
    let log = format!("{room}-log");
    let node = peer.client.get(&log).await?;
    let mut data = node.data.to_vec();
    data.extend_from_slice(name.as_bytes());
    let mut transaction = guard.transaction();
    transaction.set(&log, data, Version::Exactly(node.stat.version));
    transaction.await?;
    Ok(())
}

/// Takes something so many times and writes a line into the log each time, whatever servers and sessions do:
/// a round that was lost before its line was written is done again.
pub(crate) async fn endure(
    peer: &Peer,
    kind: &str,
    path: &str,
    log: &str,
    rounds: u32,
    name: &str,
) -> anyhow::Result<String> {
    let mut lost = 0;
    for round in 0..rounds {
        let entry = format!("{name}.{round}");
        loop {
            let written = match kind {
                "mutex" => {
                    let guard = peer.mutex(path).acquire().await?;
                    let written = append(peer, &guard, log, &entry).await?;
                    guard.release().await?;
                    written
                }
                "write" => {
                    let guard = peer.rw_lock(path).write().await?;
                    let written = append(peer, &guard, log, &entry).await?;
                    guard.release().await?;
                    written
                }
                "semaphore" => {
                    let permit = peer.semaphore(path, 1).acquire().await?;
                    let written = append(peer, &permit, log, &entry).await?;
                    permit.release().await?;
                    written
                }
                "latch" => {
                    let latch = LeaderLatch::join(&peer.client, path, name);
                    let written = append(peer, &latch.lead().await?, log, &entry).await?;
                    latch.leave().await?;
                    written
                }
                other => bail!("no such lock: {other}"),
            };
            if written {
                break;
            }
            lost += 1;
        }
    }
    Ok(lost.to_string())
}

/// Appends a line with the fencing token; `false` if the ownership is lost and the line was certainly not
/// written. A change of the log by another client between read and write is an error: the holder is alone.
async fn append(peer: &Peer, guard: &impl Fenced, log: &str, entry: &str) -> anyhow::Result<bool> {
    let client = &peer.client;
    let mut unknown = false;
    // Time for another client to interfere.
    tokio::time::sleep(Duration::from_millis(5)).await;
    loop {
        client.sync(log).await?;
        let node = client.get(log).await?;
        let text = String::from_utf8_lossy(&node.data);
        if text.split(';').any(|line| line.starts_with(&format!("{entry}:"))) {
            ensure!(unknown, "{entry} was written by somebody else");
            return Ok(true);
        }
        if guard.check().is_err() {
            return Ok(false);
        }
        let mut transaction = guard.transaction();
        let line = format!("{text}{entry}:{};", guard.token().0);
        transaction.set(log, line, Version::Exactly(node.stat.version));
        match transaction.retry(Retry::Never).await {
            Ok(_) => return Ok(true),
            Err(error) if is_fenced_out(&error, 0) => {
                if !unknown {
                    return Ok(false);
                }
            }
            Err(error) if error.code() == Some(ErrorCode::BadVersion) => {
                ensure!(unknown, "{entry}: somebody writes while we hold it");
            }
            Err(error) if error.is_ambiguous() => unknown = true,
            Err(error) if error.is_not_sent() => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(error.into()),
        }
    }
}
