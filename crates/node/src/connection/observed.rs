//! The observed requests of a connection, and the reads of its last namespace.

use zebu_metrics::NamespaceTable;

use super::ClientConnection;
use super::queued_paths::QueuedPaths;
use crate::split_mix::SplitMix64;
use crate::stats::NamespaceReads;
use crate::traffic::TrafficReport;

/// Work of a read below which it is not counted, in visited nodes: most connections have no more.
const READ_WORK_MIN: u32 = 128;

/// What few connections have: boxed, so that the others stay small.
#[derive(Debug, Default)]
pub(super) struct Observed {
    report: Option<Box<TrafficReport>>,
    /// The paths of queued writes, if the log may need them.
    pub(super) paths: QueuedPaths,
    /// Work of reads that was not taken, in visited nodes.
    read_work: u32,
}

impl ClientConnection {
    /// Returns the work of the expensive reads that were answered since the last call, in visited nodes.
    pub fn take_read_work(&mut self) -> u32 {
        self.observed.as_mut().map_or(0, |observed| std::mem::take(&mut observed.read_work))
    }

    pub(crate) fn add_read_work(&mut self, work: u32) {
        if work >= READ_WORK_MIN {
            let sum = &mut self.observed.get_or_insert_default().read_work;
            *sum = sum.saturating_add(work);
        }
    }

    /// Takes the observations since the last report.
    pub fn take_traffic(&mut self) -> Option<Box<TrafficReport>> {
        self.observed.as_mut()?.report.take()
    }

    /// Whether a slow request or a large reply waits for its log line.
    pub fn has_notable_requests(&self) -> bool {
        let report = self.observed.as_ref().and_then(|observed| observed.report.as_ref());
        report.is_some_and(|report| !report.notable.is_empty())
    }

    pub(crate) fn traffic_report(&mut self) -> &mut TrafficReport {
        self.observed.get_or_insert_default().report.get_or_insert_default()
    }

    /// Whether the current request becomes a sample: one of `every` requests, zero for none. Each request has
    /// the same chance, so that neither a regular pattern nor a short connection is misjudged.
    #[inline]
    pub(crate) fn is_sample_due(&mut self, every: u32) -> bool {
        if self.until_sample > 1 {
            self.until_sample -= 1;
            return false;
        }
        self.draw_sample(every)
    }

    /// Draws how many requests there are up to the next sample, as if each had been decided alone.
    #[cold]
    fn draw_sample(&mut self, every: u32) -> bool {
        if every == 0 {
            self.until_sample = u32::MAX;
            return false;
        }
        // The number of the request takes the place of a generator's state, which would need room.
        let mut random = SplitMix64::new(self.id.0.rotate_left(32) ^ self.stats.packets_received);
        let miss = 1.0 - 1.0 / f64::from(every);
        let mut gap = || ((1.0 - random.fraction()).ln() / miss.ln()) as u32;
        if self.until_sample == 0 {
            // The first request of a connection.
            let before = gap();
            if before > 0 {
                self.until_sample = before;
                return false;
            }
        }
        self.until_sample = gap().saturating_add(1);
        true
    }

    /// Counts a read of a path with this much data.
    pub(crate) fn count_read(&mut self, namespaces: &NamespaceTable, path: &str, data_length: usize) {
        let reads = &mut self.unreported_stats.reads;
        let is_same = reads.namespace.is_some_and(|namespace| namespaces.contains(namespace, path));
        if !is_same {
            if let Some(before) = reads.namespace {
                namespaces.record_reads(before, reads.count, u64::from(reads.bytes));
            }
            *reads = NamespaceReads { namespace: namespaces.of(path), count: 0, bytes: 0 };
        }
        if reads.namespace.is_some() {
            reads.count += 1;
            let bytes = u32::try_from(path.len() + data_length).unwrap_or(u32::MAX);
            reads.bytes = reads.bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_tree::Credentials;

    use super::*;
    use crate::connection::ConnectionId;

    fn samples(connections: u64, requests: u64, every: u32) -> u64 {
        let mut samples = 0;
        for id in 0..connections {
            let peer = std::net::Ipv4Addr::LOCALHOST.into();
            let mut connection = ClientConnection::new(ConnectionId(id), Credentials::of_peer(peer), 0, 0);
            for _ in 0..requests {
                connection.count_received();
                samples += u64::from(connection.is_sample_due(every));
            }
        }
        samples
    }

    #[test]
    fn long_and_short_connections_are_sampled_alike() {
        assert_eq!(samples(3, 100, 0), 0);
        assert_eq!(samples(3, 100, 1), 300);
        let expected = 128_000 / 64;
        for (connections, requests) in [(1, 128_000), (128, 1000), (32_000, 4)] {
            let samples = samples(connections, requests, 64);
            assert!(samples.abs_diff(expected) < expected / 10, "{connections}: {samples}");
        }
    }
}
