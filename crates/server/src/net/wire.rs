//! A socket in two parts: the task of its connection has one, with which it receives and sends. The other lies beside
//! the lane, and while the task has nothing to send, the core may.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The part of the task. Both parts are one pointer to the same socket, so this one can send as well.
#[derive(Debug)]
pub(crate) struct Wire(OwnedReadHalf);

/// The part that may be lent. Who sends at a moment is not its business.
#[derive(Debug)]
pub(crate) struct SendingHalf(OwnedWriteHalf);

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> (Wire, SendingHalf) {
        let (receiving, sending) = stream.into_split();
        (Wire(receiving), SendingHalf(sending))
    }

    fn stream(&self) -> &TcpStream {
        self.0.as_ref()
    }
}

impl SendingHalf {
    /// Sends what the socket takes without waiting; returns how much that was.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
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
