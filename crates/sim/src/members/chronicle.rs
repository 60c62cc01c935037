//! The lists of an ensemble in the order in which they were decided.

use zebu_proto::OpCode;
use zebu_proto::txn::{Txn, TxnEntry};

use super::List;

/// All lists that the history has made, and the one before the first of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chronicle {
    first: List,
    decided: Vec<List>,
}

impl Chronicle {
    pub(crate) fn new(first: List) -> Chronicle {
        Chronicle { first, decided: Vec::new() }
    }

    /// The list that was there before any transaction.
    pub(crate) fn first(&self) -> &List {
        &self.first
    }

    /// The last list that a transaction before this place has made; `None` if none has.
    pub(crate) fn before(&self, zxid: i64) -> Option<&List> {
        let count = self.decided.partition_point(|list| list.version < zxid);
        self.decided[..count].last()
    }

    /// The list with this version.
    pub(crate) fn at(&self, version: i64) -> Option<&List> {
        self.decided.iter().find(|list| list.version == version)
    }

    /// The list of now.
    pub(crate) fn last(&self) -> &List {
        self.decided.last().unwrap_or(&self.first)
    }

    /// How many transactions have made one.
    pub(crate) fn len(&self) -> usize {
        self.decided.len()
    }

    pub(crate) fn decide(&mut self, list: List) {
        self.decided.push(list);
    }
}

/// Where the type of a transaction stands in its bytes.
const TYPE_AT: std::ops::Range<usize> = 28..32;

/// The list that a transaction proposes, if it does.
pub(crate) fn proposed_list(bytes: &[u8]) -> Option<List> {
    // Most transactions are something else, and everybody asks about all of them.
    if bytes.get(TYPE_AT) != Some(&OpCode::Reconfig.wire().to_be_bytes()) {
        return None;
    }
    let TxnEntry { txn: Txn::Reconfig(set), .. } = TxnEntry::decode(bytes).ok()? else { return None };
    List::read(std::str::from_utf8(set.data.as_deref()?).ok()?)
}
