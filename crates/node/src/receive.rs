//! A frame comes in: decoded, answered if it is a read that need not wait, put into a slot otherwise.

use std::sync::Arc;

use zebu_proto::client::auth::AuthPacket;
use zebu_proto::client::{ReadRequest, Request, RequestError, RequestHeader, WriteRequest};
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, SessionId};
use zebu_tree::{Credentials, access};

use crate::lane::{
    Answer, Asked, CloseReason, HeaderZxid, Lane, LaneId, Phase, Service, Slot, Then, Upstream, Work,
};
use crate::limits::{CREDENTIALS_BYTES_MAX, CREDENTIALS_MAX};
use crate::reading::is_refused;
use crate::replica::Replica;
use crate::settings::Enforcement;
use crate::shape::ReplyShape;

/// What the core has to do.
#[derive(Debug)]
pub enum Demand {
    /// Make a transaction of this.
    Write(WriteRequest),
    /// Answer when everything is applied that is decided now.
    Sync,
}

/// A request as it came, to be sent on to the leader.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) op: i32,
    /// What followed the header.
    pub(crate) record: Arc<[u8]>,
}

/// A request on its way to the core.
#[derive(Debug)]
pub struct Submission {
    /// Where the answer goes.
    pub lane: LaneId,
    /// Which slot of it waits.
    pub slot: u64,
    /// Who asks.
    pub session: SessionId,
    /// The client's number of the request.
    pub xid: i32,
    /// What is asked.
    pub demand: Demand,
    /// The client's credentials when the request was received.
    pub credentials: Credentials,
    /// Monotonic milliseconds of the receipt.
    pub received_ms: i64,
    /// What the connection was accepted into.
    pub(crate) service: Service,
    /// The bytes, if another server decides.
    pub(crate) forward: Option<Forward>,
}

impl Replica {
    /// Takes one frame after the handshake. Returns a request that the core has to carry out; everything else
    /// is answered or waits in the lane. The caller holds the replica at least shared.
    pub fn receive(&self, lane: &mut Lane, payload: &[u8], now_ms: i64) -> Option<Submission> {
        lane.count_received();
        if lane.phase != Phase::Serving {
            return None;
        }
        lane.touched_ms = now_ms;
        let mut reader = Reader::new(payload);
        let Ok(header) = RequestHeader::decode(&mut reader) else {
            lane.close(CloseReason::BadFrame);
            return None;
        };
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let asked = Asked { xid: header.xid, op: OpCode::from_wire(header.op), received_ms: now_ms, bytes };
        let is_auth = matches!(asked.op, Some(OpCode::Auth | OpCode::Sasl));
        if !is_auth && !self.enforcement.is_met_by(&lane.credentials) {
            let error = Some(ErrorCode::SessionClosedRequireSaslAuth);
            let answer = Answer::Header { zxid: HeaderZxid::Fixed(0), error };
            self.answer_in_turn(lane, asked, answer, Then::Drain);
            return None;
        }
        if lane.service.upstream == Upstream::Nobody
            && let Some(op) = asked.op
            && is_refused(op, lane.session.map(|session| session.id), &self.tree)
        {
            // Reports know no operation of a write that failed.
            let asked = Asked { op: None, ..asked };
            let answer = Answer::Header { zxid: HeaderZxid::Applied, error: Some(ErrorCode::NotReadOnly) };
            self.answer_in_turn(lane, asked, answer, Then::Continue);
            return None;
        }
        match Request::decode(header.op, &mut reader) {
            Ok(Request::Read(ReadRequest::Sync(path))) if lane.service.upstream != Upstream::Standalone => {
                let shape = ReplyShape::Sync(path.map(|path| path.into_owned().into_boxed_str()));
                submit(lane, asked, Demand::Sync, shape, header.op, payload)
            }
            Ok(Request::Read(request)) => {
                self.read_in_turn(lane, asked, request);
                None
            }
            Ok(Request::Write(request)) => {
                let shape = ReplyShape::of(&request);
                submit(lane, asked, Demand::Write(request), shape, header.op, payload)
            }
            Ok(Request::Auth(packet)) => {
                self.authenticate(lane, asked, &packet);
                None
            }
            Ok(Request::Sasl(_)) => {
                self.answer_in_turn(lane, asked, Answer::NoSasl, Then::Continue);
                None
            }
            Err(error) => {
                self.refuse(lane, asked, error);
                None
            }
        }
    }

