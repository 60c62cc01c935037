//! The TLS side of a client's socket. Only its task writes it; there are no direct sends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::client_socket::has_unread;
use super::connection_task::TaskSocket;
use crate::core::context::ServerContext;

/// An encrypted connection after its handshake.
pub(crate) struct TlsSocket {
    stream: TlsStream<TcpStream>,
    /// Bytes that the session took and whose ciphertext is not sent yet.
    unflushed: usize,
    shared: Arc<ServerContext>,
}

impl TlsSocket {
    /// Counts the connection until it is dropped.
    pub(super) fn new(stream: TlsStream<TcpStream>, shared: Arc<ServerContext>) -> Box<TlsSocket> {
        shared.tls_use.connections.fetch_add(1, Ordering::AcqRel);
        Box::new(TlsSocket { stream, unflushed: 0, shared })
    }
}

/// Boxed, so that the task keeps its size.
impl TaskSocket for Box<TlsSocket> {
    fn send_close_notify(&mut self, context: &mut Context<'_>) {
        let _ = Pin::new(&mut self.stream).poll_shutdown(context);
    }

    fn has_unread(&self) -> bool {
        has_unread(self.stream.get_ref().0)
    }
}

impl Drop for TlsSocket {
    fn drop(&mut self) {
        self.shared.tls_use.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for TlsSocket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TlsSocket").field("unflushed", &self.unflushed).finish_non_exhaustive()
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.stream).poll_read(context, buffer)) {
            // Many clients close without close_notify; the protocol above has its own end.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}

impl AsyncWrite for TlsSocket {
    /// Ready when the ciphertext has left. A pending write must be repeated with the same bytes.
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.unflushed == 0 {
            self.unflushed = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        Poll::Ready(Ok(std::mem::take(&mut self.unflushed)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
