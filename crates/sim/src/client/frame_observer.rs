//! Observes a client's connection: the requests that leave and the frames that arrive, in their order.

use zebu_proto::client::feed::{FEATURE_FEED, PUSH_FEED, PUSH_FEED_END};
use zebu_proto::client::read::ReadRequest;
use zebu_proto::client::{
    ClientHello, EventType, ReplyHeader, Request, RequestHeader, SetWatches, WatcherEvent,
};
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek};
use zebu_proto::{Jute, OpCode, Reader, Xid};

use crate::check::{Frame, FrameKind};

const FRAME_MAX: usize = 64 << 20;

/// A request that left.
#[derive(Debug)]
pub(crate) enum SentFrame {
    /// The first frame.
    Connect,
    /// A call of the workload.
    Call { xid: i32 },
    /// The session state machine registers watches again.
    Rewatch { xid: i32, set: SetWatches },
    /// The session state machine closes its session.
    Close,
    /// Another request of the session state machine.
    Own,
}

/// A frame that was received.
#[derive(Debug)]
pub(crate) enum ReceivedFrame {
    /// The connect response.
    Greeting,
    Frame(Frame),
    /// A push of the server.
    Push,
    /// Bytes that are no frame of a server.
    Garbage,
}

/// Both directions of one connection.
#[derive(Debug, Default)]
pub(crate) struct FrameObserver {
    sent_hello: bool,
    got_greeting: bool,
    /// The request by which the client says that it can move.
    hello_xid: Option<i32>,
    /// Whether the client has said that it understands feeds.
    takes_feeds: bool,
    input: Vec<u8>,
}

impl FrameObserver {
    /// Decodes the bytes that leave, which are complete frames.
    pub(crate) fn leaving(&mut self, mut bytes: &[u8]) -> Vec<SentFrame> {
        let mut requests = Vec::new();
        while let Framed::Complete { length } = peek(bytes, FRAME_MAX) {
            let (frame, rest) = bytes.split_at(LENGTH_SIZE + length);
            bytes = rest;
            if !self.sent_hello {
                self.sent_hello = true;
                requests.push(SentFrame::Connect);
                continue;
            }
            let payload = &frame[LENGTH_SIZE..];
            let mut reader = Reader::new(payload);
            if let Ok(header) = RequestHeader::decode(&mut reader)
                && header.op == OpCode::Hello.wire()
            {
                match is_hello_of_workload(&mut reader) {
                    true => self.takes_feeds = true,
                    false => self.hello_xid = Some(header.xid),
                }
            }
            requests.push(requested(payload));
        }
        requests
    }

    /// Whether the client has said hello on this connection, and understands a push.
    pub(crate) fn understands(&self, frame: &[u8]) -> bool {
        let mut reader = Reader::new(frame.get(LENGTH_SIZE..).unwrap_or_default());
        let is_feed =
            ReplyHeader::decode(&mut reader).is_ok() && matches!(reader.int(), Ok(PUSH_FEED | PUSH_FEED_END));
        if is_feed { self.takes_feeds } else { self.hello_xid.is_some() }
    }

    /// Whether this frame is the answer to hello.
    pub(crate) fn is_hello_answer(&self, frame: &Frame) -> bool {
        matches!(frame.kind, FrameKind::Reply { xid, code: 0 } if Some(xid) == self.hello_xid)
    }

    /// Buffers received bytes; [`FrameObserver::next`] returns the next complete frame.
    pub(crate) fn came(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next frame, with its bytes.
    pub(crate) fn next(&mut self) -> Option<(Vec<u8>, ReceivedFrame)> {
        let Framed::Complete { length } = peek(&self.input, FRAME_MAX) else { return None };
        let frame: Vec<u8> = self.input.drain(..LENGTH_SIZE + length).collect();
        if !self.got_greeting {
            self.got_greeting = true;
            return Some((frame, ReceivedFrame::Greeting));
        }
        let header = ReplyHeader::decode(&mut Reader::new(&frame[LENGTH_SIZE..]));
        if header.is_ok_and(|header| Xid(header.xid) == Xid::PUSH) {
            return Some((frame, ReceivedFrame::Push));
        }
        let received = received(&frame[LENGTH_SIZE..]).map_or(ReceivedFrame::Garbage, ReceivedFrame::Frame);
        Some((frame, received))
    }
}

fn requested(payload: &[u8]) -> SentFrame {
    let mut reader = Reader::new(payload);
    let Ok(header) = RequestHeader::decode(&mut reader) else { return SentFrame::Own };
    match OpCode::from_wire(header.op) {
        Some(OpCode::SetWatches | OpCode::SetWatches2) => match Request::decode(header.op, &mut reader) {
            Ok(Request::Read(ReadRequest::SetWatches(set))) => {
                SentFrame::Rewatch { xid: header.xid, set: *set }
            }
            _ => SentFrame::Own,
        },
        Some(OpCode::CloseSession) => SentFrame::Close,
        Some(OpCode::Hello) if is_hello_of_workload(&mut reader) => SentFrame::Call { xid: header.xid },
        Some(OpCode::RemoveWatches | OpCode::Ping | OpCode::Auth | OpCode::Hello | OpCode::FeedCredit) => {
            SentFrame::Own
        }
        // No call of the workload reads the features of a server.
        Some(OpCode::GetData) if reader.rest().ends_with(b"/zookeeper/zebu\0") => SentFrame::Own,
        // The session state machine renews its lease with a sync; the workload syncs another node.
        Some(OpCode::Sync) if reader.rest() == [0, 0, 0, 1, b'/'] => SentFrame::Own,
        _ => SentFrame::Call { xid: header.xid },
    }
}

/// Whether a hello is about feeds: the session state machine says only that it can move.
fn is_hello_of_workload(reader: &mut Reader<'_>) -> bool {
    ClientHello::decode(reader).is_ok_and(|hello| hello.features & FEATURE_FEED != 0)
}

fn received(payload: &[u8]) -> Option<Frame> {
    let mut reader = Reader::new(payload);
    let header = ReplyHeader::decode(&mut reader).ok()?;
    let kind = match Xid(header.xid) {
        Xid::NOTIFICATION => {
            let event = WatcherEvent::decode(&mut reader).ok()?;
            FrameKind::Event { kind: EventType::from_wire(event.kind)?, path: event.path? }
        }
        Xid::PING => FrameKind::Ping,
        _ => FrameKind::Reply { xid: header.xid, code: header.err },
    };
    Some(Frame { zxid: header.zxid, kind })
}
