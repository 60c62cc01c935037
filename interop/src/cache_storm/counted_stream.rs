//! Connections that count the bytes that servers send.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use zebu_client::{Connector, ServerAddress, TcpConnector};

/// What the connections of some clients have received.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) bytes: AtomicU64,
    pub(super) connections: AtomicU64,
}

/// Opens connections that count.
pub(super) struct CountingConnector(pub(super) Arc<Received>);

impl Connector for CountingConnector {
    type Stream = CountedStream;

    async fn connect(&self, server: &ServerAddress, random: u64) -> io::Result<CountedStream> {
        let stream = TcpConnector.connect(server, random).await?;
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        Ok(CountedStream { stream, received: self.0.clone() })
    }
}

pub(super) struct CountedStream {
    stream: TcpStream,
    received: Arc<Received>,
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.received.bytes.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
