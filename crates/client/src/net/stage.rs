//! The stream of the moment: none, one that is being opened, or an open one with what is to be written.

use std::future::{self, Future};
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::core::LinkId;

type Opening<S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send>>;

/// What is left of the last batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Idle,
    From(usize),
    Flush,
}

/// An open stream.
pub(super) struct Open<S> {
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    out: Vec<u8>,
    writing: Writing,
}

/// The stream, if there is one.
pub(super) enum Stage<S> {
    None,
    Opening { link: LinkId, future: Opening<S> },
    Open { link: LinkId, open: Open<S> },
}

/// What a stream has done.
pub(super) enum Happened {
    Opened(LinkId),
    /// This many bytes are at the front of the buffer.
    Read(LinkId, usize),
    Wrote,
    Lost(LinkId, io::Error),
}

impl<S: AsyncRead + AsyncWrite> Stage<S> {
    /// Waits for whatever happens next. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, buffer: &mut [u8]) -> Happened {
        match self {
            Stage::None => future::pending().await,
            Stage::Opening { link, future } => {
                let link = *link;
                match future.await {
                    Ok(stream) => {
                        let (reader, writer) = tokio::io::split(stream);
                        let open = Open { reader, writer, out: Vec::new(), writing: Writing::Idle };
                        *self = Stage::Open { link, open };
                        Happened::Opened(link)
                    }
                    Err(error) => Happened::Lost(link, error),
                }
            }
            Stage::Open { link, open } => {
                let link = *link;
                match open.next(buffer).await {
                    Ok(Some(0)) => Happened::Lost(
                        link,
                        io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the server"),
                    ),
                    Ok(Some(count)) => Happened::Read(link, count),
                    Ok(None) => Happened::Wrote,
                    Err(error) => Happened::Lost(link, error),
                }
            }
        }
    }

    /// The buffer to fill, if the last batch is written.
    pub(super) fn batch(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Stage::Open { open, .. } if open.writing == Writing::Idle => {
                open.out.clear();
                Some(&mut open.out)
            }
            Stage::Open { .. } | Stage::None | Stage::Opening { .. } => None,
        }
    }

    /// The buffer was filled.
    pub(super) fn start_write(&mut self) {
        if let Stage::Open { open, .. } = self
            && !open.out.is_empty()
        {
            open.writing = Writing::From(0);
        }
    }

    pub(super) fn link(&self) -> Option<LinkId> {
        match self {
            Stage::None => None,
            Stage::Opening { link, .. } | Stage::Open { link, .. } => Some(*link),
        }
    }
}

impl<S: AsyncRead + AsyncWrite> Open<S> {
    /// Bytes that were read, or `None` when a step of writing was made.
    async fn next(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (reader, writer, out) = (&mut self.reader, &mut self.writer, &self.out);
        match self.writing {
            Writing::Idle => reader.read(buffer).await.map(Some),
            Writing::From(start) => tokio::select! {
                read = reader.read(buffer) => read.map(Some),
                written = writer.write(&out[start..]) => {
                    let end = start + written?;
                    if end == start {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    self.writing = if end == out.len() { Writing::Flush } else { Writing::From(end) };
                    Ok(None)
                }
            },
            Writing::Flush => tokio::select! {
                read = reader.read(buffer) => read.map(Some),
                flushed = writer.flush() => {
                    flushed?;
                    self.writing = Writing::Idle;
                    // A rare large batch must not keep its memory.
                    if self.out.capacity() > 4 << 20 {
                        self.out = Vec::new();
                    }
                    Ok(None)
                }
            },
        }
    }
}
