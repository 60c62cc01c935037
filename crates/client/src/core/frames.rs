//! Framing in both directions: encodes requests and splits received bytes into frames. It knows lengths and
//! headers; bodies are opaque.

use zebu_proto::client::{AuthPacket, ConnectRequest, RequestHeader};
use zebu_proto::frame::{Framed, LENGTH_SIZE, peek, write_frame};
use zebu_proto::{Jute, OpCode, Xid};

/// Appends a request.
pub(crate) fn request(xid: i32, op: OpCode, body: &[u8], out: &mut Vec<u8>) {
    write_frame(out, |out| {
        RequestHeader { xid, op: op.wire() }.encode(out);
        out.extend_from_slice(body);
    });
}

/// Appends a ping.
pub(crate) fn ping(out: &mut Vec<u8>) {
    request(Xid::PING.0, OpCode::Ping, &[], out);
}

/// Appends a credential.
pub(crate) fn auth(scheme: &str, secret: &[u8], out: &mut Vec<u8>) {
    let packet = AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(secret.into()) };
    write_frame(out, |out| {
        RequestHeader { xid: Xid::AUTH.0, op: OpCode::Auth.wire() }.encode(out);
        packet.encode(out);
    });
}

/// Appends the connect request.
pub(crate) fn connect(request: &ConnectRequest, out: &mut Vec<u8>) {
    write_frame(out, |out| request.encode(out));
}

/// Received bytes that are not processed yet.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    consumed: usize,
}

/// The state of the next frame.
pub(crate) enum NextFrame {
    /// The range of a complete frame.
    Frame(std::ops::Range<usize>),
    /// More bytes are needed.
    Incomplete,
    /// An invalid length.
    Refused(i32),
}

impl FrameBuffer {
    pub(crate) fn clear(&mut self) {
        *self = FrameBuffer::default();
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Advances over the next frame.
    pub(crate) fn next(&mut self, limit: usize) -> NextFrame {
        match peek(&self.bytes[self.consumed..], limit) {
            Framed::Complete { length } => {
                let start = self.consumed + LENGTH_SIZE;
                self.consumed = start + length;
                NextFrame::Frame(start..start + length)
            }
            Framed::Partial => NextFrame::Incomplete,
            Framed::Refused { length } => NextFrame::Refused(length),
        }
    }

    pub(crate) fn bytes(&self, place: std::ops::Range<usize>) -> &[u8] {
        &self.bytes[place]
    }

    /// Discards the processed frames.
    pub(crate) fn compact(&mut self) {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        // A large reply must not keep its memory for the lifetime of the connection.
        if self.bytes.is_empty() && self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        }
    }
}
