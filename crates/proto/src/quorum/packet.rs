//! QuorumPacket: the messages between leader and learners. One record on the wire has many meanings; here
//! each is a variant with only its own fields.

use std::sync::Arc;

use crate::acl::Id;
use crate::ids::{ServerId, SessionId, Zxid};
use crate::jute::{Buffer, DecodeError, Jute, Reader, encode_bytes, encode_count};
use crate::quorum::{AuthCache, DiskRoom, PeerAnnouncement};

/// The protocol version that every learner since 3.4 announces.
pub const LEARNER_PROTOCOL: i32 = 0x1_0000;

/// The zxid field of packets without a transaction.
const NO_ZXID: i64 = -1;

/// The first message of a learner about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnerInfo {
    /// Its server id; negative ones are assigned to learners without.
    pub server: ServerId,
    /// [`LEARNER_PROTOCOL`].
    pub protocol: i32,
    /// The version of its committed configuration.
    pub config_version: i64,
    /// What a Zebu server says about itself; `None` from another server.
    pub zebu: Option<PeerAnnouncement>,
}

/// A session that was active at a learner since the last ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The session.
    pub session: SessionId,
    /// Its timeout, milliseconds.
    pub timeout_ms: i32,
}

/// A packet between a leader and a learner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A write or a sync of a learner's client.
    Request {
        /// The client's session.
        session: SessionId,
        /// The xid of the request.
        cxid: i32,
        /// Operation code.
        op: i32,
        /// The request record.
        payload: Arc<[u8]>,
        /// The client's credentials; null for a new session.
        auth: Option<Arc<[Id]>>,
    },
    /// A transaction to be logged.
    Proposal {
        /// Its zxid.
        zxid: Zxid,
        /// Header, body and digest, as in the log.
        entry: Arc<[u8]>,
    },
    /// The transaction is in the sender's log; with counter 0: the new leader is accepted.
    Ack {
        /// The zxid.
        zxid: Zxid,
    },
    /// A proposal is committed.
    Commit {
        /// The zxid.
        zxid: Zxid,
    },
    /// A leader checks whether the learner is alive.
    Ping {
        /// The zxid of the last proposal.
        zxid: Zxid,
    },
    /// A learner answers a ping, with its active sessions.
    PingReply {
        /// Copied from the ping.
        zxid: Zxid,
        /// Sessions that were active since the last one.
        touched: Vec<Touch>,
        /// The room on the disk of the learner; `None` to a leader that does not read it.
        room: Option<DiskRoom>,
    },
    /// A client has moved to the learner with a session, which the leader has to validate.
    Revalidate {
        /// The session.
        session: SessionId,
        /// The negotiated timeout, milliseconds.
        timeout_ms: i32,
    },
    /// The reply to [`Packet::Revalidate`].
    Revalidated {
        /// The session.
        session: SessionId,
        /// Whether the session is valid.
        valid: bool,
    },
    /// Every transaction that was committed when a sync was requested has been sent.
    Sync,
    /// A committed transaction, to an observer.
    Inform {
        /// Its zxid.
        zxid: Zxid,
        /// Header, body and digest.
        entry: Arc<[u8]>,
    },
    /// A reconfig is committed.
    CommitAndActivate {
        /// Its zxid.
        zxid: Zxid,
        /// The leader of the new configuration.
        designated_leader: ServerId,
    },
    /// The history up to here is the initial history of a new epoch.
    NewLeader {
        /// The epoch, with counter 0.
        zxid: Zxid,
        /// Configuration text; null only for learners before 3.4.
        config: Buffer,
    },
    /// A follower introduces itself.
    FollowerInfo {
        /// The epoch that it has accepted, with counter 0.
        accepted: Zxid,
        /// Its id, protocol and configuration version.
        info: LearnerInfo,
    },
    /// The learner may serve.
    UpToDate,
    /// The missing transactions follow.
    Diff {
        /// The leader's last committed transaction.
        zxid: Zxid,
    },
    /// The learner must truncate its log.
    Trunc {
        /// The last transaction that stays.
        zxid: Zxid,
    },
    /// A snapshot follows.
    Snap {
        /// The leader's last applied transaction.
        zxid: Zxid,
    },
    /// An observer introduces itself.
    ObserverInfo {
        /// The epoch that it has accepted, with counter 0.
        accepted: Zxid,
        /// Its id, protocol and configuration version.
        info: LearnerInfo,
    },
    /// The epoch that the leader proposes.
    LeaderInfo {
        /// The epoch, with counter 0.
        zxid: Zxid,
        /// [`LEARNER_PROTOCOL`].
        protocol: i32,
        /// What a Zebu leader says about itself; `None` under another leader.
        zebu: Option<PeerAnnouncement>,
    },
    /// The learner accepts the epoch.
    AckEpoch {
        /// The learner's last transaction.
        last: Zxid,
        /// Its current epoch; -1 when it had accepted this epoch before and must not be counted.
        current_epoch: i32,
    },
    /// A committed reconfig, to an observer.
    InformAndActivate {
        /// Its zxid.
        zxid: Zxid,
        /// The leader of the new configuration.
        designated_leader: ServerId,
        /// Header, body and digest.
        entry: Arc<[u8]>,
    },
}

