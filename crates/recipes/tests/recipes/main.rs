//! The recipes against a server, with a fault at every request that they make.
#![allow(clippy::print_stdout, reason = "a failing test says where it was")]

mod fault;
mod rig;

mod barriers;
mod caches;
mod commit;
mod compression;
mod discovery;
mod elections;
mod feed_caches;
mod herd;
mod isolation;
mod lock_contention;
mod locks;
mod membership;
mod mutex;
mod queues;
mod read_only;
mod session_file;
mod simple_lock;
mod unreachable;
mod values;
