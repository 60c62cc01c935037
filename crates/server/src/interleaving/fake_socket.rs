//! A TCP connection in memory, for explorations: the halves that the server uses, and the client's
//! end.
//!
//! The connection takes a bounded number of bytes before its reader takes some. It panics if two
//! threads write at the same time.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::net::WritableSocket;

/// The read half of a client's connection. The task that owns it may write too.
#[derive(Debug)]
pub(crate) enum TestReadHalf {
    Tcp(OwnedReadHalf),
    Fake(FakeHalf),
}

/// The write half of a client's connection or of a link.
#[derive(Debug)]
pub(crate) enum TestWriteHalf {
    Tcp(OwnedWriteHalf),
    Fake(FakeHalf),
}

/// Splits a real connection.
pub(crate) fn split(stream: TcpStream) -> (TestReadHalf, TestWriteHalf) {
    let (reader, writer) = stream.into_split();
    (TestReadHalf::Tcp(reader), TestWriteHalf::Tcp(writer))
}

impl AsyncRead for TestReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            TestReadHalf::Tcp(half) => Pin::new(half).poll_read(context, buffer),
            TestReadHalf::Fake(half) => half.poll_read(context, buffer),
        }
    }
}

impl WritableSocket for TestReadHalf {
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            TestReadHalf::Tcp(half) => WritableSocket::poll_write_ready(half, context),
            TestReadHalf::Fake(half) => half.poll_writable(context).map(Ok),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            TestReadHalf::Tcp(half) => WritableSocket::try_write(half, bytes),
            TestReadHalf::Fake(half) => half.try_write(bytes),
        }
    }

    fn shut_down_writing(&self) -> io::Result<()> {
        match self {
            TestReadHalf::Tcp(half) => WritableSocket::shut_down_writing(half),
            TestReadHalf::Fake(_) => Ok(()),
        }
    }
}

impl TestWriteHalf {
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            TestWriteHalf::Tcp(half) => half.try_write(bytes),
            TestWriteHalf::Fake(half) => half.try_write(bytes),
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            TestWriteHalf::Tcp(half) => half.writable().await,
            TestWriteHalf::Fake(half) => {
                std::future::poll_fn(|context| half.poll_writable(context)).await;
                Ok(())
            }
        }
    }
}

/// The bytes in flight on a connection.
#[derive(Debug, Default)]
struct FakeState {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// Bytes that the client has not read before the server must wait.
    window: usize,
    client_closed: bool,
    /// Halves that the server still has.
    open_halves: usize,
    /// Whether a thread is writing now.
    is_writing: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug)]
struct FakeConnection {
    state: shuttle::sync::Mutex<FakeState>,
    /// Notified when the client may read.
    arrived: shuttle::sync::Condvar,
}

/// One half of the server's end.
#[derive(Debug)]
pub(crate) struct FakeHalf(Arc<FakeConnection>);

/// The client's end.
#[derive(Clone, Debug)]
pub(crate) struct FakeClient(Arc<FakeConnection>);

/// A connection that takes `window` bytes for the client before the client reads.
pub(crate) fn fake_connection(window: usize) -> (TestReadHalf, TestWriteHalf, FakeClient) {
    let state = FakeState { window, open_halves: 2, ..FakeState::default() };
    let connection =
        Arc::new(FakeConnection { state: shuttle::sync::Mutex::new(state), arrived: Default::default() });
    let half = || FakeHalf(connection.clone());
    (TestReadHalf::Fake(half()), TestWriteHalf::Fake(half()), FakeClient(connection.clone()))
}

impl FakeConnection {
    fn lock(&self) -> shuttle::sync::MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeHalf {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.to_server.is_empty() && !state.client_closed {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = state.to_server.len().min(buffer.remaining());
        buffer.put_slice(&state.to_server[..count]);
        state.to_server.drain(..count);
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.room() > 0 || state.client_closed {
            return Poll::Ready(());
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes two steps, so that a second writer in between is found.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        assert!(!state.is_writing, "two threads write to one socket");
        if state.client_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if state.room() == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.is_writing = true;
        drop(state);
        let mut state = self.0.lock();
        state.is_writing = false;
        let count = bytes.len().min(state.room());
        state.to_client.extend_from_slice(&bytes[..count]);
        drop(state);
        self.0.arrived.notify_one();
        Ok(count)
    }
}

impl Drop for FakeHalf {
    fn drop(&mut self) {
        // A failed exploration has no scheduler any more.
        if !std::thread::panicking() {
            self.0.lock().open_halves -= 1;
            self.0.arrived.notify_one();
        }
    }
}

impl FakeState {
    fn room(&self) -> usize {
        self.window.saturating_sub(self.to_client.len())
    }
}

impl FakeClient {
    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut state = self.0.lock();
        state.to_server.extend_from_slice(bytes);
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Waits for bytes and takes all of them; empty after the server has closed the connection.
    pub(crate) fn receive(&self) -> Vec<u8> {
        let mut state = self.0.lock();
        while state.to_client.is_empty() && state.open_halves > 0 {
            state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let bytes = std::mem::take(&mut state.to_client);
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        bytes
    }

    /// Closes the client's end, and discards what was on the way.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.client_closed = true;
        let wakers = [state.reader.take(), state.writer.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether the server has closed both halves.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().open_halves == 0
    }

    /// Waits until the server has closed both halves.
    pub(crate) fn wait_for_close(&self) {
        while !self.receive().is_empty() {}
    }
}

/// Received bytes, split into frames.
#[derive(Debug, Default)]
pub(crate) struct FrameReader(Vec<u8>);

impl FrameReader {
    /// Waits for the next frame; `None` after the server has closed the connection.
    pub(crate) fn next(&mut self, client: &FakeClient) -> Option<Vec<u8>> {
        loop {
            if let Some((length, rest)) = self.0.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if rest.len() >= length {
                    let frame = rest[..length].to_vec();
                    self.0.drain(..4 + length);
                    return Some(frame);
                }
            }
            let bytes = client.receive();
            if bytes.is_empty() {
                assert!(self.0.is_empty(), "the connection ended inside a frame");
                return None;
            }
            self.0.extend(bytes);
        }
    }
}
