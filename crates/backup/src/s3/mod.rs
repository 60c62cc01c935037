//! A bucket of S3, or of a store that speaks its protocol, as target. The manifest is replaced under the
//! condition that it is still the one that was read, so that a second writer stops.
//!
//! Objects appear whole: a short one by one request, a long one when its parts are joined.

mod conditions;
mod connection;
mod reader;
mod settings;
mod upload;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use tokio::runtime::Runtime;
use tracing::warn;

pub use conditions::Conditions;
pub use settings::{BucketStyle, PART_BYTES, PATIENCE, PlainHttp, RETRIES, S3Credentials, S3Settings};

use crate::core::manifest::INDEX_BYTES_MAX;
use crate::core::sha256;
use crate::core::target::{Content, MANIFEST, Revision, StoredManifest, Target, TargetError};

/// Bytes of an error that a message shows. Stores answer with documents.
const REASON_BYTES: usize = 400;

/// What happens to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketUse {
    /// It is written. Whether the store keeps conditions is tried out first.
    Write,
    /// It is read.
    Read,
}

/// A backup in a bucket.
pub struct S3Target {
    store: Arc<AmazonS3>,
    prefix: Path,
    place: String,
    conditions: Conditions,
    part_bytes: u64,
    /// Runs the connections. It is absent only while the target is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for S3Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Target").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Drop for S3Target {
    fn drop(&mut self) {
        // No thread waits for the connections, so that a target may be dropped anywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl S3Target {
    /// Opens a bucket. It must exist.
    pub fn open(settings: &S3Settings, bucket_use: BucketUse) -> Result<S3Target, TargetError> {
        let place = settings.place();
        let store = Arc::new(settings.build()?);
        let prefix = Path::parse(settings.prefix.trim_matches('/'))
            .map_err(|error| TargetError::Unusable(format!("{place}: {error}")))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("zebu-s3")
            .enable_all()
            .build()
            .map_err(|error| TargetError::io("cannot start a thread for the bucket", error))?;
        let (conditions, part_bytes) = (Conditions::Kept, settings.part_bytes);
        let mut target = S3Target { store, prefix, place, conditions, part_bytes, runtime: Some(runtime) };
        if bucket_use == BucketUse::Write {
            target.conditions = conditions::probe(&target)?;
            if target.conditions == Conditions::Ignored {
                warn!(
                    place = %target.place,
                    "the store has no conditional writes: a second backup process is found only by its manifest; \
                     make sure that one process writes to this place"
                );
            }
        }
        Ok(target)
    }

    /// What the store does with conditions.
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is taken only by drop")
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn failed(&self, verb: &str, name: &str, error: &object_store::Error) -> TargetError {
        let kind = match error {
            object_store::Error::Unauthenticated { .. } | object_store::Error::PermissionDenied { .. } => {
                io::ErrorKind::PermissionDenied
            }
            object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
            // Wildcard: the enum may grow, and all others are failures of the store.
            _ => io::ErrorKind::Other,
        };
        TargetError::io(format!("cannot {verb} {}/{name}", self.place), io::Error::new(kind, reason(error)))
    }

    fn read_manifest(&self) -> Result<Option<StoredManifest>, object_store::Error> {
        self.block_on(async {
            let result = match self.store.get_opts(&self.path(MANIFEST), GetOptions::default()).await {
                Ok(result) => result,
                Err(object_store::Error::NotFound { source, .. }) if !names_bucket(&*source) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let tag = result.meta.e_tag.clone();
            let mut stream = result.into_stream();
            let mut bytes = Vec::new();
            while let Some(piece) = stream.next().await {
                bytes.extend_from_slice(&piece?);
                if bytes.len() as u64 > INDEX_BYTES_MAX {
                    let source = format!("it has more than {INDEX_BYTES_MAX} bytes").into();
                    return Err(object_store::Error::Generic { store: "S3", source });
                }
            }
            Ok(Some(StoredManifest { revision: revision(tag, &bytes), bytes }))
        })
    }

    fn put_bytes(
        &self,
        name: &str,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<Option<String>, object_store::Error> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.block_on(self.store.put_opts(&self.path(name), bytes.into(), options))?;
        Ok(put.e_tag)
    }
}

/// The revision of a manifest: the tag of the store, or the checksum if the store has none.
fn revision(tag: Option<String>, bytes: &[u8]) -> Revision {
    Revision(tag.unwrap_or_else(|| sha256(bytes)))
}

/// Whether the missing thing is the bucket.
fn names_bucket(source: &(dyn Error + 'static)) -> bool {
    source.to_string().contains("NoSuchBucket")
}

/// An error with its causes, on one line and of a bounded length.
fn reason(error: &object_store::Error) -> String {
    let hint = match error {
        object_store::Error::Unauthenticated { .. } | object_store::Error::PermissionDenied { .. } => {
            "the store refused the credentials, or they lack a permission: "
        }
        object_store::Error::NotFound { source, .. } if names_bucket(&**source) => {
            "there is no such bucket: "
        }
        // Wildcard: the enum may grow, and all others need no hint.
        _ => "",
    };
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > REASON_BYTES {
        let end = (0..=REASON_BYTES).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    format!("{hint}{line}")
}

impl Target for S3Target {
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        upload::upload(self, name, content)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        match self.block_on(self.store.head(&self.path(name))) {
            Ok(meta) => {
                let handle = self.runtime().handle().clone();
                Ok(Box::new(reader::PieceReader::new(self.store.clone(), handle, meta)))
            }
            Err(object_store::Error::NotFound { .. }) => Err(TargetError::Missing { name: name.to_owned() }),
            Err(error) => Err(self.failed("open", name, &error)),
        }
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        let manifest = self.path(MANIFEST);
        self.block_on(async {
            let mut found = self.store.list(Some(&self.prefix));
            let mut names = Vec::new();
            while let Some(object) = found.next().await {
                let object = object.map_err(|error| self.failed("list", "", &error))?;
                if object.location == manifest {
                    continue;
                }
                if let Some(parts) = object.location.prefix_match(&self.prefix) {
                    let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
                    names.push(parts.join("/"));
                }
            }
            Ok(names)
        })
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        match self.block_on(self.store.delete(&self.path(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("remove", name, &error)),
        }
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        self.read_manifest().map_err(|error| self.failed("read", MANIFEST, &error))
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        let mode = match (self.conditions, expected) {
            (Conditions::Kept, None) => PutMode::Create,
            (Conditions::Kept, Some(revision)) => {
                PutMode::Update(UpdateVersion { e_tag: Some(revision.0.clone()), version: None })
            }
            (Conditions::Ignored, _) => {
                let found = self.manifest()?.map(|stored| stored.revision);
                if found.as_ref() != expected {
                    return Err(TargetError::Conflict);
                }
                PutMode::Overwrite
            }
        };
        match self.put_bytes(MANIFEST, Bytes::copy_from_slice(bytes), mode) {
            Ok(tag) => Ok(revision(tag, bytes)),
            Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => {
                Err(TargetError::Conflict)
            }
            Err(error) => Err(self.failed("write", MANIFEST, &error)),
        }
    }
}