    /// Answers everything at the front of the lane that needs no transaction.
    pub(crate) fn drain_ready(&self, lane: &mut Lane, now_ms: i64) {
        while let Some(Slot { asked, work }) = lane.pop_ready() {
            if lane.outbox_is_full() {
                lane.close(CloseReason::OutboxFull);
                return;
            }
            match work {
                Work::Read(request, credentials) => {
                    self.answer_read(lane, asked, &request, &credentials, now_ms)
                }
                Work::Answer(answer, then) => lane.push_answer(asked, answer, then, self.last_zxid(), now_ms),
                Work::Write(_) => unreachable!("pop_ready leaves writes where they are"),
            }
        }
    }

    fn read_in_turn(&self, lane: &mut Lane, asked: Asked, request: ReadRequest<'_>) {
        let credentials = lane.credentials.clone();
        if lane.is_idle() {
            self.answer_read(lane, asked, &request, &credentials, asked.received_ms);
        } else {
            lane.push_slot(Slot { asked, work: Work::Read(request.into_owned(), credentials) });
        }
    }

    fn answer_in_turn(&self, lane: &mut Lane, asked: Asked, answer: Answer, then: Then) {
        if lane.is_idle() {
            lane.push_answer(asked, answer, then, self.last_zxid(), asked.received_ms);
        } else {
            lane.push_slot(Slot { asked, work: Work::Answer(answer, then) });
            if then == Then::Drain {
                // No request behind this one may be looked at.
                lane.drain();
            }
        }
    }

    fn refuse(&self, lane: &mut Lane, asked: Asked, error: RequestError) {
        let asked = Asked { op: None, ..asked };
        match error {
            RequestError::UnknownOp => {
                let answer =
                    Answer::Header { zxid: HeaderZxid::Fixed(-1), error: Some(ErrorCode::Unimplemented) };
                self.answer_in_turn(lane, asked, answer, Then::Drain);
            }
            RequestError::Undecodable => {
                let answer =
                    Answer::Header { zxid: HeaderZxid::Applied, error: Some(ErrorCode::MarshallingError) };
                self.answer_in_turn(lane, asked, answer, Then::Continue);
            }
            RequestError::CloseSilently => lane.close(CloseReason::BadFrame),
        }
    }

    /// Takes effect at once for the requests behind it; the answer keeps its turn.
    fn authenticate(&self, lane: &mut Lane, asked: Asked, packet: &AuthPacket) {
        let accepted = access::authenticate(packet.scheme.as_deref(), packet.auth.as_deref(), &self.policy);
        let added = accepted.is_ok_and(|ids| {
            ids.into_iter().for_each(|id| lane.credentials.add(id));
            lane.credentials.len() <= CREDENTIALS_MAX
                && lane.credentials.encoded_length() <= CREDENTIALS_BYTES_MAX
        });
        let (error, then) = if added {
            (None, Then::Continue)
        } else {
            lane.count_auth_failure();
            (Some(ErrorCode::AuthFailed), Then::Drain)
        };
        self.answer_in_turn(lane, asked, Answer::Header { zxid: HeaderZxid::Fixed(0), error }, then);
    }
}

impl Enforcement {
    fn is_met_by(&self, credentials: &Credentials) -> bool {
        match self {
            Enforcement::Off => true,
            Enforcement::Schemes(schemes) => {
                credentials.iter().any(|id| schemes.iter().any(|scheme| id.scheme.as_ref() == Some(scheme)))
            }
        }
    }
}

/// Bytes of a request header: xid and operation.
const REQUEST_HEADER_SIZE: usize = 8;

fn submit(
    lane: &mut Lane,
    asked: Asked,
    demand: Demand,
    shape: ReplyShape,
    op: i32,
    payload: &[u8],
) -> Option<Submission> {
    let session = lane.session?.id;
    let closes = shape == ReplyShape::Close;
    let slot = lane.push_slot(Slot { asked, work: Work::Write(shape) });
    if closes {
        // What a client sends behind its farewell is not looked at.
        lane.drain();
    }
    let forward = match lane.service.upstream {
        Upstream::Standalone | Upstream::Leading | Upstream::Nobody => None,
        Upstream::Learning => {
            let record = payload.get(REQUEST_HEADER_SIZE..).unwrap_or_default().into();
            Some(Forward { op, record })
        }
    };
    Some(Submission {
        lane: lane.id,
        slot,
        session,
        xid: asked.xid,
        demand,
        credentials: lane.credentials.clone(),
        received_ms: asked.received_ms,
        service: lane.service,
        forward,
    })
}
