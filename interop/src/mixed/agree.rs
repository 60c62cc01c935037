//! Whether all members have the same: the whole tree as clients read it, and the digests of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_proto::client::WriteRequest;
use zebu_proto::{Jute, OpCode, Text, Zxid};

use super::fleet::Fleet;
use super::writes::SESSION_MS;
use crate::client::Client;
use crate::dump::Dump;

/// Wait before trees that differ are read again.
const REPEAT_DELAY: Duration = Duration::from_millis(500);

/// What the members agree on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreement {
    pub(super) nodes: usize,
    /// Digests at the same transaction that two members had.
    pub(super) digests: usize,
}

/// Compares all running servers. No client may write meanwhile. A session whose client was lost may still
/// end and delete its nodes, so that a difference must stay for longer than a session does.
pub(super) fn compare(fleet: &Fleet) -> Result<Agreement> {
    compare_but(fleet, &|_| false)
}

/// Like [`compare`], without these nodes.
pub(super) fn compare_but(fleet: &Fleet, is_ignored: &dyn Fn(&str) -> bool) -> Result<Agreement> {
    let deadline = Instant::now() + 3 * Duration::from_millis(SESSION_MS.unsigned_abs().into());
    let nodes = loop {
        match compare_once(fleet, is_ignored)? {
            TreeComparison::Equal { nodes } => break nodes,
            TreeComparison::Different(difference) => ensure!(Instant::now() < deadline, "{difference}"),
        }
        std::thread::sleep(REPEAT_DELAY);
    };
    no_mismatches(fleet)?;
    Ok(Agreement { nodes, digests: common_digests(fleet)? })
}

enum TreeComparison {
    Equal { nodes: usize },
    Different(String),
}

fn compare_once(fleet: &Fleet, is_ignored: &dyn Fn(&str) -> bool) -> Result<TreeComparison> {
    let mut readers = Vec::new();
    for index in (0..fleet.len()).filter(|&index| fleet.is_up(index)) {
        let client = Client::open(fleet.address(index), SESSION_MS)
            .with_context(|| format!("a session at member {}", index + 1))?;
        readers.push((index, client));
    }
    // Sessions are transactions: all servers must have applied them before the first read.
    for (_, client) in &mut readers {
        sync(client)?;
    }
    let mut dumps = Vec::new();
    for (index, client) in &mut readers {
        dumps.push((*index, Dump::read(client)?));
    }
    for (_, client) in &mut readers {
        client.write(&WriteRequest::CloseSession)?;
    }
    let Some(((first, reference), others)) = dumps.split_first() else {
        return Ok(TreeComparison::Equal { nodes: 0 });
    };
    for (index, dump) in others {
        let differences = reference.differences(dump, is_ignored);
        if !differences.is_empty() {
            return Ok(TreeComparison::Different(format!(
                "members {} ({}) and {} ({}) differ in {} nodes:\n{}",
                first + 1,
                fleet.server(*first).name(),
                index + 1,
                fleet.server(*index).name(),
                differences.len(),
                differences[..differences.len().min(5)].join("\n")
            )));
        }
    }
    Ok(TreeComparison::Equal { nodes: reference.0.len() })
}

/// No member has applied a transaction that led to another tree than its leader's.
pub(super) fn no_mismatches(fleet: &Fleet) -> Result<()> {
    for index in (0..fleet.len()).filter(|&index| fleet.is_up(index)) {
        let count = fleet.unexcused_digests(index)?;
        let name = fleet.server(index).name();
        ensure!(count == 0, "member {} ({name}) has {count} digest mismatches", index + 1);
    }
    Ok(())
}

/// Every digest that two members have of the same transaction is the same; says how many.
fn common_digests(fleet: &Fleet) -> Result<usize> {
    let mut known: BTreeMap<Zxid, (usize, String)> = BTreeMap::new();
    let mut common = 0;
    for index in (0..fleet.len()).filter(|&index| fleet.is_up(index)) {
        for (zxid, digest) in fleet.digests(index)? {
            match known.get(&zxid) {
                None => drop(known.insert(zxid, (index, digest))),
                Some((other, expected)) => {
                    common += 1;
                    ensure!(
                        *expected == digest,
                        "at {zxid} member {} has the digest {expected} and member {} has {digest}",
                        other + 1,
                        index + 1
                    );
                }
            }
        }
    }
    Ok(common)
}

/// Everything that was decided before is here afterwards.
pub(super) fn sync(client: &mut Client) -> Result<()> {
    client.queue(OpCode::Sync, |out| {
        let path: Text = Some("/".into());
        path.encode(out);
    });
    client.flush()?;
    let (header, _) = client.reply()?;
    ensure!(header.err == 0, "sync was answered {header:?}");
    Ok(())
}
