//! The task of one link: reads and writes packets, and snapshots between them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tracing::{debug, error};
use zebu_proto::jute::DecodeError;
use zebu_proto::quorum::packet_length::{PacketLength, packet_length};
use zebu_proto::quorum::{AuthCache, Packet};
use zebu_proto::{Reader, ServerId, Zxid};
use zebu_runtime::{SendProgress, SnapshotReceiver, SnapshotSender};
use zebu_zab::{LinkId, PeerEvent};

use super::links::Links;
use super::outbox::{Outbox, WriteJob};
use super::peer_stream::{LinkReader, PeerCertificate};
use super::protection::recognize_protection;
use super::{sync_log, unlisted};
use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::settings;

/// Sent weight after which the core is woken; a smaller weight waits for the next round. It is a
/// fraction of a learner's window, so that free window is used soon.
const REPORTED_WEIGHT: usize = 256 << 10;

/// Nodes of a snapshot that are encoded under one hold of the replica lock.
const SLICE_NODES: usize = 500;

const READ_BYTES: usize = 64 << 10;

/// Interval of reports to the core about a snapshot in transfer. Far shorter than its timeouts.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Longest packet accepted from a leader. Leaders without a limit have logged transactions of any
/// length, and an ensemble must be able to read its own log. Memory grows only with received bytes.
const LEADER_PACKET_BYTES_MAX: usize = 1 << 30;

/// Longest packet accepted from a learner, unless `jute.maxbuffer` is larger. It holds a request
/// with credentials, or the sessions touched since the last ping.
const LEARNER_PACKET_BYTES_MAX: usize = 64 << 20;

/// Capacity of the receive buffer that a link keeps.
const RETAINED_BUFFER_BYTES: usize = 1 << 20;

/// Longest packet in which a learner identifies itself.
const LEARNER_INFO_BYTES_MAX: usize = 4 << 10;

/// The side that opened the connection of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkOrigin {
    /// This server, which dialed that one.
    Dialed { to: ServerId },
    /// The peer, at this address.
    Accepted { from: SocketAddr },
}

/// The facts about the peer of a link that its connection shows.
#[derive(Debug)]
pub(super) struct LinkPeer {
    pub(super) origin: LinkOrigin,
    pub(super) certificate: PeerCertificate,
}

/// Runs a link until one side ends it.
pub(super) async fn run_link(
    link: LinkId,
    peer: LinkPeer,
    reader: LinkReader,
    outbox: Arc<Outbox>,
    links: Arc<Links>,
    shared: Arc<ServerContext>,
) {
    let reading = read_packets(link, &peer, reader, &outbox, &links, &shared);
    let writing = write_packets(link, &outbox, &links, &shared);
    let result = tokio::select! {
        result = reading => result,
        // The link was closed here: everything is written, or the peer does not read.
        result = writing => result,
    };
    if let Err(error) = result {
        debug!(link = link.0, %error, "a link to another member has ended");
        if let LinkOrigin::Dialed { to } = peer.origin {
            links.protection().log_refused_by(to, error);
        }
    }
    links.link_ended(link);
}

/// Writes the packets and snapshots that the core left to the task.
async fn write_packets(
    link: LinkId,
    outbox: &Outbox,
    links: &Links,
    shared: &ServerContext,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    // Weight sent since the core was last woken for it.
    let mut unreported = 0;
    loop {
        match outbox.next_job(&mut bytes) {
            WriteJob::Write { weight } => {
                outbox.write_all(&bytes).await?;
                bytes.clear();
                unreported += weight;
                if unreported >= REPORTED_WEIGHT {
                    unreported = 0;
                    links.push_event(PeerEvent::Sent { link, weight });
                } else {
                    links.push_event_lazy(PeerEvent::Sent { link, weight });
                }
            }
            WriteJob::SendSnapshot => {
                let end = send_snapshot(link, outbox, links, shared).await?;
                outbox.snapshot_sent(end);
                links.push_event(PeerEvent::SnapshotSent { link });
            }
            WriteJob::Wait => outbox.wait_for_wakeup().await,
            // The connection shuts down when the last owner drops the outbox.
            WriteJob::Close => {
                outbox.shut_down().await;
                return Ok(());
            }
        }
    }
}

/// Sends a snapshot and returns the last zxid that it may hold.
async fn send_snapshot(
    link: LinkId,
    outbox: &Outbox,
    links: &Links,
    shared: &ServerContext,
) -> io::Result<Zxid> {
    let mut sender = SnapshotSender::begin(&shared.read_replica());
    let mut bytes = Vec::new();
    let mut last_report = Instant::now();
    loop {
        let progress =
            sender.next_slice(&shared.read_replica(), SLICE_NODES, &mut bytes).map_err(io::Error::other)?;
        outbox.write_all(&bytes).await?;
        bytes.clear();
        report_snapshot_progress(link, links, &mut last_report);
        if let SendProgress::Done { end } = progress {
            return Ok(end);
        }
    }
}

/// Reports a snapshot in transfer, once per [`PROGRESS_INTERVAL`].
fn report_snapshot_progress(link: LinkId, links: &Links, last_report: &mut Instant) {
    if last_report.elapsed() >= PROGRESS_INTERVAL {
        *last_report = Instant::now();
        links.push_event(PeerEvent::SnapshotProgress { link });
    }
}

