//! A client's socket in two parts: the connection task owns [`ClientSocket`], its connection owns
//! [`SharedWriter`].
//!
//! `connections.rs` states the rule which thread may write.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use crate::sync::{ReadHalf, WriteHalf, split};

/// The task's part. Both parts point to the same socket, so this one can write as well.
#[derive(Debug)]
pub(crate) struct ClientSocket(ReadHalf);

/// The part for direct sends. It does not decide which thread may write.
#[derive(Debug)]
pub(crate) struct SharedWriter(WriteHalf);

/// A read half of a socket that also writes.
pub(crate) trait WritableSocket {
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes as many bytes as the socket takes without waiting, and returns their number.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    fn shut_down_writing(&self) -> io::Result<()>;

    /// Whether the system holds received bytes.
    fn has_unread(&self) -> bool {
        false
    }
}

impl WritableSocket for OwnedReadHalf {
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.as_ref().poll_write_ready(context)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.as_ref().try_write(bytes)
    }

    fn shut_down_writing(&self) -> io::Result<()> {
        SockRef::from(self.as_ref()).shutdown(std::net::Shutdown::Write)
    }

    fn has_unread(&self) -> bool {
        has_unread(self.as_ref())
    }
}

/// Whether the system holds received bytes of a socket. The runtime may not know of them yet.
pub(crate) fn has_unread(stream: &TcpStream) -> bool {
    SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]).is_ok_and(|count| count > 0)
}

impl ClientSocket {
    pub(crate) fn new(stream: TcpStream) -> (ClientSocket, SharedWriter) {
        ClientSocket::from_halves(split(stream))
    }

    /// Whether the system holds received bytes.
    pub(crate) fn has_unread(&self) -> bool {
        self.0.has_unread()
    }

    pub(crate) fn from_halves((reader, writer): (ReadHalf, WriteHalf)) -> (ClientSocket, SharedWriter) {
        (ClientSocket(reader), SharedWriter(writer))
    }
}

impl SharedWriter {
    /// Writes as many bytes as the socket takes without waiting, and returns their number.
    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shut_down_writing())
    }
}
