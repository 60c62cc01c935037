//! Eyes on a client's connection: which requests leave and which frames come, in the order of the wire.

use zebu_proto::client::read::ReadRequest;
use zebu_proto::client::{EventType, ReplyHeader, Request, RequestHeader, SetWatches, WatcherEvent};
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek};
use zebu_proto::{Jute, OpCode, Reader, Xid};

use crate::check::{Frame, FrameKind};

const FRAME_MAX: usize = 64 << 20;

/// A request that left.
#[derive(Debug)]
pub(crate) enum Requested {
    /// The first frame.
    Connect,
    /// A call of the workload.
    Call { xid: i32 },
    /// The machine registers watches again.
    Rewatch { xid: i32, set: SetWatches },
    /// The machine ends its session.
    Close,
    /// Something else of the machine's own.
    Own,
}

/// A frame that came.
#[derive(Debug)]
pub(crate) enum Received {
    /// The answer to the first frame.
    Greeting,
    Frame(Frame),
    /// Not a frame that a server sends.
    Garbage,
}

/// Both directions of one connection.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    sent_hello: bool,
    got_greeting: bool,
    input: Vec<u8>,
}

impl Wire {
    /// What is in the bytes that leave. They are whole frames.
    pub(crate) fn leaving(&mut self, mut bytes: &[u8]) -> Vec<Requested> {
        let mut requests = Vec::new();
        while let Framed::Complete { length } = peek(bytes, FRAME_MAX) {
            let (frame, rest) = bytes.split_at(LENGTH_SIZE + length);
            bytes = rest;
            if !self.sent_hello {
                self.sent_hello = true;
                requests.push(Requested::Connect);
                continue;
            }
            requests.push(requested(&frame[LENGTH_SIZE..]));
        }
        requests
    }

    /// Takes bytes that came; the next whole frame is handed out by [`Wire::next`].
    pub(crate) fn came(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next frame, with its bytes.
    pub(crate) fn next(&mut self) -> Option<(Vec<u8>, Received)> {
        let Framed::Complete { length } = peek(&self.input, FRAME_MAX) else { return None };
        let frame: Vec<u8> = self.input.drain(..LENGTH_SIZE + length).collect();
        if !self.got_greeting {
            self.got_greeting = true;
            return Some((frame, Received::Greeting));
        }
        let received = received(&frame[LENGTH_SIZE..]).map_or(Received::Garbage, Received::Frame);
        Some((frame, received))
    }
}

fn requested(payload: &[u8]) -> Requested {
    let mut reader = Reader::new(payload);
    let Ok(header) = RequestHeader::decode(&mut reader) else { return Requested::Own };
    match OpCode::from_wire(header.op) {
        Some(OpCode::SetWatches | OpCode::SetWatches2) => match Request::decode(header.op, &mut reader) {
            Ok(Request::Read(ReadRequest::SetWatches(set))) => {
                Requested::Rewatch { xid: header.xid, set: *set }
            }
            _ => Requested::Own,
        },
        Some(OpCode::CloseSession) => Requested::Close,
        Some(OpCode::RemoveWatches | OpCode::Ping | OpCode::Auth) => Requested::Own,
        // The machine renews its lease; the workload names another node.
        Some(OpCode::Sync) if reader.rest() == [0, 0, 0, 1, b'/'] => Requested::Own,
        _ => Requested::Call { xid: header.xid },
    }
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
