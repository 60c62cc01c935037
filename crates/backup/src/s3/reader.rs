//! An object of a bucket as a stream of bytes. It is read in pieces, each by a request of its own: a lost
//! connection costs one piece, and the next piece comes while the reader works.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use object_store::aws::AmazonS3;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Bytes of a piece.
const PIECE: u64 = 8 << 20;

/// Attempts for one piece, and the pause between two. Each request is sent again several times too.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(300);

type Fetched = Result<Bytes, object_store::Error>;

/// Reads an object.
pub(super) struct PieceReader {
    store: Arc<AmazonS3>,
    runtime: Handle,
    meta: ObjectMeta,
    /// Where the piece after the next one begins.
    at: u64,
    piece: Bytes,
    next: Option<JoinHandle<Fetched>>,
}

impl PieceReader {
    pub(super) fn new(store: Arc<AmazonS3>, runtime: Handle, meta: ObjectMeta) -> PieceReader {
        let mut reader = PieceReader { store, runtime, meta, at: 0, piece: Bytes::new(), next: None };
        reader.fetch_next();
        reader
    }

    fn fetch_next(&mut self) {
        if self.at >= self.meta.size {
            return;
        }
        let end = (self.at + PIECE).min(self.meta.size);
        let fetching = fetch(self.store.clone(), self.meta.clone(), self.at, end);
        self.next = Some(self.runtime.spawn(fetching));
        self.at = end;
    }
}

async fn fetch(store: Arc<AmazonS3>, meta: ObjectMeta, start: u64, end: u64) -> Fetched {
    let mut attempt = 1;
    loop {
        let options = GetOptions {
            range: Some(GetRange::Bounded(start..end)),
            // The object must not be replaced between two pieces.
            if_match: meta.e_tag.clone(),
            ..GetOptions::default()
        };
        let error = match store.get_opts(&meta.location, options).await {
            Ok(result) => match result.bytes().await {
                Ok(bytes) if bytes.len() as u64 == end - start => return Ok(bytes),
                Ok(bytes) => {
                    let source = format!("the store sent {} bytes of {}", bytes.len(), end - start).into();
                    object_store::Error::Generic { store: "S3", source }
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        if attempt == ATTEMPTS || !matches!(error, object_store::Error::Generic { .. }) {
            return Err(error);
        }
        tokio::time::sleep(PAUSE * attempt).await;
        attempt += 1;
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty()
            && let Some(next) = self.next.take()
        {
            let fetched = self.runtime.block_on(next).map_err(io::Error::other)?;
            self.piece = fetched.map_err(|error| io::Error::other(super::reason(&error)))?;
            self.fetch_next();
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

impl Drop for PieceReader {
    fn drop(&mut self) {
        if let Some(next) = &self.next {
            next.abort();
        }
    }
}
