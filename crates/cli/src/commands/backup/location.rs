//! Where a backup is, as the command line names it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use zebu_backup::core::archive::all_segments;
use zebu_backup::core::manifest::{Manifest, Segment};
use zebu_backup::core::target::Target;
use zebu_backup::directory::{DirectoryTarget, DirectoryUse};
use zebu_storage::FileDisk;

use super::access::AccessArguments;
use crate::offline::Failure;

/// The place of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A directory.
    Directory(PathBuf),
    /// A bucket of S3, and what the names of all objects begin with.
    Bucket {
        /// The name of the bucket.
        bucket: String,
        /// It may be empty.
        prefix: String,
    },
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Location, String> {
        match text.split_once("://") {
            None if text.is_empty() => Err("a backup needs a place".to_owned()),
            None => Ok(Location::Directory(text.into())),
            Some(("file", path)) => Ok(Location::Directory(path.into())),
            Some(("s3", place)) => {
                let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
                match bucket {
                    "" => Err("a bucket needs a name: s3://bucket/prefix".to_owned()),
                    bucket => {
                        let prefix = prefix.trim_matches('/').to_owned();
                        Ok(Location::Bucket { bucket: bucket.to_owned(), prefix })
                    }
                }
            }
            Some((scheme, _)) => Err(format!(
                "{scheme}:// is no place that this release writes to; name a directory or s3://bucket/prefix"
            )),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Directory(path) => path.display().fmt(f),
            Location::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

impl Location {
    /// Opens the place for its writer.
    pub(super) fn open_to_write(&self, access: &AccessArguments) -> Result<Box<dyn Target>, Failure> {
        match self {
            Location::Directory(path) => {
                let holder = format!("process {}", std::process::id());
                let target = DirectoryTarget::open(FileDisk, path, DirectoryUse::Write, &holder);
                Ok(Box::new(target.map_err(failure)?))
            }
            Location::Bucket { bucket, prefix } => open_bucket(access, bucket, prefix, PlaceUse::Write),
        }
    }

    fn open_to_read(&self, access: &AccessArguments) -> Result<Box<dyn Target>, Failure> {
        match self {
            Location::Directory(path) => {
                let target = DirectoryTarget::open(FileDisk, path, DirectoryUse::Read, "");
                Ok(Box::new(target.map_err(failure)?))
            }
            Location::Bucket { bucket, prefix } => open_bucket(access, bucket, prefix, PlaceUse::Read),
        }
    }

    /// Opens the place for a reader, who can decrypt it if the key was named.
    pub(super) fn open_for_reader(&self, access: &AccessArguments) -> Result<Box<dyn Target>, Failure> {
        access.with_key(self.open_to_read(access)?)
    }

    /// Opens the place and reads its index. A running backup may write to it meanwhile.
    pub(super) fn open(&self, access: &AccessArguments) -> Result<OpenedBackup, Failure> {
        let target = self.open_for_reader(access)?;
        let Some(stored) = target.manifest().map_err(failure)? else {
            return Err(Failure::Text(format!("{self} has no backup: it has no manifest.json")));
        };
        let manifest = Manifest::decode(&stored.bytes).map_err(failure)?;
        let segments = all_segments(&target, &manifest).map_err(failure)?;
        Ok(OpenedBackup { target, manifest, segments })
    }
}

/// What happens to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceUse {
    Write,
    Read,
}

#[cfg(feature = "s3")]
fn open_bucket(
    access: &AccessArguments,
    bucket: &str,
    prefix: &str,
    place_use: PlaceUse,
) -> Result<Box<dyn Target>, Failure> {
    use zebu_backup::s3::{BucketUse, S3Target};
    let bucket_use = match place_use {
        PlaceUse::Write => BucketUse::Write,
        PlaceUse::Read => BucketUse::Read,
    };
    let target = S3Target::open(&access.settings(bucket, prefix), bucket_use);
    Ok(Box::new(target.map_err(failure)?))
}

#[cfg(not(feature = "s3"))]
fn open_bucket(
    _access: &AccessArguments,
    bucket: &str,
    _prefix: &str,
    _place_use: PlaceUse,
) -> Result<Box<dyn Target>, Failure> {
    Err(Failure::Text(format!("s3://{bucket}: this build has no S3; build Zebu with --features s3")))
}

/// A backup that is read.
pub(crate) struct OpenedBackup {
    pub(crate) target: Box<dyn Target>,
    pub(crate) manifest: Manifest,
    /// All segments, oldest first.
    pub(crate) segments: Vec<Segment>,
}

/// An error of the backup as the answer of a tool.
pub(crate) fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Text(error.to_string())
}

/// A seed of hash tables: clients choose the names of nodes.
pub(crate) fn hash_seed() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::Text(format!("the system has no random numbers: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!("/backup".parse(), Ok(Location::Directory("/backup".into())));
        assert_eq!("file:///backup".parse(), Ok(Location::Directory("/backup".into())));
        let bucket =
            |bucket: &str, prefix: &str| Location::Bucket { bucket: bucket.into(), prefix: prefix.into() };
        assert_eq!("s3://b/x/y/".parse(), Ok(bucket("b", "x/y")));
        assert_eq!("s3://b".parse(), Ok(bucket("b", "")));
        assert!("s3://".parse::<Location>().is_err());
        assert!("ftp://host/backup".parse::<Location>().unwrap_err().contains("ftp://"));
        assert!("".parse::<Location>().is_err());
    }
}
