//! An object on its way to a bucket: in one request, or in parts that are joined at the end.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStoreExt, PutMode};
use tokio::task::JoinSet;
use tracing::info;

use super::S3Target;
use crate::core::target::{Content, TargetError};

/// Stores join at most 10,000 parts.
const PARTS_MAX: u64 = 9_000;

/// Parts that are sent at the same time.
const PARTS_AT_ONCE: usize = 2;

/// A long upload says this often how far it is.
const NEWS: Duration = Duration::from_secs(10);

/// Sends an object.
pub(super) fn upload(target: &S3Target, name: &str, content: &dyn Content) -> Result<(), TargetError> {
    let unreadable = |error| TargetError::io(format!("cannot read the content of {name}"), error);
    if content.length() <= target.part_bytes {
        let bytes = content.open().and_then(|mut reader| part(&mut *reader, content.length()));
        let put = target.put_bytes(name, bytes.map_err(unreadable)?, PutMode::Overwrite);
        return put.map(drop).map_err(|error| target.failed("write", name, &error));
    }
    let begun = target.block_on(target.store.put_multipart(&target.path(name)));
    let mut parts = begun.map_err(|error| target.failed("write", name, &error))?;
    let sent = match send_parts(target, &mut *parts, name, content) {
        Ok(()) => target.block_on(parts.complete()).map(drop).map_err(SendError::Store),
        Err(error) => Err(error),
    };
    sent.map_err(|error| {
        // What cannot be removed now is removed by the bucket's rule for incomplete uploads.
        let _ = target.block_on(parts.abort());
        match error {
            SendError::Content(error) => unreadable(error),
            SendError::Store(error) => target.failed("write", name, &error),
            SendError::Task(error) => TargetError::io(format!("cannot write {name}"), error),
        }
    })
}

enum SendError {
    Content(io::Error),
    Store(object_store::Error),
    Task(io::Error),
}

fn send_parts(
    target: &S3Target,
    upload: &mut dyn MultipartUpload,
    name: &str,
    content: &dyn Content,
) -> Result<(), SendError> {
    let length = content.length();
    let part_length = target.part_bytes.max(length.div_ceil(PARTS_MAX));
    let mut reader = content.open().map_err(SendError::Content)?;
    let mut sending = JoinSet::new();
    let (mut begun, mut sent) = (0, 0);
    let mut said = Instant::now();
    while sent < length {
        while begun < length && sending.len() < PARTS_AT_ONCE {
            let count = part_length.min(length - begun);
            let bytes = part(&mut *reader, count).map_err(SendError::Content)?;
            let put = upload.put_part(bytes.into());
            sending.spawn_on(async move { put.await.map(|()| count) }, target.runtime().handle());
            begun += count;
        }
        let Some(done) = target.block_on(sending.join_next()) else { break };
        sent += done.map_err(|error| SendError::Task(io::Error::other(error)))?.map_err(SendError::Store)?;
        if said.elapsed() >= NEWS {
            said = Instant::now();
            info!(name, sent_bytes = sent, bytes = length, "sending a long object");
        }
    }
    Ok(())
}

/// The next bytes of the content, all of them.
fn part(reader: &mut dyn Read, count: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(usize::try_from(count).map_err(io::Error::other)?);
    reader.take(count).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == count { Ok(bytes.into()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
