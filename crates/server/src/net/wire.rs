//! A socket whose sending half may be lent: the task of its connection has both halves, and while it has nothing to
//! send, the core may.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Both halves of a socket.
#[derive(Debug)]
pub(crate) struct Wire {
    receiving: OwnedReadHalf,
    sending: SendingHalf,
}

/// The half that may be lent. Who sends at a moment is not its business.
#[derive(Clone, Debug)]
pub(crate) struct SendingHalf(Arc<OwnedWriteHalf>);

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        let (receiving, sending) = stream.into_split();
        Wire { receiving, sending: SendingHalf(Arc::new(sending)) }
    }

    pub(crate) fn sending(&self) -> SendingHalf {
        self.sending.clone()
    }
}

impl SendingHalf {
    /// Sends what the socket takes without waiting; returns how much that was.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn stream(&self) -> &TcpStream {
        (*self.0).as_ref()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.receiving).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.sending.stream().poll_write_ready(context))?;
            match self.sending.send_now(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.sending.stream()).shutdown(std::net::Shutdown::Write))
    }
}
