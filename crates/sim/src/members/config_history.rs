//! The configs of an ensemble in the order in which they were committed.

use zebu_proto::OpCode;
use zebu_proto::txn::{Txn, TxnEntry};

use super::EnsembleConfig;

/// All configs that the history has committed, and the initial one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigHistory {
    first: EnsembleConfig,
    committed: Vec<EnsembleConfig>,
}

impl ConfigHistory {
    pub(crate) fn new(first: EnsembleConfig) -> ConfigHistory {
        ConfigHistory { first, committed: Vec::new() }
    }

    /// The config before any transaction.
    pub(crate) fn first(&self) -> &EnsembleConfig {
        &self.first
    }

    /// The last config that was committed before this zxid; `None` if there is none.
    pub(crate) fn before(&self, zxid: i64) -> Option<&EnsembleConfig> {
        let count = self.committed.partition_point(|list| list.version < zxid);
        self.committed[..count].last()
    }

    /// The config with this version.
    pub(crate) fn at(&self, version: i64) -> Option<&EnsembleConfig> {
        self.committed.iter().find(|list| list.version == version)
    }

    /// The current config.
    pub(crate) fn last(&self) -> &EnsembleConfig {
        self.committed.last().unwrap_or(&self.first)
    }

    /// How many configs transactions have committed.
    pub(crate) fn len(&self) -> usize {
        self.committed.len()
    }

    pub(crate) fn decide(&mut self, list: EnsembleConfig) {
        self.committed.push(list);
    }
}

/// The byte range of the transaction type.
const TYPE_AT: std::ops::Range<usize> = 28..32;

/// The config that a transaction proposes, if it does.
pub(crate) fn proposed_config(bytes: &[u8]) -> Option<EnsembleConfig> {
    // Most transactions have another type, and every check calls this for all of them.
    if bytes.get(TYPE_AT) != Some(&OpCode::Reconfig.wire().to_be_bytes()) {
        return None;
    }
    let TxnEntry { txn: Txn::Reconfig(set), .. } = TxnEntry::decode(bytes).ok()? else { return None };
    EnsembleConfig::read(std::str::from_utf8(set.data.as_deref()?).ok()?)
}
