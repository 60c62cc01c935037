//! A blocking client that can send any bytes: requests, several at once, and what no client would send.
//! It owns one connection. It never reconnects, retries or interprets a reply beyond its header.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zebu_proto::client::connect::{ReadOnlyField, empty_password};
use zebu_proto::client::{ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, WatcherEvent};
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};
use zebu_proto::password::session_password;
use zebu_proto::{DecodeError, Jute, OpCode, Reader, SessionId, Xid};

/// How long a client waits for a frame unless told otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The session timeout that clients here ask for: the longest that the default tick time allows.
pub const SESSION_TIMEOUT_MS: i32 = 40_000;

/// Largest frame that is accepted from a server. Servers do not limit what they send.
const FRAME_MAX: usize = 64 << 20;

/// Why an exchange did not come about.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The socket failed.
    #[error("connection to {address}: {source}")]
    Io {
        /// The server.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A frame was expected and did not come.
    #[error("no frame from {address} within {patience:?}")]
    Silent {
        /// The server.
        address: SocketAddr,
        /// How long it was waited for.
        patience: Duration,
    },
    /// A frame was expected and the server closed the connection.
    #[error("{address} closed the connection where a frame was expected")]
    Closed {
        /// The server.
        address: SocketAddr,
    },
    /// The frame is not what it should be.
    #[error("frame from {address} does not decode: {source}")]
    Decode {
        /// The server.
        address: SocketAddr,
        /// Where it ends to make sense.
        source: DecodeError,
    },
}

/// A frame from the server, or the end of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The payload of one frame, without its length.
    Frame(Vec<u8>),
    /// The server closed the connection, cleanly or not.
    Closed,
    /// Nothing came in time.
    Nothing,
}

/// A frame after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A watch event.
    Event {
        /// Its header; the xid is -1.
        header: ReplyHeader,
        /// What happened.
        event: WatcherEvent,
    },
    /// The answer to a request.
    Reply {
        /// Its header.
        header: ReplyHeader,
        /// What follows the header.
        body: Vec<u8>,
    },
}

impl Message {
    /// Splits the payload of a frame.
    pub fn decode(payload: &[u8]) -> Result<Message, DecodeError> {
        let mut reader = Reader::new(payload);
        let header = ReplyHeader::decode(&mut reader)?;
        if header.xid == Xid::NOTIFICATION.0 {
            return Ok(Message::Event { header, event: WatcherEvent::decode(&mut reader)? });
        }
        Ok(Message::Reply { header, body: reader.rest().to_vec() })
    }
}

/// A session: what is needed to come back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its password.
    pub password: [u8; 16],
}

impl Session {
    /// The session with this id; the password follows from it.
    pub fn of(id: SessionId) -> Session {
        Session { id, password: session_password(id) }
    }

    /// The request that resumes it.
    pub fn resume_request(&self) -> ConnectRequest {
        ConnectRequest {
            session_id: self.id.0,
            password: Some(Arc::from(self.password)),
            ..new_session_request()
        }
    }
}

/// The request that opens a session, as today's clients send it. Change a field to be another client:
/// [`ReadOnlyField::Absent`] makes an old one.
pub fn new_session_request() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: SESSION_TIMEOUT_MS,
        session_id: 0,
        password: empty_password(),
        read_only: ReadOnlyField::Present(false),
    }
}

/// One connection. It blocks, so a test with a runtime calls it on a blocking thread.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let address = server.address();
/// use zebu_proto::OpCode;
/// use zebu_testing::RawClient;
///
/// # tokio::task::spawn_blocking(move || -> Result<(), zebu_testing::raw::RawError> {
/// let (mut client, session) = RawClient::open(address)?;
/// assert_ne!(session.id.0, 0);
/// client.send(OpCode::Ping, |_body| {})?;
/// println!("{:?}", client.receive_message()?);
/// # Ok(()) }).await??;
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct RawClient {
    address: SocketAddr,
    stream: TcpStream,
    received: Vec<u8>,
    queued: Vec<u8>,
    next_xid: i32,
    patience: Duration,
    read_timeout: Option<Duration>,
}

impl RawClient {
    /// Opens a connection and sends nothing.
    pub fn connect(address: SocketAddr) -> Result<RawClient, RawError> {
        let io = |source| RawError::Io { address, source };
        let stream = TcpStream::connect_timeout(&address, TIME_LIMIT).map_err(io)?;
        stream.set_nodelay(true).map_err(io)?;
        Ok(RawClient {
            address,
            stream,
            received: Vec::new(),
            queued: Vec::new(),
            next_xid: 1,
            patience: TIME_LIMIT,
            read_timeout: None,
        })
    }

