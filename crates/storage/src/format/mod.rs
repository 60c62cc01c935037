//! ZooKeeper's file formats as bytes: log entries, snapshots, file names, and Zebu's own small record of
//! what was made durable. Nothing here opens a file, reads a clock or keeps a thread.

pub mod durable;
pub mod log;
pub mod names;
pub mod pending;
pub mod scan;
pub mod snappy;
pub mod snapshot;