/// Numbers of the packets on the wire.
mod kind {
    pub(super) const REQUEST: i32 = 1;
    pub(super) const PROPOSAL: i32 = 2;
    pub(super) const ACK: i32 = 3;
    pub(super) const COMMIT: i32 = 4;
    pub(super) const PING: i32 = 5;
    pub(super) const REVALIDATE: i32 = 6;
    pub(super) const SYNC: i32 = 7;
    pub(super) const INFORM: i32 = 8;
    pub(super) const COMMIT_AND_ACTIVATE: i32 = 9;
    pub(super) const NEW_LEADER: i32 = 10;
    pub(super) const FOLLOWER_INFO: i32 = 11;
    pub(super) const UP_TO_DATE: i32 = 12;
    pub(super) const DIFF: i32 = 13;
    pub(super) const TRUNC: i32 = 14;
    pub(super) const SNAP: i32 = 15;
    pub(super) const OBSERVER_INFO: i32 = 16;
    pub(super) const LEADER_INFO: i32 = 17;
    pub(super) const ACK_EPOCH: i32 = 18;
    pub(super) const INFORM_AND_ACTIVATE: i32 = 19;
}

impl Packet {
    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Packet::Request { session, cxid, op, payload, auth } => {
                head(kind::REQUEST, NO_ZXID, out);
                with_data(out, |out| {
                    session.0.encode(out);
                    cxid.encode(out);
                    op.encode(out);
                    out.extend_from_slice(payload);
                });
                match auth {
                    Some(ids) => {
                        encode_count(ids.len(), out);
                        ids.iter().for_each(|id| id.encode(out));
                    }
                    None => no_auth(out),
                }
            }
            Packet::Proposal { zxid, entry } => bytes_packet(kind::PROPOSAL, zxid.0, entry, out),
            Packet::Ack { zxid } => bare_packet(kind::ACK, zxid.0, out),
            Packet::Commit { zxid } => bare_packet(kind::COMMIT, zxid.0, out),
            Packet::Ping { zxid } => bare_packet(kind::PING, zxid.0, out),
            Packet::PingReply { zxid, touched, room } => {
                // An empty list is an empty buffer: with a null one the peer would close the connection.
                packet(kind::PING, zxid.0, out, |out| {
                    for touch in touched {
                        touch.session.0.encode(out);
                        touch.timeout_ms.encode(out);
                    }
                    out.extend(room.map(DiskRoom::number));
                });
            }
            Packet::Revalidate { session, timeout_ms } => packet(kind::REVALIDATE, NO_ZXID, out, |out| {
                session.0.encode(out);
                timeout_ms.encode(out);
            }),
            Packet::Revalidated { session, valid } => packet(kind::REVALIDATE, NO_ZXID, out, |out| {
                session.0.encode(out);
                valid.encode(out);
            }),
            Packet::Sync => bare_packet(kind::SYNC, 0, out),
            Packet::Inform { zxid, entry } => bytes_packet(kind::INFORM, zxid.0, entry, out),
            Packet::CommitAndActivate { zxid, designated_leader } => {
                packet(kind::COMMIT_AND_ACTIVATE, zxid.0, out, |out| designated_leader.0.encode(out));
            }
            Packet::NewLeader { zxid, config } => match config {
                Some(config) => bytes_packet(kind::NEW_LEADER, zxid.0, config, out),
                None => bare_packet(kind::NEW_LEADER, zxid.0, out),
            },
            Packet::FollowerInfo { accepted, info } => info_packet(kind::FOLLOWER_INFO, *accepted, info, out),
            Packet::ObserverInfo { accepted, info } => info_packet(kind::OBSERVER_INFO, *accepted, info, out),
            Packet::UpToDate => bare_packet(kind::UP_TO_DATE, NO_ZXID, out),
            Packet::Diff { zxid } => bare_packet(kind::DIFF, zxid.0, out),
            Packet::Trunc { zxid } => bare_packet(kind::TRUNC, zxid.0, out),
            Packet::Snap { zxid } => bare_packet(kind::SNAP, zxid.0, out),
            Packet::LeaderInfo { zxid, protocol, zebu } => {
                packet(kind::LEADER_INFO, zxid.0, out, |out| {
                    protocol.encode(out);
                    encode_tail(*zebu, out);
                });
            }
            Packet::AckEpoch { last, current_epoch } => {
                packet(kind::ACK_EPOCH, last.0, out, |out| current_epoch.encode(out));
            }
            Packet::InformAndActivate { zxid, designated_leader, entry } => {
                packet(kind::INFORM_AND_ACTIVATE, zxid.0, out, |out| {
                    designated_leader.0.encode(out);
                    out.extend_from_slice(entry);
                });
            }
        }
    }

    /// Decodes a complete packet.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Packet, DecodeError> {
        Packet::decode_as(reader, |reader| Ok(Option::<Vec<Id>>::decode(reader)?.map(Arc::from)))
    }

    /// Decodes a packet that takes all bytes of the reader; cached credentials are shared.
    pub fn decode_with_cache(reader: &mut Reader<'_>, known: &mut AuthCache) -> Result<Packet, DecodeError> {
        Packet::decode_as(reader, |reader| known.decode(reader))
    }

    fn decode_as(
        reader: &mut Reader<'_>,
        auth: impl FnOnce(&mut Reader<'_>) -> Result<Option<Arc<[Id]>>, DecodeError>,
    ) -> Result<Packet, DecodeError> {
        let number = reader.int()?;
        let zxid = Zxid(reader.long()?);
        let data = reader.buffer()?;
        let auth = auth(reader)?;
        let mut body = Reader::new(data.unwrap_or_default());
        Ok(match number {
            kind::REQUEST => Packet::Request {
                session: SessionId(body.long()?),
                cxid: body.int()?,
                op: body.int()?,
                payload: body.rest().into(),
                auth,
            },
            kind::PROPOSAL => Packet::Proposal { zxid, entry: required(data)? },
            kind::ACK => Packet::Ack { zxid },
            kind::COMMIT => Packet::Commit { zxid },
            kind::PING => match data {
                None => Packet::Ping { zxid },
                Some(data) => {
                    Packet::PingReply { zxid, touched: decode_touched(&mut body)?, room: decode_room(data) }
                }
            },
            // Request and reply differ in their length alone.
            kind::REVALIDATE if data.is_some_and(|data| data.len() == 9) => {
                Packet::Revalidated { session: SessionId(body.long()?), valid: body.boolean()? }
            }
            kind::REVALIDATE => {
                Packet::Revalidate { session: SessionId(body.long()?), timeout_ms: body.int()? }
            }
            kind::SYNC => Packet::Sync,
            kind::INFORM => Packet::Inform { zxid, entry: required(data)? },
            kind::COMMIT_AND_ACTIVATE => {
                Packet::CommitAndActivate { zxid, designated_leader: ServerId(body.long()?) }
            }
            kind::NEW_LEADER => Packet::NewLeader { zxid, config: data.map(Arc::from) },
            kind::FOLLOWER_INFO => Packet::FollowerInfo { accepted: zxid, info: decode_info(&mut body)? },
            kind::OBSERVER_INFO => Packet::ObserverInfo { accepted: zxid, info: decode_info(&mut body)? },
            kind::UP_TO_DATE => Packet::UpToDate,
            kind::DIFF => Packet::Diff { zxid },
            kind::TRUNC => Packet::Trunc { zxid },
            kind::SNAP => Packet::Snap { zxid },
            kind::LEADER_INFO => {
                let protocol = body.int()?;
                Packet::LeaderInfo { zxid, protocol, zebu: PeerAnnouncement::decode(&mut body) }
            }
            kind::ACK_EPOCH => Packet::AckEpoch { last: zxid, current_epoch: body.int()? },
            kind::INFORM_AND_ACTIVATE => {
                let designated_leader = ServerId(body.long()?);
                Packet::InformAndActivate { zxid, designated_leader, entry: body.rest().into() }
            }
            other => return Err(DecodeError::Unknown { what: "quorum packet", value: other.into() }),
        })
    }
}

