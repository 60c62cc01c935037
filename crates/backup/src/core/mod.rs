//! What a backup decides: no sockets, no files, no clock. Time and randomness come in as arguments.

pub mod apply_plan;
pub mod archive;
pub mod difference;
pub mod follow;
pub mod learner;
pub mod learner_settings;
pub mod manifest;
pub mod memory;
pub mod names;
pub mod plan;
pub mod replay;
pub mod retention;
pub mod seal;
pub mod segment;
pub mod stay_end;
pub mod target;
pub mod verify;

/// The SHA-256 of bytes as lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes as lower-case hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