    /// Opens a connection with a new session on it.
    pub fn open(address: SocketAddr) -> Result<(RawClient, Session), RawError> {
        let mut client = RawClient::connect(address)?;
        let response = client.handshake(&new_session_request())?;
        Ok((client, Session { id: SessionId(response.session_id), password: response.password }))
    }

    /// Opens a connection and takes `session` over to it. A rejected session shows in the response.
    pub fn resume(address: SocketAddr, session: &Session) -> Result<(RawClient, ConnectResponse), RawError> {
        let mut client = RawClient::connect(address)?;
        let response = client.handshake(&session.resume_request())?;
        Ok((client, response))
    }

    /// The server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets how long to wait for a frame.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sends a connect request and waits for the response.
    pub fn handshake(&mut self, request: &ConnectRequest) -> Result<ConnectResponse, RawError> {
        self.send_connect(request)?;
        let payload = self.receive_frame()?;
        ConnectResponse::decode(&mut Reader::new(&payload)).map_err(|source| self.undecodable(source))
    }

    /// Sends a connect request without waiting.
    pub fn send_connect(&mut self, request: &ConnectRequest) -> Result<(), RawError> {
        let mut bytes = Vec::new();
        frame::write_frame(&mut bytes, |out| request.encode(out));
        self.send_bytes(&bytes)
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), RawError> {
        self.stream.write_all(bytes).map_err(|source| RawError::Io { address: self.address, source })
    }

