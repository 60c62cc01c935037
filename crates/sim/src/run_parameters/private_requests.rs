//! Draws how often clients send requests that ZooKeeper does not have: those of ClickHouse Keeper, and those
//! of Zebu for long lists, subtrees and feeds. Most calls stay those of ZooKeeper.

use zebu_node::{CLIENT_PACKET_MAX, ListingSettings};
use zebu_tree::SortLimits;

use super::RunParameters;
use crate::random::{DrawPurpose, SimRandom};

/// Runs with small limits for lists, of a thousand.
const SMALL_LISTS_PERMILLE: u64 = 500;

impl RunParameters {
    /// Drawn apart, after all others.
    pub(super) fn draw_private_requests(&mut self) {
        let mut random = SimRandom::new(self.seed, DrawPurpose::PrivateRequests);
        if self.endurance.is_none() {
            self.workload.private_permille = random.pick(&[0, 0, 10, 10, 40, 150]);
        }
        if random.permille(SMALL_LISTS_PERMILLE) {
            let at_once = random.between(1, 3) as usize;
            self.listings = ListingSettings {
                sort: SortLimits { at_once, per_slice: 1 },
                nodes_max: random.pick(&[4, 10_000]),
                page_bytes_max: random.pick(&[200, CLIENT_PACKET_MAX]),
                scan_bytes_max: random.pick(&[100, 512 << 10]),
                ..ListingSettings::default()
            };
        }
    }
}