fn required(data: Option<&[u8]>) -> Result<Arc<[u8]>, DecodeError> {
    data.map(Arc::from).ok_or(DecodeError::Null { at: 12 })
}

/// The size of a session in a ping reply.
const TOUCH_SIZE: usize = 12;

/// Decodes the sessions of a ping reply. One byte may follow them.
fn decode_touched(body: &mut Reader<'_>) -> Result<Vec<Touch>, DecodeError> {
    let mut touched = Vec::with_capacity(body.remaining() / TOUCH_SIZE);
    while body.remaining() > 1 {
        touched.push(Touch { session: SessionId(body.long()?), timeout_ms: body.int()? });
    }
    Ok(touched)
}

/// Decodes the byte behind the sessions of a ping reply.
fn decode_room(data: &[u8]) -> Option<DiskRoom> {
    let has_room = data.len() % TOUCH_SIZE == 1;
    data.last().copied().filter(|_| has_room).and_then(DiskRoom::from_number)
}

/// Older learners omit the last fields.
fn decode_info(body: &mut Reader<'_>) -> Result<LearnerInfo, DecodeError> {
    let server = ServerId(body.long()?);
    let protocol = if body.remaining() >= 4 { body.int()? } else { 1 };
    let config_version = if body.remaining() >= 8 { body.long()? } else { 0 };
    Ok(LearnerInfo { server, protocol, config_version, zebu: PeerAnnouncement::decode(body) })
}

