//! Two quorums: a config takes effect only when a quorum of the previous config and a quorum of its own have
//! it on disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::members::{EnsembleConfig, proposed_config};

const NAME: &str = "zab_two_quorums";

/// A config takes effect at a server.
pub(super) fn check_activation(checker: &mut Checker, server: usize, list: &EnsembleConfig) -> CheckResult {
    if zebu_proto::Zxid(list.version).counter() == 0 {
        let first = checker.committed.configs.first();
        if list.servers == first.servers && list.groups == first.groups {
            return Ok(());
        }
        let text =
            format!("server {server} takes {:#x} for the first list: {:?}", list.version, list.servers);
        return Err(Violation::new(NAME, text));
    }
    if checker.activated.contains(&list.version) {
        return Ok(());
    }
    let Some((bytes, before)) = proposal(checker, list.version) else {
        let text = format!("server {server} puts list {:#x} into effect, which is in no log", list.version);
        return Err(Violation::new(NAME, text));
    };
    let holders = checker.holders(list.version, &bytes);
    for (name, needed) in [("old", &before), ("new", list)] {
        if !needed.is_quorum(&holders) {
            let text = format!(
                "server {server} puts list {:#x} into effect, which {holders:?} have on disk: no quorum of the {name} \
                 one, {:?}",
                list.version, needed.servers
            );
            return Err(Violation::new(NAME, text));
        }
    }
    checker.activated.insert(list.version);
    Ok(())
}

/// The transaction that has proposed a config, and the config before it.
pub(super) fn proposal(checker: &Checker, version: i64) -> Option<(Arc<[u8]>, EnsembleConfig)> {
    let configs = &checker.committed.configs;
    let decided = || configs.before(version).unwrap_or(configs.first()).clone();
    if let Some(committed) = checker.committed.get(version) {
        return Some((committed.bytes.clone(), decided()));
    }
    let donor = checker.servers.iter().find(|view| view.entry(version).is_some())?;
    let earlier =
        donor.log.iter().rev().filter(|(zxid, _)| *zxid < version && *zxid > checker.committed.last());
    let before = earlier.filter_map(|(_, bytes)| proposed_config(bytes)).next().unwrap_or_else(decided);
    Some((donor.entry(version)?.clone(), before))
}

impl Checker {
    /// Servers that have a transaction on disk.
    pub(super) fn holders(&self, zxid: i64, bytes: &[u8]) -> BTreeSet<usize> {
        let all = self.servers.iter().enumerate();
        all.filter(|(_, view)| view.holds(zxid, bytes)).map(|(server, _)| server).collect()
    }
}