async fn read_packets(
    link: LinkId,
    peer: &LinkPeer,
    mut reader: LinkReader,
    outbox: &Outbox,
    links: &Links,
    shared: &ServerContext,
) -> io::Result<()> {
    let limits = &shared.config.limits;
    let bytes_max = if link.is_accepted() { LEARNER_PACKET_BYTES_MAX } else { LEADER_PACKET_BYTES_MAX };
    let bytes_max = bytes_max.max(limits.transaction_bytes_max());
    let mut identified = !link.is_accepted();
    let mut buffer: Vec<u8> = Vec::new();
    let mut start = 0;
    let mut receiver: Option<SnapshotReceiver> = None;
    let mut last_report = Instant::now();
    let mut events = Vec::new();
    let mut events_bytes = 0;
    let mut known = AuthCache::default();
    loop {
        outbox.read_gate().wait_until_open().await;
        shared.inbox.wait_for_control_room().await;
        shared.disk_backlog.wait_for_room().await;
        buffer.drain(..start);
        start = 0;
        if buffer.len() < READ_BYTES {
            buffer.shrink_to(RETAINED_BUFFER_BYTES);
        }
        buffer.reserve(READ_BYTES);
        if reader.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        if !identified {
            check_first_bytes(peer, &buffer, links)?;
        }
        loop {
            if let Some(receiving) = &mut receiver {
                let invalid = |flaw| io::Error::new(io::ErrorKind::InvalidData, flaw);
                let (used, tree) = receiving.feed(&buffer[start..]).map_err(invalid)?;
                start += used;
                report_snapshot_progress(link, links, &mut last_report);
                let Some(tree) = tree else { break };
                receiver = None;
                links.store_snapshot(link, tree);
                events.push(ControlEvent::Peer(PeerEvent::SnapshotReceived { link }));
            }
            let longest = if identified { bytes_max } else { LEARNER_INFO_BYTES_MAX };
            let Some((packet, length)) = next_packet(link, &buffer[start..], longest, &mut known)? else {
                break;
            };
            start += length;
            let Some(packet) = packet else { continue };
            events_bytes += length;
            if let Packet::FollowerInfo { info, .. } | Packet::ObserverInfo { info, .. } = &packet {
                check_certificate(peer, info.server, links)?;
                if !identified {
                    links.mark_identified(link, info.server);
                }
            }
            identified = true;
            outbox.counters().count_received(&packet);
            sync_log::log_received(link, &packet);
            unlisted::log_unlisted_learner(link, &packet, links.address_book());
            if let Packet::Snap { zxid } = packet {
                let options = settings::tree_options(&shared.config, shared.hash_seed);
                receiver = Some(SnapshotReceiver::new(options, zxid));
            }
            events.push(ControlEvent::Peer(PeerEvent::Packet { link, packet }));
        }
        let amount = events.len();
        if amount > 0 {
            shared.inbox.push_without_wake(|batch| {
                batch.control_events.append(&mut events);
                batch.control_bytes += std::mem::take(&mut events_bytes);
            });
            shared.core.run_or_wake(&shared.inbox, amount);
        }
    }
}

/// Refuses a connection that begins with TLS or SASL although this port has none.
fn check_first_bytes(peer: &LinkPeer, bytes: &[u8], links: &Links) -> io::Result<()> {
    let Some(refusal) = recognize_protection(bytes) else { return Ok(()) };
    if let LinkOrigin::Accepted { from } = peer.origin {
        links.protection().log_refused(from, None, &refusal);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, refusal))
}

/// Refuses a learner whose certificate belongs to another server than the one that it says to be.
fn check_certificate(peer: &LinkPeer, server: ServerId, links: &Links) -> io::Result<()> {
    let Err(refusal) = links.protection().check_server(&peer.certificate, server) else { return Ok(()) };
    if let LinkOrigin::Accepted { from } = peer.origin {
        links.protection().log_refused(from, Some(server), &refusal);
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal))
}

/// Decodes the first packet if it is complete. A packet of an unknown type is skipped, as ZooKeeper
/// does.
fn next_packet(
    link: LinkId,
    bytes: &[u8],
    bytes_max: usize,
    known: &mut AuthCache,
) -> io::Result<Option<(Option<Packet>, usize)>> {
    let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
    let length = match packet_length(bytes, bytes_max) {
        PacketLength::Complete { length } => length,
        PacketLength::Partial => return Ok(None),
        PacketLength::TooLong { zxid, length } => {
            error!(
                link = link.0, %zxid, length, limit = bytes_max,
                "another server sends a packet that is too long; the connection is closed"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is longer than the limit"));
        }
        PacketLength::Refused(error) => return Err(invalid(error)),
    };
    match Packet::decode_with_cache(&mut Reader::new(&bytes[..length]), known) {
        Ok(packet) => Ok(Some((Some(packet), length))),
        Err(DecodeError::Unknown { .. }) => Ok(Some((None, length))),
        Err(error) => Err(invalid(error)),
    }
}

#[cfg(test)]
mod interleavings;
