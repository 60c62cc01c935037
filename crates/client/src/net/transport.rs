//! The stream of the driver: none, being opened, or open with pending output.

use std::future::{self, Future};
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::core::LinkId;

type OpenFuture<S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send>>;

/// The progress of the current write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    Idle,
    From(usize),
    Flush,
}

/// An open stream.
pub(super) struct OpenStream<S> {
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    out: Vec<u8>,
    write_state: WriteState,
}

/// The current stream.
pub(super) enum Transport<S> {
    None,
    Opening { link: LinkId, future: OpenFuture<S> },
    Open { link: LinkId, open: OpenStream<S> },
}

/// An event of the stream.
pub(super) enum TransportEvent {
    Opened(LinkId),
    /// The number of bytes in the buffer.
    Read(LinkId, usize),
    Wrote,
    Lost(LinkId, io::Error),
}

fn closed(link: LinkId) -> TransportEvent {
    TransportEvent::Lost(link, io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the server"))
}

impl<S: AsyncRead + AsyncWrite> Transport<S> {
    /// Waits for the next event. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, buffer: &mut [u8]) -> TransportEvent {
        match self {
            Transport::None => future::pending().await,
            Transport::Opening { link, future } => {
                let link = *link;
                match future.await {
                    Ok(stream) => {
                        let (reader, writer) = tokio::io::split(stream);
                        let open =
                            OpenStream { reader, writer, out: Vec::new(), write_state: WriteState::Idle };
                        *self = Transport::Open { link, open };
                        TransportEvent::Opened(link)
                    }
                    Err(error) => TransportEvent::Lost(link, error),
                }
            }
            Transport::Open { link, open } => {
                let link = *link;
                match open.next(buffer).await {
                    Ok(Some(0)) => closed(link),
                    Ok(Some(count)) => TransportEvent::Read(link, count),
                    Ok(None) => TransportEvent::Wrote,
                    // TLS peers often end without close_notify, which rustls reports in many words.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => closed(link),
                    Err(error) => TransportEvent::Lost(link, error),
                }
            }
        }
    }

    /// The buffer to fill, if the last write is complete.
    pub(super) fn write_buffer(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Transport::Open { open, .. } if open.write_state == WriteState::Idle => {
                open.out.clear();
                Some(&mut open.out)
            }
            Transport::Open { .. } | Transport::None | Transport::Opening { .. } => None,
        }
    }

    /// Starts to write the filled buffer.
    pub(super) fn start_write(&mut self) {
        if let Transport::Open { open, .. } = self
            && !open.out.is_empty()
        {
            open.write_state = WriteState::From(0);
        }
    }

    pub(super) fn is_opening(&self) -> bool {
        matches!(self, Transport::Opening { .. })
    }

    pub(super) fn link(&self) -> Option<LinkId> {
        match self {
            Transport::None => None,
            Transport::Opening { link, .. } | Transport::Open { link, .. } => Some(*link),
        }
    }
}

impl<S: AsyncRead + AsyncWrite> OpenStream<S> {
    /// The number of bytes read, or `None` after a step of the write.
    async fn next(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (reader, writer, out) = (&mut self.reader, &mut self.writer, &self.out);
        match self.write_state {
            WriteState::Idle => reader.read(buffer).await.map(Some),
            WriteState::From(start) => tokio::select! {
                read = reader.read(buffer) => read.map(Some),
                written = writer.write(&out[start..]) => {
                    let end = start + written?;
                    if end == start {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    self.write_state = if end == out.len() { WriteState::Flush } else { WriteState::From(end) };
                    Ok(None)
                }
            },
            WriteState::Flush => tokio::select! {
                read = reader.read(buffer) => read.map(Some),
                flushed = writer.flush() => {
                    flushed?;
                    self.write_state = WriteState::Idle;
                    // A large batch must not keep its memory.
                    if self.out.capacity() > 4 << 20 {
                        self.out = Vec::new();
                    }
                    Ok(None)
                }
            },
        }
    }
}
