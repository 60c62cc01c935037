//! Backup of an ensemble and restore to any of its transactions. The backup process joins the leader as an
//! observer, so that it works with Zebu and with Apache ZooKeeper.
//!
//! [`core`] is pure: the learner, the log segments, the manifest, restore plans and checks. Around it stand
//! the targets, the connection to the leader and the files of a restored server.

pub mod core;
pub mod directory;
pub mod encryption;
pub mod restore;
pub mod run;
#[cfg(feature = "s3")]
pub mod s3;
pub mod spool;

pub use directory::DirectoryTarget;
