//! Whether a store keeps the conditions of writes. Some refuse them, and some ignore them: a store of the
//! second kind would let two writers overwrite each other without an error.

use bytes::Bytes;
use object_store::{PutMode, UpdateVersion};

use super::S3Target;
use crate::core::target::TargetError;

/// The object with which it is tried out. It stays, as the lock file of a directory does.
pub(super) const PROBE: &str = "zebu-backup.probe";

/// A tag that no object has.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";

/// What a store does with conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// It keeps them.
    Kept,
    /// It refuses or ignores them.
    Ignored,
}

/// Writes an object, and then again under conditions that do not hold.
pub(super) fn probe(target: &S3Target) -> Result<Conditions, TargetError> {
    let bytes = Bytes::from_static(b"zebu backup tries out whether this store keeps conditions\n");
    let tag = match target.put_bytes(PROBE, bytes.clone(), PutMode::Overwrite) {
        Ok(tag) => tag,
        Err(error) => return Err(target.failed("write", PROBE, &error)),
    };
    if tag.is_none() {
        return Ok(Conditions::Ignored);
    }
    let other = UpdateVersion { e_tag: Some(NO_TAG.to_owned()), version: None };
    for mode in [PutMode::Create, PutMode::Update(other)] {
        match target.put_bytes(PROBE, bytes.clone(), mode) {
            Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => {}
            Ok(_) => return Ok(Conditions::Ignored),
            Err(error) if is_refusal(&error) => return Ok(Conditions::Ignored),
            Err(error) => return Err(target.failed("write", PROBE, &error)),
        }
    }
    Ok(Conditions::Kept)
}

/// Whether the store says that it does not know conditions. Other failures say nothing about that.
fn is_refusal(error: &object_store::Error) -> bool {
    let text = super::reason(error);
    ["NotImplemented", "InvalidArgument", "InvalidRequest", "501 Not Implemented", "400 Bad Request"]
        .iter()
        .any(|sign| text.contains(sign))
}
