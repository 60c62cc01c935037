//! One link: packets back to back in both directions, and now and then a whole state between them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tracing::{debug, error};
use zebu_proto::Reader;
use zebu_proto::jute::DecodeError;
use zebu_proto::quorum::measure::{Measured, measure_packet};
use zebu_proto::quorum::{KnownAuth, Packet};
use zebu_zab::{Event, LinkId};

use super::links::Links;
use super::outbox::{Job, Outbox};
use super::state_stream::{Progress, Receiver, Sender};
use super::{sync_report, unlisted};
use crate::inbox::Urgent;
use crate::shared::Shared;

/// The brain is woken to hear that so much was sent; of less it hears when it wakes for something else. A fraction of
/// the window that a learner has, so that nobody waits for room that is there.
const TOLD_WEIGHT: usize = 256 << 10;

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// How often the brain hears that a state is on its way. Far more often than it loses patience.
const SIGN_OF_LIFE: Duration = Duration::from_millis(200);

/// The longest packet that is taken from a leader. Leaders without a limit of their own have logged transactions of any
/// length, and an ensemble must be able to read its own log. Memory grows with the bytes that arrive.
const LEADER_PACKET_BYTES_MAX: usize = 1 << 30;

/// The longest packet that is taken from a learner unless `jute.maxbuffer` asks for more: a request with its credentials,
/// or the sessions that were touched since the last ping.
const LEARNER_PACKET_BYTES_MAX: usize = 64 << 20;

/// Room in the receive buffer that a link keeps.
const KEPT_BYTES: usize = 1 << 20;

/// The longest packet in which a learner says who it is.
const INTRODUCTION_BYTES_MAX: usize = 4 << 10;

/// Serves a link until one side ends it.
pub(super) async fn run(
    link: LinkId,
    reader: OwnedReadHalf,
    outbox: Arc<Outbox>,
    links: Arc<Links>,
    shared: Arc<Shared>,
) {
    let reading = read(link, reader, &links, &shared);
    let writing = write(link, &outbox, &links, &shared);
    let result = tokio::select! {
        result = reading => result,
        // Closed from here: everything is written, or does not get through.
        result = writing => result,
    };
    if let Err(error) = result {
        debug!(link = link.0, %error, "a link to another member has ended");
    }
    links.ended(link);
}

/// Writes what the core leaves in the outbox.
async fn write(link: LinkId, outbox: &Outbox, links: &Links, shared: &Shared) -> io::Result<()> {
    let mut bytes = Vec::new();
    // What was sent since the brain was last woken for it.
    let mut untold = 0;
    loop {
        match outbox.next_job(&mut bytes) {
            Job::Write { weight } => {
                outbox.write_all(&bytes).await?;
                bytes.clear();
                untold += weight;
                if untold >= TOLD_WEIGHT {
                    untold = 0;
                    links.tell(Event::Sent { link, weight });
                } else {
                    links.mention(Event::Sent { link, weight });
                }
            }
            Job::State => {
                send_state(link, outbox, links, shared).await?;
                outbox.state_sent(shared.read().last_zxid());
                links.tell(Event::SnapshotSent { link });
            }
            Job::Wait => outbox.called().await,
            // With its last owner the outbox shuts the connection down.
            Job::End => return Ok(()),
        }
    }
}

async fn send_state(link: LinkId, outbox: &Outbox, links: &Links, shared: &Shared) -> io::Result<()> {
    let mut sender = Sender::begin(shared);
    let mut bytes = Vec::new();
    let mut told = Instant::now();
    loop {
        let progress = sender.next_slice(shared, &mut bytes)?;
        outbox.write_all(&bytes).await?;
        bytes.clear();
        tell_that_it_moves(link, links, &mut told);
        if progress == Progress::Done {
            return Ok(());
        }
    }
}

/// Says now and then that a state is on its way.
fn tell_that_it_moves(link: LinkId, links: &Links, told: &mut Instant) {
    if told.elapsed() >= SIGN_OF_LIFE {
        *told = Instant::now();
        links.tell(Event::SnapshotMoves { link });
    }
}

async fn read(link: LinkId, mut reader: OwnedReadHalf, links: &Links, shared: &Shared) -> io::Result<()> {
    let limits = &shared.config.limits;
    let bytes_max = if link.is_accepted() { LEARNER_PACKET_BYTES_MAX } else { LEADER_PACKET_BYTES_MAX };
    let bytes_max = bytes_max.max(limits.transaction_bytes_max());
    let mut introduced = !link.is_accepted();
    let mut buffer: Vec<u8> = Vec::new();
    let mut start = 0;
    let mut receiver: Option<Receiver> = None;
    let mut told = Instant::now();
    let mut events = Vec::new();
    let mut events_bytes = 0;
    let mut known = KnownAuth::default();
    loop {
        shared.inbox.urgent_room().await;
        buffer.drain(..start);
        start = 0;
        if buffer.len() < READ_BYTES {
            buffer.shrink_to(KEPT_BYTES);
        }
        buffer.reserve(READ_BYTES);
        if reader.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        loop {
            if let Some(receiving) = &mut receiver {
                let (used, tree) = receiving.feed(&buffer[start..])?;
                start += used;
                tell_that_it_moves(link, links, &mut told);
                let Some(tree) = tree else { break };
                receiver = None;
                links.keep_received(link, tree);
                events.push(Urgent::Peer(Event::SnapshotReceived { link }));
            }
            let longest = if introduced { bytes_max } else { INTRODUCTION_BYTES_MAX };
            let Some((packet, length)) = next_packet(link, &buffer[start..], longest, &mut known)? else {
                break;
            };
            start += length;
            let Some(packet) = packet else { continue };
            events_bytes += length;
            if !introduced {
                introduced = true;
                if let Packet::FollowerInfo { info, .. } | Packet::ObserverInfo { info, .. } = &packet {
                    links.identified(link, info.server);
                }
            }
            sync_report::received(link, &packet);
            unlisted::report_learner(link, &packet, links.book());
            if let Packet::Snap { zxid } = packet {
                receiver = Some(Receiver::new(shared, zxid));
            }
            events.push(Urgent::Peer(Event::Packet { link, packet }));
        }
        let amount = events.len();
        if amount > 0 {
            shared.inbox.put(|delivery| {
                delivery.urgent.append(&mut events);
                delivery.urgent_bytes += std::mem::take(&mut events_bytes);
            });
            shared.core.attend(&shared.inbox, amount);
        }
    }
}

/// The packet at the front, if it is there as a whole. A packet of a kind that is not known is skipped, as
/// members of other releases do.
fn next_packet(
    link: LinkId,
    bytes: &[u8],
    bytes_max: usize,
    known: &mut KnownAuth,
) -> io::Result<Option<(Option<Packet>, usize)>> {
    let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
    let length = match measure_packet(bytes, bytes_max) {
        Measured::Complete { length } => length,
        Measured::Partial => return Ok(None),
        Measured::TooLong { zxid, length } => {
            error!(
                link = link.0, %zxid, length, limit = bytes_max,
                "another server sends a packet that is too long; the connection is closed"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is longer than the limit"));
        }
        Measured::Refused(error) => return Err(invalid(error)),
    };
    match Packet::decode_knowing(&mut Reader::new(&bytes[..length]), known) {
        Ok(packet) => Ok(Some((Some(packet), length))),
        Err(DecodeError::Unknown { .. }) => Ok(Some((None, length))),
        Err(error) => Err(invalid(error)),
    }
}
