//! ZooKeeper's file formats as bytes: log entries, snapshots, file names, and Zebu's own sync watermark.
//! Nothing here opens a file, reads a clock or starts a thread.

pub mod durable;
pub mod log;
pub mod names;
pub mod pending;
pub mod scan;
pub mod snappy;
pub mod snapshot;
