//! The stream of one peer connection: plain TCP or TLS, with the bytes that were read ahead.
//!
//! A plain link gives its write half to the outbox, so that the core writes directly. Only the link's task
//! writes to a TLS stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::sync::{self, ReadHalf, WriteHalf};

type PeerTlsStream = TlsStream<TcpStream>;

/// The end-entity certificate that a peer proved to own, if its host names are to be checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PeerCertificate(pub(super) Option<Box<[u8]>>);

/// A connection between two servers.
#[derive(Debug)]
pub(super) struct PeerStream {
    transport: PeerTransport,
    /// Bytes that were read to recognize a protocol, for the next reader.
    unread: Vec<u8>,
    certificate: PeerCertificate,
}

#[derive(Debug)]
enum PeerTransport {
    Plain(TcpStream),
    Tls(Box<PeerTlsStream>),
}

impl PeerStream {
    pub(super) fn plain(stream: TcpStream) -> PeerStream {
        PeerStream {
            transport: PeerTransport::Plain(stream),
            unread: Vec::new(),
            certificate: PeerCertificate::default(),
        }
    }

    pub(super) fn tls(stream: PeerTlsStream, certificate: PeerCertificate) -> PeerStream {
        PeerStream { transport: PeerTransport::Tls(Box::new(stream)), unread: Vec::new(), certificate }
    }

    pub(super) fn certificate(&self) -> &PeerCertificate {
        &self.certificate
    }

    /// Whether the peer proved to own a certificate that this server trusts.
    pub(super) fn has_certificate(&self) -> bool {
        match &self.transport {
            PeerTransport::Plain(_) => false,
            PeerTransport::Tls(stream) => stream.get_ref().1.peer_certificates().is_some(),
        }
    }

    #[cfg(test)]
    pub(super) fn tcp(&self) -> &TcpStream {
        match &self.transport {
            PeerTransport::Plain(stream) => stream,
            PeerTransport::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Gives bytes back that the next reader must see.
    pub(super) fn put_back(&mut self, unread: Vec<u8>) {
        self.unread.splice(..0, unread);
    }

    /// Ends a connection on which nothing more is sent. A TLS peer may still be sending session tickets; to
    /// close the socket before they are read would take the sent bytes from the peer.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        if let PeerTransport::Tls(stream) = &mut self.transport {
            stream.shutdown().await?;
            tokio::io::copy(stream, &mut tokio::io::sink()).await?;
        }
        Ok(())
    }

    /// Splits the connection of a link.
    pub(super) fn into_link_halves(self) -> (LinkReader, LinkWriter) {
        match self.transport {
            PeerTransport::Plain(stream) => {
                let (reader, writer) = sync::split(stream);
                let half = LinkReadHalf::Plain(reader);
                (LinkReader { half, unread: self.unread }, LinkWriter::Direct(writer))
            }
            PeerTransport::Tls(stream) => {
                let (reader, writer) = tokio::io::split(*stream);
                let half = LinkReadHalf::Tls(reader);
                let writer = LinkWriter::TaskOnly(tokio::sync::Mutex::new(writer));
                (LinkReader { half, unread: self.unread }, writer)
            }
        }
    }
}

/// Copies bytes that were read ahead. Returns whether there were any.
fn take_unread(unread: &mut Vec<u8>, buffer: &mut ReadBuf<'_>) -> bool {
    if unread.is_empty() {
        return false;
    }
    let count = unread.len().min(buffer.remaining());
    buffer.put_slice(&unread[..count]);
    unread.drain(..count);
    true
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if take_unread(&mut self.unread, buffer) {
            return Poll::Ready(Ok(()));
        }
        match &mut self.transport {
            PeerTransport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            PeerTransport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            PeerTransport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            PeerTransport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            PeerTransport::Plain(stream) => Pin::new(stream).poll_flush(context),
            PeerTransport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            PeerTransport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            PeerTransport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// The reading half of a link.
#[derive(Debug)]
pub(super) struct LinkReader {
    half: LinkReadHalf,
    unread: Vec<u8>,
}

#[derive(Debug)]
enum LinkReadHalf {
    Plain(ReadHalf),
    Tls(tokio::io::ReadHalf<PeerTlsStream>),
}

/// The halves of a plain connection, also of one that exists in a test only.
impl From<ReadHalf> for LinkReader {
    fn from(half: ReadHalf) -> LinkReader {
        LinkReader { half: LinkReadHalf::Plain(half), unread: Vec::new() }
    }
}

impl From<WriteHalf> for LinkWriter {
    fn from(half: WriteHalf) -> LinkWriter {
        LinkWriter::Direct(half)
    }
}

impl AsyncRead for LinkReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if take_unread(&mut self.unread, buffer) {
            return Poll::Ready(Ok(()));
        }
        match &mut self.half {
            LinkReadHalf::Plain(half) => Pin::new(half).poll_read(context, buffer),
            LinkReadHalf::Tls(half) => Pin::new(half).poll_read(context, buffer),
        }
    }
}

/// The writing half of a link.
#[derive(Debug)]
pub(super) enum LinkWriter {
    /// Plain: the thread that owns the writer.
    Direct(WriteHalf),
    /// TLS: the link's task, so that no other waits for the lock.
    TaskOnly(tokio::sync::Mutex<tokio::io::WriteHalf<PeerTlsStream>>),
}

impl LinkWriter {
    /// Writes without waiting. A TLS connection refuses, and the task is woken for the bytes.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            LinkWriter::Direct(half) => half.try_write(bytes),
            LinkWriter::TaskOnly(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Writes all bytes, for the task.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        let half = match self {
            LinkWriter::Direct(half) => half,
            LinkWriter::TaskOnly(half) => {
                let mut half = half.lock().await;
                half.write_all(bytes).await?;
                return half.flush().await;
            }
        };
        while !bytes.is_empty() {
            match half.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => half.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
