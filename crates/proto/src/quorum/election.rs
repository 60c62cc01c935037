//! The election port: the message that opens a connection, and the notifications that carry votes.

use crate::ids::{ServerId, Zxid};
use crate::jute::{DecodeError, Jute, Reader};

/// The longest address list in an initial message.
pub const ADDRESS_BYTES_MAX: usize = 2048;

/// The longest notification that is accepted, bytes. ZooKeeper accepts 512 KiB; the configurations of 255
/// servers need far less.
pub const NOTIFICATION_BYTES_MAX: usize = 128 * 1024;

/// Stands for an observer that is in no configuration.
pub const ANONYMOUS_OBSERVER: ServerId = ServerId(i64::MAX);

const SINGLE_ADDRESS: i64 = -65536;
const SEVERAL_ADDRESSES: i64 = -65535;

/// The first bytes on an election connection. They must be sent in one write: some releases read the
/// address with a single read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialMessage {
    /// The server that connects.
    pub server: ServerId,
    /// Its election addresses, `host:port` each; empty for a peer before 3.5.
    pub addresses: Vec<Box<str>>,
}

impl InitialMessage {
    /// Appends the message. One address is sent in the form that every release understands.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let version = if self.addresses.len() > 1 { SEVERAL_ADDRESSES } else { SINGLE_ADDRESS };
        version.encode(out);
        self.server.0.encode(out);
        crate::jute::encode_bytes(self.addresses.join("|").as_bytes(), out);
    }

    /// Decodes the message, also of a peer before 3.5, which sends its id alone.
    pub fn decode(reader: &mut Reader<'_>) -> Result<InitialMessage, DecodeError> {
        let first = reader.long()?;
        if first >= 0 {
            return Ok(InitialMessage { server: ServerId(first), addresses: Vec::new() });
        }
        if first != SINGLE_ADDRESS && first != SEVERAL_ADDRESSES {
            return Err(DecodeError::Unknown { what: "election protocol version", value: first });
        }
        let server = ServerId(reader.long()?);
        let at = reader.position();
        let length = reader.int()?;
        let size = usize::try_from(length).ok().filter(|size| (1..=ADDRESS_BYTES_MAX).contains(size));
        let bytes = reader.take(size.ok_or(DecodeError::BadLength { at, length })?)?;
        let text = crate::jute::decode_text(bytes);
        Ok(InitialMessage { server, addresses: text.split('|').map(Box::from).collect() })
    }
}

/// The state of a server, in a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum ServerState {
    /// Looking for a leader.
    Looking = 0,
    /// Follows one.
    Following = 1,
    /// Leads.
    Leading = 2,
    /// Observes.
    Observing = 3,
}

impl ServerState {
    /// The state of a number on the wire.
    pub const fn from_wire(state: i32) -> Option<ServerState> {
        match state {
            0 => Some(ServerState::Looking),
            1 => Some(ServerState::Following),
            2 => Some(ServerState::Leading),
            3 => Some(ServerState::Observing),
            _ => None,
        }
    }
}

/// The version of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotificationVersion {
    /// Before 3.4.6, or any message of 28 or 40 bytes.
    V0,
    /// A version field without a configuration.
    V1,
    /// With the sender's configuration.
    V2,
}

/// A vote, and the state of the voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The state of the sender.
    pub state: ServerState,
    /// The server that it votes for, or follows.
    pub leader: ServerId,
    /// The last transaction of that server.
    pub zxid: Zxid,
    /// The election round of the sender.
    pub round: i64,
    /// The current epoch of that server.
    pub epoch: i64,
    /// The version of the message.
    pub version: NotificationVersion,
    /// The sender's committed configuration.
    pub config: Option<Box<str>>,
}

/// Bytes of the oldest form, and of the one with an epoch.
const V0_SIZE: usize = 28;
const EPOCH_SIZE: usize = 40;

