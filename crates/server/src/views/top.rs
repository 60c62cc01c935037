//! The hottest paths and clients, and the largest nodes. The views do not know ACLs: a caller must be an
//! operator.

use std::sync::Arc;

use zebu_metrics::{HotMeasure, HotTable};

use super::ServerViews;
pub use crate::traffic::largest_nodes::LargestNodes;

/// Most entries of a table.
pub const TOP_ENTRIES_MAX: usize = 50;

/// The hottest paths and clients.
#[derive(Clone, Debug, PartialEq)]
pub struct TopView {
    /// One of this many requests is sampled; zero if the samples are off.
    pub sample_every: u32,
    /// The tables of the requested measures.
    pub tables: Vec<HotTable>,
}

impl ServerViews {
    /// The hottest paths and clients by these measures, at most `limit` per table.
    pub fn top(&self, measures: &[HotMeasure], limit: usize) -> TopView {
        let traffic = &self.shared.traffic;
        let now_ms = self.shared.clock.monotonic_ms();
        TopView {
            sample_every: traffic.sample_every(),
            tables: traffic.tables(measures, limit.min(TOP_ENTRIES_MAX), now_ms),
        }
    }

    /// The nodes with the most data and the most children. Walks over the whole tree, in slices, unless the
    /// last walk was seconds ago.
    pub async fn largest_nodes(&self) -> Arc<LargestNodes> {
        self.shared.traffic.largest_nodes.get(&self.shared).await
    }
}