    /// Appends a request to those that [`RawClient::flush`] sends in one go; returns its xid.
    pub fn queue(&mut self, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Xid {
        let xid = Xid(self.next_xid);
        self.next_xid += 1;
        self.queue_as(xid, op.wire(), body);
        xid
    }

    /// Appends a request with any xid and any operation code.
    pub fn queue_as(&mut self, xid: Xid, op: i32, body: impl FnOnce(&mut Vec<u8>)) {
        frame::write_frame(&mut self.queued, |out| {
            RequestHeader { xid: xid.0, op }.encode(out);
            body(out);
        });
    }

    /// Appends bytes to what [`RawClient::flush`] sends.
    pub fn queue_bytes(&mut self, bytes: &[u8]) {
        self.queued.extend_from_slice(bytes);
    }

    /// Sends everything that was queued in one write.
    pub fn flush(&mut self) -> Result<(), RawError> {
        let queued = std::mem::take(&mut self.queued);
        self.send_bytes(&queued)
    }

    /// Sends one request; returns its xid.
    pub fn send(&mut self, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Result<Xid, RawError> {
        let xid = self.queue(op, body);
        self.flush()?;
        Ok(xid)
    }

    /// Sends one request and waits for its reply; events that come before it are returned with it.
    pub fn call(
        &mut self,
        op: OpCode,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(Vec<WatcherEvent>, ReplyHeader, Vec<u8>), RawError> {
        self.send(op, body)?;
        let mut events = Vec::new();
        loop {
            match self.receive_message()? {
                Message::Event { event, .. } => events.push(event),
                Message::Reply { header, body } => return Ok((events, header, body)),
            }
        }
    }

    /// Waits for an event or a reply.
    pub fn receive_message(&mut self) -> Result<Message, RawError> {
        let payload = self.receive_frame()?;
        Message::decode(&payload).map_err(|source| self.undecodable(source))
    }

    /// Waits for `count` events and replies.
    pub fn receive_messages(&mut self, count: usize) -> Result<Vec<Message>, RawError> {
        (0..count).map(|_| self.receive_message()).collect()
    }

    /// Waits for a frame; silence and a closed connection are errors.
    pub fn receive_frame(&mut self) -> Result<Vec<u8>, RawError> {
        match self.receive(self.patience)? {
            Received::Frame(payload) => Ok(payload),
            Received::Closed => Err(RawError::Closed { address: self.address }),
            Received::Nothing => Err(RawError::Silent { address: self.address, patience: self.patience }),
        }
    }

    /// Waits up to `patience` for what comes next.
    pub fn receive(&mut self, patience: Duration) -> Result<Received, RawError> {
        let deadline = Instant::now() + patience;
        loop {
            match frame::peek(&self.received, FRAME_MAX) {
                Framed::Complete { length } => {
                    let mut whole: Vec<u8> = self.received.drain(..LENGTH_SIZE + length).collect();
                    return Ok(Received::Frame(whole.split_off(LENGTH_SIZE)));
                }
                Framed::Refused { length } => {
                    return Err(self.undecodable(DecodeError::BadLength { at: 0, length }));
                }
                Framed::Partial => {}
            }
            match self.read_some(deadline, patience)? {
                Some(0) => return Ok(Received::Closed),
                Some(_) => {}
                None => return Ok(Received::Nothing),
            }
        }
    }

    /// Reads until the server closes the connection: the answer to a four-letter word.
    /// `None` if it does not close in time.
    pub fn receive_to_end(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, RawError> {
        let deadline = Instant::now() + patience;
        loop {
            match self.read_some(deadline, patience)? {
                Some(0) => return Ok(Some(std::mem::take(&mut self.received))),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Closes the sending side; the server still can answer.
    pub fn finish_sending(&self) {
        // The server may have closed first, which is as good.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Bytes read; zero when the server has closed, `None` at the deadline. A reset counts as closed:
    /// it only says that the server had not read everything.
    fn read_some(&mut self, deadline: Instant, patience: Duration) -> Result<Option<usize>, RawError> {
        let io = |source| RawError::Io { address: self.address, source };
        if Instant::now() >= deadline {
            return Ok(None);
        }
        // The socket keeps its timeout between reads, which saves a system call for each; a frame that
        // comes in pieces may therefore be waited for a little longer than asked.
        if self.read_timeout != Some(patience) {
            self.stream.set_read_timeout(Some(patience)).map_err(io)?;
            self.read_timeout = Some(patience);
        }
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                Ok(Some(count))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(None),
                io::ErrorKind::Interrupted => self.read_some(deadline, patience),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Ok(Some(0)),
                _ => Err(io(error)),
            },
        }
    }

    fn undecodable(&self, source: DecodeError) -> RawError {
        RawError::Decode { address: self.address, source }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that reads `wanted` bytes from its first client, sends `bytes`, closes, and returns what it
    /// got.
    fn serve(bytes: Vec<u8>, wanted: usize) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = vec![0; wanted];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(&bytes).unwrap();
            got
        });
        (address, server)
    }

    fn reply(xid: i32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::write_frame(&mut bytes, |out| {
            ReplyHeader { xid, zxid: 5, err: 0 }.encode(out);
            out.extend_from_slice(body);
        });
        bytes
    }

    #[test]
    fn pipelined_requests_are_one_write_and_replies_come_in_order() {
        let mut answer = reply(1, b"");
        frame::write_frame(&mut answer, |out| {
            ReplyHeader { xid: -1, zxid: 5, err: 0 }.encode(out);
            WatcherEvent { kind: 3, state: 3, path: Some("/a".into()) }.encode(out);
        });
        answer.extend(reply(2, b"xyz"));
        let (address, server) = serve(answer, 24);
        let mut client = RawClient::connect(address).unwrap();
        assert_eq!(client.queue(OpCode::Ping, |_| {}), Xid(1));
        assert_eq!(client.queue(OpCode::WhoAmI, |_| {}), Xid(2));
        client.flush().unwrap();
        let messages = client.receive_messages(3).unwrap();
        assert!(matches!(&messages[0], Message::Reply { header, .. } if header.xid == 1));
        assert!(matches!(&messages[1], Message::Event { event, .. } if event.path.as_deref() == Some("/a")));
        assert!(matches!(&messages[2], Message::Reply { body, .. } if body == b"xyz"));
        assert_eq!(client.receive(TIME_LIMIT).unwrap(), Received::Closed);
        let sent = server.join().unwrap();
        assert_eq!(sent[..12], [0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 11]);
    }

    #[test]
    fn an_old_client_gets_an_answer_without_the_last_byte() {
        let request = ConnectRequest { read_only: ReadOnlyField::Absent, ..new_session_request() };
        let response = ConnectResponse::accepted(SessionId(7), 4000, ReadOnlyField::Absent);
        let mut answer = Vec::new();
        frame::write_frame(&mut answer, |out| response.encode(out));
        let (address, server) = serve(answer, 48);
        let mut client = RawClient::connect(address).unwrap();
        assert_eq!(client.handshake(&request).unwrap(), response);
        assert_eq!(server.join().unwrap()[..4], [0, 0, 0, 44]);
    }

    #[test]
    fn silence_and_bad_lengths_are_told_apart() {
        let (address, _server) = serve(vec![255; 4], 4);
        let mut client = RawClient::connect(address).unwrap();
        assert_eq!(client.receive(Duration::from_millis(10)).unwrap(), Received::Nothing);
        client.send_bytes(b"ruok").unwrap();
        assert!(matches!(client.receive_frame(), Err(RawError::Decode { .. })));
    }
}