impl Notification {
    /// Appends the message in the newest form, its length in front.
    pub fn encode(&self, out: &mut Vec<u8>) {
        crate::frame::write_frame(out, |out| {
            (self.state as i32).encode(out);
            self.leader.0.encode(out);
            self.zxid.0.encode(out);
            self.round.encode(out);
            self.epoch.encode(out);
            2i32.encode(out);
            crate::jute::encode_bytes(self.config.as_deref().unwrap_or_default().as_bytes(), out);
        });
    }

    /// Decodes the payload of a frame, of any release.
    pub fn decode(payload: &[u8]) -> Result<Notification, DecodeError> {
        let mut reader = Reader::new(payload);
        let state = reader.int()?;
        let state = ServerState::from_wire(state)
            .ok_or(DecodeError::Unknown { what: "server state", value: state.into() })?;
        let leader = ServerId(reader.long()?);
        let zxid = Zxid(reader.long()?);
        let round = reader.long()?;
        let oldest = Notification {
            state,
            leader,
            zxid,
            round,
            epoch: zxid.0 >> 32,
            version: NotificationVersion::V0,
            config: None,
        };
        if payload.len() == V0_SIZE {
            return Ok(oldest);
        }
        let epoch = reader.long()?;
        let number = reader.int()?;
        if payload.len() == EPOCH_SIZE {
            // Senders of this length put a version there that readers have always ignored.
            return Ok(Notification { epoch, ..oldest });
        }
        if number < 2 {
            return Ok(Notification { epoch, version: NotificationVersion::V1, ..oldest });
        }
        let config = reader.text()?.unwrap_or_default().into_owned().into_boxed_str();
        Ok(Notification { epoch, version: NotificationVersion::V2, config: Some(config), ..oldest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification() -> Notification {
        Notification {
            state: ServerState::Looking,
            leader: ServerId(3),
            zxid: Zxid::new(2, 7),
            round: 5,
            epoch: 2,
            version: NotificationVersion::V2,
            config: Some("server.1=a:1:2:participant\nversion=0".into()),
        }
    }

    #[test]
    fn all_forms_are_read() {
        let mut framed = Vec::new();
        notification().encode(&mut framed);
        let payload = &framed[4..];
        assert_eq!(Notification::decode(payload), Ok(notification()));
        let without_config =
            Notification { version: NotificationVersion::V0, config: None, ..notification() };
        assert_eq!(Notification::decode(&payload[..40]), Ok(without_config.clone()));
        assert_eq!(Notification::decode(&payload[..28]), Ok(without_config));
        assert!(Notification::decode(&payload[..36]).is_err());
        assert!(Notification::decode(&payload[..27]).is_err());
        assert!(Notification::decode(&payload[..payload.len() - 1]).is_err(), "a cut configuration");
    }

    #[test]
    fn hostile_notifications_are_errors() {
        let mut framed = Vec::new();
        notification().encode(&mut framed);
        let mut payload = framed[4..].to_vec();
        payload[3] = 9;
        assert!(Notification::decode(&payload).is_err(), "an unknown state");
        payload[3] = 0;
        payload[40..44].copy_from_slice(&(-5i32).to_be_bytes());
        assert!(Notification::decode(&payload).is_err(), "a negative length");
    }

    #[test]
    fn initial_messages() {
        let message = InitialMessage { server: ServerId(1), addresses: vec!["10.0.0.1:3888".into()] };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut expected =
            vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 13];
        expected.extend_from_slice(b"10.0.0.1:3888");
        assert_eq!(bytes, expected);
        assert_eq!(InitialMessage::decode(&mut Reader::new(&bytes)), Ok(message));
        let several = InitialMessage { server: ServerId(1), addresses: vec!["a:1".into(), "[::1]:2".into()] };
        bytes.clear();
        several.encode(&mut bytes);
        assert_eq!(InitialMessage::decode(&mut Reader::new(&bytes)), Ok(several));
        for bad in [0i32, -1, 2049, i32::MAX] {
            let mut bytes = expected.clone();
            bytes[16..20].copy_from_slice(&bad.to_be_bytes());
            assert!(InitialMessage::decode(&mut Reader::new(&bytes)).is_err(), "{bad}");
        }
    }
}
