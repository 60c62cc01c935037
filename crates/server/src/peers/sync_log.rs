//! Logs and counts how learners are synchronized. It observes packets and changes none.

use tracing::info;
use zebu_proto::quorum::Packet;
use zebu_zab::LinkId;

use crate::metrics::ServerMetrics;
use crate::metrics::syncing::SyncKind;

/// Records a packet that is sent to a peer.
pub(super) fn record_sent(link: LinkId, packet: &Packet, metrics: &ServerMetrics) {
    match packet {
        Packet::Diff { zxid } => {
            metrics.diffs_sent.increment();
            metrics.syncing.begin(link, SyncKind::Diff);
            info!(link = link.0, %zxid, kind = "DIFF", "a member gets the transactions that it lacks");
        }
        Packet::Trunc { zxid } => {
            metrics.truncations_sent.increment();
            metrics.syncing.begin(link, SyncKind::Diff);
            info!(link = link.0, %zxid, kind = "TRUNC", "a member is told to cut its log");
        }
        Packet::Snap { zxid } => {
            metrics.snapshots_sent.increment();
            metrics.syncing.begin(link, SyncKind::Snap);
            info!(link = link.0, %zxid, kind = "SNAP", "a member gets the whole state");
        }
        Packet::Proposal { zxid, entry } => metrics.proposals.record(zxid.0, entry.len()),
        Packet::UpToDate => metrics.syncing.end(link),
        Packet::Request { .. }
        | Packet::Ack { .. }
        | Packet::Commit { .. }
        | Packet::Ping { .. }
        | Packet::PingReply { .. }
        | Packet::Revalidate { .. }
        | Packet::Revalidated { .. }
        | Packet::Sync
        | Packet::Inform { .. }
        | Packet::CommitAndActivate { .. }
        | Packet::NewLeader { .. }
        | Packet::FollowerInfo { .. }
        | Packet::ObserverInfo { .. }
        | Packet::LeaderInfo { .. }
        | Packet::AckEpoch { .. }
        | Packet::InformAndActivate { .. } => {}
    }
}

/// Logs a packet that was received from a peer.
pub(super) fn log_received(link: LinkId, packet: &Packet) {
    match packet {
        Packet::FollowerInfo { info, .. } => {
            info!(link = link.0, server = info.server.0, "a follower has connected");
        }
        Packet::ObserverInfo { info, .. } => {
            info!(link = link.0, server = info.server.0, "an observer has connected");
        }
        Packet::Diff { zxid } => {
            info!(%zxid, kind = "DIFF", "the leader sends the transactions that are lacking here");
        }
        Packet::Trunc { zxid } => {
            info!(%zxid, kind = "TRUNC", "the leader has the log cut here");
        }
        Packet::Snap { zxid } => {
            info!(%zxid, kind = "SNAP", "the leader sends the whole state");
        }
        Packet::Request { .. }
        | Packet::Proposal { .. }
        | Packet::Ack { .. }
        | Packet::Commit { .. }
        | Packet::Ping { .. }
        | Packet::PingReply { .. }
        | Packet::Revalidate { .. }
        | Packet::Revalidated { .. }
        | Packet::Sync
        | Packet::Inform { .. }
        | Packet::CommitAndActivate { .. }
        | Packet::NewLeader { .. }
        | Packet::UpToDate
        | Packet::LeaderInfo { .. }
        | Packet::AckEpoch { .. }
        | Packet::InformAndActivate { .. } => {}
    }
}
