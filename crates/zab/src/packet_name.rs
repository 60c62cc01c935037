//! The ZooKeeper names of packets, for logs and errors.

use zebu_proto::quorum::Packet;

/// The name of a packet type in ZooKeeper.
pub(crate) fn packet_name(packet: &Packet) -> &'static str {
    match packet {
        Packet::Request { .. } => "REQUEST",
        Packet::Proposal { .. } => "PROPOSAL",
        Packet::Ack { .. } => "ACK",
        Packet::Commit { .. } => "COMMIT",
        Packet::Ping { .. } | Packet::PingReply { .. } => "PING",
        Packet::Revalidate { .. } | Packet::Revalidated { .. } => "REVALIDATE",
        Packet::Sync => "SYNC",
        Packet::Inform { .. } => "INFORM",
        Packet::CommitAndActivate { .. } => "COMMITANDACTIVATE",
        Packet::NewLeader { .. } => "NEWLEADER",
        Packet::FollowerInfo { .. } => "FOLLOWERINFO",
        Packet::UpToDate => "UPTODATE",
        Packet::Diff { .. } => "DIFF",
        Packet::Trunc { .. } => "TRUNC",
        Packet::Snap { .. } => "SNAP",
        Packet::ObserverInfo { .. } => "OBSERVERINFO",
        Packet::LeaderInfo { .. } => "LEADERINFO",
        Packet::AckEpoch { .. } => "ACKEPOCH",
        Packet::InformAndActivate { .. } => "INFORMANDACTIVATE",
    }
}
