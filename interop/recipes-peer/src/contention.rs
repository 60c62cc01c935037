//! The room that only holders enter: who is in it, and whether it was ever too many. Holders of both libraries use
//! the same nodes, so that one finds out what the other does wrong.

use std::time::Duration;

use anyhow::{bail, ensure};
use zebu_client::Version;
use zebu_recipes::{Fenced, Held};

use crate::verbs::Peer;

/// Takes and releases something again and again. In between it is in the room: an ephemeral node `NAME-<number>`,
/// and with a limit of one also a letter in the log beside it, written under the fence.
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
