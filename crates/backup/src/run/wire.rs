//! The bytes of a connection to a leader: packets, and a snapshot between them.

use std::io;

use zebu_proto::Reader;
use zebu_proto::jute::DecodeError;
use zebu_proto::quorum::Packet;
use zebu_proto::quorum::packet_length::{PacketLength, packet_length};
use zebu_runtime::SnapshotReceiver;

use crate::core::learner::LearnerInput;
use crate::core::replay::tree_options;

/// The longest packet that is accepted. Leaders without a limit have logged transactions of any length.
const PACKET_BYTES_MAX: usize = 1 << 30;

/// Capacity of the receive buffer that is kept.
const RETAINED_BYTES: usize = 1 << 20;

/// Bytes that one read takes.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Splits received bytes.
pub(super) struct LeaderStream {
    pub(super) buffer: Vec<u8>,
    start: usize,
    receiver: Option<SnapshotReceiver>,
    hash_seed: u64,
}

impl LeaderStream {
    pub(super) fn new(hash_seed: u64) -> LeaderStream {
        LeaderStream { buffer: Vec::new(), start: 0, receiver: None, hash_seed }
    }

    /// Makes room for a read.
    pub(super) fn prepare(&mut self) {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.len() < READ_BYTES {
            self.buffer.shrink_to(RETAINED_BYTES);
        }
        self.buffer.reserve(READ_BYTES);
    }

    /// The next input, if its bytes are complete.
    pub(super) fn next(&mut self) -> io::Result<Option<LearnerInput>> {
        let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let bytes = &self.buffer[self.start..];
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Some(receiver) = &mut self.receiver {
                let fed = receiver.feed(bytes);
                let (used, tree) = fed.map_err(|flaw| io::Error::new(io::ErrorKind::InvalidData, flaw))?;
                self.start += used;
                return Ok(Some(match tree {
                    Some(tree) => {
                        self.receiver = None;
                        LearnerInput::Snapshot(Box::new(tree))
                    }
                    None => LearnerInput::SnapshotProgress,
                }));
            }
            let length = match packet_length(bytes, PACKET_BYTES_MAX) {
                PacketLength::Complete { length } => length,
                PacketLength::Partial => return Ok(None),
                PacketLength::TooLong { zxid, length } => {
                    let text = format!("the packet of {zxid} has {length} bytes, which is too long");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                PacketLength::Refused(error) => return Err(invalid(error)),
            };
            let decoded = Packet::decode(&mut Reader::new(&bytes[..length]));
            self.start += length;
            match decoded {
                Ok(packet) => {
                    if let Packet::Snap { zxid } = packet {
                        self.receiver = Some(SnapshotReceiver::new(tree_options(self.hash_seed), zxid));
                    }
                    return Ok(Some(LearnerInput::Packet(packet)));
                }
                // A packet of an unknown type is skipped, as ZooKeeper does.
                Err(DecodeError::Unknown { .. }) => {}
                Err(error) => return Err(invalid(error)),
            }
        }
    }
}
