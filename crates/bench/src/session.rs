//! One connection with a session on it: frames out, frames in, nothing decided.

use std::io::ErrorKind;
use std::time::SystemTime;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zebu_proto::client::auth::SaslToken;
use zebu_proto::client::connect::{ConnectRequest, ConnectResponse, ReadOnlyField, empty_password};
use zebu_proto::client::{ReplyHeader, RequestHeader};
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};
use zebu_proto::{Jute, OpCode, Reader};
use zebu_security::sasl::{SaslClientStep, SaslFailure};

use crate::arrival;
use crate::run::BenchError;
use crate::server::{BenchServer, BenchStream};

pub(crate) const SESSION_TIMEOUT_MS: i32 = 30_000;
const REPLY_BYTES_MAX: usize = 512 << 20;
const READ_BYTES: usize = 64 * 1024;

/// A connection with a session on it.
pub(crate) struct BenchSession {
    stream: BenchStream,
    received: Vec<u8>,
    used: usize,
    send: Vec<u8>,
    xid: i32,
    /// Which session of the load this is.
    pub(crate) number: usize,
}

impl BenchSession {
    pub(crate) async fn open(server: &BenchServer, number: usize) -> Result<BenchSession, BenchError> {
        let address = server.address.as_str();
        let stream = BenchStream::open(server).await.map_err(|error| BenchError::io(address, error))?;
        let mut session =
            BenchSession { stream, received: Vec::new(), used: 0, send: Vec::new(), xid: 0, number };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: SESSION_TIMEOUT_MS,
            session_id: 0,
            password: empty_password(),
            read_only: ReadOnlyField::Present(false),
        };
        frame::write_frame(&mut session.send, |out| request.encode(out));
        session.flush().await?;
        let (start, end) = session.frame().await?;
        let response = ConnectResponse::decode(&mut Reader::new(&session.received[start..end]));
        if !response.is_ok_and(|response| response.session_id != 0) {
            return Err(BenchError::Refused(address.to_owned()));
        }
        session.authenticate(server).await?;
        Ok(session)
    }

    /// Authenticates the user of the server's sessions, if there is one.
    async fn authenticate(&mut self, server: &BenchServer) -> Result<(), BenchError> {
        let Some(login) = &server.sasl else { return Ok(()) };
        let refused = || BenchError::NotAuthenticated(server.address.clone());
        let login = login.clone();
        let host =
            server.address.rsplit_once(':').map_or(server.address.as_str(), |(host, _)| host).to_owned();
        let nonce = format!("{}.{}", std::process::id(), self.number);
        // A ticket may have to be fetched, which blocks.
        let begun = tokio::task::spawn_blocking(move || {
            let mut exchange = login.exchange(&host, nonce)?;
            let first = exchange.start()?;
            Ok::<_, SaslFailure>((exchange, first))
        });
        let (mut exchange, mut token) = begun.await.map_err(|_| refused())?.map_err(|_| refused())?;
        loop {
            self.request(OpCode::Sasl, |out| SaslToken { token: Some(token.into()) }.encode(out));
            self.flush().await?;
            let (start, end) = self.frame().await?;
            let mut reader = Reader::new(&self.received[start..end]);
            let header = ReplyHeader::decode(&mut reader).map_err(|_| BenchError::Garbage)?;
            if header.err != 0 {
                return Err(refused());
            }
            let answer = SaslToken::decode(&mut reader).map_err(|_| BenchError::Garbage)?.token;
            token = match exchange.step(answer.as_deref()) {
                SaslClientStep::Respond(response) => response,
                SaslClientStep::Complete => return Ok(()),
                SaslClientStep::Failed(_) => return Err(refused()),
            };
        }
    }

    /// Ends the session. All replies must have been taken.
    pub(crate) async fn close(mut self) -> Result<(), BenchError> {
        self.request(OpCode::CloseSession, |_| ());
        self.flush().await?;
        self.reply().await.map(drop)
    }

    /// Writes a request behind those that wait for [`BenchSession::flush`].
    pub(crate) fn request(&mut self, op: OpCode, body: impl FnOnce(&mut Vec<u8>)) {
        self.xid = self.xid.wrapping_add(1).max(1);
        let header = RequestHeader { xid: self.xid, op: op.wire() };
        frame::write_frame(&mut self.send, |out| {
            header.encode(out);
            body(out);
        });
    }

    pub(crate) async fn flush(&mut self) -> Result<(), BenchError> {
        self.stream.write_all(&self.send).await.map_err(BenchError::lost)?;
        self.stream.flush().await.map_err(BenchError::lost)?;
        self.send.clear();
        Ok(())
    }

    pub(crate) async fn reply(&mut self) -> Result<ReplyHeader, BenchError> {
        let (start, end) = self.frame().await?;
        ReplyHeader::decode(&mut Reader::new(&self.received[start..end])).map_err(|_| BenchError::Garbage)
    }

    /// The next reply, if it has been received in full.
    pub(crate) fn reply_at_hand(&mut self) -> Result<Option<ReplyHeader>, BenchError> {
        let payload = self.received.get(self.used..).unwrap_or_default();
        let Framed::Complete { length } = frame::peek(payload, REPLY_BYTES_MAX) else {
            return if self.has_frame() { Err(BenchError::Garbage) } else { Ok(None) };
        };
        let header = ReplyHeader::decode(&mut Reader::new(&payload[LENGTH_SIZE..LENGTH_SIZE + length]));
        self.used += LENGTH_SIZE + length;
        header.map(Some).map_err(|_| BenchError::Garbage)
    }

    /// Whether [`BenchSession::reply`] would not wait.
    pub(crate) fn has_frame(&self) -> bool {
        !matches!(frame::peek(&self.received[self.used..], REPLY_BYTES_MAX), Framed::Partial)
    }

    /// From now on all of these may be asked by [`BenchSession::arrived`].
    pub(crate) async fn note_arrivals(sessions: &[BenchSession]) -> Result<(), BenchError> {
        let sockets: Result<Vec<_>, _> = sessions.iter().map(|session| session.stream.plain()).collect();
        arrival::note(sockets.map_err(BenchError::Generator)?).await.map_err(BenchError::Generator)
    }

    /// Takes what has been sent to this machine already, without waiting, and says when it came.
    pub(crate) fn arrived(&mut self) -> Result<Option<SystemTime>, BenchError> {
        let socket = self.stream.plain().map_err(BenchError::Generator)?;
        arrival::receive(socket, &mut self.received).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => BenchError::Closed,
            _ => BenchError::lost(error),
        })
    }

    /// Waits for more bytes. Giving up loses none.
    pub(crate) async fn receive(&mut self) -> Result<(), BenchError> {
        self.received.drain(..self.used);
        self.used = 0;
        self.received.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.received).await.map_err(BenchError::lost)? {
            0 => Err(BenchError::Closed),
            _ => Ok(()),
        }
    }

    /// Where the next frame's payload is, waiting for it if needed.
    async fn frame(&mut self) -> Result<(usize, usize), BenchError> {
        loop {
            match frame::peek(&self.received[self.used..], REPLY_BYTES_MAX) {
                Framed::Complete { length } => {
                    let start = self.used + LENGTH_SIZE;
                    self.used = start + length;
                    return Ok((start, self.used));
                }
                Framed::Refused { .. } => return Err(BenchError::Garbage),
                Framed::Partial => self.receive().await?,
            }
        }
    }
}
