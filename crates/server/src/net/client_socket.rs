//! A client's socket in two parts: the connection task owns [`ClientSocket`], its connection owns
//! [`SharedWriter`].
//!
//! `connections.rs` states the rule which thread may write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The task's part. Both parts point to the same socket, so this one can write as well.
#[derive(Debug)]
pub(crate) struct ClientSocket(OwnedReadHalf);

/// The part for direct sends. It does not decide which thread may write.
#[derive(Debug)]
pub(crate) struct SharedWriter(OwnedWriteHalf);

impl ClientSocket {
    pub(crate) fn new(stream: TcpStream) -> (ClientSocket, SharedWriter) {
        let (receiving, writer) = stream.into_split();
        (ClientSocket(receiving), SharedWriter(writer))
    }

    fn stream(&self) -> &TcpStream {
        self.0.as_ref()
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
            ready!(self.stream().poll_write_ready(context))?;
            match self.stream().try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.stream()).shutdown(std::net::Shutdown::Write))
    }
}