fn head(number: i32, zxid: i64, out: &mut Vec<u8>) {
    number.encode(out);
    zxid.encode(out);
}

fn with_data(out: &mut Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) {
    let start = crate::frame::begin_frame(out);
    data(out);
    crate::frame::finish_frame(out, start);
}

fn no_auth(out: &mut Vec<u8>) {
    (-1i32).encode(out);
}

fn packet(number: i32, zxid: i64, out: &mut Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) {
    head(number, zxid, out);
    with_data(out, data);
    no_auth(out);
}

fn bytes_packet(number: i32, zxid: i64, data: &[u8], out: &mut Vec<u8>) {
    head(number, zxid, out);
    encode_bytes(data, out);
    no_auth(out);
}

fn bare_packet(number: i32, zxid: i64, out: &mut Vec<u8>) {
    head(number, zxid, out);
    (-1i32).encode(out);
    no_auth(out);
}

fn info_packet(number: i32, accepted: Zxid, info: &LearnerInfo, out: &mut Vec<u8>) {
    packet(number, accepted.0, out, |out| {
        info.server.0.encode(out);
        info.protocol.encode(out);
        info.config_version.encode(out);
        encode_tail(info.zebu, out);
    });
}

fn encode_tail(zebu: Option<PeerAnnouncement>, out: &mut Vec<u8>) {
    if let Some(zebu) = zebu {
        zebu.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(packet: &Packet) -> Vec<u8> {
        let mut out = Vec::new();
        packet.encode(&mut out);
        out
    }

    #[test]
    fn worked_bytes() {
        let info =
            LearnerInfo { server: ServerId(1), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None };
        let follower = Packet::FollowerInfo { accepted: Zxid::new(2, 0), info };
        assert_eq!(
            bytes(&follower),
            [
                0, 0, 0, 0x0b, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff
            ]
        );
        let reply = Packet::PingReply { zxid: Zxid::new(3, 1), touched: vec![], room: None };
        assert_eq!(bytes(&reply), [0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes(&Packet::UpToDate)[4..12], [0xff; 8]);
    }

    #[test]
    fn a_ping_reply_ends_with_the_room_on_the_disk() {
        let touched = vec![Touch { session: SessionId(5), timeout_ms: 9 }];
        let reply = |room| Packet::PingReply { zxid: Zxid::new(3, 1), touched: touched.clone(), room };
        assert_eq!(bytes(&reply(Some(DiskRoom::Full))).len(), bytes(&reply(None)).len() + 1);
        for room in [None, Some(DiskRoom::Enough), Some(DiskRoom::Low), Some(DiskRoom::Full)] {
            assert_eq!(Packet::decode(&mut Reader::new(&bytes(&reply(room)))), Ok(reply(room)));
        }
        let later_version = [0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 77, 0xff, 0xff, 0xff, 0xff];
        let bare = Packet::PingReply { zxid: Zxid::new(3, 1), touched: vec![], room: None };
        assert_eq!(Packet::decode(&mut Reader::new(&later_version)), Ok(bare));
    }

    #[test]
    fn a_zebu_server_announces_itself_behind_the_fields() {
        let zebu = Some(PeerAnnouncement::CURRENT);
        let info = LearnerInfo { server: ServerId(1), protocol: LEARNER_PROTOCOL, config_version: 0, zebu };
        let plain = Packet::ObserverInfo { accepted: Zxid(0), info: LearnerInfo { zebu: None, ..info } };
        let learner = Packet::ObserverInfo { accepted: Zxid(0), info };
        let leader = Packet::LeaderInfo { zxid: Zxid(0), protocol: LEARNER_PROTOCOL, zebu };
        assert_eq!(bytes(&learner).len(), bytes(&plain).len() + 12);
        for packet in [learner, plain, leader] {
            assert_eq!(Packet::decode(&mut Reader::new(&bytes(&packet))), Ok(packet));
        }
    }

    #[test]
    fn null_where_bytes_are_needed_is_an_error() {
        let mut out = Vec::new();
        bare_packet(kind::PROPOSAL, 7, &mut out);
        assert!(Packet::decode(&mut Reader::new(&out)).is_err());
        let mut out = Vec::new();
        bare_packet(77, 7, &mut out);
        assert!(matches!(Packet::decode(&mut Reader::new(&out)), Err(DecodeError::Unknown { .. })));
    }

    #[test]
    fn a_torn_list_of_touched_sessions_is_an_error() {
        let mut out = Vec::new();
        bytes_packet(kind::PING, 7, &[0; 14], &mut out);
        assert!(Packet::decode(&mut Reader::new(&out)).is_err());
    }
}
